"""The version of the code behind a result: after a change of its code a method is run again.

The version of the package alone would not tell: people change methods of their own, and install from a repository. So
a version names the code of the files that a result came from: what every run uses, and what this method imports
besides. Comments, docstrings and the layout of the text do not count, since they cannot change a number; nor does code
whose effect shows in the hashes of the data (`SHOWS_IN_THE_DATA`). A change elsewhere does not make hours of finished
runs old.
"""

import ast
import hashlib
import inspect
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import brainroam
from brainroam.methods.base import MethodInfo

PACKAGE = Path(brainroam.__file__).parent
ROOMS = ("core", "data", "methods")
_SHOWN = "atlas check detect extract loading.py readers store.py study_file.py synthetic.py"
SHOWS_IN_THE_DATA = tuple(PACKAGE / "data" / name for name in _SHOWN.split())
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
USED_BY_EVERY_RUN = (
    PACKAGE / "methods" / "tuning.py",
    PACKAGE / "evaluation" / "stats" / "metrics.py",
    PACKAGE / "data" / "stored_cohort.py",  # a cohort on disk
)


def code_version(info: MethodInfo) -> str:
    """Version of the package, eight digits of the code that all runs share, and eight of the method's own.

    >>> from brainroam.methods.registry import method_info
    >>> ridge, core = code_version(method_info("fc-ridge")), code_version(method_info("core"))
    >>> ridge.startswith(f"{brainroam.__version__}+"), package_of(ridge) == package_of(core), ridge == core
    (True, True, False)
    """
    shared, own = (_digest(imported_files(files)) for files in (USED_BY_EVERY_RUN, _defined_in(info)))
    settings = repr((_as_text(_settings(info.make)), _as_text(info.grid), _as_text(info.fast), *_typed_source(info)))
    own = hashlib.sha256(f"{own} {settings}".encode()).hexdigest()
    return f"{brainroam.__version__}+{shared[:8]}/{own[:8]}"


def package_of(version: str) -> str:
    """The part of a version that all methods of one installation share.

    >>> package_of("0.1.0+12345678/87654321")
    '0.1.0+12345678'
    """
    return version.partition("/")[0]


def imported_files(files: Iterable[Path]) -> set[Path]:
    """These files and what they import of `ROOMS`, directly or not.

    >>> files = imported_files([PACKAGE / "core" / "connectivity.py"])
    >>> sorted(path.name for path in files if path.parent.name == "core")
    ['connectivity.py', 'tangent.py']
    """
    modules: set[Path] = set()
    todo = list(files)
    while todo:
        file = todo.pop()
        if file not in modules:
            modules.add(file)
            todo += _read(file, file.stat().st_mtime_ns)[0]
    return modules


@cache
def _read(file: Path, changed: int) -> tuple[tuple[Path, ...], bytes]:
    """The files of `ROOMS` that a file imports anywhere, and a hash of its code; ``changed`` is its time stamp."""
    tree = ast.parse(file.read_bytes())
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:  # a name may be a module or stand in one
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    code = hashlib.sha256(ast.unparse(tree).encode()).digest()
    return tuple(path for name in names for path in _module(name)), code


def _module(name: str) -> Iterator[Path]:
    package, *parts = name.split(".")
    if package == PACKAGE.name and parts and parts[0] in ROOMS:
        place = PACKAGE.joinpath(*parts)
        for path in (place.with_suffix(".py"), place / "__init__.py"):
            if path.is_file() and not any(path.is_relative_to(other) for other in SHOWS_IN_THE_DATA):
                yield path


def _defined_in(info: MethodInfo) -> list[Path]:
    """The files of the method's class and of what it is made with; none where they were typed at a prompt."""
    return [file for file in map(_file, _parts(info)) if file is not None]


def _typed_source(info: MethodInfo) -> list[str]:
    """The text of what was typed at a prompt or in a notebook, where Python still has it."""
    types = []
    for part in _parts(info):
        if _file(part) is None:
            with suppress(TypeError, OSError):
                types.append(inspect.getsource(part))
    return sorted(types)


def _parts(info: MethodInfo) -> list[Any]:
    """The classes and functions that a method is made of."""
    values = _settings(info.make).values()
    return [
        _maker(info.make),
        *(type(v) if hasattr(v, "fit") else v for v in values if callable(v) or hasattr(v, "fit")),
    ]


def _file(part: Any) -> Path | None:
    with suppress(TypeError, OSError):
        file = inspect.getsourcefile(part)
        if file and Path(file).is_file():
            return Path(file).resolve()
    return None


def _maker(make: Any) -> Any:
    return make.func if isinstance(make, partial) else make


def _settings(make: Any) -> dict[str, Any]:
    if not isinstance(make, partial):
        return {}
    settings = {str(k): value for k, value in enumerate(make.args)} | make.keywords
    return settings | {f"{k}__{name}": v for k, part in settings.items() for name, v in _of_estimator(part).items()}


def _of_estimator(part: Any) -> dict[str, Any]:
    """The parameters of an estimator of scikit-learn's kind and of its parts."""
    return part.get_params(deep=True) if hasattr(part, "get_params") and not isinstance(part, type) else {}


def _as_text(settings: dict[str, Any]) -> list[tuple[str, str]]:
    """Settings as text that is the same in every process."""
    return sorted((name, _text(value)) for name, value in settings.items())


def _text(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.shape} {value.dtype} {hashlib.sha256(value.tobytes()).hexdigest()}"
    if hasattr(value, "fit"):  # its parameters are named one by one
        return type(value).__qualname__
    return getattr(value, "__qualname__", ADDRESS.sub("", repr(value)))


def _digest(files: Iterable[Path]) -> str:
    """A hash of the names and code of files."""
    codes = (file.name.encode() + _read(file, file.stat().st_mtime_ns)[1] for file in files)
    return hashlib.sha256(b"".join(sorted(codes))).hexdigest()
