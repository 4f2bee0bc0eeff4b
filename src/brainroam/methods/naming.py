"""Names of configured methods: ``core[budget=20]`` is the method ``core`` with its parameter ``budget`` fixed at 20."""

import json
from collections.abc import Mapping
from typing import Any

from brainroam.errors import UsageError

ALIASES = {"champion": "ensemble"}  # earlier names of methods, which scripts may hold
#: What a study runs that names no methods: ours, the strongest simple references, and a control.
STANDARD_METHODS = ("ensemble", "core", "tangent-ridge", "fc-ridge", "confounds")
#: How much is tuned (`brainroam.methods.tuning`), and what holds unless a study says otherwise.
TUNINGS = ("full", "default", "fast")
STANDARD_TUNING = "default"
SEPARATOR = ": "  # between the name of a study and that of a method, where studies stand side by side


def study_of(name: str) -> str:
    """The study that stands before the name of a method, with its separator; nothing where there is none.

    >>> study_of("cc200: core[budget=20]"), study_of("core")
    ('cc200: ', '')
    """
    study, separator, _ = name.partition("[")[0].rpartition(SEPARATOR)
    return study + separator


def bare_name(name: str) -> str:
    """A method without the name of its study.

    >>> bare_name("cc200: core[budget=20]"), bare_name("core")
    ('core[budget=20]', 'core')
    """
    return name.removeprefix(study_of(name))


def split_names(text: str) -> list[str]:
    """Split at the commas that stand outside brackets.

    >>> split_names("fc-ridge, core[window=30,stride=5]")
    ['fc-ridge', 'core[window=30,stride=5]']
    """
    parts, depth = [""], 0
    for character in text:
        depth += (character == "[") - (character == "]")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def parse_name(text: str) -> tuple[str, dict[str, Any]]:
    """The registered name and the fixed parameters; values are JSON where they can be, else text.

    >>> parse_name("core[budget=20,kind=pearson]")
    ('core', {'budget': 20, 'kind': 'pearson'})
    """
    name, bracket, inside = text.strip().partition("[")
    if bracket and not inside.endswith("]"):
        raise UsageError(f"{text!r} lacks its closing bracket; write it as core[budget=20]")
    parameters = {}
    for part in split_names(inside[:-1]):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not key.isidentifier() or key in parameters:
            raise UsageError(f"{part!r} in {text!r} is not one more NAME=VALUE; write it as core[budget=20]")
        parameters[key] = json_or_text(value)
    return ALIASES.get(name.strip(), name.strip()), parameters


def full_name(method: str, parameters: Mapping[str, Any]) -> str:
    """The name by which results are listed, the same for the same parameters in any order.

    >>> full_name("core", {"window": 30, "stride": 5}), full_name("fc-ridge", {})
    ('core[stride=5,window=30]', 'fc-ridge')
    """
    if not parameters:
        return method
    return f"{method}[{','.join(f'{key}={as_typed(value)}' for key, value in sorted(parameters.items()))}]"


def json_or_text(text: str) -> Any:
    """The value that a text is in JSON, else the text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def as_typed(value: Any) -> str:
    """Text bare where it reads back as itself, anything else as JSON."""
    if isinstance(value, str) and json_or_text(value) == value:
        return value
    return json.dumps(value, separators=(",", ":"))
