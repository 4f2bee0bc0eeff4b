"""Which method is better at the next site, how sure is that, and what can these data not decide?

The site is the unit. Seeds are averaged inside a site first; then, over sites,

* the mean AUC has a two-level bootstrap interval (sites, then people within class),
* a random-effects meta-analysis of the logit AUC says what to expect of the next site,
* a pair of methods is compared by its per-site AUC differences: `paired.left_out_test`, bootstrap interval, Holm.

In-distribution folds share training people and get Nadeau and Bengio's corrected t instead.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
import pandas as pd

from brainroam.errors import RunsError, listed, unknown
from brainroam.evaluation.splits import UNITS
from brainroam.evaluation.stats import site_scores
from brainroam.evaluation.stats.meta import UNKNOWN, pool_auc
from brainroam.evaluation.stats.metrics import average_seeds, over_sites
from brainroam.evaluation.stats.paired import holm, left_out_test, nadeau_bengio, smallest_p
from brainroam.evaluation.stats.site_scores import Evidence, gather
from brainroam.utils.html import html_summary

ALPHA = 0.05
LEADING = (
    "protocol",
    "method",
    "n_sites",
    "auc",
    "auc_low",
    "auc_high",
    "worst_auc",
    "worst_site",
    "next_low",
    "next_high",
)


@dataclass(frozen=True)
class Comparison:
    """The result of `compare_methods`.

    Attributes
    ----------
    table : DataFrame
        Per protocol and method, best first, see `summarise`.
    paired : DataFrame
        Per protocol and pair: mean AUC ``difference`` (``method`` minus ``against``) with its interval ``low`` and
        ``high``, ``p``, ``p_holm``, ``won`` and ``lost`` of ``n_sites``, and ``smallest_p``, the smallest ``p_holm``
        this many sites and comparisons can give.
    sentences : list of str
        One per row of ``paired``, for people.
    notes : list of str
        What the data cannot decide or do not contain.
    confounding : DataFrame
        Per protocol and method what motion, age and sex have to do with the scores, see `confounding.confounding`;
        empty where the covariates are not known.
    """

    table: pd.DataFrame
    paired: pd.DataFrame
    sentences: list[str]
    notes: list[str]
    confounding: pd.DataFrame = field(default_factory=pd.DataFrame)

    def _repr_html_(self) -> str:
        """For notebooks: the table and the sentences."""
        columns = [name for name in (*LEADING, "balanced_acc") if name in self.table]
        return html_summary(f"{len(self.table)} methods", self.table[columns], [*self.sentences, *self.notes])


def compare_methods(
    scores: pd.DataFrame,
    predictions: pd.DataFrame,
    reference: str | None = None,
    n_boot: int = 2000,
    random_state: int = 0,
) -> Comparison:
    """Compare methods run on the same sites.

    Parameters
    ----------
    scores : DataFrame
        One row per method, protocol, site and seed with the metrics of `metrics.site_metrics`.
    predictions : DataFrame
        One row per method, protocol, site, seed and subject with ``label`` and ``score``.
    reference : str, optional
        Compare every other method against this one; by default every pair is compared. Fewer comparisons cost less
        under Holm's correction.
    n_boot, random_state : int
        Replicates and seed of the bootstrap; the seed also draws the signs above 13 sites.

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
    good beats poor by 37.8 AUC points on average over 8 sites (95 % interval 26.0 to 50.0; won 8 of 8; p = 0.0078)
    """
    scores, predictions = _checked(scores, predictions)
    found = _gathered(predictions, n_boot, random_state)
    methods = sorted({name for item in found for name in item.methods})
    if reference is not None and reference not in methods:
        raise unknown("method", reference, methods)
    table = _table(scores, found)
    frames = [_pairs(item, _order(table, item), reference, random_state) for item in found]
    paired = pd.concat(frames, ignore_index=True)
    sentences = [_sentence(row) for row in paired.itertuples()]
    notes = [note for item, frame in zip(found, frames, strict=True) for note in _notes(item, frame)]
    return Comparison(table, paired, sentences, notes)


def summarise(
    scores: pd.DataFrame, predictions: pd.DataFrame, n_boot: int = 2000, random_state: int = 0
) -> pd.DataFrame:
    """One row per protocol and method, best mean AUC first.

    Columns: ``n_sites`` (with an AUC; folds for ``cv``), mean ``auc`` with its 95 % interval ``auc_low`` and
    ``auc_high`` and ``auc_sd`` between sites, ``worst_auc`` at ``worst_site``; from the meta-analysis ``pooled_auc``,
    ``pooled_low``, ``pooled_high``, ``tau`` (logit scale) and the prediction interval ``next_low`` to ``next_high``
    for its true AUC (all NaN for ``cv``, which says nothing about a next site; an AUC measured there on few people
    scatters more); then the other metrics of `metrics.over_sites`.
    """
    scores, predictions = _checked(scores, predictions)
    return _table(scores, _gathered(predictions, n_boot, random_state))


def _checked(scores: pd.DataFrame, predictions: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both frames with text names, once they are known to hold the same runs."""
    keys = ["method", "protocol", "site", "seed"]
    for name, frame, needed in [("scores", scores, [*keys, "auc"]), ("predictions", predictions, site_scores.COLUMNS)]:
        absent = [column for column in needed if column not in frame]
        if absent or frame.empty:
            raise RunsError(f"the {name} lack the column(s) {listed(absent)}" if absent else f"the {name} hold no runs")
    # A site or person called 01 comes back from a table on disk as a number.
    text = {"method": str, "protocol": str, "site": str}
    scores, predictions = scores.astype(text), predictions.astype({**text, "subject": str})
    runs = scores[keys].merge(predictions[keys].drop_duplicates(), how="outer", indicator="holder")
    lone = runs[runs["holder"] != "both"]
    if len(lone):
        method, _, site, seed, _ = lone.iloc[0]
        raise RunsError(
            f"scores and predictions hold different runs: {method} at {site} (seed {seed}) stands in one of them only; "
            "write both again from the run files"
        )
    for protocol in scores["protocol"].unique():
        if protocol not in UNITS:
            raise unknown("protocol", protocol, UNITS)
    return scores, predictions


def _gathered(predictions: pd.DataFrame, n_boot: int, random_state: int) -> list[Evidence]:
    return [gather(predictions, name, n_boot, random_state) for name in sorted(predictions["protocol"].unique())]


def _table(scores: pd.DataFrame, found: list[Evidence]) -> pd.DataFrame:
    averaged = average_seeds(scores)
    rows = []
    for item in found:
        for j, method in enumerate(item.methods):
            per_site = averaged[(averaged["protocol"] == item.protocol) & (averaged["method"] == method)]
            reported = per_site.set_index("site")["auc"].reindex(item.sites)
            if not np.allclose(reported, item.auc[:, j], equal_nan=True):
                raise RunsError(f"the AUC of {method} in the scores is not that of its predictions; write both again")
            low, high = item.interval(np.eye(len(item.methods))[j])
            pooled = UNKNOWN
            if item.protocol != "cv":
                pooled = pool_auc(item.auc[:, j], item.variance[:, j], item.n_cases, item.n_controls)
            rows.append(
                {
                    "protocol": item.protocol,
                    "method": method,
                    **over_sites(per_site),
                    "auc_low": low,
                    "auc_high": high,
                    "pooled_auc": pooled.estimate,
                    "pooled_low": pooled.low,
                    "pooled_high": pooled.high,
                    "next_low": pooled.next_low,
                    "next_high": pooled.next_high,
                    "tau": pooled.tau,
                }
            )
    table = pd.DataFrame(rows)
    table = table[[*LEADING, *(name for name in table if name not in LEADING)]]
    return table.sort_values(["protocol", "auc"], ascending=[True, False], kind="stable", ignore_index=True)


def _order(table: pd.DataFrame, item: Evidence) -> list[str]:
    """The methods of a protocol, best first."""
    return table.loc[table["protocol"] == item.protocol, "method"].tolist()


def _pairs(item: Evidence, order: list[str], reference: str | None, random_state: int) -> pd.DataFrame:
    """Every method against the reference, or every pair with the better method first."""
    if reference is None:
        pairs = list(combinations(order, 2))
    else:
        pairs = [(method, reference) for method in order if method != reference and reference in order]
    rows = []
    for method, against in pairs:
        contrast = np.zeros(len(item.methods))
        contrast[[item.methods.index(method), item.methods.index(against)]] = 1, -1
        difference = item.auc[:, item.methods.index(method)] - item.auc[:, item.methods.index(against)]
        difference = difference[np.isfinite(difference)]
        if item.protocol == "cv":
            p, floor = nadeau_bengio(difference, item.test_over_train).p, 0.0
        else:
            p, floor = left_out_test(difference, random_state), smallest_p(len(difference))
        low, high = item.interval(contrast)
        rows.append(
            {
                "protocol": item.protocol,
                "method": method,
                "against": against,
                "difference": difference.mean() if len(difference) else np.nan,
                "low": low,
                "high": high,
                "p": p,
                "n_sites": len(difference),
                "won": int((difference > 0).sum()),
                "lost": int((difference < 0).sum()),
                # Holm multiplies the smallest p by the number of comparisons, and no other may fall below that.
                "smallest_p": min(1.0, floor * len(pairs)),
            }
        )
    columns = ["protocol", "method", "against", "difference", "low", "high", "p", "n_sites", "won", "lost"]
    frame = pd.DataFrame(rows, columns=[*columns, "smallest_p"])
    frame.insert(columns.index("p") + 1, "p_holm", holm(frame["p"].to_numpy(dtype=float)))
    return frame


def _sentence(row) -> str:
    """Say one comparison in words: the method that is ahead comes first, differences are in AUC points (hundredths)."""
    unit = UNITS[row.protocol] + "s" * (row.n_sites != 1)
    if np.isnan(row.p):
        return f"{row.method} and {row.against} share too few {UNITS[row.protocol]}s with an AUC to be compared"
    ahead, behind, won, low, high = row.method, row.against, row.won, row.low, row.high
    if row.difference < 0:
        ahead, behind, won, low, high = row.against, row.method, row.lost, -row.high, -row.low
    p = f"p = {row.p:.2g}" + (f", {row.p_holm:.2g} after Holm" if row.p_holm > row.p else "")
    spread = "" if np.isnan(low) else f"95 % interval {100 * low:.1f} to {100 * high:.1f}; "
    facts = f"on average over {row.n_sites} {unit} ({spread}won {won} of {row.n_sites}; {p})"
    points = f"{100 * abs(row.difference):.1f} AUC points"
    if row.p_holm < ALPHA:
        return f"{ahead} beats {behind} by {points} {facts}"
    if row.smallest_p >= ALPHA:
        why = f"{row.n_sites} {unit} cannot decide it, even winning everywhere gives p = {row.smallest_p:.2g}"
    elif row.p < ALPHA:
        why = "enough for a single comparison, not for so many at once"
    else:
        why = "the data cannot tell them apart"
    return f"{ahead} is {points} ahead of {behind} {facts}: {why}"


def _notes(item: Evidence, pairs: pd.DataFrame) -> Iterator[str]:
    unit = UNITS[item.protocol]
    if item.one_class:
        yield f"Everybody at {listed(item.one_class)} has the same label: no AUC there, left out of every AUC figure."
    for j, method in enumerate(item.methods):
        missing = [site for site, value in zip(item.sites, item.auc[:, j], strict=True) if np.isnan(value)]
        if missing:
            yield f"{method} has no result at {listed(missing)}: it is judged on the others only."
    n = 0 if pairs.empty else int(pairs["n_sites"].max())
    if n and item.protocol != "cv":
        note = f"With {n} {unit}s the smallest two-sided p is {smallest_p(n):.3g}"
        if len(pairs) > 1:
            note += f", and {min(1, len(pairs) * smallest_p(n)):.3g} after Holm over {len(pairs)} comparisons"
        if pairs["smallest_p"].min() >= ALPHA:
            note += ": no comparison can be decided. Name a reference to make fewer, or add sites"
        yield note + "."
