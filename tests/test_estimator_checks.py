"""scikit-learn's own checks on every public estimator, and ours where scikit-learn has none.

Estimators of arrays (n, M) pass every check of scikit-learn; the dictionary of expected failures is empty and stays so.
Estimators of series say by their tags that X is no matrix; scikit-learn then runs what needs no data, and the rest of
its promises (parameters, cloning, fitting twice, pickling, order of people, not fitted yet) are checked here.
"""

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import get_scorer
from sklearn.model_selection import LeaveOneGroupOut, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from brainroam import CoreClassifier, EnsembleClassifier, SiteDeconfounder, SiteScorer, make_cohort
from brainroam.core.connectivity import pearson_edges
from brainroam.core.covariates import CovariateEncoder
from brainroam.core.tangent import TangentEdges
from brainroam.errors import DataError

SITES = LeaveOneGroupOut()
EXPECTED_FAILURES: dict[str, dict[str, str]] = {}  # estimator -> check -> reason


def small_core():
    return CoreClassifier(hidden=4, budget=3, updates=4, tau_percentile=60, eta=0.5)


@parametrize_with_checks(
    [
        SiteDeconfounder(),
        SiteDeconfounder(pooled=True),
        CovariateEncoder(),
        TangentEdges(),
        EnsembleClassifier(),
        small_core(),
    ],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES.get(type(estimator).__name__, {}),
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def cohort():
    return make_cohort(n_sites=3, n_per_site=14, n_rois=10, seed=2)


def fitted(estimator, cohort):
    if isinstance(estimator, TangentEdges):
        return estimator.fit(cohort.series)
    people = cohort.table
    return estimator.fit(cohort.series, people["label"], site=people["site"], covariates=people[["age"]])


def read(estimator, cohort, people=slice(None)):
    if isinstance(estimator, TangentEdges):
        return estimator.transform(cohort.series[people])
    return estimator.decision_function(cohort.series[people], covariates=cohort.table[["age"]][people])


@pytest.mark.parametrize("make", [TangentEdges, EnsembleClassifier, small_core])
def test_estimators_of_series_keep_scikit_learns_promises(make, cohort):
    estimator = make()
    parameters = estimator.get_params()
    with pytest.raises(NotFittedError):
        read(estimator, cohort)
    assert fitted(estimator, cohort) is estimator
    assert estimator.get_params() == parameters
    once = read(estimator, cohort)
    np.testing.assert_allclose(read(estimator, cohort, slice(None, None, -1)), once[::-1], atol=1e-6)
    np.testing.assert_allclose(read(estimator, cohort, slice(3, 5)), once[3:5], atol=1e-6)
    np.testing.assert_array_equal(read(pickle.loads(pickle.dumps(estimator)), cohort), once)
    np.testing.assert_array_equal(read(fitted(estimator, cohort), cohort), once)
    np.testing.assert_array_equal(read(fitted(clone(estimator), cohort), cohort), once)


@pytest.mark.parametrize("make", [EnsembleClassifier, small_core])
def test_a_stated_prevalence_moves_probabilities_and_never_the_class(make, cohort):
    estimator, age = fitted(make(), cohort), cohort.table[["age"]]
    p, rare = (estimator.predict_proba(cohort.series, covariates=age, prevalence=x)[:, 1] for x in (None, 0.01))
    assert (rare < p).all() and (np.argsort(rare) == np.argsort(p)).all()
    called = estimator.predict(cohort.series, covariates=age) == 1
    assert p[called].min() > p[~called].max()
    assert estimator.calibration_.prevalence == pytest.approx(cohort.labels.mean())


# --- the deconfounder among scikit-learn's estimators ----------------------------------------------------------------


def planted(gap=1.0, seed=0):
    """Two sites, an effect of age, and cases that lie ``gap`` higher on every edge."""
    rng = np.random.default_rng(seed)
    site, y = np.repeat(["A", "B"], 60), np.tile([0, 1], 60)
    age = pd.DataFrame({"age": rng.uniform(8, 40, 120)})
    edges = 0.05 * age.to_numpy() + gap * y[:, None] + rng.normal(0, 0.2, (120, 4)) + (site == "B")[:, None]
    return edges, y, site, age


def class_gap(values, y):
    return float(values[y == 1].mean() - values[y == 0].mean())


def test_in_a_pipeline_y_is_never_taken_for_a_covariate():
    edges, y, _, _ = planted()
    with pytest.warns(UserWarning, match="covariates"):
        values = make_pipeline(FunctionTransformer(), SiteDeconfounder()).fit_transform(edges, y)
    assert class_gap(values, y) == pytest.approx(1.0, abs=0.15)
    with pytest.raises(TypeError, match="positional"):
        SiteDeconfounder().fit(edges, y, y)


def test_without_a_site_everybody_is_of_one():
    edges, _, site, age = planted()
    alone = site == "A"
    by_default = SiteDeconfounder().fit(edges[alone], covariates=age[alone])
    named = SiteDeconfounder().fit(edges[alone], covariates=age[alone], site=site[alone])
    np.testing.assert_array_equal(by_default.residuals_, named.residuals_)
    assert len(by_default.sites_) == 1


def test_labels_in_words_tell_whom_to_fit_on():
    edges, y, site, age = planted()
    words = np.where(y == 1, "ASD", "TD")
    with pytest.warns(UserWarning, match="ASD"):
        in_words = SiteDeconfounder(fit_on="controls").fit(edges, words, covariates=age, site=site)
    numbers = SiteDeconfounder(fit_on="controls").fit(edges, y, covariates=age, site=site)
    np.testing.assert_array_equal(in_words.residuals_, numbers.residuals_)
    assert class_gap(numbers.residuals_, y) == pytest.approx(1.0, abs=0.15)


def test_pandas_output_has_the_names_of_the_edges_and_changes_no_number():
    edges, _, site, age = planted()
    table = pd.DataFrame(edges, columns=list("abcd"))
    plain = SiteDeconfounder().fit(table, covariates=age, site=site)
    named = SiteDeconfounder().set_output(transform="pandas").fit(table, covariates=age, site=site)
    found = named.transform(table, covariates=age)
    assert list(found.columns) == list("abcd") == plain.get_feature_names_out().tolist()
    np.testing.assert_array_equal(found, plain.transform(table, covariates=age))


def test_a_global_output_of_pandas_does_not_reach_into_our_classifiers(cohort):
    plain = read(fitted(EnsembleClassifier(), cohort), cohort)
    with sklearn.config_context(transform_output="pandas"):
        np.testing.assert_array_equal(read(fitted(EnsembleClassifier(), cohort), cohort), plain)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros((5, 4, 4)), "5 matrices"),
        (np.full((5, 4), np.inf), "infinity"),
        (np.zeros(5), "Reshape"),
    ],
)
def test_edges_that_are_none_are_named(X, message):
    with pytest.raises(DataError, match=message):
        SiteDeconfounder().fit(X)


def test_what_scikit_learns_own_scorer_can_do(cohort):
    """Its roc_auc passes no covariates on: right where reading needs none, refused where a pipeline needs them."""
    people = cohort.table
    split = {"cv": LeaveOneGroupOut(), "error_score": "raise"}
    split["params"] = {"site": people["site"], "covariates": people[["age"]], "groups": people["site"]}
    pipeline = make_pipeline(FunctionTransformer(pearson_edges), SiteDeconfounder(), RidgeClassifier())
    with sklearn.config_context(enable_metadata_routing=True):
        theirs = cross_validate(EnsembleClassifier(), cohort.series, people["label"], scoring="roc_auc", **split)
        ours = cross_validate(EnsembleClassifier(), cohort.series, people["label"], scoring=SiteScorer(), **split)
        np.testing.assert_allclose(theirs["test_score"], ours["test_score"])
        with pytest.raises(DataError, match="age"):
            cross_validate(pipeline, cohort.series, people["label"], scoring="roc_auc", **split)
        scores = cross_validate(pipeline, cohort.series, people["label"], scoring=SiteScorer(), **split)["test_score"]
        assert scores.shape == (3,) and np.isfinite(scores).all()
        del split["params"]["covariates"]
        plain = cross_validate(pipeline, cohort.series, people["label"], scoring="roc_auc", **split)["test_score"]
        assert plain.shape == (3,) and np.isfinite(plain).all()


@pytest.mark.parametrize("metric", ["roc_auc", "balanced_accuracy", "average_precision", "neg_brier_score"])
def test_our_scorers_of_scikit_learns_names_give_its_numbers(cohort, metric):
    """Where scikit-learn's own can score, the same; where a pipeline needs covariates, numbers instead of nan."""
    people, clf = cohort.table, fitted(EnsembleClassifier(), cohort)
    theirs = get_scorer(metric)(clf, cohort.series, people["label"])
    assert SiteScorer(metric)(clf, cohort.series, people["label"], covariates=people[["age"]]) == pytest.approx(theirs)
    edges = np.nan_to_num(pearson_edges(cohort.series))
    given = {"site": people["site"], "covariates": people[["age"]], "groups": people["site"]}
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(SiteDeconfounder(), LogisticRegression())
        scores = cross_val_score(pipeline, edges, people["label"], params=given, scoring=SiteScorer(metric), cv=SITES)
        assert scores.shape == (3,) and np.isfinite(scores).all()
        with pytest.raises(DataError, match=metric):
            options = {"scoring": metric, "cv": SITES, "error_score": "raise"}
            cross_val_score(pipeline, edges, people["label"], params=given, **options)


def test_score_passes_covariates_on(cohort):
    people, clf = cohort.table, fitted(EnsembleClassifier(), cohort)
    right = clf.predict(cohort.series) == people["label"]
    assert clf.score(cohort.series, people["label"], covariates=people[["age"]]) == right.mean()
    weights = np.where(right, 3.0, 1.0)  # third, as of every classifier of scikit-learn
    assert clf.score(cohort.series, people["label"], weights) == np.average(right, weights=weights)
    split = {"cv": LeaveOneGroupOut(), "error_score": "raise"}
    split["params"] = {"site": people["site"], "covariates": people[["age"]], "groups": people["site"]}
    with sklearn.config_context(enable_metadata_routing=True):
        found = cross_validate(EnsembleClassifier(), cohort.series, people["label"], **split)["test_score"]
    assert found.shape == (3,) and np.isfinite(found).all()


def test_our_scorer_knows_which_word_is_the_condition(cohort):
    people = cohort.table
    words = people["label"].map({0: "TD", 1: "ASD"}).to_numpy()
    by_number = fitted(EnsembleClassifier(), cohort)
    with pytest.warns(UserWarning, match="AUC"):
        by_word = EnsembleClassifier().fit(cohort.series, words, site=people["site"], covariates=people[["age"]])
    assert by_word.classes_.tolist() == ["TD", "ASD"]
    known = {"covariates": people[["age"]]}
    expected = SiteScorer()(by_number, cohort.series, people["label"], **known)
    assert SiteScorer()(by_word, cohort.series, words, **known) == expected > 0.5


def test_edges_of_matrices_are_refused_by_every_entrance():
    matrices = np.stack([np.corrcoef(x.T) for x in np.random.default_rng(0).normal(size=(6, 30, 5))])
    for entrance in (pearson_edges, TangentEdges().fit):
        with pytest.raises(DataError, match="matrix"):
            entrance(matrices)
