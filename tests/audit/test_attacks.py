"""A method that attacks the study that measures it (`attacks`) is refused, and honest ones are not."""

import json
import re
import warnings

import numpy as np
import pytest
from sklearn.linear_model import Ridge, RidgeClassifier
from tests.audit import attacks

import brainroam
from brainroam.audit import gate
from brainroam.data.target.two import TwoClasses
from brainroam.data.target_column import with_target
from brainroam.errors import BrainroamError, RunsError
from brainroam.methods.edge_ridge import EdgeRidge


@pytest.fixture(autouse=True)
def unharmed(monkeypatch):
    """What an attack patches is as before after the test, and nobody searches for leaks, which is tested elsewhere."""
    monkeypatch.setattr(TwoClasses, "at_site", TwoClasses.at_site)
    monkeypatch.setattr(EdgeRidge, "score", EdgeRidge.score)
    monkeypatch.setattr(gate, "search_leaks", lambda *_: None)


def people(**settings):
    return brainroam.make_cohort(n_sites=3, n_per_site=12, n_rois=8, **settings)


@pytest.mark.parametrize(
    ("attack", "words"),
    [
        (attacks.ChangingLabels, "measured with other labels than those of the cohort"),
        (attacks.ReplacingMetric, "its kept figures are not those of its scores .auc 0.97 is kept"),
        (attacks.SpoilingRival, "run again in a fresh process it gives other scores"),
    ],
)
def test_figures_that_do_not_come_again_are_refused_and_their_runs_count_as_failed(tmp_path, attack, words):
    with pytest.raises(BrainroamError, match=words):
        brainroam.evaluate(people(), {"mine": attack(), "rival": "fc-ridge"}, tuning="fast", out=tmp_path)
    runs = [json.loads(file.read_text()) for file in (tmp_path / "runs").glob("*.json")]
    assert any(re.search(words, run.get("error", "")) for run in runs)


def test_a_method_that_changes_the_labels_of_the_callers_cohort_fails():
    with pytest.raises(RunsError, match=r"were changed (while|before) mine ran"):
        brainroam.evaluate(people(), {"mine": attacks.ChangingEverybody()}, tuning="fast")


@pytest.mark.parametrize("target", ["two", "number", "classes"])
@pytest.mark.parametrize("scans", [1, 2])
def test_honest_figures_come_again_whatever_is_predicted(tmp_path, target, scans):
    cohort = people()
    table = cohort.table
    rng = np.random.default_rng(0)
    if scans == 2:
        cohort = cohort.with_columns(table.assign(person=[f"p{i // 2}" for i in range(len(table))])[["person"]])
    if target != "two":
        raw = {"number": rng.normal(size=len(table)), "classes": rng.choice(["a", "b", "c"], len(table))}[target]
        values = np.repeat(raw[::scans], scans)[: len(table)]
        cohort = with_target(cohort.with_columns(table.assign(what=values)[["what"]]), "what")
    mine = Ridge() if target == "number" else RidgeClassifier()
    with warnings.catch_warnings(action="ignore"):
        brainroam.evaluate(cohort, {"mine": mine, "rival": "fc-ridge"}, tuning="fast", out=tmp_path)
    assert (tmp_path / gate.COMPUTED_AGAIN).is_file()
