"""A cohort whose series stay in their store, and whose edges are on disk: for more people than memory holds.

It is used like any `Cohort`. What differs is where things are: ``series`` are read when they are asked for, features of
more than a few people (`Cohort.per_person`) are computed batch by batch into a `StoredArray`, site after site so that a
site lies together, and summaries of sites are kept in files (`brainroam.utils.cache.DiskCache`). All of it is below
``work``, where a command that was killed, and other processes, find what is finished.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
import pandas as pd

from brainroam.data.cohort import Block, Cohort, missing_rois
from brainroam.data.store import CohortStore
from brainroam.data.stored_array import COLUMNS, StoredArray
from brainroam.data.target import Target
from brainroam.data.validation import validated_table
from brainroam.errors import UsageError
from brainroam.utils.cache import DiskCache

BATCH = 64  # people read together
PROCESS_BYTES = 400e6  # Python with torch, measured
BLOCKS = 6  # of edges of everybody that are held at a time: values, what is left of them, and copies


class StoredSeries(Sequence):
    """Series of some people of a store, each read when it is asked for."""

    def __init__(self, store: CohortStore, rows: Sequence[int]) -> None:
        self._store, self._rows = store, rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, k: int) -> np.ndarray: ...
    @overload
    def __getitem__(self, k: slice) -> list[np.ndarray]: ...
    def __getitem__(self, k: int | slice) -> np.ndarray | list[np.ndarray]:
        if isinstance(k, slice):
            return list(self._store.series(self._rows[k]))
        return next(self._store.series([self._rows[k]]))

    def __iter__(self) -> Iterator[np.ndarray]:
        return self._store.series(self._rows)


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

    on_disk = True
    _measure = "series"  # a store holds nothing else
    folder: Path

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
        self._begin(opened, Path(work).absolute(), memory, opened.rows(sites), opened.excluded)
        people: Cohort = self
        unlabelled = self._table["label"].isna().to_numpy()
        if require_label and unlabelled.any():
            people = people.exclude(unlabelled, ["no label"] * int(unlabelled.sum()))
        people = people.exclude_missing(max_missing_rois)
        gone = people.missing_rois
        self._begin(opened, Path(work).absolute(), memory, np.array(people._series), people.excluded)
        self._features["missing_rois"] = gone
        self.require_memory(BLOCKS * 8 * COLUMNS * len(self), f"edges of {len(self)} people, {COLUMNS} at a time")
        self.folder.mkdir(parents=True, exist_ok=True)

    def _begin(self, store: CohortStore, work: Path, memory: float, rows: np.ndarray, excluded: pd.DataFrame) -> None:
        self.store, self.memory = store, memory
        self._series: tuple[Any, ...] = tuple(rows.tolist())  # people by their place in the store
        self._table = store.table.iloc[rows].reset_index(drop=True)
        self._atlas, self._excluded, self._truth, self._origin = store.atlas, excluded, None, None
        self._features: Any = {"digest": np.array([store.digests[row] for row in rows])}
        self._covariates, self._prepared, self._measure = store.covariates, store.prepared, "series"
        self._name, self._blocks = self._measure, dict[str, Block]()
        self.folder = work / self.manifest_hash[:16]
        self._cache = DiskCache(self.folder / "summaries", int(memory / 4))
        self.__dict__.pop("manifest_hash")  # of other people once some are left out
        # A site's people lie together, so that reading one site reads few chunks.
        self._order = np.argsort(self._table["site"].to_numpy().astype(str), kind="stable")

    @property
    def series(self) -> Any:
        """One (T_i, P) array per person, read when asked for."""
        return StoredSeries(self.store, self._series)

    @property
    def n_rois(self) -> int:
        """Number of regions P."""
        return len(self.atlas)

    def batches(self) -> "Iterator[Cohort]":
        """These people, a few at a time."""
        for start in range(0, len(self), BATCH):
            yield self.subset(np.arange(start, min(start + BATCH, len(self))))

    def has_memory(self, needed: float) -> bool:
        """Whether so many bytes are left of the memory given."""
        return PROCESS_BYTES + needed <= self.memory

    def require_memory(self, needed: float, what: str) -> None:
        """Refuse what does not fit, with the least that would."""
        if not self.has_memory(needed):
            least = math.ceil((PROCESS_BYTES + needed) / 1e8) / 10  # rounded up: what is named here is enough
            raise UsageError(f"--memory {self.memory / 1e9:.2g}GB is too little for {what}; give at least {least:g}GB")

    def per_person(self, key: str, compute: Callable[[list[np.ndarray]], np.ndarray]) -> Any:
        """As of any cohort; of more than a batch of people, what is wide stays on disk."""
        whole, rows = self.origin
        assert isinstance(whole, StoredCohort)
        if key == "missing_rois" and key not in whole._features:
            digests = [whole._features["digest"]]
            whole._features[key] = whole._cache.summary(key, digests, lambda: missing_rois(whole.series))
        if key in whole._features:
            return whole._features[key][rows]
        if len(rows) <= BATCH and not whole._path(key).exists():
            return compute(list(self.series))
        stored = whole.stored(key, compute)
        for k in stored.missing():
            whole.write(stored, k, compute)
        place = np.argsort(whole._order)
        return stored[place[rows]]

    def stored(self, key: str, compute: Callable[[list[np.ndarray]], np.ndarray]) -> StoredArray:
        """The array of a feature of everybody, which need not be written yet."""
        return StoredArray.create(self._path(key), len(self), compute([self.series[0]]).shape[1])

    def write(self, stored: StoredArray, k: int, compute: Callable[[list[np.ndarray]], np.ndarray]) -> None:
        """Compute and write one batch of a feature."""
        rows = [self._series[person] for person in self._order[stored.people(k)]]
        stored.write(k, compute(list(self.store.series(rows))))

    def has_per_person(self, key: str) -> bool:
        """Whether everybody's are written."""
        whole = self.origin[0]
        assert isinstance(whole, StoredCohort)
        return whole._path(key).exists() and not StoredArray(whole._path(key)).missing()

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.zarr"

    def _with(self, positions: np.ndarray, excluded: pd.DataFrame) -> "StoredCohort":
        part = super()._with(positions, excluded)
        assert isinstance(part, StoredCohort)
        part.store, part.memory, part.folder = self.store, self.memory, self.folder
        return part

    def predicting(self, target: Target, table: pd.DataFrame) -> "StoredCohort":
        """The same people with another target, whose values are the ``label`` of this table; no covariate any more."""
        same = self._with(np.arange(len(self)), self._excluded)
        same._table, same._target = validated_table(table, len(self), target), target
        same._table["n_timepoints"] = self._table["n_timepoints"]
        same._covariates = tuple(name for name in self._covariates if name != target.name)
        return same

    def with_columns(self, columns: pd.DataFrame) -> "StoredCohort":
        """The same people with these columns added to the table or replacing its own."""
        same = self._with(np.arange(len(self)), self._excluded)
        same._table = self._table.assign(**{str(name): columns[name].array for name in columns})
        return same
