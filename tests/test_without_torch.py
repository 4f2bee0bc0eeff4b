"""A light installation: everything but the training of networks works without torch, and that says what to install."""

import json
import subprocess
import sys

import numpy as np
import pytest

from brainroam import CoreClassifier, make_cohort, save_model
from brainroam.core.choice import Choice
from brainroam.core.recipe import Recipe

LINE = 'pip install "brainroam[torch]"'
BLOCKED = """
import importlib.machinery as machinery, sys
found = machinery.PathFinder.find_spec
def without(cls, name, path=None, target=None):
    return None if name.partition(".")[0] == "torch" else found(name, path, target)
machinery.PathFinder.find_spec = classmethod(without)
"""
SETTINGS = {"hidden": 4, "budget": 4, "tau_percentile": 60}
DATA = ["synthetic", "--option", "n_sites=3", "--option", "n_per_site=10", "--option", "n_rois=10"]


def without_torch(code, folder):
    """Run Python in which torch cannot be imported; what it printed, and its exit code."""
    done = subprocess.run([sys.executable, "-c", BLOCKED + code], cwd=folder, capture_output=True, text=True)
    return " ".join((done.stdout + done.stderr).split()), done.returncode


def commands(several, folder):
    """Each of several commands in one process without torch, with its exit code and what it said."""
    code = f"""
import json
from typer.testing import CliRunner
from brainroam.cli import app
for words in {several!r}:
    done = CliRunner().invoke(app, words)
    print(json.dumps([done.exit_code, " ".join(done.output.split())]))
"""
    done = subprocess.run([sys.executable, "-c", BLOCKED + code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def cohort():
    return make_cohort(n_sites=4, n_per_site=16, n_rois=12, seed=0)


@pytest.fixture(scope="module")
def models(cohort, tmp_path_factory):
    """A CORE whose network is believed, and one whose network is not; with the probabilities of the latter."""
    folder, people = tmp_path_factory.mktemp("models"), cohort.table
    cohort.save(folder / "cohort.npz")
    given = {"site": people["site"], "covariates": people[["age", "sex"]]}
    alone = CoreClassifier(**SETTINGS, skip="none", updates=4).fit(cohort.series, people["label"], **given)
    save_model(alone, folder / "network")
    with pytest.MonkeyPatch.context() as patch:  # the network was tried, and not believed
        patch.setattr("brainroam.core.model.weigh", lambda *_: Choice(0.0, gain=-0.1, error=0.1))
        linear = CoreClassifier(Recipe(**SETTINGS, updates=1)).fit(cohort.series, people["label"], **given)
    save_model(linear, folder / "linear")
    np.save(folder / "expected.npy", linear.predict_proba(cohort.series, people[["age", "sex"]]))
    return folder


def test_a_study_of_linear_methods_from_check_to_report(tmp_path):
    typed = [
        ["check", *DATA],
        ["audit", *DATA, "--methods", "fc-ridge", "--permutations", "0"],
        ["loso", *DATA, "--methods", "ensemble,core[epochs=0],confounds", "--tuning", "fast", "--out", "runs"],
        ["report", "runs", "--out", "report.html"],
        ["methods"],
        ["fit", *DATA, "--method", "ensemble", "--out", "model"],
        ["predict", "model", *DATA, "--out", "predictions.csv"],
    ]
    for words, (code, said) in zip(typed, commands(typed, tmp_path), strict=True):
        assert code == 0 or ("audit" in words and code == 1), f"{words}\n{said}"
    assert (tmp_path / "report.html").stat().st_size > 100_000


def test_what_trains_a_network_says_what_to_install(tmp_path):
    typed = [["fit", *DATA, "--method", method, "--out", "model"] for method in ("core-network", "gcn", "agmgc-proxy")]
    for code, said in commands(typed, tmp_path):
        assert code == 1 and LINE in said and "Traceback" not in said


def test_core_without_torch_is_the_ensemble_to_the_last_byte(tmp_path):
    code = """
import brainroam
from brainroam.methods.core import Core
from brainroam.methods.ensemble import Ensemble
cohort = brainroam.make_cohort(n_sites=3, n_per_site=12, n_rois=12, seed=0)
core, soft = Core().fit(cohort), Ensemble().fit(cohort)
print((core.score(cohort) == soft.score(cohort)).all(), (core.inner_scores_ == soft.inner_scores_).all(), core.notes_)
"""
    said, _ = without_torch(code, tmp_path)
    assert said.startswith("True True") and "torch is not installed" in said


def test_a_study_file_is_written_without_core_and_says_so(tmp_path):
    code = "from brainroam.cli.source import possible_here; print(possible_here(['ensemble', 'core']))"
    said, _ = without_torch(code, tmp_path)
    assert "['ensemble']" in said and LINE in said


def test_where_the_network_is_not_believed_the_model_is_read_as_it_is_with_torch(models):
    code = """
import brainroam, numpy as np
cohort = brainroam.Cohort.load("cohort.npz")
people = cohort.table[["age", "sex"]]
clf = brainroam.load_model("linear")
print(np.abs(clf.predict_proba(cohort.series, people) - np.load("expected.npy")).max())
print(clf.explain(cohort.series, people).pathways.shape[0] == len(clf.scaffold_))
"""
    said, returned = without_torch(code, models)
    assert returned == 0, said
    gap, same = said.split()
    assert float(gap) < 1e-12 and same == "True"


def test_a_network_that_is_believed_asks_for_torch(models):
    said, _ = without_torch("import brainroam; brainroam.load_model('network')", models)
    assert LINE in said
