"""Out of core: the in-memory result, in blocks, on any engine, killed and started again, within a stated memory."""

import os
import shutil
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
from brainroam.cli.scale import size_in_bytes
from brainroam.core.connectivity import edges
from brainroam.core.deconfound import SiteDeconfounder
from brainroam.core.scaffold import extract_scaffold
from brainroam.data.atlas import Atlas
from brainroam.data.store import write_store
from brainroam.errors import BrainroamError, DataError, UsageError
from brainroam.execution.out_of_core import Stages, discard_work, stream_evidence
from brainroam.execution.out_of_core import plan as plans
from brainroam.execution.out_of_core.edge_matrix import EdgeMatrix
from brainroam.utils.model_files import load_model

PEARSON = Stages(kind="pearson", robust=False)


@pytest.fixture(scope="module")
def cohort():
    """Every fallback there is: dead regions, empty covariates, a site of men, a person without a label."""
    made = brainroam.make_cohort(
        n_sites=4, n_per_site=14, n_rois=16, all_male_sites=1, constant_rois=6, missing_covariates=4, outliers=2
    )
    table = made.table
    table.loc[17, "label"] = np.nan
    series = made.series
    series[30] = np.where(np.arange(16) < 9, 1.0, series[30])  # lacks too many regions
    return brainroam.Cohort(series, table)


@pytest.fixture(scope="module")
def store(cohort, tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    return write_store(folder / "cohort.zarr", cohort.table, cohort.series, cohort.atlas)


@pytest.fixture
def small_parts(monkeypatch):
    """Several batches and several blocks, the last of each not full."""
    monkeypatch.setattr(plans, "MOST_PEOPLE", 9)
    monkeypatch.setattr(plans, "MOST_EDGES", 50)


def in_memory(cohort, stages):
    kept = cohort.exclude(cohort.table["label"].isna(), ["no label"]).exclude_missing()
    values = edges(kept.series, stages.kind, stages.shrinkage, stages.robust)
    site, y = kept.table["site"].to_numpy(), kept.labels
    deconfounder = SiteDeconfounder(pooled=stages.deconfounding == "pooled", slopes=stages.slopes).fit(
        values, y, covariates=kept.table[["age", "sex"]], site=site
    )
    residuals = deconfounder.site_residuals(values, np.arange(len(values)), slopes="site")
    return kept, values, deconfounder, extract_scaffold(residuals, y, site, huber_delta=np.inf)


@pytest.mark.parametrize(
    "stages", [PEARSON, Stages(), Stages(kind="pearson", robust=False, deconfounding="pooled")], ids=str
)
def test_blocks_give_what_memory_gives(cohort, store, tmp_path, small_parts, stages):
    kept, values, deconfounder, expected = in_memory(cohort, stages)
    evidence = stream_evidence(store, tmp_path, stages=stages)
    found = evidence.scaffold()
    assert evidence.plan.matrix.n_batches == 7 and evidence.plan.matrix.n_blocks == 3
    assert found.edges.tolist() == expected.edges.tolist() and found.sites == expected.sites
    for name in ("contrast", "consensus", "sign_consistency", "stability", "tau"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-9)
    for name in ("mean_intercept_", "mean_coef_"):
        np.testing.assert_allclose(getattr(evidence.deconfounder, name), getattr(deconfounder, name), atol=1e-9)
    people = kept.table[["age", "sex"]]
    np.testing.assert_allclose(
        evidence.deconfounder.transform(values, covariates=people),
        deconfounder.transform(values, covariates=people),
        atol=1e-9,
    )
    assert evidence.deconfounder.notes_ == deconfounder.notes_ != []
    assert evidence.people["subject"].tolist() == kept.table["subject"].tolist()
    assert sorted(evidence.excluded["reason"]) == sorted(kept.excluded["reason"])


def test_columns_and_rows_of_a_matrix_on_disk(tmp_path):
    values = np.random.default_rng(0).normal(size=(11, 23))
    wide, narrow = EdgeMatrix(tmp_path / "wide", 11, 23, 4, 5), EdgeMatrix(tmp_path / "narrow", 11, 6, 4, 6)
    wanted, people = np.array([0, 4, 5, 11, 20, 22]), np.array([10, 3, 4, 0])
    for k in range(3):
        wide.write(k, values[wide.people(k)], {})
        narrow.write(k, wide.columns(k, wanted), {})
    assert np.array_equal(narrow.rows(people), values[np.ix_(people, wanted)])


def test_what_is_finished_is_not_done_again(store, tmp_path, small_parts, monkeypatch):
    evidence = stream_evidence(store, tmp_path, stages=PEARSON)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    victims = [evidence.plan.result(1), evidence.plan.work / "edges" / "000003.edges"]
    victims[0].write_bytes(victims[0].read_bytes()[:-30])
    victims[1].write_bytes(victims[1].read_bytes()[:-8])
    again = stream_evidence(store, tmp_path, stages=PEARSON)
    np.testing.assert_array_equal(again.contrast, evidence.contrast)
    changed = {path for path, when in files.items() if path.stat().st_mtime_ns != when}
    assert changed == {*victims, victims[1].with_suffix(".json")}


def test_a_damaged_edge_value_is_noticed(tmp_path):
    matrix = EdgeMatrix(tmp_path, 5, 7, 2, 3)
    for k in range(3):
        matrix.write(k, np.zeros((5, 7))[matrix.people(k)], {})
    data = bytearray((tmp_path / "000001.edges").read_bytes())
    data[-1] ^= 1
    (tmp_path / "000001.edges").write_bytes(data)
    assert matrix.read(0).shape == (5, 3)
    with pytest.raises(BrainroamError, match=r"000001\.edges was damaged"):
        matrix.read(2)


def test_the_parts_follow_the_memory(store, tmp_path):
    sizes = []
    for memory in (1e12, 0.4e9, 0.301e9):
        plan = stream_evidence(store, tmp_path / f"{memory}", memory, PEARSON).plan
        sizes.append((plan.batch, plan.block))
    assert sizes[0] == (55, 120) == sizes[1] and sizes[2] < sizes[1]
    with pytest.raises(UsageError, match=r"--memory 0.6GB is too little for 55 people on 2 workers; give at least"):
        stream_evidence(store, tmp_path / "little", 0.6e9, PEARSON, jobs=2)


def test_covariates_and_sites_that_do_not_exist(store, tmp_path):
    with pytest.raises(DataError, match="no covariate 'iq'"):
        stream_evidence(store, tmp_path, stages=Stages(covariates=("iq",)))
    with pytest.raises(UsageError, match="did you mean 'S04'"):
        stream_evidence(store, tmp_path, sites=["S44"])
    with pytest.raises(DataError, match="at least two sites"):
        stream_evidence(store, tmp_path, sites=["S04"])


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_the_command(cohort, store, tmp_path, small_parts):
    command = ["scaffold", store, "--out", tmp_path / "out", "--set", "kind=pearson", "--set", "robust=false"]
    result = run(*command, "--memory", "1GB")
    assert result.exit_code == 0, result.output
    expected = in_memory(cohort, PEARSON)[3]
    table = pd.read_csv(tmp_path / "out" / "scaffold.csv")
    assert table["edge"].tolist() == expected.edges.tolist()
    np.testing.assert_allclose(table["consensus"], expected.consensus[expected.edges], atol=1e-9)
    assert table["region_1"][0].startswith("ROI_") and f"{len(expected)} of 120 edges" in result.stdout
    header, arrays = load_model(tmp_path / "out" / "evidence")
    assert header["n_people"] == 54 and arrays["contrast"].shape == (4, 120)
    assert "part 7 of 7" in result.stderr and "part 3 of 3" in result.stderr
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
    ],
)
def test_commands_that_cannot_be(store, tmp_path, options, words):
    result = run("scaffold", store, "--out", tmp_path / "out", *options)
    assert result.exit_code == 2 and words in result.stderr
    result = run("scaffold", tmp_path, "--out", tmp_path / "out")
    assert result.exit_code == 2 and f"brainroam convert {tmp_path}" in result.stderr.replace("\n", " ")


def test_sizes():
    assert size_in_bytes("2 gb") == 2e9 and size_in_bytes("1GiB") == 2**30
    for text in ("", "GB", "-2GB", "2 apples", "1.2.3GB", "0"):
        with pytest.raises(UsageError, match="write it like 2GB"):
            size_in_bytes(text)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("eta=x", "eta must be a number"),
        ("robust=1", "robust must be true or false"),
        ("huber_k=0", "huber_k must be a number larger than 0"),
        ("deconfounding=none", "unknown deconfounding 'none'"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(store, tmp_path, setting, message):
    result = run("scaffold", store, "--out", tmp_path / "out", "--set", setting)
    assert result.exit_code and message in result.stderr and "Traceback" not in result.stderr


def test_on_dask_the_same_bytes(store, tmp_path, small_parts):
    alone = stream_evidence(store, tmp_path / "alone", stages=PEARSON)
    on_dask = stream_evidence(store, tmp_path / "dask", stages=PEARSON, jobs=2, engine="dask")
    assert np.array_equal(alone.contrast, on_dask.contrast) and len(alone.scaffold()) == len(on_dask.scaffold())


def test_what_lay_in_the_work_folder_before_is_left_alone(store, tmp_path, small_parts):
    begun = [stream_evidence(store, tmp_path, stages=stages).plan.work for stages in (PEARSON, Stages())]
    work = tmp_path / "work"
    mine = work / "thesis" / "chapter.txt"
    mine.parent.mkdir()
    mine.write_text("do not delete")
    discard_work(work)
    assert mine.exists() and not any(folder.exists() for folder in begun)
    shutil.rmtree(mine.parent)
    discard_work(work)
    assert not work.exists()


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kills a process")
def test_killed_and_started_again(store, tmp_path):
    code = (
        "from brainroam.execution.out_of_core import plan; plan.MOST_PEOPLE, plan.MOST_EDGES = 2, 2\n"
        "from brainroam.cli import main; main()"
    )
    command = ["scaffold", str(store), "--set", "kind=pearson", "--set", "robust=false", "--out"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}

    def start(out):
        return subprocess.Popen(
            [sys.executable, "-c", code, *command, str(out)], env=environment, stderr=subprocess.PIPE, text=True,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip

    whole, torn = tmp_path / "whole", tmp_path / "torn"
    process = start(torn)
    while len(list(torn.glob("work/*/blocks/*.npz"))) < 5 and process.poll() is None:
        time.sleep(0.002)
    process.kill()
    process.communicate()
    kept = len(list(torn.glob("work/*/blocks/*.npz")))
    assert 5 <= kept < 60
    last = start(torn)
    lines = last.communicate()[1].splitlines()
    assert last.returncode == 0 and len(lines) == 60 - kept
    assert start(whole).wait() == 0
    assert (torn / "scaffold.csv").read_bytes() == (whole / "scaffold.csv").read_bytes()
