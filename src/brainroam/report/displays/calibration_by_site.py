"""Can its probabilities be believed, together and site by site?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy.special import expit, logit
from scipy.stats import binomtest

from brainroam.evaluation.stats.metrics import calibration
from brainroam.report.data import Source, read_data
from brainroam.report.displays.axes import Shown, axes_for, people_frame, sites_with_both
from brainroam.report.figures import GREY, INK, SKY, say

N_GROUPS = 10


@dataclass
class CalibrationBySiteDisplay(Shown):
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
                say(line, f"{name}: slope {slope:.2f}, intercept {intercept:.2f}")
                label = None
        tenths = self.tenths
        ax.vlines(tenths["probability"], tenths["low"], tenths["high"], color=INK, linewidth=1.2)
        ax.scatter(tenths["probability"], tenths["share"], s=24, color=INK, zorder=3, label="tenths of everybody")
        ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="Predicted probability", ylabel="Observed share with the condition")
        ax.set_aspect("equal")
        ax.legend(loc="upper left", frameon=False, fontsize=8.5)
        return self
