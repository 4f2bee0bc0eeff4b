"""The linear reading, and the strongest pathways; the rest of the pathways is tested with the site folds."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from brainroam.core.linegraph import line_graph
from brainroam.core.pathways import Pathways, linear_weights
from brainroam.core.profile import Profiles, log_profiles
from brainroam.core.ridge import ridge_weights
from brainroam.core.scaffold import Scaffold
from brainroam.data.features import ArrayColumns


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
    reading = x @ linear_weights(x, y, skip, [(3.0, 10.0)])[0]
    assert reading.std() == pytest.approx(1)
    assert reading[y == 1].mean() > reading[y == 0].mean()


def test_no_skip_is_no_reading():
    x, y = sample()
    assert (linear_weights(x, y, "none", [(3.0,)])[0] == 0).all()


def pathways(consensus):
    """Pathways of five regions with these consensus contrasts, every edge among them, in the order of edges."""
    every, n = np.asarray(consensus, dtype=float), len(consensus)
    scaffold = Scaffold(np.arange(n), np.empty(0), every, np.ones(n), np.ones(n), 0.0, ("A", "B"))
    number = np.arange(n, dtype=float)
    return Pathways(None, scaffold, np.sign(every), number[:, None], number[:, None], number, np.zeros((n, 0)))


def test_the_strongest_pathways_are_those_of_the_largest_contrast_of_either_sign():
    every = pathways([0.1, -0.9, 0.2, 0.8, -0.3, 0.0, 0.5, -0.5, 0.4, 0.6])
    assert every.scaffold.strongest(3).tolist() == [1, 3, 9]
    assert every.scaffold.strongest(5).tolist() == [1, 3, 6, 7, 9]
    assert every.scaffold.strongest(None).tolist() == every.scaffold.strongest(99).tolist() == list(range(10))
    assert pathways(np.ones(10)).scaffold.strongest(4).tolist() == [0, 1, 2, 3]  # ties: the first


def test_some_pathways_keep_their_numbers_and_have_a_graph_of_their_own():
    every = pathways([0.1, -0.9, 0.2, 0.8, -0.3, 0.0, 0.5, -0.5, 0.4, 0.6])
    some = every.on(np.array([1, 3, 9]))
    assert some.scaffold.edges.tolist() == [1, 3, 9]
    assert some.scale.ravel().tolist() == some.centre.ravel().tolist() == some.skip.tolist() == [1, 3, 9]
    assert some.orientation.tolist() == [-1, 1, 1]
    alone = line_graph(np.array([[0, 2], [0, 4], [3, 4]]), np.array([-0.9, 0.8, 0.6]))
    np.testing.assert_array_equal(some.graph.prior, alone.prior)
    np.testing.assert_array_equal(some.graph.propagation.toarray(), alone.propagation.toarray())
    assert every.on(np.arange(10)) is every


def test_contributions_of_the_linear_reading_add_up_to_it():
    every, h0 = pathways(np.arange(10)), np.random.default_rng(0).normal(size=(10, 4, 3))
    expected = [sum(every.skip[p] * h0[p, i, 0] for p in range(10)) for i in range(4)]
    np.testing.assert_allclose(every.contributions(h0).sum(axis=0), expected)


def test_profiles_of_some_edges_and_people_are_those_of_everybody():
    rng = np.random.default_rng(0)
    series = [rng.normal(size=(60, 5)) for _ in range(3)]
    values = log_profiles(np.arange(10), series, 30, 5)
    every = Profiles(np.arange(10), ArrayColumns(values.reshape(3, -1)), 3)
    some = log_profiles(np.array([2, 5, 9]), series, 30, 5)
    np.testing.assert_array_equal(every.of(np.array([2, 5, 9])), some)
    np.testing.assert_array_equal(every.of(np.array([5]), np.array([False, True, False])), some[1:2, 1:2])
