"""How well a method does at one site, and over sites.

The mean over sites has one rule, `mean_over_sites`, wherever brainroam prints one. Site s with m cases and n controls
has the weight

    w_s = min(m, n, 20)

so a site counts fully from 20 people of the rarer class on, below that in proportion, and a site of one class not at
all.
The variance of an AUC goes with 1 / min(m, n), and sites differ among themselves by about as much as 20 + 20 people
scatter, so more people than that add little to what a site says about the next one. Weights depend on numbers of people
alone: all methods have the same, a mean of differences is the difference of means, and no result weights itself.

The AUC is in `brainroam.core.targets`, because inner sites are chosen by it too.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import logit

from brainroam.core.calibration import fit_logistic, to_prevalence
from brainroam.data.target.order import auc as auc
from brainroam.data.target.order import aucs as aucs
from brainroam.errors import DataError, listed

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
FULL = 20  # people of the rarer class from which on a site counts fully
JUDGED = 5  # people of the rarer class below which a site is listed, but never named as the worst
MIN_WEIGHT = 2.5  # `number_of_sites` below which there is no interval: two sites predict each other
#: The rule of `mean_over_sites`, for the foot of a table.
RULE = f"mean over sites, each weighted by its people of the rarer class, {FULL} at most"
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
    if len(np.unique(label)) < 2:
        raise DataError("what a score is worth at another prevalence needs cases and controls")
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


def average_seeds(scores: pd.DataFrame, metrics: Sequence[str] = ("n_cases", *METRICS)) -> pd.DataFrame:
    """One row per protocol, method and site: people and each metric averaged over the seeds.

    The site is the unit. Seeds are repeated measurements of the same people, so they are averaged before anything else.

    Examples
    --------
    >>> scores = pd.DataFrame({"protocol": "loso", "method": "core", "site": "A", "seed": [0, 1], "auc": [0.6, 0.8]})
    >>> average_seeds(scores)
      protocol method site  auc
    0     loso   core    A  0.7
    """
    columns = [name for name in ("n", *metrics) if name in scores]
    return scores.groupby(["protocol", "method", "site"], sort=True)[columns].mean().reset_index()


def site_weights(n_cases: ArrayLike, n_controls: ArrayLike) -> np.ndarray:
    """The weight of each site in a mean over sites.

    >>> site_weights(np.array([40, 1, 0, 12]), np.array([30, 20, 25, 15])).tolist()
    [20.0, 1.0, 0.0, 12.0]
    """
    return np.minimum(np.minimum(n_cases, n_controls), FULL).astype(float)


def has_enough_people(n_cases: ArrayLike, n_controls: ArrayLike) -> np.ndarray:
    """Which sites have enough people of either class to be called the best or the worst.

    >>> has_enough_people(np.array([40, 1, 5]), np.array([30, 20, 5])).tolist()
    [True, False, True]
    """
    return np.minimum(n_cases, n_controls) >= JUDGED


def may_be_named(n_cases: ArrayLike, n_controls: ArrayLike) -> np.ndarray:
    """Which sites may be called the best or the worst: those that `has_enough_people`, if at least half of all do.

    The worst of a few sites is not the worst: with one case in ten people it may be better than the mean.

    >>> may_be_named([40, 1, 5], [30, 20, 5]).tolist(), may_be_named([5, 2, 3], [40, 40, 40]).tolist()
    ([True, False, True], [False, False, False])
    """
    enough = has_enough_people(n_cases, n_controls)
    return enough & (2 * enough.sum() >= enough.size)


def by_site(**columns: ArrayLike | Mapping[str, float]) -> list[np.ndarray]:
    """Columns of the same sites as arrays in one order: as they stand, or by name where sites are named.

    A dict names sites, and so does a Series by an index of text. Errors call the columns by their keywords.

    >>> [column.tolist() for column in by_site(auc={"NYU": 0.7, "UM": 0.8}, n={"UM": 2, "NYU": 1})]
    [[0.7, 0.8], [1.0, 2.0]]
    """
    tables: list[Any] = [pd.Series(column) if isinstance(column, Mapping) else column for column in columns.values()]
    known = [x for x in tables if isinstance(x, pd.Series) and not pd.api.types.is_numeric_dtype(x.index)]
    for column in known[1:]:
        if unmatched := set(known[0].index) ^ set(column.index):
            names = listed(sorted(map(str, unmatched)))
            raise DataError(f"all columns must be of the same sites; {names} is not in all of them")
    for column in known:
        if not column.index.is_unique:
            twice = column.index[column.index.duplicated()]
            raise DataError(f"a site has one value; {listed(twice)} has several: average seeds first")
    ordered = [x.reindex(known[0].index) if any(x is each for each in known) else x for x in tables]
    try:
        arrays = [np.atleast_1d(np.asarray(x, dtype=float)) for x in ordered]
    except (TypeError, ValueError) as error:
        raise DataError(f"a number is needed for each site: {error}") from error
    if any(x.ndim > 1 or len(x) != len(arrays[0]) for x in arrays):
        shapes = [f"{name} of shape {x.shape}" for name, x in zip(columns, arrays, strict=True)]
        raise DataError(f"one number is needed for each of the same sites; there are {' and '.join(shapes)}")
    return arrays


def mean_over_sites(values: ArrayLike, weights: ArrayLike) -> float:
    """Weighted mean over the sites that have a value and a weight; NaN of none.

    >>> mean_over_sites(np.array([0.7, 0.8, 0.0, np.nan]), np.array([20.0, 20, 1, 0])).__round__(3)
    0.732
    """
    values, weights = np.asarray(values, dtype=float), np.asarray(weights, dtype=float)
    measured = np.isfinite(values) & (weights > 0)
    return float(np.average(values[measured], weights=weights[measured])) if measured.any() else float("nan")


def number_of_sites(weights: ArrayLike) -> float:
    """What weighted sites amount to: (sum w)^2 / sum w^2, the number of sites if all weigh the same.

    >>> number_of_sites(np.full(10, 20)), round(number_of_sites(np.array([20] * 10 + [1])), 2)
    (10.0, 10.1)
    """
    w = np.asarray(weights, dtype=float)
    return float(w.sum() ** 2 / (w @ w)) if w.any() else 0.0


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
