"""Calibration of probabilities, decision curves, and prediction sets."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.axes import Axes
from scipy.special import expit, logit
from scipy.stats import binomtest

from brainroam.data.target.calibration import to_prevalence
from brainroam.errors import DataError
from brainroam.evaluation.next_site import coverage, coverage_over_sites, kept_next_site
from brainroam.evaluation.stats.metrics import at_prevalence, calibration
from brainroam.report.data import ReportData, Source, read_data
from brainroam.report.figures import (
    BLUE,
    GREY,
    INK,
    SKY,
    VERMILION,
    NotebookDisplay,
    add_tip,
    axes_for,
    drawing,
    inline,
    people_frame,
    sites_with_both,
)
from brainroam.report.page import Section, render
from brainroam.report.tables import Column, fixed, number, table

THRESHOLDS = np.round(np.arange(0.02, 0.99, 0.01), 2)
N_GROUPS = 10
PREVALENCES = (0.01, 0.05, 0.1, 0.2, 0.3, 0.5)
TITLE = "When it does not decide"


@dataclass
class DecisionCurveDisplay(NotebookDisplay):
    """Net benefit over the probability at which one would act (Vickers and Elkin 2006).

    With pi the share of cases, and someone called a case when their probability reaches t,

        net benefit = sensitivity * pi - (1 - specificity) * (1 - pi) * t / (1 - t)

    Parameters
    ----------
    label, probability : ndarray of shape (n,)
    prevalence : float, optional
        The share of cases where the model would be used; by default that of these people, which in a case-control
        study is far too high for screening.

    Examples
    --------
    >>> from brainroam.report import DecisionCurveDisplay
    >>> display = DecisionCurveDisplay.from_predictions([0, 0, 1, 1], [0.1, 0.3, 0.7, 0.9])
    >>> round(float(display.net_benefit(0.5)), 2), round(float(display.act_on_all(0.5)), 2)
    (0.5, 0.0)
    """

    label: np.ndarray
    probability: np.ndarray
    prevalence: float | None = None

    @classmethod
    def from_results(
        cls, results: Source, method: str | None = None, prevalence: float | None = None
    ) -> "DecisionCurveDisplay":
        """Of a folder of runs or of results."""
        people = read_data(results, method).people.dropna(subset="probability")
        probability = people["probability"]
        if prevalence is not None:
            probability = to_prevalence(probability, people["prevalence"], prevalence)
        return cls.from_predictions(people["label"], probability, prevalence)

    @classmethod
    def from_predictions(
        cls, y_true: Sequence[int], y_prob: Sequence[float], prevalence: float | None = None
    ) -> "DecisionCurveDisplay":
        """Of labels, and probabilities that hold for this prevalence."""
        people = people_frame([""] * len(y_true), y_true, probability=y_prob)
        if people["label"].nunique() < 2:
            raise DataError("a decision curve needs cases and controls")
        return cls(people["label"].to_numpy(), people["probability"].to_numpy(dtype=float), prevalence)

    @property
    def share(self) -> float:
        """The share of cases that the benefit is computed for."""
        return float(self.label.mean()) if self.prevalence is None else self.prevalence

    def net_benefit(self, threshold: float) -> float:
        """Of acting on everybody whose probability reaches the threshold."""
        called = self.probability >= threshold
        hit, false = called[self.label == 1].mean(), called[self.label == 0].mean()
        return hit * self.share - false * (1 - self.share) * threshold / (1 - threshold)

    def act_on_all(self, threshold: float) -> float:
        """Of acting on everybody."""
        return self.share - (1 - self.share) * threshold / (1 - threshold)

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches that suit it."""
        return 5.0, 3.7

    def plot(self, ax: Axes | None = None) -> "DecisionCurveDisplay":
        """Draw it, on these axes or on new ones."""
        self.ax_ = ax = axes_for(ax, self.size)
        ax.axhline(0, color=INK, linewidth=1, label="act on nobody")
        ax.plot(THRESHOLDS, [self.act_on_all(t) for t in THRESHOLDS], color=GREY, linewidth=1.4, label="act on all")
        ax.plot(THRESHOLDS, [self.net_benefit(t) for t in THRESHOLDS], color=VERMILION, linewidth=2, label="the model")
        ax.fill_between(
            THRESHOLDS,
            [max(self.act_on_all(t), 0) for t in THRESHOLDS],
            [max(self.net_benefit(t), self.act_on_all(t), 0) for t in THRESHOLDS],
            color=BLUE, alpha=0.13, linewidth=0, label="gained by the model",
        )  # fmt: skip
        ax.set(xlim=(0, 1), ylim=(-0.1 * self.share, 1.05 * self.share))
        ax.set(xlabel="Probability at which one would act", ylabel="Net benefit")
        ax.legend(loc="upper right", frameon=False, fontsize=8.5)
        return self


@dataclass
class CalibrationBySiteDisplay(NotebookDisplay):
    """Predicted probability against what happened: dots for everybody, a thin line for each site.

    Calibrated probabilities are on one scale whatever the fold, so unlike scores they may be read together.

    Parameters
    ----------
    people : DataFrame
        ``site``, ``label`` and ``probability``.
    unit : str

    Examples
    --------
    >>> from brainroam.report import CalibrationBySiteDisplay
    >>> display = CalibrationBySiteDisplay.from_predictions([0, 1] * 20, [0.2, 0.8] * 20, ["A"] * 40)
    >>> display.tenths[["probability", "share"]].iloc[0].tolist()
    [0.2, 0.0]
    """

    people: pd.DataFrame
    unit: str = "site"

    @classmethod
    def from_results(cls, results: Source, method: str | None = None) -> "CalibrationBySiteDisplay":
        """Of a folder of runs or of results."""
        data = read_data(results, method)
        return cls(data.people.dropna(subset="probability"), data.unit)

    @classmethod
    def from_predictions(cls, y_true: Sequence[int], y_prob: Sequence[float], site: Sequence[Any]):
        """Of labels, probabilities and sites."""
        return cls(people_frame(site, y_true, probability=y_prob))

    @property
    def tenths(self) -> pd.DataFrame:
        """Tenths of the people by probability: its mean, the ``share`` of cases and its Wilson interval."""
        ordered = self.people.sort_values("probability", kind="stable")
        rows = []
        for part in np.array_split(np.arange(len(ordered)), min(N_GROUPS, max(len(ordered) // 5, 1))):
            here = ordered.iloc[part]
            low, high = binomtest(int(here["label"].sum()), len(here)).proportion_ci(method="wilson")
            rows.append((here["probability"].mean(), here["label"].mean(), low, high))
        return pd.DataFrame(rows, columns=["probability", "share", "low", "high"])

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches that suit it."""
        return 3.9, 3.7

    def plot(self, ax: Axes | None = None) -> "CalibrationBySiteDisplay":
        """Draw it, on these axes or on new ones."""
        self.ax_ = ax = axes_for(ax, self.size)
        ax.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle=(0, (4, 3)), label="perfect")
        label: str | None = f"each {self.unit}, recalibrated"
        for name, here in sites_with_both(self.people):
            probability = here["probability"].to_numpy()
            slope, intercept = calibration(here["label"].to_numpy(), probability)
            if np.isfinite(slope):
                x = np.linspace(max(probability.min(), 1e-3), min(probability.max(), 1 - 1e-3), 60)
                y = expit(intercept + slope * logit(x))
                (line,) = ax.plot(x, y, color=SKY, linewidth=0.8, alpha=0.7, label=label)
                add_tip(line, f"{name}: slope {slope:.2f}, intercept {intercept:.2f}")
                label = None
        tenths = self.tenths
        ax.vlines(tenths["probability"], tenths["low"], tenths["high"], color=INK, linewidth=1.2)
        ax.scatter(tenths["probability"], tenths["share"], s=24, color=INK, zorder=3, label="tenths of everybody")
        ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="Predicted probability", ylabel="Observed share with the condition")
        ax.set_aspect("equal")
        ax.legend(loc="lower left", bbox_to_anchor=(-0.05, 1), ncols=2, frameon=False, fontsize=8, columnspacing=1)
        return self


def calibration_section(data: ReportData) -> Section:
    """Predicted probabilities of the method of the report against what happened, and what acting on them gains."""
    title = "Probabilities and decisions"
    if "probability" not in data.people:
        return _coverage_of_intervals(data)
    people = data.people.dropna(subset="probability")
    if people.empty:
        return Section("calibration", title, render("no_probabilities.html", method=data.method))
    drawings = [
        drawing(
            "calibration",
            f"Calibration of {data.method}. Dots: observed share with the condition in tenths of the predicted "
            f"probability, with "
            f"95 % Wilson intervals; thin lines: logistic recalibration at each held-out {data.unit}; dashed: perfect.",
            CalibrationBySiteDisplay.from_results(data),
        )
    ]
    if people["label"].nunique() == 2:
        drawings.append(
            drawing(
                "decision",
                f"Decision curve of {data.method} (Vickers and Elkin 2006) at the share with the condition of "
                f"this study, "
                f"{people['label'].mean():.0%}. Where the model lies above both other lines, acting on it gains "
                "something. In a case-control study that share is far higher than in a clinic or in screening.",
                DecisionCurveDisplay.from_results(data),
            )
        )
    scores = data.site_scores[data.site_scores["method"] == data.method]
    columns = [
        Column("site", data.unit.capitalize()),
        Column("calibration_slope", "Slope", fixed(2)),
        Column("calibration_intercept", "Intercept", fixed(2)),
        Column("brier", "Brier score", fixed(3)),
        Column("mean_probability", "Mean predicted", fixed(2)),
        Column("share", "Observed", fixed(2)),
    ]
    means = people.groupby("site").agg(mean_probability=("probability", "mean"), share=("label", "mean")).reset_index()
    html = render(
        "calibration.html",
        figures=[inline(made) for made in drawings],
        table=table(scores.merge(means, on="site"), columns, "calibration", f"Calibration of {data.method}"),
        prevalence=_shares(people["prevalence"]),
        elsewhere=_elsewhere(people, data.method),
        slope=number(data.headline["calibration_slope"]),
        intercept=number(data.headline["calibration_intercept"]),
        unit=data.unit,
    )
    return Section("calibration", title, html, tuple(drawings))


def _coverage_of_intervals(data: ReportData) -> Section:
    """Of a number: how often the intervals of persons hold the truth at each site; of several classes the reason."""
    title = "Intervals of persons"
    sites = data.site_scores[data.site_scores["method"] == data.method]
    promised = [level for level in (80, 90) if f"covered_{level}" in sites and sites[f"covered_{level}"].notna().any()]
    if not promised:
        return Section("calibration", title, render("no_curves.html", brier="brier" in sites))
    columns = [Column("site", data.unit.capitalize()), Column("n", "People", fixed(0))]
    meaning = "Share of people whose true value lies in their interval of {} %."
    columns += [Column(f"covered_{n}", f"In {n} %", fixed(2), meaning=meaning.format(n)) for n in promised]
    means = {n: np.average(sites[f"covered_{n}"], weights=sites["n"]) for n in promised}
    worst = {n: sites[f"covered_{n}"].min() for n in promised}
    said = "; ".join(
        f"{n} % intervals hold {means[n]:.0%} of people ({worst[n]:.0%} at the worst site)" for n in promised
    )
    shown = table(sites, columns, "coverage", f"Intervals of {data.method} at every held-out {data.unit}")
    return Section("calibration", title, Markup(f"<p>{said}.</p>") + shown, gist=f"{said}.")


def _shares(prevalence: pd.Series) -> str:
    """The shares with the condition that the probabilities of all folds hold for."""
    low, high = f"{prevalence.min():.0%}", f"{prevalence.max():.0%}"
    return low if low == high else f"{low} to {high}"


def _elsewhere(people: pd.DataFrame, method: str) -> Markup:
    """What the same people would say where other shares are cases; nothing where one class is absent."""
    if people["label"].nunique() < 2:
        return Markup("")
    label, probability, predicted, held = (
        people[name].to_numpy() for name in ("label", "probability", "predicted", "prevalence")
    )
    rows = pd.DataFrame([at_prevalence(label, probability, predicted, held, share) for share in PREVALENCES])
    columns = [
        Column("prevalence", "Share with the condition", "{:.0%}".format),
        Column("mean_probability", "Mean predicted", fixed(3)),
        Column("brier", "Brier score", fixed(3)),
        Column("brier_constant", "Brier score of a constant", fixed(3)),
        Column("ppv", "Positive predictive value", fixed(2)),
        Column("npv", "Negative predictive value", fixed(2)),
    ]
    return table(rows, columns, "prevalence", f"{method} where other shares of people have the condition")


def abstaining_section(data: ReportData) -> Section:
    """Coverage and set sizes at every held-out site; nothing where too few sites promise anything."""
    two = "probability" in data.people
    sets = coverage(kept_next_site(data.finished, data.method)) if two else pd.DataFrame()
    if sets.empty:
        return Section("abstaining", TITLE, Markup(""))
    levels = coverage_over_sites(sets)
    shares = [
        Column("covered", "Coverage", fixed(2)),
        Column("covered_cases", "Coverage, with the condition", fixed(2)),
        Column("covered_controls", "Coverage, controls", fixed(2)),
        Column("decided", "Decided", fixed(2)),
        Column("right", "Right where decided", fixed(2)),
    ]
    level = Column("level", "Level", "{:.0%}".format)
    worst = [Column("worst", "Lowest coverage", fixed(2)), Column("worst_site", f"at the {data.unit}")]
    site = Column("site", data.unit.capitalize())
    html = render(
        "abstaining.html",
        sentence=_sentence(levels.iloc[0], data.unit),
        levels=table(levels, [level, *shares, *worst], "prediction-sets", f"Prediction sets of {data.method}"),
        sites=table(
            sets, [site, level, Column("n", "People"), *shares], "prediction-sets-by-site",
            f"Prediction sets of {data.method} at every held-out {data.unit}",
        ),
        unit=data.unit,
    )  # fmt: skip
    return Section("abstaining", TITLE, html, gist=_sentence(levels.iloc[0], data.unit))


def _sentence(row: pd.Series, unit: str) -> str:
    """One level in words, with the digits of the table: another rounding of 0.925 would contradict it."""
    covered, worst, decided, right = (number(row[key]) for key in ("covered", "worst", "decided", "right"))
    at_worst = f" ({worst} at the worst {unit}, {row['worst_site']})" if row["worst_site"] else ""
    return (
        f"At the level of {row['level']:.0%} the answer contains the true class for {covered} of people{at_worst}. It "
        f"is a single class for {decided} of people, and right for {right} of these."
    )
