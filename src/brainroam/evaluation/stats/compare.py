"""Which method is better at the next site, how sure is that, and what can these data not decide?

The site is the unit. Seeds (and repeats, for ``halves``) are averaged inside a site first; then, over sites,

* one model, `verdict`, gives the interval of the mean AUC, what to expect of the next site, and tau (for ``halves`` the
  first of them: sites correlate as in leave-one-site-out, whatever the number of repeats, see docs/reliability.md),
* a pair of methods is compared by its per-site AUC differences: test and interval from `paired.left_out_t`, with the
  same weights of sites as the mean (`metrics.site_weights`),
* where institutions of sites are known, all of this takes the institution as the unit, as sites of one are alike
  (`SiteScores.by_institution`); the prediction is for a site of another institution,
* Holm's correction goes over the comparisons of one family, see `families`.

In-distribution folds share training people and get Nadeau and Bengio's corrected t instead.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from brainroam.data.names import shared_institutions
from brainroam.errors import RunsError, listed, unknown
from brainroam.evaluation.splits import TITLES, UNITS
from brainroam.evaluation.stats import site_scores
from brainroam.evaluation.stats.families import Family, check_reference, families
from brainroam.evaluation.stats.metrics import JUDGED, RULE, average_seeds, has_enough_people, over_sites
from brainroam.evaluation.stats.paired import format_p, holm, nadeau_bengio, order_pair
from brainroam.evaluation.stats.site_scores import SiteScores, gather
from brainroam.evaluation.stats.target_comparison import (
    describe_points_added,
    find_left_out_blocks,
    notes_on_missing_sites,
)
from brainroam.evaluation.stats.verdict import Verdict, verdict
from brainroam.methods.registry import parse_name
from brainroam.utils.html import html_summary

ALPHA = 0.05
LEADING = (
    "protocol",
    "method",
    "n_sites",
    "auc",
    "auc_low",
    "auc_high",
    "concordance",
    "worst_auc",
    "worst_site",
    "next_low",
    "next_high",
    "tau",
    "reason",
)
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
#: Why a protocol does not predict the next site, whatever the data.
WITHOUT_NEXT = {
    "halves": "no prediction for the next site: an average over models of random halves differs less between sites "
    "than one model does; leave-one-site-out predicts it",
    "cv": "in-distribution folds say nothing about the next site",
}


@dataclass(frozen=True)
class Comparison:
    """The result of `compare_methods`.

    Attributes
    ----------
    table : DataFrame
        Per protocol and method, best first, see `summarise`.
    paired : DataFrame
        Per protocol, family and pair: mean AUC ``difference`` (``method`` minus ``against``) with its interval ``low``
        and ``high``, ``p``, ``p_holm``, ``won`` and ``lost`` of ``n_sites``, and the ``family`` it is corrected in.
    sentences : list of str
        One per row of ``paired``, for people.
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

    table: pd.DataFrame
    paired: pd.DataFrame
    sentences: list[str]
    notes: list[str]
    families: list[str]
    confounding: pd.DataFrame = field(default_factory=pd.DataFrame)
    caveats: list[str] = field(default_factory=list)

    @property
    def added(self) -> list[str]:
        """What each block adds to the others; these sentences stand before those on pairs of methods."""
        return self.sentences[: len(self.sentences) - len(self.paired)]

    @property
    def against(self) -> dict[str, str]:
        """The sentence on each pair, by the method that is compared."""
        return dict(zip(self.paired["method"], self.sentences[len(self.added) :], strict=True))

    def __str__(self) -> str:
        shown = self.table[[*LEADING]].round(3).to_string(index=False)
        return "\n".join([*self.caveats, shown, *self.sentences, *self.notes, f"auc and differences: {RULE}"])

    def _repr_html_(self) -> str:
        """For notebooks: the table and the sentences."""
        columns = [name for name in (*LEADING, "balanced_acc") if name in self.table and name not in ("tau", "reason")]
        lines = [*self.caveats, *self.sentences, *self.families, *self.notes, f"auc and differences: {RULE}"]
        return html_summary(f"{len(self.table)} methods", self.table[columns], lines)


def compare_methods(
    scores: pd.DataFrame, predictions: pd.DataFrame, reference: str | None = None, all_pairs: bool = False
) -> Comparison:
    """Compare methods run on the same sites.

    Parameters
    ----------
    scores : DataFrame
        One row per method, protocol, site, fold and seed with the metrics of `metrics.site_metrics`.
    predictions : DataFrame
        One row per method, protocol, site, fold, seed and subject with ``label`` and ``score``.
    reference : str, optional
        Compare every other method against this one; by default `families.main_method`, which goes by names alone.
    all_pairs : bool
        Compare every pair instead, which costs more under Holm's correction.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows = [(method, "loso", site, 0, f"{site}{i}", i % 2, rng.normal(i % 2 * shift))
    ...     for method, shift in [("good", 2.0), ("poor", 0.2)] for site in "ABCDEFGH" for i in range(40)]
    >>> predictions = pd.DataFrame(rows, columns=["method", "protocol", "site", "seed", "subject", "label", "score"])
    >>> from brainroam.evaluation.stats.metrics import auc
    >>> runs = predictions.groupby(["method", "protocol", "site", "seed"])
    >>> scores = pd.DataFrame([(*key, auc(run["label"], run["score"])) for key, run in runs],
    ...     columns=["method", "protocol", "site", "seed", "auc"])
    >>> print(compare_methods(scores, predictions).sentences[0])
    good beats poor by 37.8 AUC points on average over 8 sites (95 % interval 23.0 to 52.7; won 8 of 8; p < 0.001)
    """
    scores, predictions = _check(scores, predictions)
    by_protocol = _gather(predictions)
    check_reference({name for item in by_protocol for name in item.methods}, reference, all_pairs)
    table = _table(scores, by_protocol)
    tested = [(item, family) for item in by_protocol for family in families(_order(table, item), reference, all_pairs)]
    frames = [_pairs(item.by_institution(), family) for item, family in tested]
    units = {item.protocol: item.by_institution().unit for item in by_protocol}
    paired = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=PAIRED)
    notes = [*(note for item in by_protocol for note in _notes(item, table)), *_notes_on_missing_blocks(predictions)]
    return Comparison(
        table,
        paired,
        [
            *(sentence for item in by_protocol for sentence in _describe_blocks_added(item.by_institution(), scores)),
            *(_sentence(row, units[row.protocol]) for row in paired.itertuples()),
        ],
        list(dict.fromkeys(notes)),
        [family.text(TITLES[item.protocol]) for item, family in tested],
    )


def summarise(scores: pd.DataFrame, predictions: pd.DataFrame) -> pd.DataFrame:
    """One row per protocol and method, best mean AUC first, but methods that lack sites after those that lack none.

    Columns: ``n_sites`` (with an AUC; folds for ``cv``) of ``of_sites`` where some method has one, mean ``auc`` over
    sites (`metrics.RULE`) with its 95 % interval ``auc_low`` and ``auc_high`` and ``auc_sd`` between sites,
    ``concordance`` (each pair of a case and a control of one site counts once), ``worst_auc`` at ``worst_site`` of
    those with five people of each class, the prediction interval ``next_low`` to ``next_high`` for the true AUC of the
    next site (an AUC measured there on few people scatters more), and ``tau``, how much sites differ (probit scale),
    all from `verdict`; limits that the data cannot support are NaN and ``reason`` says why; then the other metrics of
    `metrics.over_sites`.
    """
    scores, predictions = _check(scores, predictions)
    return _table(scores, _gather(predictions))


def _check(scores: pd.DataFrame, predictions: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both tables with names as text; an error if they hold different runs."""
    # A table without folds is of a protocol in which every site is held out once.
    scores, predictions = (
        frame if "fold" in frame or "site" not in frame else frame.assign(fold=frame["site"])
        for frame in (scores, predictions)
    )
    keys = ["method", "protocol", "site", "fold", "seed"]
    for name, frame, needed in [("scores", scores, [*keys, "auc"]), ("predictions", predictions, site_scores.COLUMNS)]:
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


def _gather(predictions: pd.DataFrame) -> list[SiteScores]:
    return [gather(predictions, name) for name in sorted(predictions["protocol"].unique())]


def _table(scores: pd.DataFrame, by_protocol: list[SiteScores]) -> pd.DataFrame:
    averaged = average_seeds(scores)
    rows = []
    for item in by_protocol:
        for j, method in enumerate(item.methods):
            per_site = averaged[(averaged["protocol"] == item.protocol) & (averaged["method"] == method)]
            per_site = _with_counts(per_site, item)
            reported = per_site.set_index("site")["auc"].reindex(item.sites)
            if not np.allclose(reported, item.auc[:, j], equal_nan=True):
                raise RunsError(f"the AUC of {method} in the scores is not that of its predictions; write both again")
            found_here = _verdict(item, j)
            rows.append(
                {
                    "protocol": item.protocol,
                    "method": method,
                    **over_sites(per_site),
                    "of_sites": len(item.sites),
                    "n_institutions": len(item.by_institution().sites),
                    "auc": found_here.mean,
                    "auc_low": found_here.low,
                    "auc_high": found_here.high,
                    "next_low": found_here.next_low,
                    "next_high": found_here.next_high,
                    "tau": found_here.tau,
                    "reason": found_here.reason,
                }
            )
    table = pd.DataFrame(rows)
    table = table[[*LEADING, *(name for name in table if name not in LEADING)]]
    order = ["protocol", "n_sites", "auc"]
    return table.sort_values(order, ascending=[True, False, False], kind="stable", ignore_index=True)


def _with_counts(per_site: pd.DataFrame, item: SiteScores) -> pd.DataFrame:
    """The rows of one method with the numbers of people in its predictions; sites of one class count none."""
    cases, controls = (pd.Series(n, item.sites) for n in (item.n_cases, item.n_controls))
    n_cases, n_controls = (per_site["site"].map(n).fillna(0) for n in (cases, controls))
    return per_site.assign(n=n_cases + n_controls, n_cases=n_cases)


def _verdict(item: SiteScores, j: int) -> Verdict:
    """The verdict on one method; under some protocols an interval of the mean and nothing more."""
    if item.protocol != "cv":
        over_sites = _over_institutions(item, j)
        if item.protocol in WITHOUT_NEXT and not np.isnan(over_sites.low):
            reason = WITHOUT_NEXT[item.protocol]
            return replace(over_sites, next_low=np.nan, next_high=np.nan, tau=np.nan, reason=reason)
        return over_sites
    measured = np.isfinite(item.auc[:, j])
    values = item.auc[measured, j]
    corrected = nadeau_bengio(values, item.test_over_train, item.weights[measured])
    low, high = np.clip([corrected.low, corrected.high], 0, 1).tolist()
    return Verdict(len(values), corrected.mean, low, high, reason=WITHOUT_NEXT["cv"])


def _over_institutions(item: SiteScores, j: int) -> Verdict:
    """The verdict over sites, or over institutions where some share one.

    The next site is then one of another institution. It differs from these by what institutions differ by, and by what
    the sites of one do, which a mean over its sites hides: the wider of both predictions holds.
    """
    units = item.by_institution()
    sites, institutions = (verdict(part.auc[:, j], part.n_cases, part.n_controls) for part in (item, units))
    if units is item:
        return sites
    low, high = min(institutions.next_low, sites.next_low), max(institutions.next_high, sites.next_high)  # NaN stays
    reason = institutions.reason.replace("sites", "institutions")
    return replace(institutions, mean=sites.mean, next_low=low, next_high=high, reason=reason)


def _order(table: pd.DataFrame, item: SiteScores) -> list[str]:
    """The methods of a protocol, best first."""
    return table.loc[table["protocol"] == item.protocol, "method"].tolist()


def _pairs(item: SiteScores, family: Family) -> pd.DataFrame:
    """The comparisons of one family, corrected together."""
    frame = _differences(item, family.pairs).assign(protocol=item.protocol, family=family.what)
    return frame.assign(p_holm=holm(frame["p"].to_numpy(dtype=float)))[list(PAIRED)]


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
            }
        )
    return pd.DataFrame(rows)


def _sentence(row, unit: str) -> str:
    """Say one comparison in words: the method that is ahead comes first, differences are in AUC points (hundredths)."""
    if np.isnan(row.p):
        return f"{row.method} and {row.against} share too few {unit}s with an AUC to be compared"
    ahead, behind, won = order_pair(row)
    low, high = (-row.high, -row.low) if row.difference < 0 else (row.low, row.high)
    p = format_p(row.p, row.p_holm)
    spread = "" if np.isnan(low) else f"95 % interval {100 * low:.1f} to {100 * high:.1f}; "
    n_ties = row.n_sites - row.won - row.lost
    ties = f", equal at {n_ties}" if n_ties else ""
    where = f"{row.n_sites} {unit}{'s' * (row.n_sites != 1)}"
    facts = f"on average over {where} ({spread}won {won} of {row.n_sites}{ties}; {p})"
    points = f"{100 * abs(row.difference):.1f} AUC points"
    if row.p_holm < ALPHA:
        return f"{ahead} beats {behind} by {points} {facts}"
    why = "the data cannot tell them apart"
    if row.p < ALPHA:
        why = "enough for a single comparison, not for so many at once"
    return f"{ahead} is {points} ahead of {behind} {facts}: {why}"


def _describe_blocks_added(item: SiteScores, scores: pd.DataFrame) -> list[str]:
    """Say what each block adds to the others: a method that reads all of them against itself without that block."""
    parts = find_left_out_blocks(item.methods, scores)
    rows = _differences(item, [(part.whole, part.without) for part in parts]).itertuples()
    return [describe_points_added(row, part, item.unit) for row, part in zip(rows, parts, strict=True)]


def _notes_on_missing_blocks(predictions: pd.DataFrame) -> Iterator[str]:
    """Of methods that read some blocks only: who has none of them, which a score shared within a site shows."""
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
                f"does{where}. Its AUC is of all people, not of those who have the block."
            )


def _notes(item: SiteScores, table: pd.DataFrame) -> Iterator[str]:
    if item.one_class:
        yield f"Everybody at {listed(item.one_class)} has the same label: no AUC there, no weight in any mean."
    yield from _describe_reversed(item)
    small = ~has_enough_people(item.n_cases, item.n_controls)
    if small.any():
        sites = [f"{site} ({m} + {n})" for site, m, n in zip(item.sites, item.n_cases, item.n_controls, strict=True)]
        yield (
            f"Fewer than {JUDGED} cases or controls at {listed(np.array(sites)[small])}: "
            f"{item.weights[small].sum() / item.weights.sum():.0%} of the weight in the means, and never named as "
            "worst."
        )
    yield from _notes_on_institutions(item)
    has = pd.DataFrame(np.isfinite(item.auc), index=item.sites, columns=item.methods)
    yield from notes_on_missing_sites(has, item.unit)
    for j, method in enumerate(item.methods):
        done, possible = item.n_folds[:, j], item.n_folds.max(axis=1)
        if np.any((done > 0) & (done < possible)):
            count = f"{done.sum()} of {possible.sum()} done"
            yield f"{method} lacks repeats at some sites ({count}): finish its runs first."
    yield from reasons(table[table["protocol"] == item.protocol])


def _describe_reversed(item: SiteScores) -> Iterator[str]:
    """Sites where the scores of methods point the other way."""
    reversed_rows = pd.concat([item.reversed_sites(method).assign(method=method) for method in item.methods])
    for site, rows in reversed_rows.groupby("site"):
        first = rows.iloc[0]
        yield (
            f"Scores are reversed at {site} ({listed(rows['method'])}): AUC {first['auc']:.2f} "
            f"({first['low']:.2f} to {first['high']:.2f}) where the median of other {item.unit}s is "
            f"{first['others']:.2f}. Look whether the codes of cases and controls are swapped there."
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
