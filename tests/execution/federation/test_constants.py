"""Every constant of disclosure, at its edge: what is told on one side, withheld on the other, and why it lies there."""

import numpy as np
import pandas as pd
import pytest

import brainroam
from brainroam.errors import SummaryError, UsageError
from brainroam.execution.federation import Pool, answer
from brainroam.execution.federation.disclosure import (
    disclosable_covariates,
    disclosable_edges,
    disclosable_number,
    drawn_in,
    singled_out,
)
from brainroam.execution.federation.dominance import stands_out
from brainroam.execution.federation.scores import score_summary

NOTHING = pd.DataFrame(index=range(60))
Y = np.tile([0, 1], 30)


@pytest.fixture(scope="module")
def hospital():
    return brainroam.make_cohort(n_sites=2, n_per_site=60, n_rois=8, seed=3).select(["S01"])


def leverage(column):
    """Of the last person, in [1, class, column]."""
    design = np.column_stack([np.ones(60), Y, column])
    return np.diag(design @ np.linalg.pinv(design))[-1]


def column_with(h, of=leverage):
    """A column whose last person has this share, by bisection of how far they lie from the others."""
    values = np.random.default_rng(0).normal(size=60)
    low, high = 0.0, 100.0
    for _ in range(80):
        values[-1] = (low + high) / 2
        low, high = (values[-1], high) if of(values) < h else (low, values[-1])
    return values.copy()


def test_the_floor_of_k_is_three(hospital):
    """Of two people who share a mean each knows the other's value; of three nobody does, and so three may be asked."""
    with pytest.raises(UsageError, match="at least 3"):
        answer(hospital, min_count=2)
    assert answer(hospital, min_count=3).min_count == 3


def test_k_is_five_unless_the_hospital_says_otherwise(hospital):
    """A level of four people, whose mean is by a quarter that of each, is dropped; one of five is told."""
    for n, told in ((4, False), (5, True)):
        level = np.zeros(60)
        level[np.flatnonzero(hospital.labels == 0)[:n]] = level[np.flatnonzero(hospital.labels == 1)[:n]] = 1
        cohort = hospital.with_columns(pd.DataFrame({"special": level})).using(["special"])
        assert ("special" not in answer(cohort).withheld) is told


def test_a_class_of_ten_is_told_and_one_of_nine_is_not(hospital):
    """Below ten a single person is more than a tenth of a mean, and k - 1 of five are most of it."""
    cases, controls = np.flatnonzero(hospital.labels == 1), np.flatnonzero(hospital.labels == 0)
    assert answer(hospital.subset(np.r_[controls, cases[:10]])).arrays["counts"][1] == 10
    with pytest.raises(SummaryError, match="9 cases"):
        answer(hospital.subset(np.r_[controls, cases[:9]]))


@pytest.mark.parametrize(("k", "bound"), [(3, 0.5), (5, 0.3), (10, 0.15)])
def test_nobody_has_more_than_three_half_kth_of_the_design(k, bound):
    """1.5 / k leaves room below the bound at an edge for weights that Huber's loss takes from others."""
    for h, kept in ((bound - 0.003, True), (bound + 0.003, False)):
        found = disclosable_covariates(pd.DataFrame({"volume": column_with(h)}), Y, k)
        assert (found[1] == {}) is kept, h


@pytest.mark.parametrize(("k", "bound"), [(3, 1 / 3), (4, 1 / 3), (5, 1 / 3), (10, 1 / 6)])
def test_nobody_has_more_than_a_third_of_what_is_told_of_an_edge(k, bound):
    """A guess from it goes along with the person by at most the root, 0.58: below the 0.6 that is promised."""
    assert np.sqrt(1 / 3) < 0.6
    values = np.random.default_rng(1).normal(size=(60, 1))
    for h, kept in ((bound - 0.003, True), (bound + 0.003, False)):
        volume = pd.DataFrame({"volume": column_with(h)})
        assert singled_out(values, volume, Y, 1e9, k)[0] != kept, h  # so far out that all weights are 1


def share_of_squares(column):
    return ((column - column.mean()) ** 2)[-1] / ((column - column.mean()) ** 2).sum()


def test_nobody_bears_more_than_a_third_of_the_squares_of_a_column():
    """Products of the column with others, guessed to be that person's row, are right by at most the root, 0.58."""
    for share, told in ((0.31, True), (0.36, False)):
        column = column_with(share, share_of_squares)
        assert stands_out(column[:, None], NOTHING, Y, 1e9, 5)[0] != told


def test_nobody_bears_more_than_036_of_a_contrast():
    """A guess from it is right by at most the root, 0.6, as is promised; a class of ten bears nearly all of it."""
    y = (np.arange(60) < 20).astype(int)
    c = y / 20 - (1 - y) / 40
    for share, told in ((0.34, True), (0.38, False)):
        column = np.r_[0, np.tile([1.0, -1.0], 30)[:19], np.tile([1.5, -1.5], 20)]
        for column[0] in np.linspace(3, 9, 6001):
            parts = (c * (column - column.mean())) ** 2
            if parts[0] > share * parts.sum():
                break
        assert stands_out(column[:, None], NOTHING, y, 1e9, 5)[0] != told


def test_four_people_do_not_bear_more_than_four_fifths():
    """k - 1 who know one another's values could take them off and see the last fifth, that of everybody else."""
    for share, told in ((0.77, True), (0.83, False)):
        column = np.tile([1.0, -1.0], 30)
        column[:4] = np.array([1, -1, 1, -1]) * np.sqrt(56 / 4 * share / (1 - share))
        assert stands_out(column[:, None], NOTHING, np.repeat([0, 1], 30), 1e9, 5)[0] != told
        score = column.copy()
        assert (drawn_in(score, 5) is score) is told


def test_products_are_of_ten_edges_for_each_person():
    """With twenty, independent components were single people (r = 0.94 of one of 27 of ABIDE)."""
    kept = disclosable_edges(np.arange(9000), np.linspace(1, 0, 9000), np.empty(0, dtype=int), 30)
    assert kept.sum() == 300


def test_of_six_different_values_none_is_taken_for_a_level():
    """Five values of a number may be counts of people, each of which needs k; six are a scale."""
    few = np.repeat([0.0, 1, 2, 3, 4], [3, 27, 20, 25, 25])
    assert disclosable_number(few, 5).min() == 1  # the three are set to the next value, as a level of few
    more = np.repeat([0.0, 1, 2, 3, 4, 5], [3, 17, 20, 20, 20, 20])
    np.testing.assert_array_equal(disclosable_number(more, 5), more)


def test_a_class_has_eight_bins_at_most():
    """More would tell the shape of its scores, fewer would not calibrate: eight of 25 people, not forty of five."""
    y = np.repeat([0, 1], 200)
    bins = score_summary(np.random.default_rng(0).normal(size=400), y, 5)["bins"]
    assert [int((bins[:, 0] == label).sum()) for label in (0, 1)] == [8, 8]
    assert bins[:, 1].min() == 25


def test_two_hospitals_are_no_pool_and_three_are(hospital, tmp_path):
    """The sum over two tells each hospital the other's, by taking its own off."""
    cohort = brainroam.make_cohort(n_sites=3, n_per_site=30, n_rois=10, seed=0)
    pool = Pool(tmp_path / "pool")
    files = [answer(cohort.select([name])).write(tmp_path / name) for name in cohort.sites]
    pool.receive(files[:2])
    assert pool.advance().next_round == 1
    pool.receive(files[2:])
    assert pool.advance().next_round == 2
