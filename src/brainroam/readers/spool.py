"""Reading more people than memory holds: each series goes to a scratch file once it is read, and is mapped back."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from brainroam.readers.text import Series

SEGMENT = 2**27  # values in one scratch file, 1 GB: few files even for a biobank, because each stays open


class Spool:
    """Scratch files; `keep` gives back the same series, read-only, on disk instead of in memory.

    >>> import tempfile
    >>> spool = Spool(Path(tempfile.mkdtemp()))
    >>> spool.keep(Series(np.eye(3))).values.tolist() == np.eye(3).tolist()
    True
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._segments = folder, 0
        self._room: np.ndarray = np.empty(0)

    def keep(self, series: Series) -> Series:
        """Move the values of one person to disk."""
        size = series.values.size
        if size > len(self._room):
            path = self._folder / f"{self._segments}.spool"
            self._room = np.memmap(path, float, "w+", shape=(max(SEGMENT, size),))
            self._segments += 1
        place, self._room = self._room[:size].reshape(series.values.shape), self._room[size:]
        place[:] = series.values
        place.setflags(write=False)
        return replace(series, values=place)
