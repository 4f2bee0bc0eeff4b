"""Out of core: the in-memory result, in blocks, on any engine, killed and started again, within a stated memory."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import brainroam
from brainroam.cli import app
from brainroam.cli.source import size_in_bytes
from brainroam.core.connectivity import EdgeKind
from brainroam.core.deconfound import SiteDeconfounder
from brainroam.core.site_statistics import site_statistics
from brainroam.data import stored_cohort
from brainroam.data.atlas import Atlas
from brainroam.data.store import write_store
from brainroam.data.stored_cohort import StoredArray
from brainroam.errors import DataError, ReaderError, UsageError
from brainroam.execution.out_of_core import Settings, StoredCohort, discard_work, find_scaffold
from brainroam.utils.model_files import load_model

PEARSON = Settings(kind="pearson", robust=False)
METHODS = [
    "fc-ridge",
    "log-ridge",
    "ensemble",
    "scaffold-ridge",
    "core[hidden=4,budget=4,updates=4,tau_percentile=60]",
]


@pytest.fixture
def small_parts(small_parts, monkeypatch):
    """Several blocks of columns too."""
    monkeypatch.setattr(stored_cohort, "COLUMNS", 30)


@pytest.mark.parametrize("method", METHODS)
def test_a_study_on_disk_is_the_study_in_memory(store, tmp_path, small_parts, method):
    people, on_disk = brainroam.load_cohort(store), StoredCohort(store, tmp_path)
    assert on_disk.manifest_hash == people.manifest_hash and on_disk.excluded.equals(people.excluded)
    one, other = (brainroam.evaluate(cohort, [method], held_out=["S01", "S04"]) for cohort in (people, on_disk))
    assert one.predictions["subject"].tolist() == other.predictions["subject"].tolist()
    last_digit = 1e-6 if method.startswith("core") else 1e-8  # the network computes in single precision
    for column in ("score", "probability"):
        np.testing.assert_allclose(other.predictions[column], one.predictions[column], atol=last_digit, rtol=0)


def test_dask_gives_the_same_bytes(store, tmp_path):
    alone, on_dask = (
        brainroam.evaluate(StoredCohort(store, tmp_path / engine), ["fc-ridge"], jobs=jobs, engine=engine)
        for engine, jobs in (("local", 1), ("dask", 1))
    )
    assert alone.predictions.equals(on_dask.predictions)


@pytest.mark.parametrize("deconfounding", ["site", "pooled"])
def test_blocks_give_what_memory_gives(store, tmp_path, small_parts, deconfounding):
    settings = Settings(kind="pearson", robust=False, deconfounding=deconfounding)
    people, on_disk = brainroam.load_cohort(store), StoredCohort(store, tmp_path)
    deconfounder = SiteDeconfounder(pooled=deconfounding == "pooled", slopes="shrunken")
    covariates = people.covariates(["age", "sex"])
    expected = site_statistics(people, covariates, deconfounder, EdgeKind("pearson"), "mean")
    evidence, found = find_scaffold(on_disk, settings)
    assert found.edges.tolist() == expected.scaffold(people.sites, 80, 0.75, 0.7).edges.tolist()
    np.testing.assert_allclose(evidence.contrast, expected.contrast, atol=1e-9)
    for name in ("mean_intercept_", "mean_coef_", "notes_"):
        one, other = (getattr(known.deconfounder, name) for known in (evidence, expected))
        assert one == other if name == "notes_" else np.allclose(one, other, atol=1e-9)


def test_rows_and_columns_of_an_array_on_disk_are_those_in_memory(tmp_path, small_parts, monkeypatch):
    values = np.random.default_rng(0).normal(size=(11, 70))
    array = StoredArray.create(tmp_path / "a.zarr", 11, 70)
    array.write(0, values[array.people(0)])
    array = StoredArray.create(tmp_path / "a.zarr", 11, 70)
    assert array.missing() == [1]  # what a killed command goes on with
    array.write(1, values[array.people(1)])
    people, wanted = np.array([10, 3, 4, 0]), np.array([0, 4, 33, 69])
    assert np.array_equal(array[people, wanted], values[np.ix_(people, wanted)])
    assert np.array_equal(array[people][1:, 5:40], values[people][1:, 5:40])
    assert np.array_equal(array[people] - values[0], values[people] - values[0])
    monkeypatch.setattr(stored_cohort, "MOST_BYTES", 100)
    with pytest.raises(UsageError, match="disk"):
        np.isfinite(array)


def test_a_damaged_value_is_noticed(tmp_path, small_parts):
    array = StoredArray.create(tmp_path / "a.zarr", 5, 70)
    array.write(0, np.ones((5, 70)))
    chunk = tmp_path / "a.zarr" / "values" / "c" / "0" / "1"
    data = bytearray(chunk.read_bytes())
    data[20] ^= 1
    chunk.write_bytes(data)
    assert array[:, 0:30].all()
    with pytest.raises(ReaderError, match=r"a\.zarr"):
        array[:, 20:40]


def test_what_is_finished_is_not_done_again(store, tmp_path, small_parts):
    cohort = StoredCohort(store, tmp_path)
    evidence, _ = find_scaffold(cohort, PEARSON)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.suffix == ".npz"}
    victim = sorted(files)[1]
    victim.write_bytes(victim.read_bytes()[:-30])
    again, _ = find_scaffold(StoredCohort(store, tmp_path), PEARSON)
    np.testing.assert_array_equal(again.contrast, evidence.contrast)
    assert [path for path, when in files.items() if path.stat().st_mtime_ns != when] == [victim]


def test_what_does_not_fit_is_refused(store, tmp_path):
    with pytest.raises(UsageError, match=r"--memory 0\.3GB"):
        StoredCohort(store, tmp_path, memory=0.3e9)
    with pytest.raises(UsageError, match="'S04'"):
        StoredCohort(store, tmp_path, sites=["S44"])
    with pytest.raises(UsageError, match="'iq'"):
        find_scaffold(StoredCohort(store, tmp_path), Settings(covariates=("iq",)))
    with pytest.raises(DataError, match="two sites"):
        find_scaffold(StoredCohort(store, tmp_path, sites=["S04"]))


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_commands_within_memory_write_the_same_predictions(store, tmp_path, small_parts):
    limit = ["--memory", "1GB"]
    for name, more in (("plain", []), ("bounded", limit)):
        out = tmp_path / name
        for command in (
            ["loso", store, "--methods", "fc-ridge", "--out", out / "runs"],
            ["fit", store, "--method", "ensemble", "--out", out / "model"],
            ["predict", out / "model", store, "--out", out / "p.csv"],
        ):
            result = run(*command, *more)
            assert result.exit_code == 0, result.output
    for table in ("runs/predictions.csv", "p.csv"):
        one, other = (pd.read_csv(tmp_path / name / table) for name in ("plain", "bounded"))
        np.testing.assert_allclose(other["probability"], one["probability"], atol=1e-8)
        assert one.drop(columns=["probability", "score"], errors="ignore").equals(
            other.drop(columns=["probability", "score"], errors="ignore")
        )
    assert sorted(path.name for path in (tmp_path / "bounded").iterdir()) == ["model", "p.csv", "runs"]


def test_the_scaffold_command_writes_table_and_arrays(store, tmp_path, small_parts):
    command = ["scaffold", store, "--out", tmp_path / "out", "--set", "kind=pearson", "--set", "robust=false"]
    result = run(*command, "--memory", "1GB")
    assert result.exit_code == 0, result.output
    table = pd.read_csv(tmp_path / "out" / "scaffold.csv")
    assert table["region_1"][0].startswith("ROI_") and f"{len(table)} of 120 edges" in result.stdout
    header, arrays = load_model(tmp_path / "out" / "evidence")
    assert header["n_people"] == 62 and arrays["contrast"].shape == (4, 120)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["evidence", "excluded.csv", "scaffold.csv"]
    stricter = run(*command[:3], tmp_path / "strict", *command[4:], "--set", "tau_percentile=95")
    assert stricter.exit_code == 0 and len(pd.read_csv(tmp_path / "strict" / "scaffold.csv")) < len(table)


def test_a_formula_in_an_id_or_a_region_is_no_formula_in_the_tables(tmp_path):
    made = brainroam.make_cohort(n_sites=3, n_per_site=10, n_rois=10)
    table = made.table
    table["subject"] = ["=1+1", "@sum", *table["subject"][2:]]
    table.loc[[0, 1], "label"] = np.nan
    atlas = Atlas("odd", tuple(f"=cmd({i})" for i in range(10)))
    store = write_store(tmp_path / "cohort.zarr", table, made.series, atlas)
    assert run("scaffold", store, "--out", tmp_path / "out", "--set", "tau_percentile=50").exit_code == 0
    assert (tmp_path / "out" / "excluded.csv").read_text() == "subject,reason\n'=1+1,no label\n'@sum,no label\n"
    assert set(pd.read_csv(tmp_path / "out" / "scaffold.csv")["region_1"].str[:2]) == {"'="}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--memory", "much"], "is no size"),
        (["--set", "tau=3"], "unknown setting 'tau'"),
        (["--engine", "dsk"], "did you mean 'dask'"),
        (["--set", "eta=x"], "eta must be a number"),
        (["--set", "robust=1"], "robust must be true or false"),
        (["--set", "huber_k=0"], "huber_k must be a number larger than 0"),
        (["--set", "deconfounding=none"], "deconfounding"),
    ],
)
def test_commands_that_cannot_be(store, tmp_path, options, words):
    result = run("scaffold", store, "--out", tmp_path / "out", *options)
    assert result.exit_code == 2 and words in result.stderr and "Traceback" not in result.stderr


def test_within_a_memory_only_stores_are_read(tmp_path):
    for command in (["scaffold", tmp_path, "--out", tmp_path / "out"], ["loso", tmp_path, "--memory", "1GB"]):
        result = run(*command)
        assert result.exit_code == 2 and f"brainroam convert {tmp_path}" in result.stderr.replace("\n", " ")


def test_sizes_are_read_in_usual_units_and_others_refused():
    assert size_in_bytes("2 gb") == 2e9 and size_in_bytes("1GiB") == 2**30
    for text in ("", "GB", "-2GB", "2 apples", "1.2.3GB", "0"):
        with pytest.raises(UsageError, match="2GB"):
            size_in_bytes(text)


def test_what_lay_in_the_work_folder_before_is_left_alone(store, tmp_path):
    work = tmp_path / "work"
    find_scaffold(StoredCohort(store, work), PEARSON)
    mine = work / "thesis.txt"
    mine.touch()
    discard_work(work)
    assert list(work.iterdir()) == [mine]
    mine.unlink()
    discard_work(work)
    assert not work.exists()


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kills a process")
def test_a_command_that_was_killed_goes_on_when_started_again(store, tmp_path):
    code = (
        "from brainroam.core import connectivity; connectivity.BLOCK = 4\n"
        "from brainroam.data import stored_cohort; stored_cohort.PEOPLE = 9\n"
        "from brainroam.cli import main; main()"
    )

    def start(out):
        command = ["loso", str(store), "--methods", "scaffold-ridge", "--memory", "1GB", "--out", str(out)]
        return subprocess.Popen(
            [sys.executable, "-c", code, *command], env=os.environ | {"OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def is_unchanged(path, when):
        try:
            return path.stat().st_mtime_ns == when
        except FileNotFoundError:
            return True  # the work is discarded once all is done

    process = start(tmp_path / "torn")
    while len(list(tmp_path.glob("torn.work/*/summaries/*.npz"))) < 10 and process.poll() is None:
        time.sleep(0.005)
    process.kill()
    process.wait()
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob("torn.work/*/summaries/*.npz")}
    assert len(kept) >= 10
    last = start(tmp_path / "torn")
    while last.poll() is None:
        assert all(is_unchanged(path, when) for path, when in kept.items())
        time.sleep(0.05)
    assert last.returncode == 0 and start(tmp_path / "whole").wait() == 0
    one, other = ((tmp_path / name / "predictions.csv").read_bytes() for name in ("torn", "whole"))
    assert one == other and sorted(path.name for path in tmp_path.iterdir()) == ["torn", "whole"]


def test_kinds_of_covariates_are_the_same_on_disk_and_in_memory(tmp_path):
    made = brainroam.make_cohort(n_sites=3, n_per_site=12, n_rois=8)
    coded = made.with_columns(pd.DataFrame({"scanner": np.resize([1.0, 2.0, 3.0], 36)}))
    store = write_store(tmp_path / "c.zarr", coded.table, coded.series)
    kinds = []
    for name, limit in (("memory", []), ("disk", ["--memory", "1GB"])):
        command = ["loso", store, "--methods", "fc-ridge", "--covariates", "scanner:category", "--out", tmp_path / name]
        result = run(*command, *limit)
        assert result.exit_code == 0, result.output
        kinds.append(json.loads((tmp_path / name / "study.json").read_text())["covariates"]["scanner"]["kind"])
    assert kinds == ["category", "category"]
    plain = run("loso", store, "--methods", "fc-ridge", "--covariates", "scanner", "--out", tmp_path / "disk")
    assert plain.exit_code != 0 and "covariates" in plain.stderr  # numbers are another study than categories


def test_the_least_memory_that_is_named_is_enough(store, tmp_path):
    cohort = StoredCohort(store, tmp_path)
    cohort.features.memory = 0.4e9
    with pytest.raises(UsageError, match="little") as refused:
        cohort.features.require_memory(0.01e9, "this")
    cohort.features.memory = 1e9 * float(re.search(r"at least ([0-9.]+)GB", str(refused.value))[1])
    cohort.features.require_memory(0.01e9, "this")


def test_a_model_of_cut_scans_does_not_load_a_store_to_cut_it(store, tmp_path):
    made = brainroam.make_cohort(n_sites=3, n_per_site=10, n_rois=16)
    made.save(tmp_path / "c.npz")
    assert (
        run("fit", tmp_path / "c.npz", "--method", "fc-ridge", "--crop", "80", "--out", tmp_path / "m").exit_code == 0
    )
    result = run("predict", tmp_path / "m", store, "--memory", "1GB", "--out", tmp_path / "p.csv")
    assert result.exit_code == 2 and "--crop" in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.npz", "m"]
