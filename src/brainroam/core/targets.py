"""Slopes of edges on a number within a site, in the place of the difference of class means.

    d = slope of r on t,  by least squares or Huber's loss

With t = 0 and 1 that is the difference of the class means (`brainroam.core.scaffold` has the same numbers to rounding,
for means and for a fixed threshold of Huber's loss). What of a fit depends on the kind of target is in
`brainroam.data.target.coding`.
"""

import numpy as np
import pandas as pd

from brainroam.core.site_fit import huber_regression
from brainroam.data.target.within import within_sites

PRESENT = 3  # people who have an edge, without whom it has no slope


def is_number(y: np.ndarray) -> bool:
    """Whether targets are numbers, not labels 0 and 1: only for summaries of federations, which carry no target.

    >>> is_number(np.array([0, 1, 1])), is_number(np.array([0.3, -1.2]))
    (False, True)
    """
    return not np.isin(y, (0, 1)).all()


def spread_within_sites(scores: np.ndarray, site: np.ndarray) -> np.ndarray:
    """Standard deviation of each column about its site means, over those who have it; 1 where there is none.

    >>> spread_within_sites(np.array([[0.0], [2.0], [10.0], [12.0]]), np.array(["A", "A", "B", "B"])).tolist()
    [1.0]
    """
    spread = pd.DataFrame(within_sites(scores, site)).std(ddof=0).to_numpy()
    return np.where(spread > 0, spread, 1.0)


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
