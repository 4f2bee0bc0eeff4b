"""How well a score orders people, within sites.

Two classes: m cases with scores x_i, n controls with scores y_j, and the kernel K_ij = 1 if x_i > y_j, 1/2 if
x_i = y_j, else 0. The AUC is the mean of K; of several classes, its mean over each class against the rest. Of a number
it is the correlation of the score with t.
"""

import numpy as np
from scipy.stats import rankdata

from brainroam.errors import DataError

LEAST = 4  # people with a value: fewer have no correlation to speak of, and Fisher's z has a variance from 4 on
EPS = 1e-12


def aucs(label: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """AUC of each of several scores of the same people, from midranks R among everybody.

    ``AUC = (sum of R over cases - m (m + 1) / 2) / (m n)``; NaN when a class is absent.

    Parameters
    ----------
    label : ndarray of shape (N,)
        1 for cases, 0 for controls.
    scores : ndarray of shape (..., N)

    Examples
    --------
    >>> aucs(np.array([1, 1, 0, 0]), np.array([[3.0, 1.0, 2.0, 1.0], [2.0, 2.0, 1.0, 1.0]]))
    array([0.625, 1.   ])
    """
    scores, is_case = np.asarray(scores, dtype=float), np.asarray(label) == 1
    if not np.isfinite(scores).all():
        raise DataError(f"{int((~np.isfinite(scores)).sum())} scores are not finite; they cannot be ranked")
    m, n = int(is_case.sum()), int((~is_case).sum())
    if m * n == 0:
        return np.full(scores.shape[:-1], np.nan)
    return (rankdata(scores, axis=-1)[..., is_case].sum(axis=-1) - m * (m + 1) / 2) / (m * n)


def auc(label: np.ndarray, score: np.ndarray) -> float:
    """Probability that a case scores higher than a control, ties counting half; NaN when a class is absent.

    Examples
    --------
    >>> auc(np.array([1, 1, 0, 0]), np.array([3.0, 1.0, 2.0, 1.0]))
    0.625
    """
    return float(aucs(label, score))


def class_aucs(code: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """AUC (..., K) of the score of each class against everybody else; NaN for a class that nobody or everybody has.

    Parameters
    ----------
    code : ndarray of shape (N,)
        The class of each person, 0 to K - 1.
    scores : ndarray of shape (..., N, K)

    Examples
    --------
    >>> class_aucs(np.array([0, 1, 1]), np.array([[3.0, 1, 0], [2, 2, 0], [4, 3, 0]]))
    array([0.5, 1. , nan])
    """
    return np.stack([aucs(code == k, scores[..., k]) for k in range(scores.shape[-1])], axis=-1)


def macro_auc(code: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Mean of `class_aucs` over the classes that some but not all people have; NaN where there are none."""
    aucs_of = class_aucs(code, scores)
    known = np.isfinite(aucs_of)
    with np.errstate(invalid="ignore"):
        return np.where(known, aucs_of, 0).sum(axis=-1) / known.sum(axis=-1)


def placements(label: np.ndarray, score: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The placements of DeLong: for each case, the mean of K over controls; for each control, the mean of K over cases.

    Their means are the AUC; their variances over cases and controls give its standard error.

    >>> [part.tolist() for part in placements(np.array([1, 1, 0, 0]), np.array([3.0, 1.0, 2.0, 1.0]))]
    [[1.0, 0.25], [0.5, 0.75]]
    """
    is_case = np.asarray(label) == 1
    m, n = int(is_case.sum()), int((~is_case).sum())
    among_all, of_cases, of_controls = rankdata(score), rankdata(score[is_case]), rankdata(score[~is_case])
    return (among_all[is_case] - of_cases) / n, 1 - (among_all[~is_case] - of_controls) / m


def added_error(case: np.ndarray, of_cases: np.ndarray, of_others: np.ndarray) -> np.ndarray:
    """What each person (N,) adds to the error of a mean of placements: the squares add up to DeLong's variance.

    People take part in the AUC of every class, so that what they add to several may be added up before it is squared.

    >>> case = np.array([True, True, False, False])
    >>> added_error(case, np.array([1.0, 0.5]), np.array([0.5, 1.0])).round(3).tolist()
    [0.177, -0.177, -0.177, 0.177]
    """
    added = np.zeros(len(case))
    for who, values in ((case, of_cases), (~case, of_others)):
        freedom = len(values) * max(len(values) - 1, 1)
        added[who] = (values - values.mean()) / np.sqrt(freedom)
    return added


def macro_variances(code: np.ndarray, score: np.ndarray) -> tuple[float, float]:
    """Sampling variance of the mean AUC of the classes of a site, and the mean of their own; NaN of one class."""
    added = [
        added_error(case, *placements(case, score[:, k]))
        for k in range(score.shape[1])
        if 0 < (case := code == k).sum() < len(code)
    ]
    if not added:
        return np.nan, np.nan
    return float(np.square(np.mean(added, axis=0)).sum()), float(np.square(added).sum(axis=1).mean())


def equivalent_sizes(counts: np.ndarray, share: float = 1.0) -> np.ndarray:
    """Equivalent size of sites with these people by class (sites, K): m cases and m controls have as uncertain an AUC.

    See `sites_several`; ``share`` is rho there.

    >>> equivalent_sizes(np.array([[20, 20, 0], [30, 30, 30], [40, 10, 1], [9, 0, 0]])).round(1).tolist()
    [20.0, 40.1, 5.1, 0.0]
    """
    counts = np.asarray(counts, dtype=float)
    n = counts.sum(axis=1, keepdims=True)
    known = (counts > 0) & (counts < n)
    variance = np.where(known, (n + 1) / (12 * np.where(known, counts * (n - counts), 1)), 0).sum(axis=1)
    variance = share * variance / np.maximum(known.sum(axis=1), 1)
    m = (1 + np.sqrt(1 + 12 * variance)) / np.where(variance > 0, 12 * variance, 1)
    return np.where(variance > 0, m, 0.0)


def shared_error(m: np.ndarray, variances: np.ndarray, n_classes: int) -> float:
    """rho of sites together: the variance of the mean AUC of classes as a share of their own, `macro_variances`."""
    together, alone = (float(m @ np.nan_to_num(column)) for column in variances.T)
    return float(np.clip(together / alone, 1 / n_classes, 1)) if alone > 0 else 1.0


def is_constant(values: np.ndarray, unit: float = 1.0) -> np.ndarray:
    """Whether values (..., N) differ by no more than rounding does: of their size, or of numbers of size ``unit``.

    >>> is_constant(np.array([[0.1, 0.1, 0.1], [1e9, 1e9 + 1, 1e9], [1e-9, 2e-9, 0]])).tolist()
    [True, False, False]
    """
    spread, size = np.ptp(values, axis=-1), np.abs(values).max(axis=-1)
    return np.asarray(spread <= 1e-13 * np.maximum(size, unit))


def correlations(t: np.ndarray, scores: np.ndarray, unit: float = 1.0) -> np.ndarray:
    """Correlation of each of several scores (..., N) with t; 0 for a score that is the same for everybody.

    ``unit`` is the size that scores have, see `is_constant`.

    >>> correlations(np.array([1.0, 2, 3]), np.array([[2.0, 4, 6], [1, 1, 1]])).tolist()
    [1.0, 0.0]
    """
    x, y = scores - scores.mean(axis=-1, keepdims=True), t - t.mean()
    size = np.sqrt((x**2).sum(axis=-1) * (y @ y))
    with np.errstate(invalid="ignore", divide="ignore"):
        r = x @ y / size
    return np.clip(np.where(is_constant(scores, unit) | is_constant(t, 0.0), 0.0, r), -1, 1)


def order_gain(t: np.ndarray, old: np.ndarray, new: np.ndarray) -> tuple[float, float]:
    """Gain in correlation with t, as Fisher's z, from an old to a new score of the same people, and its variance.

    Meng, Rosenthal and Rubin (1992), Psychological Bulletin 111(1), 172-175: z_new - z_old of Fisher has the variance
    2 (1 - r_between) h / (n - 3).
    """
    (r_old, r_new), between = correlations(t, np.stack([old, new])), float(correlations(old, new))
    square = (r_old**2 + r_new**2) / 2
    f = min((1 - between) / max(2 * (1 - square), EPS), 1.0)
    h = (1 - f * square) / max(1 - square, EPS)
    z_old, z_new = np.arctanh(np.clip([r_old, r_new], -0.9999, 0.9999))
    return float(z_new - z_old), float(max(2 * (1 - between) * h / (len(t) - 3), EPS))


def sites_with_scores(label: np.ndarray, site: np.ndarray, score: np.ndarray, least: int = 1) -> list[np.ndarray]:
    """Positions of the people with a score, for each site where at least ``least`` of either class have one.

    >>> sites_with_scores(np.array([0, 1, 0]), np.array(["A", "A", "B"]), np.zeros(3))
    [array([0, 1])]
    """
    known = np.isfinite(score)
    people = [np.flatnonzero(known & (site == name)) for name in np.unique(site[known])]
    return [here for here in people if min(np.sum(label[here] == 1), np.sum(label[here] == 0)) >= least]


def sites_with_numbers(t: np.ndarray, site: np.ndarray, score: np.ndarray | None = None) -> list[np.ndarray]:
    """Positions of the people with a score, for each site where at least `LEAST` have one and differ in t."""
    known = np.ones(len(t), dtype=bool) if score is None else np.isfinite(score)
    people = [np.flatnonzero(known & (site == name)) for name in np.unique(site[known])]
    return [here for here in people if len(here) >= LEAST and np.ptp(t[here]) > 0]


def site_macro_aucs(code: np.ndarray, site: np.ndarray, scores: np.ndarray) -> list[float]:
    """`macro_auc` of the people with scores (n, K), at each site where there are two classes."""
    known = np.isfinite(scores).all(axis=1)
    people = [np.flatnonzero(known & (site == name)) for name in np.unique(site[known])]
    return [float(macro_auc(code[here], scores[here])) for here in people if len(set(code[here])) > 1]


def mean_order(t: np.ndarray, site: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Mean within-site correlation (...) of scores (..., N) of some people, over sites by their people; NaN of none."""
    here = sites_with_numbers(t, site)
    if not here:
        return np.full(scores.shape[:-1], np.nan)
    weights = np.array([len(people) - 1.0 for people in here])
    return weights @ np.stack([correlations(t[people], scores[..., people]) for people in here]) / weights.sum()
