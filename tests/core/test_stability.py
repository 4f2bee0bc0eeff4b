"""pi against brute force, Monte Carlo and the binomial law."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import binom

from brainroam.core.huber import huber_mean, huber_regression
from brainroam.core.scaffold import hierarchical_stability, sign_consistency, site_stability


def monte_carlo(contrast, consensus, n_boot=20_000, seed=0):
    """Draw sites with replacement among those that have the edge, and look at the sign of the median."""
    rng = np.random.default_rng(seed)
    pi = np.empty(contrast.shape[1])
    for j, d in enumerate(contrast.T):
        d = d[np.isfinite(d)]
        medians = np.median(d[rng.integers(len(d), size=(n_boot, len(d)))], axis=1)
        pi[j] = (np.sign(medians) == np.sign(consensus[j])).mean()
    return pi


def all_resamples(d):
    """The same by going through every one of the E^E resamples."""
    medians = [np.median(draw) for draw in product(d, repeat=len(d))]
    return float(np.mean(np.sign(medians) == np.sign(np.median(d))))


@given(st.integers(1, 5).flatmap(lambda n: arrays(float, n, elements=st.integers(-4, 4).map(lambda k: k / 4))))
def test_closed_form_equals_every_resample_counted(d):
    found = site_stability(d[:, None], np.atleast_1d(np.median(d)))
    assert found[0] == pytest.approx(all_resamples(d), abs=1e-12)


@pytest.mark.parametrize("n_sites", [3, 6, 9, 10])
def test_closed_form_equals_monte_carlo(n_sites):
    rng = np.random.default_rng(n_sites)
    contrast = rng.normal(0.3, 1, size=(n_sites, 40))
    contrast[rng.random(contrast.shape) < 0.15] = 0
    contrast[rng.random(contrast.shape) < 0.15] = np.nan
    contrast[0] = 0.1  # every edge is somewhere
    consensus = np.nanmedian(contrast, axis=0)
    error = 5 * 0.5 / np.sqrt(20_000)
    np.testing.assert_allclose(site_stability(contrast, consensus), monte_carlo(contrast, consensus), atol=error)


@pytest.mark.parametrize("n_sites", [3, 5, 9, 11])
def test_with_an_odd_number_of_sites_pi_is_a_function_of_kappa(n_sites):
    contrast = np.random.default_rng(0).normal(size=(n_sites, 200))
    consensus = np.median(contrast, axis=0)
    kappa = sign_consistency(contrast, consensus)
    np.testing.assert_allclose(site_stability(contrast, consensus), binom.sf(n_sites // 2, n_sites, kappa), atol=1e-12)


def test_with_nine_sites_no_zeta_of_the_paper_binds():
    contrast = np.ones((9, 3))
    contrast[:2, 0] = contrast[:1, 1] = -1
    assert (site_stability(contrast, np.ones(3)) > 0.9).all()
    assert site_stability(contrast, np.ones(3))[0] == pytest.approx(binom.sf(4, 9, 7 / 9))


def test_an_edge_at_no_site_has_no_stability():
    assert site_stability(np.full((4, 1), np.nan), np.array([np.nan]))[0] == 0


def groups_of(effect, n_sites=5, n=12, n_edges=6, seed=0):
    rng = np.random.default_rng(seed)
    return [(rng.normal(effect, 1, (n, n_edges)), rng.normal(0, 1, (n, n_edges))) for _ in range(n_sites)]


def consensus_of(groups):
    return np.median([huber_mean(cases) - huber_mean(controls) for cases, controls in groups], axis=0)


def test_hierarchical_bootstrap_equals_a_loop_that_resamples_people_one_by_one():
    groups = groups_of(0.5)
    consensus = consensus_of(groups)
    weights = [[huber_regression(np.ones((len(group), 1)), group)[1] for group in pair] for pair in groups]
    rng, kept, n_boot = np.random.default_rng(1), np.zeros(6), 2000
    for _ in range(n_boot):
        contrast = []
        for e in rng.integers(len(groups), size=len(groups)):
            drawn = [rng.integers(len(group), size=len(group)) for group in groups[e]]
            means = [np.average(groups[e][c][i], axis=0, weights=weights[e][c][i]) for c, i in enumerate(drawn)]
            contrast.append(means[0] - means[1])
        kept += np.sign(np.median(contrast, axis=0)) == np.sign(consensus)
    found = hierarchical_stability(groups, consensus, n_boot=n_boot)
    np.testing.assert_allclose(found, kept / n_boot, atol=5 * 0.5 * np.sqrt(2 / n_boot))


def test_hierarchical_bootstrap_measures_sampling_noise_that_sites_alone_do_not_show():
    groups = groups_of(0.4, n=10, n_edges=60)
    contrast = np.array([huber_mean(cases) - huber_mean(controls) for cases, controls in groups])
    consensus = np.median(contrast, axis=0)
    agreed = sign_consistency(contrast, consensus) == 1
    assert agreed.any()
    np.testing.assert_allclose(site_stability(contrast, consensus)[agreed], 1)
    assert hierarchical_stability(groups, consensus)[agreed].mean() < 0.99


def test_hierarchical_bootstrap_follows_its_seed_and_bears_missing_values():
    groups = groups_of(0.5)
    groups[0][0][:, 0] = np.nan
    groups[1][1][:4, 1] = np.nan
    consensus = np.nanmedian([huber_mean(a) - huber_mean(b) for a, b in groups], axis=0)
    first, second = (hierarchical_stability(groups, consensus, n_boot=70, random_state=3) for _ in range(2))
    assert first.tobytes() == second.tobytes()
    assert first.tobytes() != hierarchical_stability(groups, consensus, n_boot=70, random_state=4).tobytes()
    whole = hierarchical_stability(groups_of(0.5), consensus_of(groups_of(0.5)), n_boot=70, random_state=3)
    np.testing.assert_array_equal(first[2:], whole[2:])  # what is missing touches no other edge
    assert first[0] == pytest.approx(
        hierarchical_stability([(a[:, :1], b[:, :1]) for a, b in groups[1:]], consensus[:1], n_boot=2000)[0], abs=0.2
    )


def test_people_who_belong_together_are_drawn_as_one():
    groups = groups_of(0.4, n=10, n_edges=60)
    consensus = consensus_of(groups)
    twice = [(np.repeat(cases, 2, axis=0), np.repeat(controls, 2, axis=0)) for cases, controls in groups]
    codes = [(np.repeat(np.arange(10), 2), np.repeat(np.arange(10), 2)) for _ in groups]
    once = hierarchical_stability(groups, consensus, huber_delta=np.inf)
    np.testing.assert_allclose(hierarchical_stability(twice, consensus, huber_delta=np.inf, codes=codes), once)
    apart = hierarchical_stability(twice, consensus, huber_delta=np.inf)  # as if there were twice as many people
    assert apart.mean() > once.mean() + 0.01
