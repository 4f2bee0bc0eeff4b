"""Prediction sets: the promise, and what is refused."""

import numpy as np
import pytest

from brainroam.data.target.sets import calibrate_sets
from brainroam.errors import UsageError


def world(rng, n_sites, between=0.7, gap=1.2):
    """Sites of unequal size whose levels differ."""
    sizes = rng.integers(8, 40, size=n_sites)
    site = np.repeat(np.arange(n_sites), sizes)
    y = rng.integers(0, 2, size=len(site))
    return between * rng.normal(size=n_sites)[site] + gap * y + rng.normal(size=len(site)), y, site


@pytest.mark.parametrize(("n_sites", "level"), [(4, 0.8), (10, 0.8), (10, 0.9), (19, 0.9), (19, 0.95)])
def test_the_next_site_is_covered_as_promised(n_sites, level):
    rng, covered = np.random.default_rng(0), {0: [], 1: []}
    for _ in range(700):
        sets = calibrate_sets(*world(rng, n_sites))
        if level not in sets.limits:  # a small site may lack a class
            continue
        new = 0.7 * rng.normal()
        for c, held in covered.items():
            words = sets(new + 1.2 * c + rng.normal(size=20), level)
            held.append(np.isin(words, ["either", "case" if c else "control"]).mean())
    for held in covered.values():
        assert len(held) > 500 and level - 0.02 < np.mean(held) < level + 1 / (n_sites + 1) + 0.02


def test_ten_sites_cannot_promise_95_percent_and_the_reason_is_told():
    score, y, site = np.arange(200.0), np.tile([0, 1], 100), np.repeat(np.arange(10), 20)
    sets = calibrate_sets(score, y, site)
    assert list(sets.limits) == [0.8, 0.9]
    with pytest.raises(UsageError, match=r"10 sites .* 19"):
        sets(score, 0.95)
    with pytest.raises(UsageError, match="99 %"):
        sets.require(0.99)


def test_a_larger_level_keeps_quiet_more_often():
    score, y, site = world(np.random.default_rng(3), 12)
    sets = calibrate_sets(score, y, site)
    quiet = [np.mean(sets(score, level) == "either") for level in (0.8, 0.9)]
    assert quiet[0] < quiet[1]


def test_people_whose_site_was_not_held_out_do_not_count():
    score, y, site = world(np.random.default_rng(4), 12)
    without = score.copy()
    without[site < 6] = np.nan
    known = site >= 6
    assert calibrate_sets(without, y, site) == calibrate_sets(score[known], y[known], site[known])
