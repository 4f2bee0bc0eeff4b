"""One page about one person: what a model says of them, and which pathways it says it from."""

import hashlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from brainroam.data.cohort import Cohort
from brainroam.errors import unknown
from brainroam.methods.explanation_tables import Explanation
from brainroam.methods.tuning import TunedMethod
from brainroam.report.brain.glass import glass_brain
from brainroam.report.figures import inline
from brainroam.report.page import render
from brainroam.report.section import Drawing
from brainroam.report.tables import Column, fixed, table
from brainroam.utils.files import write_text

MEANINGS = {
    "contribution": "Contributions are in units of the score before calibration.",
    "mask": "Weights are those of the method's own attention or mask; they have no direction.",
}
READ, SHOWN = 200, 10  # pathways looked at, and shown in each direction


def write_person(method: TunedMethod, header: dict[str, Any], cohort: Cohort, subject: str, folder: Path) -> Path:
    """Write the page of one person of a cohort, as a fitted method (and what its folder says of it) reads them."""
    subjects = cohort.table["subject"].tolist()
    if subject not in subjects:
        raise unknown("subject", subject, subjects)
    alone = cohort.subset([subjects.index(subject)])
    explanation = Explanation.of_model(method.model_, alone, READ)
    rows = explanation.people
    lists = _lists(rows)
    drawing = _drawing(lists)
    missing = method.missing_covariates(alone)
    site = str(alone.table["site"].iloc[0])
    page = render(
        "person.html",
        subject=subject,
        site=site,
        method=header["method"],
        training=header["training"],
        site_known=site in header["training"]["sites"],
        probability=float(method.probability(alone)[0]),
        prevalence=method.calibration_.prevalence,
        figure=inline(drawing) if drawing else None,
        tables=[_table(name, title, part) for name, title, part in lists if len(part)],
        meaning=MEANINGS["contribution" if "contribution" in rows else "mask"],
        imputed=missing.columns[missing.to_numpy(dtype=bool)[0]].tolist() if len(missing.columns) else [],
    )
    return write_text(folder / f"person-{safe_name(subject)}.html", page + "\n")


def safe_name(subject: str) -> str:
    """A subject's id as part of a file name on any system; ids that had to change get a mark that keeps them apart.

    >>> safe_name("sub-01"), safe_name("../evil")
    ('sub-01', '_evil-2d6afc71')
    """
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", subject).strip(".")[:60]
    return plain if plain == subject else f"{plain}-{hashlib.sha256(subject.encode()).hexdigest()[:8]}"


def _lists(rows: pd.DataFrame) -> list[tuple[str, str, pd.DataFrame]]:
    if "contribution" not in rows:
        return [("attended", "What the method attends to most", rows.head(2 * SHOWN))]
    moved = rows["contribution"]
    return [
        ("for", "Speaking for the condition", rows[moved > 0].head(SHOWN)),
        ("against", "Speaking against it", rows[moved < 0].head(SHOWN)),
    ]


def _table(name: str, title: str, rows: pd.DataFrame) -> Markup:
    columns = [Column("region_1", "Region"), Column("region_2", "Region")]
    for key, heading in (("gate", "Gate"), ("contribution", "Contribution"), ("mask", "Weight")):
        columns += [Column(key, heading, fixed(4 if key == "contribution" else 3))] if key in rows else []
    return table(rows, columns, name, title)


def _drawing(lists: list[tuple[str, str, pd.DataFrame]]) -> Drawing | None:
    rows = pd.concat([part for _, _, part in lists])
    if "x_1" not in rows or not len(rows):
        return None
    values = rows["contribution"] if "contribution" in rows else rows["mask"]
    caption = (
        "This person's pathways; vermilion: for the condition, blue: against it. From the left and the right only "
        "pathways within that hemisphere are drawn."
        if "contribution" in rows
        else "What the method attends to most in this person."
    )
    return Drawing("person", caption, lambda: _glass(rows, values.to_numpy(dtype=float)))


def _glass(rows: pd.DataFrame, values: np.ndarray) -> Figure:
    figure = Figure((9.4, 2.9))
    first, second = (rows[[f"{axis}_{k}" for axis in "xyz"]].to_numpy(dtype=float) for k in (1, 2))
    glass_brain(first, second, values, figure.add_axes((0, 0, 1, 0.93)))
    return figure
