"""Scores of cases and controls at each held-out site."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from brainroam.report.data import Source, read_data
from brainroam.report.displays.axes import Shown, axes_for, people_frame
from brainroam.report.figures import BLUE, GREY, INK, VERMILION, shortened


@dataclass
class ScoresBySiteDisplay(Shown):
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
        known = people["probability"].notna().all()
        value = people["probability" if known else "score"]
        name = "Predicted probability of the condition" if known else "Score"
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
        ax.set_yticks(np.arange(len(sites)), [shortened(str(site), 16) for site in sites])
        ax.tick_params(axis="y", length=0)
        ax.set(ylim=(-0.6, len(sites) - 0.4), xlabel=self.name)
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, markerscale=2, frameon=False)
        return self
