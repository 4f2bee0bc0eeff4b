"""Pictures of what a method says of held-out people, by the names that a target gives them (`Target.pictures`)."""

from collections.abc import Callable, Collection

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from brainroam.data.target import Target
from brainroam.evaluation.stats.class_pairs import confusion
from brainroam.report.data import ReportData
from brainroam.report.figures import GREY, canvas, drawing, shorten
from brainroam.report.page import Drawing
from brainroam.report.sections.site_displays import RocBySiteDisplay, ScoresBySiteDisplay

LINE = 10  # people from which on a site's own line says something
COLOURS = 10  # sites that have a colour of their own
MOST = 11  # confusion matrices of single sites that are drawn, the largest sites; the table has all


def draw_roc(data: ReportData) -> Drawing:
    """ROC curves."""
    return drawing(
        "roc",
        f"ROC curve of {data.method} at each held-out {data.unit} (thin) and the mean of the curves (thick). Scores of "
        "different folds are never pooled. Dashed: guessing.",
        RocBySiteDisplay.from_results(data),
    )


def draw_scores(data: ReportData) -> Drawing:
    """Scores of people."""
    return drawing(
        "scores",
        f"What {data.method} says of every held-out person, by {data.unit}; strokes are medians. A {data.unit} where "
        "the two colours lie on each other is one where it failed.",
        ScoresBySiteDisplay.from_results(data),
    )


def draw_predicted(data: ReportData) -> Drawing:
    """A number against the truth."""
    name = data.target.name
    return Drawing(
        "predicted",
        f"{name} predicted by {data.method} against the truth at held-out {data.unit}s: a colour for each {data.unit}, "
        f"and a line where it has {LINE} people or more; dashed: where both are equal.",
        lambda: _draw_predicted(list(data.people.groupby("site")), name),
    )


def draw_confusion(data: ReportData) -> Drawing:
    """Who was called what."""
    called = confusion(scans_of(data), data.target)
    most = min(MOST, called["site"].nunique())
    return Drawing(
        "confusion",
        f"Whom {data.method} called what at held-out {data.unit}s: all of them, and the {most} with most people. Rows: "
        "the class; columns: what its people were called; shares of the row.",
        lambda: _draw_confusion(called, data.target),
    )


PICTURES: dict[str, Callable[[ReportData], Drawing]] = {
    "roc": draw_roc,
    "scores": draw_scores,
    "predicted": draw_predicted,
    "confusion": draw_confusion,
}


def scans_of(data: ReportData) -> pd.DataFrame:
    """The predictions of the method of the report."""
    rows = data.results.predictions
    return rows[(rows["method"] == data.method) & (rows["protocol"] == data.protocol)]


def _draw_predicted(sites: Collection, name: str) -> Figure:
    figure, ax = canvas(5.0, 4.6)
    for k, (site, here) in enumerate(sites):
        x, y = here["predicted"].to_numpy(dtype=float), here["label"].to_numpy(dtype=float)
        ax.scatter(x, y, s=9, alpha=0.5, linewidth=0, color=f"C{k % 10}", label=shorten(str(site), 14))
        if len(x) >= LINE and np.ptp(x) > 0:
            slope, height = np.polyfit(x, y, 1)
            ends = np.array([x.min(), x.max()])
            ax.plot(ends, height + slope * ends, linewidth=1, color=f"C{k % 10}")
    low, high = ax.get_xlim()
    ax.plot([low, high], [low, high], color=GREY, linewidth=1, linestyle=(0, (4, 3)))
    ax.set(xlabel=f"Predicted {name}", ylabel=f"True {name}")
    if len(sites) <= COLOURS:
        ax.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, fontsize=8, markerscale=2)
    return figure


def _draw_confusion(called: pd.DataFrame, target: Target) -> Figure:
    """One matrix of all sites, then those of the largest."""
    names = list(target.classes)
    sizes = called.groupby("site")[names].sum().sum(axis=1).sort_values(ascending=False, kind="stable")
    parts = [("all sites", called)]
    parts += [(str(name), called[called["site"] == name]) for name in sizes.index[: MOST if len(sizes) > 1 else 0]]
    columns = min(len(parts), 4)
    rows = -(-len(parts) // columns)
    figure = Figure((2.2 * columns, 2.3 * rows), layout="constrained")
    short = [shorten(name, 9) for name in names]
    for place, (title, part) in enumerate(parts):
        counts = part.groupby("label")[names].sum().reindex(names, fill_value=0).to_numpy(dtype=float)
        total = counts.sum(axis=1, keepdims=True)
        share = np.divide(counts, total, out=np.full(counts.shape, np.nan), where=total > 0)
        ax = figure.add_subplot(rows, columns, place + 1)
        ax.imshow(np.ma.masked_invalid(share), cmap="Blues", vmin=0, vmax=1)
        for i, j in np.ndindex(*share.shape):
            if total[i, 0]:
                dark = "white" if share[i, j] > 0.6 else "black"
                ax.text(j, i, f"{counts[i, j]:.0f}", ha="center", va="center", fontsize=8, color=dark)
        ax.set_xticks(range(len(names)), short, rotation=45, ha="right", fontsize=7)
        ax.set_yticks(range(len(names)), short, fontsize=7)
        ax.set_title(shorten(title, 18), fontsize=8)
        if place == 0:
            ax.set(xlabel="called", ylabel="true")
    return figure
