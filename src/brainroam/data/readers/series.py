"""One file, one series: which suffix is read how, and which files are refused before they can do harm.

A column of times or of volume numbers is no region: it is recognised, left out, and said. Which axis is time is told by
the number of regions, since series that users made themselves are often regions x time, at one site or at all.
That number is that of the atlas, or what nearly all files share along one axis while the other varies. A
file that has it only along its rows was written the other way round.
"""

import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd

from brainroam.data.atlas import SHIPPED
from brainroam.data.edge_values import MOST_Z, correlations_of, largest_edge
from brainroam.data.measurements import is_matrix
from brainroam.data.readers import conn
from brainroam.data.readers.cifti import read_ptseries
from brainroam.data.readers.hdf import is_hdf, open_hdf
from brainroam.data.readers.text import Series, read_text
from brainroam.errors import BrainroamError, DataError, ReaderError, counted, listed

TEXT = (".csv", ".tsv", ".txt", ".1d", ".csv.gz", ".tsv.gz", ".txt.gz", ".1d.gz")
PARCELLATED = ".ptseries.nii"
SUFFIXES = (*TEXT, ".npy", ".npz", ".mat", PARCELLATED)
MAX_VALUES = 250_000_000  # 2 GB of float64: a hundred times the longest scan of the finest atlas
MAX_UNPACKED = 500_000_000
NUMBERS = "fiub"  # kinds of dtypes
NO_NUMBERS = ("cell", "char", "struct", "object", "function", "opaque")  # classes of MATLAB
TIME_NAMES = {"time", "times", "timepoint", "time_point", "tr", "trs", "volume", "volumes", "vol", "frame", "frames"}
FISHER_Z = re.compile(r"fisher[-_ ]?(z|r2z)", re.IGNORECASE)  # in the name of a file, as DPABI writes it
MIN_VOLUMES = 10  # fewer values may go up evenly by chance
MAX_UNEVEN = 0.02  # of a step: times are often rounded
REMEDY = "pass transpose=True (--option transpose=true), or transpose=False if it is right as it is"


def suffix_of(path: Path) -> str:
    """The suffix that decides how a series file is read; empty when the file is none.

    >>> [suffix_of(Path(name)) for name in ("sub-1_atlas-Gordon.ptseries.nii", "A_rois_aal.1D", "notes.md")]
    ['.ptseries.nii', '.1d', '']
    """
    name = path.name.lower()
    return next((suffix for suffix in SUFFIXES if name.endswith(suffix)), "")


@contextmanager
def refusing(source: object, remedy: str = "make or fetch it again") -> Iterator[None]:
    """Turn whatever a parser raises on a damaged file into one sentence about that file."""
    try:
        yield
    except BrainroamError:
        raise
    except Exception as error:  # damaged files make third-party parsers raise anything at all
        reason = getattr(error, "strerror", None) or str(error).split("\n")[0] or type(error).__name__
        raise ReaderError(f"{source} cannot be read ({reason}); {remedy}") from error


def read_series(path: Path, mat_key: str | None = None) -> Series:
    """Read the series of one person from any of `SUFFIXES`, time first."""
    suffix = suffix_of(path)
    if not suffix:
        raise ReaderError(f"{path} is no series file brainroam reads; those end in {', '.join(SUFFIXES)}")
    with refusing(path, "make or fetch it again, or move it away, and its person is left out"):
        if suffix in TEXT:
            series = read_text(path)
        elif suffix == ".npy":
            # Mapping compares the header with the file's size before anything is allocated, and refuses pickles.
            series = Series(as_floats(np.load(path, mmap_mode="r", allow_pickle=False), path))
        elif suffix == ".npz":
            series = Series(read_npz(path, mat_key))
        elif suffix == ".mat":
            series = _read_matlab(path, mat_key)
        else:
            series = read_ptseries(path)
    if series.values.ndim != 2 or min(series.values.shape) < 2:
        raise ReaderError(f"{path} holds an array of shape {series.values.shape}; a series is time x regions")
    if FISHER_Z.search(path.name) and is_matrix(series.values) and largest_edge(series.values) <= MOST_Z:
        note = "Fisher's z by the name of the file, turned back into correlations"
        return replace(series, values=correlations_of(series.values), notes=(*series.notes, note))
    return series if suffix == PARCELLATED else without_time(series)


def as_floats(array: np.ndarray, source: object) -> np.ndarray:
    """The array as floats; complex numbers, text and Python objects are refused."""
    if array.dtype.kind not in NUMBERS:
        raise ReaderError(f"{source} holds values of type {array.dtype}, which are not numbers")
    return np.array(array, dtype=float)


def read_npz(path: Path, key: str | None = None) -> np.ndarray:
    """One array of an archive of NumPy: the one named ``key``, or the one that can be a measurement."""
    check_archive(path)
    with refusing(path), np.load(path, allow_pickle=False) as arrays:
        found = {name: arrays[name] for name in arrays.files}
        shapes = {name: (x.shape if x.dtype.kind in NUMBERS else ()) for name, x in found.items()}
        return _the_array(path, shapes, lambda name: as_floats(found[name], f"{path}: {name!r}"), key)


def read_mat(path: Path, key: str | None = None) -> np.ndarray:
    """One array of a MATLAB file: the one named ``key``, or the one that can be a measurement."""
    return _read_matlab(path, key).values


def _read_matlab(path: Path, key: str | None) -> Series:
    from scipy.io import loadmat, whosmat

    with refusing(path):
        content = BytesIO(path.read_bytes())  # of a file, scipy asks for as much memory as a name claims to be long
        if is_hdf(content.getvalue()[:16]):
            with open_hdf(path) as (shapes, read_one):
                _require_possible(path, shapes)
                return Series(_the_array(path, shapes, lambda name: as_floats(read_one(name), path), key))
        shapes = {name: (() if kind in NO_NUMBERS else shape) for name, shape, kind in whosmat(content)}
        _require_possible(path, shapes)
        if key is None and shapes.keys() >= conn.VARIABLES:
            return conn.series_of_conn(loadmat(content, variable_names=list(conn.VARIABLES)), path)

        def read(name: str) -> np.ndarray:
            return as_floats(loadmat(content, variable_names=[name])[name], f"{path}: {name!r}")

        return Series(_the_array(path, shapes, read, key))


def _require_possible(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> None:
    for name, shape in shapes.items():
        if np.prod(shape, dtype=float) > MAX_VALUES:
            raise ReaderError(f"{path}: {name!r} declares shape {shape}, too large for a time series")


def _the_array(
    path: Path, shapes: Mapping[str, tuple[int, ...]], read: Callable[[str], np.ndarray], key: str | None
) -> np.ndarray:
    """The array of that name; else the only one, the only one of two dimensions or more, or the only square one.

    Correlations beside their Fisher's z are one matrix. ``shapes`` are empty for what is no number.
    """
    present = listed(sorted(shapes), limit=20) or "nothing"
    remedy = "with mat_key (--option mat_key=NAME)"
    if key is not None and key not in shapes:
        raise ReaderError(f"{path} holds no {key!r} but {present}; name one {remedy}")
    large = [name for name, shape in shapes.items() if sum(n > 1 for n in shape) > 1]
    square = [name for name in large if shapes[name][-1] == shapes[name][-2]]
    if key is None:
        key = next((names[0] for names in ([*shapes], large, square) if len(names) == 1), None)
    if key is not None:
        return read(key)
    if len(square) == 2:
        one, other = (read(name) for name in square)
        for r, z in ((one, other), (other, one)):
            if _is_fisher_z_of(z, r):
                return r
    raise ReaderError(f"{path} holds {present}; say which is the measurement {remedy}")


def _is_fisher_z_of(z: np.ndarray, r: np.ndarray) -> bool:
    """Whether one matrix is the inverse hyperbolic tangent of another, beside the diagonal."""
    if z.shape != r.shape or z.ndim != 2:
        return False
    beside = ~np.eye(len(r), dtype=bool)
    return np.allclose(np.tanh(z[beside]), r[beside], atol=1e-4, equal_nan=True) and not np.array_equal(z, r)


def check_archive(path: Path) -> None:
    """Refuse a zip archive (xlsx, npz) that is damaged or unpacks to far more than such a file ever holds."""
    with refusing(path), zipfile.ZipFile(path) as archive:
        unpacked = sum(member.file_size for member in archive.infolist())
        if unpacked > max(MAX_UNPACKED, 2 * path.stat().st_size):
            raise ReaderError(f"{path} unpacks to {unpacked / 1e9:.1f} GB, which no such file needs; it was not opened")


TIME_NAMES |= {"seconds", "sec", "onset", "scan", "row"}


def without_time(series: Series) -> Series:
    """Leave out a first column that is named like time, or goes up by the same step in every row, as no signal does.

    >>> x = np.random.default_rng(0).normal(size=(20, 3))
    >>> x[:, 0] = 2.5 * np.arange(20)
    >>> found = without_time(Series(x))
    >>> found.values.shape, found.notes
    ((20, 2), ('the first column goes up evenly: a time or index, not a region; it was left out',))
    """
    values, names = series.values, series.names
    if values.ndim != 2 or values.shape[1] < 3:
        return series
    if names is not None and names[0].strip().lower().replace(" ", "_") in TIME_NAMES:
        why = f"the first column is named {names[0]!r}"
    elif _goes_up_evenly(values[:, 0]) and not _goes_up_evenly(values[:, 1]):
        why = "the first column goes up evenly"
    else:
        return series
    note = f"{why}: a time or index, not a region; it was left out"
    return replace(series, values=values[:, 1:], names=names and names[1:], notes=(*series.notes, note))


def _goes_up_evenly(column: np.ndarray) -> bool:
    steps = np.diff(column)
    if len(column) < MIN_VOLUMES or not np.isfinite(steps).all():
        return False
    step = float(np.median(steps))
    return step > 0 and float(np.abs(steps - step).max()) <= MAX_UNEVEN * step


def region_count(shapes: Sequence[tuple[int, ...]], n_rois: int | None = None) -> tuple[int, np.ndarray]:
    """The number of regions, and which files have it only along their rows; ``n_rois`` is that of a known atlas.

    >>> n_rois, turned = region_count([(150, 40), (180, 40), (40, 200)])
    >>> n_rois, turned.tolist()
    (40, [False, False, True])
    """
    rows, columns = np.array([shape[:2] for shape in shapes]).T
    if n_rois is None:
        across = len(set(rows)) == 1 and (len(set(columns)) > 1 or rows[0] == SHIPPED["aal"])
        n_rois = int(rows[0]) if across else Counter(columns.tolist()).most_common(1)[0][0]
    return n_rois, (rows == n_rois) & (columns != n_rois)


def align_regions(
    series: list[Series], people: pd.DataFrame, keep: Callable[[Series], Series] | None = None
) -> tuple[list[Series], str]:
    """Put regions that the files name into one order, and say whose, by site; a region that a file lacks is missing.

    The order is that of the first person with most regions. Nothing is done where not everybody's regions are named,
    each once and as there, or with matrices, whose rows would have to change as well; nor with fewer columns that are
    merely numbered from the first on, which may be those of another atlas.
    """
    names = [person.names for person in series]
    known = [one for one in names if one is not None]
    if len(known) < len(names) or len(set(known)) == 1 or any(is_matrix(person.values) for person in series):
        return series, ""
    order = max(known, key=len)
    place = {name: k for k, name in enumerate(order)}
    if any(len(set(one)) < len(one) or not place.keys() >= set(one) for one in set(known)):
        return series, ""
    numbered = all(name[-1:].isdecimal() for name in order)
    move = [one != order and not (numbered and one == order[: len(one)]) for one in known]
    keep = keep or (lambda person: person)
    aligned = [keep(_by_name(x, order, place)) if moves else x for x, moves in zip(series, move, strict=True)]
    moved = pd.Series(move).groupby(people["site"].astype(str).to_numpy()).sum()
    if not any(move):
        return series, ""
    counts = ", ".join(f"{n} at {site}" for site, n in moved.items() if n)
    n = counted(int(moved.sum()), "series has", "series have")
    return aligned, f"{n} regions in another order, or fewer ({counts}): they are read by their names, others missing"


def _by_name(person: Series, order: tuple[str, ...], place: Mapping[str, int]) -> Series:
    values = np.full((len(person.values), len(order)), np.nan)
    values[:, [place[name] for name in person.names or ()]] = person.values
    return replace(person, values=values, names=order)


def turn_to_time_first(
    series: list[Series],
    people: pd.DataFrame,
    n_rois: int | None,
    keep: Callable[[Series], Series] | None = None,
) -> tuple[list[Series], str]:
    """Turn the series that fit only so, and say whose, by site; an error where it cannot be known which way is right.

    With a known atlas nothing is in doubt. Without one, series of several lengths tell it: regions are what all share.
    ``keep`` moves a turned series to disk, for cohorts that memory cannot hold.
    """
    n_regions, turned = region_count([person.values.shape for person in series], n_rois)
    if not turned.any():
        return series, ""
    lengths = {person.values.shape[1 if flip else 0] for person, flip in zip(series, turned, strict=True)}
    if n_rois is None and (turned.all() or len(lengths) == 1):
        first = int(np.flatnonzero(turned)[0])
        height, width = series[first].values.shape
        remedy = (
            REMEDY if turned.all() else "give the atlas (--atlas), a name or a table of its regions, which tells it"
        )
        raise DataError(
            f"subject {people['subject'].iloc[first]}: the series of {height} rows x {width} columns looks transposed "
            f"(rows should be volumes, columns {n_regions} regions; {int(turned.sum())} people are like this); {remedy}"
        )
    of_site = pd.Series(turned).groupby(people["site"].astype(str).to_numpy()).agg(["sum", "size"])
    counts = ", ".join(f"{row['sum']} of {row['size']} at {site}" for site, row in of_site.iterrows() if row["sum"])
    keep = keep or (lambda person: person)
    upright = [keep(_transpose(person)) if flip else person for person, flip in zip(series, turned, strict=True)]
    n = counted(int(turned.sum()), "series is", "series are")
    return upright, f"{n} regions x time and read the other way round ({counts}), for {n_regions} regions"


def _transpose(series: Series) -> Series:
    return replace(series, values=np.ascontiguousarray(series.values.T), names=None)
