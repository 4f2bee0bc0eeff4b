"""Nobody stands out in a column: no sum that is told of it is mostly that of one person.

A hospital tells of a column j sums over its people of the residuals r_i by its own regression, each times a weight c_i
that does not depend on the column: 1 (spread, products of columns), +-1/n_c (contrast of two classes), a class alone, a
number or a covariate about its mean. Guessed from such a sum, the part c_p r_p of person p is right with a correlation
of at most the root of the share

    s_p = m_p / sum_i m_i,      m_i = (c_i r_i)^2

since the others' parts do not go along with it. So a column is told only where, in each of these sums,

    max_p s_p <= 1/3            for c = 1
              <= 0.36 = 0.6^2   for a contrast, of which a class of ten bears nearly all
              <= 1/3            with m_i = |c_i r_i|, for a class alone, a number, a covariate
    the k - 1 largest shares together <= 4/5

Else its values are drawn in as those of a covariate are: the 2, 3, ... k most extreme on either side are set to the
last of them; where that is not enough, or nobody differs any more, the column is dropped. Values are drawn in before
anything is summed, in the same way in all rounds, so nothing that is told depends on what was drawn in.
"""

import numpy as np
import pandas as pd

from brainroam.core.connectivity import edge_blocks
from brainroam.core.covariates import CovariateEncoder
from brainroam.core.site_summary import own_residuals
from brainroam.execution.federation.labels import Labels

ONE, OF_CONTRAST, FEW = 1 / 3, 0.36, 4 / 5  # shares of one person, of one in a contrast, and of k - 1


def draw_in_columns(
    values: np.ndarray, covariates: pd.DataFrame, y: np.ndarray, huber_k: float, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Values (n, M) in which nobody stands out, NaN in columns that are dropped; which columns were drawn in.

    >>> rng = np.random.default_rng(0)
    >>> values, y = rng.normal(size=(40, 3)), np.tile([0, 1], 20)
    >>> values[3, 0], values[:, 1] = 30.0, np.eye(40)[3]
    >>> told, drawn = draw_in_columns(values, pd.DataFrame(index=range(40)), y, 1.345, 5)
    >>> np.isnan(told).all(axis=0).tolist(), drawn.tolist(), bool(told[3, 0] < 3)
    ([False, True, False], [True, False, False], True)
    """
    told, drawn = values.copy(), np.zeros(values.shape[1], dtype=bool)
    open_ = np.flatnonzero(stands_out(values, covariates, y, huber_k, k))
    ordered = np.sort(values[:, open_], axis=0)  # NaN last
    present = np.isfinite(ordered).sum(axis=0)
    for reach in range(2, k + 1):
        if not len(open_):
            break
        low = ordered[reach - 1]
        high = np.take_along_axis(ordered, np.maximum(present - reach, 0)[None], axis=0)[0]
        told[:, open_] = np.clip(values[:, open_], np.minimum(low, high), np.maximum(low, high))
        out = stands_out(told[:, open_], covariates, y, huber_k, k) | (high <= low)
        drawn[open_[~out]] = True
        open_, ordered, present = open_[out], ordered[:, out], present[out]
    told[:, open_] = np.nan
    return told, drawn


def stands_out(values: np.ndarray, covariates: pd.DataFrame, y: np.ndarray, huber_k: float, k: int) -> np.ndarray:
    """In which columns (M,) one person, or k - 1, bear too much of a sum that is told."""
    residuals = np.nan_to_num(own_residuals(values, covariates, huber_k)[1])
    # Of a column that the regression fits exactly only rounding is left: nobody bears anything.
    residuals[:, np.abs(residuals).max(axis=0) <= 1e-9 * np.abs(np.nan_to_num(values)).max(axis=0)] = 0
    out = np.zeros(values.shape[1], dtype=bool)
    for block in edge_blocks(values.shape[1]):
        for weights, power, most in told_sums(y, covariates):
            for c in weights.T:
                out[block] |= _too_much(np.abs(c[:, None] * residuals[:, block]) ** power, k, most)
    return out


def told_sums(y: np.ndarray, covariates: pd.DataFrame) -> list[tuple[np.ndarray, int, float]]:
    """Weights c (n, q) of the sums that are told, the power of |c r| that is shared, and the largest share."""
    ones, classes = np.ones((len(y), 1)), Labels.of(y).classes
    means = classes / np.maximum(classes.sum(axis=0), 1)
    contrasts = means[:, 1:] - means[:, :1]  # a number has none: its slope is the sum by it
    raw = CovariateEncoder().fit(covariates).impute(covariates)
    varying = (raw - raw.mean(axis=0))[:, np.ptp(raw, axis=0) > 0]
    return [(ones, 2, ONE), (contrasts, 2, OF_CONTRAST), (np.column_stack([classes, varying]), 1, ONE)]


def _too_much(parts: np.ndarray, k: int, most: float) -> np.ndarray:
    """Where (M,) of parts (n, M) one is more than this share, or k - 1 are more than 4/5; nowhere of nothing."""
    largest = np.partition(parts, len(parts) - k + 1, axis=0)[len(parts) - k + 1 :]
    total = parts.sum(axis=0)
    return (largest.max(axis=0) > most * total) | (largest.sum(axis=0) > FEW * total)
