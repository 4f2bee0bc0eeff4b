"""What no registered method may do: look at the held-out site, or at the people scored beside somebody."""

from functools import cache

import numpy as np
import pandas as pd
import pytest

from brainroam.data.cohort import Cohort
from brainroam.data.synthetic import make_cohort
from brainroam.errors import DataError, RunsError
from brainroam.evaluation.runner import evaluate
from brainroam.methods.base import Method, MethodInfo
from brainroam.methods.core import Core
from brainroam.methods.deep.base import DeepMethod
from brainroam.methods.predictions import predictions
from brainroam.methods.registry import method_info, method_names, parse_name, temporarily
from brainroam.methods.tuning import TunedMethod

HELD_OUT = "S04"
BY_SIGN = ["core-paper[sign=both]", "core-paper[sign=negative]"]  # core-paper itself takes positive edges
every_method = pytest.mark.parametrize("name", [*method_names(), *BY_SIGN])


@cache
def whole():
    return make_cohort(n_sites=4, n_per_site=10, n_rois=12, constant_rois=1, missing_covariates=1)


@cache
def corrupted():
    """The same training people; at the held-out site other series, opposite labels, strange covariates."""
    cohort, rng = whole(), np.random.default_rng(1)
    table = cohort.table
    here = (table["site"] == HELD_OUT).to_numpy()
    series = [10 * rng.normal(size=x.shape) ** 3 if gone else x for x, gone in zip(cohort.series, here, strict=True)]
    table.loc[here, "label"] = 1 - table.loc[here, "label"]
    table.loc[here, ["age", "sex", "mean_fd", "tr"]] = [99.0, 1.0, 9.0, 0.5]
    return Cohort(series, table)


def parts(cohort):
    here = (cohort.table["site"] == HELD_OUT).to_numpy()
    return cohort.subset(~here), cohort.subset(here)


def quick(info):
    """Settings that keep a fit on a tiny cohort short."""
    method = info.make()
    if isinstance(method, DeepMethod):
        return {"epochs": 1}
    if isinstance(method, Core):
        short = {"max_epochs": 1} if info.name == "core-paper" else {"updates": 4}
        return {"budget": 2, "hidden": 4, "tau_percentile": 50, "eta": 0.6, **short}
    return {}


@cache
def fitted(name, cohort):
    """Fitted beside the held-out people and after looking at them, as nothing of them may stay behind."""
    train, test = parts(cohort())
    name, fixed = parse_name(name)
    selected = TunedMethod(method_info(name), "fast", **quick(method_info(name)), **fixed)
    selected.fit(train, seed=3).score(test)
    return selected.fit(train, seed=3)


@every_method
def test_a_corrupted_held_out_site_changes_no_parameter_and_no_threshold(name):
    clean, spoilt = fitted(name, whole), fitted(name, corrupted)
    assert clean.configuration_ == spoilt.configuration_
    assert clean.calibration_ == spoilt.calibration_
    ours, theirs = clean.state(), spoilt.state()
    assert ours.keys() == theirs.keys()
    for key in ours:
        assert ours[key].tobytes() == theirs[key].tobytes(), key


@every_method
def test_the_labels_and_the_site_of_those_scored_do_not_matter(name):
    _, test = parts(whole())
    table = test.table
    table["label"] = 1 - table["label"]
    if name != "site-only":
        table["site"] = "S01"
    assert np.array_equal(fitted(name, whole).score(Cohort(test.series, table)), fitted(name, whole).score(test))


@every_method
def test_one_person_scores_as_in_company(name):
    _, test = parts(whole())
    model = fitted(name, whole)
    together = model.score(test)
    alone = [model.score(test.subset([i]))[0] for i in range(len(test))]
    most = 1e-12 if name.startswith("core") else 1e-6
    assert np.allclose(alone, together, rtol=0, atol=most * np.abs(together).max())
    assert np.allclose(model.calibration_(np.array(alone)), model.probability(test), rtol=0, atol=1e-7)


class Peeking(Method):
    """Tries every way to the labels of the people it scores or is stopped by."""

    def __init__(self, way="labels"):
        self.way = way

    def fit(self, cohort, seed=0, validation=None):
        if validation is not None and self.way == "validation":
            validation.labels  # noqa: B018  a look is what is refused
        return self

    def score(self, cohort):
        ways = {
            "labels": lambda: cohort.labels,
            "subset": lambda: cohort.subset(np.arange(len(cohort))).labels,
            "origin": lambda: cohort.origin[0].labels[cohort.origin[1]],
            "table": lambda: cohort.table["label"].to_numpy(),
            "diagnosis": lambda: cohort.table["dx_group"].to_numpy(dtype=float),
            "validation": lambda: np.array([x[0, 0] for x in cohort.series]),
        }
        return ways[self.way]().astype(float)

    def state(self):
        return {}

    def load_state(self, state):
        return self


@pytest.fixture
def peeking():
    info = MethodInfo("peeking", Peeking, "reads labels")
    with temporarily(info):
        yield info


@cache
def with_diagnosis():
    """The raw column a label was read from is in the table too."""
    return whole().with_columns(pd.DataFrame({"dx_group": 2 - whole().labels}))


@pytest.mark.parametrize("protocol", ["loso", "cv", "halves"])
@pytest.mark.parametrize("way", ["labels", "subset", "origin", "table", "diagnosis", "validation"])
def test_no_label_reaches_whoever_scores_in_a_study(peeking, way, protocol):
    with pytest.raises(RunsError, match=r"hidden|available"):
        evaluate(with_diagnosis(), [f"peeking[way={way}]"], protocol, n_splits=2)


def test_no_label_reaches_the_scores_of_inner_folds_or_of_a_prediction(peeking):
    train, test = parts(with_diagnosis())
    with pytest.raises(DataError, match="available"):
        Peeking().out_of_fold(train, [(np.arange(10), np.arange(10, 20))])
    fitted = TunedMethod(peeking, way="validation")
    with pytest.raises(DataError, match="available"):
        fitted.fit(train)
    model = TunedMethod(method_info("fc-ridge")).fit(train)
    model.model_ = Peeking()
    with pytest.raises(DataError, match="available"):
        predictions(model, test)


def test_a_column_that_the_study_names_stays_and_features_are_shared():
    cohort = with_diagnosis().using(["age", "dx_group"])
    hidden = cohort.subset(np.arange(5)).without_labels()
    assert hidden.table["dx_group"].notna().all() and hidden.table["label"].isna().all()
    assert hidden.table["age"].equals(cohort.table["age"][:5])
    hidden.per_person("length", lambda series: np.array([[len(x)] for x in series]))
    assert cohort.features.has("length") and cohort.labels.any()


@every_method
def test_our_own_methods_score_without_labels(name):
    _, test = parts(whole())
    assert np.isfinite(fitted(name, whole).model_.score(test.without_labels())).all()
