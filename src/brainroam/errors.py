"""Errors written for people: which subject, which site, what is wrong, what to do.

Everything brainroam raises on purpose derives from `BrainroamError`; the command line prints its message and
exits without a traceback. Errors about values also derive from `ValueError`, as scikit-learn's conventions expect.
"""

import re
import shlex
import sys
import warnings
from collections.abc import Iterable

# What moves a cursor, rings a bell or turns the direction of writing; a line end is a control character too.
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def visible(text: object, keep: str = "") -> str:
    r"""Text in which control characters are spelled out, so that a name from a file cannot act on a terminal or a log.

    >>> print(visible("NYU\x1b[2J\n"))
    NYU\x1b[2J\n
    """
    return CONTROL.sub(lambda m: m[0] if m[0] in keep else m[0].encode("unicode_escape").decode(), str(text))


class BrainroamError(Exception):
    """Base of every error brainroam raises on purpose; its message can be printed whatever it quotes."""

    def __str__(self) -> str:
        return visible(super().__str__(), keep="\n\t")


class DataError(BrainroamError, ValueError):
    """The data at hand cannot be used as it is."""


class ReaderError(DataError):
    """A file or folder could not be read as the layout it was taken for."""


class NothingFoundError(ReaderError):
    """A folder is no known layout, or holds no file of anybody where that layout has them."""


class ShortSeriesError(DataError):
    """Some people have fewer volumes than one sliding window needs."""


class EmptyScaffoldError(DataError):
    """No edge passed the scaffold thresholds, or fewer than the gate budget asks for."""


class ModelFileError(BrainroamError):
    """A saved model is damaged, of an unknown schema, or made for other data."""


class SummaryError(BrainroamError):
    """A site's summary or a request is damaged, doubled, too small, or does not fit the others."""


class RunsError(BrainroamError):
    """A folder of runs is incomplete, damaged, or belongs to another cohort."""


class MethodError(BrainroamError, ValueError):
    """A method does not keep to the contract of `brainroam.methods.base`; the message says how it would."""


class UsageError(BrainroamError, ValueError):
    """A name or option that does not exist, with the nearest that does."""


class Terminated(KeyboardInterrupt):
    """The process was asked to end, as SLURM and containers do it (SIGTERM): everything goes as after Ctrl-C."""


class MemoryLimitError(UsageError):
    """The memory that was given is too little; the message says how much is enough."""


def warn_user(text: str) -> None:
    """A warning at the line of the user's own code, however deep below it something was noticed."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in ("brainroam", "sklearn", "joblib"):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, stacklevel=level)


def listed(names: Iterable[object], limit: int = 5) -> str:
    """Join names for a message and say how many were left out.

    >>> listed(["a", "b", "c"], limit=2)
    'a, b and 1 more'
    """
    words = [visible(name) for name in names]
    if len(words) <= limit:
        return ", ".join(words)
    return f"{', '.join(words[:limit])} and {len(words) - limit} more"


def counted(n: int, one: str, many: str) -> str:
    """A number with its noun.

    >>> counted(1, "person has", "people have"), counted(3, "person", "people")
    ('1 person has', '3 people')
    """
    return f"{n} {one if n == 1 else many}"


def unknown(kind: str, name: object, known: Iterable[str]) -> UsageError:
    """An error for a name that does not exist, suggesting the nearest that does.

    >>> str(unknown("method", "tangent-rigde", ["core", "tangent-ridge"]))
    "unknown method 'tangent-rigde'; did you mean 'tangent-ridge'? Known: core, tangent-ridge"
    """
    import difflib

    known = list(known)
    nearest = difflib.get_close_matches(str(name), known, n=1)
    hint = f"; did you mean {nearest[0]!r}?" if nearest else "."
    return UsageError(f"unknown {kind} {str(name)!r}{hint} Known: {', '.join(known)}")


def in_shell(path: object) -> str:
    """A path as it is typed into a shell.

    >>> in_shell("my data"), in_shell("study.yaml")
    ("'my data'", 'study.yaml')
    """
    return shlex.quote(str(path))
