"""What each block of measurements adds: a method that reads all blocks against itself without one of them."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from brainroam.data.target import Target
from brainroam.data.target.base import Place
from brainroam.errors import listed
from brainroam.methods.blocks import names_of
from brainroam.methods.registry import full_name, json_or_text, parse_name

ALPHA = 0.05


class LeftOut(NamedTuple):
    """A method of all blocks (``whole``) and the same ``without`` one ``block``, which leaves the ``others``."""

    whole: str
    without: str
    block: str
    others: str


def find_left_out_blocks(methods: Iterable[str], scores: pd.DataFrame) -> list[LeftOut]:
    """Each block that one of these methods reads and its like does not, which reads all others.

    Which blocks a method reads that names none stands in the ``configuration`` of its ``scores``; where that is not
    known, those are taken that its likes name.

    >>> parts = find_left_out_blocks(["core", "core[blocks=rest]", "core[blocks=anatomy]", "ensemble"], pd.DataFrame())
    >>> [part.block for part in parts]
    ['anatomy', 'rest']
    """
    methods, read = list(methods), _blocks_read(scores)
    variants: dict[str, dict[frozenset[str], str]] = {}
    for name in methods:
        method, settings = parse_name(name)
        if "blocks" in settings:
            blocks = frozenset(names_of(settings.pop("blocks")))
            variants.setdefault(full_name(method, settings), {})[blocks] = name
    parts = []
    for whole, by_blocks in variants.items():
        every = read.get(whole) or frozenset[str]().union(*by_blocks)
        for block in sorted(every):
            without = by_blocks.get(every - {block})
            if whole in methods and without is not None:
                parts.append(LeftOut(whole, without, block, " and ".join(sorted(every - {block}))))
    return parts


def _blocks_read(scores: pd.DataFrame) -> dict[str, frozenset[str]]:
    """The blocks that each method read in any of its runs.

    >>> runs = pd.DataFrame({"method": ["core"], "configuration": ['{"blocks": [["rest", {}], ["task", {}]]}']})
    >>> sorted(_blocks_read(runs)["core"])
    ['rest', 'task']
    """
    read: dict[str, frozenset[str]] = {}
    if "configuration" not in scores:
        return read
    for method, text in scores[["method", "configuration"]].drop_duplicates().itertuples(index=False):
        content = json_or_text(text) if isinstance(text, str) else None
        if isinstance(content, dict) and "blocks" in content:
            names = frozenset(str(name) for name, _ in content["blocks"])
            read[str(method)] = read.get(str(method), frozenset()) | names
    return read


def describe_added(row: Any, part: LeftOut, place: Place, target: Target) -> str:
    """A row of pairs (``difference``, ``low``, ``high``, ``p_holm``, ``won``, ``n_sites``) in words.

    >>> from brainroam.data.target import TWO_CLASSES
    >>> row = pd.Series({"difference": 0.014, "low": 0.003, "high": 0.025, "p_holm": 0.02, "won": 16, "n_sites": 20})
    >>> part, place = LeftOut("core", "core[blocks=rest]", "anatomy", "rest"), Place("", "the next site", "site")
    >>> describe_added(row, part, place, TWO_CLASSES)
    'anatomy adds 1.4 AUC points to rest on average (core; 95 % interval 0.3 to 2.5; better at 16 of 20 held-out sites)'
    >>> describe_added(-row, part, place, TWO_CLASSES).partition(" (")[0]
    'anatomy takes 1.4 AUC points from rest on average'
    """
    change = target.order.describe_added(row, part.others)
    interval = [f"95 % interval {target.order.describe_interval(row.low, row.high)}"] if np.isfinite(row.low) else []
    facts = [part.whole, *interval, f"better at {abs(row.won):.0f} of {abs(row.n_sites):.0f} held-out {place.unit}s"]
    text = f"{part.block} {change} on average ({'; '.join(facts)})"
    return text if row.p_holm < ALPHA else f"{text}: these {place.unit}s cannot tell that from nothing"


def notes_on_missing_blocks(predictions: pd.DataFrame) -> Iterator[str]:
    """Of methods that read some blocks only: who has none of them, which a score shared within a site shows."""
    if "score" not in predictions:
        return
    for name, people in predictions.groupby("method", sort=False):
        if "blocks" not in parse_name(str(name))[1]:
            continue
        runs = [key for key in ("protocol", "site", "fold", "seed") if key in people]
        alike = people.groupby([*runs, "score"])["score"].transform("size") > 1
        lacking, everybody = people[alike].groupby("subject"), people["subject"].nunique()
        if len(lacking):
            nobody = people.assign(alike=alike).groupby("site", sort=True)["alike"].all()
            where = f" (nobody of {listed(nobody.index[nobody])} has it: an AUC of 50 there)" if nobody.any() else ""
            yield (
                f"{name}: {len(lacking)} of {everybody} people share one score at their site, as who lacks a block "
                f"does{where}. Its figures are of all people, not of those who have the block."
            )
