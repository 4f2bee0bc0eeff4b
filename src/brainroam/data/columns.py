"""Columns of the table: which can be covariates, which measure the condition, and which is the head size.

**Covariates.** A text column with a level for nearly everybody would take a regression's every degree of freedom: no
slope of the site could then be estimated, age and sex included. So it is refused, with what it seems to be.

**The condition itself**: symptoms, medication, years of illness. Such a column is no confound: to remove it from
connectivity is to remove the condition. It is known by how well it tells cases from controls of the same site,

    AUC = sum over sites s of U_s / sum over sites s of n_s,cases n_s,controls,   U_s of Mann and Whitney,

or by being known for one class only, as symptom scores often are. Beside a number it is known by its correlation within
sites, beside several classes by how well it tells the first of them from the others.
"""

import re
from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy import stats

from brainroam.data.names import plain
from brainroam.data.target import TWO_CLASSES, Target
from brainroam.errors import DataError, listed, warn_user

if TYPE_CHECKING:
    from brainroam.data.cohort import Cohort

USUAL = ("age", "sex", "mean_fd", "n_timepoints", "tr")  # can differ between classes and still be confounds
TELLS = 0.85  # AUC; the IQ of a psychotic disorder, a large difference, has about .76
SAME = 0.98  # correlation within sites of age in years and in days, or rounded
MOSTLY, HARDLY = 0.8, 0.2  # shares of a class for which a column is known
FEWEST = 10  # cases and controls below which neither is more than chance
REMEDY = (
    "a measure of the condition (symptoms, medication, years of illness) is no confound: removing it removes the "
    "condition; leave it out of the covariates"
)
FEW, MOST = 3, 5  # levels that are always allowed, and that are at all
PEOPLE_PER_LEVEL = 10
UNKNOWN = {"", "na", "n/a", "nan", "null", "none", ".", "-", "?"}  # among numbers: not known
DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})")
ID = re.compile(r"(^|[^a-z])(id|guid|uuid)$|^(subject|participant)s?$", re.IGNORECASE)
# TIV, eTIV, ICV or EstimatedTotalIntraCranialVol; a volume divided by it (BrainSegVol-to-eTIV) is something else
HEAD_SIZE = re.compile(r"(^|(?<!to)[_\W])(e?tiv|icv)([_\W]|$)|intra_?cranial", re.IGNORECASE)


def of_the_condition(table: pd.DataFrame, covariates: Sequence[str], target: Target = TWO_CLASSES) -> dict[str, str]:
    """Covariates that seem to measure the condition, each with the reason in words.

    >>> table = pd.DataFrame({"site": ["A"] * 40, "label": [0.0, 1.0] * 20, "hamd": [2, 20, 4, 18] * 10})
    >>> of_the_condition(table, ["hamd"])
    {'hamd': "'hamd' tells cases from controls of the same site (AUC 1.00)"}
    """
    label = target.as_condition(table["label"])
    if label is None:
        return {name: reason for name in covariates if (reason := _nearly(table, name, target))}
    table = table.assign(label=label)
    if min((label == 1).sum(), (label == 0).sum()) < FEWEST:
        return {}
    reasons = {name: _reason(table, name) for name in covariates if name not in USUAL}
    return {name: reason for name, reason in reasons.items() if reason}


def warn_of_the_condition(table: pd.DataFrame, covariates: Iterable[Hashable], target: Target = TWO_CLASSES) -> None:
    """A warning for each of these covariates that seems to measure the condition."""
    for reason in of_the_condition(table, [str(name) for name in covariates], target).values():
        warn_user(f"covariate {reason}; {REMEDY}")


def _reason(table: pd.DataFrame, name: str) -> str:
    known = table[name].notna()
    cases, controls = (float(known[table["label"] == y].mean()) for y in (1, 0))
    if max(cases, controls) >= MOSTLY and min(cases, controls) <= HARDLY:
        return f"{name!r} is known for {cases:.0%} of the cases and {controls:.0%} of the controls"
    auc = within_sites(table.loc[known, "label"], _numbers(table[known], name), table.loc[known, "site"])
    return f"{name!r} tells cases from controls of the same site (AUC {auc:.2f})" if auc >= TELLS else ""


def _nearly(table: pd.DataFrame, name: str, target: Target) -> str:
    """Why a numeric column is nearly the target, in words: within sites they correlate like halves of a test.

    Usual covariates may well do so; they are the target where only unit or rounding differ. A site counts by its
    people, and as it is scaled itself: its unit may be another one.
    """
    if name == target.name or not pd.api.types.is_numeric_dtype(table[name]):
        return ""
    known = table[[name, "label", "site"]].dropna()
    sites = [here for _, here in known.groupby("site") if len(here) > 2 and (here[[name, "label"]].nunique() > 1).all()]
    n = np.array([len(here) for here in sites])
    if n.sum() < 2 * FEWEST:
        return ""
    r = float(n @ [here[name].corr(here["label"]) for here in sites] / n.sum())
    least = SAME if name in USUAL else TELLS
    return (
        f"{name!r} is nearly the target {target.name!r} (correlation {r:.2f} within sites)" if abs(r) >= least else ""
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
    y, x, places = label.to_numpy(dtype=float), values.to_numpy(dtype=float), site.astype(str).to_numpy()
    won, pairs = 0.0, 0
    for name in np.unique(places):
        case, control = (x[(places == name) & (y == k)] for k in (1, 0))
        if len(case) and len(control):
            ranks = stats.rankdata(np.concatenate([case, control]))
            won += float(ranks[: len(case)].sum()) - len(case) * (len(case) + 1) / 2  # U of Mann and Whitney
            pairs += len(case) * len(control)
    return max(won / pairs, 1 - won / pairs) if pairs else np.nan


def as_numbers(column: pd.Series) -> np.ndarray:
    """Numbers, also from text, NaN where unknown; a `ValueError` where something else stands.

    >>> as_numbers(pd.Series(["100.5", "n/a", " 97"])).tolist()
    [100.5, nan, 97.0]
    """
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "fiub":
        return column.to_numpy(dtype=float)
    if not pd.api.types.is_numeric_dtype(column):
        text = as_text(column)
        column = text.mask(text.str.lower().isin(UNKNOWN))
    return pd.to_numeric(column).to_numpy(dtype=float, na_value=np.nan)


def as_text(column: pd.Series) -> pd.Series:
    """Levels as text without surrounding white space; missing where there is none.

    >>> as_text(pd.Series([1.0, " GE"])).tolist()
    ['1', 'GE']
    """
    text = column.astype(object).map(
        lambda value: f"{value:g}" if isinstance(value, float) else str(value).strip(), na_action="ignore"
    )
    return text.mask(text == "")


def levels_of(column: pd.Series, name: str) -> list[str] | None:
    """The sorted levels of a category, None for numbers; an error for what cannot be a covariate.

    >>> levels_of(pd.Series(["GE", "Siemens", "GE"]), "scanner")
    ['GE', 'Siemens']
    >>> levels_of(pd.Series(["98", "104", "n/a"]), "iq") is None
    True
    """
    if ID.search(name):
        raise DataError(f"covariate {name!r} is an id, which says nothing about people never seen; leave it out")
    if pd.api.types.is_datetime64_any_dtype(column) or isinstance(column.dtype, pd.PeriodDtype):
        raise _date(name)
    if pd.api.types.is_numeric_dtype(column):
        return None
    text = as_text(column)
    known = text.dropna()
    if isinstance(column.dtype, pd.CategoricalDtype):  # codes that somebody said are no numbers
        return _not_too_many(known, len(column), name)
    if not known.empty and known.str.fullmatch(DATE).all():
        raise _date(name)
    try:
        as_numbers(text)
        return None
    except ValueError:
        return _few_levels(known, len(column), name)


def warn_of_the_site(table: pd.DataFrame, covariates: Iterable[str]) -> None:
    """A warning for each covariate that has one value within every site: the site's code, its scanner, its TR.

    Effects of covariates are estimated within sites, where such a column does not vary: nothing is removed with it.

    >>> import warnings
    >>> table = pd.DataFrame({"site": ["A", "A", "B", "B"], "centre": [1, 1, 2, 2], "age": [20, 30, 25, 35]})
    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     warn_of_the_site(table, ["centre", "age"])
    >>> [str(warning.message)[:55] for warning in told]
    ["covariate 'centre' has one value for each site: it is t"]
    """
    for name in covariates:
        known = table[["site", name]].dropna()
        n_sites, n_values = known["site"].nunique(), known[name].nunique()
        pairs = len(known.drop_duplicates())
        if n_values < 2 or pairs > n_sites or known["site"].value_counts().min() < 2:
            continue
        what = "has one value for each site: it is the site" if n_values == n_sites else "is the same within every site"
        warn_user(
            f"covariate {name!r} {what}, so nothing can be removed with it, least of all at a new site; leave it out"
        )


def _few_levels(known: pd.Series, n_people: int, name: str) -> list[str]:
    """The levels of a text column; an error where there are too many of them to be a category."""
    numbers = pd.to_numeric(known, errors="coerce").notna()
    if numbers.mean() > 0.5:
        others = listed(sorted(known[~numbers].unique()))
        raise DataError(f"covariate {name!r} holds numbers, but also {others}; leave unknown values empty")
    if known.str.fullmatch(r"[-+]?\d+,\d+").mean() > 0.5:
        raise DataError(
            f"covariate {name!r} holds numbers with decimal commas, as {known.iloc[0]}; write decimal points"
        )
    return _not_too_many(known, n_people, name)


def _not_too_many(known: pd.Series, n_people: int, name: str) -> list[str]:
    levels = sorted(known.unique())
    if len(levels) > max(FEW, min(MOST, n_people // PEOPLE_PER_LEVEL)):
        raise DataError(
            f"covariate {name!r} has {len(levels)} levels for {n_people} people: {listed(levels)}; a category "
            f"may have {MOST} levels at most, and one for every {PEOPLE_PER_LEVEL} people. Give numbers, join rare "
            "levels, or leave it out"
        )
    return levels


def _date(name: str) -> DataError:
    return DataError(f"covariate {name!r} is a date; give a number instead, such as the age at that date, in years")


def columns_named(table: pd.DataFrame, names: Sequence[str], source: object, most_absent: float = 1.0) -> pd.DataFrame:
    """The columns on which a model was trained, in its order and spelling; those that are absent are missing, and said.

    A larger share of them than ``most_absent`` is an error.

    >>> table = pd.DataFrame({"LH_Area": [800.0], "age": [30.0]})
    >>> columns_named(table, ["lh_area"], "new.csv").columns.tolist()
    ['lh_area']
    """
    by_word = {plain(str(name)): name for name in reversed(table.columns)}
    found = {name: by_word[plain(name)] for name in names if plain(name) in by_word}
    absent = [name for name in names if name not in found]
    if not found:
        raise DataError(
            f"{source} has none of the {len(names)} columns on which the model was trained, as {listed(names)}; it has "
            f"{listed(table.columns)}: give them the names of the training"
        )
    lacks = f"{source} lacks {len(absent)} of the {len(names)} columns on which the model was trained"
    if len(absent) > most_absent * len(names):
        raise DataError(f"{lacks}, {listed(absent)}: measure them, or fit a model on the others")
    if absent:
        warn_user(f"{lacks}, which count as unknown for everybody: {listed(absent)}")
    return table[list(found.values())].set_axis(list(found), axis=1).reindex(columns=list(names))


def head_sizes(cohort: "Cohort") -> pd.Series:
    """Intracranial volume (n,): a column of the people's table, else of a measured one; NaN if there is none.

    >>> import brainroam
    >>> from brainroam.data.atlas import columns_of_table
    >>> from brainroam.data.cohort import Cohort
    >>> people = brainroam.make_cohort(n_sites=2, n_per_site=4, n_rois=8).table
    >>> rows = [np.array([[2.5, 1500.0 + i]]) for i in range(8)]
    >>> head_sizes(Cohort(rows, people, columns_of_table(["thickness", "eTIV"], "study"), measure="table")).tolist()[-1]
    1507.0
    """
    table = cohort.table
    for name in table:
        if HEAD_SIZE.search(str(name)):
            with suppress(ValueError):  # it may be in words
                return pd.Series(as_numbers(table[name]), index=table.index)
    for block in (cohort.blocks or {"": cohort}).values():
        columns = [k for k, name in enumerate(block.atlas.labels) if HEAD_SIZE.search(name)]
        if block.measure == "table" and columns:
            return pd.Series([x[0, columns[0]] for x in block.series], index=table.index, dtype=float)
    return pd.Series(np.nan, index=table.index)
