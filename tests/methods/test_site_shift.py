"""The level of a new site, where the truth is known."""

import numpy as np

from brainroam.methods.site_shift import SiteShift, learn_shift


def world(rng, n_sites, n=30, between=0.8):
    """Scores of sites whose levels differ; cases lie one within-site deviation above controls."""
    site = np.repeat(np.arange(n_sites), n)
    y = np.tile([0, 1], len(site) // 2)
    return between * rng.normal(size=n_sites)[site] + y + rng.normal(size=len(site)), y, site


def test_the_shift_is_the_best_guess_of_a_sites_level():
    rng = np.random.default_rng(0)
    score, y, site = world(rng, 400)
    shift = learn_shift(score, site, y == 0)
    assert abs(1 / shift.ratio - 1 / 0.8**2) < 0.25
    errors = {trust: [] for trust in (0.5, 1.0, 2.0)}
    for _ in range(3000):
        level = 0.8 * rng.normal()
        seen = level + rng.normal(size=5)
        for trust, found in errors.items():
            found.append((SiteShift(shift.centre, trust * shift.ratio)(seen) - level) ** 2)
    means = {trust: np.mean(found) for trust, found in errors.items()}
    assert means[1.0] <= min(means.values()) * 1.01
    assert abs(means[1.0] - 0.64 * (1 / 5) / (0.64 + 1 / 5)) < 0.01  # the posterior variance


def test_more_controls_bring_a_site_nearer_to_its_own_threshold():
    rng = np.random.default_rng(1)
    score, y, site = world(rng, 40)
    shift = learn_shift(score, site, y == 0)
    right = []
    for n in (0, 5, 40):
        hits = []
        for _ in range(400):
            level = 0.8 * rng.normal()
            moved = shift(level + rng.normal(size=n))
            cases, controls = level + 1 + rng.normal(size=40), level + rng.normal(size=40)
            hits.append(((cases - moved >= 0.5).mean() + (controls - moved < 0.5).mean()) / 2)
        right.append(np.mean(hits))
    assert right[0] + 0.02 < right[1] < right[2] and abs(right[2] - 0.691) < 0.012  # Phi(1 / 2) with the level known


def test_sites_that_do_not_differ_are_left_where_they_are():
    score, y, site = world(np.random.default_rng(2), 8, between=0.0)
    shift = learn_shift(score, site, y == 0)
    assert shift.ratio < 0.05 and abs(shift(np.full(5, 10.0))) < 2.2
    assert SiteShift(0.0, 0.5)(np.array([])) == 0


def test_two_sites_teach_nothing_and_people_without_a_score_do_not_count():
    score = np.array([0.0, 1, 5, 6, np.nan, np.nan])
    site = np.array(list("AABBCC"))
    assert learn_shift(score, site, np.ones(6, dtype=bool)) == SiteShift(3.0, 0.0)
