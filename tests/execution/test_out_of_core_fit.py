"""CORE fitted out of core: the model of the in-memory fit, within a stated memory, killed and started again."""

import os
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
from brainroam.core.pathways import Profiles, profiles_of
from brainroam.data.store import write_store
from brainroam.errors import UsageError
from brainroam.execution.out_of_core import open_cohort
from brainroam.execution.out_of_core import plan as plans
from brainroam.execution.out_of_core.people import StoredProfiles
from brainroam.methods.core import PAPER
from brainroam.methods.registry import method_info
from brainroam.methods.tuning import Selected
from brainroam.utils.model_files import load_model

SMALL = {"hidden": 8, "budget": 4, "tau_percentile": 60, "epochs": 3}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Every fallback there is: dead regions, empty covariates, a site of men, people to be left out."""
    made = brainroam.make_cohort(
        n_sites=4, n_per_site=16, n_rois=16, all_male_sites=1, constant_rois=6, missing_covariates=4, outliers=2
    )
    table, series = made.table, made.series
    table.loc[17, "label"] = np.nan
    series[30] = np.where(np.arange(16) < 9, 1.0, series[30])  # lacks too many regions
    series[40] = series[40][:25]  # shorter than a window
    return write_store(tmp_path_factory.mktemp("store") / "cohort.zarr", table, series, made.atlas)


@pytest.fixture
def small_parts(monkeypatch):
    """Several batches and several blocks, the last of each not full."""
    monkeypatch.setattr(plans, "MOST_PEOPLE", 9)
    monkeypatch.setattr(plans, "MOST_EDGES", 50)


def fitted(cohort, **parameters):
    return Selected(method_info("core"), "full", **SMALL | {"on_short": "exclude"} | parameters).fit(cohort)


VARIANTS = {
    "core": {},
    "epochs chosen": {"epochs": None, "max_epochs": 2},
    "paper": PAPER | {"hidden": 8},
    "pooled": {"deconfounding": "pooled"},
    "controls": {"fit_on": "controls", "profiles": False},
    "grid": {"tau_percentile": [50, 60], "eta": [0.5, 0.75], "inner_sites": 2, "gated": False},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_the_model_of_the_fit_in_memory(store, tmp_path, small_parts, name):
    people = brainroam.load_cohort(store)
    expected = fitted(people, **VARIANTS[name])
    on_disk = open_cohort(store, tmp_path)
    found = fitted(on_disk, **VARIANTS[name])
    assert on_disk.manifest_hash == people.manifest_hash and on_disk.table.equals(people.table)
    assert on_disk.excluded.equals(people.excluded)
    one, other = expected.state(), found.state()
    assert one.keys() == other.keys()
    for key, value in one.items():
        if value.dtype.kind == "f":
            np.testing.assert_allclose(other[key], value, atol=1e-6, err_msg=key)
        else:  # edges, notes, levels of covariates
            np.testing.assert_array_equal(other[key], value, err_msg=key)
    np.testing.assert_allclose(found.inner_scores_, expected.inner_scores_, atol=1e-6)
    np.testing.assert_allclose(found.probability(people), expected.probability(people), atol=1e-6)


def test_profiles_from_disk(store, tmp_path, small_parts):
    cohort, people = open_cohort(store, tmp_path), brainroam.load_cohort(store)
    long = people.table["n_timepoints"].to_numpy() >= 30
    cohort, people = cohort.subset(long), people.subset(long)
    edges, window, stride = np.array([2, 5, 60, 119]), np.full(len(people), 30), np.full(len(people), 5)
    found = profiles_of(cohort, edges, window, stride)
    expected = Profiles.compute(people.series, edges, 30, 5)
    assert isinstance(found, StoredProfiles)
    some, of = np.arange(len(people)) % 3 == 1, np.array([5, 119])
    assert np.array_equal(found.of(of, some), expected.of(of, some), equal_nan=True)
    assert np.array_equal(found.of(of), expected.of(of), equal_nan=True)


def test_what_needs_everybody_in_memory_is_refused(store, tmp_path):
    cohort = open_cohort(store, tmp_path)
    with pytest.raises(UsageError, match="out of core, fit core or a variant"):
        Selected(method_info("fc-ridge"), "default").fit(cohort)
    with pytest.raises(UsageError, match="use bootstrap=sites"):
        fitted(cohort, bootstrap="hierarchical")


def test_too_little_memory_to_train_is_refused_before_training(store, tmp_path):
    with pytest.raises(UsageError, match=r"--memory 0.4GB is too little to train on \d+ pathways of 61 people; give"):
        fitted(open_cohort(store, tmp_path, memory=0.4e9))


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


SETTINGS = [f"--set={name}={value}" for name, value in (SMALL | {"on_short": "exclude"}).items()]


def test_the_command_writes_the_model_of_the_one_in_memory(store, tmp_path, small_parts):
    plain = run("fit", store, "--out", tmp_path / "plain", *SETTINGS)
    bounded = run("fit", store, "--out", tmp_path / "bounded", "--memory", "1GB", *SETTINGS)
    assert plain.exit_code == 0 and bounded.exit_code == 0, bounded.output
    assert bounded.stdout.startswith("2 people were left out") == plain.stdout.startswith("2 people were left out")
    (one, expected), (other, found) = (load_model(tmp_path / name) for name in ("plain", "bounded"))
    for header in (one, other):
        for key in ("sha256", "arrays_sha256", "calibration", "created"):
            header.pop(key, None)
    assert one == other and one["method"] == "core"
    for key, value in expected.items():
        np.testing.assert_allclose(found[key].astype(float), value.astype(float), atol=1e-6, err_msg=key)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bounded", "plain"]
    tables = []
    for name in ("plain", "bounded"):
        assert run("predict", tmp_path / name, store, "--out", tmp_path / f"{name}.csv").exit_code == 0
        tables.append(pd.read_csv(tmp_path / f"{name}.csv"))
    np.testing.assert_allclose(tables[0]["probability"], tables[1]["probability"], atol=1e-6)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--memory", "much"], "is no size"),
        (["--memory", "1MB"], "is too little"),
        (["--jobs", "2"], "--jobs shares out the work of --memory"),
        (["--memory", "1GB", "--method", "champion"], "out of core, fit core or a variant"),
    ],
)
def test_commands_that_cannot_be(store, tmp_path, options, words):
    result = run("fit", store, "--out", tmp_path / "model", *options)
    assert result.exit_code == 2 and words in result.stderr.replace("\n", " ")


def test_fit_within_a_memory_needs_a_store(tmp_path):
    result = run("fit", tmp_path, "--memory", "1GB")
    assert result.exit_code == 2 and f"brainroam convert {tmp_path}" in result.stderr.replace("\n", " ")


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kills a process")
def test_killed_and_started_again(store, tmp_path):
    code = (
        "from brainroam.execution.out_of_core import plan; plan.MOST_PEOPLE, plan.MOST_EDGES = 9, 4\n"
        "from brainroam.cli import main; main()"
    )

    def start(out):
        command = ["fit", str(store), "--memory", "1GB", *SETTINGS, "--out", str(out)]
        return subprocess.Popen(
            [sys.executable, "-c", code, *command], env=os.environ | {"OMP_NUM_THREADS": "1"}, stderr=subprocess.PIPE,
            text=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip

    process = start(tmp_path / "torn")
    while len(list(tmp_path.glob("torn.work/*/blocks/*.npz"))) < 10 and process.poll() is None:
        time.sleep(0.005)
    process.kill()
    process.communicate()
    kept = len(list(tmp_path.glob("torn.work/*/blocks/*.npz")))
    assert 10 <= kept < 30 and not (tmp_path / "torn").exists()
    last = start(tmp_path / "torn")
    lines = [line for line in last.communicate()[1].splitlines() if "contrasts" in line]
    assert last.returncode == 0 and len(lines) == 30 - kept
    mine = tmp_path / "whole.work" / "thesis.txt"
    mine.parent.mkdir()
    mine.touch()
    assert start(tmp_path / "whole").wait() == 0
    for name in ("model.safetensors", "model.json"):
        assert (tmp_path / "torn" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["torn", "whole", "whole.work"]
    assert list(mine.parent.iterdir()) == [mine]  # what is somebody's own stays
