"""Can its probabilities be believed and acted on?"""

import pandas as pd
from markupsafe import Markup

from brainroam.evaluation.stats.metrics import at_prevalence
from brainroam.report.data import ReportData
from brainroam.report.displays.axes import drawing
from brainroam.report.displays.calibration_by_site import CalibrationBySiteDisplay
from brainroam.report.displays.decision_curve import DecisionCurveDisplay
from brainroam.report.figures import inline
from brainroam.report.page import render
from brainroam.report.section import Section
from brainroam.report.tables import Column, fixed, number, table

PREVALENCES = (0.01, 0.05, 0.1, 0.2, 0.3, 0.5)


def calibration_section(data: ReportData) -> Section:
    """Predicted probabilities of the method of the report against what happened, and what acting on them gains."""
    title = "Probabilities and decisions"
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
        Column("brier_constant", "Brier score of the share itself", fixed(3)),
        Column("ppv", "Have it, of those predicted to", fixed(2)),
        Column("npv", "Do not, of the others", fixed(2)),
    ]
    return table(rows, columns, "prevalence", f"{method} where other shares of people have the condition")
