"""Features of single people on disk, so that processes share what was computed once.

An array is written whole or not at all, and read back as a memory map: processes of one machine then share its pages.
"""

import hashlib
from pathlib import Path

import numpy as np

from brainroam.utils.files import atomic_write


class FeatureFolder:
    """Arrays by name, one ``.npy`` file each.

    >>> import tempfile
    >>> features = FeatureFolder(Path(tempfile.mkdtemp()))
    >>> features["edges"] = np.eye(2)
    >>> "edges" in FeatureFolder(features.folder), features["edges"].tolist()
    (True, [[1.0, 0.0], [0.0, 1.0]])
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

    def _path(self, name: str) -> Path:
        return self.folder / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.npy"
