"""Checks of settings by the annotations of the parameters they are for.

An annotation says what kind of value a parameter takes and within which bounds: ``hidden: PositiveInt``,
``dropout: Share``, ``penalties: Sequence[PositiveFloat]``, ``train: Literal["episodic", "joint"]``. pydantic checks the
value, its JSON schema gives the words. Arrays and numbers of numpy are taken as the lists and numbers they hold.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import lru_cache, wraps
from typing import Annotated, Any, Literal, TypeVar, cast, get_args, get_origin

import numpy as np
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from brainroam.errors import UsageError, unknown

Share = Annotated[float, Field(ge=0, le=1)]
Percentile = Annotated[float, Field(ge=0, le=100)]

F = TypeVar("F", bound=Callable[..., Any])
STRICT = ConfigDict(strict=True, allow_inf_nan=False)
WORDS = {
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "null": "null",
}
BOUNDS = {"exclusiveMinimum": "larger than", "minimum": "at least", "maximum": "at most"}


def require_settings(what: str, make: Callable, settings: Mapping[str, Any]) -> None:
    """Refuse settings that ``make`` has no parameter for, or whose values it cannot take.

    >>> from pydantic import PositiveInt
    >>> class Reader:
    ...     def __init__(self, hidden: PositiveInt = 16, strength: float = 1.0, seed: int | None = None) -> None: ...
    >>> require_settings("reader", Reader, {"hidden": np.int64(8), "strength": 2})
    >>> require_settings("reader", Reader, {"hidden": "many"})
    Traceback (most recent call last):
    brainroam.errors.UsageError: reader: hidden must be a whole number larger than 0, not 'many'
    """
    named = settings_of(make)
    for name, value in settings.items():
        if name in named:
            _require(what, name, named[name].annotation, value)
        elif len(named) == len(inspect.signature(make).parameters):
            raise unknown(f"setting of {what}", name, named)


def settings_of(make: Callable) -> dict[str, inspect.Parameter]:
    """The named parameters of a callable."""
    parameters = inspect.signature(make, eval_str=True).parameters
    return {name: parameter for name, parameter in parameters.items() if parameter.kind is not parameter.VAR_KEYWORD}


def says_how_to_call(method: F) -> F:
    """A method whose error for arguments it does not take says which it takes.

    >>> class Reader:
    ...     @says_how_to_call
    ...     def fit(self, X, y=None, *, site=None): ...
    >>> Reader().fit([], [], groups=["A"])
    Traceback (most recent call last):
    TypeError: got an unexpected keyword argument 'groups'; Reader.fit is called as fit(X, y, site=...)
    """
    signature = inspect.signature(method)
    _, *taken = signature.parameters.values()
    shown = [one.name + ("=..." if one.kind is one.KEYWORD_ONLY else "") for one in taken]

    @wraps(method)
    def called(self: Any, *args: Any, **given: Any) -> Any:
        try:
            signature.bind(self, *args, **given)
        except TypeError as error:
            name = method.__name__
            raise TypeError(f"{error}; {type(self).__name__}.{name} is called as {name}({', '.join(shown)})") from None
        return method(self, *args, **given)

    return cast(F, called)


@lru_cache(maxsize=256)
def in_words(hint: Any) -> str:
    """The kind of value of an annotation, in words.

    >>> from collections.abc import Sequence
    >>> in_words(int | None), in_words(Share), in_words(Sequence[str])
    ('a whole number or null', 'a number at least 0 and at most 1', 'a list like [text, text]')
    """
    try:
        return _words(_adapter(hint).json_schema())
    except PydanticUserError:  # a type that JSON has no word for
        return "anything"


def _words(schema: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_words(one) for one in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(map(repr, schema["enum"]))
    if schema.get("type") == "array":
        return f"a list like [{', '.join([_words(schema['items'])] * 2)}]"
    bounds = " and ".join(f"{words} {schema[name]:g}" for name, words in BOUNDS.items() if name in schema)
    return f"{WORDS.get(schema.get('type', ''), 'anything')} {bounds}".strip()


def _require(what: str, name: str, hint: Any, value: Any) -> None:
    if in_words(hint) == "anything":
        return
    content = np.asarray(value).tolist() if isinstance(value, np.ndarray | np.generic | range) else value
    try:
        _adapter(hint).validate_python(content)
    except ValidationError as error:
        if get_origin(hint) is Literal and isinstance(value, str):
            raise unknown(name, value, get_args(hint)) from error
        raise UsageError(f"{what}: {name} must be {in_words(hint)}, not {value!r}") from error


@lru_cache(maxsize=256)
def _adapter(hint: Any) -> TypeAdapter:
    return TypeAdapter(Any if hint is inspect.Parameter.empty else hint, config=STRICT)
