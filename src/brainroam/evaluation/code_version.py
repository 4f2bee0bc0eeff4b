"""Which code made a result: a method whose code was changed has not been run yet.

The version of the package alone would not tell: people change methods of their own, and install from a repository. So
a version names the content of the files that a result came from, in the rooms where results are computed (readers show
in the hash of the data): what every run uses, and what this method imports besides. A change elsewhere does not make
hours of finished runs old.
"""

import hashlib
import inspect
import re
from collections.abc import Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import brainroam
from brainroam.methods.base import MethodInfo

PACKAGE = Path(brainroam.__file__).parent
ROOMS = ("core", "methods")
IMPORT = re.compile(rf"^\s*(?:from|import)\s+({PACKAGE.name}[\w.]*)(?:\s+import\s+(\([^)]*\)|.*))?", re.MULTILINE)
USED_BY_EVERY_RUN = PACKAGE / "methods" / "tuning.py"


def code_version(info: MethodInfo) -> str:
    """Version of the package, eight digits of the code that all runs share, and eight of the method's own.

    >>> from brainroam.methods.registry import method_info
    >>> ridge, core = code_version(method_info("fc-ridge")), code_version(method_info("core"))
    >>> ridge.startswith(f"{brainroam.__version__}+"), package_of(ridge) == package_of(core), ridge == core
    (True, True, False)
    """
    shared, own = (_digest(imported(files)) for files in ([USED_BY_EVERY_RUN], _defined_in(info)))
    told = repr((_named(_settings(info.make)), _named(info.grid), _named(info.fast)))
    own = hashlib.sha256(f"{own} {told}".encode()).hexdigest()
    return f"{brainroam.__version__}+{shared[:8]}/{own[:8]}"


def package_of(version: str) -> str:
    """The part of a version that all methods of one installation share.

    >>> package_of("0.1.0+12345678/87654321")
    '0.1.0+12345678'
    """
    return version.partition("/")[0]


def imported(files: Iterable[Path]) -> set[Path]:
    """These files and what they import of `ROOMS`, directly or not.

    >>> sorted(path.name for path in imported([PACKAGE / "core" / "tangent.py"]))
    ['geometric_mean.py', 'series.py', 'symmetric.py', 'tangent.py']
    """
    found: set[Path] = set()
    todo = list(files)
    while todo:
        file = todo.pop()
        if file not in found:
            found.add(file)
            todo += _imports(file, file.stat().st_mtime_ns)
    return found


@cache
def _imports(file: Path, changed: int) -> tuple[Path, ...]:
    """What one file of this age imports of our rooms, wherever in the file; a name may be a module or stand in one."""
    names: list[str] = []
    for module, listed in IMPORT.findall(file.read_text(encoding="utf-8", errors="replace")):
        names += [module, *(f"{module}.{name}" for name in re.findall(r"\w+", listed))]
    return tuple(path for name in names for path in _module(name))


def _module(name: str) -> Iterator[Path]:
    package, *parts = name.split(".")
    if package == PACKAGE.name and parts and parts[0] in ROOMS:
        place = PACKAGE.joinpath(*parts)
        yield from (path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file())


def _defined_in(info: MethodInfo) -> list[Path]:
    """The files of the method's class and of what it is made with; none where they were typed at a prompt."""
    found = []
    for part in [_maker(info.make), *_settings(info.make).values()]:
        try:
            file = inspect.getsourcefile(part) if callable(part) else None
        except (TypeError, OSError):
            continue
        if file and Path(file).is_file():
            found.append(Path(file).resolve())
    return found


def _maker(make: Any) -> Any:
    return make.func if isinstance(make, partial) else make


def _settings(make: Any) -> dict[str, Any]:
    return {str(k): value for k, value in enumerate(make.args)} | make.keywords if isinstance(make, partial) else {}


def _named(settings: dict[str, Any]) -> list[tuple[str, str]]:
    """Settings as text that is the same in every process."""
    return sorted((name, getattr(value, "__qualname__", repr(value))) for name, value in settings.items())


def _digest(files: Iterable[Path]) -> str:
    """Of the content of files, by their names; line ends do not count."""
    contents = ((file.name.encode(), file.read_bytes().replace(b"\r\n", b"\n")) for file in files)
    return hashlib.sha256(b"".join(sorted(name + hashlib.sha256(text).digest() for name, text in contents))).hexdigest()
