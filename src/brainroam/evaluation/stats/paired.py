"""Paired differences of two methods: test and interval from one corrected t, for sites and for folds alike."""

from typing import NamedTuple

import numpy as np
from scipy.stats import t

LEVEL = 0.95


class CorrectedT(NamedTuple):
    """Mean of the results, its interval and two-sided test against zero."""

    mean: float
    low: float
    high: float
    t: float
    p: float


def nadeau_bengio(values: np.ndarray, test_over_train: float) -> CorrectedT:
    """Student t over the J folds of a (repeated) k-fold, corrected for the training people the folds share.

    ``t = mean / sqrt((1 / J + n_test / n_train) * var)`` with J - 1 degrees of freedom. The interval excludes zero
    exactly when p is below 5 %.

    References
    ----------
    Nadeau and Bengio (2003), Inference for the generalization error, Machine Learning 52, 239-281.

    Examples
    --------
    >>> result = nadeau_bengio(np.array([0.01, 0.03, 0.02, 0.00, 0.04]), test_over_train=1 / 4)
    >>> round(result.t, 3), round(result.p, 3)
    (1.886, 0.132)
    """
    d = np.asarray(values, dtype=float)
    if len(d) < 2:
        return CorrectedT(float(d.mean()) if len(d) else np.nan, *[np.nan] * 4)
    mean, spread = float(d.mean()), float(d.std(ddof=1))
    if spread <= 1e-12:
        # The same difference everywhere has no scatter to measure it by: only its sign can be tested.
        return CorrectedT(mean, np.nan, np.nan, np.nan, 2.0 ** (1 - len(d)) if abs(mean) > 1e-12 else 1.0)
    se = float(np.sqrt(1 / len(d) + test_over_train)) * spread
    half = float(t.ppf((1 + LEVEL) / 2, len(d) - 1)) * se
    return CorrectedT(mean, mean - half, mean + half, mean / se, float(2 * t.sf(abs(mean) / se, len(d) - 1)))


def left_out_t(differences: np.ndarray) -> CorrectedT:
    """Mean difference of two methods over k left-out sites, its interval and p.

    Left-out sites are not independent: each was trained on the others, and results at two of them correlate by about
    rho = 1 / (k - 1), see `verdict`. With s^2 the variance between sites,

        var(mean) = s^2 (1 + (k - 1) rho) / (k (1 - rho)) = s^2 (1 / k + 1 / (k - 2)),

    which is `nadeau_bengio` with 1 / (k - 2) for the ratio of test to training people. Measured levels:
    docs/reliability.md. Two sites predict each other, which is one measurement: NaN.

    Examples
    --------
    >>> won_everywhere = np.array([0.02, 0.09, 0.01, 0.08, 0.03, 0.01, 0.06, 0.02])
    >>> result = left_out_t(won_everywhere)
    >>> round(result.p, 4), round(result.low, 3)
    (0.0542, -0.001)
    """
    k = len(differences)
    if k < 3:
        return CorrectedT(float(np.mean(differences)) if k else np.nan, *[np.nan] * 4)
    return nadeau_bengio(differences, 1 / (k - 2))


def holm(p: np.ndarray) -> np.ndarray:
    """Holm's step-down correction: the j-th smallest of k p-values times (k - j + 1), made monotone, at most 1.

    NaN stands for a comparison that could not be made: it stays NaN and is not counted.

    Examples
    --------
    >>> holm(np.array([0.04, 0.01, 0.03]))
    array([0.06, 0.03, 0.06])
    """
    p = np.asarray(p, dtype=float)
    corrected = np.full(len(p), np.nan)
    order = np.argsort(p)[: np.isfinite(p).sum()]  # NaN sorts last
    factor = np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(np.maximum.accumulate(p[order] * factor), 1)
    return corrected
