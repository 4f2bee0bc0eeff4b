"""Figures 4 and 6, and which of our changes matters: CORE beside itself with one thing changed."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from brainroam.core.choice import describe_decision
from brainroam.errors import listed
from brainroam.report.figures import BLUE, GREY, INK, canvas
from brainroam.report.page import Drawing
from brainroam.report.sections.ablation import curve, window_map
from brainroam.report.tables import Column, fixed, interval, p_value
from reproduction.page.content import Block, Listing, Part
from reproduction.page.data import PaperData
from reproduction.page.published import CLAIMS

NOT_BELIEVED = "not believed in any fold: the linear reading alone"


def ablation(data: PaperData) -> Part:
    """Figures 4a and 4b."""
    network = f"The paper's method, positive edges, {data.facts['epochs']} epochs"
    blocks: list[Block] = [
        f"The paper: {CLAIMS['ablation']}. Differences are ours, paired by site; Holm covers one table."
    ]
    blocks += _family(data, data.paper.ablation(), "ablation-network", network)
    blocks += _family(data, data.paper.core_ablation(), "ablation-core", "core, where held-out sites decide")
    return Part("figure-4ab", "Figures 4a and 4b: ablation", tuple(blocks))


def deviations(data: PaperData) -> Part:
    """Each of our changes undone, one at a time."""
    blocks: list[Block] = [
        "Where our reading differs from the paper's text, each choice is undone alone and everything else stays. A "
        "negative difference means that our choice helps. The reasons for each stand on the fidelity page."
    ]
    blocks += _family(data, data.paper.deviations(), "deviations-core", "From core, one change undone at a time")
    title = "From core-network (Pearson edges, no linear reading), one change undone at a time"
    blocks += _family(data, data.paper.network_deviations(), "deviations-network", title)
    return Part("deviations", "Which of our changes matters", tuple(blocks))


def budgets(data: PaperData) -> Part:
    """Figure 4c."""
    names = {point: name for point, name in data.paper.sweep("budget").items() if name in data.names("loso")}
    blocks: list[Block] = [f"The paper: {CLAIMS['k']}."]
    if len(names) > 1:
        table = data.summary("loso")
        caption = "Mean AUC of the paper's method over the gate budget K, with 95 % intervals."
        blocks.append(Drawing("paper-budget", caption, lambda: curve(names, table)))
        blocks.append(_best(data, {f"K = {point[0]:g}": name for point, name in names.items()}, "K = 80"))
    return Part(
        "figure-4c", "Figure 4c: gate budget K", (*blocks, *_unfinished(data, data.paper.sweep("budget"), names))
    )


def thresholds(data: PaperData) -> Part:
    """The scaffold's thresholds, which the paper chooses on inner sites."""
    name = "The paper's method with one threshold of the scaffold at another point of the paper's grid"
    blocks = _family(data, data.paper.thresholds(), "thresholds", name)
    return Part("thresholds", "Thresholds of the scaffold", tuple(blocks))


def windows(data: PaperData) -> Part:
    """Figure 4d."""
    names = {point: name for point, name in data.paper.sweep("window").items() if name in data.names("loso")}
    blocks: list[Block] = [f"The paper: {CLAIMS['windows']}."]
    if len(names) > 1:
        table = data.summary("loso")
        caption = "Mean AUC of the paper's method for every window length W and stride S (volumes)."
        blocks.append(Drawing("paper-windows", caption, lambda: window_map(names, table)))
        points = {f"W = {w:g}, stride {s:g}": name for (w, s), name in names.items()}
        blocks.append(_best(data, points, "W = 30, stride 5"))
    return Part("figure-4d", "Figure 4d: windows", (*blocks, *_unfinished(data, data.paper.sweep("window"), names)))


def _family(data: PaperData, names: Mapping[str, str], name: str, title: str) -> list[Block]:
    """A table and a picture of variants against the first of them."""
    reference = next(iter(names.values()))
    done = {what: method for what, method in names.items() if method in data.names("loso")}
    if reference not in done.values() or len(done) < 2:
        return [f"{title}: not run yet."]
    rows = _compared(data, done, reference)
    points = fixed(1, 100)
    columns = [
        Column("what", "Variant"),
        Column("folds", "Sites"),
        Column("auc", "AUC", points),
        Column("acc", "ACC", points),
        Column("difference", "Difference", lambda value: f"{100 * value:+.1f}"),
        Column("low", "95 % interval", interval("low_points", "high_points", 1), of_row=True),
        Column("won", "Won"),
        Column("p_holm", "p, Holm", p_value),
        Column("network", "Network"),
    ]
    changed = rows.iloc[1:]
    caption = f"{title}: AUC with the change minus AUC without it, in points, with 95 % intervals."
    drawing = Drawing(name, caption, lambda: _forest(changed))
    return [Listing(rows, columns, name, title), drawing, *_unfinished(data, names, done)]


def _compared(data: PaperData, done: Mapping[str, str], reference: str) -> pd.DataFrame:
    summary, paired = data.summary("loso"), data.paired(list(done.values()), reference)
    rows: list[dict[str, Any]] = []
    for what, method in done.items():
        row = {"what": what, "method": method, "folds": data.folds(method)}
        # A mean over other sites than the reference's would mislead; the paired difference is over shared ones.
        whole = row["folds"] == data.folds(reference)
        row |= {metric: summary.loc[method, metric] if whole else np.nan for metric in ("auc", "acc")}
        row |= dict.fromkeys(("difference", "low", "high", "p_holm", "low_points", "high_points"), np.nan) | {"won": ""}
        if method in paired.index:
            found = paired.loc[method]
            row |= {key: found[key] for key in ("difference", "low", "high", "p_holm")}
            row |= {"low_points": 100 * found["low"], "high_points": 100 * found["high"]}
            row["won"] = f"{found['won']} of {found['n_sites']}"
        rows.append(row | {"network": _network(data.choices(method))})
    return pd.DataFrame(rows)


def _network(choices: list[dict[str, Any]]) -> str:
    """What became of the network, in words."""
    if not choices:
        return "not recorded"
    if not any(choice["network"] for choice in choices):
        return NOT_BELIEVED
    epochs = sorted({choice["epochs"] for choice in choices if "epochs" in choice})
    length = "" if not epochs else f"{epochs[0]} epochs" if len(epochs) == 1 else f"{epochs[0]} to {epochs[-1]} epochs"
    tried = any("gain" in choice for choice in choices)
    return "; ".join(filter(None, [describe_decision(choices) if tried else "alone", length]))


def _best(data: PaperData, names: Mapping[str, str], published: str) -> str:
    """The best point of a sweep, beside the one that the paper chose."""
    table = data.summary("loso")
    aucs = {what: 100 * table.loc[name, "auc"] for what, name in names.items()}
    best = max(aucs, key=lambda what: aucs[what])
    said = (
        f"Ours: the largest mean AUC is at {best} ({aucs[best]:.1f}); over all {len(aucs)} points the means lie "
        f"between {min(aucs.values()):.1f} and {aucs[best]:.1f}."
    )
    if best == published or published not in names:
        return said
    found = data.paired([names[best], names[published]], names[published]).loc[names[best]]
    return (
        f"{said} That is {100 * found['difference']:.1f} points above the paper's {published} (95 % interval "
        f"{100 * found['low']:.1f} to {100 * found['high']:.1f}); by chance too, the best of {len(aucs)} lies above it."
    )


def _unfinished(data: PaperData, wanted: Mapping[Any, str], done: Mapping[Any, str]) -> list[Block]:
    """What is missing: not run yet, or run without success, and why."""
    missing = [name for what, name in wanted.items() if what not in done]
    failed = {name: why for name in missing if (why := data.why_failed(name))}
    waiting = [name for name in missing if name not in failed]
    why = f"{listed(list(failed))} cannot be run here: {next(iter(failed.values()))}." if failed else ""
    return [*([why] if why else []), *([f"Not run yet: {listed(waiting)}."] if waiting else [])]


def _forest(rows: pd.DataFrame) -> Figure:
    figure, axes = canvas(7.6, 0.32 * len(rows) + 0.8)
    at = np.arange(len(rows))[::-1]
    axes.axvline(0, color=GREY, linewidth=1, linestyle=(0, (4, 3)))
    axes.hlines(at, 100 * rows["low"], 100 * rows["high"], color=BLUE, linewidth=3)
    axes.scatter(100 * rows["difference"], at, s=40, color=BLUE, edgecolor=INK, linewidth=0.8, zorder=3)
    axes.set_yticks(at, rows["what"])
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("Difference in AUC points; dashed: none")
    return figure
