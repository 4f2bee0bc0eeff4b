"""What a score loses where a shortcut turns round: its AUC by which of two people has more of something else.

With s the scores of a held-out site, x a shortcut such as head motion, and all pairs of a case i and a control j of it,

    AUC where it holds    = P(s_i > s_j | x_i - x_j has the sign that cases have at the other sites)
    AUC where it turns    = P(s_i > s_j | x_i - x_j has the other sign)
    loss                  = their difference

averaged over sites by the pairs of each; ties in s count half, pairs with the same x not at all. A score that knows
nothing of x beyond the diagnosis has no loss. One that reads x ranks well where patients move more, as they did in
training, and badly where they move less, as they may at the next hospital: the second figure is what to expect there.
Where the condition itself goes with x, as severity may with motion, a loss is no proof of a shortcut, but the
expectation holds. Nothing is fitted again, so any table of held-out scores will do.
"""

from typing import NamedTuple

import numpy as np

FEWEST = 2  # of a class at a site


class Stress(NamedTuple):
    """AUC of all pairs, of those where the shortcut holds and of those where it turns round, and how many these are."""

    auc: float
    holds: float
    turns: float
    n_holds: int
    n_turns: int

    @property
    def loss(self) -> float:
        """What turning round costs."""
        return self.holds - self.turns


def stress(score: np.ndarray, label: np.ndarray, shortcut: np.ndarray, site: np.ndarray) -> Stress:
    """The loss of scores of held-out people where a shortcut turns round; people without a value are left out.

    >>> rng = np.random.default_rng(0)
    >>> label, site = np.tile([0, 1], 200), np.repeat(["A", "B"], 200)
    >>> motion = rng.normal(size=400) + 0.4 * label
    >>> honest, fooled = label + rng.normal(size=400), motion + rng.normal(size=400)
    >>> [round(stress(score, label, motion, site).loss, 1) for score in (honest, fooled)]
    [0.0, 0.5]
    """
    known = np.isfinite(score) & np.isfinite(shortcut)
    score, label, shortcut, site = score[known], label[known], shortcut[known], site[known]
    places = {name: np.flatnonzero(site == name) for name in np.unique(site)}
    gaps = {name: _gap(shortcut[here], label[here]) for name, here in places.items()}
    right, counted = np.zeros(3), np.zeros(3)
    for name, here in places.items():
        elsewhere = sum(gap for other, gap in gaps.items() if other != name)
        case, control = (here[label[here] == y] for y in (1, 0))
        if min(len(case), len(control)) < FEWEST:
            continue
        above = score[case][:, None] - score[control]
        more = (shortcut[case][:, None] - shortcut[control]) * (np.sign(elsewhere) or 1.0)
        ranked = (above > 0) + 0.5 * (above == 0)
        for k, pairs in enumerate((np.ones_like(ranked, dtype=bool), more > 0, more < 0)):
            right[k] += ranked[pairs].sum()
            counted[k] += pairs.sum()
    auc, holds, turns = np.divide(right, counted, out=np.full(3, np.nan), where=counted > 0)
    return Stress(float(auc), float(holds), float(turns), int(counted[1]), int(counted[2]))


def _gap(shortcut: np.ndarray, label: np.ndarray) -> float:
    """Difference of the class means of a site, times the number of people it is of; 0 without both classes."""
    case, control = shortcut[label == 1], shortcut[label == 0]
    if not (len(case) and len(control)):
        return 0.0
    return float((case.mean() - control.mean()) * len(case) * len(control) / len(shortcut))
