"""When should it keep quiet: do prediction sets hold what they promise at held-out sites, and when do they decide?"""

from brainroam.evaluation.adaptation import kept_next_site
from brainroam.evaluation.coverage import coverage, over_sites
from brainroam.report.data import ReportData
from brainroam.report.page import render
from brainroam.report.section import Section
from brainroam.report.tables import Column, fixed, table

TITLE = "Keeping quiet"


def abstaining_section(data: ReportData) -> Section:
    """Coverage and set sizes at every held-out site; nothing where too few sites promise anything."""
    found = coverage(kept_next_site(data.finished, data.method))
    if found.empty:
        return Section("abstaining", TITLE, "")
    levels = over_sites(found)
    texts = [
        f"{row.level:.0%} promised, {row.covered:.1%} held on average over {data.unit}s, {row.worst:.0%} at the worst "
        f"({row.worst_site}); one class is named for {row.decided:.0%} of people, the right one for {row.right:.0%} of "
        "these"
        for row in levels.itertuples()
    ]
    shares = [
        Column("covered", "Held", fixed(2)),
        Column("covered_cases", "of cases", fixed(2)),
        Column("covered_controls", "of controls", fixed(2)),
        Column("decided", "Decided", fixed(2)),
        Column("right", "Right of these", fixed(2)),
    ]
    level = Column("level", "Promised", "{:.0%}".format)
    worst = [Column("worst", "Worst", fixed(2)), Column("worst_site", data.unit.capitalize())]
    site = Column("site", data.unit.capitalize())
    html = render(
        "abstaining.html",
        sentence="For each person there is a set of classes: case, control, or either, and then the model keeps quiet. "
        + ". ".join(texts)
        + ".",
        levels=table(levels, [level, *shares, *worst], "prediction-sets", f"Prediction sets of {data.method}"),
        sites=table(
            found, [site, level, Column("n", "People"), *shares], "prediction-sets-by-site",
            f"Prediction sets of {data.method} at every held-out {data.unit}",
        ),
        unit=data.unit,
    )  # fmt: skip
    return Section("abstaining", TITLE, html)
