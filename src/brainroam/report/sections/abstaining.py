"""When should it keep quiet: do prediction sets hold what they promise at held-out sites, and when do they decide?"""

import pandas as pd
from markupsafe import Markup

from brainroam.evaluation.adaptation import kept_next_site
from brainroam.evaluation.coverage import coverage, over_sites
from brainroam.report.data import ReportData
from brainroam.report.page import render
from brainroam.report.section import Section
from brainroam.report.tables import Column, fixed, number, table

TITLE = "When it does not decide"


def abstaining_section(data: ReportData) -> Section:
    """Coverage and set sizes at every held-out site; nothing where too few sites promise anything."""
    found = coverage(kept_next_site(data.finished, data.method))
    if found.empty:
        return Section("abstaining", TITLE, Markup(""))
    levels = over_sites(found)
    shares = [
        Column("covered", "Held", fixed(2)),
        Column("covered_cases", "Held, with the condition", fixed(2)),
        Column("covered_controls", "Held, controls", fixed(2)),
        Column("decided", "One class named", fixed(2)),
        Column("right", "Right of these", fixed(2)),
    ]
    level = Column("level", "Promised", "{:.0%}".format)
    worst = [Column("worst", "Worst", fixed(2)), Column("worst_site", data.unit.capitalize())]
    site = Column("site", data.unit.capitalize())
    html = render(
        "abstaining.html",
        sentence=_sentence(levels.iloc[0], data.unit),
        levels=table(levels, [level, *shares, *worst], "prediction-sets", f"Prediction sets of {data.method}"),
        sites=table(
            found, [site, level, Column("n", "People"), *shares], "prediction-sets-by-site",
            f"Prediction sets of {data.method} at every held-out {data.unit}",
        ),
        unit=data.unit,
    )  # fmt: skip
    return Section("abstaining", TITLE, html, gist=_sentence(levels.iloc[0], data.unit))


def _sentence(row: pd.Series, unit: str) -> str:
    """One level read aloud, in the digits of the table: another rounding of 0.925 would contradict it."""
    covered, worst, decided, right = (number(row[key]) for key in ("covered", "worst", "decided", "right"))
    return (
        f"As an example, the level of {row['level']:.0%}: the answer holds the true class for {covered} of "
        f"people, and at the worst {unit} ({row['worst_site']}) for {worst}. One class is named for "
        f"{decided} of people, and it is the right one for {right} of these."
    )
