"""Penalties of a ridge on columns of a table: all of them, each as far as it is believed.

Columns of a table share factors, such as the size of a head, behind which a strong penalty hides all others; and where
few columns tell anything, or all do a little, the right penalty may be a thousand times weaker than that of edges. A
few hundred people do not tell which one it is, so readings by several are added up instead of choosing one. With z_k
the scores of held-out people by reading k, whose penalty is p_k, and t their target, both without the means of sites,

    r_k   = correlation of z_k and t                                      over n held-out people
    w_k   = min(p_k / 3, 3 / p_k)^2 (1 - max(r_k, 0)^2)^(-n / 2)          over the sum of these
    score = sum_k  w_k z_k / h_k                                          h_k the spread of z_k

The second factor is the likelihood of a regression of t on z_k at its maximum (Yao et al. 2018 weigh models so, by how
they predict people left out). The first is what is believed before anything is seen: 3 suits most, and a penalty ten
times weaker or stronger is a hundred times less likely. What this gives is measured in docs/results/blocks.md.

References
----------
Yao, Vehtari, Simpson and Gelman (2018), Using stacking to average Bayesian predictive distributions, Bayesian Analysis
13(3), 917-1007.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from brainroam.core.ridge import LARGE, STRONG
from brainroam.data.target.within import within_sites

USUAL = 3.0
#: In units of the mean squared length of a row.
TABLE_PENALTIES = (USUAL, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 10.0, 30.0)


def table_penalties(n_people: int, n_columns: int) -> list[float]:
    """The penalties to add up; of many people and columns the strong ones, which suit many and can be iterated.

    >>> table_penalties(5000, 7000)
    [3.0, 1.0, 10.0, 30.0]
    """
    return [p for p in TABLE_PENALTIES if p >= STRONG or min(n_people, n_columns) <= LARGE]


class Mixture(NamedTuple):
    """How far each of K readings is believed, w (K,), and what its scores are multiplied by, w / h (K,)."""

    believed: np.ndarray
    factors: np.ndarray


def prior_of(penalties: Sequence[float]) -> np.ndarray:
    """What is believed of each penalty before anything is seen.

    >>> prior_of([3.0, 0.3, 30.0]).round(4).tolist()
    [1.0, 0.01, 0.01]
    """
    return np.minimum(np.divide(penalties, USUAL), np.divide(USUAL, penalties)) ** 2


def mix_readings(scores: np.ndarray, t: np.ndarray, site: np.ndarray, prior: np.ndarray) -> Mixture:
    """The mixture of readings with these scores (K, n) of held-out people; NaN for those who were not.

    Several classes have scores (K, n, C) and a target (n, C), and share the weights. ``prior`` (K,) is what was
    believed of the readings before, see `prior_of`.

    >>> rng = np.random.default_rng(0)
    >>> t, site = rng.normal(size=200), np.repeat(["A", "B"], 100)
    >>> told = np.stack([t + 3 * rng.normal(size=200), t + rng.normal(size=200)])
    >>> mix_readings(told, t, site, prior_of([3.0, 0.003])).believed.round(3).tolist()
    [0.0, 1.0]
    >>> mix_readings(rng.normal(size=(2, 200)), t, site, prior_of([3.0, 0.3])).believed.round(1).tolist()
    [1.0, 0.0]
    """
    known = np.isfinite(scores).reshape(len(scores), len(t), -1).all(axis=(0, 2))
    target = within_sites(t[known], site[known]).ravel()
    z = np.moveaxis(within_sites(np.moveaxis(scores[:, known], 0, -1), site[known]), -1, 0).reshape(len(scores), -1)
    likelihood = -0.5 * known.sum() * np.log1p(-np.array([_correlation(one, target) ** 2 for one in z]))
    believed = prior * np.exp(likelihood - likelihood.max())
    believed /= believed.sum()
    spread = np.sqrt((z**2).mean(axis=1)) if known.any() else np.ones(len(z))
    return Mixture(believed, believed / np.where(spread > 0, spread, 1.0))


def _correlation(z: np.ndarray, t: np.ndarray) -> float:
    """r, 0 where it is negative or one of the two does not vary, and below 1."""
    size = np.sqrt(float(z @ z) * float(t @ t))
    return min(max(float(z @ t) / size, 0.0), 1 - 1e-9) if size > 0 else 0.0
