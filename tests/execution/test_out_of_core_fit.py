"""Variants of CORE fitted out of core: the model of the in-memory fit."""

import numpy as np
import pytest
from typer.testing import CliRunner

import brainroam
from brainroam.cli import app
from brainroam.core.profile import log_profiles, profiles_of
from brainroam.data.stored_cohort import FileColumns
from brainroam.errors import UsageError
from brainroam.execution.out_of_core import StoredCohort
from brainroam.methods.registry import method_info
from brainroam.methods.tuning import TunedMethod

SMALL = {"hidden": 8, "budget": 4, "tau_percentile": 60, "skip": "none", "updates": 8}


def fitted(cohort, **parameters):
    return TunedMethod(method_info("core"), "full", **SMALL | {"on_short": "exclude"} | parameters).fit(cohort)


VARIANTS = {
    "paper": {"recipe": "paper", "hidden": 8, "max_epochs": 3},
    "pooled": {"deconfounding": "pooled", "profiles": True},
    "controls": {"fit_on": "controls", "max_pathways": 6},
    "grid": {"tau_percentile": [50, 60], "eta": [0.5, 0.75], "trials": 2, "gated": False},
    "both": {"skip": "ridge", "updates": 30},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_the_model_of_the_fit_in_memory(store, tmp_path, small_parts, name):
    people = brainroam.load_cohort(store)
    expected = fitted(people, **VARIANTS[name])
    on_disk = StoredCohort(store, tmp_path)
    found = fitted(on_disk, **VARIANTS[name])
    assert on_disk.manifest_hash == people.manifest_hash and on_disk.table.equals(people.table)
    assert on_disk.excluded.equals(people.excluded)
    one, other = expected.state(), found.state()
    assert one.keys() == other.keys()
    for key, value in one.items():
        if value.dtype.kind == "f":
            rtol = 1e-4 if key == "calibration" else 1e-6  # 4 % of a slope is believed here: rounding counts 25 times
            np.testing.assert_allclose(other[key], value, rtol=rtol, atol=1e-6, err_msg=key)
        else:  # edges, notes, levels of covariates
            np.testing.assert_array_equal(other[key], value, err_msg=key)
    np.testing.assert_allclose(found.inner_scores_, expected.inner_scores_, atol=1e-6)
    np.testing.assert_allclose(found.probability(people), expected.probability(people), atol=1e-6)


def test_profiles_on_disk_are_those_in_memory(store, tmp_path, small_parts):
    cohort, people = StoredCohort(store, tmp_path), brainroam.load_cohort(store)
    long = people.table["n_timepoints"].to_numpy() >= 30
    cohort, people = cohort.subset(long), people.subset(long)
    edges, window, stride = np.array([2, 5, 60, 119]), np.full(len(people), 30), np.full(len(people), 5)
    found = profiles_of(cohort, edges, window, stride)
    expected = log_profiles(edges, people.series, 30, 5)
    assert isinstance(found.values, FileColumns)
    some, of = np.arange(len(people)) % 3 == 1, np.array([5, 119])
    assert np.array_equal(found.of(of, some), expected[some][:, [1, 3]], equal_nan=True)
    assert np.array_equal(found.of(of), expected[:, [1, 3]], equal_nan=True)


def test_too_little_memory_to_train_is_refused_before_training(store, tmp_path):
    cohort = StoredCohort(store, tmp_path)
    cohort.features.memory = 0.4e9
    with pytest.raises(UsageError, match=r"--memory 0\.4GB .*62 people"):
        fitted(cohort)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--memory", "much"], "is no size"),
        (["--memory", "1MB"], "is too little"),
        (["--jobs", "2"], "--jobs shares out the work of --memory"),
    ],
)
def test_commands_that_cannot_be(store, tmp_path, options, words):
    result = CliRunner().invoke(app, ["fit", str(store), "--out", str(tmp_path / "model"), *options])
    assert result.exit_code == 2 and words in result.stderr.replace("\n", " ")
