"""MATLAB's v7.3 files, which are HDF5: h5py reads them, where it is installed.

MATLAB writes its columns first, so that an array lies there with its axes turned round; files that h5py itself wrote
have them as they are.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from brainroam.errors import ReaderError
from brainroam.utils.optional import installed

MATLAB, HDF = b"MATLAB 7.3", b"\x89HDF"  # how such a file begins, written by MATLAB and by others


def is_hdf(content: bytes) -> bool:
    """Whether a file that begins so is HDF5.

    >>> is_hdf(b"MATLAB 7.3 MAT-file, Platform: GLNXA64"), is_hdf(b"MATLAB 5.0 MAT-file")
    (True, False)
    """
    return content.startswith((MATLAB, HDF))


@contextmanager
def open_hdf(path: Path) -> Iterator[tuple[dict[str, tuple[int, ...]], Callable[[str], np.ndarray]]]:
    """The shape of every variable, empty where it is no array of numbers, and what reads one of them."""
    if not installed("h5py"):
        raise ReaderError(
            f"{path} is a MATLAB v7.3 file, which needs h5py: pip install h5py; or save it again in MATLAB with "
            "save(..., '-v7')"
        )
    import h5py

    with open(path, "rb") as raw:
        turned = raw.read(len(MATLAB)) == MATLAB
    with h5py.File(path, "r") as file:
        variables = {str(name): item for name, item in file.items() if isinstance(item, h5py.Dataset)}
        shapes = {name: (item.shape[::-1] if turned else item.shape) for name, item in variables.items()}
        for name, item in variables.items():
            if (
                item.attrs.get("MATLAB_class", b"double") in (b"char", b"cell", b"struct")
                or item.dtype.kind not in "fiub"
            ):
                shapes[name] = ()
        yield shapes, lambda name: variables[name][()].T if turned else variables[name][()]
