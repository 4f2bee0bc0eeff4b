"""AUC by sex, and by thirds of age and of head motion."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from brainroam.errors import DataError
from brainroam.report.data import Source, read_data
from brainroam.report.displays.axes import Shown, axes_for
from brainroam.report.figures import BLUE, GREY, INK, VERMILION


@dataclass
class GroupDisplay(Shown):
    """AUC by sex and by thirds of age and motion with 95 % intervals, see `brainroam.evaluation.stats.groups`.

    Parameters
    ----------
    groups : DataFrame
        ``covariate``, ``group``, ``n``, ``auc``, ``low`` and ``high``.
    mean : float
        Mean AUC over sites, drawn as a line.
    by_site : DataFrame, optional
        ``covariate``, ``group``, ``n``, ``n_cases`` and ``auc`` at single sites, drawn as small dots.

    Examples
    --------
    >>> from brainroam.report import GroupDisplay
    >>> row = {"covariate": "sex", "group": "male", "n": 40, "auc": 0.7, "low": 0.6, "high": 0.8}
    >>> GroupDisplay(pd.DataFrame([row]), mean=0.71).plot().ax_.get_yticklabels()[0].get_text()
    'male  40'
    """

    groups: pd.DataFrame
    mean: float = float("nan")
    by_site: pd.DataFrame | None = None

    @classmethod
    def from_results(cls, results: Source, method: str | None = None) -> "GroupDisplay":
        """Of a folder of runs or of results that know age, sex or motion of their people."""
        data = read_data(results, method)
        if data.groups.empty:
            raise DataError("these runs do not know age, sex or motion of their people; add the columns and run again")
        return cls(data.groups, data.summary.mean, data.groups_by_site)

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches that suit it."""
        return 4.5, 0.38 * (len(self.groups) + 0.5 * self.groups["covariate"].nunique()) + 0.7

    def plot(self, ax: Axes | None = None) -> "GroupDisplay":
        """Draw it, on these axes or on new ones."""
        self.ax_ = ax = axes_for(ax, self.size)
        blocks = (self.groups["covariate"] != self.groups["covariate"].shift()).cumsum()
        at = -(np.arange(len(self.groups)) + 0.5 * blocks.to_numpy())
        ax.axvline(0.5, color=GREY, linewidth=1, linestyle=(0, (4, 3)))
        if np.isfinite(self.mean):
            ax.axvline(self.mean, color=VERMILION, linewidth=1.4)
        if self.by_site is not None:
            self._dots(ax, at, self.by_site.dropna(subset="auc"))
        ax.hlines(at, self.groups["low"], self.groups["high"], color=INK, linewidth=1.1)
        ax.scatter(self.groups["auc"], at, s=34, marker="s", color=BLUE, zorder=3)
        rows = self.groups.itertuples()
        names = [f"{'' if row.covariate == 'sex' else row.covariate} {row.group}  {row.n}".strip() for row in rows]
        ax.set_yticks(at, names, fontsize=8.5)
        for y, value in zip(at, self.groups["auc"], strict=True):
            ax.text(
                1.015, y, "" if np.isnan(value) else f"{value:.2f}", transform=ax.get_yaxis_transform(), va="center"
            )
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)
        low = float(np.nanmin([0.4, self.groups["low"].min() - 0.02]))
        ax.set(xlim=(max(low, 0), 1), ylim=(at.min() - 0.6, at.max() + 0.6))
        ax.set_xlabel("AUC; dashed: guessing, line: mean over sites")
        return self

    def _dots(self, ax: Axes, at: np.ndarray, sites: pd.DataFrame) -> None:
        """Single sites, a little below their group, by the number of pairs that they compare."""
        heights = dict(zip(zip(self.groups["covariate"], self.groups["group"], strict=True), at, strict=True))
        y = [heights[key] - 0.28 for key in zip(sites["covariate"], sites["group"], strict=True)]
        pairs = sites["n_cases"] * (sites["n"] - sites["n_cases"])
        ax.scatter(sites["auc"], y, s=2 + 40 * pairs / pairs.max(), color=GREY, alpha=0.45, linewidth=0)
