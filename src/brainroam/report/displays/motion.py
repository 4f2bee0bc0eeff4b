"""Do the scores follow head motion?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from brainroam.errors import DataError
from brainroam.evaluation.stats.confounding import within_class_correlation
from brainroam.report.data import Source, read_data
from brainroam.report.displays.axes import Shown, axes_for, people_frame
from brainroam.report.figures import BLUE, INK, VERMILION


@dataclass
class MotionDisplay(Shown):
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
            ax.plot(x, slope * x, color=INK, linewidth=1.8, label=f"r = {self.correlation:+.2f}")
        ax.set(xlabel="log mean FD, within site and class", ylabel="Score, within site and class")
        spacing = {"columnspacing": 1, "handletextpad": 0.3, "markerscale": 1.8}
        ax.legend(loc="lower left", bbox_to_anchor=(-0.02, 1), ncols=3, frameon=False, **spacing)
        return self
