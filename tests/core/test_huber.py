"""Huber regression against statsmodels, and the properties of the Huber mean that margin stability rests on."""

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import brentq

from brainroam.core.huber import huber_mean, huber_regression

DELTAS = st.sampled_from([0.05, 0.3, 1.0, 5.0])
# Numbers a thousandth apart: closer ones would only test the tolerance of the iteration.
NUMBERS = st.integers(-5000, 5000).map(lambda k: k / 1000)
SAMPLES = arrays(float, st.integers(1, 15), elements=NUMBERS)
CLOSE = 1e-6


def noisy_regression(n=40, n_edges=60, seed=0):
    rng = np.random.default_rng(seed)
    design = np.column_stack([np.ones(n), rng.normal(size=(n, 2))])
    values = design @ rng.normal(size=(3, n_edges)) + rng.standard_t(3, size=(n, n_edges))
    return design, values


def rlm(design, y, k=1.345):
    return sm.RLM(y, design, M=sm.robust.norms.HuberT(k)).fit(scale_est="mad")


@pytest.mark.parametrize("k", [1.345, 0.8])
def test_coefficients_and_weights_equal_statsmodels(k):
    design, values = noisy_regression()
    coef, weights = huber_regression(design, values, k)
    for j in range(values.shape[1]):
        reference = rlm(design, values[:, j], k)
        np.testing.assert_allclose(coef[:, j], reference.params, atol=1e-6)
        np.testing.assert_allclose(weights[:, j], reference.weights, atol=1e-5)


def test_a_missing_value_is_as_if_the_person_were_not_there():
    design, values = noisy_regression()
    values[np.random.default_rng(1).random(values.shape) < 0.2] = np.nan
    coef, weights = huber_regression(design, values)
    for j in range(values.shape[1]):
        present = np.isfinite(values[:, j])
        np.testing.assert_allclose(coef[:, j], rlm(design[present], values[present, j]).params, atol=1e-6)
        assert (weights[~present, j] == 0).all()


def test_an_edge_that_nobody_has_is_nan_and_leaves_the_others_alone():
    design, values = noisy_regression()
    expected = huber_regression(design, values[:, 1:])[0]
    values[:, 0] = np.nan
    coef, weights = huber_regression(design, values)
    assert np.isnan(coef[:, 0]).all()
    assert (weights[:, 0] == 0).all()
    np.testing.assert_array_equal(coef[:, 1:], expected)


def test_an_exact_fit_of_half_the_people_is_found_and_the_outlier_ignored():
    values = np.array([[1.0, 0.3], [1.0, 0.3], [1.0, 0.3], [9.0, 0.3]])
    coef, weights = huber_regression(np.ones((4, 1)), values)
    np.testing.assert_allclose(coef, [[1.0, 0.3]], atol=1e-7)
    np.testing.assert_allclose(weights, [[1, 1], [1, 1], [1, 1], [0, 1]], atol=1e-7)


@pytest.mark.parametrize("delta", [0.02, 0.1, 0.5])
def test_fixed_delta_finds_the_minimum_of_the_huber_loss(delta):
    values = np.random.default_rng(0).normal(size=(25, 200))
    found = huber_mean(values, delta=delta)
    for x, mean in zip(values.T, found, strict=True):
        minimum = brentq(lambda m, x=x: np.clip(x - m, -delta, delta).sum(), x.min() - 1, x.max() + 1, xtol=1e-14)
        assert mean == pytest.approx(minimum, abs=CLOSE)


def test_fixed_delta_goes_on_where_the_first_fit_passes_through_half_the_people():
    values = np.array([[-1.0, 0, 0, 0, 0, 0.5, 0.5]]).T  # the mean is 0, and so is the median absolute residual
    assert huber_mean(values, delta=0.6)[0] == pytest.approx(0.4 / 6, abs=1e-8)


@given(SAMPLES, NUMBERS, DELTAS)
def test_the_huber_mean_moves_with_its_values(x, shift, delta):
    moved = huber_mean((x + shift)[:, None], delta=delta)
    np.testing.assert_allclose(moved, huber_mean(x[:, None], delta=delta) + shift, atol=CLOSE)


@given(SAMPLES, DELTAS, st.data())
def test_the_huber_mean_is_monotone_and_non_expansive(x, delta, data):
    up = data.draw(arrays(float, len(x), elements=st.integers(0, 3000).map(lambda k: k / 1000)))
    low, high = huber_mean(np.column_stack([x, x + up]), delta=delta)
    assert high >= low - CLOSE
    assert high - low <= up.max() + CLOSE


@settings(max_examples=30)
@given(st.permutations(range(12)))
def test_the_order_of_people_does_not_matter(order):
    design, values = noisy_regression(n=12, n_edges=8)
    np.testing.assert_allclose(
        huber_regression(design[order], values[order])[0], huber_regression(design, values)[0], atol=1e-8
    )
