"""A cache of results by the content they were computed from, up to a number of bytes.

Leave-one-site-out fits the same sites again in every fold, and each site's fit depends on that site alone. A `Cache`
keys results by the bytes they were computed from, so a result can only be found again by someone who holds the very
same input: reuse cannot leak. What was not used for longest is dropped first. A `DiskCache` keeps summaries of sites in
files besides, where other processes and the next command find them.
"""

import hashlib
import io
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from brainroam.utils.files import atomic_write

Result = TypeVar("Result")
LIMIT = 2**30
ALONE = "alone"  # the name of an array that is all of a summary


class Cache:
    """Results by content; lives as long as its owner, is not shared between processes, and is not pickled.

    Parameters
    ----------
    limit : int
        Bytes to keep at most.

    Examples
    --------
    >>> cache = Cache()
    >>> cache.get(("sum",), [np.arange(3)], lambda: 3), cache.get(("sum",), [np.arange(3)], lambda: 1 / 0)
    (3, 3)
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit = limit
        self._results: OrderedDict[bytes, tuple[Any, int]] = OrderedDict()
        self._size = 0

    def get(self, name: Hashable, arrays: list[np.ndarray], compute: Callable[[], Result]) -> Result:
        """The result for this name and these arrays, computed if it is new."""
        key = key_of(name, arrays)
        return self._retrieve(key) if key in self._results else self._keep(key, compute())

    def summary(self, name: Hashable, arrays: list[np.ndarray], compute: Callable[[], Result]) -> Result:
        """As `get`, of an array or a dictionary of arrays that other processes can share."""
        return self.summaries(name, [arrays], lambda _: [compute()])[0]

    def summaries(
        self, name: Hashable, inputs: Sequence[list[np.ndarray]], compute: Callable[[list[int]], Sequence[Result]]
    ) -> list[Result]:
        """The results for one name and several inputs; ``compute`` gives all that are new (by position) together."""
        keys = [key_of(name, arrays) for arrays in inputs]
        results = {k: self._retrieve(key) for k, key in enumerate(keys) if self._has(key)}
        new = [k for k in range(len(keys)) if k not in results]
        if new:
            results |= {k: self._share(keys[k], result) for k, result in zip(new, compute(new), strict=True)}
        return [results[k] for k in range(len(keys))]

    def _has(self, key: bytes) -> bool:
        return key in self._results

    def _share(self, key: bytes, result: Any) -> Any:
        return self._keep(key, result)

    def _retrieve(self, key: bytes) -> Any:
        result, size = self._results.pop(key)
        self._size -= size
        return self._keep(key, result)  # weighed again: some results grow while they are used

    def _keep(self, key: bytes, result: Any) -> Any:
        self._results[key] = result, size_of(result)
        self._size += self._results[key][1]
        while self._size > self.limit and len(self._results) > 1:
            self._size -= self._results.popitem(last=False)[1][1]
        return result

    def __getstate__(self) -> dict:
        return {"limit": self.limit, "_results": OrderedDict(), "_size": 0}


class DiskCache(Cache):
    """A cache whose summaries are kept in a folder, one checksummed ``.npz`` file each, written whole or not at all.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> DiskCache(folder).summary("sum", [np.arange(3)], lambda: np.array(3)).tolist()
    3
    >>> DiskCache(folder).summary("sum", [np.arange(3)], lambda: 1 / 0).tolist()
    3
    """

    def __init__(self, folder: Path, limit: int = LIMIT) -> None:
        super().__init__(limit)
        self.folder = folder

    def _has(self, key: bytes) -> bool:
        if key in self._results:
            return True
        try:
            with np.load(io.BytesIO(self._path(key).read_bytes()), allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return False  # not there, or not whole: computed again
        self._keep(key, arrays.get(ALONE, arrays))
        return True

    def _share(self, key: bytes, result: Any) -> Any:
        with atomic_write(self._path(key)) as file:
            np.savez(file, **(result if isinstance(result, dict) else {ALONE: result}))
        return self._keep(key, result)

    def _path(self, key: bytes) -> Path:
        return self.folder / f"{key.hex()[:32]}.npz"

    def __getstate__(self) -> dict:
        return {"folder": self.folder, **super().__getstate__()}


def key_of(name: Hashable, arrays: list[np.ndarray]) -> bytes:
    """Key of a result: a hash of its name and of the arrays it was computed from."""
    digest = hashlib.sha256(repr(name).encode())  # in hardware on most processors: twice as fast as the others
    for array in arrays:
        if hasattr(array, "fingerprint"):  # on disk
            digest.update(array.fingerprint)
            continue
        digest.update(repr((array.shape, array.dtype.str)).encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.digest()


def size_of(result: Any) -> int:
    """Bytes of all arrays inside a result.

    >>> size_of((np.zeros(3), {"a": np.zeros(2)}))
    40
    """
    if isinstance(result, np.ndarray):
        return result.nbytes
    if isinstance(result, Mapping):
        return sum(map(size_of, result.values()))
    if isinstance(result, list | tuple):
        return sum(map(size_of, result))
    return sum(map(size_of, vars(result).values())) if hasattr(result, "__dict__") else 0
