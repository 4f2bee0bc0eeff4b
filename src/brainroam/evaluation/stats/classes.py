"""How well several classes are told apart at sites never seen.

At each held-out site, over the K classes found there, each against everybody else of the site:

    auc_k          AUC of the score of class k                            auc: their mean (macro)
    balanced_acc   mean over classes of the share called right            1 / K by chance
    brier          mean over people of sum_k (p_k - [class k])^2          log_loss: mean of -log p of the true class

The mean over sites, its interval and the next site are those of `verdict.verdict`, which needs cases and controls. At
chance the AUC of class k with n_k of n people has the variance (n + 1) / (12 n_k (n - n_k)), and the mean over classes
a share rho of the mean of these: 1 where classes move together, 1 / K where they do not. So a site counts as one with m
cases and m controls, where the two are equal:

    (2 m + 1) / (12 m^2) = rho mean_k (n + 1) / (12 n_k (n - n_k))

rho is that of the sites together, from what each person adds to the AUC of every class (`auc.added_error`). Weights of
sites are min(m, 20) with rho = 1, so that all methods have the same: a class of one or two people makes m small, as the
rarer of two classes does. Coverage: docs/reliability.md.

Which classes are told from which is asked pair by pair, among the people of the two classes alone, by
log p_i - log p_j and `verdict.verdict`. Methods are compared by their differences of the macro AUC at the same sites.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from brainroam.data.people import people_of
from brainroam.data.target import Target
from brainroam.data.target.order import auc, class_aucs, equivalent_sizes, macro_variances, shared_error
from brainroam.errors import listed
from brainroam.evaluation.splits import UNITS
from brainroam.evaluation.stats import metrics
from brainroam.evaluation.stats.families import check_reference
from brainroam.evaluation.stats.metrics import FULL, mean_over_sites, site_weights
from brainroam.evaluation.stats.paired import compare_pairs
from brainroam.evaluation.stats.target_comparison import (
    TargetComparison,
    compare_families,
    describe_blocks_added,
    describe_pair,
    describe_points_added,
    notes_on_institutions,
)
from brainroam.evaluation.stats.verdict import Verdict
from brainroam.evaluation.stats.verdict import verdict as judge

OVERALL = ("auc", "acc", "balanced_acc", "brier", "log_loss", "auc_variance", "class_variance")
RULE = f"mean over sites, each weighted by its people of the rarer classes, {FULL} at most"
SURE = 1e-12  # probabilities are held this far from 0 before their logarithm is taken


def metric_names(classes: Sequence[str]) -> tuple[str, ...]:
    """Columns of the metrics of one site: over all classes, then the number of people and the AUC of each.

    >>> metric_names(["HC", "MDD"])[len(OVERALL):]
    ('n_HC', 'n_MDD', 'auc_HC', 'auc_MDD')
    """
    return (*OVERALL, *(f"n_{name}" for name in classes), *(f"auc_{name}" for name in classes))


def site_metrics(
    code: np.ndarray, score: np.ndarray, called: np.ndarray, probability: np.ndarray, classes: Sequence[str]
) -> dict[str, float | int]:
    """Every metric of one held-out site; NaN where it has one class only.

    Parameters
    ----------
    code, called : ndarray of int, shape (N,)
        The class of each person, and the one that they are called.
    score, probability : ndarray of shape (N, K)
    classes : sequence of str

    Examples
    --------
    >>> p = np.array([[0.8, 0.1, 0.1], [0.2, 0.6, 0.2], [0.3, 0.4, 0.3]])
    >>> found = site_metrics(np.array([0, 1, 2]), p, np.array([0, 1, 1]), p, ["a", "b", "c"])
    >>> found["auc"], round(found["balanced_acc"], 3), round(found["brier"], 3)
    (1.0, 0.667, 0.347)
    """
    count, aucs = np.bincount(code, minlength=len(classes)), class_aucs(code, score)
    recall = [float(np.mean(called[code == k] == k)) for k in np.flatnonzero(count)]
    several, known = len(recall) > 1, aucs[np.isfinite(aucs)]
    return {
        "n": len(code),
        "auc": float(known.mean()) if len(known) else np.nan,
        "acc": float(np.mean(called == code)),
        "balanced_acc": float(np.mean(recall)) if several else np.nan,
        "brier": float(np.square(probability - np.eye(len(classes))[code]).sum(axis=1).mean()),
        "log_loss": float(-np.log(np.maximum(probability[np.arange(len(code)), code], SURE)).mean()),
        **dict(zip(OVERALL[-2:], macro_variances(code, score), strict=True)),
        **{f"n_{name}": int(n) for name, n in zip(classes, count, strict=True)},
        **{f"auc_{name}": float(value) for name, value in zip(classes, aucs, strict=True)},
    }


def macro_verdict(auc: np.ndarray, counts: np.ndarray, variances: np.ndarray) -> Verdict:
    """The verdict on the macro AUC of sites with so many people of each class (sites, K).

    ``variances`` (sites, 2) are ``auc_variance`` and ``class_variance`` of each site.
    """
    m = equivalent_sizes(counts)
    measured = (m > 0) & np.isfinite(auc)
    auc, counts, m = auc[measured], counts[measured], m[measured]
    people = equivalent_sizes(counts, shared_error(m, variances[measured], counts.shape[1]))
    return replace(judge(auc, people, people), mean=mean_over_sites(auc, site_weights(m, m)))


def counted_people(sites: pd.DataFrame, target: Target) -> np.ndarray:
    """`equivalent_sizes` of rows of metrics."""
    return equivalent_sizes(_counts(sites, target))


def _counts(sites: pd.DataFrame, target: Target) -> np.ndarray:
    return sites[[f"n_{name}" for name in target.classes]].to_numpy(dtype=float)


def average_seeds(scores: pd.DataFrame, target: Target) -> pd.DataFrame:
    """As `metrics.average_seeds`, of the metrics of several classes."""
    return metrics.average_seeds(scores, metric_names(target.classes))


def summary(sites: pd.DataFrame, target: Target) -> tuple[Verdict, dict[str, float]]:
    """The verdict on the macro AUC of one method, and means over its sites of the other metrics; one row per site."""
    m, variances = counted_people(sites, target), sites[list(OVERALL[-2:])].to_numpy(dtype=float)
    judged = macro_verdict(sites["auc"].to_numpy(dtype=float), _counts(sites, target), variances)
    n = sites["n"].to_numpy(dtype=float)
    means = {name: mean_over_sites(sites[name].to_numpy(), site_weights(m, m)) for name in OVERALL[1:-2]}
    for name in target.classes:
        of_class = sites[f"n_{name}"].to_numpy(dtype=float)
        weight = site_weights(of_class, n - of_class)
        means[f"auc_{name}"] = mean_over_sites(sites[f"auc_{name}"].to_numpy(), weight)
    return judged, means


def class_pairs(predictions: pd.DataFrame, target: Target) -> pd.DataFrame:
    """Each pair of classes at held-out sites: the AUC among their people alone, with its verdict over sites.

    Parameters
    ----------
    predictions : DataFrame
        Of one method and protocol: ``site``, ``seed``, ``subject``, ``label`` and ``probability_<class>``, or, where a
        file tells none, ``score_<class>``.
    target : Target

    Returns
    -------
    DataFrame
        ``class_1``, ``class_2``, ``n_sites``, ``auc``, ``low``, ``high``, ``next_low``, ``next_high``, ``reason`` and
        ``apart``: whether the interval of the mean lies above one half.
    """
    means, scores = ([f"{what}_{name}" for name in target.classes] for what in ("probability", "score"))
    scored = predictions[means].isna().any(axis=None)
    means = scores if scored else means
    people = predictions.groupby(["site", "subject"], as_index=False).agg(
        {**dict.fromkeys(means, "mean"), "label": "first", **({"person": "first"} if "person" in predictions else {})}
    )
    people = people_of(people)
    odds, code = people[means].to_numpy(dtype=float), people["label"].to_numpy(dtype=int)
    odds = odds if scored else np.log(np.maximum(odds, SURE))
    site, rows = people["site"].to_numpy(), []
    for i, j in combinations(range(len(target.classes)), 2):
        values = []
        for name in np.unique(site):
            here = (site == name) & np.isin(code, (i, j))
            first = code[here] == i
            if 0 < first.sum() < len(first):
                values.append((auc(first, (odds[:, i] - odds[:, j])[here]), first.sum(), (~first).sum()))
        judged = judge(*np.array(values).reshape(-1, 3).T)
        row = {
            "class_1": target.classes[i],
            "class_2": target.classes[j],
            "n_sites": judged.n_sites,
            "auc": judged.mean,
        }
        ends = {name: getattr(judged, name) for name in ("low", "high", "next_low", "next_high", "reason")}
        rows.append({**row, **ends, "apart": bool(judged.low > 0.5)})
    return pd.DataFrame(rows)


def sentence(judged: Verdict, balanced_acc: float, pairs: pd.DataFrame, target: Target) -> str:
    """One plain verdict: whether classes are told apart, what to expect at the next site, and which pairs are not.

    >>> pairs = pd.DataFrame({"class_1": ["HC", "HC", "MDD"], "class_2": ["MDD", "SCZ", "SCZ"],
    ...     "auc": [.7, .8, .52], "low": [.6, .7, .4], "high": [.8, .9, .6], "apart": [True, True, False]})
    >>> sentence(Verdict(12, .68, .6, .75, .55, .8), .5, pairs, Target.of_kind("dx", "classes", ("HC", "MDD", "SCZ")))
    'Some classes are told apart, not all (AUC 68.0 against the rest, next site 55.0 to 80.0; 50.0 % called right, \
33.3 % by chance): HC from MDD (70.0), HC from SCZ (80.0); cannot be told apart: MDD from SCZ (52.0, 40.0 to 60.0).'
    """
    by_outcome = {apart: [_pair(row) for row in pairs[pairs["apart"] == apart].itertuples()] for apart in (True, False)}
    facts = f"AUC {100 * judged.mean:.1f} against the rest"
    if np.isnan(judged.low):
        facts += f"; {judged.reason}"
    elif np.isnan(judged.next_low) or judged.low <= 0.5:
        facts += f", {100 * judged.low:.1f} to {100 * judged.high:.1f}"
    else:
        facts += f", next site {100 * judged.next_low:.1f} to {100 * judged.next_high:.1f}"
    facts += f"; {100 * balanced_acc:.1f} % called right, {100 / len(target.classes):.1f} % by chance"
    if not by_outcome[True]:
        return f"The classes cannot be told apart ({facts}): {listed(by_outcome[False], 6)}."
    if not by_outcome[False]:
        return f"All classes are told apart ({facts}): {listed(by_outcome[True], 6)}."
    return (
        f"Some classes are told apart, not all ({facts}): {listed(by_outcome[True], 6)}; "
        f"cannot be told apart: {listed(by_outcome[False], 6)}."
    )


def _pair(row: Any) -> str:
    ends = "" if row.apart or np.isnan(row.low) else f", {100 * row.low:.1f} to {100 * row.high:.1f}"
    size = "too few people" if np.isnan(row.auc) else f"{100 * row.auc:.1f}{ends}"
    return f"{row.class_1} from {row.class_2} ({size})"


def confusion(predictions: pd.DataFrame, target: Target) -> pd.DataFrame:
    """How many scans of each class (rows) were called which (columns), for each site: a row per site and class."""
    names = dict(enumerate(target.classes))
    table = pd.crosstab(
        [predictions["site"], predictions["label"].astype(int).map(names)],
        predictions["predicted"].astype(int).map(names),
        rownames=["site", "label"],
        colnames=["predicted"],
    )
    return table.reindex(columns=list(target.classes), fill_value=0).reset_index()


@dataclass(frozen=True)
class ClassComparison(TargetComparison):
    """The result of `compare_classes`: ``table`` has the macro AUC with its intervals, best first, and ``auc_<class>``.

    The ``difference`` of a pair of methods is that of the macro AUC; the rest is as in `TargetComparison`.

    Attributes
    ----------
    class_pairs : DataFrame
        Per protocol and method, each pair of classes, see `class_pairs`.
    """

    PRINTED = ("auc", "next_low", "next_high", "balanced_acc", "brier")
    IN_NOTEBOOKS = ("auc", "low", "high", "next_low", "next_high", "balanced_acc")

    class_pairs: pd.DataFrame


def compare_classes(
    scores: pd.DataFrame,
    predictions: pd.DataFrame,
    target: Target,
    reference: str | None = None,
    all_pairs: bool = False,
) -> ClassComparison:
    """Compare methods that tell several classes apart, at the same held-out sites."""
    sites = average_seeds(scores, target)
    check_reference(sites["method"].unique(), reference, all_pairs)
    rows, of_classes = [], []
    for (protocol, method), here in sites.groupby(["protocol", "method"]):
        judged, means = summary(here, target)
        people = predictions[(predictions["protocol"] == protocol) & (predictions["method"] == method)]
        pairs = class_pairs(people, target)
        of_classes.append(pairs.assign(protocol=protocol, method=method))
        ends = {name: getattr(judged, name) for name in ("low", "high", "next_low", "next_high", "tau", "reason")}
        words = sentence(judged, means["balanced_acc"], pairs, target)
        row = {"protocol": protocol, "method": method, "n_sites": judged.n_sites, "auc": judged.mean, **ends, **means}
        rows.append({**row, "verdict": words})

    def differences(here: pd.DataFrame, pairs: Sequence[tuple[str, str]]) -> pd.DataFrame:
        first = here.drop_duplicates("site").set_index("site")
        m = counted_people(first, target)
        wide = here.pivot(index="site", columns="method", values="auc")
        return compare_pairs(wide, pd.Series(site_weights(m, m), index=first.index), pairs)

    compared = compare_families(sites, rows, "auc", differences, reference, all_pairs)
    notes = [f"AUC: of each class against the rest, {RULE}; pairs: among the people of two classes alone"]
    notes += [*compared.notes, *notes_on_institutions(predictions)]
    sentences = describe_blocks_added(scores, sites, differences, describe_points_added)
    sentences += [_describe_difference(row, UNITS[str(row.protocol)]) for row in compared.paired.itertuples()]
    between = pd.concat(of_classes, ignore_index=True)
    return ClassComparison(target, compared.table, compared.paired, sentences, notes, compared.families, between)


def _describe_difference(row: Any, unit: str) -> str:
    size = f"{100 * abs(row.difference):+.1f} points of AUC"
    return describe_pair(row, unit, "tells classes apart better than", size)
