"""Packages that only some users need: imported where they are used, and asked for by the line that installs them."""

from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from types import ModuleType

from brainroam.errors import BrainroamError, UsageError


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
    found = {}
    for package in packages:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


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
