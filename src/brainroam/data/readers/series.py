"""One file, one series: which suffix is read how, and which files are refused before they can do harm."""

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import numpy as np

from brainroam.data.readers.cifti import read_ptseries
from brainroam.data.readers.text import Series, read_text
from brainroam.data.readers.time_column import without_time
from brainroam.errors import BrainroamError, ReaderError, listed

TEXT = (".csv", ".tsv", ".txt", ".1d", ".csv.gz", ".tsv.gz", ".txt.gz", ".1d.gz")
PARCELLATED = ".ptseries.nii"
SUFFIXES = (*TEXT, ".npy", ".npz", ".mat", PARCELLATED)
MAX_VALUES = 250_000_000  # 2 GB of float64: a hundred times the longest scan of the finest atlas
MAX_UNPACKED = 500_000_000


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
    with refusing(path):
        if suffix in TEXT:
            series = read_text(path)
        elif suffix == ".npy":
            # Mapping compares the header with the file's size before anything is allocated, and refuses pickles.
            series = Series(as_floats(np.load(path, mmap_mode="r", allow_pickle=False), path))
        elif suffix == ".npz":
            series = Series(read_npz(path))
        elif suffix == ".mat":
            series = Series(read_mat(path, mat_key))
        else:
            series = read_ptseries(path)
    if series.values.ndim != 2 or min(series.values.shape) < 2:
        raise ReaderError(f"{path} holds an array of shape {series.values.shape}; a series is time x regions")
    return series if suffix == PARCELLATED else without_time(series)


def as_floats(array: np.ndarray, source: object) -> np.ndarray:
    """The array as floats; complex numbers, text and Python objects are refused."""
    if array.dtype.kind not in "fiub":
        raise ReaderError(f"{source} holds values of type {array.dtype}, which are not numbers")
    return np.array(array, dtype=float)


def read_npz(path: Path) -> np.ndarray:
    """The only array of an archive of NumPy."""
    check_archive(path)
    with refusing(path), np.load(path, allow_pickle=False) as arrays:
        if len(arrays.files) != 1:
            raise ReaderError(f"{path} holds {listed(arrays.files) or 'nothing'}; keep one array in a file")
        return as_floats(arrays[arrays.files[0]], path)


def read_mat(path: Path, key: str | None = None) -> np.ndarray:
    """One matrix of a MATLAB file: the one named ``key``, or the only one there is."""
    from scipy.io import loadmat, whosmat

    with refusing(path):
        content = BytesIO(path.read_bytes())  # of a file, scipy asks for as much memory as a name claims to be long
        try:
            shapes = {name: shape for name, shape, _ in whosmat(content)}
        except NotImplementedError as error:
            raise ReaderError(f"{path} is a MATLAB v7.3 file; save it again in MATLAB with save(..., '-v7')") from error
        key = _mat_key(path, shapes, key)
        if np.prod(shapes[key], dtype=float) > MAX_VALUES:
            raise ReaderError(f"{path}: {key!r} declares shape {shapes[key]}, too large for a time series")
        return as_floats(loadmat(content, variable_names=[key])[key], f"{path}: {key!r}")


def _mat_key(path: Path, shapes: dict[str, tuple[int, ...]], key: str | None) -> str:
    present = listed(sorted(shapes), limit=20) or "nothing"
    if key is None and len(shapes) == 1:
        return next(iter(shapes))
    if key is None:
        raise ReaderError(f"{path} holds {present}; say which is the series with mat_key (--option mat_key=NAME)")
    if key not in shapes:
        raise ReaderError(f"{path} holds no {key!r} but {present}; name one with mat_key (--option mat_key=NAME)")
    return key


def check_archive(path: Path) -> None:
    """Refuse a zip archive (xlsx, npz) that is damaged or unpacks to far more than such a file ever holds."""
    with refusing(path), zipfile.ZipFile(path) as archive:
        unpacked = sum(member.file_size for member in archive.infolist())
        if unpacked > max(MAX_UNPACKED, 2 * path.stat().st_size):
            raise ReaderError(f"{path} unpacks to {unpacked / 1e9:.1f} GB, which no such file needs; it was not opened")
