"""Reading more people than memory holds: each series goes to a scratch file as soon as it is read, and is mapped back."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from brainroam.readers.text import Series


class Spool:
    """A scratch file; `keep` gives back the same series, read-only, from disk instead of memory.

    >>> import tempfile
    >>> spool = Spool(Path(tempfile.mkdtemp()))
    >>> spool.keep(Series(np.eye(3))).values.tolist() == np.eye(3).tolist()
    True
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "series.spool"

    def keep(self, series: Series) -> Series:
        """Move the values of one person to disk."""
        values = np.ascontiguousarray(series.values, dtype=float)
        with open(self._path, "ab") as file:
            start = file.tell()
            file.write(values.data)
        return replace(series, values=np.memmap(self._path, float, "r", start, values.shape))
