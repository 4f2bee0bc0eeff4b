"""One model for every number of a verdict: mean AUC over sites, its interval, the next site, tau.

Let m cases and n controls be scored at site s. The AUC is the mean over the m n pairs of the indicator that the case
scores above the control. Binormal scores and normal differences between sites make that indicator

    K = 1[ a + tau z_s + e > 0 ],    z_s, e ~ N(0, 1),

where e has correlation 1/2 between pairs that share one person and 0 between pairs that share nobody. The true AUC of
site s is Phi(a + tau z_s). With c = a / sqrt(1 + tau^2) its mean over the population of sites is mu = Phi(c), which the
weighted mean of the site AUCs, sum_s p_s A_s with p_s = w_s / sum w, estimates without bias, because weights depend on
numbers of people alone (`metrics.site_weights`). The variance of one site's AUC is

    V(c, tau) = [ C(1) + (m + n - 2) C((tau^2 + 1/2) / (tau^2 + 1)) + (m - 1)(n - 1) C(tau^2 / (tau^2 + 1)) ] / (m n),
    C(rho) = Phi2(c, c; rho) - Phi(c)^2 = Phi(c) - Phi(c)^2 - 2 T(c, sqrt((1 - rho) / (1 + rho)))

with Owen's T. It never uses the noisy AUC of the site itself, and it is positive for separated classes.

Left-out sites are trained on one another: with k alike, two AUCs correlate by r = 1 / (k - 1) (docs/reliability.md).
Hence the mean has variance (1 + (k - 1) r) V / k = 2 V / k, and sites scatter about it with variance (1 - r) V. With
unequal sites the variance of the mean is at most 2 sum_s p_s^2 V_s, and k is 1 / sum_s p_s^2
(`metrics.number_of_sites`).

The confidence distribution of (tau, c) has two parts. Q(tau) = sum_s (A_s - average)^2 / ((1 - r) V_s), the average by
1 / V_s, is chi-squared with one degree of freedom less than there are sites, so P(tau <= t) = P(chi2 >= Q(t)). Given
tau, the score statistic (sum p_s A_s - Phi(c)) / sqrt(2 sum p_s^2 V_s(c, tau)) is N(0, 1). A few sites hardly tell how
much sites differ; what is usual does: P is weighted by exp(-(tau / 0.6)^2 / 2), which lets true AUCs around .75 lie
between .43 and .96 in 95 of 100 sites and rules out hardly more than that. With 4 to 8 sites the interval of the next
site is a quarter narrower by it, with twenty it stays as it is (coverage: docs/reliability.md). The interval of the
mean holds the middle 95 % of Phi(c), the prediction interval the middle 95 % of Phi(c sqrt(1 + tau^2) + tau z).

References
----------
Newcombe (2006), Statistics in Medicine 25(4), 559-573, for score intervals of an AUC; Viechtbauer (2007), Statistics in
Medicine 26(1), 37-52, for Q(tau); Nagashima, Noma and Furukawa (2019), Statistical Methods in Medical Research 28(6),
1689-1702, for prediction from the confidence distribution of tau.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri, owens_t
from scipy.stats import chi2

from brainroam.errors import DataError, listed
from brainroam.evaluation.stats.metrics import (
    MIN_WEIGHT,
    by_site,
    mean_over_sites,
    number_of_sites,
    refuse_infinite,
    site_weights,
)

LEVEL = 0.95
TAILS = (1 - LEVEL) / 2, (1 + LEVEL) / 2
MIN_SITES = 3
MIN_SITES_NEXT = 4
MAX_SE_AT_CHANCE = 0.2  # standard error of the mean at AUC 0.5 beyond which an interval would exclude next to nothing
GRID = np.linspace(-4, 4, 401)  # probit of an AUC
USUAL = 0.6  # tau of sites that differ much
AREAS = np.linspace(0, 1, 401)  # observed AUCs
TAU = np.concatenate([[0.0], np.geomspace(0.05, 4, 30)])  # what lies between two of these counts for the larger


@dataclass(frozen=True)
class Verdict:
    """Mean AUC over sites with its 95 % interval, the 95 % prediction interval of the next site's true AUC, and tau.

    ``tau`` is the standard deviation between sites of the probit of the true AUC, at its median. Limits that the
    data cannot support are NaN, and ``reason`` says why.
    """

    n_sites: int
    mean: float = np.nan
    low: float = np.nan
    high: float = np.nan
    next_low: float = np.nan
    next_high: float = np.nan
    tau: float = np.nan
    reason: str = ""


def verdict(auc: np.ndarray, n_cases: np.ndarray, n_controls: np.ndarray) -> Verdict:
    """Judge one method by its AUCs at left-out sites.

    Parameters
    ----------
    auc, n_cases, n_controls : array-like of shape (k,)
        Per site, seeds averaged. Sites without an AUC, or with one class only, are left out.

    Examples
    --------
    >>> result = verdict([0.6, 0.7, 0.65, 0.8, 0.75], [20] * 5, [20] * 5)
    >>> [round(x, 2) for x in (result.mean, result.low, result.high, result.next_low, result.next_high, result.tau)]
    [0.7, 0.54, 0.82, 0.44, 0.9, 0.13]
    >>> verdict([0.6, 0.7], [20] * 2, [20] * 2).reason
    'no intervals: fewer than 3 sites; two sites predict each other, which is one measurement'
    """
    columns = np.array([auc, n_cases, n_controls], dtype=float)
    a, m, n = columns[:, np.isfinite(columns[0]) & (columns[1:] > 0).all(axis=0)]
    mean, reason = mean_over_sites(a, site_weights(m, n)), refusal(a, m, n)
    if reason:
        return Verdict(len(a), mean, reason=reason)
    low, high, next_low, next_high, tau = limits(a[None], m, n)[:, 0].tolist()
    if len(a) < MIN_SITES_NEXT:
        reason = f"no prediction for the next site: fewer than {MIN_SITES_NEXT} sites do not tell how much sites differ"
        next_low = next_high = tau = np.nan
    return Verdict(len(a), mean, low, high, next_low, next_high, tau, reason)


def next_site(values: ArrayLike | Mapping[str, float], variances: ArrayLike | Mapping[str, float]) -> Verdict:
    """What results of left-out sites, each with its sampling variance, say about the next site: any measure.

    The model of `verdict` on a plain scale: A_s ~ N(mu, v_s + tau^2), with the same allowance for sites that were
    trained on one another, tau from the same Q, and weights 1 / (v_s + tau^2) at its median. Dicts are matched by their
    keys, Series by their index. Sites where either is NaN are left out; fewer than four have no intervals.

    That allowance doubles the variance of the mean, since left-out sites share training data. Studies that were made
    independently of each other share none: this is no meta-analysis of them, and its interval is wider than theirs
    (13 trials of BCG: -1.36 to -0.09, where REML with Hartung and Knapp's correction says -1.11 to -0.32).

    For AUCs `brainroam.evaluation.stats.verdict.verdict` knows more: how their variance depends on the AUC and on
    numbers of people, and that none is above 1.

    Examples
    --------
    >>> found = next_site([0.42, 0.31, 0.55, 0.18, 0.40, 0.36], [0.02, 0.03, 0.02, 0.04, 0.01, 0.02])
    >>> [round(x, 2) for x in (found.mean, found.low, found.high, found.next_low, found.next_high)]
    [0.39, 0.19, 0.6, 0.09, 0.7]
    """
    refuse_infinite(**dict(zip(("values", "variances"), by_site(values=values, variances=variances), strict=True)))
    a, v = _finite(values, variances)
    if len(a) < MIN_SITES_NEXT:
        return Verdict(len(a), mean_over_sites(a, 1 / v), reason=f"no intervals: fewer than {MIN_SITES_NEXT} sites")
    model = _plain_model(a, v)
    variances_of = model.error, model.error + model.tau**2
    half, half_next = (_half_width(model.below, np.sqrt(variance)) for variance in variances_of)
    mean = model.mean
    return Verdict(len(a), mean, mean - half, mean + half, mean - half_next, mean + half_next, model.median_tau)


def next_size(values: ArrayLike, variances: ArrayLike) -> float:
    """How far the true value of the next site is from 0, as a root mean square; NaN of fewer than four sites.

    sqrt(mean^2 + e^2 + tau^2) with tau at its median and e^2 the variance of the mean given it, by the model of
    `next_site`: where sites do not differ, the mean that they share is known no better than to e.

    >>> round(next_size([0.1, -0.1, 0.1, -0.1, 0.1, -0.1], [0.24] * 6), 3)  # e^2 = 2 * 0.24 / 6
    0.283
    """
    a, v = _finite(values, variances)
    if len(a) < MIN_SITES_NEXT:
        return np.nan
    model = _plain_model(a, v)
    tau = model.median_tau
    return float(np.sqrt(model.mean**2 + np.interp(tau, model.tau, model.error) + tau**2))


def observed_next(
    values: ArrayLike, variances: ArrayLike, variance: float, levels: Sequence[float] = (0.8, LEVEL)
) -> tuple[float, list[tuple[float, float]]]:
    """Mean, and an interval of each level for what will be *observed* at the next site with this sampling variance.

    `next_site` is about the true value there. NaN where fewer than four sites say anything.

    >>> mean, (narrow, wide) = observed_next([0.42, 0.31, 0.55, 0.18, 0.4], [0.02, 0.03, 0.02, 0.04, 0.01], 0.02)
    >>> round(mean, 2), [round(x, 2) for x in (*narrow, *wide)]
    (0.4, [0.12, 0.68, -0.12, 0.92])
    """
    a, v = _finite(values, np.maximum(variances, 1e-24))  # 0 where everybody of a site has the same value
    if len(a) < MIN_SITES_NEXT:
        return mean_over_sites(a, 1 / v), [(np.nan, np.nan) for _ in levels]
    model = _plain_model(a, v)
    spread = np.sqrt(model.error + model.tau**2 + variance)
    halves = [_half_width(model.below, spread, level) for level in levels]
    return model.mean, [(model.mean - half, model.mean + half) for half in halves]


def observed_on_line(
    values: ArrayLike,
    variances: ArrayLike,
    variance: float,
    looks: ArrayLike,
    look: float,
    blur: float = 0.0,
    levels: Sequence[float] = (0.8, LEVEL),
) -> tuple[float, list[tuple[float, float]]]:
    """`observed_next` where results follow what sites look like, x, which is known of the next site, too.

    A_s ~ N(mu + b (x_s - mean x), v_s + tau^2): tau from the residuals of the line, by Q with one degree of freedom
    less, and b by least squares with weights 1 / (v_s + tau^2) at its median. The slope is used so far as it is above
    its error,

        f b   with   f = max(0, 1 - var(b) / b^2),   f = 0 where b < 0

    so sites that do not follow the look are foretold as by `observed_next`. ``blur`` is how much more uncertain the
    look of the next site is than those of the others; it adds (f b)^2 times itself.

    >>> z, x = [0.2, 0.41, 0.62, 0.78, 1.01, 1.2], [1, 2, 3, 4, 5, 6]
    >>> mean, (narrow, wide) = observed_on_line(z, [0.02] * 6, 0.02, x, 5.5)
    >>> round(mean, 2), [round(limit, 2) for limit in wide]
    (1.09, [0.72, 1.46])
    >>> [round(limit, 2) for limit in observed_next(z, [0.02] * 6, 0.02)[1][1]]
    [-0.62, 2.03]
    """
    plain = observed_next(values, variances, variance, levels)
    columns = np.array([values, np.maximum(variances, 1e-24), looks], dtype=float)
    a, v, x = columns[:, np.isfinite(columns).all(axis=0)]
    if len(a) <= MIN_SITES_NEXT or np.ptp(x) == 0 or not np.isfinite(look):
        return plain
    k, tau = len(a), _tau_grid(a, v)
    total = v + tau[:, None] ** 2
    level, slope = _line(1 / total, x)
    residual = a - (level @ a)[:, None] - (slope @ a)[:, None] * (x - (level @ x)[:, None])
    below = np.maximum.accumulate(chi2.sf((residual**2 / total).sum(axis=1) * (k - 1) / (k - 2), k - 2))
    below[-1] = 1
    variance_here = v + float(np.interp(0.5, below, tau)) ** 2
    level, slope = _line(1 / variance_here, x)
    b, error = float(slope @ a), float(slope**2 @ variance_here)
    f = max(0.0, 1 - error / b**2) if b > 0 else 0.0
    if f == 0:
        return plain
    share = level + f * (look - level @ x) * slope
    spread = np.sqrt(2 * total @ share**2 + tau**2 + variance + (f * b) ** 2 * blur)
    mean, halves = float(share @ a), [_half_width(below, spread, wanted) for wanted in levels]
    return mean, [(mean - half, mean + half) for half in halves]


def _line(weight: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The coefficients of each value in a weighted mean and in a weighted slope on x, both of shape (..., k)."""
    share = weight / weight.sum(axis=-1, keepdims=True)
    apart = x - (share @ x)[..., None]
    return share, share * apart / (share * apart**2).sum(axis=-1, keepdims=True)


def _finite(values: ArrayLike | Mapping[str, float], variances: ArrayLike | Mapping[str, float]) -> np.ndarray:
    a, v = by_site(values=values, variances=variances)
    measured = np.isfinite(a) & np.isfinite(v)
    if (v <= 0).any():
        raise DataError(f"a sampling variance is above 0; that of result {listed(np.flatnonzero(v <= 0))} is not")
    return np.array([a[measured], v[measured]])


class _PlainModel(NamedTuple):
    """The mean; P(tau <= t) on a grid of t, this grid, and the variance of the mean given each t."""

    mean: float
    below: np.ndarray
    tau: np.ndarray
    error: np.ndarray

    @property
    def median_tau(self) -> float:
        """tau at its median."""
        return float(np.interp(0.5, self.below, self.tau))


def _tau_grid(a: np.ndarray, v: np.ndarray) -> np.ndarray:
    """`TAU` in units of what sites scatter by; a site that was hardly measured does not widen it."""
    usual = np.median(v)
    weight = 1 / (v + usual)
    mean = weight @ a / weight.sum()
    return TAU * np.sqrt(usual + weight @ (a - mean) ** 2 / weight.sum())


def _plain_model(a: np.ndarray, v: np.ndarray) -> _PlainModel:
    k, tau = len(a), _tau_grid(a, v)
    total = v + tau[:, None] ** 2
    centre = (a / total).sum(axis=1) / (1 / total).sum(axis=1)
    q = ((a - centre[:, None]) ** 2 / total).sum(axis=1) * (k - 1) / (k - 2)
    below = np.maximum.accumulate(chi2.sf(q, k - 1))
    below[-1] = 1
    share = 1 / (v + float(np.interp(0.5, below, tau)) ** 2)
    share /= share.sum()
    return _PlainModel(float(share @ a), below, tau, 2 * total @ share**2)


def _half_width(below: np.ndarray, spread: np.ndarray, level: float = LEVEL) -> float:
    """x with the level between -x and x under a mixture of normal distributions around 0."""
    mass = np.diff(below, prepend=0)
    largest = spread.max()
    return float(largest * brentq(lambda x: mass @ ndtr(x * (largest / spread)) - (1 + level) / 2, 0, 10))


def refusal(auc: np.ndarray, n_cases: np.ndarray, n_controls: np.ndarray) -> str:
    """Why no interval is given, or nothing. Numbers of sites and participants decide, not how wide the result is.

    Examples
    --------
    >>> refusal(np.array([0.5, 1.0, 0.5]), np.full(3, 2), np.full(3, 2))
    'no intervals: too few participants; by chance alone the mean AUC of these sites has a standard error of 0.26'
    """
    if len(auc) < MIN_SITES:
        return f"no intervals: fewer than {MIN_SITES} sites; two sites predict each other, which is one measurement"
    if number_of_sites(site_weights(n_cases, n_controls)) < MIN_WEIGHT:
        return f"no intervals: all but one or two of the {len(auc)} sites have too few people to add to what they say"
    if np.all(auc == 0.5):
        return "no intervals: the AUC is exactly 0.5 at every site, as of a score that is the same for everybody"
    error = float(_standard_error(np.zeros(1), np.zeros(1), n_cases, n_controls)[0])
    if error > MAX_SE_AT_CHANCE:
        return (
            "no intervals: too few participants; by chance alone the mean AUC of these sites has a standard error of "
            f"{error:.2f}"
        )
    return ""


def limits(auc: np.ndarray, n_cases: np.ndarray, n_controls: np.ndarray) -> np.ndarray:
    """Intervals of many studies at the same sites.

    Parameters
    ----------
    auc : ndarray of shape (n_studies, k)
    n_cases, n_controls : ndarray of shape (k,)

    Returns
    -------
    ndarray of shape (5, n_studies)
        Low, high, low at the next site, high at the next site, tau.
    """
    given_data, of_mean, of_next = _distributions(auc, n_cases, n_controls)
    low, high = _quantiles(of_mean)
    next_low, next_high = _quantiles(of_next)
    tau = [np.interp(0.5, row, TAU) for row in given_data]
    return np.array([low, high, np.minimum(low, next_low), np.maximum(high, next_high), tau])


def _distributions(
    auc: np.ndarray, n_cases: np.ndarray, n_controls: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """P(tau <= t) on `TAU`; on `GRID`, distributions of the probit of the mean and of the next site's true AUC."""
    mass = np.diff(tau_distribution(auc, n_cases, n_controls), axis=-1, prepend=0) * np.exp(-((TAU / USUAL) ** 2) / 2)
    mass /= mass.sum(axis=-1, keepdims=True)
    error = _standard_error(GRID, TAU[:, None], n_cases, n_controls)
    mean = auc @ _shares(n_cases, n_controls)
    given_tau = ndtr((ndtr(GRID) - mean[:, None, None]) / error)
    of_mean = np.einsum("st,stc->sc", mass, given_tau)
    joint = mass[:, :, None] * np.diff(given_tau, axis=-1, prepend=0)
    return np.cumsum(mass, axis=-1), of_mean, np.tensordot(joint, _next_given_tau(), axes=2)


def p_of_chance(auc: np.ndarray, n_cases: np.ndarray, n_controls: np.ndarray) -> float:
    """Two-sided p of a mean AUC of one half, by the model of `verdict`; NaN where that gives no interval.

    >>> round(p_of_chance(np.full(8, 0.62), np.full(8, 20), np.full(8, 20)), 3)
    0.009
    """
    columns = np.array([auc, n_cases, n_controls], dtype=float)
    a, m, n = columns[:, np.isfinite(columns[0]) & (columns[1:] > 0).all(axis=0)]
    if refusal(a, m, n):
        return float("nan")
    below = float(np.interp(0.0, GRID, _distributions(a[None], m, n)[1][0]))
    return 2 * min(below, 1 - below)


def observed_auc(
    auc: ArrayLike,
    n_cases: ArrayLike,
    n_controls: ArrayLike,
    m: float,
    n: float,
    levels: Sequence[float] = (0.8, LEVEL),
    kept: float = 1.0,
) -> list[tuple[float, float]]:
    """Intervals for the AUC that will be *observed* at a next site with m cases and n controls.

    The true AUC A there has the distribution of the prediction interval of `verdict`; given A, the observed AUC is
    normal about A with the variance V(probit A, 0) of m and n people. ``kept`` is the share of the probit of A that is
    left where scores are noisier than in training (`brainroam.evaluation.pipelines`). NaN where `verdict` gives none.

    >>> narrow, wide = observed_auc([0.6, 0.7, 0.65, 0.8, 0.75], [20] * 5, [20] * 5, 20, 20)
    >>> [round(x, 2) for x in (*narrow, *wide)]
    [0.53, 0.86, 0.4, 0.93]
    """
    columns = np.array([auc, n_cases, n_controls], dtype=float)
    a, cases, controls = columns[:, np.isfinite(columns[0])]
    if len(a) < MIN_SITES_NEXT or refusal(a, cases, controls) or min(m, n) <= 0:
        return [(np.nan, np.nan) for _ in levels]
    mass, probit = _next_mass(*(tuple(x.tolist()) for x in (a, cases, controls))), kept * np.append(GRID, GRID[-1])
    spread = np.sqrt(auc_variance(probit, 0.0, np.array(m), np.array(n)))
    below = ndtr((AREAS[:, None] - ndtr(probit)) / spread) @ mass
    tails = np.array([((1 - level) / 2, (1 + level) / 2) for level in levels])
    ends = np.interp(tails, below, AREAS, left=0, right=1)
    return [(float(low), float(high)) for low, high in ends]


def tau_distribution(auc: np.ndarray, n_cases: np.ndarray, n_controls: np.ndarray) -> np.ndarray:
    """P(tau <= t) for each t of `TAU`, shape (n_studies, n_tau); 1 at the last."""
    k = number_of_sites(site_weights(n_cases, n_controls))
    centre = np.clip(ndtri(auc @ _shares(n_cases, n_controls)), GRID[0], GRID[-1])
    weight = 1 / ((k - 2) / (k - 1) * auc_variance(centre[:, None, None], TAU[:, None], n_cases, n_controls))
    a = auc[:, None, :]
    mean = (weight * a).sum(axis=-1, keepdims=True) / weight.sum(axis=-1, keepdims=True)
    q = (weight * (a - mean) ** 2).sum(axis=-1)
    below = np.maximum.accumulate(chi2.sf(q, auc.shape[-1] - 1), axis=-1)
    below[:, -1] = 1
    return below


def auc_variance(
    c: float | np.ndarray, tau: float | np.ndarray, n_cases: np.ndarray, n_controls: np.ndarray
) -> np.ndarray:
    """V(c, tau): variance of the AUC of a site, sampling and differences between sites together.

    Examples
    --------
    >>> round(float(auc_variance(0.0, 0.0, 20, 20)), 6), round((20 + 20 + 1) / (12 * 20 * 20), 6)
    (0.008542, 0.008542)
    """
    m, n, tau2 = np.asarray(n_cases, dtype=float), np.asarray(n_controls, dtype=float), np.square(tau)
    one, none = _covariance(c, (tau2 + 0.5) / (tau2 + 1)), _covariance(c, tau2 / (tau2 + 1))
    return (_covariance(c, 1.0) + (m + n - 2) * one + (m - 1) * (n - 1) * none) / (m * n)


def site_intervals(auc: np.ndarray, n_cases: np.ndarray, n_controls: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """95 % score interval of the true AUC of each site by itself, corrected for continuity by half a pair::

        |A - Phi(c)| - 1 / (2 m n) <= 1.96 sqrt(U(c)),   U = [ V(c, 0) + Phi(c) (1 - Phi(c)) / min(m, n) ] / 2

    One site does not show the shape of its scores: V(c, 0) is the variance if both classes are normal with the same
    spread, Phi(c) (1 - Phi(c)) / min(m, n) the largest of any scores (Birnbaum and Klose, 1957), U lies midway. It
    covers 92 % or more where half of the cases are certain or spreads differ threefold (docs/reliability.md).

    Examples
    --------
    >>> low, high = site_intervals(np.array([0.7, 1.0]), np.array([20, 20]), np.array([20, 20]))
    >>> low.round(2).tolist(), high.round(2).tolist()
    ([0.5, 0.87], [0.84, 1.0])
    """
    a, m, n = (np.asarray(x, dtype=float)[:, None] for x in (auc, n_cases, n_controls))
    mean, half_pair = ndtr(GRID), 0.5 / (m * n)
    error = np.sqrt((auc_variance(GRID, 0.0, m, n) + mean * (1 - mean) / np.minimum(m, n)) / 2)
    low, _ = _quantiles(ndtr((mean - a + half_pair) / error))
    _, high = _quantiles(ndtr((mean - a - half_pair) / error))
    return low, high


def _covariance(c: float | np.ndarray, rho: float | np.ndarray) -> np.ndarray:
    """C(rho), held above rounding error; exactly 0 for rho = 0."""
    p = ndtr(c)
    joint = p * (1 - p) - 2 * owens_t(c, np.sqrt((1 - rho) / (1 + np.asarray(rho))))
    return np.where(np.asarray(rho) > 0, np.maximum(joint, 1e-12), 0)


def _standard_error(c: np.ndarray, tau: np.ndarray, n_cases: np.ndarray, n_controls: np.ndarray) -> np.ndarray:
    """sqrt(2 sum p^2 V) over the sites."""
    variance = auc_variance(c[..., None], tau[..., None], n_cases, n_controls)
    return np.sqrt(2 * variance @ _shares(n_cases, n_controls) ** 2)


def _shares(n_cases: np.ndarray, n_controls: np.ndarray) -> np.ndarray:
    weights = site_weights(n_cases, n_controls)
    return weights / weights.sum()


@lru_cache(maxsize=4)
def _next_mass(auc: tuple[float, ...], n_cases: tuple[float, ...], n_controls: tuple[float, ...]) -> np.ndarray:
    """Probability of the probit of the next site's AUC between points of `GRID`, the same for each of several sites."""
    of_next = _distributions(np.array([auc]), np.array(n_cases), np.array(n_controls))[2][0]
    return np.diff(of_next, prepend=0, append=1)  # what lies beyond the grid is at its ends


@cache
def _next_given_tau() -> np.ndarray:
    """P(probit of the next site's AUC <= x | tau, c), shape (n_tau, n_grid of c, n_grid of x); c in mid-interval."""
    tau, middle = TAU[1:, None, None], GRID[:, None] - (GRID[1] - GRID[0]) / 2
    smooth = ndtr((GRID - middle * np.sqrt(1 + tau**2)) / tau)
    return np.concatenate([(GRID[:, None] <= GRID)[None], smooth])


def _quantiles(below: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """AUCs at `TAILS` of distributions on the grid; 0 and 1 where a tail lies beyond it."""
    ends = np.array([np.interp(TAILS, row, ndtr(GRID), left=0, right=1) for row in below]).reshape(-1, 2)
    return ends[:, 0], ends[:, 1]
