"""How well a method does at one site.

The AUC is in `brainroam.core.auc`, because inner sites are chosen by it too.
"""

import numpy as np
import pandas as pd
from scipy.special import logit

from brainroam.core.auc import auc as auc
from brainroam.core.auc import aucs as aucs
from brainroam.core.calibration import fit_logistic, to_prevalence

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
    (steep, height), _ = fit_logistic(design, y, np.ones(len(y)))
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
        A person scoring at least this is called a case; it must come from the training sites.
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
    slope, intercept = calibration(label, probability)
    return {
        "n": len(label),
        "n_cases": int(is_case.sum()),
        "auc": auc(label, score),
        "acc": float((called == is_case).mean()),
        "balanced_acc": (sensitivity + specificity) / 2,
        "sensitivity": sensitivity,
        "specificity": specificity,
        "brier": float(((probability - is_case) ** 2).mean()),
        "calibration_slope": slope,
        "calibration_intercept": intercept,
    }


def at_prevalence(
    label: np.ndarray, probability: np.ndarray, predicted: np.ndarray, held: np.ndarray, prevalence: float
) -> dict[str, float]:
    """What probabilities and predicted classes are worth where another share of people are cases.

    Cases count ``prevalence`` and controls the rest; probabilities that held for the share ``held`` are moved to it.

    Returns
    -------
    dict
        ``prevalence``, ``mean_probability``, ``brier``, ``brier_constant`` (of saying the prevalence to everybody),
        ``ppv`` (share of cases among predicted cases) and ``npv`` (of controls among the others).

    Examples
    --------
    >>> label, p = np.array([0, 0, 1, 1]), np.array([0.2, 0.6, 0.4, 0.8])
    >>> found = at_prevalence(label, p, p >= 0.5, np.full(4, 0.5), 0.1)
    >>> round(found["ppv"], 3), round(found["brier_constant"], 3)
    (0.1, 0.09)
    """
    p = to_prevalence(probability, held, prevalence)
    weight = np.where(label == 1, prevalence / np.mean(label), (1 - prevalence) / np.mean(1 - label)) / len(label)
    called, others = weight * predicted, weight * (1 - np.asarray(predicted, dtype=float))
    return {
        "prevalence": prevalence,
        "mean_probability": float(weight @ p),
        "brier": float(weight @ (p - label) ** 2),
        "brier_constant": prevalence * (1 - prevalence),
        "ppv": float(called @ label / called.sum()) if called.sum() else float("nan"),
        "npv": float(others @ (1 - label) / others.sum()) if others.sum() else float("nan"),
    }


def average_seeds(scores: pd.DataFrame) -> pd.DataFrame:
    """One row per protocol, method and site: each metric averaged over the seeds.

    The site is the unit. Seeds are repeated measurements of the same people, so they are averaged before anything else.

    Examples
    --------
    >>> scores = pd.DataFrame({"protocol": "loso", "method": "core", "site": "A", "seed": [0, 1], "auc": [0.6, 0.8]})
    >>> average_seeds(scores)
      protocol method site  auc
    0     loso   core    A  0.7
    """
    columns = [name for name in ("n", "n_cases", *METRICS) if name in scores]
    return scores.groupby(["protocol", "method", "site"], sort=True)[columns].mean().reset_index()


def over_sites(per_site: pd.DataFrame) -> dict[str, float | int | str]:
    """Summarise the rows of one method, one per site (see `average_seeds`).

    Means over sites, the worst site by AUC and the standard deviation of the AUC between sites. Calibration is
    summarised by the median: near separation at one small site sends its slope to infinity, and the mean with it.

    Examples
    --------
    >>> over_sites(pd.DataFrame({"site": ["A", "B"], "auc": [0.6, 0.8]}))["worst_site"]
    'A'
    """
    known = per_site.dropna(subset="auc")
    worst = None if known.empty else known.loc[known["auc"].idxmin()]
    result: dict[str, float | int | str] = {
        "n_sites": len(known),
        "auc": known["auc"].mean(),
        "auc_sd": known["auc"].std(),
        "worst_auc": float("nan") if worst is None else worst["auc"],
        "worst_site": "" if worst is None else worst["site"],
    }
    for name in METRICS[1:]:
        if name in per_site:
            middle = per_site[name].median() if name.startswith("calibration") else per_site[name].mean()
            result[name] = middle
    return result
