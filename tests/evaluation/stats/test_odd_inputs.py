"""Statistics on odd inputs, against references written out here, scikit-learn and statsmodels-like definitions."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import pearsonr, ttest_1samp
from sklearn import metrics as reference
from sklearn.model_selection import LeaveOneGroupOut

import brainroam
from brainroam import compare_sites, next_site
from brainroam.data.target import Number, sites_number, sites_several
from brainroam.data.target.calibration import calibrate, calibrate_classes, calibrate_number
from brainroam.data.target.order import correlations
from brainroam.data.target.sets import calibrate_intervals, calibrate_sets
from brainroam.errors import DataError
from brainroam.evaluation.stats import metrics
from brainroam.evaluation.stats import verdict as models
from brainroam.evaluation.stats.confounding import within_class_correlation, without
from brainroam.evaluation.stats.paired import holm
from brainroam.evaluation.stats.verdict import observed_next, verdict

UNITS = st.sampled_from([1e-9, 1e-3, 1.0, 1e6, 1e12])
SEEDS = st.integers(0, 10**6)


def tied(rng, n):
    """Scores of which some are the same, all the same, or far from 0."""
    values = rng.normal(size=n)
    kind = rng.integers(4)
    return [values, values.round(), np.full(n, 0.1), 1e7 + values][kind]


@given(SEEDS, UNITS, st.integers(3, 12))
@settings(max_examples=60, deadline=None)
def test_differences_of_sites_do_not_depend_on_their_units(seed, unit, n):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, n))
    one, other = compare_sites(a, b), compare_sites(unit * a, unit * b)
    np.testing.assert_allclose([one.mean, one.low, one.high], np.array(other[:3]) / unit, rtol=1e-9)
    np.testing.assert_allclose(one[3:], other[3:], rtol=1e-9)
    # the definition: a t test whose variance is that of the mean times 1 + k / (k - 2)
    plain = ttest_1samp(a - b, 0)
    assert one.t == pytest.approx(plain.statistic / np.sqrt(1 + n / (n - 2)))
    assert compare_sites(b, a).p == pytest.approx(one.p)


def test_the_same_difference_everywhere_is_tested_by_its_sign_in_any_units():
    for unit in (1e-12, 1.0, 1e12):
        found = compare_sites(unit * np.array([0.7, 0.8, 0.9, 0.5]), unit * np.array([0.6, 0.7, 0.8, 0.4]))
        assert found.p == 2.0**-3 and np.isnan(found.low)
        assert compare_sites(unit * np.arange(4.0), unit * np.arange(4.0)).p == 1


def test_results_of_other_sites_and_impossible_variances_are_named():
    with pytest.raises(DataError, match="sites"):
        compare_sites([1, 2, 3], [1, 2])
    with pytest.raises(DataError, match="variance"):
        next_site([0.1, 0.2, 0.3, 0.4], [0.1] * 3)
    for wrong in (0.0, -1.0):
        with pytest.raises(DataError, match="2"):
            next_site([0.1, 0.2, 0.3, 0.4, 0.5], [0.1, 0.1, wrong, 0.1, 0.1])


@given(SEEDS, UNITS, st.floats(-5, 5), st.integers(4, 15))
@settings(max_examples=60, deadline=None)
def test_the_next_site_moves_with_units_and_level_and_forgets_who_is_unknown(seed, unit, level, n):
    rng = np.random.default_rng(seed)
    a, v = rng.normal(size=n), rng.uniform(0.01, 1, n)
    one = next_site(a, v)
    other = next_site(unit * (a + level), unit**2 * v)
    ends = ("mean", "low", "high", "next_low", "next_high")
    expected = np.array([getattr(one, name) for name in ends]) + level
    np.testing.assert_allclose([getattr(other, name) / unit for name in ends], expected, atol=1e-9)
    assert other.tau / unit == pytest.approx(one.tau, abs=1e-9)
    assert one.next_low <= one.low <= one.mean <= one.high <= one.next_high
    again = next_site([*a, np.nan, 1.0], [*v, 1.0, np.nan])
    assert again == one


def test_a_site_where_everybody_has_the_same_value_can_be_foretold():
    mean, spans = observed_next([0.2] * 5, [0.0] * 5, 0.0)
    assert mean == pytest.approx(0.2) and np.allclose(spans, 0.2)


@given(SEEDS, st.integers(1, 30))
@settings(max_examples=80, deadline=None)
def test_metrics_are_those_of_scikit_learn_also_of_ties_one_class_and_one_person(seed, n):
    rng = np.random.default_rng(seed)
    y, score, p = rng.integers(0, 2, n), tied(rng, n), rng.random(n).round(1)
    threshold = float(np.median(score))
    found = metrics.site_metrics(y, score, threshold, p)
    called = score >= threshold
    assert found["acc"] == pytest.approx(reference.accuracy_score(y, called))
    assert found["brier"] == pytest.approx(np.mean((p - y) ** 2))
    if len(set(y)) == 2:
        assert found["auc"] == pytest.approx(reference.roc_auc_score(y, score))
        assert found["balanced_acc"] == pytest.approx(reference.balanced_accuracy_score(y, called))
    else:
        assert np.isnan([found["auc"], found["balanced_acc"]]).all()


def test_calibration_is_the_logistic_regression_of_scikit_learn():
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    for _ in range(10):
        y, p = rng.integers(0, 2, 60), rng.random(60)
        x = np.log(p / (1 - p))
        model = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(x[:, None], y)
        slope, intercept = metrics.calibration(y, p)
        assert (slope, intercept) == pytest.approx((model.coef_.item(), model.intercept_.item()), abs=1e-4)


@given(SEEDS, UNITS, st.sampled_from([0.0, 1.0, 1e6]))
@settings(max_examples=60, deadline=None)
def test_correlations_are_those_of_scipy_whatever_the_units_and_whatever_stands_beside(seed, unit, offset):
    rng = np.random.default_rng(seed)
    t, score = rng.normal(size=(2, 12))
    far = unit * (score + offset)
    expected = pearsonr(t, score).statistic
    beside = np.stack([far, 1e9 * rng.normal(size=12), np.full(12, 0.1)])
    found = correlations(t, beside)
    np.testing.assert_allclose(found[0], expected, atol=1e-6)
    assert found[2] == 0 and correlations(unit * t, far) == pytest.approx(expected, abs=1e-6)
    assert correlations(np.full(12, 0.1), score) == 0


@given(SEEDS, UNITS, st.sampled_from([0.0, 1.0, 1e6]))
@settings(max_examples=60, deadline=None)
def test_a_number_is_calibrated_by_least_squares_whatever_the_units(seed, unit, offset):
    rng = np.random.default_rng(seed)
    score = rng.normal(size=20)
    t = 3 * score + rng.normal(size=20)
    slope, intercept = np.polyfit(score, t, 1)
    found = calibrate_number(unit * (score + offset), t)
    np.testing.assert_allclose(found(unit * (score + offset)), intercept + slope * score, atol=1e-5)
    sites = sites_number.site_metrics(unit * t, unit * (3 * score + offset), 0.0, Number("t"))
    assert sites["scale"] == pytest.approx(np.polyfit(3 * score, t, 1)[0], rel=1e-5)
    assert sites["r"] == pytest.approx(np.corrcoef(score, t)[0, 1], abs=1e-6)
    level = 1e9 * unit  # both far from 0
    far = sites_number.site_metrics(unit * t + level, 3 * unit * score + level, 0.0, Number("t"))
    assert far["scale"] == pytest.approx(sites["scale"], rel=1e-5)
    hardly = sites_number.site_metrics(unit * t + level, 1e-3 * unit * score + level, 0.0, Number("t"))
    assert np.isnan(
        hardly["scale"]
    )  # predictions that hardly differ: a slope of 3,000 with an error above 1 says nothing


def test_sites_of_too_few_people_for_a_correlation_are_not_said_to_have_one_value():
    columns = ("level", "scale", "mae", "mae_constant", "gain_se", "r2", "r2_constant", "sd", "error_sd")
    sites = pd.DataFrame({name: [1.0, 2.0, 3.0] for name in columns}).assign(n=2, r=np.nan)
    judged = Number("t").order.judge(sites["r"].to_numpy(), sites[["n"]].to_numpy(), np.zeros((len(sites), 0)), models)
    assert "same for everybody" not in judged.reason


def test_a_site_of_one_class_takes_no_part_in_the_verdict():
    four = [0.6, 0.7, 0.65, 0.8], [20] * 4, [20] * 4
    assert verdict(*four) == verdict(*([*part, odd] for part, odd in zip(four, (0.5, 0, 10), strict=True)))


@given(SEEDS, st.integers(2, 5), st.integers(2, 25))
@settings(max_examples=60, deadline=None)
def test_several_classes_are_measured_as_scikit_learn_does_also_where_some_are_absent(seed, n_classes, n):
    rng = np.random.default_rng(seed)
    code = rng.integers(0, n_classes, n)
    p = rng.dirichlet(np.ones(n_classes), n).round(1) + 0.01
    p /= p.sum(axis=1, keepdims=True)
    called, names = p.argmax(axis=1), [f"c{k}" for k in range(n_classes)]
    found = sites_several.site_metrics(code, p, called, p, names)
    there = np.unique(code)
    assert found["log_loss"] == pytest.approx(reference.log_loss(code, p, labels=range(n_classes)))
    if len(there) > 1:
        of_class = [reference.roc_auc_score(code == k, p[:, k]) for k in there]
        assert found["auc"] == pytest.approx(np.mean(of_class))
        recall = reference.recall_score(code, called, labels=there, average="macro", zero_division=0)
        assert found["balanced_acc"] == pytest.approx(recall)
    else:
        assert np.isnan(found["auc"])


@given(SEEDS, st.integers(1, 8))
@settings(max_examples=60, deadline=None)
def test_holm_equals_its_definition(seed, n):
    rng = np.random.default_rng(seed)
    p = rng.random(n).round(1)
    p[rng.random(n) < 0.2] = np.nan
    known = p[np.isfinite(p)]
    for one, corrected in zip(p, holm(p), strict=True):
        if np.isnan(one):
            assert np.isnan(corrected)
        else:  # the largest, over all p not above this one, of p times how many are not below it
            steps = [q * (known >= q).sum() for q in known if q <= one]
            assert corrected == pytest.approx(min(1, max(steps)))


@given(SEEDS)
@settings(max_examples=40, deadline=None)
def test_leaving_sites_out_is_that_of_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    site = np.array([f"site {k}" for k in rng.integers(0, rng.integers(2, 6), 15)])
    X = np.zeros((15, 1))
    if len(set(site)) < 2:
        with pytest.raises(DataError, match="site"):
            list(brainroam.LeaveOneSiteOut().split(X, groups=site))
        return
    ours, theirs = (
        list(s.split(X, np.zeros(15), groups=site)) for s in (brainroam.LeaveOneSiteOut(), LeaveOneGroupOut())
    )
    for (train, test), (their_train, their_test) in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(train, their_train)
        np.testing.assert_array_equal(test, their_test)


@given(SEEDS, st.integers(2, 8), UNITS)
@settings(max_examples=60, deadline=None)
def test_a_calibration_keeps_order_prevalence_and_the_midpoint_whatever_the_units(seed, n_sites, unit):
    rng = np.random.default_rng(seed)
    n = 6 * n_sites
    site, y = np.repeat(np.arange(n_sites), 6), np.tile([0, 1, 1, 0, 0, 1], n_sites)
    score = tied(rng, n) + rng.choice([0.0, 1.0, 50.0]) * y
    found = calibrate(unit * score, y, site)
    middles = [np.mean([score[(site == s) & (y == c)].mean() for c in (0, 1)]) for s in range(n_sites)]
    assert found.threshold / unit == pytest.approx(np.mean(middles))
    p = found(unit * score)
    assert p.mean() == pytest.approx(0.5, abs=1e-6)
    order = np.argsort(score, kind="stable")
    assert (np.diff(p[order]) >= -1e-12).all()
    np.testing.assert_allclose(p, calibrate(score, y, site)(score), atol=1e-6)
    moved = found(unit * score, 0.2)
    np.testing.assert_allclose(moved / (1 - moved), p / (1 - p) * 0.25, rtol=1e-6)


@given(SEEDS, st.integers(2, 4))
@settings(max_examples=25, deadline=None)
def test_classes_have_equal_mean_probability_at_equal_shares(seed, n_classes):
    rng = np.random.default_rng(seed)
    code, site = np.tile(np.arange(n_classes), 12), np.repeat(np.arange(4), 3 * n_classes)
    score = rng.choice([0.0, 1.0, 5.0]) * np.eye(n_classes)[code] + rng.normal(size=(len(code), n_classes)).round(1)
    found = calibrate_classes(score, code, site)
    assert found.equal(score).mean(axis=0) == pytest.approx(np.full(n_classes, 1 / n_classes), abs=1e-5)
    shares = rng.dirichlet(np.ones(n_classes)) * 0.9 + 0.1 / n_classes
    bayes = found.equal(score) * shares
    np.testing.assert_allclose(found(score, shares), bayes / bayes.sum(axis=1, keepdims=True), atol=1e-9)


@given(SEEDS, st.integers(1, 20))
@settings(max_examples=60, deadline=None)
def test_sets_hold_the_level_of_their_sites_and_no_limit_nearer_would(seed, n_sites):
    rng = np.random.default_rng(seed)
    site = np.concatenate([np.full(rng.integers(2, 9), k) for k in range(n_sites)])
    y = rng.integers(0, 2, len(site))
    score = tied(rng, len(site)) + y
    score[rng.random(len(site)) < 0.1] = np.nan
    sets = calibrate_sets(score, y, site)
    known = np.isfinite(score)
    bearing = [np.unique(site[known & (y == c)]) for c in (0, 1)]
    assert sets.n_sites == min(map(len, bearing))

    def held(c, inside):
        """Weight of the people of a class who are inside, sites alike, the new one outside."""
        here = [inside[known & (y == c) & (site == s)].mean() for s in bearing[c]]
        return np.sum(here) / (len(bearing[c]) + 1)

    assert list(sets.limits) == [x for x in (0.8, 0.9, 0.95) if sets.n_sites / (sets.n_sites + 1) >= x - 1e-9]
    for level, (low, high) in sets.limits.items():
        assert held(1, score >= low) >= level - 1e-6 > held(1, score > low) - 1e-6
        assert held(0, score <= high) >= level - 1e-6 > held(0, score < high) - 1e-6


def test_intervals_of_numbers_hold_the_level_of_sites_fitted_without_them():
    rng = np.random.default_rng(0)
    site, t = np.repeat(np.arange(9), 10), rng.normal(size=90)
    score = t + rng.normal(size=90)
    errors = []
    for name in range(9):
        slope, intercept = np.polyfit(score[site != name], t[site != name], 1)
        errors.append(np.abs(t[site == name] - intercept - slope * score[site == name]))

    def below(of, x):
        """Share of errors up to x, sites alike."""
        return np.mean([(one <= x + 1e-12).mean() for one in of])

    places = [[below(errors[:e] + errors[e + 1 :], x) for x in one] for e, one in enumerate(errors)]
    candidates = np.sort(np.concatenate(errors))
    for level, (low, high) in calibrate_intervals(score, t, site).limits.items():
        wanted = min(level * 91 / 90, 1.0)  # of 90 people in all
        p = min(
            x
            for x in np.concatenate(places)
            if np.mean([(np.array(one) <= x + 1e-12).mean() for one in places]) >= wanted - 1e-9
        )
        width = min(x for x in candidates if below(errors, x) >= p - 1e-9)
        assert low == -high and high == pytest.approx(width)


@given(SEEDS, st.sampled_from([0.0, 1e9]), UNITS)
@settings(max_examples=40, deadline=None)
def test_scores_without_a_covariate_are_residuals_of_a_regression_with_classes(seed, offset, unit):
    rng = np.random.default_rng(seed)
    y, x = np.tile([0, 1], 15), rng.normal(size=(30, 2))
    score = rng.normal(size=30) + y + x[:, 0]
    design = np.column_stack([y, 1 - y, x])
    slope = np.linalg.lstsq(design, score, rcond=None)[0][2:]
    expected = score - (x - x.mean(axis=0)) @ slope
    found = without(unit * (score + offset), y, x)
    assert metrics.auc(y, found) == pytest.approx(reference.roc_auc_score(y, expected), abs=0.01)
    if offset == 0:
        np.testing.assert_allclose(found / unit, expected, atol=1e-6)


def test_the_same_score_for_everybody_goes_with_nothing():
    x, y = np.random.default_rng(0).normal(size=10), np.tile([0, 1], 5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(within_class_correlation(np.full(10, 0.1), x, y))
        assert np.isnan(within_class_correlation(x, np.full(10, 0.1), y))
        assert within_class_correlation(1e300 * x, x, y) == pytest.approx(1)
