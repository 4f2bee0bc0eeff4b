"""The names `brainroam methods` lists, and how each method is made.

Packages of other people add methods by an entry point of the group ``brainroam.methods`` whose value is a `MethodInfo`,
or several in a list::

    [project.entry-points."brainroam.methods"]
    my-method = "my_package:INFO"
"""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

from brainroam.errors import UsageError, unknown
from brainroam.methods.base import MethodInfo
from brainroam.methods.naming import ALIASES, parse_name
from brainroam.utils.optional import extra, installed

GROUP = "brainroam.methods"
_METHODS: dict[str, MethodInfo] = {}
_plugged_in: set[EntryPoint] = set()
_LIGHT = ("ensemble", "edge_ridge", "linear", "scaffold_ridge", "combat", "controls", "core")
_BASELINES = (  # in the order of the tables of the paper
    *("gcn", "gat", "gin", "irm", "coral", "gsat", "disc", "cepg", "disco", "brainnettf", "agmgc"),
    *("fc_hgnn", "xg_gnn", "deci", "brainood", "mean_mlp"),
)
_DEEP = tuple(f"deep.{name}" for name in _BASELINES)  # these import torch, which takes seconds


def late_imports(names: Iterable[str]) -> list[str]:
    """Modules that methods of these names import when they are fitted; a process that will be forked imports them once.

    >>> late_imports(["fc-ridge", "ensemble"])
    []
    """
    trains = installed("torch") and any(name.startswith("core") for name in names)
    return ["brainroam.core.training"] if trains else []


def register(info: MethodInfo) -> MethodInfo:
    """Add a method. One of your own takes the place of an earlier one of that name, which a warning says."""
    if info.name in _METHODS:
        if is_ours(_METHODS[info.name]):
            raise UsageError(f"a method named {info.name!r} exists already in brainroam; choose another name")
        warnings.warn(f"the method {info.name!r} is registered again: the new one is used from now on", stacklevel=2)
    _METHODS[info.name] = info
    return info


@contextmanager
def temporarily(*infos: MethodInfo) -> Iterator[None]:
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


def is_ours(info: MethodInfo) -> bool:
    """Whether a method came with brainroam: its class, or that of the estimator it wraps.

    >>> is_ours(method_info("core"))
    True
    """
    made_by = getattr(info.make, "func", info.make) if info.estimator is None else type(info.estimator)
    return str(getattr(made_by, "__module__", "")).partition(".")[0] == "brainroam"


def method_info(name: str) -> MethodInfo:
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
        if ".py:" not in name:
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
