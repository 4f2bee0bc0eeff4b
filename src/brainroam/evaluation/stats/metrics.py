"""How well a method does at one site, and over sites.

What is measured of a site is in `brainroam.data.target`: of two classes in `sites_two`, and how much a site counts in
`weights`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from brainroam.data.target.logistic import to_prevalence
from brainroam.data.target.order import auc as auc
from brainroam.data.target.order import aucs as aucs
from brainroam.data.target.sites_two import METRICS as METRICS
from brainroam.data.target.sites_two import calibration as calibration
from brainroam.data.target.sites_two import over_sites as over_sites
from brainroam.data.target.sites_two import site_metrics as site_metrics
from brainroam.data.target.weights import FULL as FULL
from brainroam.data.target.weights import JUDGED as JUDGED
from brainroam.data.target.weights import MIN_WEIGHT as MIN_WEIGHT
from brainroam.data.target.weights import has_enough_people as has_enough_people
from brainroam.data.target.weights import may_be_named as may_be_named
from brainroam.data.target.weights import mean_over_sites as mean_over_sites
from brainroam.data.target.weights import number_of_sites as number_of_sites
from brainroam.data.target.weights import site_weights as site_weights
from brainroam.errors import DataError, listed

#: The rule of `mean_over_sites`, for the foot of a table.
RULE = f"mean over sites, each weighted by its people of the rarer class, {FULL} at most"


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


def by_site(**columns: ArrayLike | Mapping[str, float]) -> list[np.ndarray]:
    """Columns of the same sites as arrays in one order: by name where sites are named, else as they stand.

    A dict names sites, also by numbers, and so does the index of a Series, unless it only counts rows from 0 on beside
    columns that name sites by text. Errors call the columns by their keywords.

    >>> [column.tolist() for column in by_site(auc={"NYU": 0.7, "UM": 0.8}, n={"UM": 2, "NYU": 1})]
    [[0.7, 0.8], [1.0, 2.0]]
    """
    tables: list[Any] = [pd.Series(column) if isinstance(column, Mapping) else column for column in columns.values()]
    indexed = [x for x in tables if isinstance(x, pd.Series)]
    counting = [x for x, given in zip(tables, columns.values(), strict=True) if given is x and _counts_rows(x)]
    known = [x for x in indexed if not any(x is each for each in counting)]
    if any(pd.api.types.is_numeric_dtype(x.index) for x in known):
        known = indexed
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


def _counts_rows(column: Any) -> bool:
    """Whether this is a Series whose index is that of a table that nobody has sorted or cut."""
    return isinstance(column, pd.Series) and column.index.equals(pd.RangeIndex(len(column)))


def refuse_infinite(**columns: np.ndarray) -> None:
    """An error that names a column with an infinite number; NaN is a site without a result."""
    for name, column in columns.items():
        if np.isinf(column).any():
            where = listed(np.flatnonzero(np.isinf(column)))
            raise DataError(f"{name}: result {where} is infinite; a site without a result is NaN")
