"""`brainroam run` reads every file once, and studies the people `brainroam loso` would."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from brainroam.cli import app
from brainroam.data.readers import locate
from brainroam.data.synthetic import make_cohort
from brainroam.evaluation.results import load_runs


def run(*arguments):
    done = CliRunner().invoke(app, [str(a) for a in arguments])
    assert done.exit_code == 0, done.output
    return done


@pytest.mark.usefixtures("undrawn")
def test_a_study_reads_every_file_once_and_leaves_out_who_lacks_signal(tmp_path, monkeypatch):
    cohort = make_cohort(n_sites=3, n_per_site=8, n_rois=10, seed=1)
    for x, subject in zip(cohort.series, cohort.table["subject"], strict=True):
        np.save(tmp_path / f"{subject}.npy", x * np.where(np.arange(10) < 5, 0, 1) if subject == "S01_0003" else x)
    people = cohort.table.rename(columns={"subject": "participant_id", "label": "diagnosis"})
    people[["participant_id", "site", "diagnosis"]].to_csv(tmp_path / "participants.tsv", sep="\t", index=False)
    (tmp_path / "study.yaml").write_text("data: .\nmethods: [fc-ridge, majority]\ntuning: fast\n")
    read, original = [], locate.read_series
    monkeypatch.setattr("brainroam.cli.run._short_audit", lambda *_: "")
    monkeypatch.setattr(locate, "read_series", lambda path, *a: read.append(path.stem) or original(path, *a))

    run("run", tmp_path / "study.yaml")
    assert sorted(read) == sorted(cohort.table["subject"])
    run("loso", tmp_path / "study.yaml", "--methods", "fc-ridge,majority", "--tuning", "fast", "--out", tmp_path / "b")
    ours, theirs = (pd.read_csv(tmp_path / out / "predictions.csv") for out in ("results/runs", "b"))
    pd.testing.assert_frame_equal(ours, theirs)
    assert "S01_0003" not in set(ours["subject"]) and len(set(ours["subject"])) == 23


def small_study(folder, methods, out="results"):
    text = f"data: synthetic\noptions: {{n_sites: 3, n_per_site: 8, n_rois: 8}}\nmethods: [{methods}]\ntuning: fast\n"
    (folder / "study.yaml").write_text(f"{text}out: {out}\n")
    return folder / "study.yaml"


def test_a_report_that_is_not_of_this_study_is_not_overwritten(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "report.html").write_text("somebody else's")
    study = small_study(tmp_path / "mine", "majority", out="../victim")
    done = CliRunner().invoke(app, ["run", str(study)])
    assert done.exit_code == 2 and "report.html" in done.output.replace("\n", "")
    assert [file.name for file in (tmp_path / "victim").iterdir()] == ["report.html"]
    assert (tmp_path / "victim" / "report.html").read_text() == "somebody else's"


@pytest.mark.usefixtures("undrawn")
def test_a_method_taken_out_of_the_study_file_is_not_missed(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["brainroam", "run", "study.yaml"])
    monkeypatch.setattr("brainroam.cli.run._short_audit", lambda *_: "")
    study = small_study(tmp_path, "majority, fc-ridge")
    with monkeypatch.context() as failing:
        failing.setattr("brainroam.methods.edge_ridge.EdgeRidge.fit", None)
        assert CliRunner().invoke(app, ["run", str(study)]).exit_code == 1
    assert len(load_runs(tmp_path / "results" / "runs", partial=True).study["failed"]) == 3
    small_study(tmp_path, "majority")
    run("run", study)
    assert set(load_runs(tmp_path / "results" / "runs").scores["method"]) == {"majority"}  # nothing is missing


@pytest.mark.usefixtures("undrawn")
def test_a_report_tells_of_the_study_as_it_is_now(tmp_path, monkeypatch):
    """Of no method that was taken out, finished or not, whatever the jobs; its runs are there when it comes back."""
    monkeypatch.setattr("brainroam.cli.run._short_audit", lambda *_: "")
    page, runs = tmp_path / "results" / "report.html", tmp_path / "results" / "runs"

    def study(methods, *more):
        file = small_study(tmp_path, methods)
        monkeypatch.setattr("sys.argv", ["brainroam", "run", "study.yaml", *map(str, more)])
        return CliRunner().invoke(app, ["run", str(file), *map(str, more)])

    with monkeypatch.context() as failing:
        failing.setattr("brainroam.methods.edge_ridge.EdgeRidge.fit", None)
        assert study("majority, confounds, fc-ridge").exit_code == 1
    assert "Incomplete" in page.read_text()
    assert study("majority, confounds, fc-ridge", "--skip", "fc-ridge").exit_code == 0
    assert "Incomplete" not in page.read_text() and len(load_runs(runs).scores["method"].unique()) == 2
    assert study("majority", "--jobs", 2).exit_code == 0
    assert set(load_runs(runs).scores["method"]) == {"majority"} and "confounds at" not in page.read_text()
    before = sorted((runs / "runs").iterdir())
    assert study("majority, confounds").exit_code == 0
    assert set(load_runs(runs).scores["method"]) == {"majority", "confounds"}
    assert sorted((runs / "runs").iterdir()) == before
    monkeypatch.setattr("sys.argv", ["brainroam", "loso", "study.yaml", "--methods", "log-ridge"])
    run("loso", tmp_path / "study.yaml", "--methods", "log-ridge", "--tuning", "fast", "--out", runs)
    assert study("majority, confounds").exit_code == 0
    assert "log-ridge" in set(load_runs(runs).scores["method"])  # asked for by another command


def test_a_plan_takes_tuning_and_jobs_from_the_study_file(tmp_path, monkeypatch):
    study, asked = small_study(tmp_path, "fc-ridge"), {}
    study.write_text(study.read_text() + "jobs: 2\n")

    def seen(*_, **options):
        asked.update(options)
        raise KeyboardInterrupt

    monkeypatch.setattr("brainroam.evaluation.planning.plan.make_plan", seen)
    CliRunner().invoke(app, ["plan", str(study), "--out", str(tmp_path / "plan")])
    assert (asked["tuning"], asked["jobs"]) == ("fast", 2)


@pytest.mark.usefixtures("undrawn")
def test_options_go_before_the_study_file(tmp_path, monkeypatch):
    monkeypatch.setattr("brainroam.cli.run._short_audit", lambda *_: "")
    study = small_study(tmp_path, "majority, fc-ridge")
    run("run", study, "--methods", "majority,confounds", "--skip", "confounds", "--out", tmp_path / "b", "--jobs", 2)
    assert set(load_runs(tmp_path / "b" / "runs").scores["method"]) == {"majority"}
    assert not (tmp_path / "results").exists()
    for skip, word in (("core", "core"), ("majority,fc-ridge", "no method")):
        refused = CliRunner().invoke(app, ["run", str(study), "--skip", skip])
        assert refused.exit_code == 2 and word in refused.output


@pytest.mark.usefixtures("undrawn")
def test_a_finished_study_runs_again_where_nothing_can_be_written(tmp_path, monkeypatch):
    """Nothing needs writing, and a folder that is kept for reading failed."""
    study = small_study(tmp_path, "majority, confounds")
    run("run", study, "--jobs", 2)

    def refuse(new, like):
        raise PermissionError(13, "Permission denied", str(new))

    monkeypatch.setattr("brainroam.utils.files._create", refuse)
    monkeypatch.setattr("brainroam.data.features.FeatureFolder.__init__", refuse)
    said = run("run", study, "--jobs", 2).output
    assert "all finished before" in said and "The report is" in said


@pytest.mark.usefixtures("undrawn")
def test_the_crate_lists_check_and_audit_whether_or_not_the_study_was_interrupted(tmp_path, monkeypatch):
    crates = []
    for name in ("whole", "interrupted"):
        (folder := tmp_path / name).mkdir()
        study = small_study(folder, "majority, confounds")
        if name == "interrupted":
            with monkeypatch.context() as patch:
                patch.setattr("brainroam.cli.run._short_audit", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
                assert CliRunner().invoke(app, ["run", str(study)]).exit_code == 130
        run("run", study)
        crate = json.loads((folder / "results" / "runs" / "ro-crate-metadata.json").read_text())
        crates.append([(part["@id"], part["@type"]) for part in crate["@graph"]])
    assert crates[0] == crates[1]
    assert {("check.json", "File"), ("audit.json", "File")} <= set(crates[0])
