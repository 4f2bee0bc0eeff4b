"""Which method is better, how sure is that, and what can the data not decide?"""

from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from brainroam.evaluation.stats.compare import WITHOUT_NEXT, Comparison
from brainroam.evaluation.stats.families import CONTROLS
from brainroam.evaluation.stats.metrics import RULE
from brainroam.evaluation.stats.target_comparison import count_of_sites
from brainroam.report.data import ReportData
from brainroam.report.facts import gather_facts
from brainroam.report.figures import BLUE, GREY, INK, VERMILION, add_row_tips, canvas, inline, shorten
from brainroam.report.page import Drawing, Section, missing, render
from brainroam.report.tables import OVER, Column, fixed, interval, number, p_value, span, table


def comparison_section(data: ReportData) -> Section:
    """Every method against the method of the report."""
    if len(data.compared) == 1:
        command = data.command("loso", "--methods fc-ridge,confounds,majority")
        return missing("comparison", "Comparison of methods", "Other methods to compare with", command)
    drawing = Drawing(
        "methods",
        f"Mean AUC over held-out {data.unit}s: dot and thick line with its 95 % interval"
        + ("" if data.protocol in WITHOUT_NEXT else f"; thin line: where the next {data.unit} is expected")
        + ". Controls, which see no brain, are grey.",
        lambda: _methods_figure(data),
    )
    html = render(
        "comparison.html",
        figure=inline(drawing),
        summary=summary_table(
            data.comparison, "methods", f"Methods, best first; every figure a {RULE.replace('site', data.unit)}"
        ),
        paired=paired_table(data.comparison, data.method, "paired"),
        sentences=data.comparison.sentences,
        notes=data.comparison.notes,
        families=data.comparison.families,
        method=data.method,
        protocol=data.protocol,
        unit=data.unit,
        others=_other_protocols(data),
        described=gather_facts(data).methods,
    )
    return Section("comparison", "Comparison of methods", html, (drawing,))


def summary_table(comparison: Comparison, name: str, caption: str):
    """The table of a comparison."""
    frame = comparison.table
    folds = set(frame["protocol"]) == {"cv"}
    following = [Column("next_low", "Next site", interval("next_low", "next_high"), of_row=True)]
    columns = [
        Column("method", "Method"),
        replace(OVER, heading="Folds") if folds else OVER,
        Column("auc", "AUC", fixed(3)),
        Column("auc_low", "95 % interval", interval("auc_low", "auc_high"), of_row=True),
        *(following if frame["next_low"].notna().any() else []),
        Column("concordance", "Within-site pairs", fixed(3)),
        Column("worst_auc", "Worst", lambda row: f"{row['worst_auc']:.2f} {row['worst_site']}", of_row=True),
        Column("acc", "Accuracy", fixed(3)),
        Column("balanced_acc", "Balanced acc.", fixed(3)),
        Column("brier", "Brier", fixed(3)),
    ]
    return table(frame, columns, name, caption)


def paired_table(comparison: Comparison, reference: str, name: str):
    """Per-site differences to the reference, in AUC points."""
    columns = [
        Column("method", "Method"),
        Column("difference", "Difference", fixed(1, 100)),
        Column("low", "95 % interval", interval("low_points", "high_points", 1), of_row=True),
        Column("won", "Won", lambda row: f"{row['won']} of {row['n_sites']}", of_row=True),
        Column("p", "p", p_value),
        Column("p_holm", "p, Holm", p_value),
    ]
    frame = comparison.paired
    frame = frame.assign(low_points=100 * frame["low"], high_points=100 * frame["high"])
    return table(frame, columns, name, f"Difference to {reference} in AUC points, paired by site; positive: better")


def _other_protocols(data: ReportData) -> list:
    """The same methods judged otherwise: a table each."""
    titles = {
        "loio": "Leave one institution out",
        "halves": "Halves of the sites: models of half as many sites",
        "cv": "In-distribution folds: new people at known sites",
    }
    tables = []
    for protocol, title in titles.items():
        names = data.names_under(protocol)
        if protocol != data.protocol and names:
            reference = data.method if data.method in names else names[0]
            comparison = data.compare(names, reference, protocol)
            tables.append(summary_table(comparison, f"methods-{protocol}", title))
    return tables


def _tip(row: dict[str, Any], unit: str) -> str:
    """The tooltip of a method."""
    text = f"{row['method']}: mean AUC {number(row['auc'])} ({span(row['auc_low'], row['auc_high'])})"
    return text if np.isnan(row["next_low"]) else f"{text}; next {unit} {span(row['next_low'], row['next_high'])}"


def at_fewer_sites(row: Any) -> str:
    """What stands behind the name of a method in a figure where it lacks sites that others have."""
    return f" ({count_of_sites(row.n_sites, row.of_sites)})" if row.n_sites < row.of_sites else ""


def _methods_figure(data: ReportData) -> Figure:
    rows = data.comparison.table.iloc[::-1].reset_index(drop=True)
    figure, axes = canvas(5.6, 0.31 * len(rows) + 0.8)
    at = np.arange(len(rows))
    colour = [VERMILION if n == data.method else GREY if n in CONTROLS else BLUE for n in rows["method"]]
    axes.axvline(0.5, color=GREY, linewidth=1, linestyle=(0, (4, 3)))
    axes.hlines(at, rows["next_low"], rows["next_high"], color=colour, linewidth=1)
    axes.hlines(at, rows["auc_low"], rows["auc_high"], color=colour, linewidth=4)
    axes.scatter(rows["auc"], at, s=42, color=colour, edgecolor=INK, linewidth=0.8, zorder=3)
    for y, value in enumerate(rows["auc"]):
        axes.text(1.02, y, number(value, 3), transform=axes.get_yaxis_transform(), va="center")
    axes.set_yticks(at, [f"{shorten(row.method, 40)}{at_fewer_sites(row)}" for row in rows.itertuples()])
    for label, name in zip(axes.get_yticklabels(), rows["method"], strict=True):
        label.set_fontweight("bold" if name == data.method else "normal")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set_xlabel("AUC; dashed: guessing")
    add_row_tips(axes, {y: _tip(row, data.unit) for y, row in enumerate(rows.to_dict("records"))})
    return figure
