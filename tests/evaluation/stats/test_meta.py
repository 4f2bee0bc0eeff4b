import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import expit, logit
from scipy.stats import norm
from statsmodels.stats.meta_analysis import combine_effects

from brainroam.evaluation.stats.meta import _hanley_mcneil, pool, pool_auc, predict_next, tau2_reml

# 13 trials of the BCG vaccine (Colditz et al. 1994): tuberculosis yes/no, vaccinated then not.
BCG = np.array(
    [
        [4, 119, 11, 128],
        [6, 300, 29, 274],
        [3, 228, 11, 209],
        [62, 13536, 248, 12619],
        [33, 5036, 47, 5761],
        [180, 1361, 372, 1079],
        [8, 2537, 10, 619],
        [505, 87886, 499, 87892],
        [29, 7470, 45, 7232],
        [17, 1699, 65, 1600],
        [186, 50448, 141, 27197],
        [5, 2493, 3, 2338],
        [27, 16886, 29, 17825],
    ]
)

studies = st.lists(st.tuples(st.floats(-3, 3), st.floats(0.01, 2)), min_size=2, max_size=15)


def log_risk_ratios():
    a, b, c, d = BCG.T
    return np.log(a / (a + b) / (c / (c + d))), 1 / a - 1 / (a + b) + 1 / c - 1 / (c + d)


def restricted_log_likelihood(tau2, y, v):
    """From the density of the k - 1 error contrasts, an independent route to the same function."""
    k = len(y)
    contrasts = np.eye(k)[1:] - np.eye(k)[0]
    covariance = contrasts @ np.diag(v + tau2) @ contrasts.T
    z = contrasts @ y
    return -0.5 * np.linalg.slogdet(covariance)[1] - 0.5 * z @ np.linalg.solve(covariance, z)


def test_reml_reproduces_metafor_on_the_bcg_trials():
    """Viechtbauer (2010), Journal of Statistical Software 36(3): tau^2 0.3132, log risk ratio -0.7145 (se 0.1798)."""
    y, v = log_risk_ratios()
    tau2 = tau2_reml(y, v)
    assert tau2 == pytest.approx(0.3132, abs=5e-5)
    assert pool(y, v).estimate == pytest.approx(-0.7145, abs=5e-5)
    assert (1 / (v + tau2)).sum() ** -0.5 == pytest.approx(0.1798, abs=5e-5)


@given(studies)
def test_reml_maximises_the_restricted_likelihood(rows):
    y, v = np.array(rows).T
    found = restricted_log_likelihood(tau2_reml(y, v), y, v)
    best = minimize_scalar(lambda t: -restricted_log_likelihood(np.exp(t), y, v), bounds=(-15, 5), method="bounded")
    grid = [restricted_log_likelihood(t, y, v) for t in (0, 0.01, 0.1, 1, 10)]
    assert found >= max(-best.fun, *grid) - 1e-6


def test_reml_finds_the_higher_of_two_peaks():
    """Here the likelihood falls from zero before it rises to its maximum."""
    y, v = np.array([-0.48474484, -0.5912785, 1.1558614]), np.array([0.01969739, 0.0142825, 0.34768214])
    assert restricted_log_likelihood(0.01, y, v) < restricted_log_likelihood(0, y, v)
    grid = np.arange(0, 2, 1e-3)
    assert tau2_reml(y, v) == pytest.approx(
        grid[np.argmax([restricted_log_likelihood(x, y, v) for x in grid])], abs=2e-3
    )


def test_hartung_knapp_is_that_of_statsmodels():
    y, v = log_risk_ratios()
    theirs = combine_effects(y, v + tau2_reml(y, v), method_re="dl", use_t=True)
    # With tau^2 added to the variances, their fixed-effect fit is our random-effects fit at that tau^2.
    interval = theirs.conf_int(use_t=True)[2]
    ours = pool(y, v)
    assert ours.estimate == pytest.approx(theirs.mean_effect_fe)
    assert (ours.low, ours.high) == pytest.approx(interval)


def test_the_next_site_is_normal_when_sites_are_many_and_exact():
    """With 4000 exactly measured sites the prediction interval is mean +- 1.96 sd of the true effects."""
    y = norm.ppf((np.arange(4000) + 0.5) / 4000, loc=1, scale=0.5)
    low, high = predict_next(y, np.full(4000, 1e-6))
    assert (low, high) == pytest.approx((1 - 1.96 * 0.5, 1 + 1.96 * 0.5), abs=0.02)


def test_the_next_site_interval_is_the_quantile_of_a_brute_force_mixture():
    """Draw chi-squared, solve Q(tau^2) for it by bisection, draw the next effect; compare quantiles."""
    rng = np.random.default_rng(0)
    y, v = rng.normal(0.8, 0.5, 6), rng.uniform(0.05, 0.3, 6)

    def fit(tau2):
        w = 1 / (v + tau2[:, None])
        mu = (w * y).sum(axis=1) / w.sum(axis=1)
        return mu, w.sum(axis=1), (w * (y - mu[:, None]) ** 2).sum(axis=1)

    u = rng.chisquare(5, size=100_000)
    low, high = np.zeros_like(u), np.full_like(u, 1e4)
    for _ in range(50):
        middle = (low + high) / 2
        above = fit(middle)[2] > u
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    mu, precision, _ = fit(low)
    draws = rng.normal(mu, np.sqrt(low + 1 / precision))
    assert predict_next(y, v) == pytest.approx(tuple(np.quantile(draws, [0.025, 0.975])), abs=0.05)


@given(studies)
def test_the_next_site_is_less_certain_than_the_mean_and_intervals_are_ordered(rows):
    y, v = np.array(rows).T
    result = pool(y, v)
    assert result.low <= result.estimate <= result.high
    assert result.next_low < result.estimate < result.next_high
    fixed = (1 / v).sum() ** -0.5
    assert result.next_high - result.next_low >= 2 * 1.95 * fixed


@given(studies, st.floats(-2, 2))
def test_shifting_all_effects_shifts_all_results(rows, shift):
    y, v = np.array(rows).T
    here, there = pool(y, v), pool(y + shift, v)
    assert there.tau**2 == pytest.approx(here.tau**2, abs=1e-5)
    assert there.next_low == pytest.approx(here.next_low + shift, abs=1e-3)


def test_one_site_or_none_has_no_interval():
    one = pool_auc([0.7], [0.01], [10], [10])
    assert (one.estimate, one.n_sites) == (pytest.approx(0.7), 1)
    assert np.isnan([one.low, one.high, one.next_low, one.next_high, one.tau]).all()
    assert np.isnan(pool_auc([np.nan], [np.nan], [10], [0]).estimate)


def test_two_sites_say_next_to_nothing_about_a_third():
    result = pool_auc([0.7, 0.75], [0.003, 0.003], [40, 40], [40, 40])
    assert result.next_low < 0.3 and result.next_high > 0.95


def test_pooling_happens_on_the_logit_scale():
    auc, variance = np.array([0.6, 0.7, 0.8]), np.array([0.004, 0.003, 0.002])
    direct = pool(logit(auc), variance / (auc * (1 - auc)) ** 2)
    assert pool_auc(auc, variance, [20] * 3, [20] * 3).estimate == pytest.approx(expit(direct.estimate))
    assert pool_auc(auc, variance, [20] * 3, [20] * 3).tau == direct.tau


def test_swapping_cases_and_controls_mirrors_the_result():
    auc, variance = np.array([0.6, 0.7, 0.8]), np.array([0.004, 0.003, 0.002])
    one, other = (pool_auc(a, variance, [20] * 3, [15] * 3) for a in (auc, 1 - auc))
    assert one.next_low == pytest.approx(1 - other.next_high)
    assert one.estimate == pytest.approx(1 - other.estimate)


@pytest.mark.parametrize("extreme", [0.0, 1.0])
def test_separated_sites_pull_but_do_not_rule(extreme):
    """Perfect sites have DeLong variance 0 and an infinite logit; uncorrected they would decide everything."""
    result = pool_auc([0.6, 0.62, 0.64, extreme], [0.008, 0.008, 0.008, 0.0], [15] * 4, [15] * 4)
    assert 0 < result.next_low < result.low < result.estimate < result.high < result.next_high < 1
    assert abs(result.estimate - extreme) > 0.2
    everywhere = pool_auc([extreme] * 4, [0.0] * 4, [15] * 4, [15] * 4)
    assert abs(everywhere.estimate - extreme) < 0.01
    assert everywhere.next_low < everywhere.next_high


def test_hanley_and_mcneil_is_exact_for_exponential_scores():
    rng = np.random.default_rng(0)
    cases, controls = rng.exponential(3, size=(40_000, 4)), rng.exponential(1, size=(40_000, 9))
    auc = (cases[:, :, None] > controls[:, None]).mean(axis=(1, 2))
    assert auc.mean() == pytest.approx(0.75, abs=0.005)
    assert _hanley_mcneil(0.75, 4, 9) == pytest.approx(auc.var(), rel=0.03)


def test_a_site_with_a_single_case_still_counts():
    """DeLong's variance needs two people per class; Hanley and McNeil's does not."""
    result = pool_auc([0.6, 0.7, 0.8], [0.005, 0.005, np.nan], [20, 20, 1], [20, 20, 30])
    assert result.n_sites == 3 and np.isfinite(result.next_low)


def test_a_constant_score_is_certainly_at_chance():
    result = pool_auc([0.5] * 4, [0.0] * 4, [10] * 4, [12] * 4)
    assert [result.low, result.high, result.next_low, result.next_high] == [0.5] * 4
