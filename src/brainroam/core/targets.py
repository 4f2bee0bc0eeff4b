"""What is fitted to a target: two classes, several or a number.

A number t has, within a site, the slope of a residual edge r in the place of the difference of class means,

    d = slope of r on t,  by least squares or Huber's loss

With t = 0 and 1 that is the difference of the class means (`brainroam.core.scaffold` has the same numbers to rounding,
for means and for a fixed threshold of Huber's loss). A target is taken without its means at the sites, so what differs
between sites moves nothing. Labels 0 and 1 stand for classes wherever both kinds come along one way; see `is_number`.
"""

import numpy as np
import pandas as pd

from brainroam.core.site_fit import huber_regression
from brainroam.data.cohort import Cohort
from brainroam.data.target.order import auc, mean_order, site_macro_aucs, sites_with_scores

PRESENT = 3  # people who have an edge, without whom it has no slope
EPS = 1e-12


def is_number(y: np.ndarray) -> bool:
    """Whether targets are numbers, not labels 0 and 1.

    >>> is_number(np.array([0, 1, 1])), is_number(np.array([0.3, -1.2]))
    (False, True)
    """
    return not np.isin(y, (0, 1)).all()


def ridge_target(y: np.ndarray) -> np.ndarray:
    """Target of the ridge on pathways: -1 and 1 for two classes, a number as it is."""
    return y if is_number(y) else 2.0 * y - 1


def learned_target(cohort: Cohort) -> np.ndarray:
    """Target of a ridge on all edges: -1 and 1, or the number over its standard deviation.

    Of K classes (n, K): 1 in the column of a person's class, -1 in the others.
    """
    if cohort.target.is_two_classes:
        return 2.0 * cohort.labels - 1
    if cohort.target.is_classes:
        return 2.0 * indicators(cohort) - 1
    t = cohort.targets
    return (t - t.mean()) / max(float(t.std()), EPS)


def indicators(cohort: Cohort) -> np.ndarray:
    """Several classes as columns (n, K): 1 for the people of a class, 0 for the others."""
    return np.eye(len(cohort.target.classes), dtype=int)[cohort.targets.astype(int)]


def site_target(cohort: Cohort) -> np.ndarray:
    """Target of CORE: 0 and 1, or the number without the means of the sites, over its spread within them.

    Of several classes, their `indicators`: wherever labels have two dimensions, there are several classes.

    >>> import brainroam
    >>> from brainroam.data.target_column import with_target
    >>> cohort = with_target(brainroam.make_cohort(n_sites=2, n_per_site=8, n_rois=8), "mean_fd:number")
    >>> t = site_target(cohort)
    >>> bool(abs(t[:8].mean()) < 1e-12), round(float(t.std()), 6)
    (True, 1.0)
    """
    if cohort.target.is_two_classes:
        return cohort.labels
    if cohort.target.is_classes:
        return indicators(cohort)
    return number_within_sites(cohort)[0]


def within_sites(values: np.ndarray, site: np.ndarray) -> np.ndarray:
    """Values (n,) or (n, ...) without the means of their sites, taken over those who have a value.

    >>> within_sites(np.array([1.0, 3.0, 10.0, np.nan]), np.array(["A", "A", "B", "B"])).tolist()
    [-1.0, 1.0, 0.0, nan]
    """
    table = pd.DataFrame(np.reshape(values, (len(values), np.size(values) // max(len(values), 1))))
    return (table - table.groupby(np.asarray(site)).transform("mean")).to_numpy().reshape(np.shape(values))


def spread_within_sites(scores: np.ndarray, site: np.ndarray) -> np.ndarray:
    """Standard deviation of each column about its site means, over those who have it; 1 where there is none.

    >>> spread_within_sites(np.array([[0.0], [2.0], [10.0], [12.0]]), np.array(["A", "A", "B", "B"])).tolist()
    [1.0]
    """
    spread = pd.DataFrame(within_sites(scores, site)).std(ddof=0).to_numpy()
    return np.where(spread > 0, spread, 1.0)


def number_within_sites(cohort: Cohort) -> tuple[np.ndarray, dict[str, float]]:
    """A number (n,) without the means of the sites, over its spread within them, and these means in the same unit."""
    t, site = cohort.targets.copy(), cohort.table["site"].to_numpy().astype(str)
    means = {str(name): float(t[site == name].mean()) for name in np.unique(site)}
    for name, mean in means.items():
        t[site == name] -= mean
    unit = max(float(t.std()), EPS)
    return t / unit, {name: mean / unit for name, mean in means.items()}


def slopes(residuals: np.ndarray, t: np.ndarray, huber_delta: float | None = None) -> np.ndarray:
    """d (M,) of the people of one site; NaN where hardly anybody has the edge.

    >>> t = np.array([0.0, 0, 1, 1]); slopes(np.array([[1.0], [3.0], [5.0], [7.0]]), t, np.inf).tolist()
    [4.0]
    """
    enough = np.isfinite(residuals).sum(axis=0) >= PRESENT
    slope = np.full(residuals.shape[1], np.nan)
    design = np.column_stack([np.ones(len(t)), t])
    slope[enough] = huber_regression(design, residuals[:, enough], delta=huber_delta)[0][1]
    return slope


def covariate_slopes(raw: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Least-squares slopes (d,) of covariates (n, d) on t."""
    centred = t - t.mean()
    return centred @ raw / max(float(centred @ centred), EPS)


def site_orders(y: np.ndarray, site: np.ndarray, score: np.ndarray) -> list[float]:
    """How well a score orders the people who have one: the AUC at each site with both classes, or `site_macro_aucs`.

    Of a number one value for all sites, `mean_order`. Nothing where nobody has a score.

    >>> site_orders(np.array([0, 1, 0, 1]), np.array(["A", "A", "B", "B"]), np.array([1.0, 2.0, 2.0, 1.0]))
    [1.0, 0.0]
    """
    if y.ndim == 2:
        return site_macro_aucs(y.argmax(axis=1), site, score)
    if is_number(y):
        known = np.isfinite(score)
        return [float(mean_order(y[known], site[known], score[known]))] if known.any() else []
    return [auc(y[here], score[here]) for here in sites_with_scores(y, site, score)]
