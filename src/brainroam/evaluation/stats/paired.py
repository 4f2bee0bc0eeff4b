"""Tests and intervals for paired differences: sites for the next site, folds for new people at known sites."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import t

EXACT_UP_TO = 13  # sites: 2^13 sign patterns are enumerated, beyond that they are drawn
N_DRAWN = 20_000
LEVEL = 0.95


class CorrectedT(NamedTuple):
    """Mean of fold results, its interval and two-sided test against zero."""

    mean: float
    low: float
    high: float
    t: float
    p: float


def sign_flip_test(differences: np.ndarray, random_state: int = 0) -> float:
    """Two-sided p of the mean difference if every site's sign were a coin toss.

    The share of sign patterns s with ``|mean(s * d)| >= |mean(d)|``: all 2^E of them up to 13 sites, beyond that
    20 000 drawn ones and the observed one. Assumes only that a site's difference is symmetric about zero when neither
    method is better.

    Examples
    --------
    >>> sign_flip_test(np.array([0.02, 0.01, 0.03, 0.02]))
    0.125
    """
    d = np.asarray(differences, dtype=float)
    if len(d) == 0:
        return float("nan")
    if len(d) <= EXACT_UP_TO:
        bits = np.arange(2 ** len(d))[:, None] >> np.arange(len(d)) & 1
        drawn = 0
    else:
        bits = np.random.default_rng(random_state).integers(2, size=(N_DRAWN, len(d)))
        drawn = 1  # the observed pattern belongs to the reference set: a drawn p is never zero
    # Patterns that tie with the observed one up to rounding must count.
    reached = np.abs((1 - 2 * bits) @ d) >= abs(d.sum()) - 1e-12 * np.abs(d).sum()
    return float((reached.sum() + drawn) / (len(bits) + drawn))


def left_out_test(differences: np.ndarray, random_state: int = 0) -> float:
    """Two-sided p of the mean difference of two methods over k left-out sites: the larger p of two tests.

    The sign-flip test assumes no distribution, but that sites are independent. Left-out sites are not: each was trained
    on the others, and results at two of them correlate by about rho = 1 / (k - 1), see `meta.pool_auc`. Where neither
    method is better it alone rejects up to 18 % at the 5 % level. With s^2 the variance between sites,

        var(mean) = s^2 (1 + (k - 1) rho) / (k (1 - rho)) = s^2 (1 / k + 1 / (k - 2)),

    which is Nadeau and Bengio's corrected t with 1 / (k - 2) for the ratio of test to training people. Measured levels:
    tests/evaluation/coverage_study.py. Fewer than three sites decide nothing: 1.

    Examples
    --------
    >>> won_everywhere = np.array([0.02, 0.09, 0.01, 0.08, 0.03, 0.01, 0.06, 0.02])
    >>> round(sign_flip_test(won_everywhere), 4), round(left_out_test(won_everywhere), 4)
    (0.0078, 0.0542)
    """
    k = len(differences)
    if k == 0:
        return float("nan")
    if k < 3:
        return 1.0
    return max(sign_flip_test(differences, random_state), nadeau_bengio(differences, 1 / (k - 2)).p)


def smallest_p(n_sites: int) -> float:
    """The smallest two-sided p of the sign-flip test, and so of `left_out_test`: when one method wins everywhere.

    Examples
    --------
    >>> round(smallest_p(10), 5)
    0.00195
    """
    exact = 2.0 ** (1 - n_sites)
    return exact if n_sites <= EXACT_UP_TO else max(exact, 1 / (N_DRAWN + 1))


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


def nadeau_bengio(values: np.ndarray, test_over_train: float) -> CorrectedT:
    """Student t over the J folds of a (repeated) k-fold, corrected for the training people the folds share.

    ``t = mean / sqrt((1 / J + n_test / n_train) * var)`` with J - 1 degrees of freedom.

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
    mean, se = d.mean(), np.sqrt((1 / len(d) + test_over_train) * d.var(ddof=1))
    statistic = mean / se if se > 0 else np.sign(mean) * np.inf if mean else 0.0
    half = t.ppf((1 + LEVEL) / 2, len(d) - 1) * se
    p = 2 * t.sf(abs(statistic), len(d) - 1)
    return CorrectedT(float(mean), float(mean - half), float(mean + half), float(statistic), float(p))


def kernel(label: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """K_ij = 1 if case i scores above control j, 1/2 if equal, else 0, averaged over the seeds.

    Parameters
    ----------
    label : ndarray of shape (N,)
    scores : ndarray of shape (n_seeds, N)

    Returns
    -------
    ndarray of shape (n_cases, n_controls)
        Its mean is the AUC averaged over the seeds.

    Examples
    --------
    >>> kernel(np.array([1, 1, 0, 0]), np.array([[3.0, 1.0, 2.0, 1.0]]))
    array([[1. , 1. ],
           [0. , 0.5]])
    """
    is_case = np.asarray(label) == 1
    gaps = (s[is_case][:, None] - s[~is_case] for s in np.atleast_2d(scores))
    return np.mean([(np.sign(gap) + 1) / 2 for gap in gaps], axis=0)


def resampled_aucs(kernels: np.ndarray, n_draws: int, rng: np.random.Generator) -> np.ndarray:
    """AUCs of several methods after drawing the people of one site with replacement, within each class.

    A person drawn w times counts w times, so with multinomial counts the AUC of a resample is ``w' K u / (m n)``.

    Parameters
    ----------
    kernels : ndarray of shape (n_methods, n_cases, n_controls)
    n_draws : int
    rng : numpy Generator

    Returns
    -------
    ndarray of shape (n_draws, n_methods)
        In each row all methods see the same people.

    Examples
    --------
    >>> perfect = np.ones((1, 5, 4))
    >>> resampled_aucs(perfect, 2, np.random.default_rng(0)).tolist()
    [[1.0], [1.0]]
    """
    _, m, n = kernels.shape
    w = rng.multinomial(m, np.full(m, 1 / m), size=n_draws)
    u = rng.multinomial(n, np.full(n, 1 / n), size=n_draws)
    return np.stack([((w @ k) * u).sum(axis=1) for k in kernels], axis=1) / (m * n)


def two_level_bootstrap(kernels: Sequence[np.ndarray], n_boot: int = 2000, random_state: int = 0) -> np.ndarray:
    """Draw sites with replacement, and in every drawn site its people within class.

    Parameters
    ----------
    kernels : sequence of ndarray of shape (n_methods, n_cases, n_controls)
        One per site.

    Returns
    -------
    ndarray of shape (n_boot, n_sites, n_methods)
        The AUC of every method at every drawn site; averaging over axis 1 gives the mean AUC of a replicate.

    Examples
    --------
    >>> two_level_bootstrap([np.ones((2, 5, 4)), np.zeros((2, 3, 3))], n_boot=100).shape
    (100, 2, 2)
    """
    rng = np.random.default_rng(random_state)
    drawn = rng.integers(len(kernels), size=(n_boot, len(kernels)))
    aucs = np.empty((*drawn.shape, len(kernels[0])))
    for site, of_site in enumerate(kernels):
        here = drawn == site
        aucs[here] = resampled_aucs(of_site, int(here.sum()), rng)
    return aucs


def bootstrap_limits(resampled: np.ndarray, k: int) -> tuple[float, float]:
    """95 % limits of the mean over k sites from the drawn sites (n_boot, E) of `two_level_bootstrap`.

    Of the E sites k have a result; a drawn one that has none is NaN.

    The percentiles, moved away from the mean by ``sqrt(k / (k - 2))``. Sites drawn with replacement scatter too little
    by (k - 1) / k, as every bootstrap of few units does; and as each site's model was trained on the other sites, AUCs
    of two sites correlate by about rho = 1 / (k - 1), see `meta.pool_auc`, so that they scatter too little among
    themselves by 1 - rho = (k - 2) / (k - 1). Measured coverage: tests/evaluation/coverage_study.py. Two sites are one
    measurement, each being predicted from the other: NaN.

    Examples
    --------
    >>> low, high = bootstrap_limits(np.random.default_rng(0).normal(size=(2000, 25)), 25)
    >>> round(low, 1), round(high, 1)
    (-0.4, 0.4)
    """
    if k < 3:
        return np.nan, np.nan
    known = np.isfinite(resampled)
    count = known.sum(axis=1)
    means = np.where(known, resampled, 0).sum(axis=1)[count > 0] / count[count > 0]
    centre = means.mean()
    low, high = centre + np.sqrt(k / (k - 2)) * (np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]) - centre)
    return float(low), float(high)
