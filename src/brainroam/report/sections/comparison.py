"""Which method is better, how sure is that, and what can the data not decide?"""

from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from brainroam.evaluation.stats.compare import WITHOUT_NEXT, Comparison, count_of_sites
from brainroam.evaluation.stats.families import CONTROLS
from brainroam.report.data import ReportData, Summary
from brainroam.report.facts import gather_facts
from brainroam.report.figures import BLUE, GREY, INK, VERMILION, add_row_tips, canvas, inline, shorten
from brainroam.report.page import Drawing, Section, missing, render
from brainroam.report.tables import OVER, Column, column_of, number, p_value, span, table


def comparison_section(data: ReportData) -> Section:
    """Every method against the method of the report."""
    others = _other_protocols(data)
    if len(data.compared) == 1 and not others:
        command = data.command("loso", "--methods fc-ridge,confounds,majority")
        return missing("comparison", "Comparison of methods", "Other methods to compare with", command)
    drawing = Drawing(
        "methods",
        f"Mean {data.figure.head} over held-out {data.unit}s: dot and thick line with its 95 % interval"
        + ("" if data.protocol in WITHOUT_NEXT else f"; thin line: where the next {data.unit} is expected")
        + ". Controls, which see no brain, are grey.",
        lambda: _methods_figure(data),
    )
    html = render(
        "comparison.html",
        figure=inline(drawing),
        summary=summary_table(
            data.comparison,
            "methods",
            f"Methods, best first; every figure a {data.target.order.rule.replace('site', data.unit)}",
        ),
        paired=paired_table(data.comparison, data.method, "paired"),
        sentences=data.comparison.sentences,
        notes=data.comparison.notes,
        families=data.comparison.families,
        method=data.method,
        protocol=data.protocol,
        unit=data.unit,
        others=others,
        described=gather_facts(data).methods,
    )
    return Section("comparison", "Comparison of methods", html, (drawing,))


def summary_table(comparison: Comparison, name: str, caption: str):
    """The table of a comparison."""
    frame = comparison.table
    folds = set(frame["protocol"]) == {"cv"}
    columns = [
        Column("method", "Method"),
        replace(OVER, heading="Folds") if folds else OVER,
        *(
            column_of(shown)
            for shown in comparison.target.shown
            if shown.names[0] != "next_low" or frame["next_low"].notna().any()
        ),
    ]
    return table(frame, columns, name, caption)


def paired_table(comparison: Comparison, reference: str, name: str):
    """Per-site differences to the reference."""
    order = comparison.target.order
    columns = [
        Column("method", "Method"),
        Column("difference", "Difference", order.form_difference),
        Column("low", "95 % interval", lambda row: order.describe_interval(row["low"], row["high"]), of_row=True),
        Column("won", "Won", lambda row: f"{row['won']} of {row['n_sites']}", of_row=True),
        Column("p", "p", p_value),
        Column("p_holm", "p, Holm", p_value),
    ]
    caption = f"Difference to {reference} {order.difference_in}, paired by site; positive: better"
    return table(comparison.paired, columns, name, caption)


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


def _tip(row: dict[str, Any], data: ReportData) -> str:
    """The tooltip of a method."""
    summary = Summary.of_row(row, data.target.order)
    text = f"{row['method']}: mean {data.figure.head} {number(summary.mean)} ({span(summary.low, summary.high)})"
    following = f"next {data.unit} {span(summary.next_low, summary.next_high)}"
    return text if np.isnan(summary.next_low) else f"{text}; {following}"


def at_fewer_sites(row: Any) -> str:
    """What stands behind the name of a method in a figure where it lacks sites that others have."""
    return f" ({count_of_sites(row.n_sites, row.of_sites)})" if row.n_sites < row.of_sites else ""


def _methods_figure(data: ReportData) -> Figure:
    rows = data.comparison.table.iloc[::-1].reset_index(drop=True)
    figure, axes = canvas(5.6, 0.31 * len(rows) + 0.8)
    at = np.arange(len(rows))
    colour = [VERMILION if n == data.method else GREY if n in CONTROLS else BLUE for n in rows["method"]]
    figure_of, (low, high) = data.figure.name, data.target.order.ends
    axes.axvline(data.figure.chance, color=GREY, linewidth=1, linestyle=(0, (4, 3)))
    axes.hlines(at, rows["next_low"], rows["next_high"], color=colour, linewidth=1)
    axes.hlines(at, rows[low], rows[high], color=colour, linewidth=4)
    axes.scatter(rows[figure_of], at, s=42, color=colour, edgecolor=INK, linewidth=0.8, zorder=3)
    for y, value in enumerate(rows[figure_of]):
        axes.text(1.02, y, number(value, 3), transform=axes.get_yaxis_transform(), va="center")
    axes.set_yticks(at, [f"{shorten(row.method, 40)}{at_fewer_sites(row)}" for row in rows.itertuples()])
    for label, name in zip(axes.get_yticklabels(), rows["method"], strict=True):
        label.set_fontweight("bold" if name == data.method else "normal")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set_xlabel(f"{data.figure.head}; dashed: guessing")
    add_row_tips(axes, {y: _tip(row, data) for y, row in enumerate(rows.to_dict("records"))})
    return figure
