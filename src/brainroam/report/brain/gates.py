"""The section on gates: how open the pathways are, and which contributed most for each person."""

from typing import Any

import numpy as np

from brainroam.report.brain.figures import alike, gates_drawing
from brainroam.report.brain.study_explanations import Explained, explained
from brainroam.report.data import ReportData
from brainroam.report.figures import inline
from brainroam.report.page import missing, render
from brainroam.report.section import Section

MOST_PEOPLE = 2000  # the page stays below eight megabytes


def gates_section(data: ReportData) -> Section:
    """How much of each pathway each person uses."""
    found = explained(data)
    drawing = found and gates_drawing(found.explanation)
    if not found or not drawing:
        what = "How open the gates are, and which pathways contributed most for each person"
        return missing("gates", "Gates", what, data.command("loso", "--methods core"))
    sentence = f"How {found.method} (seed {found.seed}) reads the people it was not trained on."
    if alike(found.explanation):
        sentence += (
            " In these runs no training of the network improved on its start at inner held-out sites, so the gates are "
            "those of the population prior: the same for everybody of a fold. People differ in what their pathways "
            "say, not in which are open."
        )
    html = render(
        "gates.html",
        sentence=sentence,
        figure=inline(drawing),
        people=_people(found),
        left_out=max(len(found.people) - MOST_PEOPLE, 0),
    )
    return Section("gates", "Gates and people", html, (drawing,))


def _people(found: Explained) -> dict[str, Any]:
    """Everybody's pathways by site, with the names of pathways once."""
    rows = found.explanation.people
    names = rows["region_1"].astype(str) + " - " + rows["region_2"].astype(str)
    pathways = dict.fromkeys(names)
    place = {name: k for k, name in enumerate(pathways)}
    ends = [*np.flatnonzero(rows["rank"] == 1).tolist(), len(rows)]  # a small scaffold gives fewer rows
    cells = list(zip(names.map(place), rows["gate"].round(3), rows["contribution"].round(4), strict=True))
    sites: dict[str, list[dict[str, Any]]] = {}
    for i, person in enumerate(found.people.head(MOST_PEOPLE).itertuples()):
        about = {"subject": person.subject, "label": person.label, "probability": round(person.probability, 3)}
        sites.setdefault(str(person.site), []).append(about | {"rows": cells[ends[i] : ends[i + 1]]})
    return {"pathways": list(pathways), "sites": list(sites.items())}
