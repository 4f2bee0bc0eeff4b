"""From the sites at hand to the next one: random-effects meta-analysis of the logit AUC.

Site i has logit AUC y_i with sampling variance v_i. The model is y_i ~ N(theta_i, v_i), theta_i ~ N(mu, tau^2):
sites differ for good reasons (tau), and each is measured with error (v_i). With w_i = 1 / (v_i + tau^2)::

    mu(tau^2) = sum w_i y_i / sum w_i
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import expit, logit, ndtr
from scipy.stats import chi2, t

LEVEL = 0.95


@dataclass(frozen=True)
class Pooled:
    """A pooled estimate, its interval, and the interval in which the next site is expected."""

    estimate: float
    low: float
    high: float
    next_low: float
    next_high: float
    tau: float
    n_sites: int


UNKNOWN = Pooled(np.nan, np.nan, np.nan, np.nan, np.nan, np.nan, 0)


def pool(effect: np.ndarray, variance: np.ndarray) -> Pooled:
    """Pool effects by REML with a Hartung-Knapp interval and a prediction interval.

    The Hartung-Knapp interval of the mean is ``mu +- t(k - 1) * sqrt(q / sum w)`` with
    ``q = sum w_i (y_i - mu)^2 / (k - 1)``. The prediction interval is that of `predict_next`.

    Parameters
    ----------
    effect, variance : ndarray of shape (k,)
        One finite effect and one positive sampling variance per site. One site alone has no intervals: NaN.

    References
    ----------
    Knapp and Hartung (2003), Statistics in Medicine 22(17), 2693-2710.

    Examples
    --------
    >>> result = pool(np.array([0.2, 0.9, 0.5, 1.4]), np.full(4, 0.05))
    >>> round(result.estimate, 3), round(result.tau, 3), round(result.low, 3), round(result.high, 3)
    (0.75, 0.469, -0.077, 1.577)
    """
    y, v = np.asarray(effect, dtype=float), np.asarray(variance, dtype=float)
    k = len(y)
    if k < 2:
        return replace(UNKNOWN, estimate=float(y[0]), n_sites=1) if k else UNKNOWN
    tau2 = tau2_reml(y, v)
    mu, precision, q = _weighted(y, v, tau2)
    half = t.ppf((1 + LEVEL) / 2, k - 1) * np.sqrt(q / (k - 1) / precision)
    return Pooled(float(mu), float(mu - half), float(mu + half), *predict_next(y, v), tau2**0.5, k)


def tau2_reml(effect: np.ndarray, variance: np.ndarray) -> float:
    """Between-site variance that maximises the restricted likelihood::

        2 log L(tau^2) = sum log w_i - log sum w_i - sum w_i (y_i - mu)^2

    With few sites of very different precision L can have two peaks, one of them at zero, so the best point of a grid
    is found first and refined within its neighbours.

    Examples
    --------
    >>> round(tau2_reml(np.array([0.2, 0.9, 0.5, 1.4]), np.full(4, 0.05)), 4)
    0.22
    """
    y, v = np.asarray(effect, dtype=float), np.asarray(variance, dtype=float)

    def likelihood(tau2: float | np.ndarray) -> np.ndarray:
        _, precision, q = _weighted(y, v, tau2)
        return -np.log(v + np.asarray(tau2)[..., None]).sum(axis=-1) - np.log(precision) - q

    grid = _grid(y, v)
    best = int(np.argmax(likelihood(grid)))
    around = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
    peak = minimize_scalar(lambda x: -likelihood(x), bounds=around, method="bounded", options={"xatol": 1e-10}).x
    return float(peak) if likelihood(peak) > likelihood(0.0) else 0.0


def predict_next(effect: np.ndarray, variance: np.ndarray) -> tuple[float, float]:
    """95 % prediction interval for the true effect at the next site.

    Given tau^2, the next effect is N(mu(tau^2), tau^2 + 1 / sum w). tau^2 is not given, and with ten small sites it is
    barely known: the textbook ``mu +- t(k - 2) sqrt(tau^2 + se^2)`` takes the REML estimate at its word, which is often
    zero, and covers 84 % instead of 95 % (tests/evaluation/coverage_study.py). So average over what the data say about
    tau^2, its confidence distribution: Q(tau^2) = sum w_i (y_i - mu)^2 is chi-squared with k - 1 degrees of freedom at
    the true tau^2, hence every quantile u of that distribution names the tau^2 that solves Q(tau^2) = u (zero when
    Q(0) < u). The limits are the quantiles of the resulting mixture of normals.

    References
    ----------
    Nagashima, Noma and Furukawa (2019), Statistical Methods in Medical Research 28(6), 1689-1702, for prediction from
    the confidence distribution of tau^2; Viechtbauer (2007), Statistics in Medicine 26(1), 37-52, for Q(tau^2).

    Examples
    --------
    >>> low, high = predict_next(np.array([0.2, 0.9, 0.5, 1.4]), np.full(4, 0.05))
    >>> round(low, 2), round(high, 2)
    (-1.06, 2.56)
    """
    y, v = np.asarray(effect, dtype=float), np.asarray(variance, dtype=float)
    grid = _grid(y, v)
    q = _weighted(y, v, grid)[2]
    share = (np.arange(200) + 0.5) / 200
    tau2 = np.interp(chi2.ppf(share, len(y) - 1), q[::-1], grid[::-1])  # Q falls as tau^2 grows
    mu, precision, _ = _weighted(y, v, tau2)
    sd = np.sqrt(tau2 + 1 / precision)

    def quantile(p: float) -> float:
        reach = 10 * sd.max()
        return float(brentq(lambda x: ndtr((x - mu) / sd).mean() - p, mu.min() - reach, mu.max() + reach))

    return quantile((1 - LEVEL) / 2), quantile((1 + LEVEL) / 2)


def logit_auc(
    auc: np.ndarray, variance: np.ndarray, n_cases: np.ndarray, n_controls: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Site AUCs and their variances on the logit scale.

    By the delta method ``var(logit A) = var(A) / (A (1 - A))^2``. Two corrections, for small sites only:

    * an AUC of 0 or 1 is held half a case-control pair away: ``A in [c, 1 - c]``, ``c = 1 / (2 m n + 2)``;
    * where DeLong's variance is zero (separated classes, or everybody scored alike) or unknown (one person in a
      class), Hanley and McNeil's variance at that AUC takes its place.

    References
    ----------
    Hanley and McNeil (1982), Radiology 143(1), 29-36.

    Examples
    --------
    >>> effect, spread = logit_auc(np.array([0.5, 1.0]), np.array([0.01, 0.0]), np.array([9, 9]), np.array([9, 9]))
    >>> effect.round(2).tolist(), spread.round(2).tolist()
    ([0.0, 5.09], [0.16, 10.26])
    """
    m, n = np.asarray(n_cases, dtype=float), np.asarray(n_controls, dtype=float)
    half_pair = 0.5 / (m * n + 1)
    a = np.clip(auc, half_pair, 1 - half_pair)
    v = np.where(np.asarray(variance) > 0, variance, _hanley_mcneil(a, m, n))
    return logit(a), v / (a * (1 - a)) ** 2


def pool_auc(auc: np.ndarray, variance: np.ndarray, n_cases: np.ndarray, n_controls: np.ndarray) -> Pooled:
    """Pool site AUCs on the logit scale, see `logit_auc`, and come back; ``tau`` stays on the logit scale.

    Left-out sites are not independent: the model for site A learned from site B and that for B from A, so what the two
    happen to have in common counts in both. With d_e the difference of class means at site e and a model that sums
    those, the AUC of A follows ``d_A' sum_{B != A} d_B``: every product d_A'd_B occurs twice, and where labels mean
    nothing two sites correlate by rho = 1 / (k - 1). The variance of the mean of k units that correlate by rho is
    ``1 + k rho / (1 - rho) = 1 + k / (k - 2)`` times what their scatter says, as Nadeau and Bengio found for folds;
    the interval of the mean is widened by its root. Without that it covers about 83 % instead of 95 %
    (tests/evaluation/permuted_study.py and coverage_study.py). Two sites are one measurement and have no interval.

    Parameters
    ----------
    auc, variance, n_cases, n_controls : ndarray of shape (k,)
        Per site; a site whose AUC is NaN (one class only) is left out.

    Examples
    --------
    >>> result = pool_auc(np.array([0.6, 0.7, 0.65, 1.0]), np.array([0.005, 0.004, 0.006, 0.0]), [20] * 4, [20] * 4)
    >>> round(result.estimate, 3), 0 < result.next_low < result.next_high < 1
    (0.652, True)
    """
    columns = np.array([auc, variance, n_cases, n_controls], dtype=float)
    a, v, m, n = columns[:, np.isfinite(columns[0])]
    if len(a) and np.all((a == 0.5) & (v == 0)):
        # A constant score has this AUC at every site there is or will be: there is nothing to estimate.
        return Pooled(0.5, 0.5, 0.5, 0.5, 0.5, 0.0, len(a))
    x = pool(*logit_auc(a, v, m, n))
    widened = np.sqrt(1 + len(a) / (len(a) - 2)) if len(a) > 2 else np.nan
    low, high = x.estimate + widened * (np.array([x.low, x.high]) - x.estimate)
    estimate, low, high, next_low, next_high = expit([x.estimate, low, high, x.next_low, x.next_high]).tolist()
    return Pooled(estimate, low, high, next_low, next_high, x.tau, x.n_sites)


def _grid(y: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Zero, and eight decades of tau^2 around the scale of the data."""
    return np.concatenate([[0.0], np.geomspace(1e-4, 1e4, 400) * (y.var() + v.max())])


def _weighted(y: np.ndarray, v: np.ndarray, tau2: float | np.ndarray) -> tuple:
    """mu(tau^2), sum w and Q(tau^2), for one tau^2 or many."""
    w = 1 / (v + np.asarray(tau2)[..., None])
    precision = w.sum(axis=-1)
    mu = (w * y).sum(axis=-1) / precision
    return mu, precision, (w * (y - mu[..., None]) ** 2).sum(axis=-1)


def _hanley_mcneil(a: np.ndarray, m: np.ndarray, n: np.ndarray) -> np.ndarray:
    """[A(1 - A) + (m - 1)(A / (2 - A) - A^2) + (n - 1)(2 A^2 / (1 + A) - A^2)] / (m n)."""
    two_cases, two_controls = a / (2 - a), 2 * a**2 / (1 + a)
    return (a * (1 - a) + (m - 1) * (two_cases - a**2) + (n - 1) * (two_controls - a**2)) / (m * n)
