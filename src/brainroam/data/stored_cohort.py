"""A cohort whose series stay in their store, and whose edges are on disk: for more people than memory holds.

It is used like any `Cohort`. What differs are its `StoredFeatures`: series are read when they are asked for, features
of more than a few people are computed batch by batch into a `StoredArray`, site after site so that a site lies
together, and summaries of sites are kept in files (`brainroam.utils.cache.DiskCache`). All of it is below ``work``,
where a command that was killed, and other processes, find what is finished.

A `StoredArray` is read as NumPy would read it, some people and some columns at a time. Its Zarr group holds two
arrays: ``values`` (n, M), in chunks of some people and some columns with a CRC-32C each, and ``written``, one flag for
each batch of people, set when the batch is whole. A command that was killed writes what is missing, and a chunk that
was damaged later is refused.
"""

import hashlib
import math
import pickle
import tempfile
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any, overload

import numpy as np
import pandas as pd
from numpy.lib.mixins import NDArrayOperatorsMixin

from brainroam.data.cohort import Cohort
from brainroam.data.features import Block, Columns, Features, GrowingColumns
from brainroam.data.measurements import empty_measurement, series_digest
from brainroam.data.people import manifest_hash
from brainroam.data.store import CohortStore
from brainroam.data.target import TWO_CLASSES
from brainroam.errors import ReaderError, UsageError
from brainroam.utils.cache import DiskCache
from brainroam.utils.optional import extra

PEOPLE, COLUMNS = 256, 1024  # in a chunk: two megabytes, since each chunk costs a millisecond whatever its size
MOST_BYTES = 500e6  # to be read at once
BATCH = 64  # people read together
NARROW = ("missing_rois", "own_units", "motion")  # features of so few columns that they stay in memory
BLOCKS = 6  # of edges of everybody that are held at a time: values, what is left of them, and copies


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
    def column_blocks(self) -> list[slice]:
        """Its columns, a chunk at a time, see `brainroam.data.features.column_blocks`."""
        width = self.shape[1]
        return [slice(start, min(start + COLUMNS, width)) for start in range(0, width, COLUMNS)]

    @property
    def fingerprint(self) -> bytes:
        """A hash that identifies the numbers without reading them; for `brainroam.utils.cache`."""
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


class StoredSeries(Sequence):
    """Series of some people of a store, each read when it is asked for; NaN of those whom it does not hold (-1)."""

    def __init__(self, store: CohortStore, rows: Sequence[int]) -> None:
        self._store, self._rows = store, rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, k: int) -> np.ndarray: ...
    @overload
    def __getitem__(self, k: slice) -> list[np.ndarray]: ...
    def __getitem__(self, k: int | slice) -> np.ndarray | list[np.ndarray]:
        return list(self._read(self._rows[k])) if isinstance(k, slice) else next(self._read([self._rows[k]]))

    def __iter__(self) -> Iterator[np.ndarray]:
        return self._read(self._rows)

    def _read(self, rows: Sequence[int]) -> Iterator[np.ndarray]:
        for row in rows:
            store = self._store
            yield next(store.series([row])) if row >= 0 else empty_measurement(store.measure, store.n_rois)


class StoredFeatures(Features):
    """Series of people of a store, and their features on disk.

    Parameters
    ----------
    store : CohortStore
    rows : ndarray of int
        These people of the store; -1 is somebody who lacks what it holds.
    people : DataFrame
        The people, row for row.
    work : path
        A folder for features and summaries.
    memory : float
        Bytes that one process may use.
    """

    on_disk = True
    folder: Path

    @property
    def at_once(self) -> int:
        """How many people to read together."""
        return BATCH

    def __init__(self, store: CohortStore, rows: np.ndarray, people: pd.DataFrame, work: Path, memory: float) -> None:
        super().__init__(StoredSeries(store, rows.tolist()))
        self.store, self.rows, self.people, self.work, self.memory = store, rows, people, work, memory
        nothing = series_digest(empty_measurement(store.measure, store.n_rois))
        table, digests = people, [store.digests[row] if row >= 0 else nothing for row in rows]
        self.folder = work / manifest_hash(table, digests)[:16]
        self.cache = DiskCache(self.folder / "summaries", int(memory / 4))
        # A site's people lie together, so that reading one site reads few chunks.
        self._order = np.lexsort((table["subject"].to_numpy().astype(str), table["site"].to_numpy().astype(str)))
        self._narrow = {"digest": np.array(digests)}  # features of a few columns, in memory

    def of(self, rows: np.ndarray) -> StoredSeries:
        """The series of some people, read when asked for."""
        return StoredSeries(self.store, self.rows[rows].tolist())

    def at(self, rows: np.ndarray) -> "StoredFeatures":
        """Features of some people alone, in a folder of their own."""
        part = self._of(self.rows[rows], self.people.iloc[rows])
        part._narrow = {name: values[rows] for name, values in self._narrow.items()}
        return part

    def without(self, mask: np.ndarray) -> "StoredFeatures":
        """The same where these people lack the measurement."""
        return self._of(np.where(mask, -1, self.rows), self.people)

    def heights(self, rows: np.ndarray) -> list[float]:
        """How many rows the arrays of some people have; NaN of those who have none."""
        own = self.rows[rows]
        return np.where(own >= 0, self.store.heights(own), np.nan).tolist()

    def _of(self, rows: np.ndarray, people: pd.DataFrame) -> "StoredFeatures":
        return StoredFeatures(self.store, rows, people, self.work, self.memory)

    def per_person(self, key: str, compute: Callable[[list[np.ndarray]], np.ndarray], rows: np.ndarray) -> Any:
        """See `Features.per_person`; wide features of more than a batch of people stay on disk."""
        if key in NARROW and key not in self._narrow:

            def everybody() -> np.ndarray:
                return np.concatenate([compute([x]) for x in self.arrays])

            self._narrow[key] = self.cache.summary(key, [self._narrow["digest"]], everybody)
        if key in self._narrow:
            return self._narrow[key][rows]
        if len(rows) <= BATCH and not self._path(key).exists():
            return compute(list(self.of(rows)))
        stored = self.create_array(key, compute)
        for k in stored.missing():
            self.write(stored, k, compute)
        return stored[np.argsort(self._order)[rows]]

    def create_array(self, key: str, compute: Callable[[list[np.ndarray]], np.ndarray]) -> StoredArray:
        """The array of a feature of everybody, which need not be written yet."""
        return StoredArray.create(self._path(key), len(self.rows), compute([self.arrays[0]]).shape[1])

    def write(self, stored: StoredArray, k: int, compute: Callable[[list[np.ndarray]], np.ndarray]) -> None:
        """Compute and write one batch of a feature."""
        stored.write(k, compute(list(self.of(self._order[stored.people(k)]))))

    def has(self, key: str) -> bool:
        """Whether everybody's are written."""
        return self._path(key).exists() and not StoredArray(self._path(key)).missing()

    def batches(self, people: np.ndarray) -> list[np.ndarray]:
        """Larger batches than for series: of some columns many people fit, and every batch pools slopes anew."""
        return [people[start : start + 2 * BATCH] for start in range(0, len(people), 2 * BATCH)]

    def columns(self, values: StoredArray, columns: np.ndarray) -> "FileColumns":
        """These columns of everybody, person by person in a file: reading them from chunks takes ten times as long."""
        return FileColumns(self.folder, len(values), columns, lambda people: values[np.ix_(people, columns)])

    def kept_rows(self, n_people: int, width: int, read: Callable[[np.ndarray], np.ndarray]) -> Columns:
        """In a file; of a few people in memory."""
        if n_people <= BATCH:
            return super().kept_rows(n_people, width, read)
        return FileColumns(self.folder, n_people, np.arange(width), read)

    def growing_columns(self, name: Hashable, who: list[np.ndarray], n_columns: int) -> GrowingColumns:
        """Empty ones each time: of everybody they are too large to be kept, and nothing is computed ahead."""
        return GrowingColumns(math.inf)

    def fold_storage(self) -> dict:
        """A dictionary on disk."""
        return FoldStorage(self.folder)

    def with_fold(self, kept: Mapping, fold: Any, value: Any) -> Mapping:
        """Only that of the last fold: even those are large."""
        return {fold: value}

    def read_ahead(self, unread: Any) -> Any:
        """People stay on disk until they are asked for."""
        return unread

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.zarr"


class FileColumns:
    """Columns of everybody in a file, a person in one piece, for as long as this object lives.

    People are read in any order again and again, by this process alone: a plain file does that ten times as fast as
    chunks of Zarr, whose checksums and shared writing nobody needs here.
    """

    def __init__(
        self, folder: Path, n_people: int, columns: np.ndarray, read: Callable[[np.ndarray], np.ndarray]
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(dir=folder, prefix="scratch-")
        self._path, self._columns = Path(self._folder.name) / "columns", columns
        with self._path.open("wb") as file:
            for start in range(0, n_people, BATCH):
                read(np.arange(start, min(start + BATCH, n_people))).astype(float).tofile(file)

    def read(self, people: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """The values of some people, by position, in some columns."""
        values, width = np.empty((len(people), len(columns))), len(self._columns)
        places = np.searchsorted(self._columns, columns)
        with self._path.open("rb") as file:
            for row, person in zip(values, people.tolist(), strict=True):
                file.seek(8 * width * person)
                row[:] = np.fromfile(file, float, width)[places]
        return values


class FoldStorage(dict):
    """A dictionary whose values lie on disk, for this process alone.

    They are pickled, which nothing that comes from outside ever is: this process wrote them, in a folder that only its
    user may open.

    >>> fold_storage = FoldStorage(Path(tempfile.mkdtemp()))
    >>> fold_storage["fold"] = [1, 2]
    >>> fold_storage["fold"]
    [1, 2]
    """

    def __init__(self, folder: Path) -> None:
        self._folder = tempfile.TemporaryDirectory(dir=folder, prefix="fold_storage-")

    def __setitem__(self, key: Any, value: Any) -> None:
        path = Path(self._folder.name) / f"{len(self)}"
        path.write_bytes(pickle.dumps(value))
        super().__setitem__(key, path)

    def __getitem__(self, key: Any) -> Any:
        return pickle.loads(super().__getitem__(key).read_bytes())


class StoredCohort(Cohort):
    """People of a store whose series stay there.

    Parameters
    ----------
    store : path
        See `brainroam.data.store`.
    work : path
        A folder for edges and summaries.
    memory : float
        Bytes that one process may use.
    sites : sequence of str, optional
        Only these.
    require_label : bool
        Leave out people without a label.
    max_missing_rois : float
        As in `brainroam.load_cohort`.

    Examples
    --------
    >>> import brainroam, tempfile
    >>> from brainroam.data.store import write_store
    >>> folder, made = Path(tempfile.mkdtemp()), brainroam.make_cohort(n_sites=3, n_per_site=12, n_rois=12)
    >>> cohort = StoredCohort(write_store(folder / "cohort.zarr", made.table, made.series), folder / "work")
    >>> brainroam.evaluate(cohort, ["fc-ridge"]).scores["n"].tolist()
    [12, 12, 12]
    """

    features: StoredFeatures

    def __init__(
        self,
        store: str | Path,
        work: str | Path,
        memory: float = 2e9,
        sites: Sequence[str] | None = None,
        require_label: bool = True,
        max_missing_rois: float = 0.2,
    ) -> None:
        opened = CohortStore(store)
        rows = opened.rows(sites)
        self._table = opened.table.iloc[rows].reset_index(drop=True)
        self._blocks = {opened.name: self._open_block(opened, rows, work, memory)}
        for name, other in opened.further.items():
            self._blocks[name] = self._open_block(other, other.places(self._table["subject"]), work, memory)
        self._excluded, self._truth, self._origin, self._target = opened.excluded, None, None, TWO_CLASSES
        self._covariates, self._prepared = opened.covariates, opened.prepared
        people: Cohort = self
        unlabelled = self._table["label"].isna().to_numpy()
        if require_label and unlabelled.any():
            people = people.exclude(unlabelled, ["no label"] * int(unlabelled.sum()))
        people = people.exclude_missing(max_missing_rois)
        self.__dict__ = people._as_whole().__dict__
        needed = BLOCKS * 8 * COLUMNS * len(self)
        for block in self._blocks.values():
            if isinstance(block.features, StoredFeatures):
                block.features.require_memory(needed, f"edges of {len(self)} people, {COLUMNS} at a time")
                block.features.folder.mkdir(parents=True, exist_ok=True)

    def _open_block(self, store: CohortStore, rows: np.ndarray, work: str | Path, memory: float) -> Block:
        """One measurement of these people; a table is small and read as a whole."""
        if store.measure == "table":
            return store.block(self._table["subject"])
        features = StoredFeatures(store, rows, self._table, Path(work).absolute(), memory)
        return Block(store.measure, store.atlas, features)
