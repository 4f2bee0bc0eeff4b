"""May I use a few people of my own: what they bring to the decisions at held-out sites."""

import pandas as pd
from markupsafe import Markup

from brainroam.evaluation.adaptation import kept_next_site
from brainroam.methods.site_shift import STRICT
from brainroam.report.data import ReportData
from brainroam.report.displays.adaptation import AdaptationDisplay, taken
from brainroam.report.displays.axes import drawing
from brainroam.report.figures import inline
from brainroam.report.page import render
from brainroam.report.section import Section
from brainroam.report.tables import Column, fixed, interval, table

TITLE = "A few people of the new site"


def adaptation_section(data: ReportData) -> Section:
    """Balanced accuracy and calibration by protocol; nothing for runs that do not keep the level of sites."""
    if not kept_next_site(data.finished, data.method):
        return Section("adaptation", TITLE, Markup(""))
    display = AdaptationDisplay.from_results(data)
    rows = display.protocols
    if len(rows) < 2:
        return Section("adaptation", TITLE, Markup(""))
    drawn = drawing(
        "adaptation",
        f"How the balanced accuracy of {data.method} at held-out {data.unit}s changes by what is taken from the new "
        f"{data.unit}, with 95 % intervals; dashed: no change. Right: without and with it, %, for the same people.",
        display,
    )
    columns = [
        Column("adaptation", f"Taken from the {data.unit}", taken),
        Column("n_sites", "Sites"),
        Column("auc", "AUC", fixed(3)),
        Column("strict_balanced_acc", "Balanced accuracy without", fixed(3)),
        Column("balanced_acc", "Balanced accuracy with", fixed(3)),
        Column("gain_low", "95 % interval of the difference", interval("gain_low", "gain_high", 3), of_row=True),
        Column("strict_calibration_in_the_large", "Probabilities too high or low by, without", fixed(3)),
        Column("calibration_in_the_large", "Probabilities too high or low by, with", fixed(3)),
    ]
    html = render(
        "adaptation.html",
        sentence=_sentence(rows),
        figure=inline(drawn),
        table=table(rows, columns, "adaptation", f"{data.method} without and with people of the new {data.unit}"),
        unit=data.unit,
    )
    return Section("adaptation", TITLE, html, (drawn,), gist=_sentence(rows))


def _sentence(rows: pd.DataFrame) -> str:
    parts = [
        f"{100 * row.gain:+.1f} points with {taken(row.adaptation)} ({row.n_sites} sites)"
        for row in rows.itertuples()
        if row.adaptation != STRICT
    ]
    sure = [taken(name) for name in rows[rows["gain_low"] > 0]["adaptation"]]
    beyond = f"Beyond chance: {', '.join(sure)}." if sure else "None of these is beyond chance."
    return f"Balanced accuracy changes by {', '.join(parts)}. {beyond}"
