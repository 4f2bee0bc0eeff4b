"""The section on people: how open the pathways are, and which contributed most to each person's score."""

from typing import Any

import numpy as np

from brainroam.core.choice import decision_told
from brainroam.report.brain.figures import gates_drawing
from brainroam.report.brain.study_explanations import Explained, explained, people_explained
from brainroam.report.data import ReportData
from brainroam.report.figures import inline
from brainroam.report.page import Section, missing, render

MOST_PEOPLE = 2000  # the page stays below eight megabytes


def gates_section(data: ReportData) -> Section:
    """How much of each pathway each person uses, and what moved the score of the report's method.

    Gates are CORE's. People are explained by the method of the report; by CORE only where that method keeps nothing.
    """
    core = explained(data)
    found = people_explained(data) or core
    if not found:
        what = "How open the gates are, and which pathways contributed most for each person"
        return missing("gates", "Gates", what, data.command("loso", "--methods core"))
    drawing = core and gates_drawing(core.explanation)
    html = render(
        "gates.html",
        scaffold=core is not None,  # its section brings the style
        sentence=_gates_sentence(core) if core else "",
        figure=inline(drawing) if drawing else "",
        method=found.method,
        seed=found.seed,
        other=data.method if found.method != data.method else "",
        gated="gate" in found.explanation.people,
        people=_people(found),
        left_out=max(len(found.people) - MOST_PEOPLE, 0),
    )
    return Section("gates", "Gates and people" if drawing else "People", html, (drawing,) if drawing else ())


def _gates_sentence(core: Explained) -> str:
    sentence = f"How {core.method} (seed {core.seed}) reads the people it was not trained on."
    choices = [fold["choice"] for fold in core.explanation.folds if "choice" in fold]
    if told := decision_told(choices):
        sentence += f" {told[0].upper()}{told[1:]}."
    if any(choice["network"] == 0 for choice in choices):
        sentence += " Where it is not believed, a linear reading takes every pathway in full: all gates are 1."
    return sentence


def _people(found: Explained) -> dict[str, Any]:
    """Everybody's pathways by site, with the names of pathways once."""
    rows = found.explanation.people
    names = rows["region_1"].astype(str) + " - " + rows["region_2"].astype(str)
    pathways = dict.fromkeys(names)
    place = {name: k for k, name in enumerate(pathways)}
    ends = [*np.flatnonzero(rows["rank"] == 1).tolist(), len(rows)]  # a small scaffold gives fewer rows
    gate = rows["gate"].round(3) if "gate" in rows else [None] * len(rows)
    cells = list(zip(names.map(place), gate, rows["contribution"].round(4), strict=True))
    sites: dict[str, list[dict[str, Any]]] = {}
    for i, person in enumerate(found.people.head(MOST_PEOPLE).itertuples()):
        about = {"subject": person.subject, "label": person.label, "probability": round(person.probability, 3)}
        sites.setdefault(str(person.site), []).append(about | {"rows": cells[ends[i] : ends[i + 1]]})
    return {"pathways": list(pathways), "sites": list(sites.items())}
