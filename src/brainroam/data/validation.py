"""The one gate: what a table of people and their series have to be before anything else sees them."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from brainroam.data.groups import validated_groups, validated_persons
from brainroam.data.names import refuse_aliases
from brainroam.data.target import TWO_CLASSES, Target
from brainroam.errors import CONTROL, DataError, listed

COLUMNS = ("subject", "site", "label", "age", "sex", "mean_fd", "tr", "n_timepoints")
NUMERIC = ("label", "age", "sex", "mean_fd", "tr")
LARGEST = 1e15  # no measurement of a person is larger, and squares of such numbers still are numbers
MEASURES = ("series", "matrices", "table")  # what the arrays of a cohort can be
MIN_VOLUMES = 3  # two volumes correlate with 1 or -1, whatever they are
MIN_REGIONS = 4  # of fewer, rounded numbers may be equal by chance


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


def frozen(x: np.ndarray, subject: str, measure: str) -> np.ndarray:
    """A read-only float array of what a cohort measures: series, a matrix or a row of a table."""
    if measure == "series":
        return frozen_series(x, subject)
    if _is_frozen(x) and (measure == "table" or np.array_equal(x, x.T, equal_nan=True)) and x.ndim == 2:
        return x
    try:
        array = np.array(x, dtype=float, order="C")
    except (ValueError, TypeError) as error:
        raise DataError(f"subject {subject}: the {measure} are not numeric ({error})") from error
    array = _whole_matrix(array, subject) if measure == "matrices" else _row(array, subject)
    array.setflags(write=False)
    return array


def _row(x: np.ndarray, subject: str) -> np.ndarray:
    """A row (1, F) of a table; infinite is missing."""
    if x.ndim == 1:
        x = x[None]
    if x.ndim != 2 or len(x) != 1 or x.shape[1] < 1:
        raise DataError(f"subject {subject}: a row of a table has the shape (1, columns), got {x.shape}")
    absurd = np.abs(np.where(np.isfinite(x), x, 0)) > LARGEST
    if absurd.any():
        raise DataError(f"subject {subject}: numbers above {LARGEST:g} cannot be measurements; leave them empty")
    return np.where(np.isfinite(x), x, np.nan)


def _whole_matrix(x: np.ndarray, subject: str) -> np.ndarray:
    """A symmetric matrix: where one triangle is empty the other twice, else their mean; infinite is missing.

    An infinite diagonal, as Fisher's z of 1 has it, is 1.

    >>> _whole_matrix(np.array([[1.0, 0.5], [0.0, 1.0]]), "01").tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    if x.ndim != 2 or x.shape[0] != x.shape[1] or len(x) < 2:
        raise DataError(
            f"subject {subject}: a connectivity matrix is regions x regions, got shape {x.shape}; give the edges of "
            "one person as a square matrix"
        )
    diagonal = np.where(np.isfinite(np.diag(x)), np.diag(x), 1.0)
    x = np.where(np.isfinite(x), x, np.nan)
    upper, lower = np.triu(np.nan_to_num(x), 1), np.tril(np.nan_to_num(x), -1)
    if not lower.any():
        x = np.triu(x, 1) + np.triu(x, 1).T
    elif not upper.any():
        x = np.tril(x, -1) + np.tril(x, -1).T
    else:
        x = (x + x.T) / 2
    np.fill_diagonal(x, diagonal)
    return x


def frozen_series(x: np.ndarray, subject: str) -> np.ndarray:
    """A read-only float array of two dimensions."""
    if _is_frozen(x):
        array = x
    else:
        try:
            array = np.array(x, dtype=float, order="C")
        except (ValueError, TypeError) as error:
            raise DataError(f"subject {subject}: the series is not numeric ({error})") from error
    check_is_series(array, f"subject {subject}")
    array.setflags(write=False)
    return array


def _is_frozen(x: object) -> bool:
    """Whether nobody can change an array, so that it need not be copied."""
    return isinstance(x, np.ndarray) and x.dtype == float and x.flags.c_contiguous and not x.flags.writeable


def check_is_series(x: np.ndarray, whose: str) -> None:
    """Refuse what is no time series: another number of dimensions, too short, or a connectivity matrix.

    >>> check_is_series(np.corrcoef(np.random.default_rng(0).normal(size=(4, 50))), "person 0")
    Traceback (most recent call last):
    brainroam.errors.DataError: person 0: a symmetric matrix of 4 x 4 is a connectivity matrix, no time series; ...
    """
    remedy = "give the series the edges were made of: an array of time x regions for each person"
    if x.ndim != 2 or x.shape[0] < MIN_VOLUMES or x.shape[1] < 2:
        raise DataError(
            f"{whose}: the series must be time x regions with at least {MIN_VOLUMES} volumes and 2 regions, "
            f"got shape {x.shape}" + (f"; if these are vectorised edges, {remedy}" if x.ndim == 1 else "")
        )
    if is_matrix(x):
        raise DataError(
            f"{whose}: a symmetric matrix of {x.shape[0]} x {x.shape[0]} is a connectivity matrix, no time series; "
            f"{remedy}, or pass matrices as one array (n, P, P)"
        )


def is_matrix(x: np.ndarray) -> bool:
    """Whether a matrix is symmetric and not merely empty; the diagonal may hold anything, as with Fisher's z.

    >>> is_matrix(np.eye(3)), is_matrix(np.zeros((3, 3))), is_matrix(np.arange(9).reshape(3, 3))
    (True, False, False)
    """
    if x.ndim != 2 or x.shape[0] != x.shape[1] or x.dtype == object:
        return False
    known = np.where(np.isfinite(x), x, 0)
    size = np.abs(known).max()
    return bool(np.ptp(known) > 0 and np.abs(known - known.T).max() <= 1e-6 * size)


def without_empty_volumes(x: np.ndarray) -> tuple[np.ndarray, int]:
    """The volumes of a series that carry signal, and how many do not.

    A volume is empty when all regions have one and the same number there (zeros of padding or scrubbing) or no finite
    number, or when it repeats an earlier volume exactly (the last one as padding, means in place of what was scrubbed).
    Only regions that vary over time are asked. Where fewer than `MIN_VOLUMES` would be left, nothing is taken away.

    >>> x = np.random.default_rng(0).normal(size=(9, 4)); x[[2, 8]] = 0
    >>> without_empty_volumes(x)[0].shape, without_empty_volumes(x)[1]
    ((7, 4), 2)
    """
    finite = np.isfinite(x)
    y = x if finite.all() else np.where(finite, x, np.nan)
    low, high = np.fmin.reduce(y, axis=0), np.fmax.reduce(y, axis=0)
    y = y[:, low < high]
    if y.shape[1] < MIN_REGIONS:
        return x, 0
    empty = ~(np.fmin.reduce(y, axis=1) < np.fmax.reduce(y, axis=1)) | _copies(y)
    n_empty = int(empty.sum())
    if n_empty == 0 or len(x) - n_empty < MIN_VOLUMES:
        return x, n_empty
    kept = np.array(x[~empty])
    kept.setflags(write=False)
    return kept, n_empty


def _copies(y: np.ndarray) -> np.ndarray:
    """Which rows repeat an earlier one."""
    if len(np.unique(y[:, 0])) == len(y):  # nearly always, and soon seen
        return np.zeros(len(y), dtype=bool)
    rows = np.ascontiguousarray(y + 0.0).view(f"V{y.itemsize * y.shape[1]}").ravel()  # -0.0 becomes 0.0
    copies = np.ones(len(y), dtype=bool)
    copies[np.unique(rows, return_index=True)[1]] = False
    return copies


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
