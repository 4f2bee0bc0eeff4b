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
    mine = data.confounding[data.confounding["method"] == data.method]
    html = render(
        "confounding.html",
        sentence=_sentence(data, methods),
        figures=[inline(made) for made in drawings],
        methods=table(
            methods,
            _columns("method", "Method")[:-2],  # what motion, age and sex reach alone is the same for all methods
            "confounding",
            f"Means over held-out {data.unit}s, best AUC first",
        ),
        sites=table(
            mine,
            _columns("site", data.unit.capitalize()),
            "confounding-by-site",
            f"{data.method} at every held-out {data.unit}",
        ),
        unit=data.unit,
    )
    return Section("confounding", title, html, tuple(drawings))


def _again(data: ReportData) -> str:
    return data.command("loso", f"--methods {data.method}")


def _columns(key: str, heading: str) -> list[Column]:
    return [
        Column(key, heading),
        Column("auc", "AUC", fixed(3)),
        Column("auc_without_motion", "Without motion", fixed(3)),
        Column("auc_without_all", "Without motion, age, sex", fixed(3)),
        Column("r_motion", "r(score, motion)", SIGNED),
        Column("motion_alone", "Motion alone", fixed(3)),
        Column("age_sex_alone", "Age and sex alone", fixed(3)),
    ]


def _sentence(data: ReportData, methods: pd.DataFrame) -> str:
    row = methods.set_index("method").loc[data.method]
    parts = []
    if np.isfinite(row["motion_alone"]):
        parts.append(f"Head motion alone reaches an AUC of {row['motion_alone']:.2f} at held-out {data.unit}s")
    if np.isfinite(row["age_sex_alone"]):
        parts.append(f"age and sex alone {row['age_sex_alone']:.2f}")
    text = ", ".join(parts) + ". " if parts else ""
    if np.isfinite(row["r_motion"]):
        text += (
            f"Within {data.unit} and class the scores of {data.method} correlate with log motion by "
            f"{row['r_motion']:+.2f}; without motion its AUC is {row['auc_without_motion']:.2f} instead of "
            f"{row['auc']:.2f}"
        )
        known = np.isfinite(row["auc_without_all"])
        text += f", and {row['auc_without_all']:.2f} without motion, age and sex." if known else "."
    return text


def _drawings(data: ReportData):
    if (data.participants["mean_fd"] > 0).any():
        yield drawing(
            "motion",
            f"Score of {data.method} against head motion (log mean framewise displacement), both centred within "
            f"{data.unit} and class: a slope is a part of the score that motion explains and the diagnosis does not.",
            MotionDisplay.from_results(data),
        )
