"""`brainroam run` reads every file once, and studies the people `brainroam loso` would."""

import numpy as np
import pandas as pd
from typer.testing import CliRunner

from brainroam.cli import app
from brainroam.data.readers import locate
from brainroam.data.synthetic import make_cohort


def run(*arguments):
    done = CliRunner().invoke(app, [str(a) for a in arguments])
    assert done.exit_code == 0, done.output
    return done


def test_a_study_reads_every_file_once_and_leaves_out_who_lacks_signal(tmp_path, monkeypatch):
    cohort = make_cohort(n_sites=3, n_per_site=8, n_rois=10, seed=1)
    for x, subject in zip(cohort.series, cohort.table["subject"], strict=True):
        np.save(tmp_path / f"{subject}.npy", x * np.where(np.arange(10) < 5, 0, 1) if subject == "S01_0003" else x)
    people = cohort.table.rename(columns={"subject": "participant_id", "label": "diagnosis"})
    people[["participant_id", "site", "diagnosis"]].to_csv(tmp_path / "participants.tsv", sep="\t", index=False)
    (tmp_path / "study.yaml").write_text("data: .\nmethods: [fc-ridge, majority]\ntuning: fast\n")
    read, original = [], locate.read_series
    monkeypatch.setattr(locate, "read_series", lambda path, *a: read.append(path.stem) or original(path, *a))

    run("run", tmp_path / "study.yaml")
    assert sorted(read) == sorted(cohort.table["subject"])
    run("loso", tmp_path / "study.yaml", "--methods", "fc-ridge,majority", "--tuning", "fast", "--out", tmp_path / "b")
    ours, theirs = (pd.read_csv(tmp_path / out / "predictions.csv") for out in ("results/runs", "b"))
    pd.testing.assert_frame_equal(ours, theirs)
    assert "S01_0003" not in set(ours["subject"]) and len(set(ours["subject"])) == 23
