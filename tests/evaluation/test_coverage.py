"""Small versions of coverage_study.py, with margins of three standard errors of the simulation."""

import pytest
from coverage_study import KINDS, groups, halves, independent, level, power, small, trained


def at_least(share, n):
    return share - 3 * (share * (1 - share) / n) ** 0.5


@pytest.mark.parametrize("k", [5, 20])
@pytest.mark.parametrize("kind", [KINDS[i] for i in (0, 3, 8, 16)], ids=str)
def test_intervals_cover_at_independent_sites(k, kind):
    found = independent(k, *kind, n_studies=200)
    assert min(found["mean"], found["next"], found["site"]) >= at_least(0.93, 200)


def test_intervals_cover_where_sites_are_trained_on_one_another():
    found = trained(6, 0.5, 1.0, 22, 5, n_studies=200)
    assert found["correlation"] > 0.1  # why the interval of the mean is wider than that of independent sites
    assert min(found["mean"], found["next"]) >= at_least(0.93, 200)


@pytest.mark.parametrize("repeats", [1, 8])
@pytest.mark.parametrize("signal", [0.0, 1.0])
def test_intervals_cover_in_halves_whatever_the_number_of_repeats(repeats, signal):
    """The same people are tested in every repeat: averaging must not make the interval too narrow."""
    found = halves(8, repeats, signal, signal, 22, 20, n_studies=200)
    assert found["mean"] >= at_least(0.95, 200)
    assert signal or found["target"] == 0.5


def test_the_paired_test_holds_its_level_where_sites_are_trained_on_one_another():
    found = level(10, 0.0, 0.0, 22, 50, n_studies=300)
    assert found["different at 5 %"] <= 0.05 + 3 * (0.05 * 0.95 / 300) ** 0.5
    assert found["different at 5 %"] == pytest.approx(1 - found["interval covers 0"])  # one model for both


def test_a_real_gap_is_found():
    found = power(10, tau=0.2, gap=0.8, n_studies=200)
    assert found["different at 5 %"] > 0.7
    assert found["interval covers"] >= at_least(0.95, 200)


@pytest.mark.parametrize("spread", [0.0, 0.1])
def test_small_sites_leave_the_intervals_their_coverage(spread):
    found = small("58 of 1-6", 0.7, spread, 200)
    assert min(found["mean"], found["next"]) > 0.93


@pytest.mark.parametrize("auc", [0.5, 0.9])
def test_the_interval_of_a_group_covers(auc):
    found = groups(6, 60, auc, 0.1, 150)
    assert found["covers"] > 0.93 and found["without"] < 0.5


def test_small_sites_leave_the_test_its_level():
    assert level(0, 0.0, 0.0, "10 of 20 + 5 small", 50, 200)["different at 5 %"] < 0.1
