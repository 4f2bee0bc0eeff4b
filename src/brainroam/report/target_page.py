"""The page of a study of a number or of several classes.

Of a number: what travels, predicted against true by site, errors by site. Of classes: which are told from which, who
was called what by site, AUC by site.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from brainroam import __version__
from brainroam.data.people import people_and_scans
from brainroam.data.target import Target
from brainroam.data.target.sites_number import METRICS as NUMBER_METRICS
from brainroam.errors import counted
from brainroam.evaluation.results import Results, compare
from brainroam.evaluation.splits import TITLES
from brainroam.evaluation.stats import verdict as models
from brainroam.evaluation.stats.class_pairs import confusion
from brainroam.evaluation.stats.compare import Comparison
from brainroam.evaluation.stats.metrics import average_seeds
from brainroam.evaluation.stats.site_scores import SiteScores
from brainroam.report.brain.scaffold import scaffold_section
from brainroam.report.data import ReportData, read_data
from brainroam.report.figures import GREY, canvas, draw_forest, inline, shorten, write
from brainroam.report.page import Drawing, render
from brainroam.report.sections.adaptation import adaptation_section
from brainroam.report.sections.audit import audit_section, check_section, notes_section
from brainroam.report.sections.confounding import confounding_section
from brainroam.report.sections.next_site import plan_section
from brainroam.report.sections.number_confounding import number_confounding_section
from brainroam.report.tables import OVER, Column, fixed, interval, lack_sites, number, table
from brainroam.utils.files import write_text

LINE = 10  # people from which on a site's own line says something
COLOURS = 10  # sites that have a colour of their own
ENDS = (
    Column(
        "low",
        "95 % interval",
        interval("low", "high"),
        of_row=True,
        meaning="Where the true mean over sites lies in 95 of 100 such studies; a dash where people are too few.",
    ),
    Column(
        "next_low",
        "Next site",
        interval("next_low", "next_high"),
        of_row=True,
        meaning="95 % prediction interval: where the true value at a next site like these is to be expected.",
    ),
)
ERRORS = (
    Column("scale", "Scale", number),
    Column("mae", "Error", number),
    Column("mae_constant", "Error of a constant", number),
    Column("r2", "R2 within", number),
)
METHODS = (
    Column("method", "Method"),
    Column("r", "r", number),
    *ENDS,
    Column("off", "Level off by", number),
    *ERRORS,
)
SITES = (
    Column("site", "Site"),
    Column("n", "People", fixed(0)),
    Column("r", "r", number),
    Column("level", "Level off by", number),
    *ERRORS,
)
MOST = 11  # confusion matrices of single sites that are drawn, the largest sites; the table has all
AGAINST_REST = Column(
    "auc",
    "AUC",
    number,
    meaning="Mean over classes of how often somebody of the class has a higher score for it than somebody of another "
    "class at the same site: 0.5 is guessing.",
)
PAIRS = (
    Column("classes", "Classes"),
    Column("n_sites", "Sites", fixed(0)),
    Column(
        "auc",
        "AUC",
        number,
        meaning="How often the scores tell two people of one site apart, one of each class: 0.5 is guessing.",
    ),
    *ENDS,
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
    data = read_data(results, method)
    target, chosen, results = results.target, data.method, data.of_protocol
    comparison = compare(results)
    content = (_number_content if target.is_number else _class_content)(data, results, chosen, comparison)
    adaptation = adaptation_section(data)
    beside = [replace(adaptation, gist="")] if adaptation.html else []  # the first screen says it
    confounds = number_confounding_section(data) if target.is_number else replace(confounding_section(data), gist="")
    beside += [confounds] if confounds.html else []
    if target.is_number and (scaffold := scaffold_section(data)).html:
        beside += [scaffold]
    beside += [audit_section(data)] if data.audit is not None or data.method_audits else []
    beside += [check_section(data)] if data.check is not None else []
    beside += [plan_section(data)] if data.plan is not None else []
    fits = notes_section(data)
    beside += [fits] if fits.html.strip() else []
    page = render(
        "numbers.html" if target.is_number else "classes.html",
        title=name or f"{target.name} at {len(content.sites)} sites",
        caveats=comparison.caveats,
        verdicts=comparison.verdicts,
        comparisons=[*comparison.sentences, *([f"{chosen}: {adaptation.gist.rstrip('.')}"] if adaptation.gist else [])],
        notes=[*comparison.families, *comparison.notes, *_what_was_measured(data), *_other_protocols(data)],
        figure=Markup("").join(inline(drawing) for drawing in content.drawings),
        n_sites=len(content.sites),
        n_people=people_and_scans(results.predictions.drop_duplicates(["site", "subject"])),
        method=chosen,
        target=target,
        beside=beside,
        version=__version__,
        **content.tables,
    )
    if figures is not None:
        for drawing in [*content.drawings, *(drawing for section in beside for drawing in section.drawings)]:
            write(drawing, figures)
    return write_text(out, page + "\n")


def _other_protocols(data: ReportData) -> list[str]:
    names = sorted({TITLES[name] for name in data.results.scores["protocol"].unique()} - {TITLES[data.protocol]})
    return [f"Also run: {', '.join(names)}; brainroam compare shows it."] if names else []


class Content(NamedTuple):
    """Metrics of the chosen method at every site, the figures of the page, and its tables by name."""

    sites: pd.DataFrame
    drawings: list[Drawing]
    tables: dict[str, Markup]


def _what_was_measured(data: ReportData) -> list[str]:
    """What methods read, what was done to it before, and who was left out; nothing of tables of predictions alone."""
    if data.only_files:
        return []
    steps = "".join(f"; {step}" for step in data.study.get("prepared", []))
    out = len(data.study["excluded"])
    return [f"What was measured: {data.words.inputs}{steps}; {counted(out, 'person was', 'people were')} left out"]


def _number_content(data: ReportData, results: Results, chosen: str, comparison: Comparison) -> Content:
    """Order, level and scale: the page of a number."""
    name = results.target.name
    sites = average_seeds(results.scores[results.scores["method"] == chosen], NUMBER_METRICS).sort_values(
        "r", ascending=False
    )
    people = results.predictions[results.predictions["method"] == chosen]
    n, r = (sites[name].to_numpy(dtype=float) for name in ("n", "r"))
    picture = Drawing(
        "predicted",
        f"{name} predicted by {chosen} against the truth at held-out sites: a colour for each site, "
        f"and a line where it has {LINE} people or more; dashed: where both are equal.",
        lambda: _draw_predicted(list(people.groupby("site")), name),
    )
    measured = np.isfinite(r)
    forest = Drawing(
        "sites",
        f"Correlation of {chosen}'s prediction with {name} at each held-out site, with an interval of 95 % for that "
        "site alone; dashed: none.",
        lambda: draw_forest(
            sites["site"][measured].tolist(),
            r[measured],
            results.target.order.intervals(r[measured], n[measured, None], models),
            n[measured],
            0.0,
            "r within the site",
        ),
    )
    tables = {
        "methods": table(
            comparison.table,
            _with_counts(METHODS, comparison.table),
            "methods",
            "Every method at held-out sites, the best order first",
        ),
        "sites": table(sites, SITES, "sites", f"{chosen} at every held-out site, the best order first"),
    }
    return Content(sites, [picture, forest], tables)


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


def _class_content(data: ReportData, results: Results, chosen: str, comparison: Comparison) -> Content:
    """Which classes are told apart, and who is called what: the page of several classes."""
    target, scores = results.target, results.scores
    sites = average_seeds(scores[scores["method"] == chosen], target.measured[1:]).sort_values("auc", ascending=False)
    people = results.predictions[results.predictions["method"] == chosen]
    called = confusion(people, target)
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
            lambda: _draw_sites(data.gathered, chosen),
        ),
    ]
    shown = comparison.class_pairs[comparison.class_pairs["method"] == chosen]
    of_pairs = shown.assign(
        classes=shown["class_1"] + " / " + shown["class_2"], told=np.where(shown["apart"], "yes", "not shown")
    )
    captions = {
        "pairs": f"Which classes {chosen} tells from which, among their people alone",
        "methods": "Every method, each class against the rest",
        "sites": f"{chosen} at every held-out site",
        "confusion": f"Whom {chosen} called what, site by site",
    }
    rows = {
        "pairs": (of_pairs, PAIRS),
        "methods": (comparison.table, _with_counts(_method_columns(target), comparison.table)),
        "sites": (sites, _site_columns(target)),
        "confusion": (called, _confusion_columns(target)),
    }
    return Content(sites, drawings, {name: table(*rows[name], name, text) for name, text in captions.items()})


def _with_counts(columns: Sequence[Column], methods: pd.DataFrame) -> list[Column]:
    """The columns of methods, with the number of sites behind the name where methods lack some."""
    return [columns[0], *([OVER] if lack_sites(methods) else []), *columns[1:]]


def _method_columns(target: Target) -> list[Column]:
    share, k = fixed(1, 100), len(target.classes)
    right = f"Mean over classes of the share of their people who are called right: {100 / k:.1f} is guessing."
    brier = (
        "Sum over classes of the squared difference between predicted probability and what was true: 0 is perfect, "
        f"{1 - 1 / k:.2f} is saying the same of every class."
    )
    means = [
        Column("balanced_acc", "Called right, %", share, meaning=right),
        Column("brier", "Brier", number, meaning=brier),
    ]
    return [Column("method", "Method"), AGAINST_REST, *ENDS, *_of_each(target), *means]


def _site_columns(target: Target) -> list[Column]:
    counts = [Column(f"n_{name}", name, fixed(0)) for name in target.classes]
    right = Column("acc", "Accuracy", number, meaning="Share of people who are called right.")
    return [Column("site", "Site"), *counts, AGAINST_REST, *_of_each(target), right]


def _of_each(target: Target) -> list[Column]:
    return [
        Column(
            f"auc_{name}",
            f"AUC {name}",
            number,
            meaning=f"The same of {name} alone: below 0.5 where others lie on both sides of it.",
        )
        for name in target.classes
    ]


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
    return figure


def _draw_sites(gathered: SiteScores, method: str) -> Figure:
    sites = gathered.intervals(method)
    ends = sites["low"].to_numpy(), sites["high"].to_numpy()
    name = gathered.target.order.figure.name
    n, values = sites["n"].to_numpy(), sites[name].to_numpy()
    return draw_forest(sites["site"].tolist(), values, ends, n, 0.5, "AUC, mean over classes")
