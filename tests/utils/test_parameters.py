"""Settings that people type: refused in their words, by name, before anything is computed."""

import numpy as np
import pytest
from pydantic import PositiveInt
from typer.testing import CliRunner

import brainroam
from brainroam.cli import app
from brainroam.core.recipe import Recipe
from brainroam.errors import BrainroamError, UsageError
from brainroam.methods.registry import method_info, method_names
from brainroam.methods.tuning import TunedMethod
from brainroam.utils.parameters import require_settings


@pytest.fixture(scope="module")
def cohort_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("settings") / "cohort.npz"
    return brainroam.make_cohort(n_sites=3, n_per_site=8, n_rois=8, seed=0).save(path)


@pytest.mark.parametrize(
    ("method", "setting", "message"),
    [
        ("core", "hiden=8", "did you mean 'hidden'"),
        ("fc-ridge", "stength=1", "did you mean 'strength'"),
        ("core", "hidden=many", "core: hidden must be a whole number larger than 0, not 'many'"),
        ("core", "hidden=0", "hidden must be a whole number larger than 0, not 0"),
        ("core", "hidden=2.5", "hidden must be a whole number"),
        ("core", "trials=2.5", "trials must be a whole number larger than 0 or null, not 2.5"),
        ("core", "trials=0", "trials must be a whole number larger than 0 or null, not 0"),
        ("core", "budget=-3", "budget must be a number larger than 0 or null, not -3"),
        ("core", "temperature=0", "temperature must be a number larger than 0, not 0"),
        ("core", "max_epochs=0", "max_epochs must be a whole number larger than 0, not 0"),
        ("core", "epochs=-1", "epochs must be a whole number at least 0 or null, not -1"),
        ("log-ridge", "soft=-1", "soft must"),
        ("confounds", "covariates=[]", "at least one covariate"),
        ("log-ridge", "penalties=[]", "penalties must be a list"),
        ("core", "train=joined", "unknown train 'joined'; did you mean 'joint'?"),
        ("core", "gated=maybe", "gated must be true or false"),
        ("core", "tau_percentile=high", "tau_percentile must be a number at least 0 and at most 100 or a list"),
        ("core", "tau_percentile=[80,200]", "tau_percentile must be a number at least 0 and at most 100"),
        ("core", "device=abacus", "nothing can be computed on the device 'abacus' here"),
        ("core-paper", "learning_rate=-1", "learning_rate must be a number at least 0, not -1"),
        ("scaffold-ridge", "eta=x", "eta must be a number"),
        ("scaffold-ridge", "tau_percentile=200", "tau_percentile must be a number at least 0 and at most 100"),
        ("log-ridge", "penalties=3", "penalties must be a list"),
        (
            "log-ridge",
            "penalties=[0]",
            "penalties must be a list like [a number larger than 0, a number larger than 0], not [0]",
        ),
        ("log-ridge", "covariates=age", "covariates must be a list like [text, text] or null, not 'age'"),
        ("fc-ridge", "strength=NaN", "strength must be a number"),
        ("fc-ridge", "strength=0", "strength must be a number larger than 0 or null, not 0"),
        ("fc-svm", "classifier=oracle", "unknown classifier 'oracle'"),
        ("gcn", "dropout=3", "dropout must be a number at least 0 and at most 1, not 3"),
        ("disc", "edge_width=1", "disc cannot work with edge_width=1: "),
        ("deci", "weight_decay=-1", "weight_decay must be a number at least 0, not -1"),
        ("gcn", "device=abacus", "nothing can be computed on the device 'abacus' here"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_in_plain_words(cohort_file, tmp_path, method, setting, message):
    command = ["fit", str(cohort_file), "--method", method, "--set", setting, "--out", str(tmp_path / "model")]
    result = CliRunner().invoke(app, command, env={"COLUMNS": "500"})
    assert result.exit_code == 2 and not (tmp_path / "model").exists()
    assert message in result.stderr and "Traceback" not in result.stderr


def test_scores_that_are_no_numbers_are_named_as_such(monkeypatch):
    cohort = brainroam.make_cohort(n_sites=3, n_per_site=8, n_rois=8, seed=0)
    monkeypatch.setattr("brainroam.methods.linear.EdgeModel.score", lambda self, people: np.full(len(people), np.nan))
    with pytest.raises(BrainroamError, match="diverged"):
        TunedMethod(method_info("fc-logistic")).fit(cohort)


def test_a_study_refuses_it_before_the_first_run(cohort_file, tmp_path):
    command = ["loso", str(cohort_file), "--methods", "fc-ridge,core[hidden=many]", "--out", str(tmp_path / "runs")]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 2 and "hidden must be a whole number" in result.stderr
    assert not (tmp_path / "runs" / "scores.csv").exists()


@pytest.mark.parametrize("name", method_names())
def test_the_defaults_and_the_grid_of_every_method_are_allowed(name):
    info = method_info(name)
    info.require({key: values[-1] for key, values in info.grid.items()})
    info.require(info.fast)


def test_numbers_of_numpy_are_numbers():
    Recipe(hidden=np.int64(8), temperature=np.float32(0.5))


@pytest.mark.parametrize("grid", [[70, 80], (70, 80), np.array([70, 80]), np.linspace(70, 80, 2), range(70, 81, 10)])
def test_a_grid_is_any_row_of_numbers(grid):
    assert Recipe(tau_percentile=grid, eta=np.float32(0.5)).tau_percentile == (70, 80)
    with pytest.raises(UsageError, match="tau_percentile"):
        Recipe(tau_percentile=np.array([80, 101]))


def test_a_bound_is_said_by_the_annotation_and_by_no_name():
    def make(epochs: PositiveInt = 3, hidden: int = 3):
        raise AssertionError("not called")

    require_settings("mine", make, {"hidden": -1})
    with pytest.raises(UsageError, match="mine: epochs"):
        require_settings("mine", make, {"epochs": 0})


def test_a_parameter_without_annotation_takes_anything():
    def make(threshold=-1, *, depth: int = 0):
        raise AssertionError("not called")

    require_settings("mine", make, {"threshold": "low", "depth": -4})
    with pytest.raises(UsageError, match=r"mine 'detph'.*'depth'"):
        require_settings("mine", make, {"detph": 1})
