"""The page of a study of a number or of several classes.

Of a number: what travels, predicted against true by site, errors by site. Of classes: which are told from which, who
was called what by site, AUC by site.
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from brainroam import __version__
from brainroam.data.people import people_and_scans
from brainroam.data.target import Target
from brainroam.evaluation.results import Results, compare
from brainroam.evaluation.stats import classes, numbers
from brainroam.evaluation.stats.families import subject
from brainroam.evaluation.stats.verdict import site_intervals
from brainroam.report.data import ReportData
from brainroam.report.figures import GREY, canvas, draw_forest, inline, shortened, write
from brainroam.report.page import Drawing, render
from brainroam.report.sections.adaptation import adaptation_section
from brainroam.report.sections.audit import audit_section, check_section
from brainroam.report.sections.next_site import plan_section
from brainroam.report.tables import Column, fixed, number, table
from brainroam.utils.files import write_text

LINE = 10  # people from which on a site's own line says something
SITES = (
    Column("site", "Site"),
    Column("n", "People", fixed(0)),
    Column("r", "r", number),
    Column("level", "Level off by", number),
    Column("scale", "Scale", number),
    Column("mae", "Error", number),
    Column("mae_constant", "Error of a constant", number),
    Column("r2", "R2 within", number),
)
MOST = 11  # confusion matrices of single sites that are drawn, the largest sites; the table has all
OF_PAIR = "Probability that a randomly chosen person of the second class scores higher for it than one of the first."
OF_CLASSES = (
    "Mean over classes of the probability that a person of it scores higher for it than somebody else of the site."
)
CALLED_RIGHT = "Mean over classes of the share of its people called right: {:.0f} is guessing."
BRIER = (
    "Sum over classes of the squared difference between probability and what was true, mean over people: 0 is perfect."
)
PAIRS = (
    Column("classes", "Classes"),
    Column("n_sites", "Sites", fixed(0)),
    Column("auc", "AUC", number, meaning=OF_PAIR),
    Column("low", "from", number),
    Column("high", "to", number),
    Column("next_low", "next site from", number),
    Column("next_high", "to", number),
    Column("told", "Told apart"),
)


def write_target_page(
    results: Results,
    out: str | Path,
    figures: str | Path | None = None,
    method: str | None = None,
    name: str | None = None,
) -> Path:
    """Write the report as one HTML file; the sections that are about the AUC of two classes are left out."""
    target = results.target
    chosen = method or subject(results.scores["method"].unique())
    comparison = compare(results)
    if target.is_number:
        sites, drawings, tables = _number_content(results, chosen)
    else:
        sites, drawings, tables = _class_content(results, chosen, comparison)
    data = ReportData(results, chosen, str(comparison.table["protocol"].iloc[0]))
    adaptation = adaptation_section(data)
    beside = [replace(adaptation, gist="")] if adaptation.html else []  # the first screen says it
    beside += [audit_section(data)] if data.audit is not None or data.method_audits else []
    beside += [check_section(data)] if data.check is not None else []
    beside += [plan_section(data)] if data.plan is not None else []
    page = render(
        "numbers.html" if target.is_number else "classes.html",
        title=name or f"{target.name} at {len(sites)} sites",
        lines=[
            *comparison.caveats,
            *(f"{row.method}: {row.verdict}" for row in comparison.table.itertuples()),
            *comparison.sentences,
            *([f"{chosen}: {adaptation.gist}"] if adaptation.gist else []),
        ],
        figure=Markup("").join(inline(drawing) for drawing in drawings),
        n_sites=len(sites),
        n_people=people_and_scans(results.predictions.drop_duplicates(["site", "subject"])),
        method=chosen,
        target=target,
        beside=beside,
        version=__version__,
        **tables,
    )
    if figures is not None:
        for drawing in [*drawings, *adaptation.drawings]:
            write(drawing, figures)
    return write_text(out, page + "\n")


def _number_content(results: Results, chosen: str) -> tuple[pd.DataFrame, list[Drawing], dict[str, Markup]]:
    """Metrics of the chosen method at every site, the figure, and the tables of the page by name."""
    name = results.target.name
    sites = numbers.average_seeds(results.scores[results.scores["method"] == chosen]).sort_values("r", ascending=False)
    people = results.predictions[results.predictions["method"] == chosen]
    n, r = (sites[name].to_numpy(dtype=float) for name in ("n", "r"))
    picture = Drawing(
        "predicted",
        f"{name} predicted by {chosen} against the truth at held-out sites: a colour for each site, "
        f"and a line where it has {LINE} people or more; dashed: where both are equal.",
        lambda: _draw_predicted(people.groupby("site"), name),
    )
    measured = np.isfinite(r)
    forest = Drawing(
        "sites",
        f"Correlation of {chosen}'s prediction with {name} at each held-out site, with an interval of 95 % for that "
        "site alone; dashed: none.",
        lambda: draw_forest(
            sites["site"][measured].tolist(),
            r[measured],
            numbers.order_intervals(r[measured], n[measured]),
            n[measured],
            0.0,
            "r within the site",
        ),
    )
    shown = table(sites, SITES, "sites", f"{chosen} at every held-out site, the best order first")
    return sites, [picture, forest], {"sites": shown}


def _draw_predicted(sites: Iterable, name: str) -> Figure:
    figure, ax = canvas(5.0, 4.6)
    for k, (_, here) in enumerate(sites):
        x, y = here["predicted"].to_numpy(dtype=float), here["label"].to_numpy(dtype=float)
        ax.scatter(x, y, s=6, alpha=0.4, linewidth=0, color=f"C{k % 10}")
        if len(x) >= LINE and np.ptp(x) > 0:
            slope, height = np.polyfit(x, y, 1)
            ends = np.array([x.min(), x.max()])
            ax.plot(ends, height + slope * ends, linewidth=1, color=f"C{k % 10}")
    low, high = ax.get_xlim()
    ax.plot([low, high], [low, high], color=GREY, linewidth=1, linestyle=(0, (4, 3)))
    ax.set(xlabel=f"Predicted {name}", ylabel=f"True {name}")
    return figure


def _class_content(
    results: Results, chosen: str, comparison: classes.ClassComparison
) -> tuple[pd.DataFrame, list[Drawing], dict[str, Markup]]:
    """Metrics of the chosen method at every site, the figures, and the tables of the page by name."""
    target, scores = results.target, results.scores
    sites = classes.average_seeds(scores[scores["method"] == chosen], target).sort_values("auc", ascending=False)
    people = results.predictions[results.predictions["method"] == chosen]
    called = classes.confusion(people, target)
    drawings = [
        Drawing(
            "confusion",
            f"Whom {chosen} called what at held-out sites: all of them, and the {min(MOST, len(sites))} with most "
            "people. Rows: the class; columns: what its people were called; shares of the row.",
            lambda: _draw_confusion(called, target),
        ),
        Drawing(
            "sites",
            f"AUC of {chosen} at each held-out site: mean over the classes found there, each against the rest, with an "
            "interval of 95 % for that site alone; dashed: chance.",
            lambda: _draw_sites(sites, target),
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
                comparison.table, _method_columns(target), "methods", "Every method, each class against the rest"
            ),
            "sites": table(sites, _site_columns(target), "sites", f"{chosen} at every held-out site"),
            "confusion": table(
                called, _confusion_columns(target), "confusion", f"Whom {chosen} called what, site by site"
            ),
        },
    )


def _method_columns(target: Target) -> list[Column]:
    auc = fixed(1, 100)
    of_each = [Column(f"auc_{name}", f"AUC {name}", number) for name in target.classes]
    ends = [Column(key, heading, number) for key, heading in (("next_low", "next site from"), ("next_high", "to"))]
    right = Column("balanced_acc", "Called right, %", auc, meaning=CALLED_RIGHT.format(100 / len(target.classes)))
    means = [right, Column("brier", "Brier", number, meaning=BRIER)]
    return [Column("method", "Method"), Column("auc", "AUC", number, meaning=OF_CLASSES), *ends, *of_each, *means]


def _site_columns(target: Target) -> list[Column]:
    counts = [Column(f"n_{name}", name, fixed(0)) for name in target.classes]
    of_each = [Column(f"auc_{name}", f"AUC {name}", number) for name in target.classes]
    auc = Column("auc", "AUC", number, meaning=OF_CLASSES)
    acc = Column("acc", "Accuracy", number, meaning="Share of people called right.")
    return [Column("site", "Site"), *counts, auc, *of_each, acc]


def _confusion_columns(target: Target) -> list[Column]:
    called = [Column(name, f"called {name}", fixed(0)) for name in target.classes]
    return [Column("site", "Site"), Column("label", "Class"), *called]


def _draw_confusion(called: pd.DataFrame, target: Target) -> Figure:
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


def _draw_sites(sites: pd.DataFrame, target: Target) -> Figure:
    measured = sites[(classes.people_counted(sites, target) > 0) & sites["auc"].notna()]
    m, auc = classes.people_counted(measured, target), measured["auc"].to_numpy(dtype=float)
    ends = site_intervals(auc, m, m) if len(measured) else (auc, auc)
    return draw_forest(measured["site"].tolist(), auc, ends, m, 0.5, "AUC, mean over classes")
