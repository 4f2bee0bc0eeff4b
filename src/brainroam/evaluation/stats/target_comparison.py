"""What comparisons of methods share, whatever is predicted: sentences on pairs of methods and on blocks.

Of a number or several classes also the result (`TargetComparison`) and the table of all families of pairs; what is
compared, and on which scale, is in `numbers` and `classes`. Two classes have `compare`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd

from brainroam.data.target import Target
from brainroam.errors import listed
from brainroam.evaluation.splits import TITLES, UNITS
from brainroam.evaluation.stats.families import families
from brainroam.evaluation.stats.paired import format_p, order_pair
from brainroam.methods.blocks import names_of
from brainroam.methods.registry import full_name, json_or_text, parse_name
from brainroam.utils.html import html_summary


@dataclass(frozen=True)
class TargetComparison:
    """Methods compared at the same held-out sites.

    Attributes
    ----------
    target : Target
    table : DataFrame
        Per protocol and method, best first, with ``verdict``, a sentence.
    paired : DataFrame
        Per pair of methods: mean ``difference`` with ``low``, ``high``, ``p``, ``p_holm``, ``n_sites``, ``won``,
        ``lost``.
    sentences, notes, families : list of str
    caveats : list of str
        What to know before believing predictions that come from a file.
    confounding : DataFrame
        Per protocol and method what motion, age, sex and the size of the head have to do with the predictions, see
        `number_confounding` and `confounding`; empty where the covariates are not known.
    """

    PRINTED: ClassVar[tuple[str, ...]] = ()  # columns of the table that are printed after protocol, method and n_sites
    IN_NOTEBOOKS: ClassVar[tuple[str, ...]] = ()  # the same in notebooks, after method and n_sites

    target: Target
    table: pd.DataFrame
    paired: pd.DataFrame
    sentences: list[str]
    notes: list[str]
    families: list[str]
    caveats: list[str] = field(default_factory=list, kw_only=True)
    confounding: pd.DataFrame = field(default_factory=pd.DataFrame, kw_only=True)

    def __str__(self) -> str:
        shown = self.table[["protocol", "method", "n_sites", *self.PRINTED]]
        return "\n".join([*self.caveats, shown.round(3).to_string(index=False), *self.sentences, *self.notes])

    def _repr_html_(self) -> str:
        """For notebooks: the table and the sentences."""
        shown = self.table[["method", "n_sites", *self.IN_NOTEBOOKS]]
        lines = [*self.caveats, *self.sentences, *self.notes]
        return html_summary(f"{self.target.name}: {len(self.table)} methods", shown, lines)


class ComparedFamilies(NamedTuple):
    """The table of methods, the differences of all pairs, a sentence on each family, and notes on missing sites."""

    table: pd.DataFrame
    paired: pd.DataFrame
    families: list[str]
    notes: list[str]


def compare_families(
    sites: pd.DataFrame,
    rows: Sequence[Mapping[str, Any]],
    best: str,
    differences: Callable[[pd.DataFrame, Sequence[tuple[str, str]]], pd.DataFrame],
    reference: str | None,
    all_pairs: bool,
) -> ComparedFamilies:
    """Order methods by ``best``, the highest first, and compare the pairs of every family.

    Methods that lack sites stand after those that lack none; ``of_sites`` is how many sites some method has.

    Parameters
    ----------
    sites : DataFrame
        Metrics of each protocol, method and site, seeds averaged.
    rows : sequence of dict
        One per protocol and method.
    best : str
        The column that orders methods.
    differences : callable
        From the sites of one protocol and the pairs of one family to a row per pair, see `paired.compare_pairs`.
    reference, all_pairs
        See `families.families`.
    """
    table, notes = _with_all_sites(pd.DataFrame(rows), sites.dropna(subset=best))
    table = table.sort_values(["protocol", "lacking", best], ascending=[True, True, False], kind="stable")
    table = table.drop(columns="lacking").reset_index(drop=True)
    paired, families_named = [], []
    for protocol, here in sites.groupby("protocol"):
        names = table.loc[table["protocol"] == protocol, "method"].tolist()
        for family in families(names, reference, all_pairs):
            paired.append(differences(here, family.pairs).assign(protocol=protocol))
            families_named.append(family.text(TITLES[str(protocol)]))
    pairs = pd.concat(paired, ignore_index=True) if paired else pd.DataFrame()
    return ComparedFamilies(table, pairs, families_named, notes)


def _with_all_sites(table: pd.DataFrame, measured: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """How many sites each method is ``lacking``, and ``of_sites`` which some method has; and what to say of it."""
    lacking: dict[tuple[str, str], int] = {}
    notes = []
    for protocol, here in measured.groupby("protocol"):
        has = pd.crosstab(here["site"], here["method"]).astype(bool)
        lacking |= {(str(protocol), str(method)): int((~known).sum()) for method, known in has.items()}
        notes += notes_on_missing_sites(has, UNITS[str(protocol)])
    missing = [lacking.get(row, 0) for row in zip(table["protocol"], table["method"], strict=True)]
    return table.assign(lacking=missing, of_sites=table["n_sites"] + missing), notes


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


def describe_points_added(row: Any, part: LeftOut, unit: str) -> str:
    """A difference of AUCs (``difference``, ``low``, ``high``, ``won``, ``n_sites``) in words.

    >>> row = pd.Series({"difference": 0.014, "low": 0.003, "high": 0.025, "won": 16, "n_sites": 20})
    >>> part = LeftOut("core", "core[blocks=rest]", "anatomy", "rest")
    >>> describe_points_added(row, part, "site")
    'anatomy adds 1.4 AUC points to rest at the next site (core; 95 % interval 0.3 to 2.5; better at 16 of 20 sites)'
    >>> describe_points_added(-row, part, "site").partition(" (")[0]
    'anatomy takes 1.4 AUC points from rest at the next site'
    """
    limits = f"95 % interval {100 * row.low:.1f} to {100 * row.high:.1f}"
    points = f"{abs(100 * row.difference):.1f} AUC points"
    change = f"takes {points} from {part.others}" if row.difference < 0 else f"adds {points} to {part.others}"
    return _describe_added(row, part, unit, change, limits)


def describe_order_added(row: Any, part: LeftOut, unit: str, r: str, r_against: str) -> str:
    """A difference of Fisher's z in words, with the two correlations within sites."""
    limits = f"95 % interval of the difference, Fisher's z, {row.low:.2f} to {row.high:.2f}"
    verb = "takes from" if row.difference < 0 else "adds to"
    give = "give" if " and " in part.others else "gives"
    change = f"{verb} the order that {part.others} {give}, r {r} instead of {r_against},"
    return _describe_added(row, part, unit, change, limits)


def _describe_added(row: Any, part: LeftOut, unit: str, change: str, limits: str) -> str:
    facts = [part.whole, limits] if np.isfinite(row.low) else [part.whole]
    facts.append(f"better at {row.won:.0f} of {row.n_sites:.0f} {unit}s")
    text = f"{part.block} {change} at the next {unit} ({'; '.join(facts)})"
    return f"{text}: these {unit}s cannot tell that from nothing" if row.low <= 0 <= row.high else text


def describe_blocks_added(
    scores: pd.DataFrame,
    sites: pd.DataFrame,
    differences: Callable[[pd.DataFrame, Sequence[tuple[str, str]]], pd.DataFrame],
    say: Callable[[Any, LeftOut, str], str],
) -> list[str]:
    """What each block adds to the others, of each protocol; ``differences`` of ``sites`` as for `compare_families`."""
    sentences = []
    for protocol, here in sites.groupby("protocol"):
        parts = find_left_out_blocks(here["method"].unique(), scores)
        rows = differences(here, [(part.whole, part.without) for part in parts]).itertuples() if parts else ()
        sentences += [say(row, part, UNITS[str(protocol)]) for row, part in zip(rows, parts, strict=True)]
    return sentences


def notes_on_institutions(predictions: pd.DataFrame) -> list[str]:
    """That intervals take the sites of one institution as independent, where these people name institutions.

    >>> people = pd.DataFrame({"site": ["A1", "A2", "B"], "institution": ["A", "A", ""], "protocol": "loso"})
    >>> notes_on_institutions(people)[0][:65]
    'A1 and A2 are of one institution, and intervals take sites as ind'
    """
    if "institution" not in predictions:
        return []
    named = predictions[predictions["institution"].astype(object).fillna("") != ""]
    sites = named.groupby("institution")["site"].unique()
    shared = [" and ".join(sorted(map(str, names))) for names in sites if len(names) > 1]
    if not shared:
        return []
    verb = "are" if len(shared) == 1 else "are each"
    remedy = " brainroam evaluate DATA --protocol institutions leaves out whole institutions."
    return [
        f"{listed(shared)} {verb} of one institution, and intervals take sites as independent: they are too narrow "
        f"where the sites of one institution are alike.{'' if (named['protocol'] == 'loio').all() else remedy}"
    ]


def notes_on_missing_sites(has: pd.DataFrame, unit: str) -> list[str]:
    """Which methods lack results at which sites, as of a study that is not finished, and what that means for rows.

    >>> notes_on_missing_sites(pd.DataFrame({"a": [True, True], "b": [True, False]}, index=["S1", "S2"]), "site")[0]
    'b has no result at S2: its row is over 1 of 2 sites.'
    """
    notes = [
        f"{method} has no result at {listed(has.index[~known])}: its row is over {known.sum()} of {len(has)} {unit}s."
        for method, known in has.items()
        if not known.all()
    ]
    if notes:
        notes.append(
            f"Rows over different {unit}s do not rank methods: they stand last, and the sentences on pairs compare "
            f"them at the {unit}s that both have."
        )
    return notes


def count_of_sites(n: float, of: float) -> str:
    """Over how many sites a row is, of those that other rows have.

    >>> count_of_sites(8, 8), count_of_sites(3, 8)
    ('8', '3 of 8')
    """
    return f"{n:.0f}" if n >= of else f"{n:.0f} of {of:.0f}"


def describe_pair(row: Any, unit: str, better: str, size: str) -> str:
    """Say one comparison in words: the method that is ahead comes first.

    >>> pair = {"method": "a", "against": "b", "difference": -0.1, "won": 1, "lost": 5, "n_sites": 6}
    >>> row = next(pd.DataFrame([pair | {"p": 0.01, "p_holm": 0.01}]).itertuples())
    >>> describe_pair(row, "site", "orders people better than", "r .5 against .4")
    'b orders people better than a (r .5 against .4 over 6 sites; won 5 of 6; p = 0.01)'
    """
    if np.isnan(row.p):
        return f"{row.method} and {row.against} share too few {unit}s to be compared"
    ahead, behind, won = order_pair(row)
    facts = f"({size} over {row.n_sites} {unit}s; won {won} of {row.n_sites}; {format_p(row.p, row.p_holm)})"
    if row.p_holm < 0.05:
        return f"{ahead} {better} {behind} {facts}"
    return f"{ahead} and {behind} cannot be told apart {facts}"
