"""The page of a study of several classes: verdict, classes and pairs, who was called what by site, AUC by site."""

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from brainroam.data.target import Target
from brainroam.evaluation.results import Results
from brainroam.evaluation.stats.classes import ClassComparison, average_seeds, confusion, people_counted
from brainroam.evaluation.stats.verdict import site_intervals
from brainroam.report.figures import draw_forest, shortened
from brainroam.report.page import Drawing
from brainroam.report.tables import Column, fixed, number, table

MOST = 11  # confusion matrices of single sites that are drawn, the largest sites; the table has all
PAIRS = (
    Column("classes", "Classes"),
    Column("n_sites", "Sites", fixed(0)),
    Column("auc", "AUC", number),
    Column("low", "from", number),
    Column("high", "to", number),
    Column("next_low", "next site from", number),
    Column("next_high", "to", number),
    Column("told", "Told apart"),
)


def class_content(
    results: Results, chosen: str, comparison: ClassComparison
) -> tuple[pd.DataFrame, list[Drawing], dict[str, Markup]]:
    """Metrics of the chosen method at every site, the figures, and the tables of the page by name."""
    target, scores = results.target, results.scores
    sites = average_seeds(scores[scores["method"] == chosen], target).sort_values("auc", ascending=False)
    people = results.predictions[results.predictions["method"] == chosen]
    called = confusion(people, target)
    drawings = [
        Drawing(
            "confusion",
            f"Whom {chosen} called what at held-out sites: all of them, and the {min(MOST, len(sites))} with most "
            "people. Rows: the class; columns: what its people were called; shares of the row.",
            lambda: _matrices(called, target),
        ),
        Drawing(
            "sites",
            f"AUC of {chosen} at each held-out site: mean over the classes found there, each against the rest, with an "
            "interval of 95 % for that site alone; dashed: chance.",
            lambda: _forest(sites, target),
        ),
    ]
    shown = comparison.class_pairs[comparison.class_pairs["method"] == chosen]
    of_pairs = shown.assign(
        classes=shown["class_1"] + " / " + shown["class_2"], told=np.where(shown["apart"], "yes", "cannot be told")
    )
    return (
        sites,
        drawings,
        {
            "pairs": table(
                of_pairs, PAIRS, "pairs", f"Which classes {chosen} tells from which, among their people alone"
            ),
            "methods": table(
                comparison.table, _columns(target), "methods", "Every method, each class against the rest"
            ),
            "sites": table(sites, _site_columns(target), "sites", f"{chosen} at every held-out site"),
            "confusion": table(
                called, _confusion_columns(target), "confusion", f"Whom {chosen} called what, site by site"
            ),
        },
    )


def _columns(target: Target) -> list[Column]:
    auc = fixed(1, 100)
    of_each = [Column(f"auc_{name}", f"AUC {name}", number) for name in target.classes]
    ends = [Column(key, heading, number) for key, heading in (("next_low", "next site from"), ("next_high", "to"))]
    means = [Column("balanced_acc", "Called right, %", auc), Column("brier", "Brier", number)]
    return [Column("method", "Method"), Column("auc", "AUC", number), *ends, *of_each, *means]


def _site_columns(target: Target) -> list[Column]:
    counts = [Column(f"n_{name}", name, fixed(0)) for name in target.classes]
    of_each = [Column(f"auc_{name}", f"AUC {name}", number) for name in target.classes]
    return [Column("site", "Site"), *counts, Column("auc", "AUC", number), *of_each, Column("acc", "Accuracy", number)]


def _confusion_columns(target: Target) -> list[Column]:
    called = [Column(name, f"called {name}", fixed(0)) for name in target.classes]
    return [Column("site", "Site"), Column("label", "Class"), *called]


def _matrices(called: pd.DataFrame, target: Target) -> Figure:
    """One matrix of all sites, then those of the largest."""
    names = list(target.classes)
    sizes = called.groupby("site")[names].sum().sum(axis=1).sort_values(ascending=False, kind="stable")
    parts = [("all sites", called)]
    parts += [(str(name), called[called["site"] == name]) for name in sizes.index[: MOST if len(sizes) > 1 else 0]]
    columns = min(len(parts), 4)
    rows = -(-len(parts) // columns)
    figure = Figure((2.2 * columns, 2.3 * rows), layout="constrained")
    short = [shortened(name, 9) for name in names]
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
        ax.set_title(shortened(title, 18), fontsize=8)
    return figure


def _forest(sites: pd.DataFrame, target: Target) -> Figure:
    known = sites[(people_counted(sites, target) > 0) & sites["auc"].notna()]
    m, auc = people_counted(known, target), known["auc"].to_numpy(dtype=float)
    ends = site_intervals(auc, m, m) if len(known) else (auc, auc)
    return draw_forest(known["site"].tolist(), auc, ends, m, 0.5, "AUC, mean over classes")
