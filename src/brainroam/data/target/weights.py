"""How much each held-out site counts: one rule, wherever brainroam prints a mean over sites.

Site s with m cases and n controls has the weight

    w_s = min(m, n, 20)

so a site counts fully from 20 people of the rarer class on, below that in proportion, and a site of one class not at
all. The variance of an AUC goes with 1 / min(m, n), and sites differ among themselves by about as much as 20 + 20
people scatter, so more people than that add little to what a site says about the next one. Weights depend on numbers of
people alone: all methods have the same, a mean of differences is the difference of means, and no result weights itself.
Several classes count as one of cases and controls does (`order.equivalent_sizes`), a number by its people, 40 at most.
"""

import numpy as np
from numpy.typing import ArrayLike

FULL = 20  # people of the rarer class from which on a site counts fully
JUDGED = 5  # people of the rarer class below which a site is listed, but never named as the worst
MIN_WEIGHT = 2.5  # `number_of_sites` below which there is no interval: two sites predict each other


def site_weights(n_cases: ArrayLike, n_controls: ArrayLike) -> np.ndarray:
    """The weight of each site in a mean over sites.

    >>> site_weights(np.array([40, 1, 0, 12]), np.array([30, 20, 25, 15])).tolist()
    [20.0, 1.0, 0.0, 12.0]
    """
    return np.minimum(np.minimum(n_cases, n_controls), FULL).astype(float)


def has_enough_people(n_cases: ArrayLike, n_controls: ArrayLike) -> np.ndarray:
    """Which sites have enough people of either class to be called the best or the worst.

    >>> has_enough_people(np.array([40, 1, 5]), np.array([30, 20, 5])).tolist()
    [True, False, True]
    """
    return np.minimum(n_cases, n_controls) >= JUDGED


def may_be_named(n_cases: ArrayLike, n_controls: ArrayLike) -> np.ndarray:
    """Which sites may be called the best or the worst: those that `has_enough_people`, if at least half of all do.

    The worst of a few sites is not the worst: with one case in ten people it may be better than the mean.

    >>> may_be_named([40, 1, 5], [30, 20, 5]).tolist(), may_be_named([5, 2, 3], [40, 40, 40]).tolist()
    ([True, False, True], [False, False, False])
    """
    enough = has_enough_people(n_cases, n_controls)
    return enough & (2 * enough.sum() >= enough.size)


def mean_over_sites(values: ArrayLike, weights: ArrayLike) -> float:
    """Weighted mean over the sites that have a value and a weight; NaN of none.

    >>> mean_over_sites(np.array([0.7, 0.8, 0.0, np.nan]), np.array([20.0, 20, 1, 0])).__round__(3)
    0.732
    """
    values, weights = np.asarray(values, dtype=float), np.asarray(weights, dtype=float)
    measured = np.isfinite(values) & (weights > 0)
    return float(np.average(values[measured], weights=weights[measured])) if measured.any() else float("nan")


def number_of_sites(weights: ArrayLike) -> float:
    """What weighted sites amount to: (sum w)^2 / sum w^2, the number of sites if all weigh the same.

    >>> number_of_sites(np.full(10, 20)), round(number_of_sites(np.array([20] * 10 + [1])), 2)
    (10.0, 10.1)
    """
    w = np.asarray(weights, dtype=float)
    return float(w.sum() ** 2 / (w @ w)) if w.any() else 0.0
