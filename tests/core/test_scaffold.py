"""The scaffold against its definition, its errors, and the margin within which it cannot change."""

import re
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import binom

from brainroam.core.scaffold import (
    distinct_thresholds,
    extract_scaffold,
    hierarchical_stability,
    median_over_sites,
    select_scaffold,
    sign_consistency,
    site_contrasts,
    site_stability,
)
from brainroam.core.site_fit import huber_mean, huber_regression
from brainroam.core.site_flips import flipped_strengths
from brainroam.data.target import Number
from brainroam.errors import BrainroamError, DataError, EmptyScaffoldError


def people(n_sites=5, n=12, n_edges=40, effect=0.8, seed=0):
    """Residuals, labels and sites; the first ten edges differ between cases and controls, half of them downwards."""
    rng = np.random.default_rng(seed)
    y, site = np.tile([0, 1], n_sites * n), np.repeat([f"S{e}" for e in range(n_sites)], 2 * n)
    pattern = np.zeros(n_edges)
    pattern[:10] = effect * np.tile([1, -1], 5)
    return rng.normal(size=(len(y), n_edges)) + y[:, None] * pattern, y, site


@pytest.mark.parametrize("sign", ["both", "positive", "negative"])
def test_the_scaffold_is_what_its_definition_says(sign):
    residuals, y, site = people()
    residuals[np.random.default_rng(1).random(residuals.shape) < 0.05] = np.nan
    found = extract_scaffold(residuals, y, site, tau_percentile=70, eta=0.7, zeta=0.6, sign=sign)
    contrast = np.array(
        [
            huber_mean(residuals[(site == name) & (y == 1)]) - huber_mean(residuals[(site == name) & (y == 0)])
            for name in sorted(set(site))
        ]
    )
    np.testing.assert_array_equal(found.contrast, contrast)
    consensus = np.median(contrast, axis=0)
    np.testing.assert_allclose(found.consensus, consensus, atol=1e-15)
    tau = np.percentile(np.abs(consensus), 70)
    assert found.tau == pytest.approx(tau)
    expected = []
    for j in range(residuals.shape[1]):
        kappa = np.mean([np.sign(d) == np.sign(consensus[j]) for d in contrast[:, j]])
        assert found.sign_consistency[j] == pytest.approx(kappa)
        size = {"both": abs(consensus[j]), "positive": consensus[j], "negative": -consensus[j]}[sign]
        if size > tau and kappa >= 0.7 and found.stability[j] >= 0.6:
            expected.append(j)
    assert found.edges.tolist() == expected
    assert expected
    np.testing.assert_array_equal(found.signs, np.sign(consensus[expected]))


def test_it_finds_planted_edges_and_their_signs():
    residuals, y, site = people(n=40)
    found = extract_scaffold(residuals, y, site, tau_percentile=75)
    assert set(found.edges) == set(range(10))
    np.testing.assert_array_equal(found.signs, np.tile([1, -1], 5))


def test_sites_that_lack_an_edge_do_not_vote_on_it():
    contrast = np.array([[0.1, np.nan, 0.0], [0.3, np.nan, -0.2], [np.nan, np.nan, 0.0], [-0.2, np.nan, 0.4]])
    consensus = median_over_sites(contrast)
    np.testing.assert_allclose(consensus, [0.1, np.nan, 0.0])
    kappa = sign_consistency(contrast, consensus)
    np.testing.assert_allclose(kappa, [2 / 3, 0, 2 / 4])  # sgn(0) = 0: two sites share the consensus' sign


@given(arrays(float, st.tuples(st.integers(1, 7), st.integers(1, 4)), elements=st.floats(-5, 5) | st.just(np.nan)))
def test_the_median_equals_numpy_where_sites_are_missing(contrast):
    known = ~np.isnan(contrast).all(axis=0)
    found = median_over_sites(contrast)
    np.testing.assert_allclose(found[known], np.nanmedian(contrast[:, known], axis=0), atol=1e-12)
    assert np.isnan(found[~known]).all()


@given(arrays(float, st.integers(1, 8), elements=st.floats(-5, 5)), st.floats(-5, 5), st.data())
def test_the_median_is_equivariant_monotone_and_non_expansive(d, shift, data):
    up = data.draw(arrays(float, len(d), elements=st.floats(0, 3)))
    low, high, moved = median_over_sites(np.column_stack([d, d + up, d + shift]))
    assert moved == pytest.approx(low + shift, abs=1e-12)
    assert low - 1e-12 <= high <= low + up.max() + 1e-12


def test_the_edges_of_both_signs_are_the_positive_and_the_negative_ones():
    contrast = np.random.default_rng(0).normal(size=(7, 300))
    both, up, down = (
        select_scaffold(contrast, "ABCDEFG", 70, 0.6, 0.6, sign=sign) for sign in ("both", "positive", "negative")
    )
    assert sorted([*up.edges, *down.edges]) == both.edges.tolist()
    assert (up.signs > 0).all() and (down.signs < 0).all() and up.tau == down.tau == both.tau


def test_an_unknown_sign_is_named():
    with pytest.raises(BrainroamError, match="Known: both, positive, negative"):
        select_scaffold(np.ones((3, 4)), "ABC", sign="plus")


def test_a_scaffold_without_edges_of_a_sign_says_which_there_are():
    with pytest.raises(EmptyScaffoldError, match="no edge has a negative consensus"):
        select_scaffold(1 + np.random.default_rng(0).random((5, 20)), "ABCDE", sign="negative")


def test_the_remedy_for_an_empty_scaffold_of_one_sign_works():
    contrast = np.tile(np.r_[np.linspace(-2, -1, 50), np.linspace(0.1, 0.5, 50)], (5, 1))
    with pytest.raises(EmptyScaffoldError) as caught:
        select_scaffold(contrast, "ABCDE", 80, sign="positive")
    remedy = float(re.search(r"; tau_percentile=([\d.]+)", str(caught.value)).group(1))
    assert len(select_scaffold(contrast, "ABCDE", remedy, sign="positive"))


def test_a_site_with_one_class_has_no_contrast():
    residuals, y, site = people()
    y = np.where(site == "S2", 0, y)
    found = extract_scaffold(residuals, y, site, tau_percentile=50)
    assert found.sites == ("S0", "S1", "S3", "S4")
    assert len(found.contrast) == 4


def test_hierarchical_bootstrap_is_an_option_that_follows_its_seed():
    residuals, y, site = people(n=20)
    options = {"tau_percentile": 70, "bootstrap": "hierarchical", "n_boot": 100}
    first, again, other = (extract_scaffold(residuals, y, site, **options, random_state=s) for s in (0, 0, 1))
    assert first.stability.tobytes() == again.stability.tobytes()
    assert first.stability.tobytes() != other.stability.tobytes()
    assert len(first)


def test_flipped_sites_tell_agreement_from_chance():
    rng, sites = np.random.default_rng(0), [f"s{k}" for k in range(10)]

    def p_value(contrast, sign="both"):
        strengths = flipped_strengths(contrast, sites[: len(contrast)], sign=sign)
        return (strengths >= strengths[0]).mean()

    noise = rng.normal(size=(20, 10, 200))
    p = np.array([p_value(contrast) for contrast in noise])
    assert 0.35 < p.mean() < 0.65
    agreed = noise[0] + np.where(np.arange(200) < 20, 2.0, 0.0)
    assert p_value(agreed) < 0.05 and p_value(agreed[:5]) == 1 / 16
    assert p_value(agreed, "positive") < 0.05
    assert 0.35 < np.mean([p_value(contrast, "negative") for contrast in noise]) < 0.65


@given(st.integers(2, 20), st.lists(st.integers(1, 100).map(lambda k: k / 100), min_size=1, max_size=8))
def test_thresholds_collapse_to_those_that_differ_in_effect(n_sites, grid):
    kappas = np.arange(n_sites + 1) / n_sites

    def admitted(eta):
        return int((kappas >= eta).sum())

    kept = distinct_thresholds(n_sites, grid)
    assert set(kept) <= set(grid)
    assert len({admitted(eta) for eta in kept}) == len(kept)
    assert {admitted(eta) for eta in kept} == {admitted(eta) for eta in grid}


# --- errors ----------------------------------------------------------------------------------------------------------


def settings_in(message):
    found = re.search(r"; (.*) would keep at least one", message)
    assert found, message
    return {name: float(value) for name, value in (part.split("=") for part in found[1].split(", "))}


@pytest.mark.parametrize(
    ("thresholds", "named"),
    [
        ({"tau_percentile": 100}, "tau_percentile=100"),
        ({"tau_percentile": 60, "eta": 1.01}, "eta=1.01"),
        ({"tau_percentile": 99, "eta": 0.999}, "eta=0.999"),
        ({"tau_percentile": 60, "eta": 0.5, "zeta": 1.01}, "zeta=1.01"),
    ],
)
@pytest.mark.parametrize("n_sites", [3, 4, 9])
def test_an_empty_scaffold_names_the_threshold_and_settings_that_work(thresholds, named, n_sites):
    contrast = np.random.default_rng(n_sites).normal(size=(n_sites, 300))
    contrast[0, 5] = np.nan
    sites = [f"S{e}" for e in range(n_sites)]
    thresholds = {"tau_percentile": 80, "eta": 0.75, "zeta": 0.7} | thresholds
    consensus = median_over_sites(contrast)
    if thresholds["eta"] == 0.999:  # a strong edge on which all agree would pass
        contrast[:, sign_consistency(contrast, consensus) == 1] *= 0.01
    with pytest.raises(EmptyScaffoldError, match=named) as error:
        select_scaffold(contrast, sites, **thresholds)
    remedy = settings_in(str(error.value))
    assert remedy
    assert len(select_scaffold(contrast, sites, **(thresholds | remedy))) >= 1


def test_equal_contrasts_cannot_be_told_apart():
    with pytest.raises(EmptyScaffoldError, match="contrast"):
        select_scaffold(np.ones((3, 10)), ["A", "B", "C"])


def test_no_edge_at_any_site_is_named():
    with pytest.raises(EmptyScaffoldError, match="present"):
        select_scaffold(np.full((3, 4), np.nan), ["A", "B", "C"])


def test_fewer_than_two_sites_with_both_classes_is_named():
    residuals, y, site = people()
    y = np.where(site == "S1", y, 0)
    with pytest.raises(DataError, match="S1"):
        extract_scaffold(residuals, y, site)


def test_an_unknown_bootstrap_is_named():
    residuals, y, site = people()
    with pytest.raises(BrainroamError, match="'sites'"):
        extract_scaffold(residuals, y, site, bootstrap="site")


# --- proposition 2: margin stability ---------------------------------------------------------------------------------

DELTA = 0.4
TOLERANCE = 1e-6  # of the Huber iteration


def evidence(residuals, y, site):
    """Contrasts, consensus, kappa and pi, with a fixed Huber delta."""
    contrast = site_contrasts(residuals, y, site, sorted(set(site)), huber_delta=DELTA)
    consensus = median_over_sites(contrast)
    return contrast, consensus, sign_consistency(contrast, consensus), site_stability(contrast, consensus)


def sign_margin(contrast, consensus):
    """How far consensus, contrasts and every possible bootstrap median are from changing sign."""
    ordered, n = np.sort(contrast, axis=0), len(contrast)
    medians = [ordered[a] + ordered[b] for a in range(n) for b in range(a, n if n % 2 == 0 else a + 1)]
    return np.min([np.abs(consensus), *np.abs(contrast), *(np.abs(m) / 2 for m in medians)], axis=0)


def perturbed(seed, n_sites, per_class, size):
    """Oracle residuals, the same with a nuisance left in, and Delta_j of that nuisance.

    The nuisance (an intercept and a slope for each site and edge) is scaled to ``size`` times the median sign margin.
    """
    rng = np.random.default_rng(seed)
    n_edges, n = 12, n_sites * 2 * per_class
    y, e = np.tile([0, 1], n // 2), np.repeat(np.arange(n_sites), 2 * per_class)
    site = np.array([f"S{k}" for k in e])
    oracle = rng.normal(0, 0.5, (n, n_edges)) + np.outer(y, rng.normal(0, 0.6, n_edges))
    q, slope = rng.uniform(-1, 1, (n, 1)), rng.normal(size=(n_sites, n_edges))
    nuisance = rng.normal(size=(n_sites, n_edges))[e] + q * slope[e]
    worst = [[np.abs(nuisance[(e == k) & (y == c)]).max(axis=0) for c in (0, 1)] for k in range(n_sites)]
    bound = np.sum(worst, axis=1).max(axis=0)
    scale = size * np.median(sign_margin(*evidence(oracle, y, site)[:2])) / bound
    return oracle, oracle - scale * nuisance, scale * bound, y, site


COHORTS = {
    "seed": st.integers(0, 2**32 - 1),
    "n_sites": st.integers(2, 6),
    "per_class": st.integers(2, 6),
    "size": st.floats(0.05, 0.95),
}


@settings(max_examples=60, deadline=None)
@given(**COHORTS, percentile=st.floats(5, 90), eta=st.floats(0.3, 1), zeta=st.floats(0.3, 0.99))
def test_an_edge_within_its_margin_keeps_its_membership(seed, n_sites, per_class, size, percentile, eta, zeta):
    oracle, estimated, bound, y, site = perturbed(seed, n_sites, per_class, size)
    contrast, consensus, kappa, pi = evidence(oracle, y, site)
    tau = np.percentile(np.abs(consensus), percentile)  # the proposition's tau is a fixed number
    margin = np.minimum(sign_margin(contrast, consensus), np.abs(np.abs(consensus) - tau))
    safe = bound < margin - TOLERANCE
    _, moved, moved_kappa, moved_pi = evidence(estimated, y, site)
    member = (np.abs(consensus) > tau) & (kappa >= eta) & (pi >= zeta)
    still = (np.abs(moved) > tau) & (moved_kappa >= eta) & (moved_pi >= zeta)
    np.testing.assert_array_equal(member[safe], still[safe])
    assert (np.abs(moved - consensus) <= bound + TOLERANCE).all()


@settings(max_examples=40, deadline=None)
@given(**COHORTS)
def test_with_a_percentile_tau_the_margin_shrinks_by_the_largest_perturbation(seed, n_sites, per_class, size):
    oracle, estimated, bound, y, site = perturbed(seed, n_sites, per_class, size / 3)
    options = {"tau_percentile": 40, "eta": 0.5, "zeta": 0.5, "huber_delta": DELTA}

    def members(residuals):
        try:
            return np.isin(np.arange(residuals.shape[1]), extract_scaffold(residuals, y, site, **options).edges)
        except EmptyScaffoldError:
            return np.zeros(residuals.shape[1], dtype=bool)

    contrast, consensus, _, _ = evidence(oracle, y, site)
    tau = np.percentile(np.abs(consensus), 40)
    safe = bound < sign_margin(contrast, consensus) - TOLERANCE
    safe &= bound + bound.max() < np.abs(np.abs(consensus) - tau) - TOLERANCE
    np.testing.assert_array_equal(members(oracle)[safe], members(estimated)[safe])


def test_the_propositions_condition_is_met_often_and_its_failure_matters():
    met = changed = 0
    for seed in range(20):
        oracle, estimated, bound, y, site = perturbed(seed, 5, 5, 2.0)
        contrast, consensus, kappa, _ = evidence(oracle, y, site)
        safe = bound < sign_margin(contrast, consensus)
        met += int(safe.sum())
        changed += int((evidence(estimated, y, site)[2] != kappa)[~safe].sum())
    assert met > 20
    assert changed > 5


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


def test_labels_of_any_two_classes_are_no_numbers():
    """-1 and 1 were taken for a number, whose slope is half the difference of the class means."""
    rng = np.random.default_rng(0)
    y, site = np.tile([0, 1], 30), np.repeat(["A", "B", "C"], 20)
    residuals = rng.normal(size=(60, 12))
    expected = extract_scaffold(residuals, y, site, tau_percentile=50, eta=0.6, zeta=0.5)
    for labels in (2 * y - 1, np.where(y, "ASD", "TD"), y.astype(bool)):
        found = extract_scaffold(residuals, labels, site, tau_percentile=50, eta=0.6, zeta=0.5)
        np.testing.assert_array_equal(found.contrast, expected.contrast)
    number = extract_scaffold(residuals, 2.0 * y, site, tau_percentile=50, eta=0.6, zeta=0.5, coding=Number("x").coding)
    np.testing.assert_allclose(2 * number.contrast, expected.contrast, atol=0.3)
