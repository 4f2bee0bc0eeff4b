"""What a plan is about, for each kind of target: the figure of a left-out site, its weight, and the scale of its law.

    target          figure of a site     averaged over sites     scale of the law     P people count as h =
    two classes     AUC                  AUC                     probit               P q (1 - q), a share q cases
    several (K)     macro AUC            macro AUC               probit               P (K - 1) / K^2, in equal parts
    a number        r within the site    Fisher's z              z                    P - 3

c / h is the sampling variance of the difference of two methods at a site: DeLong's for AUCs (of several classes, what
each person adds to the AUC of every class, added up before it is squared), that of Meng, Rosenthal and Rubin for
correlations. Differences of correlations are told in r, at the mean r of the two: dr = (1 - r^2) dz.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri

from brainroam.data.target import TWO_CLASSES, Target
from brainroam.data.target.order import (
    LEAST,
    added_error,
    aucs,
    correlations,
    equivalent_sizes,
    macro_auc,
    order_gain,
    placements,
)
from brainroam.evaluation.stats import classes, metrics, numbers
from brainroam.evaluation.stats.metrics import mean_over_sites, site_weights
from brainroam.evaluation.stats.numbers import EDGE, two_digits

LEAST_OF_A_CLASS = 2
PROBIT = ndtri([0.01, 0.999])  # of an AUC that a mean of finite sites may exceed


class Gain(NamedTuple):
    """The difference of two points of a learning curve, with its 95 % interval."""

    size: float
    low: float
    high: float


@dataclass(frozen=True)
class Scale:
    """A figure, and the scales on which it is averaged over sites and follows a law.

    Attributes
    ----------
    name, words : str
        Its column, and what a mean of it is called.
    least : float
        A mean below which there is no curve to extend.
    chance : float
    averaged, figure : callable
        From a site's figure to what is averaged, and back.
    straight, back : callable
        From such a mean to the scale of the law, and from there to the figure.
    """

    name: str
    words: str
    least: float
    chance: float
    averaged: Callable[[np.ndarray], np.ndarray]
    figure: Callable[[float], float]
    straight: Callable[[np.ndarray], np.ndarray]
    back: Callable[[np.ndarray], np.ndarray]

    def mean(self, values: np.ndarray, weights: np.ndarray) -> float:
        """Mean over sites, as a figure."""
        return float(self.figure(mean_over_sites(self.averaged(np.asarray(values, dtype=float)), weights)))

    def format(self, value: float) -> str:
        """As it is written: 76.3 of an AUC, .56 of a correlation."""
        return two_digits(value) if self.name == "r" else f"{100 * value:.1f}"

    def format_gain(self, gain: Gain) -> str:
        """A difference with its interval, as it is written."""
        if self.name == "r":
            return f"{gain.size:+.3f} ({gain.low:+.3f} to {gain.high:+.3f})"
        size, low, high = (100 * value for value in gain)
        return f"{size:+.1f} points ({low:+.1f} to {high:+.1f})"

    def size(self, difference: float) -> str:
        """A difference that one would like to find: 2 AUC points, or .02 in r."""
        return (
            f"{difference:.3g} in r".replace("0.", ".", 1) if self.name == "r" else f"{100 * difference:g} AUC points"
        )


def _probit(mean: np.ndarray) -> np.ndarray:
    return np.clip(ndtri(np.clip(mean, 0, 1)), *PROBIT)


def _z(r: np.ndarray) -> np.ndarray:
    return np.arctanh(np.clip(r, -EDGE, EDGE))


def _same(value):
    return value


AUC = Scale("auc", "mean AUC", 0.55, 0.5, _same, _same, _probit, ndtr)
ORDER = Scale("r", "mean correlation within sites", 0.1, 0.0, _z, np.tanh, _same, np.tanh)


class Gap(NamedTuple):
    """The difference of two methods at a site, its sampling variance, h of the people there, and the site's weight."""

    difference: float
    variance: float
    h: float
    weight: float


class Measure(Protocol):
    """One kind of target, see the table above."""

    scale: Scale
    rule: str  # of the mean over sites
    needs: str  # what a site needs to take part

    @property
    def groups(self) -> str:
        """How the people of a site are divided, for sentences."""

    def usable(self, label: np.ndarray) -> bool:
        """Whether a site of these people takes part."""

    def strata(self, label: np.ndarray) -> np.ndarray:
        """Codes of the groups of which a smaller study keeps a share each."""

    @property
    def least(self) -> int:
        """How many of each such group it keeps at least."""

    def at_site(self, label: np.ndarray, score: np.ndarray) -> tuple[float, float]:
        """Figure and weight of a site."""

    def gap(self, label: np.ndarray, first: np.ndarray, second: np.ndarray) -> Gap:
        """Two methods at a site, on the scale that is averaged."""

    def h(self, people: float) -> float:
        """The effective number h of so many people at a site."""


@dataclass(frozen=True)
class TwoClasses:
    """Cases and controls, of whom this share are cases: the AUC."""

    share: float = 0.5
    scale, rule, needs, least = AUC, metrics.RULE, "two cases and two controls", LEAST_OF_A_CLASS

    @property
    def groups(self) -> str:
        """In words how many are cases."""
        return ", half of them cases" if abs(self.share - 0.5) < 0.05 else f", {self.share:.0%} of them cases"

    def usable(self, label: np.ndarray) -> bool:
        """Whether there are two people of each class."""
        return min((label == 0).sum(), (label == 1).sum()) >= LEAST_OF_A_CLASS

    def strata(self, label: np.ndarray) -> np.ndarray:
        """The classes."""
        return label

    def at_site(self, label: np.ndarray, score: np.ndarray) -> tuple[float, float]:
        """AUC, and weight by the rarer class."""
        return float(aucs(label, score)), float(site_weights((label == 1).sum(), (label == 0).sum()))

    def gap(self, label: np.ndarray, first: np.ndarray, second: np.ndarray) -> Gap:
        """DeLong's variance."""
        m, n = int((label == 1).sum()), int((label == 0).sum())
        areas = aucs(label, np.stack([first, second]))
        variance = delong_variance(label, first, second)
        return Gap(areas[0] - areas[1], variance, m * n / (m + n), float(site_weights(m, n)))

    def h(self, people: float) -> float:
        """Of this share of cases."""
        return people * self.share * (1 - self.share)


@dataclass(frozen=True)
class SeveralClasses:
    """Several classes: the mean over them of the AUC against the rest; scores have a column for each."""

    n_classes: int
    scale, rule, needs = AUC, classes.RULE, "two people of two classes"
    least = LEAST_OF_A_CLASS
    groups = ", as many of each class"

    def usable(self, label: np.ndarray) -> bool:
        """Whether two classes have two people each."""
        return int((np.bincount(label.astype(int)) >= LEAST_OF_A_CLASS).sum()) >= 2

    def strata(self, label: np.ndarray) -> np.ndarray:
        """The classes."""
        return label

    def at_site(self, label: np.ndarray, score: np.ndarray) -> tuple[float, float]:
        """Macro AUC, and weight by the rarer classes."""
        return float(macro_auc(label, score)), self._weight(self._effective_count(label))

    def gap(self, label: np.ndarray, first: np.ndarray, second: np.ndarray) -> Gap:
        """The variance of a mean over classes, in which people take part in every class."""
        areas, m = macro_auc(label, np.stack([first, second])), self._effective_count(label)
        added = []
        for k in np.unique(label.astype(int)):
            case = label == k
            of_two = (placements(case, score[:, k]) for score in (first, second))
            added.append(added_error(case, *(one - other for one, other in zip(*of_two, strict=True))))
        variance = float(np.square(np.mean(added, axis=0)).sum())
        return Gap(float(areas[0] - areas[1]), variance, m / 2, self._weight(m))

    def h(self, people: float) -> float:
        """Of as many people of each class."""
        return people * (self.n_classes - 1) / self.n_classes**2

    def _effective_count(self, label: np.ndarray) -> float:
        return float(equivalent_sizes(np.bincount(label.astype(int), minlength=self.n_classes)[None])[0])

    @staticmethod
    def _weight(m: float) -> float:
        return float(site_weights(m, m))


@dataclass(frozen=True)
class Number:
    """A number: the correlation of score and target within a site."""

    target: Target
    scale, least, groups = ORDER, LEAST, ""
    rule = f"{numbers.RULE}, on Fisher's z"
    needs = f"{LEAST} people who differ in the target"

    def usable(self, label: np.ndarray) -> bool:
        """Whether there is a correlation."""
        return len(label) >= LEAST and np.ptp(label) > 0

    def strata(self, label: np.ndarray) -> np.ndarray:
        """Everybody alike."""
        return np.zeros(len(label), dtype=int)

    def at_site(self, label: np.ndarray, score: np.ndarray) -> tuple[float, float]:
        """Correlation, and weight by the number of people."""
        return float(correlations(self.target.forward(label), score)), self._weight(len(label))

    def gap(self, label: np.ndarray, first: np.ndarray, second: np.ndarray) -> Gap:
        """Of Fisher's z; `contrast` tells it in r."""
        difference, variance = order_gain(self.target.forward(label), second, first)
        return Gap(difference, variance, self.h(len(label)), self._weight(len(label)))

    def h(self, people: float) -> float:
        """Fisher's z has the variance 1 / (n - 3)."""
        return max(people - 3, 1e-9)

    @staticmethod
    def _weight(n: int) -> float:
        return float(numbers.weights_of(np.array(n - 3)))


def measure_of(target: Target = TWO_CLASSES) -> Measure:
    """The measure of a target.

    >>> measure_of().scale.name, measure_of(Target.of_kind("age", "number")).scale.name
    ('auc', 'r')
    """
    if target.is_number:
        return Number(target)
    return SeveralClasses(len(target.classes)) if target.is_classes else TwoClasses()


def score_columns(target: Target) -> list[str]:
    """The columns that hold the score of a person, or the scores of several classes."""
    return [f"score_{name}" for name in target.classes] if target.is_classes else ["score"]


def scores_of(rows: pd.DataFrame, target: Target) -> np.ndarray:
    """Scores (n,), or (n, K), of rows that have these columns."""
    scores = rows[score_columns(target)].to_numpy(dtype=float)
    return scores if target.is_classes else scores[:, 0]


def delong_variance(label: np.ndarray, first: np.ndarray, second: np.ndarray) -> float:
    """Sampling variance of the difference of two AUCs of the same people.

    >>> y, x = np.repeat([1, 0], 4), np.array([4.0, 2, 6, 8, 1, 3, 5, 7])
    >>> delong_variance(y, x, x)
    0.0
    """
    gaps = [one - other for one, other in zip(placements(label, first), placements(label, second), strict=True)]
    return float(sum(gap.var(ddof=1) / len(gap) for gap in gaps))
