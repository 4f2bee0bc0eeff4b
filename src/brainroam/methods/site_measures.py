"""What is measured at one site of scores, decisions and probabilities, each with its sampling variance.

Both classes count alike, so that no measure moves with the share of cases:

    balanced_acc   mean of sensitivity and specificity at the threshold
    level          mean probability of cases and that of controls, averaged, minus 1/2: positive where too many are
                   called cases; probabilities are those for a prevalence of 1/2
    brier          mean squared error of these probabilities

Each is the mean of two class means, so with s_1^2, s_0^2 the variances over the m cases and n controls,

    variance = (s_1^2 / m + s_0^2 / n) / 4

where shares of people called right are shrunk by one of each kind: no variance is zero because a site is small.
"""

import numpy as np
import pandas as pd

from brainroam.core.calibration import Calibration
from brainroam.core.targets import auc

MEASURES = ("balanced_acc", "level", "brier")
INNER_SITES = ("site", "n_cases", "n_controls", "auc", *(f"{name}{end}" for name in MEASURES for end in ("", "_var")))


def site_measures(y: np.ndarray, score: np.ndarray, called: np.ndarray, half: np.ndarray) -> dict[str, float]:
    """AUC and `MEASURES` of one site, with ``<name>_var``; NaN where a class is absent.

    Parameters
    ----------
    y : ndarray of shape (n,)
        1 for cases, 0 for controls.
    score : ndarray of shape (n,)
    called : ndarray of shape (n,)
        1 for people who are called cases.
    half : ndarray of shape (n,)
        Probabilities for a prevalence of 1/2.

    Examples
    --------
    >>> found = site_measures(np.array([0, 0, 1, 1]), np.arange(4.0), np.array([0, 1, 1, 1]), np.full(4, 0.6))
    >>> found["auc"], found["balanced_acc"], round(found["level"], 2), round(found["brier"], 2)
    (1.0, 0.75, 0.1, 0.26)
    """
    right = np.asarray(called) == y
    of_people = {"balanced_acc": right.astype(float), "level": half - 0.5, "brier": (half - y) ** 2}
    found = {"n_cases": int((y == 1).sum()), "n_controls": int((y == 0).sum()), "auc": auc(y, score)}
    for name, values in of_people.items():
        classes = [values[y == label] for label in (0, 1)]
        if min(map(len, classes)) == 0:
            found |= {name: np.nan, f"{name}_var": np.nan}
            continue
        found[name] = float(np.mean([part.mean() for part in classes]))
        found[f"{name}_var"] = sum(_variance(part, name == "balanced_acc") / len(part) for part in classes) / 4
    return found


def _variance(values: np.ndarray, shares: bool) -> float:
    """Of one person's value; of one person alone, the largest that a value between 0 and 1 can have."""
    if shares:
        p = (values.sum() + 1) / (len(values) + 2)
        return float(p * (1 - p))
    return float(values.var(ddof=1)) if len(values) > 1 else 0.25


def inner_sites(score: np.ndarray, y: np.ndarray, site: np.ndarray, calibration: Calibration) -> pd.DataFrame:
    """`site_measures` of out-of-site scores at each inner site with both classes.

    The decision at a site uses the threshold of the *other* sites, since that is what a next site gets.
    """
    people = pd.DataFrame({"site": site, "y": y, "score": score}).dropna(subset="score")
    parts = [(name, here) for name, here in people.groupby("site") if here["y"].nunique() == 2]
    middles = np.array([here.groupby("y")["score"].mean().mean() for _, here in parts])
    rows = []
    for k, (name, here) in enumerate(parts):
        labels, scores = here["y"].to_numpy(), here["score"].to_numpy()
        threshold = np.delete(middles, k).mean() if len(parts) > 1 else calibration.threshold
        called, half = (scores >= threshold).astype(int), calibration(scores, 0.5)
        rows.append({"site": name, **site_measures(labels, scores, called, half)})
    return pd.DataFrame(rows, columns=list(INNER_SITES))
