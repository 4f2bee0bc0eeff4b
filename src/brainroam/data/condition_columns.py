"""Columns that measure the condition itself: symptoms, medication, years of illness.

Such a column is no confound: to remove it from connectivity is to remove the condition. It is known by how well it
tells cases from controls of the same site,

    AUC = sum over sites s of U_s / sum over sites s of n_s,cases n_s,controls,   U_s of Mann and Whitney,

or by being known for one class only, as symptom scores often are. Beside a number it is known by its correlation within
sites, beside several classes by how well it tells the first of them from the others.
"""

import warnings
from collections.abc import Hashable, Iterable, Sequence

import numpy as np
import pandas as pd
from scipy import stats

from brainroam.data.target import TWO_CLASSES, Target

USUAL = ("age", "sex", "mean_fd", "n_timepoints", "tr")  # can differ between classes and still be confounds
TELLS = 0.85  # AUC; the IQ of a psychotic disorder, a large difference, has about .76
MOSTLY, HARDLY = 0.8, 0.2  # shares of a class for which a column is known
FEWEST = 10  # cases and controls below which neither is more than chance
REMEDY = (
    "a measure of the condition (symptoms, medication, years of illness) is no confound: removing it removes the "
    "condition; leave it out of the covariates"
)


def of_the_condition(table: pd.DataFrame, covariates: Sequence[str], target: Target = TWO_CLASSES) -> dict[str, str]:
    """Covariates that seem to measure the condition, each with the reason in words.

    >>> table = pd.DataFrame({"site": ["A"] * 40, "label": [0.0, 1.0] * 20, "hamd": [2, 20, 4, 18] * 10})
    >>> of_the_condition(table, ["hamd"])
    {'hamd': "'hamd' tells cases from controls of the same site (AUC 1.00)"}
    """
    if target.is_number:
        return {name: reason for name in covariates if (reason := _nearly(table, name, target))}
    if target.classes and not target.is_two_classes:
        table = table.assign(label=(table["label"] > 0).astype(float).where(table["label"].notna()))
    label = table["label"]
    if min((label == 1).sum(), (label == 0).sum()) < FEWEST:
        return {}
    reasons = {name: _reason(table, name) for name in covariates if name not in USUAL}
    return {name: reason for name, reason in reasons.items() if reason}


def warn_of_the_condition(table: pd.DataFrame, covariates: Iterable[Hashable], target: Target = TWO_CLASSES) -> None:
    """A warning for each of these covariates that seems to measure the condition."""
    for reason in of_the_condition(table, [str(name) for name in covariates], target).values():
        warnings.warn(f"covariate {reason}; {REMEDY}", stacklevel=3)


def _reason(table: pd.DataFrame, name: str) -> str:
    known = table[name].notna()
    cases, controls = (float(known[table["label"] == y].mean()) for y in (1, 0))
    if max(cases, controls) >= MOSTLY and min(cases, controls) <= HARDLY:
        return f"{name!r} is known for {cases:.0%} of the cases and {controls:.0%} of the controls"
    auc = within_sites(table.loc[known, "label"], _numbers(table[known], name), table.loc[known, "site"])
    return f"{name!r} tells cases from controls of the same site (AUC {auc:.2f})" if auc >= TELLS else ""


def _nearly(table: pd.DataFrame, name: str, target: Target) -> str:
    """That a numeric column is nearly the target: within sites they correlate like two halves of a test."""
    if name in USUAL or not pd.api.types.is_numeric_dtype(table[name]):
        return ""
    known = table[[name, "label", "site"]].dropna()
    if len(known) < 2 * FEWEST:
        return ""
    centred = known[[name, "label"]] - known.groupby("site")[[name, "label"]].transform("mean")
    spread = centred.std()
    if not (spread > 0).all():
        return ""
    r = float((centred[name] * centred["label"]).mean() / (spread[name] * spread["label"]))
    return (
        f"{name!r} is nearly the target {target.name!r} (correlation {r:.2f} within sites)" if abs(r) >= TELLS else ""
    )


def _numbers(table: pd.DataFrame, name: str) -> pd.Series:
    """Numbers as they are; for a level, the share of cases among those who have it."""
    values = table[name]
    return (
        values
        if pd.api.types.is_numeric_dtype(values)
        else table["label"].groupby(values.astype(str)).transform("mean")
    )


def within_sites(label: pd.Series, values: pd.Series, site: pd.Series) -> float:
    """How well values tell the classes of the same site apart, in either direction; NaN where no site has both.

    >>> within_sites(*(pd.Series(values) for values in ([0, 1, 0, 1], [5.0, 4.0, 9.0, 8.0], ["A", "A", "B", "B"])))
    1.0
    """
    won, pairs = 0.0, 0
    for _, rows in label.groupby(site).groups.items():
        cases, controls = (values[rows][label[rows] == y].to_numpy() for y in (1, 0))
        if len(cases) and len(controls):
            won += float(stats.mannwhitneyu(cases, controls, method="asymptotic").statistic)
            pairs += len(cases) * len(controls)
    return max(won / pairs, 1 - won / pairs) if pairs else np.nan
