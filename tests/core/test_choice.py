"""Which reading is believed, against a direct computation of DeLong's test."""

import numpy as np
import pytest

from brainroam.core.choice import SHARES, Choice, measure_gain
from brainroam.core.choice import weigh as weigh_on_atlas
from brainroam.data.target import TWO_CLASSES, Number

AAL = 6670  # edges


NUMBER = Number("t").coding


def weigh(linear, network, y, site, n_edges=276, coding=TWO_CLASSES.coding):
    return weigh_on_atlas(linear, network, y, site, n_edges, coding)


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


def direct_share(linear, network, y, site, mu, tau=0.02):
    """The rule as written, on readings divided by their spread within sites."""
    a, b = (
        score / np.sqrt(np.mean([(x - score[site == s].mean()) ** 2 for x, s in zip(score, site, strict=True)]))
        for score in (linear, network)
    )
    gain, variance = delong(a, b, y, site)
    wide = max(tau**2, (gain - mu) ** 2 / 4 - variance)
    k = wide / (wide + variance)
    return max(SHARES, key=lambda w: k * delong(a, (1 - w) * a + w * b, y, site)[0] + (1 - k) * w * mu)


@pytest.mark.parametrize(("n_edges", "mu"), [(276, 0.03), (2000, 0.03), (AAL, 60 / AAL)])
@pytest.mark.parametrize("seed", range(3))
def test_gain_and_error_are_delongs(seed, n_edges, mu):
    y, site, rng = people(seed=seed)
    shared = rng.normal(size=len(y))
    linear = (y + shared + rng.normal(size=len(y))).round(1)  # with ties
    network = 1.2 * y + shared + rng.normal(size=len(y))
    found, (gain, variance) = weigh(linear, network, y, site, n_edges), delong(linear, network, y, site)
    assert found.gain == pytest.approx(gain, abs=1e-12)
    assert found.error == pytest.approx(np.sqrt(variance), abs=1e-12)
    assert found.share == direct_share(linear, network, y, site, mu)


def test_less_is_expected_of_a_large_atlas_and_nothing_of_a_number():
    expectation = TWO_CLASSES.coding.expectation
    small, larger, largest = (expectation(n_edges)[0] for n_edges in (276, AAL, 10 * AAL))
    assert small > larger > largest > 0 and larger == pytest.approx(10 * largest)
    assert NUMBER.expectation(276)[0] == 0


def test_where_evidence_is_thin_a_large_atlas_believes_the_network_less():
    y, site, rng = people(n=60)
    shared = rng.normal(size=len(y))
    shares = []
    for _ in range(20):
        linear, network = (y + shared + rng.normal(size=(2, len(y)))).round(2)
        shares.append([weigh(linear, network, y, site, n_edges).share for n_edges in (276, 10 * AAL)])
    small, large = np.mean(shares, axis=0)
    assert small > large + 0.1


def test_equal_readings_gain_nothing():
    y, site, rng = people()
    score = y + rng.normal(size=len(y))
    found = weigh(score, 3 * score, y, site)
    assert (found.gain, found.error) == (0, 0)


def test_much_evidence_decides_and_little_follows_the_expectation():
    y, site, rng = people(n=400)
    noise = rng.normal(size=(2, len(y)))
    assert weigh(0.5 * y + noise[0], 3 * y + noise[1], y, site).share == 1
    assert weigh(3 * y + noise[0], 0.5 * y + noise[1], y, site).share <= 0.1
    assert weigh(-1.0 * y, 1.0 * y, y, site).share > 0.5  # without any variance
    few = slice(0, 12)
    linear, network = (1.5 * y + noise[0])[few], (1.2 * y + noise[1])[few]
    assert weigh(linear, network, y[few], np.full(12, "A")).share >= 0.5


def test_a_network_of_noise_is_not_believed_by_a_hundred_people():
    y, site, rng = people()
    assert weigh(2 * y + rng.normal(size=len(y)), rng.normal(size=len(y)), y, site).share <= 0.1


def test_two_readings_with_errors_of_their_own_are_mixed():
    y, site, rng = people(n=1000, sites=8)
    linear, network = y + rng.normal(size=(2, len(y)))
    assert 0.3 <= weigh(linear, network, y, site).share <= 0.8


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
    y, site, rng = people(n=1000)
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


@pytest.mark.parametrize("seed", range(20))
def test_a_share_of_a_number_is_taken_only_where_its_gain_exceeds_its_standard_error(seed):
    _, site, rng = people(n=200, seed=seed)
    t = rng.normal(size=200)
    linear, network = t + rng.normal(size=200), t + 3 * rng.normal(size=200)
    choice = weigh(linear, network, t, site, coding=NUMBER)
    assert choice.gain < 0
    if choice.share:
        gain, error = measure_gain(linear, choice.combine(linear, network), t, site, NUMBER)
        assert gain > error


def test_the_gain_of_a_number_is_that_of_fishers_z_within_sites():
    _, site, rng = people(n=300)
    t = rng.normal(size=300)
    old, new = t + 2 * rng.normal(size=300), t + rng.normal(size=300)
    sizes, gains = [], []
    for name in np.unique(site):
        here = site == name
        of_old, of_new = (np.arctanh(np.corrcoef(t[here], score[here])[0, 1]) for score in (old, new))
        sizes.append(here.sum() - 3)
        gains.append(of_new - of_old)
    gain, error = measure_gain(old, new, t, site, NUMBER)
    assert gain == pytest.approx(np.average(gains, weights=sizes)) and 0 < error < gain
    assert np.isnan(measure_gain(old * np.nan, new, t, site, NUMBER)).all()
