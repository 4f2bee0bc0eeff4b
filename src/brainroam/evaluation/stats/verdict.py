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
tau, the score statistic (sum p_s A_s - Phi(c)) / sqrt(2 sum p_s^2 V_s(c, tau)) is N(0, 1). The interval of the mean
holds the middle 95 % of Phi(c), the prediction interval the middle 95 % of Phi(c sqrt(1 + tau^2) + tau z).

References
----------
Newcombe (2006), Statistics in Medicine 25(4), 559-573, for score intervals of an AUC; Viechtbauer (2007), Statistics in
Medicine 26(1), 37-52, for Q(tau); Nagashima, Noma and Furukawa (2019), Statistical Methods in Medical Research 28(6),
1689-1702, for prediction from the confidence distribution of tau.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri, owens_t
from scipy.stats import chi2

from brainroam.evaluation.stats.metrics import MIN_WEIGHT, mean_over_sites, number_of_sites, site_weights

LEVEL = 0.95
TAILS = (1 - LEVEL) / 2, (1 + LEVEL) / 2
MIN_SITES = 3
MIN_SITES_NEXT = 4
MAX_SE_AT_CHANCE = 0.2  # standard error of the mean at AUC 0.5 beyond which an interval would exclude next to nothing
GRID = np.linspace(-4, 4, 401)  # probit of an AUC
TAU = np.concatenate([[0.0], np.geomspace(0.05, 4, 30)])  # what lies between two of these counts for the larger


@dataclass(frozen=True)
class Verdict:
    """Mean AUC over sites with its 95 % interval, the 95 % prediction interval of the next site's true AUC, and tau.

    ``tau`` is the standard deviation between sites of the probit of the true AUC (median-unbiased). Limits that the
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
        Per site, seeds averaged. Sites whose AUC is NaN (one class only) are left out.

    Examples
    --------
    >>> result = verdict([0.6, 0.7, 0.65, 0.8, 0.75], [20] * 5, [20] * 5)
    >>> [round(x, 2) for x in (result.mean, result.low, result.high, result.next_low, result.next_high, result.tau)]
    [0.7, 0.51, 0.83, 0.37, 0.94, 0.16]
    >>> verdict([0.6, 0.7], [20] * 2, [20] * 2).reason
    'no intervals: fewer than 3 sites; two sites predict each other, which is one measurement'
    """
    columns = np.array([auc, n_cases, n_controls], dtype=float)
    a, m, n = columns[:, np.isfinite(columns[0])]
    mean, reason = mean_over_sites(a, site_weights(m, n)), refusal(a, m, n)
    if reason:
        return Verdict(len(a), mean, reason=reason)
    low, high, next_low, next_high, tau = limits(a[None], m, n)[:, 0].tolist()
    if len(a) < MIN_SITES_NEXT:
        reason = f"no prediction for the next site: fewer than {MIN_SITES_NEXT} sites do not tell how much sites differ"
        next_low = next_high = tau = np.nan
    return Verdict(len(a), mean, low, high, next_low, next_high, tau, reason)


def next_site(values: ArrayLike, variances: ArrayLike) -> Verdict:
    """What results of left-out sites, each with its sampling variance, say about the next site: any measure.

    The model of `verdict` on a plain scale: A_s ~ N(mu, v_s + tau^2), with the same allowance for sites that were
    trained on one another, tau from the same Q, and weights 1 / (v_s + tau^2) at its median. For AUCs `verdict` knows
    more: how their variance depends on the AUC and on numbers of people.

    Examples
    --------
    >>> found = next_site([0.42, 0.31, 0.55, 0.18, 0.40, 0.36], [0.02, 0.03, 0.02, 0.04, 0.01, 0.02])
    >>> [round(x, 2) for x in (found.mean, found.low, found.high, found.next_low, found.next_high)]
    [0.39, 0.19, 0.6, 0.09, 0.7]
    """
    pairs = np.array([values, variances], dtype=float)
    a, v = pairs[:, np.isfinite(pairs).all(axis=0)]
    if len(a) < MIN_SITES_NEXT:
        return Verdict(len(a), mean_over_sites(a, 1 / v), reason=f"no intervals: fewer than {MIN_SITES_NEXT} sites")
    k, tau = len(a), TAU * np.sqrt(v.mean() + a.var())
    total = v + tau[:, None] ** 2
    centre = (a / total).sum(axis=1) / (1 / total).sum(axis=1)
    q = ((a - centre[:, None]) ** 2 / total).sum(axis=1) * (k - 1) / (k - 2)
    below = np.maximum.accumulate(chi2.sf(q, k - 1))
    below[-1] = 1
    middle = float(np.interp(0.5, below, tau))
    share = 1 / (v + middle**2)
    share /= share.sum()
    error = 2 * total @ share**2
    mean = float(share @ a)
    half, half_next = (_half_width(np.diff(below, prepend=0), np.sqrt(x)) for x in (error, error + tau**2))
    return Verdict(k, mean, mean - half, mean + half, mean - half_next, mean + half_next, middle)


def _half_width(mass: np.ndarray, spread: np.ndarray) -> float:
    """x with 95 % between -x and x under a mixture of normal distributions around 0."""
    return float(brentq(lambda x: mass @ ndtr(x / spread) - TAILS[1], 0, 10 * spread.max()))


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
    given_data = tau_distribution(auc, n_cases, n_controls)
    mass = np.diff(given_data, axis=-1, prepend=0)
    error = _standard_error(GRID, TAU[:, None], n_cases, n_controls)
    mean = auc @ _shares(n_cases, n_controls)
    given_tau = ndtr((ndtr(GRID) - mean[:, None, None]) / error)
    of_mean = np.einsum("st,stc->sc", mass, given_tau)
    joint = mass[:, :, None] * np.diff(given_tau, axis=-1, prepend=0)
    of_next = np.tensordot(joint, _next_given_tau(), axes=2)
    low, high = _quantiles(of_mean)
    next_low, next_high = _quantiles(of_next)
    tau = [np.interp(0.5, row, TAU) for row in given_data]
    return np.array([low, high, np.minimum(low, next_low), np.maximum(high, next_high), tau])


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


@cache
def _next_given_tau() -> np.ndarray:
    """P(probit of the next site's AUC <= x | tau, c), shape (n_tau, n_grid of c, n_grid of x); c in mid-interval."""
    tau, middle = TAU[1:, None, None], GRID[:, None] - (GRID[1] - GRID[0]) / 2
    smooth = ndtr((GRID - middle * np.sqrt(1 + tau**2)) / tau)
    return np.concatenate([(GRID[:, None] <= GRID)[None], smooth])


def _quantiles(below: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """AUCs at `TAILS` of distributions on the grid; 0 and 1 where a tail lies beyond it."""
    found = np.array([np.interp(TAILS, row, ndtr(GRID), left=0, right=1) for row in below]).reshape(-1, 2)
    return found[:, 0], found[:, 1]
