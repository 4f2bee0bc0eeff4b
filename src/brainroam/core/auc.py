"""How well scores tell cases from controls.

Notation: m cases with scores x_i, n controls with scores y_j, and the kernel
K_ij = 1 if x_i > y_j, 1/2 if x_i = y_j, else 0. The AUC is the mean of K.
"""

import numpy as np
from scipy.stats import rankdata

from brainroam.errors import DataError


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
    found = class_aucs(code, scores)
    known = np.isfinite(found)
    with np.errstate(invalid="ignore"):
        return np.where(known, found, 0).sum(axis=-1) / known.sum(axis=-1)


def site_macro_aucs(code: np.ndarray, site: np.ndarray, scores: np.ndarray) -> list[float]:
    """`macro_auc` of the people with scores (n, K), at each site where there are two classes."""
    known = np.isfinite(scores).all(axis=1)
    people = [np.flatnonzero(known & (site == name)) for name in np.unique(site[known])]
    return [float(macro_auc(code[here], scores[here])) for here in people if len(set(code[here])) > 1]


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


def sites_with_scores(label: np.ndarray, site: np.ndarray, score: np.ndarray, least: int = 1) -> list[np.ndarray]:
    """Positions of the people with a score, for each site where at least ``least`` of either class have one.

    >>> sites_with_scores(np.array([0, 1, 0]), np.array(["A", "A", "B"]), np.zeros(3))
    [array([0, 1])]
    """
    known = np.isfinite(score)
    people = [np.flatnonzero(known & (site == name)) for name in np.unique(site[known])]
    return [here for here in people if min(np.sum(label[here] == 1), np.sum(label[here] == 0)) >= least]
