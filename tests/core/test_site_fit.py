"""Huber regression against statsmodels, and the properties of the Huber mean that margin stability rests on."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import brentq

from brainroam import SiteDeconfounder
from brainroam.core.site_fit import fit_site, huber_mean, huber_regression, shrunken_slopes, slope_variances

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


def test_people_far_away_still_tell_the_covariates_apart():
    """Of the people whose second covariate is 0 both are far away: without a least weight nothing would be left."""
    design, values = np.column_stack([np.ones(7), [1, 1, 0, 1, 1, 0, 1]]), np.array([0, 0, 84444.0, 0, 302, 408, 0])
    expected = sm.RLM(values, design, M=sm.robust.norms.HuberT()).fit().params
    np.testing.assert_allclose(huber_regression(design, values[:, None])[0][:, 0], expected, rtol=1e-5)


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


def test_equal_slopes_share_their_precision_weighted_mean():
    own, variance = np.array([[1.0], [1.0], [4.0]]), np.array([[1.0], [1.0], [1e6]])
    shrunken, common = shrunken_slopes(own, variance)
    np.testing.assert_allclose(common, 1.0, atol=1e-5)
    np.testing.assert_allclose(shrunken, common[None].repeat(3, 0), atol=1e-12)


def test_a_site_without_a_slope_gets_none_and_does_not_matter_to_the_others():
    own, variance = np.array([[1.0], [3.0], [np.nan]]), np.array([[0.1], [0.1], [np.nan]])
    shrunken, common = shrunken_slopes(own, variance)
    alone, mean = shrunken_slopes(own[:2], variance[:2])
    assert np.isnan(shrunken[2, 0]) and common == mean
    np.testing.assert_array_equal(shrunken[:2], alone)


def cohort(spread, rng, n_sites=12, n=30, n_edges=40):
    """Edges with a slope on age that varies between sites, sites with narrow and broad age ranges."""
    site = np.repeat([f"S{e:02}" for e in range(n_sites)], n)
    width = np.repeat(rng.choice([1.0, 8.0], n_sites), n)
    age = 20 + width * rng.normal(size=n_sites * n)
    slope = 0.02 + spread * rng.normal(size=(n_sites, n_edges)).repeat(n, axis=0)
    return site, age, slope * (age - 20)[:, None] + 0.3 * rng.normal(size=(n_sites * n, n_edges))


@pytest.mark.parametrize(("spread", "gain"), [(0.0, 1.5), (0.01, 1.2), (0.3, 0.9)])
def test_what_is_left_of_the_covariate_at_a_new_person_is_not_more_than_with_plain_means(spread, gain):
    """Squared error of the slope: pooling wins where sites are alike, and is no worse where they are not."""
    errors = {"site": [], "shrunken": []}
    for seed in range(5):
        site, age, edges = cohort(spread, np.random.default_rng(seed))
        for slopes, found in errors.items():
            model = SiteDeconfounder(slopes=slopes).fit(edges, covariates=pd.DataFrame({"age": age}), site=site)
            found.append(np.mean((model.mean_coef_[0] / model.encoder_.std_[0] - 0.02) ** 2))
    assert np.mean(errors["site"]) > gain * np.mean(errors["shrunken"])


def test_shrinking_a_slope_leaves_the_mean_residual_of_each_site_where_it_was():
    site, age, edges = cohort(0.05, np.random.default_rng(0))
    own, pooled = (
        SiteDeconfounder(slopes=slopes).fit(edges, covariates=pd.DataFrame({"age": age}), site=site).residuals_
        for slopes in ("site", "shrunken")
    )
    assert np.abs(own - pooled).max() > 0.01
    for name in np.unique(site):
        np.testing.assert_allclose(pooled[site == name].mean(axis=0), own[site == name].mean(axis=0), atol=1e-10)


def test_a_line_through_all_people_of_a_tiny_site_does_not_set_the_common_slope():
    own, variance = np.array([[1.0], [1.2], [50.0]]), np.array([[0.01], [0.01], [0.0]])
    shrunken, common = shrunken_slopes(own, variance)
    assert common == pytest.approx(1.1)
    assert shrunken[2] == pytest.approx(1.1)


def test_small_sites_share_the_spread_of_everybody_and_others_keep_their_own():
    rng = np.random.default_rng(0)
    covariates = {n: rng.normal(size=(n, 2)) for n in (6, 9, 30)}
    fits = [fit_site(rng.normal(size=(n, 5)), q, 1.345, None) for n, q in covariates.items()]
    variance = slope_variances(fits)
    np.testing.assert_array_equal(variance[2], fits[2].variance)
    of_residuals = [
        fit.variance[0] / np.linalg.inv((n - 1) * np.cov(q.T))[0, 0]
        for fit, (n, q) in zip(fits, covariates.items(), strict=True)
    ]
    usual = np.average(of_residuals, axis=0, weights=[3, 6, 27])
    for found, q in zip(variance[:2], list(covariates.values())[:2], strict=True):
        leverage = np.diag(np.linalg.inv((len(q) - 1) * np.cov(q.T)))
        np.testing.assert_allclose(found, np.outer(leverage, usual))


def test_the_common_slope_of_tiny_sites_is_nearly_as_good_as_one_regression_with_an_intercept_for_each():
    """Weights by the spread of a handful of people had an error 2.8 times that of least squares."""
    rng, n_sites, n = np.random.default_rng(0), 30, 6
    site = np.repeat([f"S{e:02}" for e in range(n_sites)], n)
    q = pd.DataFrame({"age": rng.normal(size=len(site)), "motion": rng.normal(size=len(site))})
    edges = 0.2 * q[["age"]].to_numpy() + rng.normal(size=(len(site), 200))
    model = SiteDeconfounder(slopes="shrunken").fit(edges, covariates=q, site=site)
    found = model.mean_coef_[0] / model.encoder_.std_[0]
    dummies = (site[:, None] == np.unique(site)).astype(float)
    reference = np.linalg.lstsq(np.column_stack([q, dummies]), edges, rcond=None)[0][0]
    assert np.mean((found - 0.2) ** 2) < 2 * np.mean((reference - 0.2) ** 2)
