"""The stress test of shortcuts: pairs that differ as in training, and pairs that differ the other way."""

import numpy as np
import pytest

import brainroam
from brainroam.data.cohort import Cohort
from brainroam.errors import DataError, UsageError
from brainroam.evaluation.stats.stress import stress


@pytest.fixture(scope="module")
def moving():
    """People whose every region takes up their motion, of which cases have more at every site."""
    cohort = brainroam.make_cohort(n_sites=4, n_per_site=30, n_rois=12, effect=0.0, seed=5)
    rng, table = np.random.default_rng(0), cohort.table
    motion = rng.normal(size=len(table)) + 0.7 * table["label"]
    series = [
        x + (0.25 + 0.25 * np.tanh(m)) * 4 * rng.normal(size=(len(x), 1))
        for x, m in zip(cohort.series, motion, strict=True)
    ]
    return Cohort(series, table.assign(mean_fd=np.exp(motion - 2)), cohort.atlas)


def by_hand(score, label, x, site, sign):
    right, counted = 0.0, 0
    for name in np.unique(site):
        for i in np.flatnonzero((site == name) & (label == 1)):
            for j in np.flatnonzero((site == name) & (label == 0)):
                if sign * (x[i] - x[j]) > 0:
                    right += (score[i] > score[j]) + 0.5 * (score[i] == score[j])
                    counted += 1
    return right / counted, counted


def test_both_figures_are_those_of_counting_pairs():
    rng = np.random.default_rng(0)
    label, site = rng.integers(0, 2, 60), np.repeat(["A", "B", "C"], 20)
    x, score = rng.integers(0, 5, 60) + 2.0 * label, rng.integers(0, 6, 60).astype(float)
    found = stress(score, label, x, site)
    assert (found.holds, found.n_holds) == pytest.approx(by_hand(score, label, x, site, 1))
    assert (found.turns, found.n_turns) == pytest.approx(by_hand(score, label, x, site, -1))


def test_the_direction_of_a_shortcut_is_that_of_the_other_sites():
    """At C cases have less: there it is the pairs whose case has more that are as at the other sites."""
    label, site = np.tile([0, 1], 30), np.repeat(["A", "B", "C"], 20)
    x = np.where(site == "C", -1.0, 1.0) * label + 0.1 * np.random.default_rng(0).normal(size=60)
    at_c = stress(x, label, x, site)
    assert at_c.holds == 1 and at_c.turns == 0


def test_people_without_a_value_are_left_out():
    label, site, x = np.tile([0, 1], 10), np.repeat("A", 20), np.arange(20.0)
    gone = np.where(np.arange(20) < 2, np.nan, x)
    assert stress(x, label, gone, site) == stress(x[2:], label[2:], x[2:], site[2:])


def test_a_reader_of_motion_loses_and_our_methods_lose_less_than_half_of_that(moving):
    found = brainroam.audit(moving, ["fc-ridge", "ensemble"], permutations=0, stress="motion")
    loss = {check.method: check.value for check in found.checks if check.name == "stress-motion"}
    assert loss["fc-ridge"] > 0.15
    assert loss["ensemble"] < loss["fc-ridge"] / 2
    assert found.passed  # nothing leaked: it is something to know


def test_what_cannot_be_tested_is_named_before_anything_is_computed(moving):
    with pytest.raises(UsageError, match="shortcut"):
        brainroam.audit(moving, ["fc-ridge"], permutations=0, stress="handedness")
    table = moving.table.assign(age=np.nan)
    with pytest.raises(DataError, match="nobody's age is known"):
        brainroam.audit(Cohort(moving.series, table, moving.atlas), ["fc-ridge"], permutations=0, stress="age")
