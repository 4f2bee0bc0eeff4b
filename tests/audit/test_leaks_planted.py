"""Methods that cheat on purpose, each in a way people do by mistake, and what the audit says of them."""

from functools import cache

import numpy as np
import pytest
from sklearn.linear_model import RidgeClassifier, SGDClassifier
from sklearn.preprocessing import StandardScaler

from brainroam.audit import audit
from brainroam.audit.candidates import candidate
from brainroam.audit.leaks import leak_checks
from brainroam.core.connectivity import cohort_edges
from brainroam.data.cohort import Cohort
from brainroam.data.synthetic import make_cohort
from brainroam.errors import UsageError
from brainroam.evaluation.stats.metrics import auc
from brainroam.methods.base import MethodInfo
from brainroam.methods.linear import LinearMethod


@cache
def cohort():
    return make_cohort(n_sites=4, n_per_site=16, n_rois=10, seed=3)


def ridge(edges, cohort, train, test):
    return RidgeClassifier(alpha=50).fit(edges[train], cohort.labels[train]).decision_function(edges[test])


def honest(cohort, train, test, seed):
    edges = cohort_edges(cohort, "pearson")
    return ridge(StandardScaler().fit(edges[train]).transform(edges), cohort, train, test)


def scaler_on_everybody(cohort, train, test, seed):
    return ridge(StandardScaler().fit_transform(cohort_edges(cohort, "pearson")), cohort, train, test)


def scaler_on_the_batch(cohort, train, test, seed):
    edges = cohort_edges(cohort, "pearson").copy()
    for part in (train, test):
        edges[part] = StandardScaler().fit_transform(edges[part])
    return ridge(edges, cohort, train, test)


def features_chosen_on_everybody(cohort, train, test, seed):
    edges, y = cohort_edges(cohort, "pearson"), cohort.labels
    chosen = np.argsort(-np.abs(edges[y == 1].mean(axis=0) - edges[y == 0].mean(axis=0)))[:5]
    return ridge(edges[:, chosen], cohort, train, test)


def epoch_chosen_on_the_test_site(cohort, train, test, seed):
    edges, y = cohort_edges(cohort, "pearson"), cohort.labels
    model, best = SGDClassifier(random_state=seed, learning_rate="constant", eta0=0.5), (-1.0, np.zeros(len(test)))
    for _ in range(20):
        model.partial_fit(edges[train], y[train], classes=[0, 1])
        scores = model.decision_function(edges[test])
        best = max(best, (auc(y[test], scores), scores), key=lambda pair: pair[0])
    return best[1]


def covariates_imputed_from_everybody(cohort, train, test, seed):
    age = cohort.table["age"].to_numpy()
    return ridge(np.column_stack([age / age.max(), cohort_edges(cohort, "pearson")]), cohort, train, test)


def a_new_answer_each_time(cohort, train, test, seed):
    return np.random.default_rng().normal(size=len(test))


def failed(method, people=None):
    return {check.name for check in leak_checks(candidate(method), people or cohort()) if not check.passed}


@pytest.mark.parametrize("method", ["fc-ridge", "scaffold-ridge[eta=0.6]", "confounds", "majority", honest])
def test_honest_ones_pass(method):
    assert failed(method) == set()


@pytest.mark.parametrize(
    ("method", "caught"),
    [
        (scaler_on_everybody, {"corruption"}),
        (scaler_on_the_batch, {"corruption", "single-subject"}),
        (features_chosen_on_everybody, {"corruption", "test-labels"}),
        (epoch_chosen_on_the_test_site, {"corruption", "test-labels", "single-subject"}),
        (covariates_imputed_from_everybody, {"corruption"}),
        (a_new_answer_each_time, {"reproducible", "single-subject", "test-labels", "corruption"}),
    ],
)
def test_cheats_are_caught(method, caught):
    assert failed(method) == caught


class Remembering(LinearMethod):
    """Fits again with what it scored last: the leak goes through the memory of the process."""

    seen: list = []  # noqa: RUF012  shared by all instances, as a careless cache is

    def fit(self, cohort, seed=0, validation=None):
        for known in self.seen:
            cohort = cohort.concat(known) if not set(known.table["subject"]) & set(cohort.table["subject"]) else cohort
        return super().fit(cohort, seed)

    def score(self, cohort):
        self.seen.append(cohort)
        return super().score(cohort)


def test_a_method_that_remembers_whom_it_scored_is_caught():
    assert "reproducible" in failed(MethodInfo("remembering", Remembering, ""))


def test_a_class_is_enough_and_an_honest_one_passes():
    class Plain(LinearMethod):
        pass

    assert failed(Plain) == set()


def test_one_person_at_two_sites_is_caught_whatever_the_name():
    people = cohort()
    series = people.series
    series[20] = 3.0 * series[2][5:] + 1.0  # cut and rescaled
    found = audit(Cohort(series, people.table), ["majority"], permutations=0)
    (check,) = (check for check in found.checks if check.name == "duplicates")
    assert check.passed is False and not found.passed
    assert "S01_0003 (S01)" in check.evidence and "S02_0005 (S02)" in check.evidence


def test_one_person_twice_at_one_site_is_a_warning():
    people = cohort()
    series = people.series
    series[3] = series[2]
    found = audit(Cohort(series, people.table), ["majority"], permutations=0)
    assert next(check for check in found.checks if check.name == "duplicates").passed is None
    assert found.passed


def reads_the_labels(cohort, train, test, seed):
    return cohort.labels[test] + np.random.default_rng(seed).normal(size=len(test))


def test_permuted_labels_that_are_still_predicted_are_a_leak():
    checks = {check.name: check for check in audit(cohort(), [reads_the_labels], permutations=5).checks}
    assert checks["label-shuffle"].passed is False and checks["label-shuffle"].value > 0.7
    assert checks["better-than-chance"].passed is None


def test_a_real_effect_is_told_from_chance_and_no_leak_is_seen():
    found = audit(cohort(), ["fc-ridge"], permutations=19)
    checks = {check.name: check for check in found.checks}
    assert found.passed and checks["label-shuffle"].passed
    assert checks["better-than-chance"].passed and checks["better-than-chance"].value == pytest.approx(0.05)


def test_confounds_that_predict_are_noted():
    planted = make_cohort(n_sites=4, n_per_site=30, n_rois=8, shortcut=3.0)
    table = planted.table
    last = (table["site"] == "S04").to_numpy()
    people = planted.subset(~last)  # at the last site the shortcut is turned round
    checks = {check.name: check for check in audit(people, ["majority"], permutations=0).checks}
    assert checks["confounds-only"].passed is None and checks["confounds-only"].value > 0.9
    assert {check.name: check for check in audit(cohort(), ["majority"], permutations=0).checks}[
        "confounds-only"
    ].passed


def test_sites_that_differ_are_told_apart_and_sites_that_do_not_are_not():
    checks = {check.name: check for check in audit(cohort(), ["majority"], permutations=0).checks}
    assert checks["site-decodability"].passed is None
    one = make_cohort(n_sites=2, n_per_site=60, n_rois=10).select(["S01"])
    dealt = one.table[["subject"]].assign(site=np.random.default_rng(0).permutation(np.repeat(list("ABC"), 20)))
    mixed = one.with_columns(dealt[["site"]])
    assert {check.name: check for check in audit(mixed, ["majority"], permutations=0).checks}[
        "site-decodability"
    ].passed


def test_a_procedure_that_returns_too_little_is_named():
    def too_short(cohort, train, test, seed):
        return np.zeros(1)

    with pytest.raises(UsageError, match=r"too_short returned an array of shape \(1,\) for 16 people"):
        failed(too_short)


@pytest.mark.parametrize("method", ["site-only", 3])
def test_what_cannot_be_audited_is_named(method):
    with pytest.raises(UsageError, match="audit"):
        audit(cohort(), [method])
