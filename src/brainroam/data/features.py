"""`Features`: what is computed of the people of a cohort, where it is kept, and how much memory it may take.

A feature of a person is a function of that person's measurement alone, so training and held-out people can share what
was computed once without any leak. In memory, features are arrays; while several processes work (`Features.kept_in`)
they lie in files that all of them read; of a cohort that is larger than memory they stay on disk
(`brainroam.data.stored_cohort`).
"""

import hashlib
import math
import os
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from brainroam.data.atlas import Atlas
from brainroam.errors import MemoryLimitError
from brainroam.utils.cache import Cache
from brainroam.utils.files import atomic_write, part_beside

PROCESS_BYTES = 400e6  # Python with torch, measured
NOT_LARGE = 20_000  # columns of a feature
MANY = 0.1  # of them; a fold of training asks for more, people who are only read for fewer
SERIES = "series"  # what the measurements of everybody are called among their features


class Features:
    """The measurements of everybody in a cohort, and what is computed from each of them alone.

    All subsets of a cohort share one object and name their people by position.

    Parameters
    ----------
    arrays : sequence of ndarray
        One measurement per person.

    Attributes
    ----------
    cache : Cache
        Results by content: what depends on several people, such as the regressions of a site.
    on_disk : bool
        Whether measurements and features are too large for memory.
    memory : float
        Bytes that one process may use.
    folder : Path, optional
        Where what does not fit into memory is kept.

    Examples
    --------
    >>> features = Features([np.ones((4, 2)), np.zeros((4, 2))])
    >>> features.per_person("mean", lambda arrays: np.array([x.mean() for x in arrays]), np.array([1]))
    array([0.])
    >>> features.has("mean")
    True
    """

    on_disk = False
    memory = float("inf")
    folder: Path | None = None

    def __init__(self, arrays: Sequence[np.ndarray]) -> None:
        self.arrays, self.cache = arrays, Cache()
        self._kept: dict[str, np.ndarray] | FeatureFolder = {}

    @property
    def at_once(self) -> int | None:
        """How many people to read together; None is everybody."""
        return None

    def of(self, rows: np.ndarray) -> Any:
        """Arrays of some people."""
        return [self.arrays[row] for row in rows.tolist()]

    def at(self, rows: np.ndarray) -> "Features":
        """Features of some people alone, as a new cohort; nothing is computed yet."""
        return Features(self.of(rows))

    def without(self, mask: np.ndarray) -> "Features":
        """The same where these people lack the measurement."""
        people = zip(self.arrays, mask, strict=True)
        return Features([np.full_like(x, np.nan) if gone else x for x, gone in people])

    def heights(self, rows: np.ndarray) -> list[float]:
        """How many rows the arrays of some people have: of series their volumes."""
        return [len(self.arrays[row]) for row in rows.tolist()]

    def per_person(self, key: str, compute: Callable[[list[np.ndarray]], np.ndarray], rows: np.ndarray) -> Any:
        """A feature of some people, computed once for everybody; see `brainroam.data.cohort.Cohort.per_person`."""
        if key not in self._kept:
            values = compute(list(self.arrays))
            values.setflags(write=False)
            self._kept[key] = values
        values = self._kept[key]
        return values if np.array_equal(rows, np.arange(len(self.arrays))) else values[rows]

    def has(self, key: str) -> bool:
        """Whether a feature is computed already."""
        return key in self._kept

    def has_memory(self, needed: float) -> bool:
        """Whether so many bytes are left of the memory given."""
        return PROCESS_BYTES + needed <= self.memory

    def require_memory(self, needed: float, what: str) -> None:
        """Refuse work that does not fit into memory, with the least memory that would do."""
        if not self.has_memory(needed):
            least = math.ceil((PROCESS_BYTES + needed) / 1e8) / 10  # rounded up: what is named here is enough
            raise MemoryLimitError(
                f"--memory {self.memory / 1e9:.2g}GB is too little for {what}; give at least {least:g}GB"
            )

    def batches(self, people: np.ndarray) -> list[np.ndarray]:
        """These people (by position), as many at a time as are to be read together."""
        size = self.at_once or max(len(people), 1)
        return [people[start : start + size] for start in range(0, max(len(people), 1), size)]

    def columns(self, values: Any, columns: np.ndarray) -> "Columns":
        """These columns (ascending) of a feature of everybody, to be read again and again, some people at a time."""
        return ArrayColumns(values)

    def kept_rows(self, n_people: int, width: int, read: Callable[[np.ndarray], np.ndarray]) -> "Columns":
        """Columns filled by ``read`` for some people (by position), to be read again and again."""
        return ArrayColumns(read(np.arange(n_people)))

    def growing_columns(self, name: Hashable, who: list[np.ndarray], n_columns: int) -> "GrowingColumns":
        """What was computed of a feature of some people (``who``, as a key of the cache), to be added to."""
        return self.cache.get(name, who, lambda: GrowingColumns(n_columns))

    def fold_storage(self) -> dict:
        """Where to keep what belongs to single folds."""
        return {}

    def with_fold(self, kept: Mapping, fold: Any, value: Any) -> Mapping:
        """What is kept of other folds and can be made again, and that of one more."""
        return {**kept, fold: value}

    def read_ahead(self, unread: Any) -> Any:
        """What reads people whenever they are asked for; in memory all of them now (``unread.whole()``)."""
        return unread.whole()

    @contextmanager
    def kept_in(self, folder: Path) -> Iterator[None]:
        """Keep measurements and features in a folder for as long as this lasts.

        Other processes find them there: features that are sent to them meanwhile take the measurements along by name.
        """
        shared = FeatureFolder(folder)
        if SERIES not in shared:
            shared.stack(SERIES, self.arrays)
        before, self._kept = self._kept, shared
        for name, values in before.items() if isinstance(before, dict) else ():
            if name not in shared:
                shared[name] = values
        try:
            yield
        finally:
            self._kept = before

    def __getstate__(self) -> dict[str, Any]:
        if not isinstance(self._kept, FeatureFolder):
            return self.__dict__
        return {**self.__dict__, "arrays": None, "heights": [len(x) for x in self.arrays]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        heights = state.pop("heights", None)
        self.__dict__.update(state)
        if heights is not None:
            self.arrays = np.split(np.asarray(self._kept[SERIES]), np.cumsum(heights)[:-1])


class Columns(Protocol):
    """A feature that is read by people and columns, in memory or on disk."""

    def read(self, people: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """The values of some people, by position, in some columns."""


@dataclass(frozen=True, eq=False)
class ArrayColumns:
    """`Columns` of an array.

    >>> ArrayColumns(np.arange(6.0).reshape(2, 3)).read(np.array([1]), np.array([0, 2])).tolist()
    [[3.0, 5.0]]
    """

    values: Any

    def read(self, people: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """The values of some people, by position, in some columns."""
        return self.values[np.ix_(people, columns)]


class GrowingColumns:
    """A feature whose columns are computed when they are first asked for, for the same people.

    The folds of a study ask for different columns, and each adds those that are new. Where there are not too many and
    one fold needs a good part, all are computed at once: a few new ones would cost as much each time.

    >>> growing = GrowingColumns(100)
    >>> squares = lambda columns: columns[None] ** 2.0
    >>> growing.of(np.array([3]), squares).tolist(), growing.of(np.array([2, 3]), squares).tolist()
    ([[9.0]], [[4.0, 9.0]])
    """

    def __init__(self, n_columns: float) -> None:
        self.n_columns, self.columns = n_columns, np.empty(0, dtype=int)
        self.values: np.ndarray | None = None

    def of(self, columns: np.ndarray, compute: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """The values (n, len(columns), ...); those of new columns are computed now."""
        new = np.setdiff1d(columns, self.columns)
        if len(new) > MANY * self.n_columns and self.n_columns <= NOT_LARGE:
            new = np.setdiff1d(np.arange(self.n_columns), self.columns)
        if self.values is None:
            self.columns, self.values = new, compute(new)
        elif len(new):
            both = np.concatenate([self.columns, new])
            order = np.argsort(both)
            values = np.concatenate([self.values, compute(new)], axis=1)
            self.columns, self.values = both[order], values[:, order]
        return self.values[:, np.searchsorted(self.columns, columns)]


def column_blocks(values: Any) -> list[slice]:
    """The columns of a feature of some people, as many at a time as are to be read together: in memory all.

    >>> column_blocks(np.zeros((2, 3)))
    [slice(0, 3, None)]
    """
    return values.column_blocks if hasattr(values, "column_blocks") else [slice(0, values.shape[1])]


@dataclass(frozen=True, eq=False)
class Block:
    """One measurement of everybody in a cohort: its kind, its regions or columns, and its features."""

    measure: str
    atlas: Atlas
    features: Features

    def at(self, rows: np.ndarray) -> "Block":
        """That of some people."""
        return Block(self.measure, self.atlas, self.features.at(rows))

    def without(self, mask: np.ndarray) -> "Block":
        """The same where these people lack it."""
        return Block(self.measure, self.atlas, self.features.without(mask)) if mask.any() else self

    @property
    def extent(self) -> str:
        """What was measured, in words."""
        what = {"series": "regions", "matrices": "regions", "table": "columns"}[self.measure]
        return f"{'matrices of ' if self.measure == 'matrices' else ''}{len(self.atlas)} {what} of {self.atlas.name!r}"

    def volumes(self, rows: np.ndarray) -> list[float]:
        """How long the series of some people are; NaN for what has no time."""
        return self.features.heights(rows) if self.measure == "series" else [np.nan] * len(rows)


class FeatureFolder:
    """Arrays by name, one ``.npy`` file each.

    An array is written whole or not at all, and read back as a memory map: processes of one machine then share its
    pages.

    >>> import tempfile
    >>> features = FeatureFolder(Path(tempfile.mkdtemp()))
    >>> features["edges"] = np.eye(2)
    >>> "edges" in FeatureFolder(features.folder), features["edges"].tolist()
    (True, [[1.0, 0.0], [0.0, 1.0]])
    >>> features.stack("series", [np.ones((1, 2)), np.zeros((2, 2))])
    >>> features["series"].tolist()
    [[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]]
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __contains__(self, name: str) -> bool:
        return self._path(name).is_file()

    def __getitem__(self, name: str) -> np.ndarray:
        return np.load(self._path(name), mmap_mode="r", allow_pickle=False)

    def __setitem__(self, name: str, values: np.ndarray) -> None:
        with atomic_write(self._path(name)) as file:
            np.save(file, values, allow_pickle=False)

    @contextmanager
    def filling(self, name: str, shape: tuple[int, int]) -> Iterator[Path]:
        """A file for processes to fill in by memory map (``mode="r+"``); it gets its name when this has ended well."""
        part = part_beside(self._path(name))
        part.parent.mkdir(parents=True, exist_ok=True)
        try:
            np.lib.format.open_memmap(part, "w+", np.float64, shape)
            yield part
            with part.open("rb+") as file:
                os.fsync(file.fileno())
            part.replace(self._path(name))
        finally:
            part.unlink(missing_ok=True)

    def stack(self, name: str, arrays: Sequence[np.ndarray]) -> None:
        """Write arrays of one width one below the other, without a second copy of them in memory."""
        header = {"descr": "<f8", "fortran_order": False, "shape": (sum(map(len, arrays)), arrays[0].shape[1])}
        with atomic_write(self._path(name)) as file:
            np.lib.format.write_array_header_1_0(file, header)
            for array in arrays:
                file.write(np.ascontiguousarray(array, dtype="<f8").data)

    def _path(self, name: str) -> Path:
        return self.folder / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.npy"
