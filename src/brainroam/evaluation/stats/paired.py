"""Paired differences of two methods: test and interval from one corrected t, for sites and for folds alike."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import t

from brainroam.errors import DataError, listed
from brainroam.evaluation.stats.metrics import (
    MIN_WEIGHT,
    by_site,
    mean_over_sites,
    number_of_sites,
    refuse_infinite,
)

LEVEL = 0.95


class CorrectedT(NamedTuple):
    """Mean of the results, its interval and two-sided test against zero."""

    mean: float
    low: float
    high: float
    t: float
    p: float


def nadeau_bengio(values: np.ndarray, test_over_train: float, weights: np.ndarray | None = None) -> CorrectedT:
    """Student t over the J folds of a (repeated) k-fold, corrected for the training people the folds share.

    ``t = mean / sqrt((1 / J + n_test / n_train) * var)`` with J - 1 degrees of freedom. The interval excludes zero
    exactly when p is below 5 %. With weights, p their shares and J = 1 / sum p^2, the mean is sum p d and its variance
    (1 + J n_test / n_train) sum p^2 (d - mean)^2 / (1 - p): unbiased where a variance goes with 1 / p, and close to
    that elsewhere. Its degrees of freedom are those of Bell and McCaffrey. Equal weights give the plain formula.

    References
    ----------
    Nadeau and Bengio (2003), Inference for the generalization error, Machine Learning 52, 239-281. Bell and McCaffrey
    (2002), Bias reduction in standard errors for linear regression, Survey Methodology 28(2), 169-181.

    Examples
    --------
    >>> result = nadeau_bengio(np.array([0.01, 0.03, 0.02, 0.00, 0.04]), test_over_train=1 / 4)
    >>> round(result.t, 3), round(result.p, 3)
    (1.886, 0.132)
    """
    d = np.asarray(values, dtype=float)
    w = np.ones(len(d)) if weights is None else np.asarray(weights, dtype=float)
    if len(d) < 2:
        return CorrectedT(float(d.mean()) if len(d) else np.nan, *[np.nan] * 4)
    share = w / w.sum()
    mean = float(share @ d)
    off = d - mean
    if np.sqrt(share @ off**2) <= 1e-12:
        # The same difference everywhere has no scatter to measure it by: only its sign can be tested.
        return CorrectedT(mean, np.nan, np.nan, np.nan, 2.0 ** (1 - len(d)) if abs(mean) > 1e-12 else 1.0)
    odds = share / (1 - share)
    freedom = 1 / ((1 - odds**2) @ share**2 + (odds @ share) ** 2)
    correction = 1 + number_of_sites(w) * test_over_train
    se = float(np.sqrt(correction * (share * odds) @ off**2))
    half = float(t.ppf((1 + LEVEL) / 2, freedom)) * se
    return CorrectedT(mean, mean - half, mean + half, mean / se, float(2 * t.sf(abs(mean) / se, freedom)))


def left_out_t(differences: np.ndarray, weights: np.ndarray | None = None) -> CorrectedT:
    """Mean difference of two methods over k left-out sites, its interval and p.

    Left-out sites are not independent: each was trained on the others, and results at two of them correlate by about
    rho = 1 / (k - 1), see `verdict`. With s^2 the variance between sites,

        var(mean) = s^2 (1 + (k - 1) rho) / (k (1 - rho)) = s^2 (1 / k + 1 / (k - 2)),

    which is `nadeau_bengio` with 1 / (k - 2) for the ratio of test to training people. With the weights of
    `metrics.site_weights`, k is the number of sites that these amount to. Measured levels: docs/reliability.md. Two
    sites predict each other, which is one measurement: NaN.

    Examples
    --------
    >>> won_everywhere = np.array([0.02, 0.09, 0.01, 0.08, 0.03, 0.01, 0.06, 0.02])
    >>> result = left_out_t(won_everywhere)
    >>> round(result.p, 4), round(result.low, 3)
    (0.0542, -0.001)
    """
    d = np.asarray(differences, dtype=float)
    w = np.ones(len(d)) if weights is None else np.asarray(weights, dtype=float)
    k = number_of_sites(w)
    if len(d) < 3 or k < MIN_WEIGHT:
        return CorrectedT(mean_over_sites(d, w), *[np.nan] * 4)
    return nadeau_bengio(d, 1 / (k - 2), w)


def compare_sites(
    a: ArrayLike | Mapping[str, float],
    b: ArrayLike | Mapping[str, float],
    weights: ArrayLike | Mapping[str, float] | None = None,
) -> CorrectedT:
    """Results of two methods at the same left-out sites: mean difference a - b, its 95 % interval and p.

    Dicts are matched by their keys, Series by their index. Sites where either is NaN, or that weigh 0, are left out;
    fewer than three have no interval. ``weights`` are those of `metrics.site_weights` for AUCs; by default sites count
    alike. See `left_out_t`.

    Examples
    --------
    >>> found = compare_sites([0.72, 0.70, 0.81, 0.66, 0.75], [0.65, 0.69, 0.74, 0.60, 0.70])
    >>> round(found.mean, 3), round(found.p, 3)
    (0.052, 0.046)
    """
    first, second, *given_weights = by_site(a=a, b=b, **({} if weights is None else {"weights": weights}))
    w = given_weights[0] if given_weights else np.ones(len(first))
    refuse_infinite(a=first, b=second, weights=w)
    if (w < 0).any():
        raise DataError(f"weights: that of result {listed(np.flatnonzero(w < 0))} is below 0")
    measured = np.isfinite(first) & np.isfinite(second) & (w > 0)
    # Whatever the units: what counts as no difference is a matter of rounding, not of size.
    unit = max(float(np.abs([first[measured], second[measured]]).max(initial=0)), np.finfo(float).tiny)
    mean, low, high, *tested = left_out_t((first - second)[measured] / unit, w[measured])
    return CorrectedT(mean * unit, low * unit, high * unit, *tested)


def compare_pairs(values: pd.DataFrame, weights: pd.Series, pairs: Sequence[tuple[str, str]]) -> pd.DataFrame:
    """Differences of pairs of methods at the sites that both have, corrected together.

    Parameters
    ----------
    values : DataFrame
        A row per site, a column per method; NaN where there is none.
    weights : Series
        Of each site.
    pairs : sequence of (method, against)

    Returns
    -------
    DataFrame
        A row per pair: ``method``, ``against``, ``mean`` and ``mean_against`` over their sites and the
        ``difference``, all weighted, with ``low``, ``high``, ``p`` of `left_out_t` and ``p_holm``, ``n_sites``,
        ``won``, ``lost``.
    """
    rows = []
    for method, against in pairs:
        both = values[[method, against]].dropna()
        gap, weight = (both[method] - both[against]).to_numpy(), weights[both.index].to_numpy(dtype=float)
        tested = left_out_t(gap, weight)
        rows.append(
            {
                "method": method,
                "against": against,
                "mean": mean_over_sites(both[method].to_numpy(), weight),
                "mean_against": mean_over_sites(both[against].to_numpy(), weight),
                "difference": tested.mean,
                "low": tested.low,
                "high": tested.high,
                "p": tested.p,
                "n_sites": len(gap),
                "won": int((gap > 0).sum()),
                "lost": int((gap < 0).sum()),
            }
        )
    frame = pd.DataFrame(rows)
    return frame.assign(p_holm=holm(frame["p"].to_numpy(dtype=float)))


def order_pair(row: Any) -> tuple[str, str, int]:
    """Of a row of compared methods, the one that is ahead, the other, and at how many sites the first one won."""
    return (row.against, row.method, row.lost) if row.difference < 0 else (row.method, row.against, row.won)


def format_p(p: float, p_holm: float) -> str:
    """A p value, and what is left of it after Holm's correction.

    >>> format_p(0.0123, 0.0246), format_p(1e-9, 2e-9)
    ('p = 0.012, 0.025 after Holm', 'p < 0.001, < 0.001 after Holm')
    """
    alone, corrected = ("< 0.001" if value < 0.001 else f"= {value:.2g}" for value in (p, p_holm))
    return f"p {alone}" + (f", {corrected.removeprefix('= ')} after Holm" if p_holm > p else "")


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
