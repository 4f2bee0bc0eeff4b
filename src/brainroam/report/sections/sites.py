"""Where did it fail: every held-out site, its ROC curve and its scores."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from sklearn.metrics import roc_curve

from brainroam.errors import listed
from brainroam.evaluation.stats.metrics import JUDGED, has_enough_people, may_be_named
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
    shorten,
    sites_with_both,
)
from brainroam.report.page import Section, render
from brainroam.report.tables import Column, fixed, interval, table

GRID = np.linspace(0, 1, 201)


@dataclass
class ScoresBySiteDisplay(NotebookDisplay):
    """One row per site: a dot per person, controls below and cases above, with their medians.

    Parameters
    ----------
    people : DataFrame
        ``site``, ``label`` and ``value``: the probability where the method gives one, else the score.
    name : str
        What the values are.

    Examples
    --------
    >>> from brainroam.report import ScoresBySiteDisplay
    >>> ScoresBySiteDisplay.from_predictions([0, 1], [0.1, 0.9], ["A", "A"]).people["value"].tolist()
    [0.1, 0.9]
    """

    people: pd.DataFrame
    name: str = "Score"

    @classmethod
    def from_results(cls, results: Source, method: str | None = None) -> "ScoresBySiteDisplay":
        """Of a folder of runs or of results."""
        people = read_data(results, method).people
        calibrated = people["probability"].notna().all()
        value = people["probability" if calibrated else "score"]
        name = "Predicted probability of the condition" if calibrated else "Score"
        return cls(people[["site", "label"]].assign(value=value), name)

    @classmethod
    def from_predictions(cls, y_true: Sequence[int], y_score: Sequence[float], site: Sequence[Any]):
        """Of labels, scores and sites."""
        return cls(people_frame(site, y_true, value=y_score))

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches that suit it."""
        return 5.0, 0.27 * self.people["site"].nunique() + 0.9

    def plot(self, ax: Axes | None = None) -> "ScoresBySiteDisplay":
        """Draw it, on these axes or on new ones."""
        self.ax_ = ax = axes_for(ax, self.size)
        sites = sorted(self.people["site"].unique(), reverse=True)
        for label, colour, shift, name in ((0, BLUE, -0.17, "controls"), (1, VERMILION, 0.17, "with the condition")):
            group = self.people[self.people["label"] == label]
            at = group["site"].map({site: y for y, site in enumerate(sites)}) + shift
            ax.scatter(group["value"], at, s=7, color=colour, alpha=0.5, linewidth=0, label=name)
            for site, values in group.groupby("site")["value"]:
                y = sites.index(site) + shift
                ax.vlines(values.median(), y - 0.15, y + 0.15, color=INK, linewidth=1.6)
        if self.name.startswith("Predicted"):
            ax.axvline(0.5, color=GREY, linewidth=1, linestyle=(0, (4, 3)))
            ax.set_xlim(0, 1)
        ax.set_yticks(np.arange(len(sites)), [shorten(str(site), 16) for site in sites])
        ax.tick_params(axis="y", length=0)
        ax.set(ylim=(-0.6, len(sites) - 0.4), xlabel=self.name)
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, markerscale=2, frameon=False)
        return self


@dataclass
class RocBySiteDisplay(NotebookDisplay):
    """Thin: the curve of each site. Thick: the mean sensitivity of the sites at each false positive rate.

    Scores of different folds come from different models, so they are never pooled into one curve.

    Parameters
    ----------
    curves : dict of str to ndarray of shape (201,)
        Sensitivity of each site on the grid of false positive rates 0, 0.005, ..., 1.
    unit : str

    Examples
    --------
    >>> from brainroam.report import RocBySiteDisplay
    >>> display = RocBySiteDisplay.from_predictions([0, 1, 0, 1], [0.1, 0.9, 0.2, 0.8], ["A", "A", "B", "B"])
    >>> float(display.mean.min())
    1.0
    """

    curves: dict[str, np.ndarray]
    unit: str = "site"

    @classmethod
    def from_results(cls, results: Source, method: str | None = None) -> "RocBySiteDisplay":
        """Of a folder of runs or of results; seeds are averaged as curves."""
        data = read_data(results, method)
        rows = data.results.predictions
        rows = rows[(rows["method"] == data.method) & (rows["protocol"] == data.protocol)]
        curves = {
            site: np.mean([_curve(run["label"], run["score"]) for _, run in here.groupby("seed")], axis=0)
            for site, here in sites_with_both(rows)
        }
        return cls(curves, data.unit)

    @classmethod
    def from_predictions(cls, y_true: Sequence[int], y_score: Sequence[float], site: Sequence[Any]):
        """Of labels, scores and sites."""
        people = people_frame(site, y_true, score=y_score)
        return cls({name: _curve(here["label"], here["score"]) for name, here in sites_with_both(people)})

    @property
    def mean(self) -> np.ndarray:
        """Mean sensitivity over sites on the grid."""
        return np.mean(list(self.curves.values()), axis=0)

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches that suit it."""
        return 3.9, 3.6

    def plot(self, ax: Axes | None = None) -> "RocBySiteDisplay":
        """Draw it, on these axes or on new ones."""
        self.ax_ = ax = axes_for(ax, self.size)
        ax.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle=(0, (4, 3)))
        for k, (name, curve) in enumerate(self.curves.items()):
            label = f"each {self.unit}" if k == 0 else None
            (line,) = ax.plot(GRID, curve, color=SKY, linewidth=0.8, alpha=0.7, label=label)
            add_tip(line, name)
        if self.curves:
            ax.plot(GRID, self.mean, color=VERMILION, linewidth=2.2, label="mean")
            ax.legend(loc="lower right", frameon=False)
        ax.set(xlim=(0, 1), ylim=(0, 1.01), xlabel="1 - specificity", ylabel="Sensitivity", aspect="equal")
        return self


def _curve(label: Any, score: Any) -> np.ndarray:
    false, true, _ = roc_curve(label, score, drop_intermediate=False)
    return np.interp(GRID, false, true)


def sites_section(data: ReportData) -> Section:
    """The method of the report at every held-out site."""
    roc = drawing(
        "roc",
        f"ROC curve of {data.method} at each held-out {data.unit} (thin) and the mean of the curves (thick). Scores of "
        "different folds are never pooled. Dashed: guessing.",
        RocBySiteDisplay.from_results(data),
    )
    scores = drawing(
        "scores",
        f"What {data.method} says of every held-out person, by {data.unit}; strokes are medians. A {data.unit} where "
        "the two colours lie on each other is one where it failed.",
        ScoresBySiteDisplay.from_results(data),
    )
    metrics = data.site_aucs.merge(
        data.site_scores[data.site_scores["method"] == data.method], on="site", suffixes=("", "_seed")
    )
    columns = [
        Column("site", data.unit.capitalize()),
        Column("n", "People"),
        Column("n_cases", "With the condition"),
        Column("auc", "AUC", fixed(2)),
        Column("low", "95 % interval", interval("low", "high"), of_row=True),
        Column("balanced_acc", "Balanced accuracy", fixed(2)),
        Column("sensitivity", "Sensitivity", fixed(2)),
        Column("specificity", "Specificity", fixed(2)),
        Column("brier", "Brier score", fixed(3)),
    ]
    html = render(
        "sites.html",
        figures=[inline(roc), inline(scores)],
        table=table(metrics, columns, "auc-by-site", f"{data.method} at every held-out {data.unit}, seeds averaged"),
        unit=data.unit,
        spread=_spread(data),
        one_class=data.gathered.without,
        every=_every(data),
    )
    return Section(
        "sites", "Site by site" if data.protocol != "cv" else "Fold by fold", html, (roc, scores), gist=_spread(data)
    )


def _spread(data: ReportData) -> str:
    sites = data.site_aucs
    if len(sites) < 2:
        return ""
    classes = sites["n_cases"], sites["n"] - sites["n_cases"]
    large, small = sites[may_be_named(*classes)], sites.loc[~has_enough_people(*classes), "site"]
    unsure = sites.loc[(sites["low"] <= 0.5) & (sites["high"] >= 0.5), "site"]
    below = sites.loc[sites["high"] < 0.5, "site"]
    text = ""
    if len(large) > 1:
        best, worst = large.iloc[0], large.iloc[-1]
        text = f"Best: {best['site']} ({best['auc']:.2f}); worst: {worst['site']} ({worst['auc']:.2f}). "
    if len(small):
        text += f"Fewer than {JUDGED} people of a class, so neither best nor worst: {listed(small, 20)}. "
    if len(below):
        text += f"At {listed(below, 20)} the interval lies below guessing (0.5). "
    if len(unsure):
        text += (
            f"At {len(unsure)} of {len(sites)} {data.unit}s the interval includes guessing (0.5): {listed(unsure, 20)}."
        )
    else:
        others = "all others" if len(below) else "both sites" if len(sites) == 2 else f"all {len(sites)} {data.unit}s"
        text += f"At {others} the interval lies above guessing (0.5)."
    return text + " Small sites scatter by chance alone: look at the intervals before explaining a difference."


def _every(data: ReportData):
    """AUC of every compared method at every site."""
    wide: pd.DataFrame = data.site_scores.pivot(index="site", columns="method", values="auc")[data.compared]
    order = data.comparison.table["method"]
    columns = [Column("site", data.unit.capitalize()), *(Column(name, name, fixed(2)) for name in order)]
    return table(wide.reset_index(), columns, "auc-by-site-and-method", "AUC of every method, seeds averaged")
