"""What each block adds at the next site: all blocks against all but that one, by paired differences over sites."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from brainroam.methods.blocks import names_of
from brainroam.methods.registry import full_name, parse_name


class LeftOut(NamedTuple):
    """A method of all blocks (``whole``) and the same ``without`` one ``block``, which leaves the ``others``."""

    whole: str
    without: str
    block: str
    others: str


def left_out_blocks(methods: Iterable[str]) -> list[LeftOut]:
    """Each block that one of these methods reads and its like does not, which reads all others.

    >>> [part.block for part in left_out_blocks(["core", "core[blocks=rest]", "core[blocks=anatomy]", "ensemble"])]
    ['anatomy', 'rest']
    """
    methods = list(methods)
    variants: dict[str, dict[frozenset[str], str]] = {}
    for name in methods:
        method, settings = parse_name(name)
        if "blocks" in settings:
            blocks = frozenset(names_of(settings.pop("blocks")))
            variants.setdefault(full_name(method, settings), {})[blocks] = name
    found = []
    for whole, by_blocks in variants.items():
        every = frozenset[str]().union(*by_blocks)
        for block in sorted(every):
            without = by_blocks.get(every - {block})
            if whole in methods and without is not None:
                found.append(LeftOut(whole, without, block, " and ".join(sorted(every - {block}))))
    return found


def say_points_added(row: Any, part: LeftOut, unit: str) -> str:
    """A difference of AUCs (``difference``, ``low``, ``high``, ``won``, ``n_sites``) in words.

    >>> import pandas as pd
    >>> row = pd.Series({"difference": 0.014, "low": 0.003, "high": 0.025, "won": 16, "n_sites": 20})
    >>> say_points_added(row, LeftOut("core", "core[blocks=rest]", "anatomy", "rest"), "site")
    'anatomy adds 1.4 AUC points to rest at the next site (core; 95 % interval 0.3 to 2.5; better at 16 of 20 sites)'
    """
    limits = f"95 % interval {100 * row.low:.1f} to {100 * row.high:.1f}"
    return _describe(row, part, unit, f"{100 * row.difference:.1f} AUC points to {part.others}", limits)


def say_order_added(row: Any, part: LeftOut, unit: str, r: str, r_against: str) -> str:
    """A difference of Fisher's z in words, with the two correlations within sites."""
    limits = f"95 % interval of the difference, Fisher's z, {row.low:.2f} to {row.high:.2f}"
    return _describe(row, part, unit, f"to the order that {part.others} gives, r {r} instead of {r_against},", limits)


def _describe(row: Any, part: LeftOut, unit: str, size: str, limits: str) -> str:
    facts = [part.whole, limits] if np.isfinite(row.low) else [part.whole]
    facts.append(f"better at {row.won:.0f} of {row.n_sites:.0f} {unit}s")
    text = f"{part.block} adds {size} at the next {unit} ({'; '.join(facts)})"
    return f"{text}: these {unit}s cannot tell that from nothing" if row.low <= 0 <= row.high else text
