"""Two pictures of two classes at held-out sites: scores of people, and ROC curves."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from sklearn.metrics import roc_curve

from brainroam.report.data import Source, read_data
from brainroam.report.figures import (
    BLUE,
    GREY,
    INK,
    SKY,
    VERMILION,
    NotebookDisplay,
    add_tip,
    axes_for,
    people_frame,
    shorten,
    sites_with_both,
)

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
