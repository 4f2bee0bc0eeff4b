"""The one gate: what a table of people and their series have to be before anything else sees them."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from brainroam.errors import CONTROL, DataError, listed

COLUMNS = ("subject", "site", "batch", "label", "age", "sex", "mean_fd", "tr", "n_timepoints")
NUMERIC = ("label", "age", "sex", "mean_fd", "tr")


def validated_table(table: pd.DataFrame, n_series: int) -> pd.DataFrame:
    """A clean copy: text ids and sites, numeric covariates, known labels only, columns in the promised order."""
    absent = [name for name in ("subject", "site", "label") if name not in table]
    if absent:
        raise DataError(
            f"the table lacks the column(s) {', '.join(absent)}; it has {', '.join(map(str, table.columns))}"
        )
    if len(table) != n_series:
        raise DataError(f"the table has {len(table)} rows but there are {n_series} series")
    if n_series == 0:
        raise DataError("the cohort holds nobody")
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
            f"the same subject id stands more than once: {listed(twice)}; every person needs an id of their own"
        )
    if "batch" not in table:
        table["batch"] = table["site"]
    for name in NUMERIC:
        try:
            table[name] = pd.to_numeric(table[name]).astype(float) if name in table else np.nan
        except (ValueError, TypeError) as error:
            raise DataError(f"the column {name!r} must be numeric: {error}") from error
    strange = ~(table["label"].isin([0, 1]) | table["label"].isna())
    if strange.any():
        people = listed(table.loc[strange, "subject"])
        raise DataError(
            f"labels must be 1 (condition) or 0 (control); {people} have {listed(table.loc[strange, 'label'].unique())}"
        )
    if not table["label"].isna().any():
        table["label"] = table["label"].astype(int)
    return table[[*COLUMNS[:-1], *(name for name in table.columns if name not in COLUMNS)]]


def frozen_series(x: np.ndarray, subject: str) -> np.ndarray:
    """A read-only float array of two dimensions."""
    if (
        isinstance(x, np.ndarray)
        and x.dtype == float
        and x.flags.c_contiguous
        and not x.flags.writeable
        and x.ndim == 2
        and min(x.shape) >= 2
    ):
        return x  # nobody can change it, so it need not be copied
    try:
        array = np.array(x, dtype=float, order="C")
    except (ValueError, TypeError) as error:
        raise DataError(f"subject {subject}: the series is not numeric ({error})") from error
    if array.ndim != 2 or array.shape[0] < 2 or array.shape[1] < 2:
        raise DataError(
            f"subject {subject}: the series must be time x regions with at least 2 of each, got shape {array.shape}"
        )
    array.setflags(write=False)
    return array


def common_width(series: Sequence[np.ndarray], subjects: pd.Series) -> int:
    """The number of regions all series share."""
    widths = np.array([x.shape[1] for x in series])
    values, counts = np.unique(widths, return_counts=True)
    usual = int(values[counts.argmax()])
    if len(values) > 1:
        odd = np.flatnonzero(widths != usual)
        people = listed(f"{subjects.iloc[i]} ({widths[i]})" for i in odd)
        raise DataError(
            f"most series have {usual} regions but {len(odd)} differ: {people}; all must come from one atlas"
        )
    return usual
