"""Which code made a result: a method that was changed has not been run yet.

The version of the package alone would not tell: people change methods of their own, and install from a repository.
"""

import hashlib
import inspect
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import brainroam
from brainroam.methods.base import MethodInfo

PACKAGE = Path(brainroam.__file__).parent
ROOMS = ("core", "methods")  # where results are computed; readers show in the hash of the data


def code_version(info: MethodInfo) -> str:
    """Version of the package, eight digits of its code and, for a method from elsewhere, eight of its own file.

    >>> from brainroam.methods.registry import method_info
    >>> version = code_version(method_info("fc-ridge"))
    >>> version.startswith(f"{brainroam.__version__}+"), version == code_version(method_info("core"))
    (True, True)
    """
    ours = f"{brainroam.__version__}+{_digest([file for room in ROOMS for file in (PACKAGE / room).rglob('*.py')])}"
    own = _defined_in(info)
    return ours if own is None or own.is_relative_to(PACKAGE) else f"{ours}/{_digest([own])}"


def package_of(version: str) -> str:
    """The part of a version that all methods of one installation share.

    >>> package_of("0.1.0+12345678/87654321")
    '0.1.0+12345678'
    """
    return version.partition("/")[0]


def _defined_in(info: MethodInfo) -> Path | None:
    """The file of the method's class; None where it was typed at a prompt."""
    made_by = info.make.func if isinstance(info.make, partial) else info.make
    try:
        file = inspect.getsourcefile(made_by)
    except (TypeError, OSError):
        return None
    return Path(file).resolve() if file and Path(file).is_file() else None


def _digest(files: Iterable[Path]) -> str:
    """Of the content of files, by their names; line ends do not count."""
    digest = hashlib.sha256()
    for file in sorted(files):
        content = file.read_bytes().replace(b"\r\n", b"\n")
        digest.update(file.name.encode() + hashlib.sha256(content).digest())
    return digest.hexdigest()[:8]
