"""May I use a few people of my own: what they bring to the decisions at held-out sites."""

import pandas as pd

from brainroam.evaluation.adaptation import kept_next_site
from brainroam.methods.site_shift import STRICT
from brainroam.report.data import ReportData
from brainroam.report.displays.adaptation import AdaptationDisplay
from brainroam.report.displays.axes import drawing
from brainroam.report.figures import inline
from brainroam.report.page import render
from brainroam.report.section import Section
from brainroam.report.tables import Column, fixed, interval, table

TITLE = "A few people of the new site"


def adaptation_section(data: ReportData) -> Section:
    """Balanced accuracy and calibration by protocol; nothing for runs that do not keep the level of sites."""
    if not kept_next_site(data.finished, data.method):
        return Section("adaptation", TITLE, "")
    display = AdaptationDisplay.from_results(data)
    rows = display.protocols
    if len(rows) < 2:
        return Section("adaptation", TITLE, "")
    drawn = drawing(
        "adaptation",
        f"Balanced accuracy of {data.method} at held-out {data.unit}s by protocol: circles strict, dots with people of "
        f"the new {data.unit}, always of the same people; right: the difference with its 95 % interval.",
        display,
    )
    columns = [
        Column("adaptation", "Protocol"),
        Column("n_sites", "Sites"),
        Column("auc", "AUC", fixed(3)),
        Column("strict_balanced_acc", "Balanced accuracy, strict", fixed(3)),
        Column("balanced_acc", "with them", fixed(3)),
        Column("gain_low", "95 % interval of the difference", interval("gain_low", "gain_high", 3), of_row=True),
        Column("strict_level_off", "Level off, strict", fixed(3)),
        Column("level_off", "with them", fixed(3)),
    ]
    html = render(
        "adaptation.html",
        sentence=_sentence(rows),
        figure=inline(drawn),
        table=table(rows, columns, "adaptation", f"{data.method} by protocol"),
        unit=data.unit,
    )
    return Section("adaptation", TITLE, html, (drawn,))


def _sentence(rows: pd.DataFrame) -> str:
    parts = [
        f"{row.adaptation} {100 * row.gain:+.1f} points at {row.n_sites} sites"
        for row in rows.itertuples()
        if row.adaptation != STRICT
    ]
    sure = rows[rows["gain_low"] > 0]["adaptation"].tolist()
    beyond = f"beyond chance for {', '.join(sure)}" if sure else "none of them beyond chance"
    return f"Balanced accuracy changes, at the same people, by: {'; '.join(parts)} ({beyond})."
