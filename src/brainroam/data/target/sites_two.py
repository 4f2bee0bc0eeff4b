"""What is measured of two classes at a held-out site, and over sites."""

import numpy as np
import pandas as pd
from scipy.special import logit

from brainroam.data.target.logistic import fit_logistic
from brainroam.data.target.order import auc
from brainroam.data.target.weights import may_be_named, mean_over_sites, number_of_sites, site_weights

METRICS = (
    "auc",
    "acc",
    "balanced_acc",
    "sensitivity",
    "specificity",
    "brier",
    "calibration_slope",
    "calibration_intercept",
)
BALANCED = ("balanced_acc", "sensitivity", "specificity", "brier", "calibration_in_the_large")
SURE = 1e-6  # probabilities are held this far from 0 and 1 before their logit is taken


def calibration(label: np.ndarray, probability: np.ndarray) -> tuple[float, float]:
    """Slope and intercept of the logistic recalibration ``logit P(case) = intercept + slope * logit(probability)``.

    A perfectly calibrated probability has slope 1 and intercept 0; a slope below 1 means too extreme, an intercept
    below 0 too many cases predicted. The estimate exists only when the classes overlap: with separated classes, one
    class, or a constant probability both are NaN.

    Examples
    --------
    >>> label, p = np.array([0, 0, 0, 1, 0, 1, 1, 1]), np.array([0.2, 0.2, 0.2, 0.2, 0.8, 0.8, 0.8, 0.8])
    >>> slope, intercept = calibration(label, p)
    >>> round(slope, 3), abs(intercept) < 1e-6
    (0.792, True)
    """
    y, p = np.asarray(label, dtype=float), np.asarray(probability, dtype=float)
    x = logit(np.clip(p, SURE, 1 - SURE))
    cases, controls = x[y == 1], x[y == 0]
    # Silvapulle (1981): the maximum is finite exactly when each class reaches beyond the other's edge.
    if not (len(cases) and len(controls) and cases.min() < controls.max() and controls.min() < cases.max()):
        return float("nan"), float("nan")
    design = np.column_stack([(x - x.mean()) / x.std(), np.ones_like(x)])
    steep, height = fit_logistic(design, y, np.ones(len(y)))
    slope = steep / x.std()
    return float(slope), float(height - slope * x.mean())


def site_metrics(
    label: np.ndarray, score: np.ndarray, threshold: float, probability: np.ndarray
) -> dict[str, float | int]:
    """Every metric of one held-out site.

    Parameters
    ----------
    label : ndarray of shape (N,)
        1 for cases, 0 for controls.
    score : ndarray of shape (N,)
        The higher, the more likely a case.
    threshold : float
        A person scoring at least this is called a case; it must come from the training sites. NaN where there is none,
        and then so are the metrics of decisions.
    probability : ndarray of shape (N,)
        Probability of being a case; NaN when the method has none, and then so are Brier score and calibration.

    Returns
    -------
    dict
        ``n``, ``n_cases`` and every name in `METRICS`. What a site cannot tell is NaN: with one class only, AUC,
        balanced accuracy, calibration, and the sensitivity or specificity of the absent class.

    Examples
    --------
    >>> result = site_metrics(np.array([1, 1, 0, 0]), np.array([3, 1, 2, 1]), 1.5, np.array([0.9, 0.4, 0.6, 0.4]))
    >>> result["auc"], result["acc"], result["sensitivity"], round(result["brier"], 4)
    (0.625, 0.5, 0.5, 0.2225)
    """
    label, score, probability = np.asarray(label), np.asarray(score, dtype=float), np.asarray(probability, dtype=float)
    is_case, called = label == 1, score >= threshold
    sensitivity = float(called[is_case].mean()) if is_case.any() else float("nan")
    specificity = float((~called[~is_case]).mean()) if not is_case.all() else float("nan")
    accuracy = float((called == is_case).mean())
    if np.isnan(threshold):
        sensitivity = specificity = accuracy = float("nan")
    slope, intercept = calibration(label, probability)
    return {
        "n": len(label),
        "n_cases": int(is_case.sum()),
        "auc": auc(label, score),
        "acc": accuracy,
        "balanced_acc": (sensitivity + specificity) / 2,
        "sensitivity": sensitivity,
        "specificity": specificity,
        "brier": float(((probability - is_case) ** 2).mean()),
        "calibration_slope": slope,
        "calibration_intercept": intercept,
    }


def over_sites(per_site: pd.DataFrame) -> dict[str, float | int | str]:
    """Summarise the rows of one method, one per site (see `average_seeds`).

    Every metric is a `mean_over_sites`. Beside it stand the concordance within sites, in which each pair of a case and
    a control of one site counts once, the standard deviation of the AUC between sites, and the worst site by AUC among
    those that may be called so (`may_be_named`), unless all of them are above the mean. Calibration is summarised by
    the median: near separation at one small site sends its slope to infinity, and the mean with it.

    Examples
    --------
    >>> sites = pd.DataFrame({"site": ["A", "B", "C"], "n": [40, 50, 21], "n_cases": [20, 30, 1]})
    >>> found = over_sites(sites.assign(auc=[0.6, 0.8, 0.0]))
    >>> found["worst_site"], round(found["auc"], 3), found["n_sites"]
    ('A', 0.683, 3)
    """
    measured = per_site.dropna(subset="auc")
    cases, values = measured["n_cases"].to_numpy(dtype=float), measured["auc"].to_numpy(dtype=float)
    controls = measured["n"].to_numpy(dtype=float) - cases
    weights, mean = site_weights(cases, controls), mean_over_sites(values, site_weights(cases, controls))
    large = measured[may_be_named(cases, controls)]
    worst = None if large.empty or large["auc"].min() > mean else large.loc[large["auc"].idxmin()]
    result: dict[str, float | int | str] = {
        "n_sites": len(measured),
        "auc": mean,
        "auc_sd": _spread(values, weights, mean),
        "concordance": mean_over_sites(values, cases * controls),
        "worst_auc": float("nan") if worst is None else worst["auc"],
        "worst_site": "" if worst is None else worst["site"],
    }
    for name in METRICS[1:]:
        if name.startswith("calibration") and name in per_site:
            result[name] = per_site[name].median()
        elif name in per_site:
            result[name] = mean_over_sites(measured[name].to_numpy(), weights)
    return result


def _spread(values: np.ndarray, weights: np.ndarray, mean: float) -> float:
    """Standard deviation between sites: sum p (A - mean)^2 / (1 - sum p^2) with p the weights as shares."""
    k = number_of_sites(weights)
    if len(values) < 2 or k <= 1:
        return float("nan")
    return float(np.sqrt(np.average((values - mean) ** 2, weights=weights) / (1 - 1 / k)))


def balanced_metrics(label: np.ndarray, probability: np.ndarray, called: np.ndarray) -> dict[str, float]:
    """What does not move with the share of cases, both classes counting alike; NaN when a class is absent.

    ``balanced_acc``, ``sensitivity``, ``specificity`` of the people called cases (1) or not (0), and of probabilities
    for a prevalence of one half ``brier`` and ``calibration_in_the_large``, by how much the mean is off one half.

    >>> probability = np.array([0.2, 0.2, 0.8, 0.6])
    >>> balanced_metrics(np.array([0, 0, 0, 1]), probability, probability >= 0.5)["calibration_in_the_large"]
    0.0
    """
    cases, controls = probability[label == 1], probability[label == 0]
    if not (len(cases) and len(controls)):
        return dict.fromkeys(BALANCED, float("nan"))
    sensitivity, specificity = float(np.mean(called[label == 1])), 1 - float(np.mean(called[label == 0]))
    return {
        "balanced_acc": (sensitivity + specificity) / 2,
        "sensitivity": sensitivity,
        "specificity": specificity,
        "brier": float(((1 - cases) ** 2).mean() + (controls**2).mean()) / 2,
        "calibration_in_the_large": float(abs((cases.mean() + controls.mean()) / 2 - 0.5)),
    }
