import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri
from scipy.stats import multivariate_normal

from brainroam.errors import DataError
from brainroam.evaluation.stats.paired import compare_sites
from brainroam.evaluation.stats.verdict import auc_variance, limits, next_site, refusal, site_intervals, verdict


def judged(rows):
    """Whether sites get an interval: not too few of them count, and not every AUC is 0.5."""
    return not refusal(*np.transpose(rows))


sites = st.lists(
    st.tuples(st.integers(0, 20).map(lambda x: x / 20), st.integers(4, 30), st.integers(4, 30)), min_size=4, max_size=12
).filter(judged)


def of(rows):
    return verdict(*zip(*rows, strict=True))


@settings(max_examples=60, deadline=None)
@given(sites)
def test_the_next_site_is_never_surer_than_the_mean_and_no_interval_is_a_point(rows):
    found = of(rows)
    assert 0 <= found.next_low <= found.low < found.high <= found.next_high <= 1
    assert found.low <= found.mean <= found.high
    assert found.reason == ""


@settings(max_examples=30, deadline=None)
@given(sites, st.randoms())
def test_the_order_of_sites_is_irrelevant(rows, random):
    shuffled = random.sample(rows, len(rows))
    one, other = of(rows), of(shuffled)
    assert (one.low, one.high, one.next_low, one.next_high) == pytest.approx(
        (other.low, other.high, other.next_low, other.next_high), abs=1e-9
    )


@settings(max_examples=30, deadline=None)
@given(sites)
def test_turning_the_scores_over_mirrors_the_verdict(rows):
    one, other = of(rows), of([(1 - auc, m, n) for auc, m, n in rows])
    assert (other.low, other.high) == pytest.approx((1 - one.high, 1 - one.low), abs=1e-6)
    assert (other.next_low, other.next_high) == pytest.approx((1 - one.next_high, 1 - one.next_low), abs=1e-6)
    assert other.tau == pytest.approx(one.tau, abs=1e-6)


@pytest.mark.parametrize(("mean", "tau", "m", "n"), [(0.7, 0.0, 5, 8), (0.95, 0.5, 3, 3), (0.5, 0.3, 12, 4)])
def test_the_variance_is_that_of_simulated_sites(mean, tau, m, n):
    rng = np.random.default_rng(0)
    c = ndtri(mean)
    shift = np.sqrt(2) * (c * np.sqrt(1 + tau**2) + tau * rng.standard_normal(100_000))
    cases, controls = rng.standard_normal((100_000, m)) + shift[:, None], rng.standard_normal((100_000, n))
    auc = (cases[:, :, None] > controls[:, None, :]).mean(axis=(1, 2))
    assert auc.mean() == pytest.approx(mean, abs=0.003)
    assert auc_variance(c, tau, m, n) == pytest.approx(auc.var(), rel=0.03)


def test_pairs_that_share_a_person_covary_as_scipy_says():
    """One case and two controls: V is the mean of two pairs' variance and their covariance, from a bivariate normal."""
    c = ndtri(0.8)
    both = multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]]).cdf([c, c])
    assert auc_variance(c, 0.0, 1, 2) == pytest.approx((0.8 * 0.2 + both - 0.8**2) / 2, abs=1e-6)


def test_more_people_and_more_sites_make_it_narrower():
    def width(k, n):
        found = verdict(np.resize([0.65, 0.75], k), [n] * k, [n] * k)
        return found.high - found.low

    assert width(20, 20) < width(10, 20) < width(5, 20)
    assert width(10, 40) < width(10, 10)


def test_sites_that_differ_more_widen_the_prediction_and_raise_tau():
    alike, apart = (verdict(np.resize([0.7 - d, 0.7 + d], 10), [40] * 10, [40] * 10) for d in (0.02, 0.2))
    assert apart.tau > alike.tau
    assert apart.next_high - apart.next_low > alike.next_high - alike.next_low


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_separated_classes_have_an_interval_with_a_width(value):
    found = verdict([value] * 6, [10] * 6, [10] * 6)
    assert found.mean == value
    assert 0.02 < found.high - found.low < 0.5


@pytest.mark.parametrize(
    ("auc", "size", "reason"),
    [
        ([0.6, 0.9], 20, "fewer than 3 sites"),
        ([0.5] * 5, 20, "exactly 0.5 at every site"),
        ([0.5, 1.0, 0.75], 2, "too few participants"),
        ([], 20, "fewer than 3 sites"),
    ],
)
def test_what_cannot_be_said_is_not_said_and_there_is_a_reason(auc, size, reason):
    found = verdict(auc, [size] * len(auc), [size] * len(auc))
    assert reason in found.reason
    assert np.isnan([found.low, found.high, found.next_low, found.next_high, found.tau]).all()
    assert found.mean == pytest.approx(np.mean(auc) if auc else np.nan, nan_ok=True)


def test_three_sites_have_a_mean_and_no_next_site():
    found = verdict([0.6, 0.7, 0.8], [20] * 3, [20] * 3)
    assert found.low < 0.7 < found.high
    assert np.isnan([found.next_low, found.next_high, found.tau]).all()
    assert "fewer than 4 sites" in found.reason


@pytest.mark.parametrize("sizes", [[20, 20, 1, 1], [20, 1, 1, 1, 1, 1]])
def test_sites_that_amount_to_fewer_than_three_have_no_interval(sizes):
    found = verdict(np.linspace(0.5, 0.9, len(sizes)), sizes, [20] * len(sizes))
    assert np.isnan(found.low) and "sites" in found.reason
    assert found.mean == pytest.approx(np.average(np.linspace(0.5, 0.9, len(sizes)), weights=sizes))


@pytest.mark.parametrize(("m", "n"), [(5, 45), (45, 5)])
def test_a_site_whose_cases_or_controls_are_half_certain_is_covered(m, n):
    """Half of the rarer class is told apart for certain, the others are read by chance: the AUC is 0.75."""
    rng = np.random.default_rng(0)
    cases, controls = rng.standard_normal((1000, m)), rng.standard_normal((1000, n))
    certain, far = (cases, 99) if m < n else (controls, -99)
    certain[rng.random(certain.shape) < 0.5] = far
    auc = (cases[:, :, None] > controls[:, None]).mean(axis=(1, 2))
    low, high = site_intervals(auc, np.full(1000, m), np.full(1000, n))
    assert np.mean((low <= 0.75) & (high >= 0.75)) > 0.94


def test_a_site_without_an_auc_is_left_out():
    assert verdict([0.6, 0.7, np.nan, 0.8, 0.7], [20] * 5, [20] * 5) == verdict(
        [0.6, 0.7, 0.8, 0.7], [20] * 4, [20] * 4
    )


def test_many_studies_at_once_are_the_studies_one_by_one():
    auc = np.random.default_rng(0).uniform(0.4, 0.9, (3, 6))
    together = limits(auc, np.full(6, 15.0), np.full(6, 12.0))
    for i, row in enumerate(auc):
        found = verdict(row, [15] * 6, [12] * 6)
        assert together[:, i] == pytest.approx([found.low, found.high, found.next_low, found.next_high, found.tau])


def test_a_site_by_itself_solves_the_score_equation():
    low, high = (x[0] for x in site_intervals(np.array([0.7]), np.array([20]), np.array([30])))
    for limit, sign in ((low, 1), (high, -1)):
        gap = abs(0.7 - limit) - 0.5 / 600
        variance = (auc_variance(ndtri(limit), 0.0, 20, 30) + limit * (1 - limit) / 20) / 2
        assert gap == pytest.approx(1.96 * np.sqrt(variance), abs=2e-3)
        assert sign * (0.7 - limit) > 0


@pytest.mark.parametrize("tau", [0.0, 0.3])
def test_the_next_site_of_any_measure_is_covered(tau):
    rng = np.random.default_rng(0)
    variances = np.resize([0.01, 0.02, 0.05, 0.3], 10)
    held, following = [], []
    for _ in range(300):
        truth = rng.normal(0.4, tau, 11)
        found = next_site(rng.normal(truth[:10], np.sqrt(variances)), variances)
        assert found.next_low <= found.low < found.mean < found.high <= found.next_high
        held.append(found.low <= 0.4 <= found.high)
        following.append(found.next_low <= truth[10] <= found.next_high)
    assert min(np.mean(held), np.mean(following)) > 0.93


def test_a_worthless_result_does_not_move_the_mean_of_any_measure():
    good = next_site([0.4, 0.5, 0.45, 0.35, 0.4], [0.01] * 5)
    assert next_site([0.4, 0.5, 0.45, 0.35, 0.4, -3.0], [0.01] * 5 + [30.0]).mean == pytest.approx(good.mean, abs=0.01)


def test_no_site_has_no_interval():
    low, high = site_intervals(np.empty(0), np.empty(0), np.empty(0))
    assert low.shape == high.shape == (0,)


def test_named_sites_are_matched_by_name_and_others_by_place():
    values, variances = {"A": 0.4, "B": 0.5, "C": 0.45, "D": 0.3}, {"D": 0.04, "C": 0.03, "B": 0.02, "A": 0.01}
    by_place = next_site([0.4, 0.5, 0.45, 0.3], [0.01, 0.02, 0.03, 0.04])
    assert next_site(values, variances) == by_place
    assert next_site(pd.Series(values), pd.Series(variances)) == by_place
    rows = pd.DataFrame({"value": [0.4, 0.5, 0.45, 0.3], "variance": [0.01, 0.02, 0.03, 0.04]})
    in_order = rows.sort_values("value").to_numpy().T
    assert next_site(rows["value"].sort_values(), rows["variance"]) == next_site(*in_order)
    assert next_site(values, rows["variance"]) == by_place  # rows that are counted have no names
    others = {"D": 0.25, "B": 0.4, "C": 0.43, "A": 0.33}
    found = compare_sites(pd.Series(values), others)
    assert found == compare_sites([0.4, 0.5, 0.45, 0.3], [0.33, 0.4, 0.43, 0.25])


def test_sites_named_by_numbers_are_matched_by_these():
    a, b = {1: 0.7, 2: 0.8, 3: 0.6, 4: 0.9, 5: 0.75}, {5: 0.74, 4: 0.88, 3: 0.59, 2: 0.78, 1: 0.69}
    named = compare_sites(*({str(site): value for site, value in each.items()} for each in (a, b)))
    assert compare_sites(a, b) == compare_sites(pd.Series(a), b) == compare_sites(pd.Series(a), pd.Series(b)) == named
    assert named.p < 0.05
    later = {site + 10: value for site, value in b.items()}
    for other in (later, pd.Series(later)):
        with pytest.raises(DataError, match="all columns must be of the same sites; 1, 11, 12"):
            compare_sites(a, other)


def test_a_site_that_was_hardly_measured_does_not_move_the_next_one():
    values, variances = [0.42, 0.31, 0.55, 0.18, 0.40, 0.36], [0.02] * 6
    few, more = next_site(values, variances), next_site([*values, 700.0], [*variances, 1e6])  # as far off as is usual
    np.testing.assert_allclose([more.next_low, more.next_high], [few.next_low, few.next_high], atol=0.02)


@pytest.mark.parametrize("wrong", [np.inf, -np.inf])
def test_infinite_results_are_refused_and_not_dropped(wrong):
    with pytest.raises(DataError, match="values: result 1 is infinite"):
        next_site([0.4, wrong, 0.5, 0.4, 0.3], [0.1] * 5)
    with pytest.raises(DataError, match="variances: result 1 is infinite"):
        next_site([0.4, 0.2, 0.5, 0.4, 0.3], [0.1, wrong, 0.1, 0.1, 0.1])
    with pytest.raises(DataError, match="b: result 0 is infinite"):
        compare_sites([0.4, 0.2, 0.5], [wrong, 0.1, 0.2])
    with pytest.raises(DataError, match="weights: that of result 2 is below 0"):
        compare_sites([0.4, 0.2, 0.5], [0.1, 0.1, 0.2], [1, 1, -1])
    with pytest.raises(DataError, match="variance is above 0; that of result 1"):
        next_site([0.4, np.nan, 0.5, 0.4, 0.3], [0.1, -0.1, 0.1, 0.1, 0.1])


@pytest.mark.parametrize(
    ("values", "variances", "noun"),
    [
        ([0.4, 0.5], [0.1], "one number"),
        ([[0.4, 0.5]], [[0.1, 0.1]], "one number"),
        ({"A": 0.4}, {"B": 0.1}, "A, B"),
        (["high"], [0.1], "number"),
        (pd.Series([0.4, 0.5], ["A", "A"]), [0.1, 0.1], "several"),
        ([0.4], [0.0], "variance"),
    ],
)
def test_what_is_no_number_for_each_site_is_refused(values, variances, noun):
    with pytest.raises(DataError, match=noun):
        next_site(values, variances)
