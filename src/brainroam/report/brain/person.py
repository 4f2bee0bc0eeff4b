"""The page of one person: the prediction of a model, and the pathways that contributed most."""

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
from brainroam.methods.explanation import Explanation
from brainroam.methods.predictions import predictions
from brainroam.methods.tuning import TunedMethod
from brainroam.report.brain.glass import glass_brain
from brainroam.report.brain.scaffold import region_columns
from brainroam.report.figures import BLUE, GREY, INK, VERMILION, canvas, inline
from brainroam.report.page import Drawing, render
from brainroam.report.tables import Column, fixed, table
from brainroam.utils.files import write_text

MEANINGS = {
    "contribution": "Contributions are in units of the score before calibration.",
    "mask": "Weights are those of the method's own attention or mask; they have no direction.",
}
#: What a prediction set says, in words.
SETS = {
    "case": "the condition",
    "control": "no condition",
    "either": "it does not decide",
    "neither": "unlike both the people with the condition and the controls of training",
}
FEWEST = 5  # people to have a place among
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
    prediction = predictions(method, alone).iloc[0]
    everybody = np.asarray(method.probability(cohort), dtype=float)
    place = _place(everybody, subjects.index(subject), cohort) if len(cohort) >= FEWEST else None
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
        place=inline(place) if place else None,
        sets=[
            (name.removeprefix("set_"), SETS[prediction[name]]) for name in prediction.index if name.startswith("set_")
        ],
        flags=[flag for flag in str(prediction["flags"]).split("; ") if flag],
        imputed=missing.columns[missing.to_numpy(dtype=bool)[0]].tolist() if len(missing.columns) else [],
    )
    return write_text(folder / f"person-{safe_name(subject)}.html", page + "\n")


def _place(probability: np.ndarray, person: int, cohort: Cohort) -> Drawing:
    """Where this person stands among everybody in the data."""
    below = int((np.delete(probability, person) < probability[person]).sum())
    label = cohort.table["label"].to_numpy(dtype=float)
    caption = (
        f"The probability of this person (line) among the {len(probability)} people in these data: higher than that of "
        f"{below} of the {len(probability) - 1} others. Vermilion: known to have the condition, blue: controls, grey: "
        "not known."
    )
    return Drawing("place", caption, lambda: _strip(probability, person, label))


def _strip(probability: np.ndarray, person: int, label: np.ndarray) -> Figure:
    figure, axes = canvas(6.4, 1.7)
    groups = [(label == 1, VERMILION, 2), (label == 0, BLUE, 1), (~np.isfinite(label), GREY, 0)]
    shown = [(chosen, colour, y) for chosen, colour, y in groups if chosen.any()]
    for chosen, colour, y in shown:
        axes.scatter(probability[chosen], np.full(int(chosen.sum()), y), s=16, color=colour, alpha=0.5, linewidth=0)
    axes.axvline(probability[person], color=INK, linewidth=2)
    names = {2: "with the condition", 1: "controls", 0: "not known"}
    axes.set_yticks([y for *_, y in shown], [names[y] for *_, y in shown])
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.6, 2.6), xlabel="Probability of the condition")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    return figure


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
    columns = region_columns(rows)
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
