"""Choices of thresholds and penalties, by how they order held-out people, and what such a choice foretells.

The scores by which a candidate won are better than those at a new site will be: it won also because of who was held
out. So what is foretold comes from choices made anew for each held-out group g of sites, without its people,

    foretold_i = score of i by the candidate that orders the people of all groups but g best        i in g

with its penalties, and the share of the network, weighed by these other people, too. In simulation without any effect
the AUC of the winner's own scores was .52 to .55, that of these is .50 (docs/results/gate.md).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from brainroam.core.choice import Choice, measure_gain, weigh
from brainroam.core.penalties import mix_readings, prior_of
from brainroam.core.site_folds import LeftOut, SiteFolds


class Candidate(NamedTuple):
    """One choice of thresholds and penalties, with its scores of held-out people.

    ``tried`` (C, n) or (C, n, K) are scores by each of C penalties, or of a network that stands alone, NaN for people
    who were not held out; ``shares`` (C,) how much of each is in the score; ``epochs`` those of the network, if known.
    """

    folds: SiteFolds
    thresholds: dict[str, float]
    tried: np.ndarray
    shares: np.ndarray
    epochs: int | None

    @classmethod
    def of(cls, folds: SiteFolds, thresholds: dict[str, float], tried: np.ndarray, epochs: int | None) -> "Candidate":
        """With penalties chosen, or weighed, by these scores."""
        shares = _weigh_penalties(folds, tried)
        return cls(folds.with_shares(shares) if len(shares) > 1 else folds, thresholds, tried, shares, epochs)

    @property
    def settings(self) -> dict[str, float]:
        """As in `CoreModel.chosen_`."""
        if len(self.shares) == 1:
            return self.thresholds
        return self.thresholds | {"penalty": self.folds.candidates[int(np.argmax(self.shares))][0]}

    @property
    def scores(self) -> np.ndarray:
        """Scores (n,) or (n, K) of held-out people."""
        return np.tensordot(self.shares, self.tried, 1)

    def without(self, people: np.ndarray) -> "Candidate":
        """What it had been, had these people not been held out."""
        tried = self.tried.copy()
        tried[:, people] = np.nan
        return Candidate.of(self.folds, self.thresholds, tried, self.epochs)

    def is_better_than(self, other: "Candidate") -> bool:
        """Whether it orders held-out people better; of a number or a table by more than the standard error of that."""
        statistics = self.folds.statistics
        if statistics.levels or statistics.spread:
            gain, error = measure_gain(other.scores, self.scores, statistics.y, statistics.site, statistics.coding)
            return gain > error
        return (self.folds.order(self.scores) or 0.0) > (self.folds.order(other.scores) or 0.0)


def _weigh_penalties(folds: SiteFolds, tried: np.ndarray) -> np.ndarray:
    """How much of each penalty is in the score; nobody held out leaves the usual one."""
    first, statistics = np.eye(len(tried))[0], folds.statistics
    if len(tried) == 1 or not np.isfinite(tried).any():
        return first
    if statistics.levels:
        return np.eye(len(tried))[np.argmax([folds.order(of_penalty) or 0.0 for of_penalty in tried])]
    penalties = [penalties[0] for penalties in folds.candidates]
    return mix_readings(tried, statistics.y, statistics.site, prior_of(penalties)).factors


def best_of(candidates: Sequence[Candidate]) -> int:
    """Which orders held-out people best; the first counts unless another is better."""
    best = 0
    for k, candidate in enumerate(candidates):
        if k and candidate.is_better_than(candidates[best]):
            best = k
    return best


def foretold_scores(
    candidates: Sequence[Candidate], groups: Sequence[LeftOut], network: np.ndarray | None = None
) -> np.ndarray:
    """Scores of the people of each group by the choices of the others, see above.

    ``network`` are scores of a network that was trained beside the reading, NaN for people who were not held out.
    """
    folds = candidates[0].folds
    statistics, n_edges = folds.statistics, len(folds.scaffold().consensus)
    scores = np.full(statistics.y.shape, np.nan)
    for group in groups:
        here = folds.people(group)
        others = [candidate.without(here) for candidate in candidates]
        best = best_of(others)
        linear = np.tensordot(others[best].shares, candidates[best].tried[:, here], 1)
        if network is None:
            scores[here] = linear
            continue
        known = network.copy()
        known[here] = np.nan
        choice: Choice = weigh(others[best].scores, known, statistics.y, statistics.site, n_edges, statistics.coding)
        scores[here] = choice.combine(linear, network[here])
    return scores
