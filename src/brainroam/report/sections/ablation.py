"""What each part of CORE is worth, and how much its settings matter: the curve over K, a map over window and stride."""

from functools import partial

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from brainroam.evaluation.stats.compare import Comparison, summarise
from brainroam.evaluation.stats.families import BUDGET, WINDOW, ablations, sweeps
from brainroam.report.data import ReportData
from brainroam.report.figures import BLUE, GREY, INK, VERMILION, canvas, inline
from brainroam.report.page import Drawing, Missing, Section, missing, render
from brainroam.report.sections.comparison import at_fewer_sites, paired_table

PARTS = {
    "core": "CORE, complete",
    "core-no-cd": "without site-aware deconfounding",
    "core-tp": "with temporal profiles",
    "core-no-pg": "without prior guidance",
    "core-no-sg": "without subject-adaptive gates",
}


def ablation_section(data: ReportData) -> Section:
    """CORE against itself with one part taken away."""
    families = ablations(data.names)
    if not families:
        return missing("ablation", "Ablation", "What each part of CORE is worth", data.command("ablate"))
    drawings, studies = [], []
    for number, family in enumerate(families, 1):
        comparison = data.compare(list(family.values()), family["core"])
        drawing = Drawing(
            "ablation" if number == 1 else f"ablation-{number}",
            f"Mean AUC of {family['core']} and of it without one part, with 95 % intervals; dots are held-out "
            f"{data.unit}s.",
            partial(_bars, data, comparison, family),
        )
        drawings.append(drawing)
        paired = paired_table(comparison, family["core"], drawing.name)
        studies.append({"figure": inline(drawing), "paired": paired, "notes": comparison.notes, "name": family["core"]})
    html = render("ablation.html", studies=studies)
    return Section("ablation", "Ablation", html, tuple(drawings))


def _bars(data: ReportData, comparison: Comparison, family: dict[str, str]) -> Figure:
    variants = [method for method in PARTS if method in family]
    rows = comparison.table.set_index("method").loc[[family[method] for method in variants]]
    name_of, (low, high) = data.figure.name, data.target.order.ends
    figure, axes = canvas(7.6, 0.5 * len(variants) + 0.8)
    at = np.arange(len(variants))[::-1]
    colour = [VERMILION if method == "core" else BLUE for method in variants]
    axes.barh(at, rows[name_of], height=0.6, color=colour, alpha=0.85)
    axes.hlines(at, rows[low], rows[high], color=INK, linewidth=1.2)
    wide: pd.DataFrame = data.site_scores.pivot(index="site", columns="method", values=name_of)
    for y, method in zip(at, variants, strict=True):
        values = wide[family[method]].dropna()
        axes.plot(values, np.full(len(values), y - 0.17), "o", color=INK, markersize=2.6, alpha=0.7)
        mean = rows.loc[family[method], name_of]
        axes.text(1.02, y, f"{mean:.3f}", transform=axes.get_yaxis_transform(), va="center")
    axes.axvline(data.figure.chance, color=GREY, linewidth=1, linestyle=(0, (4, 3)))
    names = [PARTS[method] + at_fewer_sites(rows.loc[family[method]]) for method in variants]
    axes.set_yticks(at, names)
    axes.tick_params(axis="y", length=0)
    axes.set(xlim=(0, 1), xlabel=f"{data.figure.head}; dashed: chance")
    return figure


def sensitivity_section(data: ReportData) -> Section:
    """The two sweeps of the paper, each where it was run."""
    parts: list[Markup] = []
    drawings: list[Drawing] = []
    gaps: list[Missing] = []
    for over, name, title, caption, draw in (
        (BUDGET, "budget", "Gate budget K", "Mean AUC over the gate budget K, with 95 % intervals.", curve),
        (
            WINDOW,
            "window",
            "Window and stride",
            "Mean AUC for every window length W and stride S (volumes).",
            window_map,
        ),
    ):
        families = [family for family in sweeps(data.names, over) if _shared_sites(data, family)]
        for number, family in enumerate(families, 1):
            table, n_sites = _summary(data, family), len(data.site_scores["site"].unique())
            few = len(_shared_sites(data, family))
            drawing = Drawing(
                f"sweep-{name}" if number == 1 else f"sweep-{name}-{number}",
                caption + (f" Over the {few} of {n_sites} {data.unit}s that all points have." if few < n_sites else ""),
                partial(draw, family, table),
            )
            drawings.append(drawing)
            parts.append(render("sweep.html", title=title, figure=inline(drawing)))
        seen = data.words.has_time if over == WINDOW else data.words.has_regions  # windows of series, gates of pathways
        if not families and seen:
            what = f"How much {title[0].lower() + title[1:]} of CORE matters"
            gaps.append(Missing(what, data.command("sweep", f"--over {name}")))
    return Section("sensitivity", "Sensitivity to settings", Markup("").join(parts), tuple(drawings), tuple(gaps))


def _shared_sites(data: ReportData, family: dict[tuple, str]) -> list[str]:
    """The sites that all points of a sweep have, as a curve through other sites each is none."""
    rows = data.site_scores[data.site_scores["method"].isin(family.values())]
    n_methods = rows.groupby("site")["method"].nunique()
    return n_methods.index[n_methods == len(family)].tolist()


def _summary(data: ReportData, family: dict[tuple, str]) -> pd.DataFrame:
    """The table of the points of a sweep, over the sites that all of them have."""
    sites = _shared_sites(data, family)
    scores, predictions = (
        frame[frame["method"].isin(family.values()) & (frame["protocol"] == data.protocol) & frame["site"].isin(sites)]
        for frame in (data.results.scores, data.results.predictions)
    )
    return summarise(scores, predictions).set_index("method")


def curve(family: dict[tuple, str], table: pd.DataFrame) -> Figure:
    """Mean AUC over the values of one setting, with its interval."""
    rows = table.loc[list(family.values())]
    x = [point[0] for point in family]
    figure, axes = canvas(7.6, 3.2)
    axes.fill_between(x, rows["auc_low"], rows["auc_high"], color=BLUE, alpha=0.2, linewidth=0)
    axes.plot(x, rows["auc"], "o-", color=BLUE)
    axes.axhline(0.5, color=GREY, linewidth=1, linestyle=(0, (4, 3)))
    axes.set_xticks(x, [f"{value:g}" for value in x])
    axes.set(xlabel="Gate budget K (pathways)", ylabel="AUC; dashed: chance")
    return figure


def window_map(family: dict[tuple, str], table: pd.DataFrame) -> Figure:
    """Mean AUC over window lengths and strides."""
    windows, strides = (sorted({point[axis] for point in family}) for axis in (0, 1))
    values = np.full((len(strides), len(windows)), np.nan)
    for (window, stride), name in family.items():
        values[strides.index(stride), windows.index(window)] = table.loc[name, "auc"]
    figure, axes = canvas(7.6, 0.55 * len(strides) + 1.1)
    image = axes.pcolormesh(values, cmap="cividis", edgecolors="none")
    middle = (np.nanmin(values) + np.nanmax(values)) / 2
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            ink = "black" if value > middle else "white"
            axes.text(column + 0.5, row + 0.5, f"{value:.3f}", ha="center", va="center", color=ink)
    axes.set_xticks(np.arange(len(windows)) + 0.5, [f"{value:g}" for value in windows])
    axes.set_yticks(np.arange(len(strides)) + 0.5, [f"{value:g}" for value in strides])
    axes.tick_params(length=0)
    axes.set(xlabel="Window length W (volumes)", ylabel="Stride S (volumes)")
    figure.colorbar(image, ax=axes, label="Mean AUC")
    return figure
