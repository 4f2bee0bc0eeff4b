"""JSON documents that state their own checksum, so that one cut short or changed is never taken for whole."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from brainroam.errors import BrainroamError
from brainroam.files import write_text

SCHEMA = 1


def write_sealed(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON document with schema and checksum; an interruption leaves no half of it."""
    sealed = {"schema": SCHEMA, "checksum": content_hash(content), **content}
    write_text(path, json.dumps(sealed, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def read_sealed(path: Path, error_class: type[BrainroamError] = BrainroamError) -> dict[str, Any]:
    """Read what `write_sealed` wrote; anything else is an error that says what is wrong with it."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        schema, checksum = content.pop("schema"), content.pop("checksum")
        digest = content_hash(content)
    except OSError as error:
        raise error_class(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise error_class(f"{path} is cut short, or not a file of brainroam") from error
    if schema != SCHEMA:
        raise error_class(f"{path} has schema {schema!r}; this version of brainroam reads {SCHEMA}")
    if checksum != digest:
        raise error_class(f"{path} was changed after it was written: its checksum does not match")
    return content


def content_hash(content: Any) -> str:
    """SHA-256 of plain values, the same on every machine.

    >>> content_hash({"a": 1, "b": [0.5]}) == content_hash({"b": [0.5], "a": 1})
    True
    """
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
