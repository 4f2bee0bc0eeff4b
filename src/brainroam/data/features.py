"""Features of single people on disk, so that processes share what was computed once.

An array is written whole or not at all, and read back as a memory map: processes of one machine then share its pages.
"""

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from brainroam.utils.files import atomic_write, part_beside


class FeatureFolder:
    """Arrays by name, one ``.npy`` file each.

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
