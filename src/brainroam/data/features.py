"""Features of single people on disk, so that processes share what was computed once.

An array is written whole or not at all, and read back as a memory map: processes of one machine then share its pages.
"""

import hashlib
from collections.abc import Iterator, MutableMapping
from pathlib import Path

import numpy as np

from brainroam.utils.files import atomic_write


class FeatureFolder(MutableMapping[str, np.ndarray]):
    """Arrays by name, one ``.npy`` file each.

    >>> import tempfile
    >>> features = FeatureFolder(Path(tempfile.mkdtemp()))
    >>> features["edges"] = np.eye(2)
    >>> "edges" in FeatureFolder(features.folder), features["edges"].tolist()
    (True, [[1.0, 0.0], [0.0, 1.0]])
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __getitem__(self, name: str) -> np.ndarray:
        try:
            return np.load(self._path(name), mmap_mode="r", allow_pickle=False)
        except FileNotFoundError:
            raise KeyError(name) from None

    def __setitem__(self, name: str, values: np.ndarray) -> None:
        with atomic_write(self._path(name)) as file:
            np.save(file, values, allow_pickle=False)

    def __delitem__(self, name: str) -> None:
        self._path(name).unlink()

    def __iter__(self) -> Iterator[str]:
        return (path.stem for path in self.folder.glob("*.npy"))

    def __len__(self) -> int:
        return len(list(self.folder.glob("*.npy")))

    def _path(self, name: str) -> Path:
        return self.folder / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.npy"
