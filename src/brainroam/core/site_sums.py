"""The linear reading from sums over people: products of residuals, and what belongs beside them.

With X (n, N) the residuals of people about the means of their sites, over their deviation s, and t the target,

    w = mean over penalties of  argmin  |t - X w|^2 + penalty |w|^2

follows from X'X and X't, which add up over sites (`core.site_summary`), so from the sums alone. Of a number sites have
a row each (`core.pathways`), which first summaries tell.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from brainroam.core.ridge import EPS, Rows, ridge_of_products


class Sums(NamedTuple):
    """Sums over people of residuals about the mean of their site; they add up over sites."""

    gram: np.ndarray  # sum rr' (N, N)
    by_class: np.ndarray  # sums of r over each class; of a number over everybody, and times it (q, N)
    present: np.ndarray  # people of the sites that have the edge (N,)


def ridge_of_sums(
    sums: Sums,
    signs: np.ndarray,
    candidates: Sequence[Sequence[float]],
    counts: np.ndarray,
    target_unit: float | None = None,
    rows: Rows | None = None,
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Scale (N,) of the edges and, for each choice of penalties, the weights of the linear reading.

    ``counts`` are the people by class of all sites; of a number, ``target_unit`` is its standard deviation within sites
    and ``rows`` are those of the sites, of edges as they are.
    """
    gram, of_class, count = sums
    n_people, total = int(counts.sum()), of_class[0] if target_unit else of_class.sum(axis=0)
    variance = np.diag(gram) / np.maximum(count, 1) - (total / np.maximum(count, 1)) ** 2
    scale = np.sqrt(np.maximum(variance, 0))
    scale = np.where(scale > EPS, scale, 1.0)
    unit = signs / scale
    gram, total = gram * np.outer(unit, unit), total * unit
    if target_unit:
        products = of_class[1] * unit / target_unit
    elif len(counts) > 2:
        products = 2 * (of_class * unit - counts[:, None] / counts.sum() * total).T
    else:
        products = (of_class[1] - of_class[0]) * unit - (counts[1] - counts[0]) / counts.sum() * total
    with_rows = gram
    if rows is not None:
        levels = rows.features * unit
        with_rows, products = gram + levels.T @ levels, products + levels.T @ rows.target
    found = []
    for penalties in candidates:
        weights = ridge_of_products(with_rows, products, n_people, *penalties)
        found.append(weights / max(_spread_of_readings(weights, gram, total, n_people), EPS))
    return scale, found


def _spread_of_readings(weights: np.ndarray, gram: np.ndarray, total: np.ndarray, n_people: int) -> float:
    """Standard deviation over people of the scores by weights (N,); by (N, K) over people and classes together."""
    columns = n_people * int(np.prod(weights.shape[1:], dtype=int))
    square = np.vdot(weights, gram @ weights) / columns - (np.sum(total @ weights) / columns) ** 2
    return float(np.sqrt(max(square, 0.0)))
