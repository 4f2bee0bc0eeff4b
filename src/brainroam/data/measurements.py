"""What was measured of one person: a series, a matrix of edges, or a row of a table.

Each is checked here once (`freeze`), before anything else sees it, and never changes afterwards.
"""

import hashlib
import warnings
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pandas as pd

from brainroam.data.edge_values import are_fisher_z, correlations_of
from brainroam.data.people import LARGEST
from brainroam.errors import DataError, counted, listed

MEASURES = ("series", "matrices", "table")  # what the arrays of a cohort can be
MISSING = {
    "series": "{} of {} regions are constant or not finite",
    "matrices": "{} of {} regions have no edges",
    "table": "{} of {} columns are missing",
}
MOST_MISSING, MOST_MISSING_COLUMNS = 0.2, 0.9  # share of regions, or of columns of a table, that a person may lack
MIN_VOLUMES = 3  # two volumes correlate with 1 or -1, whatever they are
MIN_REGIONS = 4  # of fewer, rounded numbers may be equal by chance
MANY_REGIONS, BOTH_WAYS = 20, 0.15
EMPTY = "empty_volumes"  # the column that counts volumes without signal, where somebody had any
NOT_SYMMETRIC = "matrices are not symmetric"
TURNED = "Fisher's z were turned back into correlations"
DROPPED = "volumes without signal were dropped"
READ_AS = "were read as measures"  # columns of a table, whose name is told


def check_arrays(series: Sequence[np.ndarray], table: pd.DataFrame, measure: str) -> tuple[list[np.ndarray], list[str]]:
    """The measurements of the people of a table, ready to be used, and what was done to them in words.

    Volumes without signal are dropped and counted in the table, and Fisher's z become correlations.
    """
    arrays = [freeze(x, subject, measure) for x, subject in zip(series, table["subject"], strict=True)]
    check_width(arrays, table["subject"], measure)
    if measure == "series":
        kept = [without_empty_volumes(x) for x in arrays]
        return [x for x, _ in kept], count_empty(table, [n for _, n in kept], stacklevel=4)
    if measure == "table":
        return arrays, []
    odd = [who for x, who in zip(series, table["subject"], strict=True) if _two_triangles(np.asarray(x))]
    whose = listed(odd) if len(odd) < len(arrays) else "those of everybody"
    steps = [f"{NOT_SYMMETRIC}: {whose}; the mean of both triangles is read"] if odd else []
    if are_fisher_z(arrays, series):
        return [correlations_of(x) for x in arrays], [*steps, TURNED]
    return arrays, steps


def freeze(x: np.ndarray, subject: str, measure: str) -> np.ndarray:
    """A read-only float array of what a cohort measures: series, a matrix or a row of a table."""
    if measure == "series":
        return freeze_series(x, subject)
    if _is_frozen(x) and (measure == "table" or np.array_equal(x, x.T, equal_nan=True)) and x.ndim == 2:
        return x
    try:
        array = np.array(x, dtype=float, order="C")
    except (ValueError, TypeError) as error:
        raise DataError(f"subject {subject}: the {measure} are not numeric ({error})") from error
    array = _whole_matrix(array, subject) if measure == "matrices" else _row(array, subject)
    array.setflags(write=False)
    return array


def freeze_series(x: np.ndarray, subject: str) -> np.ndarray:
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


def _two_triangles(x: np.ndarray) -> bool:
    """Whether the two triangles of a matrix differ, and neither is merely empty."""
    known = np.where(np.isfinite(x), x, 0.0)
    upper, lower = np.triu(known, 1), np.tril(known, -1).T
    return bool(upper.any() and lower.any() and np.abs(upper - lower).max() > 1e-6 * np.abs(known).max())


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


def resembles_matrix(x: np.ndarray) -> bool:
    """Whether a matrix is one of edges, directed ones too.

    It is square, and symmetric, or has one number on its diagonal, or edges i -> j and j -> i correlate by more than
    `BOTH_WAYS` once rows and columns are centred. Of series of as many volumes as regions few do so with `MANY_REGIONS`
    (98 % within .2 of 0 with 20 regions of 104 people of ABIDE, .1 with 39), and most people decide.

    >>> resembles_matrix(np.array([[0, 0.5, 0.1], [0.2, 0, 0.3], [0.4, 0.6, 0]])), resembles_matrix(np.eye(3)[:2])
    (True, False)
    """
    if x.ndim != 2 or x.shape[0] != x.shape[1] or x.dtype == object:
        return False
    finite = np.isfinite(x)
    known = np.where(finite, x, 0.0)
    one_diagonal = np.ptp(np.diag(known)) <= 1e-6 and finite.any() and np.ptp(x[finite]) > 0
    return is_matrix(x) or bool(one_diagonal) or (len(x) >= MANY_REGIONS and _reciprocity(known) > BOTH_WAYS)


def _reciprocity(x: np.ndarray) -> float:
    """Correlation of x[i, j] with x[j, i], i < j, without the means of rows and columns."""
    centred = x - x.mean(axis=0) - x.mean(axis=1, keepdims=True) + x.mean()
    upper = np.triu_indices(len(x), 1)
    one, other = centred[upper], centred.T[upper]
    return float(np.corrcoef(one, other)[0, 1]) if np.ptp(one) > 0 and np.ptp(other) > 0 else 0.0


def are_matrices(arrays: Sequence[np.ndarray]) -> bool:
    """Whether most arrays are matrices of edges; a few may not be symmetric, or not square, which is told of later.

    >>> are_matrices([np.eye(3), np.eye(3), np.ones((9, 3))])
    True
    """
    return 2 * sum(resembles_matrix(np.asarray(x)) for x in arrays) > len(arrays)


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


def count_empty(table: pd.DataFrame, counts: Sequence[int], stacklevel: int = 3) -> list[str]:
    """Add numbers of empty volumes to a table that is being made; what was done to the series, in words."""
    n_empty = np.array(counts)
    before = table[EMPTY].to_numpy(dtype=int) if EMPTY in table else np.zeros(len(table), dtype=int)
    affected = (n_empty > 0) & (n_empty != before)  # who has hardly any other volume keeps them, and was counted before
    if not affected.any():
        return []
    table[EMPTY] = np.where(affected, n_empty, before)
    n_empty = np.where(affected, n_empty, 0)
    who = np.flatnonzero(n_empty)
    each = listed(f"{table['subject'].iat[i]} ({n_empty[i]})" for i in who[np.argsort(-n_empty[who], kind="stable")])
    warnings.warn(
        f"{DROPPED} from the series of {len(who)} of {len(table)} people: {each}; they are equal in all regions, or "
        "repeat another volume, as padding and scrubbing leave them; brainroam check counts them by class and site",
        stacklevel=stacklevel,
    )
    return [
        f"{DROPPED} ({counted(int(n_empty.sum()), 'volume', 'volumes')} of {counted(len(who), 'person', 'people')})"
    ]


def check_width(series: Sequence[np.ndarray], subjects: pd.Series, measure: str) -> None:
    """Refuse people who differ in their number of regions, or columns."""
    widths = np.array([x.shape[1] for x in series])
    values, counts = np.unique(widths, return_counts=True)
    usual = int(values[counts.argmax()])
    if len(values) > 1:
        odd = np.flatnonzero(widths != usual)
        people = listed(f"{subjects.iloc[i]} ({widths[i]})" for i in odd)
        most = {"series": "most series have", "matrices": "most matrices have", "table": "most rows have"}[measure]
        what = "columns" if measure == "table" else "regions"
        remedy = "all need the same columns" if measure == "table" else "all must come from one atlas"
        differ = counted(len(odd), "differs", "differ")
        raise DataError(
            f"{most} {usual} {what} but {differ}: {people}; {remedy}: mend these, or leave these people out"
        )


def empty_measurement(measure: str, width: int) -> np.ndarray:
    """The array of a person who lacks a measurement: NaN in its shape.

    >>> empty_measurement("table", 2)
    array([[nan, nan]])
    """
    return np.full((1 if measure == "table" else max(width, 3), width), np.nan)


def most_missing(measure: str, asked: float = MOST_MISSING) -> float:
    """The share of regions that a person may lack; of columns nearly all, unless a share of one's own is asked for.

    A missing column is filled in within training, where a region without signal takes all its edges with it.

    >>> most_missing("series"), most_missing("table"), most_missing("table", 0.5)
    (0.2, 0.9, 0.5)
    """
    return MOST_MISSING_COLUMNS if measure == "table" and asked == MOST_MISSING else asked


def missing_rois(series: Sequence[np.ndarray], measure: str = "series") -> np.ndarray:
    """Which regions carry no signal in which person.

    Of series, regions that are constant or have a non-finite value; of matrices, regions all of whose edges are NaN, or
    all zero; of tables, columns that are NaN. Returns a boolean array (n people, P regions or columns).

    >>> x = np.random.default_rng(0).normal(size=(20, 3)); x[:, 1] = 5.0
    >>> missing_rois([x])
    array([[False,  True, False]])
    """
    lacks = {"series": _flat_columns, "matrices": _no_edges, "table": lambda x: np.isnan(x[0])}[measure]
    return np.stack([lacks(x) for x in series])


def _no_edges(x: np.ndarray) -> np.ndarray:
    others = np.where(np.eye(len(x), dtype=bool), 0.0, np.nan_to_num(x))
    return np.asarray(~others.any(axis=0))


def _flat_columns(x: np.ndarray) -> np.ndarray:
    low, high = x.min(axis=0), x.max(axis=0)  # a NaN or inf anywhere in a column shows in its range
    with np.errstate(invalid="ignore"):
        spread = high - low
        alive = spread > 1e-10 * np.maximum(np.abs(low), np.abs(high))
    return ~(alive & np.isfinite(spread))


def spectral(matrix: np.ndarray, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Apply a function to the eigenvalues of symmetric matrices (..., P, P).

    >>> spectral(np.diag([1.0, 4.0]), np.sqrt).tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * function(values)[..., None, :]) @ np.swapaxes(vectors, -1, -2)


def edge_vectors(matrices: Iterable[np.ndarray], missing: np.ndarray) -> np.ndarray:
    """Upper triangles (n, M) of one matrix per participant, NaN at the edges of regions without signal.

    >>> edge_vectors([np.array([[1.0, 0.5], [0.5, 1.0]])], np.array([[False, False]])).tolist()
    [[0.5]]
    """
    n_people, n_rois = missing.shape
    u, v = np.triu_indices(n_rois, 1)
    flat = u * n_rois + v
    vectors = np.empty((n_people, len(flat)))
    for vector, matrix in zip(vectors, matrices, strict=True):
        np.take(matrix.reshape(-1), flat, out=vector)
    vectors[missing[:, u] | missing[:, v]] = np.nan
    return vectors


def without_signal(series: Sequence[np.ndarray]) -> np.ndarray:
    """Regions without signal (n, P), of what really are series.

    >>> without_signal([np.array([[1.0, 5.0], [2.0, 5.0], [4.0, 5.0]])]).tolist()
    [[False, True]]
    """
    if not len(series):
        raise DataError("no people were given")
    for i, x in enumerate(series):
        check_is_series(np.asarray(x), f"person {i}")
    widths = {np.shape(x)[1] for x in series}
    if len(widths) > 1:
        raise DataError(f"series of {listed(sorted(widths))} regions cannot be compared: all must come from one atlas")
    return missing_rois(series)


def series_digest(x: np.ndarray) -> str:
    """SHA-256 of a series: shape, then float64 bytes."""
    return hashlib.sha256(repr(x.shape).encode() + x.tobytes()).hexdigest()
