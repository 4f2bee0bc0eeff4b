"""Edge values of many people on disk, written by people and read by edges.

The matrix (n, M) is cut into batches of people and blocks of edges. A batch is one file, block after block, and a small
sealed file beside it that is written last, with the CRC-32 of every part: a batch is there whole or not at all, and one
that was damaged later is refused. Reading a block takes one part of each batch.
"""

import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from brainroam.errors import BrainroamError
from brainroam.utils.files import atomic_write, read_checksummed, write_checksummed


@dataclass(frozen=True)
class EdgeMatrix:
    """A matrix (n_people, n_edges) of float64 in a folder.

    >>> import tempfile
    >>> matrix = EdgeMatrix(Path(tempfile.mkdtemp()), n_people=5, n_edges=7, batch=2, block=3)
    >>> values = np.arange(35.0).reshape(5, 7)
    >>> for k in range(matrix.n_batches):
    ...     matrix.write(k, values[matrix.people(k)], {})
    >>> bool((matrix.read(1) == values[:, 3:6]).all())
    True
    """

    folder: Path
    n_people: int
    n_edges: int
    batch: int
    block: int

    @property
    def n_batches(self) -> int:
        """How many batches of people."""
        return -(-self.n_people // self.batch)

    @property
    def n_blocks(self) -> int:
        """How many blocks of edges."""
        return -(-self.n_edges // self.block)

    def people(self, k: int) -> slice:
        """The rows of batch k."""
        return slice(k * self.batch, min((k + 1) * self.batch, self.n_people))

    def edges(self, j: int) -> slice:
        """The columns of block j."""
        return slice(j * self.block, min((j + 1) * self.block, self.n_edges))

    def write(self, k: int, values: np.ndarray, record: dict) -> None:
        """Write batch k; ``record`` is kept beside it."""
        checks = []
        with atomic_write(self._file(k)) as file:
            for j in range(self.n_blocks):
                part = np.ascontiguousarray(values[:, self.edges(j)], dtype=float)
                checks.append(zlib.crc32(part.data))
                file.write(part.data)
        write_checksummed(self._seal(k), {"crc32": checks, **record})

    def record(self, k: int) -> dict | None:
        """What was kept beside batch k; None where it is not whole."""
        try:
            record = read_checksummed(self._seal(k))
            rows = self.people(k)
            whole = self._file(k).stat().st_size == (rows.stop - rows.start) * self.n_edges * 8
        except (BrainroamError, OSError):
            return None
        return record if whole else None

    def read(self, j: int) -> np.ndarray:
        """Block j of everybody."""
        columns = self.edges(j)
        values = np.empty((self.n_people, columns.stop - columns.start))
        for k in range(self.n_batches):
            values[self.people(k)] = self._part(k, j)
        return values

    def columns(self, k: int, wanted: np.ndarray) -> np.ndarray:
        """Batch k on some edges (ascending)."""
        rows = self.people(k)
        values = np.empty((rows.stop - rows.start, len(wanted)))
        for j in np.unique(wanted // self.block):
            here = wanted // self.block == j
            values[:, here] = self._part(k, int(j))[:, wanted[here] - j * self.block]
        return values

    def rows(self, people: np.ndarray) -> np.ndarray:
        """Some people (by position) on all edges, where these are one block."""
        values = np.empty((len(people), self.n_edges))
        for row, person in zip(values, people, strict=True):
            k, place = divmod(int(person), self.batch)
            row[:] = np.fromfile(self._file(k), float, self.n_edges, offset=8 * place * self.n_edges)
        return values

    def _part(self, k: int, j: int) -> np.ndarray:
        """Block j of batch k, checked."""
        rows, columns = self.people(k), self.edges(j)
        n, width = rows.stop - rows.start, columns.stop - columns.start
        part = np.fromfile(self._file(k), float, n * width, offset=n * columns.start * 8)
        if zlib.crc32(part.data) != read_checksummed(self._seal(k))["crc32"][j]:
            raise BrainroamError(
                f"{self._file(k)} was damaged after it was written; delete it and start the command again"
            )
        return part.reshape(n, width)

    def _file(self, k: int) -> Path:
        return self.folder / f"{k:06d}.edges"

    def _seal(self, k: int) -> Path:
        return self.folder / f"{k:06d}.json"
