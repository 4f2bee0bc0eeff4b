"""The one gate: what a table of people has to be before anything else sees it."""

import numpy as np
import pandas as pd

from brainroam.data.groups import validated_groups, validated_persons
from brainroam.data.names import refuse_aliases
from brainroam.data.target import TWO_CLASSES, Target
from brainroam.errors import CONTROL, DataError, listed

COLUMNS = ("subject", "site", "label", "age", "sex", "mean_fd", "tr", "n_timepoints")
NUMERIC = ("label", "age", "sex", "mean_fd", "tr")
LARGEST = 1e15  # no measurement of a person is larger, and squares of such numbers still are numbers


def validated_table(table: pd.DataFrame, n_series: int, target: Target = TWO_CLASSES) -> pd.DataFrame:
    """A clean copy: text ids and sites, numeric covariates, known labels only, columns in the promised order."""
    absent = [name for name in ("subject", "site", "label") if name not in table]
    if absent:
        raise DataError(
            f"the table lacks the column(s) {', '.join(absent)}; it has {', '.join(map(str, table.columns))}"
        )
    if len(table) != n_series:
        raise DataError(f"the table has {len(table)} rows but there are {n_series} series")
    if n_series == 0:
        raise DataError("the cohort has no people")
    table = table.reset_index(drop=True).copy()
    for name in ("subject", "site"):
        if table[name].isna().any():
            raise DataError(f"the column {name!r} is empty in row(s) {listed(np.flatnonzero(table[name].isna()))}")
        table[name] = table[name].astype(str)
        unprintable = table[name].str.contains(CONTROL)
        if unprintable.any():
            raise DataError(
                f"control characters stand in the column {name!r}: {listed(table.loc[unprintable, name].unique())}; "
                "no name needs them: take them out"
            )
    twice = table.loc[table["subject"].duplicated(), "subject"].unique()
    if len(twice):
        raise DataError(
            f"the same subject id stands more than once: {listed(twice)}; every person needs an id of their own "
            "(name a person with several scans in the column 'person', and each scan in 'subject')"
        )
    refuse_aliases(table["site"], "site")
    for name in NUMERIC:
        table[name] = _numbers(table, name)
    strange = ~(table["label"].isin(range(len(target.classes))) | table["label"].isna())
    if strange.any() and target.is_two_classes:
        people = listed(table.loc[strange, "subject"])
        raise DataError(
            f"labels must be 1 (condition) or 0 (control); {people} have "
            f"{listed(table.loc[strange, 'label'].unique())}; "
            "to predict a number or several classes, name the column as the target"
        )
    if strange.any() and target.classes:
        raise DataError(f"labels must be codes of the {len(target.classes)} classes of {target.name!r}")
    if target.classes and not table["label"].isna().any():
        table["label"] = table["label"].astype(int)
    if "institution" in table:
        named = table["institution"].astype(object).where(table["institution"].notna(), "").astype(str).str.strip()
        table["institution"] = named.where(named != "", table["site"])
    if "person" in table:
        table = validated_persons(table)
    if "group" in table:
        table = validated_groups(table)
    return table[[*COLUMNS[:-1], *(name for name in table.columns if name not in COLUMNS)]]


def _numbers(table: pd.DataFrame, name: str) -> pd.Series:
    """A numeric column, NaN where unknown; an error for text and for what no measurement can be."""
    try:
        values = pd.to_numeric(table[name]).astype(float) if name in table else pd.Series(np.nan, table.index)
    except (ValueError, TypeError) as error:
        raise DataError(f"the column {name!r} must be numeric: {error}") from error
    absurd = values.abs() > LARGEST
    if absurd.any():
        people = zip(table.loc[absurd, "subject"], values[absurd], strict=True)
        each = listed(f"{subject} ({value:g})" for subject, value in people)
        raise DataError(
            f"the column {name!r} holds numbers too large to be measurements: {each}; leave unknown values empty"
        )
    return values
