"""Partial pooling of slopes: bias where slopes differ, variance where they do not."""

import numpy as np
import pandas as pd
import pytest

from brainroam import SiteDeconfounder
from brainroam.core.site_fit import shrunken_slopes


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
