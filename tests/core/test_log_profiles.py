"""Profiles of people are the same bytes whichever edges were asked for before."""

import numpy as np
import pytest

from brainroam import make_cohort
from brainroam.core import profile
from brainroam.core.profile import GrowingProfiles, Profiles, profiles_of
from brainroam.errors import ShortSeriesError


@pytest.fixture(scope="module")
def people():
    return make_cohort(n_sites=3, n_per_site=4, n_rois=12, seed=1)


def test_an_edge_has_the_same_bytes_alone_among_others_and_after_others(people, monkeypatch):
    series, every = people.series, np.arange(66)
    whole = Profiles.compute(series, every, 30, 5, stretch=10).values
    monkeypatch.setattr(profile, "CHUNK", 2**9)  # several chunks
    settings = np.full(len(series), 30), np.full(len(series), 5), 10
    growing, rng = GrowingProfiles(series, *settings), np.random.default_rng(0)
    for size in (1, 2, 1, 20, 1, 66):
        edges = np.sort(rng.choice(every, size, replace=False))
        np.testing.assert_array_equal(growing.of(edges), whole[:, edges])
        np.testing.assert_array_equal(Profiles.compute(series, edges, 30, 5, stretch=10).values, whole[:, edges])


def test_edges_asked_for_later_and_for_some_sites_are_those_of_everybody(people, monkeypatch):
    monkeypatch.setattr(profile, "NOT_LARGE", 0)
    window, stride = np.full(len(people), 30), np.full(len(people), 5)
    profiles_of(people, np.arange(10), window, stride)
    some = people.table["site"].isin(["S01", "S02"]).to_numpy()
    found = profiles_of(people.subset(some), np.array([3, 12]), window[some], stride[some])
    np.testing.assert_array_equal(found.values, Profiles.compute(people.series, found.edges, 30, 5).values[some])


def test_everybody_who_is_too_short_is_named(people):
    window = np.full(len(people), 1000)
    with pytest.raises(ShortSeriesError, match=f"{len(people)} people"):
        profiles_of(people, np.arange(3), window, window)
