"""The linear reading that the network starts from; the rest of the pathways is tested with the site folds."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from brainroam.core.pathways import Profiles, _skip_weights, ridge_weights


def sample(n=30, n_features=80, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    return rng.normal(size=(n, n_features)) + 0.3 * y[:, None], y


@pytest.mark.parametrize("penalty", [0.3, 30.0])
def test_ridge_weights_equal_scikit_learn(penalty):
    x, y = sample()
    target = 2.0 * y - 1
    alpha = penalty * (x**2).sum(axis=1).mean()  # ours counts in units of the mean squared length
    expected = Ridge(alpha=alpha, fit_intercept=False).fit(x, target - target.mean()).coef_
    np.testing.assert_allclose(ridge_weights(x, target, penalty), expected, atol=1e-10)


def test_ridge_weights_average_over_penalties_and_ignore_the_scale_of_features():
    x, y = sample()
    both = ridge_weights(x, y, 1.0, 10.0)
    np.testing.assert_allclose(both, (ridge_weights(x, y, 1.0) + ridge_weights(x, y, 10.0)) / 2, atol=1e-12)
    np.testing.assert_allclose(1000 * x @ ridge_weights(1000 * x, y, 1.0), x @ ridge_weights(x, y, 1.0), atol=1e-9)


@pytest.mark.parametrize("skip", ["ridge", "sum"])
def test_the_linear_reading_has_unit_spread_and_tells_cases_from_controls(skip):
    x, y = sample()
    reading = x @ _skip_weights(x, y, skip)
    assert reading.std() == pytest.approx(1)
    assert reading[y == 1].mean() > reading[y == 0].mean()


def test_no_skip_is_no_reading():
    x, y = sample()
    assert (_skip_weights(x, y, "none") == 0).all()


def test_profiles_of_some_edges_and_people():
    rng = np.random.default_rng(0)
    series = [rng.normal(size=(60, 5)) for _ in range(3)]
    every = Profiles.compute(series, np.arange(10), 30, 5)
    some = Profiles.compute(series, np.array([2, 5, 9]), 30, 5)
    np.testing.assert_array_equal(every.of(np.array([2, 5, 9])), some.values)
    np.testing.assert_array_equal(every.of(np.array([5]), np.array([False, True, False])), some.values[1:2, 1:2])
