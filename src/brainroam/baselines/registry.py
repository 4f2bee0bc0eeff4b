"""The names `brainroam methods` lists, and how each method is made."""

from importlib import import_module

from brainroam.baselines.base import MethodInfo
from brainroam.errors import UsageError, unknown

_METHODS: dict[str, MethodInfo] = {}
_OURS = ("champion", "core_methods")
_LINEAR = ("linear", "site_ridge", "combat", "controls")
_DEEP = (  # in the order of CORE's tables
    *("gcn", "gat", "gin", "irm", "coral", "gsat", "disc", "cepg", "disco"),
    *("brainnettf", "agmgc", "fc_hgnn", "xg_gnn", "deci", "brainood", "mean_mlp"),
)


def register(info: MethodInfo) -> MethodInfo:
    """Add a method; two methods cannot share a name."""
    if info.name in _METHODS:
        raise UsageError(f"a method named {info.name!r} exists already; choose another name")
    _METHODS[info.name] = info
    return info


def method_info(name: str) -> MethodInfo:
    """Look a method up by name."""
    _load()
    if name not in _METHODS:
        raise unknown("method", name, _METHODS)
    return _METHODS[name]


def method_names() -> list[str]:
    """All registered names, in the order they are listed."""
    _load()
    return list(_METHODS)


def _load() -> None:
    """Import the modules that register methods, on first use: some of them need torch."""
    for module in (*_OURS, *_LINEAR, *_DEEP):
        import_module(f"brainroam.baselines.{module}")
