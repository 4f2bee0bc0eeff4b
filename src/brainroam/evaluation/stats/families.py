"""Which comparisons are corrected together (Holm): one rule for every table.

The family is one reference method against every other compared method of the folder under one protocol. Controls count.
Variants of CORE do not: each ablation study and each sweep is a family of its own, with CORE complete or the first
setting as its reference. The reference of the main family is the one given, else `main_method`, which goes by names
alone: a reference chosen by its result would make every p too small. Where several studies stand side by side, names
begin with that of their study (`brainroam.evaluation.results`): a variant belongs to the CORE of its own study.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, product
from typing import Any, NamedTuple

from brainroam.errors import UsageError, unknown
from brainroam.methods.registry import bare_name, full_name, parse_name, study_of

#: CORE and the paper's four ablations: without site-wise deconfounding, with temporal profiles (which it goes without
#: by default), without prior guidance, without gating.
ABLATION = ("core", "core-no-cd", "core-tp", "core-no-pg", "core-no-sg")
BUDGET, WINDOW = ("budget",), ("window", "stride")
SWEEPS: dict[str, list[dict[str, int]]] = {
    "budget": [{"budget": k} for k in (20, 40, 60, 80, 100, 120, 150, 200)],
    "window": [{"window": w, "stride": s} for w, s in product((20, 30, 40, 50, 60), (1, 5, 10, 15))],
}
OURS = ("core", "ensemble")
CONTROLS = ("majority", "confounds", "site-only")
APART = "; ablations and sweeps are corrected separately"


def sweep_names(over: str) -> list[str]:
    """The methods of a sweep: CORE over the gate's budget K, or over window and stride.

    >>> sweep_names("window")[:2]
    ['core[profiles=true,stride=1,window=20]', 'core[profiles=true,stride=5,window=20]']
    """
    if over not in SWEEPS:
        raise unknown("sweep", over, SWEEPS)
    also = {"profiles": True} if over == "window" else {}  # nothing else looks at windows
    return [full_name("core", point | also) for point in SWEEPS[over]]


class Family(NamedTuple):
    """Pairs (method, against) that are corrected together, and what they have in common."""

    what: str
    pairs: list[tuple[str, str]]
    aside: str = ""

    def text(self, title: str) -> str:
        """The rule in a sentence; ``title`` names the protocol.

        >>> Family("ensemble against each other method", [("core", "ensemble")]).text("leave-one-site-out")
        'Holm over 1 comparison: ensemble against each other method (leave-one-site-out).'
        """
        n = len(self.pairs)
        return f"Holm over {n} comparison{'s' * (n != 1)}: {self.what} ({title}){self.aside}."


def check_reference(methods: Iterable[str], reference: str | None, all_pairs: bool) -> None:
    """Refuse a reference that was not run, or one beside all pairs."""
    methods = sorted(methods)
    if reference is not None and reference not in methods:
        raise unknown("method", reference, methods)
    if reference is not None and all_pairs:
        raise UsageError("a reference and all pairs exclude each other; leave one of them out")


def families(names: Sequence[str], reference: str | None = None, all_pairs: bool = False) -> list[Family]:
    """The families of the methods run under one protocol, without those that have nothing to compare.

    Parameters
    ----------
    names : sequence of str
        In the order in which pairs are listed, as best first.
    reference : str, optional
        By default `main_method`. One that was not run under this protocol gives no main family.
    all_pairs : bool
        Every pair instead, as one family.

    Examples
    --------
    >>> for family in families(["fc-ridge", "core", "core-tp", "confounds"]):
    ...     print(family.text("loso"))
    Holm over 2 comparisons: core against each other method (loso); ablations and sweeps are corrected separately.
    Holm over 1 comparison: ablation of core (loso).
    """
    if all_pairs:
        groups = [Family("every pair of methods", list(combinations(names, 2)))]
    else:
        main = reference or main_method(names)
        others = [name for name in compared(names, main) if name != main] if main in names else []
        groups = [Family(f"{main} against each other method", [(name, main) for name in others], APART)]
        # A variant that is the reference itself is compared with CORE there.
        variants_of = ablations(name for name in names if name != main or _parse(name)[1] == "core")
        groups += [
            Family(f"ablation of {variants['core']}", _against(variants["core"], variants.values(), names))
            for variants in variants_of
        ]
        for over in (BUDGET, WINDOW):
            swept = sweeps(names, over)
            for points in swept:
                first = reference if reference in points.values() else next(iter(points.values()))
                what = f"sweep over {' and '.join(over)}" + f" from {first}" * (len(swept) > 1)
                groups.append(Family(what, _against(str(first), points.values(), names)))
    return [family for family in groups if family.pairs]


def main_method(names: Iterable[str]) -> str:
    """The method that a study is about: ours if it was run, else the first by name that is no control.

    >>> main_method(["fc-ridge", "core", "confounds"]), main_method(["b: fc-ridge", "a: fc-ridge", "a: confounds"])
    ('core', 'a: fc-ridge')
    """
    names = sorted(names)
    for ours in OURS:
        for name in names:
            if bare_name(name) == ours:
                return name
    return next((name for name in names if bare_name(name) not in CONTROLS), names[0])


def compared(names: Sequence[str], reference: str) -> list[str]:
    """The methods of the main family: no ablation of CORE and no point of a sweep, except the reference itself.

    >>> compared(["core", "core-tp", "fc-ridge"], "core")
    ['core', 'fc-ridge']
    """
    apart = find_variants(names) - {reference}
    return [name for name in names if name not in apart]


def ablations(names: Iterable[str]) -> list[dict[str, str]]:
    """Per configuration that was ablated: the name of the runs of each variant.

    >>> ablations(["core", "core-tp", "core[hidden=8]", "fc-ridge"])
    [{'core': 'core', 'core-tp': 'core-tp'}]
    """
    variants: dict[str, dict[str, str]] = defaultdict(dict)
    for name in names:
        study, method, parameters = _parse(name)
        if method in ABLATION:
            variants[_key(study, parameters)][method] = name
    return [family for family in variants.values() if "core" in family and len(family) > 1]


def sweeps(names: Iterable[str], over: tuple[str, ...]) -> list[dict[tuple, str]]:
    """Per configuration of CORE that was swept: the name of the runs at each value of these parameters.

    >>> sweeps(["core", "core[budget=20]", "core[budget=40]"], BUDGET)
    [{(20,): 'core[budget=20]', (40,): 'core[budget=40]'}]
    """
    variants: dict[str, dict[tuple, str]] = defaultdict(dict)
    for name in names:
        study, method, parameters = _parse(name)
        if method == "core" and all(isinstance(parameters.get(key), int | float) for key in over):
            rest = {key: value for key, value in parameters.items() if key not in over}
            variants[_key(study, rest)][tuple(parameters[key] for key in over)] = name
    return [dict(sorted(family.items())) for family in variants.values() if len(family) > 1]


def find_variants(names: Iterable[str]) -> set[str]:
    """The variants that have a family of their own; the comparison of methods is about the others."""
    names = list(names)
    variants = {name for family in ablations(names) for method, name in family.items() if method != "core"}
    points = {name for over in (BUDGET, WINDOW) for family in sweeps(names, over) for name in family.values()}
    return variants | points


def _against(reference: str, members: Iterable[str], names: Sequence[str]) -> list[tuple[str, str]]:
    members = set(members) - {reference}
    return [(name, reference) for name in names if name in members]


def _parse(name: str) -> tuple[str, str, dict[str, Any]]:
    """Study, method and parameters."""
    return study_of(name), *parse_name(bare_name(name))


def _key(study: str, parameters: Mapping[str, Any]) -> str:
    return json.dumps([study, parameters], sort_keys=True)
