"""Inner folds of tangent-ridge share work, and score as if each had been fitted alone."""

import numpy as np
import pytest

from brainroam.data.synthetic import make_cohort
from brainroam.methods.linear import STRENGTHS, TangentRidge, ridge_scores
from brainroam.methods.registry import method_info
from brainroam.methods.tuning import inner_folds


@pytest.fixture(scope="module")
def cohort():
    whole = make_cohort(n_sites=5, n_per_site=24, n_rois=12, seed=3)
    series = whole.series
    series[7] = series[7].copy()
    series[7][:, 4] = 1.0  # a region without signal
    return type(whole)(series, whole.table, whole.atlas)


def one_by_one(cohort, folds, strength):
    """Every fold fitted on its own, from nothing but its own people."""
    scores = []
    for train, held_out in folds:
        alone = make_alone(cohort, train)
        model = TangentRidge(strength).fit(alone)
        scores.append(model.score(cohort.subset(held_out))[None])
    return scores


def make_alone(cohort, rows):
    part = cohort.subset(rows)
    return type(cohort)(part.series, part.table, part.atlas)


@pytest.mark.parametrize("strength", [*STRENGTHS, 3.0])
def test_shared_inner_folds_equal_folds_fitted_one_by_one(cohort, strength):
    folds = list(inner_folds(cohort, 0))
    shared = TangentRidge(strength).out_of_fold(cohort, folds, 0)
    assert [x.shape for x in shared] == [(1, 24)] * 5
    for ours, alone in zip(shared, one_by_one(cohort, folds, strength), strict=True):
        np.testing.assert_allclose(ours, alone, atol=1e-8)


def test_folds_that_leave_people_out_of_both_sides(cohort):
    train, held_out = np.arange(0, 70), np.arange(90, 120)
    shared = TangentRidge().out_of_fold(cohort, [(train, held_out)], 0)
    np.testing.assert_allclose(shared[0], one_by_one(cohort, [(train, held_out)], 1000.0)[0], atol=1e-8)


def test_nothing_outside_the_training_cohort_is_touched(cohort):
    """The bytes of inner scores are the same whatever the site held out by the outer fold looks like."""
    inside = cohort.table["site"].to_numpy() != cohort.sites[0]
    spoiled = [x if kept else x[::-1] * 9 + 4 for x, kept in zip(cohort.series, inside, strict=True)]
    results = []
    for whole in (cohort, type(cohort)(spoiled, cohort.table, cohort.atlas)):
        training = whole.subset(np.flatnonzero(inside))
        results.append(TangentRidge().out_of_fold(training, list(inner_folds(training, 0)), 0))
    for clean, corrupted in zip(*results, strict=True):
        np.testing.assert_array_equal(clean, corrupted)


def test_ridge_scores_equal_scikit_learn():
    from sklearn.linear_model import Ridge

    rng = np.random.default_rng(0)
    x, new, y = rng.normal(size=(30, 50)), rng.normal(size=(4, 50)), rng.normal(size=30)
    model = Ridge(alpha=7.0).fit(x, y)
    np.testing.assert_allclose(ridge_scores(x.copy(), new.copy(), y, [7.0])[0], model.predict(new) - y.mean())


def test_it_is_registered_with_its_strengths():
    info = method_info("tangent-ridge")
    assert info.grid == {"strength": STRENGTHS} and isinstance(info.make(strength=2.0), TangentRidge)
