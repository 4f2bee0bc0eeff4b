"""Numbers of many people on disk, read as NumPy would read them, some people and some columns at a time.

A Zarr group holds two arrays: ``values`` (n, M), in chunks of some people and some columns with a CRC-32C each, and
``written``, one flag for each batch of people, set when the batch is whole. A command that was killed writes what is
missing, and a chunk that was damaged later is refused.
"""

import hashlib
from collections.abc import Iterator
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from brainroam.errors import ReaderError, UsageError
from brainroam.utils.optional import extra

PEOPLE, COLUMNS = 256, 1024  # in a chunk: two megabytes, since each chunk costs a millisecond whatever its size
MOST_BYTES = 500e6  # to be read at once


class StoredArray(NDArrayOperatorsMixin):
    """A matrix (n, M) on disk, or some of its rows.

    ``array[rows]`` is still on disk; ``array[rows, columns]`` and arithmetic read it. More than `MOST_BYTES` is never
    read at once.

    Examples
    --------
    >>> import tempfile
    >>> array = StoredArray.create(Path(tempfile.mkdtemp()) / "a.zarr", 5, 7)
    >>> array.write(0, np.arange(35.0).reshape(5, 7))
    >>> array[np.array([3, 1])][:, 2:4].tolist(), array.missing()
    ([[23.0, 24.0], [9.0, 10.0]], [])
    """

    on_disk = True

    def __init__(self, path: Path) -> None:
        self.path = path
        group = extra("store", "zarr").open_group(path, mode="r+")
        self._values, self._written, self.batch = group["values"], group["written"], int(group.attrs["batch"])
        self.rows = np.arange(self._values.shape[0])

    @classmethod
    def create(cls, path: Path, n_people: int, n_columns: int) -> "StoredArray":
        """Open it, made if it is new."""
        zarr = extra("store", "zarr")
        group = zarr.open_group(path, mode="a", attributes={"batch": PEOPLE})
        settings = {"dtype": "f8", "fill_value": np.nan, "compressors": zarr.codecs.Crc32cCodec()}
        if "values" not in group:
            group.create_array("values", shape=(n_people, n_columns), chunks=(PEOPLE, COLUMNS), **settings)
        if "written" not in group:
            group.create_array("written", shape=(-(-n_people // PEOPLE),), chunks=(1,), dtype="u1", fill_value=0)
        return cls(path)

    def write(self, k: int, values: np.ndarray) -> None:
        """Write batch k."""
        self._values[k * self.batch : k * self.batch + len(values)] = values
        self._written[k] = 1

    def missing(self) -> list[int]:
        """The batches that are not written yet."""
        return np.flatnonzero(self._written[:] == 0).tolist()

    def people(self, k: int) -> np.ndarray:
        """The rows of batch k."""
        return np.arange(len(self.rows))[k * self.batch : (k + 1) * self.batch]

    @property
    def shape(self) -> tuple[int, int]:
        """People and columns."""
        return len(self.rows), self._values.shape[1]

    @property
    def fingerprint(self) -> bytes:
        """Says which numbers these are, without reading them; for `brainroam.utils.cache`."""
        return hashlib.sha256(f"{self.path.name} {self.shape}".encode() + self.rows.tobytes()).digest()

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, key: Any) -> Any:
        people, columns = key if isinstance(key, tuple) else (key, None)
        rows = self.rows[np.ravel(people) if isinstance(people, np.ndarray) else people]
        if columns is None:
            return self._some(rows)
        return self._read(rows, np.ravel(columns) if isinstance(columns, np.ndarray) else columns)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self._read(self.rows, slice(None)).astype(dtype or float, copy=False)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **settings: Any) -> Any:
        return getattr(ufunc, method)(*(np.asarray(x) if isinstance(x, StoredArray) else x for x in inputs), **settings)

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[k : k + 1, :][0] for k in range(len(self)))

    def _some(self, rows: np.ndarray) -> "StoredArray":
        part = copy(self)
        part.rows = rows
        return part

    def _read(self, rows: np.ndarray, columns: Any) -> np.ndarray:
        width = len(range(self.shape[1])[columns]) if isinstance(columns, slice) else len(columns)
        if 8 * len(rows) * width > MOST_BYTES:
            raise UsageError(
                f"this reads {width} numbers of each of {len(rows)} people at once, which memory need not hold; "
                "of a cohort on disk, use ensemble, core, fc-ridge, log-ridge or scaffold-ridge"
            )
        ordered, place = np.unique(rows, return_inverse=True)  # Zarr reads ascending rows in whole chunks
        try:
            values = self._values.oindex[ordered, columns]
        except Exception as error:  # a damaged chunk makes zarr raise anything at all
            raise ReaderError(f"{self.path} is damaged ({error}); delete it and start the command again") from error
        return np.asarray(values)[place]
