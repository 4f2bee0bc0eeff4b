"""Temporal descriptors against a loop over numpy.corrcoef."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from brainroam import make_cohort
from brainroam.core import profile
from brainroam.core.connectivity import edge_pairs
from brainroam.core.profile import (
    log_profiles,
    profiles_of,
    summarise,
    temporal_descriptors,
    windows_in_volumes,
)
from brainroam.data import features
from brainroam.data.features import GrowingColumns
from brainroam.errors import DataError, ShortSeriesError

PAIRS = edge_pairs(6)


@pytest.fixture
def people():
    """Correlated series of different lengths, on scanner-like scales."""
    rng = np.random.default_rng(0)
    mixing = rng.normal(size=(6, 6))
    return [1e4 + 50 * rng.normal(size=(t, 6)).cumsum(axis=0) @ mixing for t in (100, 131, 60)]


def by_loop(x, pairs, window, stride):
    """s and f of each pair, window after window."""
    profile = np.empty((len(pairs), 2))
    for k, (u, v) in enumerate(pairs):
        z = []
        for start in range(0, len(x) - window + 1, stride):
            part = x[start : start + window, [u, v]]
            if np.ptp(part, axis=0).min() > 0:
                z.append(np.arctanh(np.clip(np.corrcoef(part.T)[0, 1], -1 + 1e-6, 1 - 1e-6)))
        profile[k] = (np.std(z), np.ptp(z)) if len(z) > 1 else np.nan
    return profile


@pytest.mark.parametrize(("window", "stride"), [(30, 5), (30, 7), (20, 1), (31, 10), (50, 15), (40, 60), (3, 1)])
def test_descriptors_equal_a_loop_over_windows(people, window, stride):
    found = temporal_descriptors(people, PAIRS, window, stride)
    expected = np.array([by_loop(x, PAIRS, window, stride) for x in people])
    np.testing.assert_allclose(found, expected, atol=1e-10 if window > 3 else 1e-6)


def test_one_window_per_person_is_as_many_as_the_formula_says(people):
    exact = people[2]
    assert np.isnan(temporal_descriptors([exact], PAIRS, window=60)).all()  # T = W: one window, no variation to see
    two = temporal_descriptors([exact], PAIRS, window=55, stride=5)
    np.testing.assert_allclose(two[0], by_loop(exact, PAIRS, 55, 5), atol=1e-10)


def test_the_requested_pairs_alone_come_in_their_order(people):
    some = PAIRS[[7, 2, 11]]
    every = temporal_descriptors(people, PAIRS)
    np.testing.assert_array_equal(temporal_descriptors(people, some), every[:, [7, 2, 11]])


def test_one_person_is_described_as_in_a_batch(people):
    batch = temporal_descriptors(people, PAIRS)
    for i, x in enumerate(people):
        np.testing.assert_array_equal(temporal_descriptors([x], PAIRS)[0], batch[i])


def test_windows_with_a_constant_region_are_set_aside(people):
    x = people[0].copy()
    x[20:65, 2] = x[20, 2]
    np.testing.assert_allclose(temporal_descriptors([x], PAIRS)[0], by_loop(x, PAIRS, 30, 5), atol=1e-10)


def test_an_edge_with_fewer_than_two_windows_is_missing(people):
    x = people[0].copy()
    x[:70, 2] = 5.0  # of the windows of 30, only the last ones see region 2 move
    touched = (PAIRS == 2).any(axis=1)
    late = temporal_descriptors([x], PAIRS, window=30, stride=30)[0]
    assert np.isnan(late[touched]).all()
    assert np.isfinite(late[~touched]).all()


@pytest.mark.parametrize("value", [0.0, np.nan, np.inf])
def test_a_region_without_signal_is_missing_and_touches_no_other_edge(people, value):
    x = people[0].copy()
    x[:, 4] = value
    touched = (PAIRS == 4).any(axis=1)
    found = temporal_descriptors([x], PAIRS)[0]
    assert np.isnan(found[touched]).all()
    np.testing.assert_allclose(found[~touched], by_loop(people[0], PAIRS, 30, 5)[~touched], atol=1e-10)


def test_identical_regions_do_not_become_infinite(people):
    x = people[0].copy()
    x[:, 1] = 3 * x[:, 0] + 1
    found = temporal_descriptors([x], PAIRS)[0, 0]
    np.testing.assert_allclose(found, 0, atol=1e-9)


@given(
    z=arrays(float, st.tuples(st.integers(2, 12), st.integers(1, 4)), elements=st.floats(-3, 3)),
    offset=st.floats(-10, 10),
    order=st.randoms(),
)
def test_a_constant_offset_and_the_order_of_windows_change_nothing(z, offset, order):
    plain = summarise(z)
    np.testing.assert_allclose(summarise(z + offset), plain, atol=1e-12)
    shuffled = list(z)
    order.shuffle(shuffled)
    np.testing.assert_allclose(summarise(np.array(shuffled)), plain, atol=1e-12)
    np.testing.assert_allclose(plain, np.column_stack([z.std(axis=0), np.ptp(z, axis=0)]), atol=1e-12)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_scale_and_offset_of_the_signal_change_nothing(people, scale):
    moved = [scale * x - 17.0 for x in people]
    np.testing.assert_allclose(temporal_descriptors(moved, PAIRS), temporal_descriptors(people, PAIRS), atol=1e-7)


def test_windows_in_seconds_follow_each_persons_repetition_time(people):
    volumes = windows_in_volumes(60, [2.0, 1.5, 3.0])
    assert volumes.tolist() == [30, 40, 20]
    found = temporal_descriptors(people, PAIRS, volumes, windows_in_volumes(10, [2.0, 1.5, 3.0]))
    for x, window, stride, described in zip(people, (30, 40, 20), (5, 7, 3), found, strict=True):
        np.testing.assert_allclose(described, by_loop(x, PAIRS, window, stride), atol=1e-10)


@pytest.mark.parametrize("tr", [[2.0, np.nan], [2.0, 0.0]])
def test_seconds_without_a_repetition_time_are_named(tr):
    with pytest.raises(DataError, match="repetition time"):
        windows_in_volumes(60, tr)


def test_short_series_are_named(people):
    with pytest.raises(ShortSeriesError, match=r"70.*Cy \(60 volumes\).*on_short"):
        temporal_descriptors(people, PAIRS, window=70, subjects=["Ann", "Bo", "Cy"])
    with pytest.raises(ShortSeriesError, match="number 2"):
        temporal_descriptors(people, PAIRS, window=70)


@pytest.mark.parametrize(("window", "stride"), [(2, 1), (30, 0)])
def test_senseless_windows_are_named(people, window, stride):
    with pytest.raises(DataError, match="3 volumes"):
        temporal_descriptors(people, PAIRS, window, stride)


@pytest.fixture(scope="module")
def cohort():
    return make_cohort(n_sites=3, n_per_site=4, n_rois=12, seed=1)


def test_an_edge_has_the_same_bytes_alone_among_others_and_after_others(cohort, monkeypatch):
    settings = {"series": cohort.series, "window": 30, "stride": 5, "stretch": 10}
    whole, every = log_profiles(np.arange(66), **settings), np.arange(66)
    monkeypatch.setattr(profile, "CHUNK", 2**9)  # several chunks
    growing, rng = GrowingColumns(66), np.random.default_rng(0)
    for size in (1, 2, 1, 20, 1, 66):
        edges = np.sort(rng.choice(every, size, replace=False))
        np.testing.assert_array_equal(growing.of(edges, partial(log_profiles, **settings)), whole[:, edges])
        np.testing.assert_array_equal(log_profiles(edges, **settings), whole[:, edges])


def test_edges_asked_for_later_and_for_some_sites_are_those_of_everybody(cohort, monkeypatch):
    monkeypatch.setattr(features, "NOT_LARGE", 0)
    window, stride = np.full(len(cohort), 30), np.full(len(cohort), 5)
    profiles_of(cohort, np.arange(10), window, stride)
    some, edges = cohort.table["site"].isin(["S01", "S02"]).to_numpy(), np.array([3, 12])
    found = profiles_of(cohort.subset(some), edges, window[some], stride[some])
    np.testing.assert_array_equal(found.of(edges), log_profiles(edges, cohort.series, 30, 5)[some])


def test_everybody_who_is_too_short_is_named(cohort):
    window = np.full(len(cohort), 1000)
    with pytest.raises(ShortSeriesError, match=f"{len(cohort)} people"):
        profiles_of(cohort, np.arange(3), window, window)
