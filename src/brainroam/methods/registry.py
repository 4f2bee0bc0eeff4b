"""The registry: names of methods, how they are written, and the method of each.

``core[budget=20]`` is the method ``core`` with its parameter ``budget`` fixed at 20. Nothing heavy is imported before a
method is asked for, so that ``--help`` answers at once.

Packages of other people add methods by an entry point of the group ``brainroam.methods`` whose value is a `MethodInfo`,
or several in a list::

    [project.entry-points."brainroam.methods"]
    my-method = "my_package:INFO"
"""

import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, TypeAlias

from brainroam.errors import UsageError, unknown
from brainroam.utils.optional import extra, installed

if TYPE_CHECKING:
    from brainroam.methods.base import MethodInfo

Judged: TypeAlias = Any  # a name, file.py:name, a MethodInfo, a Method class, an EstimatorMethod or an estimator
IN_A_FILE = ".py:"
ALIASES = {"champion": "ensemble"}  # earlier names of methods, which scripts may hold
FLAGSHIP = "core"  # what is fitted, run and reported unless another method is named
#: What a study runs that names no methods: ours, the strongest simple references, and a control.
STANDARD_METHODS = (FLAGSHIP, "ensemble", "tangent-ridge", "fc-ridge", "confounds")
#: How much is tuned (`brainroam.methods.tuning`), and what holds unless a study says otherwise.
TUNINGS = ("full", "default", "fast")
STANDARD_TUNING = "default"
SEPARATOR = ": "  # between the name of a study and that of a method, where studies stand side by side
GROUP = "brainroam.methods"
_METHODS: "dict[str, MethodInfo]" = {}
_plugged_in: set[EntryPoint] = set()
_LIGHT = ("ensemble", "edge_ridge", "linear", "scaffold_ridge", "combat", "boosted_trees", "controls", "core")
_BASELINES = (  # in the order of the tables of the paper
    *("gcn", "gat", "gin", "irm", "coral", "gsat", "disc", "cepg", "disco", "brainnettf", "agmgc"),
    *("fc_hgnn", "xg_gnn", "deci", "brainood", "mean_mlp"),
)
_DEEP = tuple(f"deep.{name}" for name in _BASELINES)  # these import torch, which takes seconds


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


def resolve(methods: Judged | Sequence[Judged] | Mapping[str, Judged]) -> "list[tuple[MethodInfo, dict[str, Any]]]":
    """Registry entry and fixed parameters of everything that `evaluate` takes for methods.

    Registered names, ``file.py:name``, `MethodInfo`, `Method` classes, `EstimatorMethod` and bare estimators; one of
    them, several, or several under names of one's own.

    >>> from sklearn.linear_model import RidgeClassifier
    >>> [(info.name, fixed) for info, fixed in resolve(["core[budget=20]", RidgeClassifier()])]
    [('core', {'budget': 20}), ('RidgeClassifier', {})]
    >>> [info.name for info, _ in resolve({"mine": RidgeClassifier(), "core": "core"})]
    ['mine', 'core']
    """
    if isinstance(methods, Mapping):
        return [with_name(str(name), *_resolve_one(method)) for name, method in methods.items()]
    each = methods if isinstance(methods, Sequence) and not isinstance(methods, str) else [methods]
    return [_resolve_one(method) for method in each]


def _resolve_one(method: Judged) -> "tuple[MethodInfo, dict[str, Any]]":
    if isinstance(method, str) and IN_A_FILE not in method:
        name, fixed = parse_name(method)
        return method_info(name), fixed
    from brainroam.methods.adapter import resolve_own

    return resolve_own(method)


def with_name(name: str, info: "MethodInfo", fixed: dict[str, Any]) -> "tuple[MethodInfo, dict[str, Any]]":
    """A method under a name of the user's, which must not be that of another one."""
    if "[" in name or SEPARATOR in name or not name.strip():
        raise UsageError(f"{name!r} cannot name a method: leave out brackets and {SEPARATOR!r}")
    if is_taken(name) and (info.estimator is not None or name != info.name):
        raise UsageError(f"{name!r} names a registered method; give yours another name: {{'my-{name}': ...}}")
    return replace(info, name=name), fixed


def late_imports(names: Iterable[str]) -> list[str]:
    """Modules that methods of these names import when they are fitted; a process that will be forked imports them once.

    >>> late_imports(["fc-ridge", "ensemble"])
    []
    """
    trains = installed("torch") and any(name.startswith("core") for name in names)
    return ["brainroam.core.training"] if trains else []


def register(info: "MethodInfo") -> "MethodInfo":
    """Add a method. One of your own takes the place of an earlier one of that name, which a warning says."""
    if info.name in _METHODS:
        if is_ours(_METHODS[info.name]):
            raise UsageError(f"a method named {info.name!r} exists already in brainroam; choose another name")
        warnings.warn(f"the method {info.name!r} is registered again: the new one is used from now on", stacklevel=2)
    _METHODS[info.name] = info
    return info


@contextmanager
def temporarily(*infos: "MethodInfo") -> Iterator[None]:
    """Register methods for the length of a block, also in place of ours: for tests, and to try something.

    >>> from dataclasses import replace
    >>> with temporarily(replace(method_info("fc-ridge"), name="trial")):
    ...     is_taken("trial")
    True
    >>> is_taken("trial")
    False
    """
    _import(_LIGHT)
    if any(_is_baseline(info.name) for info in infos):
        _load()
    before = {info.name: _METHODS.get(info.name) for info in infos}
    _METHODS.update({info.name: info for info in infos})
    try:
        yield
    finally:
        for name, info in before.items():
            if info is None:
                _METHODS.pop(name, None)
            else:
                _METHODS[name] = info


def is_ours(info: "MethodInfo") -> bool:
    """Whether a method came with brainroam: its class, or that of the estimator it wraps.

    >>> is_ours(method_info("core"))
    True
    """
    made_by = getattr(info.make, "func", info.make) if info.estimator is None else type(info.estimator)
    return str(getattr(made_by, "__module__", "")).partition(".")[0] == "brainroam"


def method_info(name: str) -> "MethodInfo":
    """Look a method up by name; torch is imported only if the name is none of those that can do without."""
    name = ALIASES.get(name, name)
    _import(_LIGHT)
    if name not in _METHODS:
        _load()
    if _is_baseline(name):
        extra("torch", "torch")
    if name not in _METHODS:
        raise unknown("method", name, _METHODS)
    return _METHODS[name]


def check_names(names: Iterable[str]) -> None:
    """An error for a name, or a name with parameters in brackets, that is no method; files of code are not opened.

    >>> check_names(["core[budget=20]", "my_methods.py:pipeline"])
    """
    for name in names:
        if IN_A_FILE not in name:
            method_info(parse_name(name)[0])


def is_taken(name: str) -> bool:
    """Whether a method of brainroam, or one that was registered, has this name; torch is not imported for it.

    >>> is_taken("core"), is_taken("gcn"), is_taken("mine")
    (True, True, False)
    """
    _import(_LIGHT)
    return name in _METHODS or name in ALIASES or _is_baseline(name)


def _is_baseline(name: str) -> bool:
    return name.removesuffix("-proxy").replace("-", "_") in _BASELINES


def method_names() -> list[str]:
    """All registered names, in the order they are listed; without those that need torch where it is not installed."""
    _load()
    return list(_METHODS)


def _load() -> None:
    """Import everything that registers methods, on first use."""
    _import(_LIGHT)
    if installed("torch"):
        _import(_DEEP)
    for entry in entry_points(group=GROUP):
        if entry not in _plugged_in:
            _plugged_in.add(entry)
            _plug_in(entry)


def _import(modules: Sequence[str]) -> None:
    for module in modules:
        import_module(f"brainroam.methods.{module}")


def _plug_in(entry: EntryPoint) -> None:
    """Register what an entry point offers; a plug-in that is broken costs a warning, not the other methods."""
    source = f"the plug-in {entry.name!r} ({entry.value}{f' of {entry.dist.name}' if entry.dist else ''})"
    from brainroam.methods.base import MethodInfo

    try:
        offered = entry.load()
    except Exception as error:  # whatever somebody else's package raises when it is imported
        warnings.warn(f"{source} cannot be used: {type(error).__name__}: {error}", stacklevel=5)
        return
    for info in offered if isinstance(offered, (list, tuple)) else [offered]:
        if not isinstance(info, MethodInfo):
            warnings.warn(f"{source} cannot be used: it holds a {type(info).__name__}, no MethodInfo", stacklevel=5)
        elif info.name in _METHODS:
            raise UsageError(
                f"{source} offers a method named {info.name!r}, which exists already; uninstall one of them"
            )
        else:
            register(info)
