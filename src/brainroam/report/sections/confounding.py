"""Is it motion, age, sex or site: what those reach alone, and what is left of the score without them."""

import numpy as np
import pandas as pd

from brainroam.evaluation.stats.confounding import confounding_means
from brainroam.report.data import ReportData
from brainroam.report.displays.axes import drawing
from brainroam.report.displays.motion import MotionDisplay
from brainroam.report.figures import inline
from brainroam.report.page import missing, render
from brainroam.report.section import Section
from brainroam.report.tables import Column, fixed, table

SIGNED = "{:+z.2f}".format  # z: no minus before a zero


def confounding_section(data: ReportData) -> Section:
    """Motion, age and sex, from the scores and the participants."""
    title = "Motion, age and sex"
    if data.protocol == "cv":
        return Section("confounding", title, render("no_confounding.html"))
    if data.confounding.empty:
        known = "and sex" if len(data.participants) else "and sex: begin again the commands under Provenance, as"
        return missing("confounding", title, f"What motion, age {known} have to do with it", _again(data))
    drawings = list(_drawings(data))
    methods = confounding_means(data.confounding)
    sentence = _sentence(data, methods)
    mine = data.confounding[data.confounding["method"] == data.method]
    html = render(
        "confounding.html",
        sentence=sentence,
        figures=[inline(made) for made in drawings],
        methods=table(
            methods,
            _columns(data, "method", "Method"),
            "confounding",
            f"Means over held-out {data.unit}s, best AUC first",
        ),
        sites=table(
            mine,
            _columns(data, "site", data.unit.capitalize(), alone=True),
            "confounding-by-site",
            f"{data.method} at every held-out {data.unit}",
        ),
        unit=data.unit,
    )
    return Section("confounding", title, html, tuple(drawings), gist=sentence)


def _again(data: ReportData) -> str:
    return data.command("loso", f"--methods {data.method}")


def _columns(data: ReportData, key: str, heading: str, alone: bool = False) -> list[Column]:
    """What is known of these; ``alone`` adds what covariates reach by themselves, the same for all methods."""
    every = [
        Column("auc", "AUC", fixed(3)),
        Column("auc_without_motion", "Without motion", fixed(3)),
        Column("auc_without_age_sex", "Without age, sex", fixed(3)),
        Column("auc_without_all", "Without motion, age, sex", fixed(3)),
        Column("r_motion", "r(score, motion)", SIGNED),
        Column("auc_without_head_size", "Without head size", fixed(3)),
        Column("r_head_size", "r(score, head size)", SIGNED),
    ]
    every += [Column("motion_alone", "Motion alone", fixed(3)), Column("age_sex_alone", "Age and sex alone", fixed(3))]
    known = [column for column in every[: None if alone else -2] if data.confounding[column.key].notna().any()]
    return [Column(key, heading), *known]


def _sentence(data: ReportData, methods: pd.DataFrame) -> str:
    row = methods.set_index("method").loc[data.method]
    names = {"Head motion": row["motion_alone"], "age and sex": row["age_sex_alone"]}
    alone = [
        f"{name} alone {'reach' if name[0] == 'a' else 'reaches'} {names[name]:.2f}"
        for name in names
        if np.isfinite(names[name])
    ]
    parts = []
    if alone:
        text = " and ".join(alone)
        parts.append(f"{text[0].upper()}{text[1:]} (AUC at held-out {data.unit}s).")
    if np.isfinite(row["r_motion"]):
        parts.append(
            f"Within {data.unit} and class the scores of {data.method} correlate with log motion by "
            f"{row['r_motion']:+.2f}."
        )
    if np.isfinite(row["r_head_size"]):
        parts.append(f"With the size of the head (intracranial volume) they correlate by {row['r_head_size']:+.2f}.")
    left = {
        "motion": "auc_without_motion",
        "age and sex": "auc_without_age_sex",
        "all three": "auc_without_all",
        "the size of the head": "auc_without_head_size",
    }
    left_over = [f"{row[key]:.2f} without {name}" for name, key in left.items() if np.isfinite(row[key])]
    if left_over:
        parts.append(f"The AUC of {data.method} is {row['auc']:.2f}, and {', '.join(left_over)}.")
    if not (data.participants["mean_fd"] > 0).any():
        parts.append("Head motion is not known for anybody, so nothing can be said about it.")
    return " ".join(parts)


def _drawings(data: ReportData):
    if (data.participants["mean_fd"] > 0).any():
        yield drawing(
            "motion",
            f"Score of {data.method} against head motion (log mean framewise displacement), both centred within "
            f"{data.unit} and class: a slope is a part of the score that motion explains and the diagnosis does not.",
            MotionDisplay.from_results(data),
        )
