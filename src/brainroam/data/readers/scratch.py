"""Reading more people than memory holds: each series goes to a scratch file once it is read, and is mapped back."""

from dataclasses import replace
from pathlib import Path
from typing import IO

import numpy as np

from brainroam.data.readers.text import Series
from brainroam.errors import BrainroamError

SEGMENT = 2**27  # values in one scratch file, 1 GB: few files even for a biobank, because each stays open


class Scratch:
    """Scratch files; `keep` gives back the same series, read-only, on disk instead of in memory.

    >>> import tempfile
    >>> spool = Scratch(Path(tempfile.mkdtemp()))
    >>> spool.keep(Series(np.eye(3))).values.tolist() == np.eye(3).tolist()
    True
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._segments = folder, 0
        self._room: np.ndarray = np.empty(0)
        self._file: IO[bytes]

    def keep(self, series: Series) -> Series:
        """Move the values of one person to disk."""
        size = series.values.size
        try:
            if size > len(self._room):
                self._begin_segment(max(SEGMENT, size))
            # Written as a file: a full disk is then an error, where writing to a map of it would end the process.
            self._file.write(np.ascontiguousarray(series.values, dtype=float).data)
            self._file.flush()
        except OSError as error:
            raise BrainroamError(f"cannot write to {self._folder}: {error.strerror or error}") from error
        place, self._room = self._room[:size].reshape(series.values.shape), self._room[size:]
        return replace(series, values=place)

    def _begin_segment(self, size: int) -> None:
        """A new scratch file, mapped as a whole; it takes up room only as it is filled."""
        path = self._folder / f"{self._segments}.spool"
        self._file = open(path, "wb")  # noqa: SIM115  open as long as it is filled
        self._file.truncate(size * 8)
        self._room = np.memmap(path, float, "r", shape=(size,))
        self._segments += 1
