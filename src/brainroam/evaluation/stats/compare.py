"""Which method is better at the next site, how sure is that, and what can these data not decide?

Whatever is predicted, held-out sites are compared by the figure of the target's order: the AUC of two classes, its mean
over several classes, the correlation of a number (on Fisher's z). The site is the unit. Seeds (and repeats, for
``halves``) are averaged inside a site first; then, over sites,

* one model gives the interval of the mean, what to expect of the next site, and tau (`SiteScores.verdict`); protocols
  that say nothing of a next site give none (`site_scores.WITHOUT_NEXT`),
* a pair of methods is compared by its differences at the sites, with the weights of the mean (`paired.left_out_t`),
* where institutions of sites are known, all of this takes the institution as the unit, as sites of one are alike
  (`SiteScores.by_institution`); the prediction is for a site of another institution,
* Holm's correction goes over the comparisons of one family: methods (`families`), what blocks add, pairs of classes.

In-distribution folds share training people and get Nadeau and Bengio's corrected t instead.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from brainroam.data.names import shared_institutions
from brainroam.data.target import TWO_CLASSES, Target
from brainroam.errors import RunsError, listed, unknown
from brainroam.evaluation.splits import TITLES, UNITS
from brainroam.evaluation.stats import verdict as models
from brainroam.evaluation.stats.blocks_added import describe_added, find_left_out_blocks, notes_on_missing_blocks
from brainroam.evaluation.stats.class_pairs import class_pairs
from brainroam.evaluation.stats.families import Family, check_reference, families
from brainroam.evaluation.stats.metrics import average_seeds
from brainroam.evaluation.stats.paired import format_p, holm, order_pair
from brainroam.evaluation.stats.site_scores import COLUMNS, WITHOUT_NEXT, SiteScores, gather
from brainroam.utils.html import html_summary

ALPHA = 0.05
PAIRED = (
    "protocol",
    "method",
    "against",
    "difference",
    "low",
    "high",
    "p",
    "p_holm",
    "n_sites",
    "won",
    "lost",
    "family",
)
WHOLE_BLOCKS = "what each block adds"


@dataclass(frozen=True)
class Comparison:
    """The result of `compare_methods`, whatever is predicted.

    Attributes
    ----------
    target : Target
    table : DataFrame
        Per protocol and method, best first, see `summarise`.
    paired : DataFrame
        Per protocol, family and pair: mean ``difference`` of the figure (``method`` minus ``against``; of a number on
        Fisher's z) with its interval ``low`` and ``high``, ``p``, ``p_holm``, ``won`` and ``lost`` of ``n_sites``, the
        two means, and the ``family`` it is corrected in.
    blocks : DataFrame
        The same of methods that read all blocks against themselves without one.
    class_pairs : DataFrame
        Of several classes, per protocol and method: each pair of them, see `class_pairs.class_pairs`.
    added, sentences : list of str
        One per row of ``blocks``, and one per row of ``paired`` behind them, for people.
    notes : list of str
        What the data cannot decide or do not contain.
    families : list of str
        What Holm's correction goes over, one sentence per family.
    confounding : DataFrame
        Per protocol and method what motion, age and sex have to do with the scores, see `confounding.confounding`;
        empty where the covariates are not known.
    caveats : list of str
        What to know before all of it, of methods whose scores come from a file.
    """

    target: Target
    table: pd.DataFrame
    paired: pd.DataFrame
    blocks: pd.DataFrame
    class_pairs: pd.DataFrame
    added: list[str]
    sentences: list[str]
    notes: list[str]
    families: list[str]
    confounding: pd.DataFrame = field(default_factory=pd.DataFrame)
    caveats: list[str] = field(default_factory=list)

    @property
    def against(self) -> dict[str, str]:
        """The sentence on each pair, by the method that is compared."""
        return dict(zip(self.paired["method"], self.sentences[len(self.added) :], strict=True))

    @property
    def verdicts(self) -> dict[str, str]:
        """What is said of each method, of the protocol that says most."""
        first = self.table.drop_duplicates("method")
        return dict(zip(first["method"], first["verdict"], strict=True))

    def __str__(self) -> str:
        shown = self._cells("site").to_string(index=False)
        lines = [*self.caveats, shown, *(f"{name}: {text}" for name, text in self.verdicts.items())]
        return "\n".join([*lines, *self.sentences, *self.notes, self._rule])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """For notebooks: the table and the sentences."""
        lines = [*self.caveats, *self.sentences, *self.families, *self.notes, self._rule]
        return html_summary(f"{len(self.table)} methods", self._cells("site"), lines)

    def _cells(self, unit: str) -> pd.DataFrame:
        """The table as it is printed, with words for heads."""
        cells = self.table[["protocol", "method", "n_sites"]].rename(columns={"n_sites": f"{unit}s"})
        for column in self.target.shown:
            if self.table[column.names[0]].notna().any():
                values = self.table[list(column.names)].itertuples(index=False)
                cells[column.head.format(unit=unit).rstrip("*")] = [column.form(*row) for row in values]
        return cells

    @property
    def _rule(self) -> str:
        return f"{self.target.order.figure.name} and differences: {self.target.order.rule}"


def compare_methods(
    scores: pd.DataFrame,
    predictions: pd.DataFrame,
    reference: str | None = None,
    all_pairs: bool = False,
    target: Target = TWO_CLASSES,
) -> Comparison:
    """Compare methods run on the same sites.

    Parameters
    ----------
    scores : DataFrame
        One row per method, protocol, site and seed: the keys, what the target measures of a site and, for the
        sentences on blocks, the ``configuration``.
    predictions : DataFrame
        One row per scored scan of the same runs: the keys, ``subject``, ``label``, what people are ranked by, and
        ``person`` and ``institution`` where known (`site_scores.gather`).
    reference : str, optional
        Compare all other methods with this one.
    all_pairs : bool
        Compare every two methods, corrected for all pairs.
    target : Target

    Examples
    --------
    >>> from brainroam.evaluation.stats.metrics import auc
    >>> rng = np.random.default_rng(0)
    >>> runs, scores = [], []
    >>> for site, method in [(site, method) for site in "ABCDEF" for method in ("good", "poor")]:
    ...     y, name = np.tile([0, 1], 20), [f"{site}{i:02}" for i in range(40)]
    ...     score = (2.0 if method == "good" else 0.2) * y + rng.standard_normal(40)
    ...     key = {"method": method, "protocol": "loso", "site": site, "seed": 0}
    ...     runs.append(pd.DataFrame({**key, "subject": name, "label": y, "score": score}))
    ...     scores.append({**key, "n": 40, "n_cases": 20, "auc": auc(y, score)})
    >>> found = compare_methods(pd.DataFrame(scores), pd.concat(runs))
    >>> found.sentences[0].partition(" on average")[0]
    'good beats poor by 32.4 AUC points'
    """
    scores, predictions = _check(scores, predictions, target)
    by_protocol = gather_all(predictions, target)
    check_reference({name for item in by_protocol for name in item.methods}, reference, all_pairs)
    between = _class_pairs(predictions, by_protocol, target)
    table = _table(scores, by_protocol, between)
    tested = [(item, family) for item in by_protocol for family in families(_order(table, item), reference, all_pairs)]
    frames = [compare_pairs_of(item.by_institution(), family) for item, family in tested]
    paired = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=PAIRED)
    added = [_added(item.by_institution(), scores) for item in by_protocol]
    blocks = [frame for frame, _ in added if len(frame)]
    said = [sentence for _, sentences in added for sentence in sentences]
    units = {item.protocol: item.by_institution().unit for item in by_protocol}
    notes = [note for item in by_protocol for note in _notes(item, table)]
    corrected = [family.text(TITLES[item.protocol]) for item, family in tested]
    for frame in blocks:
        n = len(frame)
        of_blocks = Family(WHOLE_BLOCKS, list(zip(frame["method"], frame["against"], strict=True)))
        corrected += [of_blocks.text(TITLES[frame["protocol"].iloc[0]])] if n > 1 else []
    return Comparison(
        target,
        table,
        paired,
        pd.concat(blocks, ignore_index=True) if blocks else pd.DataFrame(columns=PAIRED),
        between,
        said,
        [*said, *(_sentence(row, units[row.protocol], target) for row in paired.itertuples())],
        list(dict.fromkeys([*notes, *notes_on_missing_blocks(predictions)])),
        corrected,
    )


def summarise(scores: pd.DataFrame, predictions: pd.DataFrame, target: Target = TWO_CLASSES) -> pd.DataFrame:
    """One row per protocol and method, best first, but methods that lack sites after those that lack none.

    Columns: ``n_sites`` that have the figure (folds for ``cv``) of ``of_sites`` where some method has one,
    ``n_institutions``, the mean of the figure over sites (``auc`` or ``r``) with its 95 % interval (``auc_low`` and
    ``auc_high`` of two classes, else ``low`` and ``high``), the prediction interval ``next_low`` to ``next_high`` for
    its true value at the next site (one measured there on few people scatters more), ``more_low`` and ``more_high``,
    what twice as many sites like these, of fewer than `site_scores.FEW_SITES`, would leave of it, ``tau``, how much
    sites differ (on the scale of the model); limits that the data cannot support are NaN and ``reason`` says why; then
    what the target says of sites beside the order (`Target.over_sites`), and the ``verdict`` in words.
    """
    scores, predictions = _check(scores, predictions, target)
    by_protocol = gather_all(predictions, target)
    return _table(scores, by_protocol, _class_pairs(predictions, by_protocol, target))


def _check(scores: pd.DataFrame, predictions: pd.DataFrame, target: Target) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both tables with names as text; an error if they hold different runs."""
    # A table without folds is of a protocol in which every site is held out once.
    scores, predictions = (
        frame if "fold" in frame or "site" not in frame else frame.assign(fold=frame["site"])
        for frame in (scores, predictions)
    )
    keys = ["method", "protocol", "site", "fold", "seed"]
    tables = {"scores": (scores, [*keys, target.order.figure.name])}
    tables |= {"predictions": (predictions, [*COLUMNS, *target.ranked_by])}
    for name, (frame, needed) in tables.items():
        absent = [column for column in needed if column not in frame]
        if absent or frame.empty:
            raise RunsError(f"the {name} lack the column(s) {listed(absent)}" if absent else f"the {name} hold no runs")
    # A site or person called 01 comes back from a table on disk as a number.
    text = {"method": str, "protocol": str, "site": str, "fold": str}
    scores, predictions = scores.astype(text), predictions.astype({**text, "subject": str})
    runs = scores[keys].merge(predictions[keys].drop_duplicates(), how="outer", indicator="holder")
    lone = runs[runs["holder"] != "both"]
    if len(lone):
        method, _, site, _, seed, _ = lone.iloc[0]
        raise RunsError(
            f"scores and predictions hold different runs: {method} at {site} (seed {seed}) stands in one of them only; "
            "write both again from the run files"
        )
    for protocol in scores["protocol"].unique():
        if protocol not in UNITS:
            raise unknown("protocol", protocol, UNITS)
    return scores, predictions


def gather_all(predictions: pd.DataFrame, target: Target) -> list[SiteScores]:
    """`site_scores.gather` of every protocol."""
    return [gather(predictions, name, target) for name in sorted(predictions["protocol"].unique())]


def _class_pairs(predictions: pd.DataFrame, by_protocol: Sequence[SiteScores], target: Target) -> pd.DataFrame:
    """`class_pairs.class_pairs` of every protocol and method; of two classes and numbers there are none."""
    frames = [
        class_pairs(people, target, models).assign(protocol=item.protocol, method=method)
        for item in by_protocol
        for method, people in predictions[predictions["protocol"] == item.protocol].groupby("method")
        if target.pairs_of_classes
    ]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=["protocol", "method"])


def _table(scores: pd.DataFrame, by_protocol: list[SiteScores], between: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for item in by_protocol:
        target, figure = item.target, item.target.order.figure.name
        averaged = average_seeds(scores[scores["protocol"] == item.protocol], [*target.measured[1:]])
        counts = pd.DataFrame(item.counts, item.sites, list(target.order.counted)).assign(n=item.counts.sum(axis=1))
        for j, method in enumerate(item.methods):
            per_site = averaged[averaged["method"] == method].set_index("site")
            if not np.allclose(per_site[figure].reindex(item.sites), item.values[:, j], equal_nan=True):
                what = f"{target.order.figure.head} of {method}"
                raise RunsError(f"the {what} in the scores is not that of its predictions; write both again")
            judged = item.verdict(method)
            people = counts.reindex(per_site.index).fillna(per_site)
            of_sites = per_site.assign(**{name: people[name] for name in people}).reset_index()
            low, high = target.order.ends
            more_low, more_high = item.of_more(method)
            row = {
                "protocol": item.protocol,
                "method": method,
                "n_sites": int(np.isfinite(item.values[:, j]).sum()),
                **target.over_sites(of_sites, models),
                "of_sites": len(item.sites),
                "n_institutions": len(item.by_institution().sites),
                figure: judged.mean,
                low: judged.low,
                high: judged.high,
                "next_low": judged.next_low,
                "next_high": judged.next_high,
                "more_low": more_low,
                "more_high": more_high,
                "tau": judged.tau,
                "reason": judged.reason,
            }
            pairs = between[(between["method"] == method) & (between["protocol"] == item.protocol)]
            rows.append({**row, "verdict": " ".join(target.verdict(row, pairs, item.place))})
    table = pd.DataFrame(rows)
    order = by_protocol[0].target.order
    ends = (*order.ends, "next_low", "next_high")
    leading = ["protocol", "method", "n_sites", order.figure.name, *ends, "tau", "reason"]
    table = table[[*leading, *(name for name in table if name not in leading)]]
    by = ["protocol", "n_sites", order.figure.name]
    return table.sort_values(by, ascending=[True, False, False], kind="stable", ignore_index=True)


def _order(table: pd.DataFrame, item: SiteScores) -> list[str]:
    """The methods of a protocol, best first."""
    return table.loc[table["protocol"] == item.protocol, "method"].tolist()


def compare_pairs_of(item: SiteScores, family: Family) -> pd.DataFrame:
    """The comparisons of one family, corrected together."""
    frame = _differences(item, family.pairs).assign(protocol=item.protocol, family=family.what)
    frame = frame.assign(p_holm=holm(frame["p"].to_numpy(dtype=float)))
    return frame[[*PAIRED, *(name for name in frame if name not in PAIRED)]]


def _differences(item: SiteScores, pairs: Sequence[tuple[str, str]]) -> pd.DataFrame:
    """One row per pair of methods."""
    rows = []
    for method, against in pairs:
        gap, tested = item.differences(method, against), item.paired(method, against)
        rows.append(
            {
                "method": method,
                "against": against,
                "difference": tested.mean,
                "low": tested.low,
                "high": tested.high,
                "p": tested.p,
                "n_sites": int(np.isfinite(gap).sum()),
                "won": int((gap > 0).sum()),
                "lost": int((gap < 0).sum()),
                "mean": item.mean(method, against),
                "mean_against": item.mean(against, method),
            }
        )
    return pd.DataFrame(rows)


def _sentence(row: Any, unit: str, target: Target) -> str:
    """Say one comparison in words: the method that is ahead comes first."""
    if np.isnan(row.p):
        return f"{row.method} and {row.against} share too few {unit}s with an {target.order.figure.head} to be compared"
    ahead, behind, won = order_pair(row)
    low, high = (-row.high, -row.low) if row.difference < 0 else (row.low, row.high)
    p = format_p(row.p, row.p_holm)
    spread = "" if np.isnan(low) else f"95 % interval {target.order.describe_interval(low, high)}; "
    n_ties = row.n_sites - row.won - row.lost
    ties = f", equal at {n_ties}" if n_ties else ""
    where = f"{row.n_sites} {unit}{'s' * (row.n_sites != 1)}"
    facts = f"on average over {where} ({spread}won {won} of {row.n_sites}{ties}; {p})"
    if row.p_holm < ALPHA:
        return f"{target.order.describe_lead(ahead, behind, row, 'beats')} {facts}"
    why = "the data cannot tell them apart"
    if row.p < ALPHA:
        why = "enough for a single comparison, not for so many at once"
    return f"{target.order.describe_lead(ahead, behind, row, 'is ahead of')} {facts}: {why}"


def _added(item: SiteScores, scores: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """What each block adds to the others: a method that reads all of them against itself without that block."""
    parts = find_left_out_blocks(item.methods, scores)
    if not parts:
        return pd.DataFrame(), []
    frame = compare_pairs_of(item, Family(WHOLE_BLOCKS, [(part.whole, part.without) for part in parts]))
    rows = zip(frame.itertuples(), parts, strict=True)
    return frame, [describe_added(row, part, item.place, item.target) for row, part in rows]


def _notes(item: SiteScores, table: pd.DataFrame) -> Iterator[str]:
    order = item.target.order
    if item.without:
        head = order.figure.head
        yield f"Everybody at {listed(item.without)} {order.lacking}: no {head} there, no weight in any mean."
    yield from describe_reversed(item)
    yield from order.notes_on_small(item.sites, item.counts)
    yield from _notes_on_institutions(item)
    has = pd.DataFrame(np.isfinite(item.values), index=item.sites, columns=item.methods)
    yield from notes_on_missing_sites(has, item.unit)
    for j, method in enumerate(item.methods):
        done, possible = item.n_folds[:, j], item.n_folds.max(axis=1)
        if np.any((done > 0) & (done < possible)):
            count = f"{done.sum()} of {possible.sum()} done"
            yield f"{method} lacks repeats at some sites ({count}): finish its runs first."
    yield from reasons(table[table["protocol"] == item.protocol])


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


def describe_reversed(item: SiteScores) -> Iterator[str]:
    """Sites where the scores of methods point the other way."""
    figure = item.target.order.figure
    reversed_rows = pd.concat([item.reversed_sites(method).assign(method=method) for method in item.methods])
    for site, rows in reversed_rows.groupby("site"):
        first = rows.iloc[0]
        yield (
            f"Scores are reversed at {site} ({listed(rows['method'])}): {figure.head} {first[figure.name]:.2f} "
            f"({first['low']:.2f} to {first['high']:.2f}) where the median of other {item.unit}s is "
            f"{first['others']:.2f}. Look whether {item.target.exchanged} there."
        )


def _notes_on_institutions(item: SiteScores) -> Iterator[str]:
    """What it means for the figures that several sites are of one institution, by its column or by their names."""
    remedy = "brainroam evaluate DATA --protocol institutions leaves out whole institutions."
    units, alike = item.by_institution(), shared_institutions(item.sites)
    if item.protocol == "cv":
        return
    if item.protocol == "loio":
        if units is not item:
            yield (
                f"{len(item.sites)} sites of {len(units.sites)} institutions, each held out whole: people are compared "
                "within their site, and intervals and tests take the institution as the unit."
            )
    elif units is not item:
        yield (
            f"{len(item.sites)} sites of {len(units.sites)} institutions: intervals and tests take the "
            f"institution as the unit. A site's model was still trained on other sites of its institution; {remedy}"
        )
    elif alike and item.institutions == item.sites:
        each = listed(" and ".join(group) for group in alike.values())
        yield (
            f"{each} look like sites of one institution, and the intervals take sites as independent: name "
            f"institutions in a column 'institution'. {remedy}"
        )


def reasons(table: pd.DataFrame) -> list[str]:
    """Why intervals are not given, with the methods it holds for; not what follows from the protocol alone."""
    unexpected = table[~table["reason"].isin(["", *WITHOUT_NEXT.values()])]
    return [f"{listed(rows)}: {reason}." for reason, rows in unexpected.groupby("reason", sort=False)["method"]]


def count_of_sites(n: float, of: float) -> str:
    """Over how many sites a row is, of those that other rows have.

    >>> count_of_sites(8, 8), count_of_sites(3, 8)
    ('8', '3 of 8')
    """
    return f"{n:.0f}" if n >= of else f"{n:.0f} of {of:.0f}"
