"""Is it motion, age, sex or site: what those reach alone, and what is left of the score without them.

Controls among the runs show what can be had without looking at the brain.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from brainroam.errors import DataError, listed
from brainroam.evaluation.stats.confounding import confounding_means, within_class_correlation
from brainroam.evaluation.stats.families import CONTROLS
from brainroam.report.data import ReportData, Source, read_data
from brainroam.report.figures import BLUE, INK, VERMILION, NotebookDisplay, axes_for, drawing, inline, people_frame
from brainroam.report.page import Missing, Section, missing, render
from brainroam.report.sections.number_confounding import number_confounding_section
from brainroam.report.tables import OVER, Column, fixed, table

TAKEN_OUT = {
    "auc_without_motion": "log mean framewise displacement",
    "auc_without_age_sex": "age and sex",
    "auc_without_head_size": "the size of the head",
}
SIGNED = "{:+z.2f}".format  # z: no minus before a zero
CONTROL_MEANING = {
    "majority": "The same score for everybody: what an empty method gets",
    "confounds": "Age, sex and motion only: what can be had without looking at the brain",
    "site-only": "The share with the condition at each site: what knowing the site alone gives",
}


@dataclass
class MotionDisplay(NotebookDisplay):
    """Score against log mean framewise displacement, both centred within site and class.

    Scores are divided by their spread within site, as folds have scales of their own. A slope here is a part of the
    score that motion explains and the diagnosis does not.

    Parameters
    ----------
    people : DataFrame
        ``site``, ``label``, ``score`` and ``mean_fd`` (mm).

    Examples
    --------
    >>> from brainroam.report import MotionDisplay
    >>> fd = [0.1, 0.2, 0.4, 0.1, 0.2, 0.4]
    >>> display = MotionDisplay.from_predictions([0, 0, 0, 1, 1, 1], [1, 2, 3, 2, 3, 4], fd, ["A"] * 6)
    >>> round(display.correlation, 2)
    1.0
    """

    people: pd.DataFrame

    @classmethod
    def from_results(cls, results: Source, method: str | None = None) -> "MotionDisplay":
        """Of a folder of runs or of results that know the motion of their people."""
        data = read_data(results, method)
        people = data.people.merge(data.everybody[["subject", "label", "mean_fd"]])
        people = people[people["mean_fd"] > 0]
        if people.empty:
            raise DataError("these runs do not know the motion of their people; add a column mean_fd and run again")
        return cls(people)

    @classmethod
    def from_predictions(
        cls, y_true: Sequence[int], y_score: Sequence[float], mean_fd: Sequence[float], site: Sequence[Any]
    ) -> "MotionDisplay":
        """Of labels, scores, motion in mm, and sites."""
        return cls(people_frame(site, y_true, score=y_score, mean_fd=mean_fd))

    @property
    def centred(self) -> pd.DataFrame:
        """``motion`` (log) and ``score``, centred within site and class, and the ``label``."""
        people = self._with_log()
        for name in ("motion", "score"):
            people[name] -= people.groupby(["site", "label"])[name].transform("mean")
        spread = people.groupby("site")["score"].transform(lambda s: np.sqrt((s**2).mean()))
        people["score"] /= spread.where(spread > 0, 1)
        return people[["motion", "score", "label"]]

    def _with_log(self) -> pd.DataFrame:
        return self.people.assign(motion=np.log(self.people["mean_fd"].astype(float)))

    @property
    def correlation(self) -> float:
        """Of score and log motion within class, averaged over sites."""
        per_site = [
            within_class_correlation(*(here[name].to_numpy(dtype=float) for name in ("score", "motion", "label")))
            for _, here in self._with_log().groupby("site")
        ]
        return float(np.nanmean(per_site)) if np.isfinite(per_site).any() else float("nan")

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches that suit it."""
        return 4.5, 3.4

    def plot(self, ax: Axes | None = None) -> "MotionDisplay":
        """Draw it, on these axes or on new ones."""
        self.ax_ = ax = axes_for(ax, self.size)
        centred = self.centred
        for label, colour, name in ((0, BLUE, "controls"), (1, VERMILION, "with the condition")):
            here = centred[centred["label"] == label]
            ax.scatter(here["motion"], here["score"], s=9, color=colour, alpha=0.45, linewidth=0, label=name)
        x = np.linspace(centred["motion"].min(), centred["motion"].max(), 2)
        variance = float((centred["motion"] ** 2).sum())
        if variance > 0:
            slope = float((centred["motion"] * centred["score"]).sum()) / variance
            ax.plot(x, slope * x, color=INK, linewidth=1.8, label="least squares")
        ax.set(xlabel="log mean FD, within site and class", ylabel="Score, within site and class")
        spacing = {"columnspacing": 1, "handletextpad": 0.3, "markerscale": 1.8}
        ax.legend(loc="lower left", bbox_to_anchor=(-0.02, 1), ncols=3, frameon=False, **spacing)
        return self


def confounding_section(data: ReportData) -> Section:
    """Motion, age and sex, from the scores and the participants; of a number from its predictions."""
    if data.target.is_number:
        return number_confounding_section(data)
    title = "Motion, age and sex"
    if data.protocol == "cv":
        return Section("confounding", title, render("no_confounding.html"))
    if data.confounding.empty:
        ending = "and sex" if len(data.participants) else "and sex: begin again the commands under Provenance, as"
        return missing("confounding", title, f"What motion, age {ending} have to do with it", _again(data))
    drawings = list(_drawings(data)) if "score" in data.people else []
    methods = confounding_means(data.confounding)
    sentence = _sentence(data, methods)
    mine = data.confounding[data.confounding["method"] == data.method]
    first, *columns = _columns(data, "method", "Method")
    html = render(
        "confounding.html",
        sentence=sentence,
        figures=[inline(made) for made in drawings],
        methods=table(
            methods,
            [first, *([OVER] if methods["n_sites"].nunique() > 1 else []), *columns],
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
        classes="people with the condition and controls" if "score" in data.people else "all classes",
        taken=listed(TAKEN_OUT[name] for name in TAKEN_OUT if methods[name].notna().any()),
    )
    return Section("confounding", title, html, tuple(drawings), gist=sentence)


def _again(data: ReportData) -> str:
    return data.command("loso", f"--methods {data.method}")


def _columns(data: ReportData, key: str, heading: str, alone: bool = False) -> list[Column]:
    """What is known of these; ``alone`` adds what covariates reach by themselves, the same for all methods."""
    several = data.target.shown[0].meaning
    every = [
        Column("auc", "AUC", fixed(3), meaning=several),
        Column("auc_without_motion", "Without motion", fixed(3)),
        Column("auc_without_age_sex", "Without age, sex", fixed(3)),
        Column("auc_without_all", "Without motion, age, sex", fixed(3)),
        Column("r_motion", "r(score, motion)", SIGNED),
        Column("auc_without_head_size", "Without head size", fixed(3)),
        Column("r_head_size", "r(score, head size)", SIGNED),
    ]
    every += [Column("motion_alone", "Motion alone", fixed(3)), Column("age_sex_alone", "Age and sex alone", fixed(3))]
    columns = [column for column in every[: None if alone else -2] if data.confounding[column.key].notna().any()]
    return [Column(key, heading), *columns]


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
        parts.append(
            f"Within {data.unit} and class the scores of {data.method} correlate with the size of the head "
            f"(intracranial volume) by {row['r_head_size']:+.2f}."
        )
    left = {
        "motion": "auc_without_motion",
        "age and sex": "auc_without_age_sex",
        "all three": "auc_without_all",
        "the size of the head": "auc_without_head_size",
    }
    left_over = [f"{row[key]:.2f} without {name}" for name, key in left.items() if np.isfinite(row[key])]
    if left_over:
        few = f" at the {row['n_sites']:.0f} of {row['of_sites']:.0f} {data.unit}s where all can be taken out"
        where = few if row["n_sites"] < row["of_sites"] else ""
        parts.append(f"The AUC of {data.method} is {row['auc']:.2f}{where}, and {', '.join(left_over)}.")
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


def controls_section(data: ReportData) -> Section:
    """Each control that was run, against the method of the report."""
    sentences = data.comparison.against
    if "site-only" in data.names_under("cv"):
        scores = data.results.scores
        cv = scores[(scores["protocol"] == "cv") & (scores["method"] == "site-only")]
        sentences.setdefault("site-only", f"Mean AUC {cv['auc'].mean():.3f} in in-distribution folds")
    run = [name for name in CONTROLS if name in sentences]
    gaps = [
        Missing(meaning, data.command("cv" if name == "site-only" else "loso", f"--methods {name}"))
        for name, meaning in CONTROL_MEANING.items()
        if name not in sentences and name != data.method
    ]
    rows = [{"name": name, "meaning": CONTROL_MEANING[name], "sentence": sentences[name]} for name in run]
    return Section("controls", "Controls that see no brain", render("controls.html", controls=rows), (), tuple(gaps))
