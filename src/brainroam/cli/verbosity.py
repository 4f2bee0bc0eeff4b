"""``--quiet`` and ``--verbose``, which every command has."""

import inspect
from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from typing import Any

from brainroam.cli.options import Quiet, Verbose

_LEVEL = ContextVar("verbosity", default=0)  # of the command that runs, and of no other


def with_verbosity(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command ``--quiet`` and ``--verbose``; it asks for them with `quiet` and `verbose`."""

    @wraps(command)
    def wrapper(quiet: bool, verbose: bool, **own: Any) -> None:
        _LEVEL.set(int(verbose) - int(quiet))
        command(**own)

    own = inspect.signature(command).parameters.values()
    common = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=annotation)
        for name, annotation in (("quiet", Quiet), ("verbose", Verbose))
    ]
    keywords = [*(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own), *common]
    wrapper.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in keywords}
    return wrapper


def quiet() -> bool:
    """Whether the command was told to be quiet."""
    return _LEVEL.get() < 0


def verbose() -> bool:
    """Whether the command was told to say more."""
    return _LEVEL.get() > 0
