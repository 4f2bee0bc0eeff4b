"""Runs that belong together: CORE with a part taken away, and CORE over a range of one setting."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from brainroam.evaluation.studies import ABLATION
from brainroam.methods.naming import parse_name

BUDGET, WINDOW = ("budget",), ("window", "stride")


def ablations(names: Iterable[str]) -> list[dict[str, str]]:
    """Per configuration that was ablated: the name of the runs of each variant.

    >>> ablations(["core", "core-no-tp", "core[hidden=8]", "fc-ridge"])
    [{'core': 'core', 'core-no-tp': 'core-no-tp'}]
    """
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for name in names:
        method, parameters = parse_name(name)
        if method in ABLATION:
            found[_key(parameters)][method] = name
    return [family for family in found.values() if "core" in family and len(family) > 1]


def sweeps(names: Iterable[str], over: tuple[str, ...]) -> list[dict[tuple, str]]:
    """Per configuration of CORE that was swept: the name of the runs at each value of these parameters.

    >>> sweeps(["core", "core[budget=20]", "core[budget=40]"], BUDGET)
    [{(20,): 'core[budget=20]', (40,): 'core[budget=40]'}]
    """
    found: dict[str, dict[tuple, str]] = defaultdict(dict)
    for name in names:
        method, parameters = parse_name(name)
        if method == "core" and all(isinstance(parameters.get(key), int | float) for key in over):
            rest = {key: value for key, value in parameters.items() if key not in over}
            found[_key(rest)][tuple(parameters[key] for key in over)] = name
    return [dict(sorted(family.items())) for family in found.values() if len(family) > 1]


def studied_apart(names: Iterable[str]) -> set[str]:
    """The variants that have a section of their own; the comparison of methods is about the others."""
    names = list(names)
    variants = {name for family in ablations(names) for method, name in family.items() if method != "core"}
    points = {name for over in (BUDGET, WINDOW) for family in sweeps(names, over) for name in family.values()}
    return variants | points


def _key(parameters: Mapping[str, Any]) -> str:
    return json.dumps(parameters, sort_keys=True)
