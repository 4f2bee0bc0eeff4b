"""Who is left out by name is not read: a damaged file of theirs stops nobody."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from brainroam import load_cohort
from brainroam.cli import app
from brainroam.errors import ReaderError

PEOPLE = [f"{k:03d}" for k in range(12)]


def run(*typed):
    return CliRunner().invoke(app, [str(word) for word in typed])


@pytest.fixture
def study(tmp_path):
    """Twelve people of three sites; the file of 007 is damaged."""
    root = tmp_path / "study"
    (root / "timeseries").mkdir(parents=True)
    table = pd.DataFrame({"participant_id": PEOPLE, "site": list("ABC") * 4, "diagnosis": ["HC", "MDD"] * 6})
    table.to_csv(root / "participants.tsv", sep="\t", index=False)
    for k, name in enumerate(PEOPLE):
        np.save(root / "timeseries" / f"{name}.npy", np.random.default_rng(k).normal(size=(30, 5)))
    damage(root / "timeseries" / "007.npy")
    return root


def damage(path):
    path.write_bytes(b"\x93NUMPY\x01\x00 and then the disk was full")


def test_a_damaged_file_names_the_person_and_how_to_go_on_without(study):
    with pytest.raises(ReaderError, match=r"subject 007: .*--exclude 007"):
        load_cohort(study)


@pytest.mark.parametrize("exclude", [["007"], ["sub-7"], "a file"])
def test_a_damaged_file_of_somebody_left_out_by_name_is_not_opened(study, tmp_path, exclude):
    (tmp_path / "out.txt").write_text("007\tdamaged\n")
    cohort = load_cohort(study, exclude=tmp_path / "out.txt" if exclude == "a file" else exclude)
    assert cohort.table["subject"].tolist() == [name for name in PEOPLE if name != "007"]
    why = "on the list of people to exclude" + (": damaged" if exclude == "a file" else "")
    assert cohort.excluded.to_numpy().tolist() == [["007", why]]
    assert cohort.table["n_timepoints"].dtype == int


def test_commands_and_study_files_leave_a_damaged_file_alone(study, tmp_path):
    (tmp_path / "study.yaml").write_text("data: study\nexclude: ['007']\n")
    for typed in ([study, "--exclude", "007"], [tmp_path / "study.yaml"]):
        checked = run("check", *typed, "--json")
        assert json.loads(checked.stdout)["n_people"] == 11, checked.output


def test_init_writes_whom_it_left_out_into_the_study_file(study, tmp_path):
    (tmp_path / "out.txt").write_text("007\n")
    for typed, written in (("7", "exclude: ['7']"), (tmp_path / "out.txt", "exclude: out.txt")):
        made = run("init", study, "--exclude", typed, "--out", tmp_path / "study.yaml", "--force")
        assert made.exit_code == 0 and "1 left out" in made.output, made.output
        assert written in (tmp_path / "study.yaml").read_text()
        assert len(load_cohort(tmp_path / "study.yaml")) == 11


def test_motion_files_of_xcp_d_of_somebody_left_out_are_not_opened(tmp_path):
    root = tmp_path / "xcp"
    for k, name in enumerate(PEOPLE):
        stem = root / f"sub-{name}" / "func" / f"sub-{name}_task-rest_"
        stem.parent.mkdir(parents=True)
        series = np.random.default_rng(k).normal(size=(30, 3))
        file = stem.with_name(stem.name + "seg-Mine_timeseries.tsv")
        np.savetxt(file, series, "%.6f", "\t", header="a\tb\tc", comments="")
        motion = stem.with_name(stem.name + "motion.tsv")
        motion.write_text("framewise_displacement\n0.1\n0.3\n")
    table = pd.DataFrame({"participant_id": PEOPLE, "site": list("ABC") * 4, "diagnosis": ["HC", "MDD"] * 6})
    table.to_csv(root / "participants.tsv", sep="\t", index=False)
    (root / "sub-007/func/sub-007_task-rest_motion.tsv").write_bytes(b"\x00\x01\x02")
    cohort = load_cohort(root, exclude=["007"])
    np.testing.assert_allclose(cohort.table["mean_fd"], [0.2] * 11)


def test_matrices_beside_series_are_read_but_those_of_somebody_left_out(study, tmp_path):
    (tmp_path / "task").mkdir()
    for k, name in enumerate(PEOPLE):
        np.save(tmp_path / "task" / f"{name}.npy", np.corrcoef(np.random.default_rng(k).normal(size=(4, 30))))
    damage(tmp_path / "task" / "007.npy")
    cohort = load_cohort(study, exclude=["007"], blocks={"task": {"matrices": str(tmp_path / "task")}})
    assert len(cohort) == 11 and cohort.has_block("task").all() and cohort.has_block("series").all()


def test_an_array_of_everybody_keeps_its_order_when_somebody_is_left_out(study, tmp_path):
    everybody = np.random.default_rng(0).normal(size=(12, 6))
    np.save(tmp_path / "volumes.npy", everybody)
    cohort = load_cohort(study, exclude=["007"], blocks={"anatomy": {"matrices": str(tmp_path / "volumes.npy")}})
    assert "007" not in cohort.table["subject"].tolist()
    np.testing.assert_array_equal(np.concatenate(cohort.block("anatomy").series), np.delete(everybody, 7, axis=0))
