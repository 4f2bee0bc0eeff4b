"""Which reading is believed, against a direct computation of DeLong's test."""

import numpy as np
import pytest
from scipy.stats import norm

from brainroam.core.choice import FIRM, Choice, weigh


def people(n=120, sites=3, seed=0):
    rng = np.random.default_rng(seed)
    return np.arange(n) % 2, np.array([f"S{k}" for k in rng.integers(sites, size=n)]), rng


def delong(one, other, y, site):
    """Gain of the other and its variance: kernel by kernel, pooled by the pairs of each site."""
    gains, variances, pairs = [], [], []
    for name in np.unique(site):
        cases, controls = (np.flatnonzero((site == name) & (y == label)) for label in (1, 0))
        kernel = np.zeros((2, len(cases), len(controls)))
        for k, score in enumerate((one, other)):
            for a, i in enumerate(cases):
                for b, j in enumerate(controls):
                    kernel[k, a, b] = (score[i] > score[j]) + 0.5 * (score[i] == score[j])
        of_cases, of_controls = kernel.mean(axis=2), kernel.mean(axis=1)
        covariance = np.cov(of_cases) / len(cases) + np.cov(of_controls) / len(controls)
        gains.append(np.diff(kernel.mean(axis=(1, 2)))[0])
        variances.append(covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1])
        pairs.append(len(cases) * len(controls))
    share = np.array(pairs) / sum(pairs)
    return share @ gains, share**2 @ variances


@pytest.mark.parametrize("seed", range(3))
def test_gain_and_error_are_delongs(seed):
    y, site, rng = people(seed=seed)
    shared = rng.normal(size=len(y))
    linear = (y + shared + rng.normal(size=len(y))).round(1)  # with ties
    network = 1.2 * y + shared + rng.normal(size=len(y))
    found, (gain, variance) = weigh(linear, network, y, site), delong(linear, network, y, site)
    assert found.gain == pytest.approx(gain, abs=1e-12)
    assert found.error == pytest.approx(np.sqrt(variance), abs=1e-12)
    share = norm.cdf(gain / np.sqrt(variance))
    assert found.share == pytest.approx(0 if share < FIRM else 1 if share > 1 - FIRM else share)


def test_swapping_the_readings_swaps_the_belief():
    y, site, rng = people()
    for size in (0.0, 0.1, 0.5, 3.0):
        one, other = y + rng.normal(size=len(y)), (1 + size) * y + rng.normal(size=len(y))
        there, back = weigh(one, other, y, site), weigh(other, one, y, site)
        assert there.share + back.share == pytest.approx(1)
        assert there.gain == pytest.approx(-back.gain) and there.error == pytest.approx(back.error)
        assert (there.linear_spread, there.network_spread) == (back.network_spread, back.linear_spread)
        np.testing.assert_allclose(there.combine(one, other), back.combine(other, one))


def test_equal_readings_are_believed_alike():
    y, site, rng = people()
    score = y + rng.normal(size=len(y))
    for same in (score, np.exp(score)):  # order is all that counts
        found = weigh(score, same, y, site)
        assert (found.share, found.gain, found.error) == (0.5, 0, 0)


def test_firm_evidence_chooses_and_weak_evidence_mixes():
    y, site, rng = people(n=400)
    noise = rng.normal(size=(2, len(y)))
    assert weigh(0.5 * y + noise[0], 3 * y + noise[1], y, site).share == 1
    assert weigh(3 * y + noise[0], 0.5 * y + noise[1], y, site).share == 0
    assert weigh(-1.0 * y, 1.0 * y, y, site).share == 1  # without any variance
    few = slice(0, 12)
    assert 0 < weigh((y + noise[0])[few], (y + noise[1])[few], y[few], np.full(12, "A")).share < 1


def test_by_chance_one_reading_is_chosen_in_a_tenth_of_the_cases():
    shares = []
    for seed in range(300):
        y, site, rng = people(seed=seed)
        shares.append(weigh(*(y + rng.normal(size=(2, len(y)))), y, site).share)
    assert 0.06 < np.mean(np.isin(shares, [0, 1])) < 0.15
    assert abs(np.mean(shares) - 0.5) < 0.06


def test_people_without_a_score_and_sites_of_one_class_are_ignored():
    y, site, rng = people()
    linear, network = y + rng.normal(size=len(y)), y + rng.normal(size=len(y))
    expected = weigh(linear, network, y, site)
    more = np.append(site, ["S0", "S1", "S2", "alone", "alone", "alone"])
    labels = np.append(y, [0, 1, 1, 1, 1, 0])  # of "alone" one control, which has no variance
    unknown = np.append(linear, np.full(6, np.nan)), np.append(network, np.full(6, np.nan))
    assert weigh(*unknown, labels, more) == expected
    unread = np.append(linear, [np.nan] * 3 + [1.0, 2.0, 3.0]), np.append(network, [np.nan] * 3 + [3.0, 2.0, 1.0])
    found = weigh(*unread, labels, more)
    assert (found.share, found.gain, found.error) == (expected.share, expected.gain, expected.error)


def test_where_nobody_was_held_out_the_linear_reading_is_kept():
    y, site, _ = people()
    nothing = np.full(len(y), np.nan)
    found = weigh(nothing, nothing, y, site)
    assert found.share == 0 and np.isnan(found.gain)


def test_readings_are_added_in_units_of_their_spread_within_sites():
    y, site, rng = people()
    linear, network = y + rng.normal(size=len(y)), y + rng.normal(size=len(y))
    shift = 100.0 * (site == "S1")
    found, scaled = weigh(linear, network, y, site), weigh(7 * linear + shift, network / 9, y, site)
    assert 0 < found.share < 1
    np.testing.assert_allclose(
        found.combine(linear, network), scaled.combine(7 * linear, network / 9), rtol=1e-9, atol=1e-12
    )
    within = np.sqrt(np.mean([(x - linear[site == s].mean()) ** 2 for x, s in zip(linear, site, strict=True)]))
    assert found.linear_spread == pytest.approx(within)


@pytest.mark.parametrize(("share", "expected"), [(0.0, [1.0, 2.0]), (1.0, [5.0, np.nan])])
def test_a_reading_that_is_not_believed_is_not_looked_at(share, expected):
    np.testing.assert_array_equal(Choice(share).combine(np.array([1.0, 2.0]), np.array([5.0, np.nan])), expected)
