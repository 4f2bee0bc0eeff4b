"""At which sites did it work: the forest plot."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from brainroam.evaluation.stats.verdict import site_intervals
from brainroam.report.data import ReportData
from brainroam.report.figures import BLUE, GREY, INK, RULE, VERMILION, canvas, inline, shortened
from brainroam.report.page import render
from brainroam.report.section import Drawing, Section
from brainroam.report.tables import Column, fixed, interval, span, table


def sites_section(data: ReportData) -> Section:
    """The method of the report at every held-out site."""
    sites = site_aucs(data)
    drawing = Drawing(
        "forest",
        f"AUC of {data.method} at each held-out {data.unit} with 95 % intervals (score intervals, binormal variance); "
        "larger squares stand for more people. "
        + (
            f"Diamond: mean with its interval; bar below: where the next {data.unit} is expected."
            if not np.isnan(data.headline["next_low"])
            else f"{data.headline['reason'].capitalize()}."
        ),
        lambda: _forest(data, sites),
    )
    metrics = sites.merge(
        data.site_scores[data.site_scores["method"] == data.method], on="site", suffixes=("", "_seed")
    )
    columns = [
        Column("site", data.unit.capitalize()),
        Column("n", "People"),
        Column("n_cases", "Cases"),
        Column("auc", "AUC", fixed(3)),
        Column("low", "95 % interval", interval("low", "high", 3), of_row=True),
        Column("balanced_acc", "Balanced accuracy", fixed(3)),
        Column("sensitivity", "Sensitivity", fixed(3)),
        Column("specificity", "Specificity", fixed(3)),
        Column("brier", "Brier score", fixed(3)),
    ]
    html = render(
        "sites.html",
        figure=inline(drawing),
        table=table(metrics, columns, "auc-by-site", f"{data.method} at every held-out {data.unit}, seeds averaged"),
        unit=data.unit,
        one_class=data.gathered.one_class,
        every=_every(data),
    )
    return Section("sites", "AUC by site" if data.protocol != "cv" else "AUC by fold", html, (drawing,))


def site_aucs(data: ReportData) -> pd.DataFrame:
    """AUC and 95 % interval of the method of the report at each site that has both classes, best first."""
    found = data.gathered
    j = found.methods.index(data.method)
    frame = pd.DataFrame(
        {"site": found.sites, "n_cases": found.n_cases, "n": found.n_cases + found.n_controls, "auc": found.auc[:, j]}
    )
    known = frame["auc"].notna().to_numpy()
    low, high = site_intervals(found.auc[known, j], found.n_cases[known], found.n_controls[known])
    frame = frame[known].assign(low=low, high=high)
    return frame.sort_values("auc", ascending=False, kind="stable", ignore_index=True)


def _every(data: ReportData):
    """AUC of every compared method at every site."""
    wide = data.site_scores.pivot(index="site", columns="method", values="auc")[data.compared]
    order = data.comparison.table["method"]
    columns = [Column("site", data.unit.capitalize()), *(Column(name, name, fixed(2)) for name in order)]
    return table(wide.reset_index(), columns, "auc-by-site-and-method", "AUC of every method, seeds averaged")


def _summary(unit: str, row: dict) -> Iterator[tuple[str, float, float | None, float]]:
    """The rows below the sites, as far as there are intervals: mean and next site, each with its limits."""
    if not np.isnan(row["auc_low"]):
        yield "Mean", row["auc_low"], row["auc"], row["auc_high"]
    if not np.isnan(row["next_low"]):
        yield f"Next {unit}", row["next_low"], None, row["next_high"]


def _forest(data: ReportData, sites: pd.DataFrame) -> Figure:
    row = data.headline
    n = len(sites)
    summary = list(_summary(data.unit, row)) if data.protocol != "cv" else []
    below = len(summary) + 0.4 * bool(summary)
    figure, axes = canvas(7.6, 0.31 * (n + below) + 0.9)
    at = np.arange(n)[::-1] + below
    axes.axvline(0.5, color=GREY, linewidth=1, linestyle=(0, (4, 3)))
    axes.hlines(at, sites["low"], sites["high"], color=INK, linewidth=1.2)
    size = 25 + 90 * sites["n"] / sites["n"].max()
    axes.scatter(sites["auc"], at, s=size, marker="s", color=BLUE, zorder=3)
    texts = [f"{r.auc:.2f} ({span(r.low, r.high)})" for r in sites.itertuples()]
    names = [f"{shortened(r.site, 34)}  {r.n_cases}/{r.n}" for r in sites.itertuples()]
    ticks = list(at)
    for i, (name, low, middle, high) in enumerate(reversed(summary)):
        y = i + 0.2
        if middle is None:
            axes.hlines(y, low, high, color=VERMILION, linewidth=5)
        else:
            axes.fill([low, middle, high, middle], [y, y + 0.28, y, y - 0.28], color=VERMILION, zorder=3)
        ticks.append(y)
        texts.append(span(low, high) if middle is None else f"{middle:.2f} ({span(low, high)})")
        names.append(name)
    if summary:
        axes.axhline(below - 0.55, color=RULE, linewidth=0.8)
    for y, text in zip(ticks, texts, strict=True):
        axes.text(1.02, y, text, transform=axes.get_yaxis_transform(), va="center")
    axes.set_yticks(ticks, names)
    axes.text(1.02, 1.0, "AUC (95 % interval)", transform=axes.transAxes, va="bottom", fontweight="bold")
    axes.text(-0.01, 1.0, f"{data.unit.capitalize()}  cases/people", transform=axes.transAxes, va="bottom", ha="right",
              fontweight="bold")  # fmt: skip
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_ylim(-0.5, max(ticks, default=0) + 0.6)
    lowest = min([0.33, *sites["low"], *(low for _, low, _, _ in summary)]) if n else 0.03
    axes.set_xlim(max(lowest - 0.03, 0.0), 1.0)
    axes.set_xlabel("AUC; dashed: chance")
    return figure
