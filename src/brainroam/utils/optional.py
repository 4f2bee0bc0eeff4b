"""Packages that only some users need: imported where they are used, and asked for by the line that installs them."""

from importlib import import_module
from types import ModuleType

from brainroam.errors import BrainroamError


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
