"""What out-of-site scores teach about the next site, where people were scanned several times."""

import numpy as np
import pytest

from brainroam.data.target import Classes, Number, Ordered, TwoClasses
from brainroam.data.target.readout import Readout, Scored
from brainroam.data.target.sets import calibrate_intervals

N, SITES = 240, 8


def scored(target) -> Scored:
    """Scores that follow the truth, at sites whose level differs."""
    rng = np.random.default_rng(0)
    site = np.repeat(np.arange(SITES), N // SITES).astype(str)
    if target.score_shape:
        truth = np.tile(np.arange(3), N // 3).astype(float)
        score = 1.5 * np.eye(3)[truth.astype(int)] + rng.normal(size=(N, 3))
    elif target.kind == "two classes":
        truth = np.tile([0.0, 1.0], N // 2)
        score = truth + rng.normal(size=N)
    else:
        truth = rng.normal(2, 1, N)
        score = truth + rng.normal(size=N)
    return Scored(score, truth, site, np.ones(N))


DX, STAGE = Classes("dx", ("HC", "MDD", "SCZ")), Ordered("stage", ("a", "b", "c", "d", "e"))
TARGETS = [TwoClasses(), DX, Number("age"), STAGE]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.kind)
def test_somebody_scanned_five_times_counts_once(target):
    """Everybody with the largest truth was scanned five times, with the same score each time."""
    people = scored(target)
    again = np.repeat(np.arange(N), np.where(people.truth >= np.quantile(people.truth, 0.7), 5, 1))
    count = np.bincount(again)[again]
    scans = Scored(*(values[again] for values in people[:3]), 1 / count)
    once, found = target.learn_readout(people, people), target.learn_readout(scans, people)
    new = people.score[:50]
    np.testing.assert_allclose(found.calibration(new), once.calibration(new), atol=0.005)
    for level in once.sets.limits:
        np.testing.assert_allclose(found.sets.limits[level], once.sets.limits[level], atol=0.02)
    if hasattr(once.calibration, "prevalence"):
        np.testing.assert_allclose(found.calibration.prevalence, once.calibration.prevalence)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.kind)
def test_a_readout_is_restored_from_its_state(target):
    learned = target.learn_readout(scored(target), scored(target))
    again = type(target).of_state(learned.state())
    assert again == target
    restored: Readout = again.readout.of_state(again, learned.state())
    score = scored(target).score
    assert (restored.calibration(score) == learned.calibration(score)).all() and restored.sets == learned.sets
    assert list(restored.shifts) == list(learned.shifts) and restored.shifts == learned.shifts


@pytest.mark.parametrize(("n_sites", "level"), [(4, 0.8), (5, 0.8), (9, 0.9)])
def test_intervals_hold_their_level_at_the_edge_of_what_sites_can_promise(n_sites, level):
    """At exactly E / (E + 1) they held 99 %, being the largest error of anybody."""
    rng, held = np.random.default_rng(1), []
    for _ in range(150):
        site = np.repeat(np.arange(n_sites + 1), 15)
        t = rng.normal(size=len(site))
        score, new = t + rng.normal(size=len(site)), site == n_sites
        intervals = calibrate_intervals(score[~new], t[~new], site[~new])
        slope, intercept = np.polyfit(score[~new], t[~new], 1)
        low, high = intervals(intercept + slope * score[new], level)
        held.append(np.mean((low <= t[new]) & (t[new] <= high)))
    assert level - 0.02 < np.mean(held) < level + 0.04
