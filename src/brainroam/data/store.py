"""The chunked cohort store: a Zarr 3 group on disk, written in a stream and read in part.

::

    cohort.zarr/zarr.json     a Zarr group
    cohort.zarr/series/       one array (sum of T_i, P): everybody's volumes one after another, in chunks of some MB
    cohort.zarr/cohort.json   the people, the atlas, who was left out, and the SHA-256 of each series; sealed
    cohort.zarr/blocks/1/     a store of those who have a second measurement, and so on

Person i owns the rows from T_1 + ... + T_(i-1) on, T_i of them, so scans may differ in length, and reading some people
opens only the chunks they lie in. Every series that is read is compared with its SHA-256. Of matrices a person owns P
rows, of a table one.
"""

import math
import struct
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from brainroam.data.atlas import Atlas, matching_atlas
from brainroam.data.cohort import Cohort
from brainroam.data.cohort_file import to_columns
from brainroam.data.features import Block, Features
from brainroam.data.measurements import (
    MEASURES,
    count_empty,
    empty_measurement,
    freeze,
    series_digest,
    without_empty_volumes,
)
from brainroam.data.people import COVARIATES, manifest_hash, validate_table
from brainroam.data.target import TWO_CLASSES, Target
from brainroam.errors import DataError, ReaderError, unknown
from brainroam.utils.files import atomic_folder, expand_home, read_checksummed, write_checksummed
from brainroam.utils.optional import extra

MANIFEST, SERIES, BLOCKS = "cohort.json", "series", "blocks"
KIND = "brainroam cohort store"
CHUNK_BYTES = 4_000_000
MAX_CHUNK_BYTES = 1_000_000_000
CODECS = ["bytes", "blosc"]


def is_store(path: str | Path) -> bool:
    """Whether a folder is, or was meant to be, a cohort store."""
    return any((Path(path) / name).is_file() for name in (MANIFEST, "zarr.json"))


def write_store(
    path: str | Path,
    table: pd.DataFrame,
    series: Iterable[np.ndarray],
    atlas: Atlas | None = None,
    excluded: pd.DataFrame | None = None,
    prepared: Sequence[str] = (),
    covariates: Sequence[str] = COVARIATES,
    measure: str = "series",
) -> Path:
    """Write a store of one measurement, one person after another; only a chunk is in memory at a time.

    The store appears at ``path`` once it is complete. Series are kept in the precision they come in, float64 or
    float32.

    Parameters
    ----------
    path : str or Path
        Must not exist yet.
    table : DataFrame
        As for `Cohort`.
    series : iterable of ndarray of shape (T_i, P)
        In the order of the table; may be a generator.
    atlas, excluded, prepared, covariates, measure
        As for `Cohort`.

    Examples
    --------
    >>> import brainroam, tempfile
    >>> cohort = brainroam.make_cohort(n_sites=2, n_per_site=4, n_rois=8)
    >>> path = write_store(Path(tempfile.mkdtemp()) / "c.zarr", cohort.table, (x for x in cohort.series))
    >>> brainroam.load_cohort(path).manifest_hash == cohort.manifest_hash
    True
    """
    with atomic_folder(path) as folder:
        _write_into(folder, table, series, atlas, excluded, prepared, covariates, measure)
    return Path(path)


def store_cohort(path: str | Path, cohort: Cohort) -> Path:
    """Write a cohort with all its blocks: the first as the store itself, every other as a store within it.

    >>> import brainroam, tempfile
    >>> cohort = brainroam.make_cohort(n_sites=2, n_per_site=4, n_rois=8)
    >>> ages = Cohort([np.array([[age]]) for age in cohort.table["age"]], cohort.table, measure="table")
    >>> both = cohort.with_block("ages", ages.subset(range(6)), "rest")
    >>> again = brainroam.load_cohort(store_cohort(Path(tempfile.mkdtemp()) / "c.zarr", both))
    >>> list(again.blocks), again.manifest_hash == both.manifest_hash
    (['rest', 'ages'], True)
    """
    (name, first), *others = (cohort.blocks or {cohort.block_name: cohort}).items()
    facts = cohort.excluded, cohort.prepared, cohort.covariate_names, cohort.measure
    with atomic_folder(path) as folder:
        names = [name, *(other for other, _ in others)]
        _write_into(folder, cohort.table, first.series, first.atlas, *facts, names, cohort.target)
        for k, (other, block) in enumerate(others, start=1):
            have = block.subset(cohort.has_block(other))
            own_facts = None, (), COVARIATES, have.measure, [other], cohort.target
            _write_into(folder / BLOCKS / str(k), have.table, have.series, have.atlas, *own_facts)
    return Path(path)


def _write_into(
    folder: Path,
    table: pd.DataFrame,
    series: Iterable[np.ndarray],
    atlas: Atlas | None,
    excluded: pd.DataFrame | None,
    prepared: Sequence[str],
    covariates: Sequence[str],
    measure: str,
    names: Sequence[str] = (),
    target: Target = TWO_CLASSES,
) -> None:
    people = validate_table(table, len(table), target)
    writer = _Writer(folder, measure)
    for subject, x in _pair(people["subject"], series):
        writer.add(subject, x)
    writer.close()
    people["n_timepoints"] = writer.lengths if measure == "series" else np.nan
    prepared = (*prepared, *count_empty(people, writer.empty))
    atlas = matching_atlas(atlas, writer.n_rois, measure)
    left_out = pd.DataFrame(columns=["subject", "reason"]) if excluded is None else excluded
    content = {
        "kind": KIND,
        "table": to_columns(people),
        "dtypes": {str(name): str(dtype) for name, dtype in people.dtypes.items()},
        "excluded": to_columns(left_out[["subject", "reason"]]),
        "atlas": atlas.described(),
        "coords": None if atlas.coords is None else np.asarray(atlas.coords).tolist(),
        "digests": writer.digests,
        "manifest_hash": manifest_hash(people, writer.digests),
        "prepared": list(prepared),
        "covariates": list(covariates),
        "measure": measure,
        "blocks": list(names) or [measure],
        "target": target.described(),
    }
    write_checksummed(folder / MANIFEST, content)


class CohortStore:
    """A store opened for reading: the table at once, series when asked for.

    Attributes
    ----------
    table : DataFrame
        Everybody, with ``n_timepoints``.
    atlas : Atlas
    excluded : DataFrame
    digests : list of str
        SHA-256 of each series.
    manifest_hash : str
        As `Cohort.manifest_hash` of everybody by this measurement alone, known without reading a series.
    measure : {"series", "matrices", "table"}
    name : str
        What this measurement is called among the blocks.
    further : dict of str to CohortStore
        The other blocks, of those who have them.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = expand_home(path)
        content = read_checksummed(self.path / MANIFEST, ReaderError)
        if content.get("kind") != KIND:
            raise ReaderError(f"{self.path / MANIFEST} describes no {KIND}")
        try:  # a right checksum does not make the content right
            self._take(content)
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ReaderError(f"{self.path / MANIFEST} describes no cohort: {error}") from error
        self._array = self._open()
        self._chunk: tuple[int, np.ndarray] | None = None

    def _take(self, content: dict[str, Any]) -> None:
        people = pd.DataFrame(content["table"]).astype(content["dtypes"])
        self.measure = str(content.get("measure", "series"))
        if self.measure not in MEASURES:
            raise ValueError(f"{self.measure} cannot be measured")
        self.target = Target.of_description(content["target"]) if "target" in content else TWO_CLASSES
        self.table = validate_table(people, len(people), self.target)
        if self.measure == "series":
            self._heights = people["n_timepoints"].to_numpy(dtype=int)
            self.table = self.table.assign(n_timepoints=self._heights)
        else:
            height = 1 if self.measure == "table" else len(content["atlas"]["labels"])
            self._heights = np.full(len(people), height)
            self.table = self.table.assign(n_timepoints=np.nan)
        self.table = self.table[list(people.columns)]
        least = 1 if self.measure == "table" else 2
        if len(people) != len(content["digests"]) or (self._heights < least).any() or self._heights.sum() > 2**40:
            raise ValueError("not everybody has a series")
        self.name, *others = map(str, content.get("blocks", [self.measure]))
        self.further = {name: CohortStore(self.path / BLOCKS / str(k)) for k, name in enumerate(others, start=1)}
        self.excluded = pd.DataFrame(content["excluded"], columns=["subject", "reason"], dtype=object)
        coords = None if content["coords"] is None else np.array(content["coords"], dtype=float)
        self.atlas = Atlas.of_description(content["atlas"], coords)
        self.prepared = tuple(map(str, content["prepared"]))
        self.covariates = tuple(map(str, content["covariates"]))
        self.digests: list[str] = content["digests"]
        self.manifest_hash = str(content["manifest_hash"])
        self._ends = np.cumsum(self._heights)

    def __len__(self) -> int:
        return len(self.table)

    def __reduce__(self) -> tuple:
        return _reopen, (self.path, self.manifest_hash)  # another process opens it again

    @property
    def n_rois(self) -> int:
        """Number of regions P."""
        return len(self.atlas)

    @property
    def dtype(self) -> np.dtype:
        """The precision the series are kept in."""
        return self._array.dtype

    @property
    def sites(self) -> list[str]:
        """The site names, sorted."""
        return sorted(self.table["site"].unique())

    def rows(self, sites: Sequence[str] | None = None) -> np.ndarray:
        """Positions of the people of these sites, or of everybody."""
        for site in sites or ():
            if site not in self.sites:
                raise unknown("site", site, self.sites)
        return np.flatnonzero(np.ones(len(self), dtype=bool) if sites is None else self.table["site"].isin(sites))

    def series(self, rows: Iterable[int] | None = None) -> Iterator[np.ndarray]:
        """The series of these people (everybody by default), one at a time, each checked, read-only float64."""
        for row in range(len(self)) if rows is None else rows:
            subject = str(self.table["subject"].iat[row])
            stop = int(self._ends[row])
            x = freeze(self._volumes(stop - int(self._heights[row]), stop, subject), subject, self.measure)
            if series_digest(x) != self.digests[row]:
                raise ReaderError(
                    f"{self.path} is damaged: the series of subject {subject} is not what was written; convert it again"
                )
            yield x

    def cohort(self, rows: Iterable[int] | None = None) -> Cohort:
        """These people (everybody by default) in memory."""
        rows = np.arange(len(self)) if rows is None else np.asarray(list(rows), dtype=int)
        cohort = Cohort(
            list(self.series(rows.tolist())),
            self.table.iloc[rows],
            self.atlas,
            self.excluded,
            covariates=self.covariates,
            prepared=self.prepared,
            target=self.target,
            measure=self.measure,
        )
        cohort.per_person("digest", lambda _: np.array([self.digests[row] for row in rows]))  # just compared
        for name, store in self.further.items():
            cohort = cohort.with_further(name, store.block(self.table["subject"].iloc[rows]), self.name)
        return cohort

    def block(self, subjects: Iterable[str]) -> Block:
        """This measurement of some people, in memory; NaN of those whom the store does not hold."""
        nothing = empty_measurement(self.measure, self.n_rois)
        arrays = [next(self.series([row])) if row >= 0 else nothing for row in self.places(subjects).tolist()]
        return Block(self.measure, self.atlas, Features(arrays))

    def places(self, subjects: Iterable[str]) -> np.ndarray:
        """The rows of people by their ids; -1 of those whom the store does not hold."""
        row_of = {subject: row for row, subject in enumerate(self.table["subject"])}
        return np.array([row_of.get(subject, -1) for subject in subjects])

    def holds(self, cohort: Cohort) -> bool:
        """Whether these are the measurements of the people of a cohort: the very same numbers, or none."""
        nothing = series_digest(empty_measurement(self.measure, self.n_rois))
        rows = self.places(cohort.table["subject"]).tolist()
        digests = [self.digests[row] if row >= 0 else nothing for row in rows]
        return self.atlas == cohort.atlas and digests == cohort.series_digests

    def heights(self, rows: np.ndarray) -> np.ndarray:
        """How many rows of the array some people own: of series their volumes."""
        return self._heights[rows]

    def _open(self) -> Any:
        zarr = extra("store", "zarr")
        try:
            array = zarr.open_group(self.path, mode="r")[SERIES]
            shape = tuple(array.shape)
            codecs = [codec.to_dict()["name"] for codec in array.metadata.codecs]
            chunk_bytes = math.prod(array.chunks) * array.dtype.itemsize
        except Exception as error:  # damaged metadata make zarr raise anything at all
            raise ReaderError(f"{self.path} is damaged: its array of series cannot be opened ({error})") from error
        if shape != (int(self._ends[-1]), self.n_rois):
            expected = f"{int(self._ends[-1])} volumes x {self.n_rois} regions"
            raise ReaderError(f"{self.path} is damaged: the series should be {expected} but are {shape}")
        if array.dtype.kind != "f" or codecs != CODECS or chunk_bytes > MAX_CHUNK_BYTES or array.chunks[1] != shape[1]:
            raise ReaderError(f"{self.path} is damaged: its series are not packed as brainroam packs them")
        return array

    def _volumes(self, start: int, stop: int, subject: str) -> np.ndarray:
        size = self._array.chunks[0]
        parts = []
        for k in range(start // size, (stop - 1) // size + 1):
            if self._chunk is None or self._chunk[0] != k:
                try:
                    self._require_whole_chunk(k)
                    self._chunk = k, np.asarray(self._array[k * size : (k + 1) * size])
                except Exception as error:  # so do damaged chunks
                    raise ReaderError(
                        f"{self.path} is damaged: the series of subject {subject} cannot be read ({error}); "
                        "convert it again"
                    ) from error
            parts.append(self._chunk[1][max(start - k * size, 0) : stop - k * size])
        volumes = np.concatenate(parts)
        volumes.setflags(write=False)
        return volumes

    def _require_whole_chunk(self, k: int) -> None:
        """Refuse a truncated chunk: Blosc trusts the sizes in its header and would read beyond its end."""
        file = self.path / SERIES / "c" / str(k) / "0"
        if not file.is_file():
            return  # Zarr takes it for zeros, which are not what was written
        with open(file, "rb") as chunk:
            n_unpacked, _, n_packed = struct.unpack("<4xIII", chunk.read(16))
        if n_packed != file.stat().st_size or n_unpacked != math.prod(self._array.chunks) * self.dtype.itemsize:
            raise ValueError(f"{file} is not as long as it says")


def _reopen(path: Path, manifest_hash: str) -> CohortStore:
    store = CohortStore(path)
    if store.manifest_hash != manifest_hash:
        raise ReaderError(f"{path} has changed since the work began; start the command again")
    return store


class _Writer:
    """Appends series to the array, a whole chunk at a time."""

    def __init__(self, folder: Path, measure: str) -> None:
        self.measure = measure
        self._zarr = extra("store", "zarr")
        self._group = self._zarr.open_group(folder, mode="w", zarr_format=3)
        self._array: Any = None
        self._pending: list[np.ndarray] = []
        self.lengths: list[int] = []
        self.empty: list[int] = []
        self.digests: list[str] = []
        self.n_rois = 0

    def add(self, subject: str, x: np.ndarray) -> None:
        x = np.asarray(x)
        exact, n_empty = freeze(x, subject, self.measure), 0
        if self.measure == "series":
            exact, n_empty = without_empty_volumes(exact)
        if self._array is None:
            self._create(x.dtype if x.dtype == np.float32 else exact.dtype, exact.shape[1])
        if exact.shape[1] != self.n_rois:
            raise DataError(
                f"subject {subject} has {exact.shape[1]} regions, those before {self.n_rois}; all must be of one atlas"
            )
        if not np.can_cast(x.dtype, self._array.dtype):
            raise DataError(
                f"subject {subject} has values of type {x.dtype}, which the {self._array.dtype} of those before cannot "
                "hold exactly; give all series one type"
            )
        self.lengths.append(len(exact))
        self.empty.append(n_empty)
        self.digests.append(series_digest(exact))
        self._pending.append(exact.astype(self._array.dtype, copy=False))
        if sum(map(len, self._pending)) >= self._array.chunks[0]:
            self._flush(whole_chunks=True)

    def close(self) -> None:
        self._flush(whole_chunks=False)

    def _create(self, dtype: np.dtype, n_rois: int) -> None:
        self.n_rois = n_rois
        volumes = max(1, CHUNK_BYTES // (n_rois * dtype.itemsize))
        # Shuffled bytes let the fast codec find what is alike in neighbouring volumes: signs and exponents.
        codec = self._zarr.codecs.BloscCodec(cname="lz4", clevel=5, shuffle="shuffle")
        self._array = self._group.create_array(
            SERIES, shape=(0, n_rois), chunks=(volumes, n_rois), dtype=dtype, compressors=codec
        )

    def _flush(self, whole_chunks: bool) -> None:
        if not self._pending:
            return
        volumes = np.concatenate(self._pending)
        size = self._array.chunks[0]
        stop = len(volumes) // size * size if whole_chunks else len(volumes)
        self._array.append(volumes[:stop])
        self._pending = [volumes[stop:]] if stop < len(volumes) else []


def _pair(subjects: pd.Series, series: Iterable[np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
    """Each subject with a series; as many of one as of the other."""
    remaining = iter(series)
    for subject in subjects:
        x = next(remaining, None)
        if x is None:
            raise DataError(f"the series end before subject {subject}: the table has {len(subjects)} rows")
        yield subject, x
    if next(remaining, None) is not None:
        raise DataError(f"there are more series than the {len(subjects)} rows of the table")
