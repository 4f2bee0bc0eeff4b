"""Can its probabilities be believed, site by site?"""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.special import expit, logit

from brainroam.evaluation.stats.metrics import calibration
from brainroam.report.data import ReportData
from brainroam.report.figures import BLUE, GREY, VERMILION, inline, shortened
from brainroam.report.page import render
from brainroam.report.section import Drawing, Section
from brainroam.report.tables import Column, fixed, number, table

COLUMNS = 5
MOST_PANELS = 25
N_GROUPS = 3
Z = 1.959964


def calibration_section(data: ReportData) -> Section:
    """Predicted probabilities of the method of the report against what happened."""
    people = _people(data)
    if people.empty:
        return Section("calibration", "Calibration", render("no_probabilities.html", method=data.method))
    shown = people["site"].value_counts().index[:MOST_PANELS]
    drawing = Drawing(
        "calibration",
        f"Calibration of {data.method} at each held-out {data.unit}. Dots: observed share of cases (95 % Wilson "
        "interval) in thirds of the predicted probability; line: logistic recalibration; grey diagonal: perfect."
        + (f" Only the {MOST_PANELS} largest are drawn." if len(shown) < people["site"].nunique() else ""),
        lambda: _panels(people, sorted(shown)),
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
        figure=inline(drawing),
        table=table(scores.merge(means, on="site"), columns, "calibration", f"Calibration of {data.method}"),
        slope=number(data.headline["calibration_slope"]),
        intercept=number(data.headline["calibration_intercept"]),
        unit=data.unit,
    )
    return Section("calibration", "Calibration", html, (drawing,))


def _people(data: ReportData) -> pd.DataFrame:
    """One row per held-out person: label and probability, averaged over seeds."""
    rows = data.results.predictions
    rows = rows[(rows["method"] == data.method) & (rows["protocol"] == data.protocol)]
    mean = rows.groupby(["site", "subject"])[["label", "probability"]].mean().reset_index()
    return mean.dropna(subset="probability")


def _panels(people: pd.DataFrame, sites: list[str]) -> Figure:
    n_rows = -(-len(sites) // COLUMNS)
    n_columns = -(-len(sites) // n_rows)  # rows of about the same length
    figure = Figure((7.6, 1.75 * n_rows + 0.5), layout="constrained")
    grid = figure.subplots(n_rows, n_columns, sharex=True, sharey=True, squeeze=False)
    for axes, above in zip(grid.flat[len(sites) :], grid.flat[len(sites) - n_columns :], strict=False):
        axes.set_axis_off()
        above.tick_params(labelbottom=True)
    for site, axes in zip(sites, grid.flat, strict=False):
        of_site = people[people["site"] == site]
        label, probability = of_site["label"].to_numpy(), of_site["probability"].to_numpy()
        axes.plot([0, 1], [0, 1], color=GREY, linewidth=0.9)
        slope, intercept = calibration(label, probability)
        if np.isfinite(slope):
            x = np.linspace(max(probability.min(), 1e-3), min(probability.max(), 1 - 1e-3), 60)
            axes.plot(x, expit(intercept + slope * logit(x)), color=VERMILION, linewidth=1.4)
        for third in np.array_split(np.argsort(probability, kind="stable"), N_GROUPS):
            if len(third):
                low, high = _wilson(label[third].sum(), len(third))
                x = probability[third].mean()
                axes.vlines(x, low, high, color=BLUE, linewidth=1.2)
                axes.plot(x, label[third].mean(), "o", color=BLUE, markersize=4)
        axes.set_title(shortened(site, 18), fontsize=9)
        axes.set(xlim=(0, 1), ylim=(-0.03, 1.03))
        axes.set_xticks((0, 0.5, 1), ("0", "0.5", "1"))
        axes.set_yticks((0, 0.5, 1), ("0", "0.5", "1"))
    figure.supxlabel("Predicted probability", fontsize=9.5)
    figure.supylabel("Observed share of cases", fontsize=9.5)
    return figure


def _wilson(successes: float, n: int) -> tuple[float, float]:
    """Wilson (1927): the interval of a share that stays within 0 and 1."""
    p, z2 = successes / n, Z**2
    middle, half = (p + z2 / (2 * n)) / (1 + z2 / n), Z * np.sqrt(p * (1 - p) / n + z2 / (4 * n**2)) / (1 + z2 / n)
    return middle - half, middle + half
