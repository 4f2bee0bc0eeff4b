"""What held-out sites foretell after a choice: not the scores by which the winner won."""

from types import SimpleNamespace

import numpy as np
import pytest

from brainroam.core.candidates import Candidate, best_of, foretold_scores
from brainroam.data.target import TWO_CLASSES, Number
from brainroam.data.target.order import auc, correlations

REPEATS = 80


class Folds:
    """Folds of six sites, without anything that computes."""

    candidates = ((3.0,),)

    def __init__(self, y, site, coding):
        self.statistics = SimpleNamespace(y=y, site=site, coding=coding, levels={}, spread={})

    def order(self, scores):
        orders = self.statistics.coding.site_orders(self.statistics.y, self.statistics.site, scores)
        return float(np.mean(orders)) if orders else None

    def people(self, group):
        return np.flatnonzero(np.isin(self.statistics.site, list(group)))

    def scaffold(self):
        return SimpleNamespace(consensus=np.zeros(100))


@pytest.mark.parametrize("target", [TWO_CLASSES, Number("age")], ids=lambda target: target.kind)
def test_the_winner_of_many_meaningless_candidates_foretells_no_order(target):
    """Nine candidates of noise: the winner's own order is well above chance, what it foretells is not."""
    rng, site = np.random.default_rng(3), np.repeat(list("ABCDEF"), 14)
    own, foretold = [], []
    for _ in range(REPEATS):
        number = target is not TWO_CLASSES
        y = rng.normal(size=len(site)) if number else np.tile([0, 1], len(site) // 2)
        folds = Folds(y, site, target.coding)
        candidates = [Candidate.of(folds, {}, rng.normal(size=(1, len(site))), 0) for _ in range(9)]
        scores = foretold_scores(candidates, [frozenset(name) for name in "ABCDEF"])
        for found, values in ((own, candidates[best_of(candidates)].scores), (foretold, scores)):
            of_sites = [
                float(correlations(y[site == s], values[site == s])) if number else auc(y[site == s], values[site == s])
                for s in "ABCDEF"
            ]
            found.append(np.mean(of_sites))
    chance = 0.0 if target is not TWO_CLASSES else 0.5
    assert np.mean(own) - chance > 0.05 and abs(np.mean(foretold) - chance) < (0.045 if number else 0.03)


def test_a_choice_that_all_sites_make_foretells_what_it_won_by():
    rng, site = np.random.default_rng(0), np.repeat(list("ABCDEF"), 20)
    y = np.tile([0, 1], 60)
    folds = Folds(y, site, TWO_CLASSES.coding)
    scores = [noise * rng.normal(size=(1, 120)) + y for noise in (5.0, 0.5, 3.0)]
    candidates = [Candidate.of(folds, {}, each, 0) for each in scores]
    assert best_of(candidates) == 1
    foretold = foretold_scores(candidates, [frozenset(name) for name in "ABCDEF"])
    np.testing.assert_array_equal(foretold, scores[1][0])
