"""Sets of labels that hold the truth at a new site with a promised probability, so that a model can keep quiet.

A person's set holds "case" unless the score is too low for a case, and "control" unless it is too high for a control.
Both limits come from people whose site was held out (conformal prediction with sites as the unit: Dunn, Wasserman and
Ramdas 2023; Lee, Barber and Willett 2023). With E sites that have the class and n_e of its people at site e, the lower
limit of cases is the largest score l with

    sum over e of 1 / ((E + 1) n_e) #{cases of e with score >= l}  >=  level

The new site, of which nothing is known, has the remaining weight 1 / (E + 1). So no level above E / (E + 1) can be
promised, whatever the data: 80 % needs 4 sites, 90 % needs 9, 95 % needs 19.

The promise is for a random person of the class at a random next site drawn like the training sites, on average over
such sites; at a single site coverage may be lower. It is exact for a model that does not change when a site is added;
ours is refitted on all sites, and its coverage is measured (docs/results/next-site.md). Intervals of a number are
calibrated site by site instead (`calibrate_intervals`): in simulation of 4 to 20 sites of 15 to 80 people 80 % held
.79 to .82 and 90 % .90 to .91 on average over sites. At the worst tenth of sites it was .55 to .71 where sites differ
by chance alone, and .2 to .5 where their levels differ by half to one standard deviation of the number.

References
----------
Dunn, Wasserman and Ramdas (2023), Distribution-free prediction sets for two-layer hierarchical models, Journal of the
American Statistical Association 118(544), 2491-2502. Lee, Barber and Willett (2023), Distribution-free inference with
hierarchical data, arXiv:2306.06342.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from brainroam.data.target.calibration import calibrate_number
from brainroam.errors import UsageError

LEVELS = (0.8, 0.9, 0.95)
WORDS = np.array(["neither", "control", "case", "either"])  # by 2 * case + control


@dataclass(frozen=True)
class Promise:
    """Limits learned at so many sites, with the levels that can be promised for a new one.

    Attributes
    ----------
    n_sites : int
        Training sites that bear on it.
    limits : dict of float to tuple of float
        By level. A level that cannot be promised is absent.
    """

    n_sites: int
    limits: Mapping[float, tuple[float, ...]]
    bearing: ClassVar[str] = ""  # which sites these are, in words

    def require(self, level: float) -> None:
        """Refuse a level that so few sites cannot promise."""
        if level not in LEVELS:
            raise UsageError(f"what holds the truth is made for {_percent(*LEVELS)}, not for {_percent(level)}")
        if level not in self.limits:
            raise UsageError(
                f"{_percent(level)} cannot be promised for a new site: the model knows {self.n_sites} sites"
                f"{self.bearing}, and {sites_needed(level)} are needed. A new site is one more draw from the sites: "
                f"with E of them, nothing beyond E / (E + 1) = {self.n_sites / (self.n_sites + 1):.1%} follows from "
                f"data alone. These can be promised: {_percent(*self.limits) or 'none'}"
            )


@dataclass(frozen=True)
class PredictionSets(Promise):
    """Limits of the scores of cases and controls: by level, the lowest score of a case, the highest of a control.

    ``n_sites`` have the class which fewer of them have.
    """

    bearing: ClassVar[str] = " with cases and controls"

    def __call__(self, score: np.ndarray, level: float) -> np.ndarray:
        """``case``, ``control``, ``either`` (the model does not decide) or ``neither`` (unlike both) for each score."""
        self.require(level)
        low, high = self.limits[level]
        return WORDS[2 * (score >= low) + (score <= high)]


@dataclass(frozen=True)
class PredictionIntervals(Promise):
    """Errors of a predicted number: by level, the two numbers to add to it for its interval."""

    def __call__(self, prediction: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper end for each prediction, on the scale it was learned on."""
        self.require(level)
        low, high = self.limits[level]
        return prediction + low, prediction + high


@dataclass(frozen=True)
class ClassSets(Promise):
    """Limits of the probabilities of several classes: by level, the lowest of each class that its people have.

    ``n_sites`` have the class which most of them have. A class that too few sites have has 0: it is in every set.
    """

    bearing: ClassVar[str] = " with the class that most of them have"

    def __call__(self, probability: np.ndarray, level: float) -> np.ndarray:
        """Which classes (n, K) are in the set of each person, from probabilities at equal shares."""
        self.require(level)
        return probability >= np.array(self.limits[level])


def calibrate_class_sets(
    probability: np.ndarray, code: np.ndarray, site: np.ndarray, count: np.ndarray | None = None
) -> ClassSets:
    """Learn the limits from probabilities (n, K) at equal shares by fits without the person's site; NaN for none.

    As for two classes, class by class: a person's set holds a class unless its probability is too low for it. ``count``
    is how many people each row stands for, by default one.

    >>> rng = np.random.default_rng(0)
    >>> code, site = np.tile([0, 1, 2], 100), np.repeat(np.arange(10), 30)
    >>> p = np.eye(3)[code] + 0.3 * rng.random((300, 3)); p /= p.sum(axis=1, keepdims=True)
    >>> calibrate_class_sets(p, code, site)(p[:2], 0.9).tolist()
    [[True, False, False], [False, True, False]]
    """
    known = np.isfinite(probability).all(axis=1)
    p, code, site, count = probability[known], code[known], site[known], _counts(probability, count)[known]
    parts = [SiteValues(-p[:, k], site, count, code == k) for k in range(p.shape[1])]
    n_sites = max(part.n_sites for part in parts)
    limits = {
        level: tuple(-part.limit(level) if part.n_sites >= sites_needed(level) else 0.0 for part in parts)
        for level in LEVELS
        if n_sites >= sites_needed(level)
    }
    return ClassSets(n_sites, limits)


def calibrate_intervals(
    score: np.ndarray, t: np.ndarray, site: np.ndarray, count: np.ndarray | None = None
) -> PredictionIntervals:
    """Learn intervals from scores by fits without the person's site; NaN where there is none.

    Each site's errors are those of a calibration on the other sites. Sites count alike, and so do people of a site,
    of whom each row stands for ``count``, by default one. With F the law of the sizes of errors, and F_-e that of all
    sites but e, the width of a level is the quantile of F at

        p = smallest value with   mean over sites e of   share of people of e with  F_-e(their error) <= p  >=  level

    the quantile that would have held the level at sites that had no part in it. Where sites differ, p is larger. Of n
    people in all the level counts as level (n + 1) / n. The rule of the classes above would give the largest error of
    anybody where E / (E + 1) is the level: 80 % of four sites held 99 %, at twice the width.

    >>> rng = np.random.default_rng(0)
    >>> t, site = rng.normal(size=400), np.repeat(np.arange(10), 40)
    >>> sorted(calibrate_intervals(t + rng.normal(size=400), t, site).limits)
    [0.8, 0.9]
    """
    known = np.isfinite(score)
    score, t, site, count = score[known], np.asarray(t)[known], np.asarray(site)[known], _counts(score, count)[known]
    names = np.unique(site)
    if len(names) < sites_needed(LEVELS[0]):
        return PredictionIntervals(len(names), {})
    error = np.empty(len(score))
    for name in names:
        here, others = site == name, site != name
        error[here] = np.abs(t[here] - calibrate_number(score[others], t[others], count[others])(score[here]))
    whole, place, room = SiteValues(error, site, count), np.empty(len(score)), 1 + 1 / float(count.sum())
    for name in names:
        here, others = site == name, site != name
        place[here] = SiteValues(error[others], site[others], count[others]).shares_below(error[here])
    places = SiteValues(place, site, count)
    widths = {
        level: whole.quantile(places.quantile(min(level * room, 1.0)))
        for level in LEVELS
        if len(names) >= sites_needed(level)
    }
    return PredictionIntervals(len(names), {level: (-width, width) for level, width in widths.items()})


def sites_needed(level: float) -> int:
    """The fewest sites with which a level can be promised.

    >>> [sites_needed(level) for level in LEVELS]
    [4, 9, 19]
    """
    return int(np.ceil(round(level / (1 - level), 9)))


def calibrate_sets(
    score: np.ndarray, y: np.ndarray, site: np.ndarray, count: np.ndarray | None = None
) -> PredictionSets:
    """Learn the limits from scores by fits without the person's site; people without a score (NaN) are left out.

    ``count`` is how many people each score stands for, by default one.

    >>> rng = np.random.default_rng(0)
    >>> y, site = np.tile([0, 1], 200), np.repeat(np.arange(10), 40)
    >>> sets = calibrate_sets(y + 0.5 * rng.normal(size=400), y, site)
    >>> sets.n_sites, sorted(sets.limits), sets(np.array([-1.0, 0.5, 2.0]), 0.9).tolist()
    (10, [0.8, 0.9], ['control', 'either', 'case'])
    """
    known = np.isfinite(score)
    score, y, site, count = score[known], np.asarray(y)[known], np.asarray(site)[known], _counts(score, count)[known]
    cases, controls = SiteValues(-score, site, count, y == 1), SiteValues(score, site, count, y == 0)
    n_sites = min(cases.n_sites, controls.n_sites)
    limits = {level: (-cases.limit(level), controls.limit(level)) for level in LEVELS if n_sites >= sites_needed(level)}
    return PredictionSets(n_sites, limits)


class SiteValues:
    """Values of people of E sites: sites have the same weight, and so have the people of a site.

    Parameters
    ----------
    values, site : ndarray of shape (n,)
    count : ndarray of shape (n,)
        How many people each value stands for.
    who : ndarray of bool, optional
        Whose values count; by default everybody's.
    """

    def __init__(self, values: np.ndarray, site: np.ndarray, count: np.ndarray, who: np.ndarray | None = None) -> None:
        here = np.ones(len(values), dtype=bool) if who is None else who
        names = np.unique(site[here])
        parts = [np.flatnonzero(here & (site == name)) for name in names]
        order = np.concatenate(parts) if parts else np.empty(0, dtype=int)
        self.n_sites, self._values = len(names), values[order]
        self._share = np.concatenate([count[part] / count[part].sum() for part in parts]) if parts else np.empty(0)
        by_size = np.argsort(self._values, kind="stable")
        self._values, self._share = self._values[by_size], self._share[by_size]

    def limit(self, level: float) -> float:
        """The smallest value below which the level lies, where a further site has its part of the weight far above."""
        return self._at(level * (self.n_sites + 1))

    def quantile(self, level: float) -> float:
        """The smallest value below which the level lies."""
        return self._at(level * self.n_sites)

    def shares_below(self, values: np.ndarray) -> np.ndarray:
        """Which share of these people, as they weigh, has at most each of other values."""
        reached = np.append(0.0, np.cumsum(self._share) / self.n_sites)
        return reached[np.searchsorted(self._values, values, side="right")]

    def _at(self, weight: float) -> float:
        return float(self._values[np.argmax(np.cumsum(self._share) >= weight - 1e-9)])


def _counts(score: np.ndarray, count: np.ndarray | None) -> np.ndarray:
    return np.ones(len(score)) if count is None else count


def _percent(*levels: float) -> str:
    return ", ".join(f"{100 * level:g} %" for level in levels)
