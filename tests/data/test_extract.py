"""Volumes to series: what comes out of small volumes has to be the signal that was put into them."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fmriprep_tree import MOTION, SPACE, TR, VOLUMES, signals, write_labels, write_run, write_tree
from typer.testing import CliRunner

from brainroam.cli import app
from brainroam.data.extract.parcellation import load_parcellation
from brainroam.data.loading import load_cohort


@pytest.fixture(scope="module")
def bids(tmp_path_factory):
    """Four people of two sites, the last with a second run and some motion."""
    root = tmp_path_factory.mktemp("bids")
    people = pd.DataFrame(
        {"participant_id": [f"sub-0{k}" for k in range(1, 5)], "site": list("AABB"), "diagnosis": ["HC", "ASD"] * 2}
    )
    people = people.assign(age=[20, 30, 25, 35], sex=list("MFMF"))
    write_tree(root, people[:3], [0.1, 0.2, 0.3])
    people.to_csv(root / "participants.tsv", sep="\t", index=False)
    for run in (1, 2):
        folder = root / "derivatives" / "fmriprep" / "sub-04" / "func"
        write_run(folder, f"sub-04_task-rest_run-{run}", 40 + run, fd=0.2 * run)
    return root


def run(*typed):
    return CliRunner().invoke(app, [str(word) for word in typed])


def extracted(bids, out, *more):
    return run("extract", bids, "--atlas", bids / "labels.nii.gz", "--names", bids / "names.csv", "--out", out, *more)


@pytest.fixture(scope="module")
def series(bids, tmp_path_factory):
    out = tmp_path_factory.mktemp("out") / "series"
    result = extracted(bids, out)
    assert result.exit_code == 0, result.output
    return out


def read(path):
    return pd.read_csv(path, sep="\t", na_values="n/a")


def file_of(out, stem):
    return out / stem[:6] / "func" / f"{stem}_{SPACE}_seg-labels_stat-mean_timeseries.tsv"


def test_the_known_signal_comes_back(series):
    for stem, seed in (("sub-01_task-rest", 1), ("sub-03_task-rest", 3), ("sub-04_task-rest_run-2", 42)):
        table, known = read(file_of(series, stem)), signals(seed)
        assert list(table) == [f"Box {k}" for k in range(1, 7)] and len(table) == VOLUMES
        for k in range(5):
            # 26 regressors take a third of what is inside the band, signal included; the next test says exactly what
            alike = [np.corrcoef(table.iloc[:, k], known[:, j])[0, 1] for j in range(6)]
            assert alike[k] > 0.6 and np.argmax(alike) == k
            assert table.iloc[:, k].std() == pytest.approx(1, abs=1e-3)


def test_without_a_filter_it_is_the_residual_of_a_regression(bids, tmp_path):
    """The reference is plain least squares on the confounds that the preset names."""
    result = extracted(bids, tmp_path / "out", "--high-pass", "0", "--low-pass", "0")
    assert result.exit_code == 0, result.output
    folder = bids / "derivatives" / "fmriprep" / "sub-01" / "func"
    confounds = read(folder / "sub-01_task-rest_desc-confounds_timeseries.tsv").fillna(0)
    full = [f"{name}{ending}" for name in MOTION for ending in ("", "_derivative1", "_power2", "_derivative1_power2")]
    design = confounds[[*full, "csf", "white_matter", "cosine00"]].to_numpy()
    design = np.column_stack([design, np.ones(VOLUMES), np.arange(VOLUMES)])
    known = signals(1)
    expected = known - design @ np.linalg.lstsq(design, known, rcond=None)[0]
    table = read(file_of(tmp_path / "out", "sub-01_task-rest"))
    for k in range(5):
        assert np.corrcoef(table.iloc[:, k], expected[:, k])[0, 1] > 0.97  # noise: 48 voxels of variance 1


def test_without_confounds_motion_stays_in(bids, tmp_path):
    with_motion = extracted(bids, tmp_path / "raw", "--confounds", "none", "--high-pass", "0", "--low-pass", "0")
    assert with_motion.exit_code == 0, with_motion.output
    folder = bids / "derivatives" / "fmriprep" / "sub-01" / "func"
    moved = read(folder / "sub-01_task-rest_desc-confounds_timeseries.tsv")["trans_x"]
    detrended = moved - np.polyval(np.polyfit(np.arange(VOLUMES), moved, 1), np.arange(VOLUMES))
    raw = read(file_of(tmp_path / "raw", "sub-01_task-rest"))["Box 1"]
    assert abs(np.corrcoef(raw, detrended)[0, 1]) > 0.3


def test_a_region_mostly_outside_the_brain_is_missing(series):
    assert read(file_of(series, "sub-01_task-rest"))["Box 6"].isna().all()
    coverage = read(series / "sub-01" / "func" / f"sub-01_task-rest_{SPACE}_seg-labels_stat-coverage_bold.tsv")
    assert coverage.iloc[0].tolist() == [1, 1, 1, 1, 1, 0.25]  # one of four columns of voxels is inside the mask
    record = json.loads(file_of(series, "sub-01_task-rest").with_suffix(".json").read_text())
    assert record["MissingRegions"] == ["Box 6"] and record["RepetitionTime"] == TR
    assert record["Settings"]["confounds"] == "simple" and "trans_x" in record["Confounds"]
    assert not [name for name in record["Confounds"] if name.startswith(("cosine", "global"))]


def test_mean_fd_goes_into_the_table_of_people(series):
    people = read(series / "participants.tsv").set_index("participant_id")
    expected = {"sub-01": 0.1, "sub-02": 0.2, "sub-03": 0.3, "sub-04": 0.3}  # the last: two runs of 0.2 and 0.4
    assert people["mean_fd"].round(6).to_dict() == expected
    assert people.loc["sub-02", "diagnosis"] == "ASD"


def test_init_reads_it_without_a_question(series, tmp_path):
    result = run("init", series, "--out", tmp_path / "study.yaml")
    assert result.exit_code == 0, result.output
    assert "4 people of 2 sites, 2 with the condition, 6 regions" in result.output
    cohort = load_cohort(series)
    assert cohort.table["mean_fd"].round(6).tolist() == [0.1, 0.2, 0.3, 0.3]
    assert set(cohort.table["tr"]) == {TR}
    assert "confounds 'simple' without the global signal, high-pass 0.01 Hz" in cohort.prepared[0]
    assert cohort.missing_rois[:, 5].all() and not cohort.missing_rois[:, :5].any()
    assert cohort.atlas.networks == ("N1", "N1", "N1", "N2", "N2", "N2")
    np.testing.assert_allclose(cohort.atlas.coords[0], [-16, -22, -4], atol=4)  # middle of the first box


def test_what_is_there_is_not_done_again(bids, tmp_path):
    out = tmp_path / "series"
    assert extracted(bids, out).exit_code == 0
    kept, gone = file_of(out, "sub-01_task-rest"), file_of(out, "sub-02_task-rest")
    before = kept.stat().st_mtime_ns
    gone.with_suffix(".json").unlink()  # as if it had been stopped in the middle of this run
    again = extracted(bids, out, "--jobs", "2")
    assert again.exit_code == 0 and "5 runs of 4 people, 4 of them before" in again.output
    assert kept.stat().st_mtime_ns == before and gone.with_suffix(".json").is_file()
    other = extracted(bids, out, "--gsr")
    assert "before" not in other.output and kept.stat().st_mtime_ns > before
    assert "global_signal" in json.loads(kept.with_suffix(".json").read_text())["Confounds"]


def test_scrubbing_leaves_out_volumes_and_a_run_without_enough_fails_alone(tmp_path):
    root = tmp_path / "fmriprep"
    write_run(root / "sub-01" / "func", "sub-01_task-rest", 1, spikes=(50, 51))
    write_run(root / "sub-02" / "func", "sub-02_task-rest", 2, spikes=range(10, 239))
    write_labels(tmp_path)
    out = tmp_path / "series"
    result = run("extract", root, "--atlas", tmp_path / "labels.nii.gz", "--confounds", "scrubbing", "--out", out)
    assert result.exit_code == 1 and "sub-02_task-rest" in result.output
    runs = read(out / "runs.tsv").set_index("participant_id")
    assert runs.loc["sub-01", "volumes_kept"] < VOLUMES and np.isnan(runs.loc["sub-02", "volumes_kept"])
    assert "too little is left" in runs.loc["sub-02", "error"]
    assert "add site and diagnosis" in " ".join(result.output.split())


def test_spheres_need_no_network():
    power = load_parcellation("power264")
    affine = np.diag([3.0, 3, 3, 1])
    affine[:3, 3] = (-90, -126, -72)
    labels = power.on(affine, (61, 73, 61))
    assert set(np.unique(labels)) == set(range(265))
    for k in (1, 100, 264):
        centre = (affine[:3, :3] @ np.argwhere(labels == k).T + affine[:3, 3:]).mean(axis=1)
        assert np.linalg.norm(centre - power.table[["x", "y", "z"]].iloc[k - 1]) < 2


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (("--atlas", "schaefer150"), "neither a label image nor one of"),
        (("--atlas", "power264", "--confounds", "simpel"), "did you mean 'simple'?"),
        (("--atlas", "power264", "--task", "nback"), "unknown task 'nback'"),
        (("--atlas", "power264", "--low-pass", "0.3"), "nothing above 0.25 Hz is seen"),
        (("--atlas", "power264", "--high-pass", "0.2"), "is empty"),
        (("--atlas", "cc200"), "nilearn has no label image of cc200"),
    ],
)
def test_what_cannot_be_done_is_said(bids, tmp_path, typed, said):
    result = run("extract", bids, "--out", tmp_path / "out", *typed)
    assert result.exit_code in (1, 2) and said in " ".join(result.output.split())


def test_a_folder_without_volumes_is_refused(tmp_path):
    result = run("extract", tmp_path, "--atlas", "power264", "--out", tmp_path / "out")
    assert result.exit_code == 1 and "holds no preprocessed volumes" in " ".join(result.output.split())
    assert not Path(tmp_path / "out").exists()


def test_what_a_killed_command_left_half_written_is_cleared_away(bids, series):
    left = [series / ".runs.tsv.0123.part", file_of(series, "sub-01_task-rest").with_name(".sub-01.4567.part")]
    for file in left:
        file.write_text("half of")
    assert extracted(bids, series).exit_code == 0
    assert not any(file.exists() for file in left)
