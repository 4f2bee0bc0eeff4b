"""Ridges in the people and by conjugate gradients against the closed form in the features."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brainroam.core.ridge import DualRidge, iterative_ridge, ridge_weights
from brainroam.errors import UsageError


def literal(x, target, nuisance, penalty):
    """Project the nuisance directions out, centre, and solve the normal equations."""
    g = x.T @ nuisance
    projection = np.eye(x.shape[1]) - g @ np.linalg.pinv(g)
    z = x @ projection
    centred, t = z - z.mean(axis=0), target - target.mean()
    return projection @ np.linalg.solve(centred.T @ centred + penalty * np.eye(x.shape[1]), centred.T @ t)


@given(st.integers(0, 2**32 - 1), st.integers(0, 3), st.floats(0.1, 100))
def test_weights_are_those_of_the_closed_form_also_without_a_group(seed, n_nuisance, penalty):
    rng = np.random.default_rng(seed)
    n, m = 30, 40
    x, target, nuisance = rng.normal(size=(n, m)), rng.normal(size=n), rng.normal(size=(n, n_nuisance))
    ridge, group = DualRidge(x @ x.T, penalty, nuisance), rng.choice(n, 8, replace=False)
    np.testing.assert_allclose(x.T @ ridge.weights(target), literal(x, target, nuisance, penalty), atol=1e-8)
    rest = np.setdiff1d(np.arange(n), group)
    beta = ridge.weights(target, without=group)
    assert (beta[group] == 0).all()
    np.testing.assert_allclose(x.T @ beta, literal(x[rest], target[rest], nuisance[rest], penalty), atol=1e-8)


@given(st.integers(0, 2**32 - 1), st.integers(0, 3), st.lists(st.floats(0.01, 1e4), min_size=1, max_size=3))
def test_conjugate_gradients_give_the_closed_form_for_every_choice_of_people_and_penalty(seed, n_nuisance, penalties):
    rng = np.random.default_rng(seed)
    n, m, n_problems = 30, 40, 3
    x, target, nuisance = rng.normal(size=(n, m)).astype("f4"), rng.normal(size=n), rng.normal(size=(n, n_nuisance))
    people, scales = rng.random((n, n_problems)) < 0.8, rng.random((m, n_problems)) + 0.1
    blocks = [(slice(0, 15), x[:, :15]), (slice(15, 40), x[:, 15:])]
    shared = np.repeat(penalties, n_problems).reshape(-1, n_problems)
    found = iterative_ridge(blocks, people, scales, target, nuisance, shared)
    for k, who in enumerate(people.T):
        for weights, penalty in zip(found[:, :, k], penalties, strict=True):
            expected = literal(x[who] * scales[:, k], target[who], nuisance[who], penalty)
            np.testing.assert_allclose(weights, expected, rtol=0, atol=1e-7 * np.abs(expected).max())


def test_a_target_that_is_the_same_for_everybody_has_no_weights():
    x = np.random.default_rng(0).normal(size=(6, 9)).astype("f4")
    problem = np.ones((6, 1), dtype=bool), np.ones((9, 1)), np.ones(6), np.ones((6, 1)), np.ones((2, 1))
    assert (iterative_ridge([(slice(0, 9), x)], *problem) == 0).all()


def test_a_nuisance_that_is_zero_or_given_twice_changes_nothing():
    rng = np.random.default_rng(0)
    x, target, c = rng.normal(size=(20, 30)), rng.normal(size=20), rng.normal(size=(20, 1))
    gram = x @ x.T
    plain = DualRidge(gram, 2.0).weights(target)
    np.testing.assert_allclose(DualRidge(gram, 2.0, np.zeros((20, 1))).weights(target), plain, atol=1e-12)
    once, twice = (DualRidge(gram, 2.0, n).weights(target) for n in (c, np.hstack([c, c])))
    np.testing.assert_allclose(x.T @ twice, x.T @ once, atol=1e-8)


@pytest.mark.parametrize("shape", [(30, 12), (12, 30), (1002, 1001), (1001, 1300)])
def test_ridge_weights_are_the_same_by_people_by_features_and_by_iterations(shape):
    rng = np.random.default_rng(1)
    x, target = rng.normal(size=shape), rng.normal(size=shape[0])
    size = np.mean(np.sum(x**2, axis=1))
    expected = np.mean(
        [np.linalg.solve(x.T @ x / size + p * np.eye(shape[1]), x.T @ (target - target.mean()) / size) for p in (1, 5)],
        axis=0,
    )
    np.testing.assert_allclose(ridge_weights(x, target, 1, 5), expected, atol=1e-10)


@pytest.mark.parametrize("penalty", [0.0, -1.0])
def test_a_penalty_that_is_not_positive_is_refused(penalty):
    with pytest.raises(UsageError, match="larger"):
        DualRidge(np.eye(2), penalty)
