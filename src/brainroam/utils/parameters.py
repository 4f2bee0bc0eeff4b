"""Settings that people type, held against the parameters they are for.

The annotation of a parameter says what kind of value it takes, and a positive default that it is no negative number;
a whole number is then at least 1, but for epochs, of which there may be none. What a value means beyond that is checked
by whoever reads it.
"""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from brainroam.errors import UsageError, unknown

WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text", NoneType: "null"}


def require_settings(what: str, make: Callable, settings: Mapping[str, Any]) -> None:
    """Refuse settings that ``make`` has no parameter for, or whose values it cannot take.

    >>> class Reader:
    ...     def __init__(self, hidden: int = 16, strength: float = 1.0, seed: int | None = None) -> None: ...
    >>> require_settings("reader", Reader, {"hidden": 8, "strength": 2})
    >>> require_settings("reader", Reader, {"hidden": "many"})
    Traceback (most recent call last):
    brainroam.errors.UsageError: reader: hidden must be a whole number, at least 1, not 'many'
    """
    named = settings_of(make)
    for name, value in settings.items():
        if name in named:
            _require(what, named[name], value)
        elif len(named) == len(inspect.signature(make).parameters):
            raise unknown(f"setting of {what}", name, named)


def require_positive(**settings: float | None) -> None:
    """Refuse numbers that are not larger than 0; None is no number.

    >>> require_positive(strength=0)
    Traceback (most recent call last):
    brainroam.errors.UsageError: strength must be larger than 0, not 0
    """
    for name, value in settings.items():
        if value is not None and not value > 0:
            raise UsageError(f"{name} must be larger than 0, not {value}")


def require_between(low: float, high: float, **settings: float) -> None:
    """Refuse numbers outside of two bounds, which are allowed themselves.

    >>> require_between(0, 1, dropout=3)
    Traceback (most recent call last):
    brainroam.errors.UsageError: dropout must lie between 0 and 1, not be 3
    """
    for name, value in settings.items():
        if not low <= value <= high:
            raise UsageError(f"{name} must lie between {low:g} and {high:g}, not be {value:g}")


def settings_of(make: Callable) -> dict[str, inspect.Parameter]:
    """The named parameters of a callable."""
    parameters = inspect.signature(make, eval_str=True).parameters
    return {name: parameter for name, parameter in parameters.items() if parameter.kind is not parameter.VAR_KEYWORD}


def in_words(hint: Any) -> str:
    """What kind of value an annotation stands for.

    >>> in_words(int | None), in_words(Sequence[float])
    ('a whole number or null', 'a list like [a number, a number]')
    """
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(in_words(one) for one in inner)
    if origin in (Sequence, tuple):
        return f"a list like [{', '.join([in_words(inner[0])] * 2)}]"
    return WORDS.get(hint, "anything")


def _require(what: str, parameter: inspect.Parameter, value: Any) -> None:
    hint, default = parameter.annotation, parameter.default
    least = None
    if isinstance(default, int | float) and not isinstance(default, bool) and default > 0:
        least = 1 if hint is int and "epoch" not in parameter.name else 0
    if not _fits(value, hint) or (least is not None and isinstance(value, Real) and float(value) < least):
        bound = "" if least is None else f", at least {least}"
        raise UsageError(f"{what}: {parameter.name} must be {in_words(hint)}{bound}, not {value!r}")


def _fits(value: Any, hint: Any) -> bool:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in inner)
    if origin in (Sequence, tuple):
        return isinstance(value, list | tuple) and all(_fits(one, inner[0]) for one in value)
    if hint is int:
        return isinstance(value, Integral) and not isinstance(value, bool)
    if hint is float:
        return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    return not isinstance(hint, type) or hint not in WORDS or isinstance(value, hint)
