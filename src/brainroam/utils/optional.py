"""Optional packages: imported where they are used, or an error with the line that installs them.

Their tensors and tables become arrays of numpy and tables of pandas at the gates where they come in, and their threads
are held to one while results must not depend on how many there are.
"""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from brainroam.errors import BrainroamError, UsageError

if TYPE_CHECKING:
    import numpy as np


def installed(module: str) -> bool:
    """Whether a module could be imported.

    >>> installed("numpy"), installed("no_such_module")
    (True, False)
    """
    return find_spec(module) is not None


def versions(packages: Iterable[str]) -> dict[str, str]:
    """The versions of those packages that are installed, by their names.

    >>> list(versions(["numpy", "no-such-package"]))
    ['numpy']
    """
    numbers = {}
    for package in packages:
        with suppress(PackageNotFoundError):
            numbers[package] = version(package)
    return numbers


def extra(name: str, module: str) -> ModuleType:
    """Import a module that comes with ``pip install "brainroam[name]"``.

    >>> extra("store", "no_such_module")
    Traceback (most recent call last):
    brainroam.errors.BrainroamError: this needs a package that is not installed; run: pip install "brainroam[store]"
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise BrainroamError(
            f'this needs a package that is not installed; run: pip install "brainroam[{name}]"'
        ) from error


def require_device(name: str) -> None:
    """Refuse a device that torch does not know or cannot reach here."""
    try:
        extra("torch", "torch").empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"nothing can be computed on the device {name!r} here ({reason}); try cpu") from error


def as_array(values: Any) -> "np.ndarray":
    """A tensor of any device, or an array, as an array."""
    import numpy as np

    return values if isinstance(values, np.ndarray) else values.detach().cpu().numpy()


def as_pandas(table: Any) -> Any:
    """A table of polars, or of another library with named columns, as one of pandas; anything else as it is.

    Column by column through numpy, so that neither pyarrow nor the library itself has to be imported here.

    >>> as_pandas([1, 2])
    [1, 2]
    """
    import pandas as pd

    if isinstance(table, (pd.DataFrame, pd.Series)) or not (hasattr(table, "columns") and hasattr(table, "to_numpy")):
        return table
    return pd.DataFrame({str(name): table[name].to_numpy() for name in table.columns})


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread, so that results are the same bytes on any number of cores; also a decorator.

    torch counts its threads itself, from the cores it found at its first product, and `threadpoolctl` does not reach
    the MKL inside it. So where torch is imported late, this has to be entered once more after the import.

    >>> with one_thread():
    ...     pass
    """
    from threadpoolctl import threadpool_limits

    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch else 0
    with threadpool_limits(1):
        if torch:
            torch.set_num_threads(1)
        try:
            yield
        finally:
            if torch:
                torch.set_num_threads(before)
