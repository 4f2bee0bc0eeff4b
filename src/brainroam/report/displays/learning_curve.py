"""What more sites, or more people at each, would bring."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from brainroam.errors import DataError
from brainroam.evaluation.planning.plan import Plan
from brainroam.report.displays.axes import Shown, axes_for
from brainroam.report.figures import BLUE, GREY, ORANGE, SKY, VERMILION

CAPTION = (
    "Mean AUC at left-out sites of smaller studies drawn from this one, by the number of training sites and the share "
    "of their people; line and band: the fitted law and its 95 % interval, dashed beyond what was measured."
)
MARKERS = {1.0: ("o", BLUE), 0.5: ("s", ORANGE), 0.25: ("^", SKY)}


@dataclass
class LearningCurveDisplay(Shown):
    """Mean AUC at left-out sites over the number of training sites, with the fitted curve and its 95 % band.

    Parameters
    ----------
    points : DataFrame
        ``n_sites``, ``share`` (of each training site's people) and ``auc``: what was measured.
    curve : DataFrame
        ``n_sites``, ``auc``, ``low`` and ``high``: the law, up to twice the sites there are.
    n_sites : int
        Sites of the study.
    method : str

    Examples
    --------
    >>> from brainroam.report import LearningCurveDisplay
    >>> points = pd.DataFrame({"n_sites": [2, 5], "share": 1.0, "auc": [0.6, 0.7]})
    >>> curve = pd.DataFrame({"n_sites": [2, 12], "auc": [0.6, 0.75], "low": [0.5, 0.7], "high": [0.7, 0.8]})
    >>> LearningCurveDisplay(points, curve, 6, "fc-ridge").plot().ax_.get_xlabel()
    'Training sites'
    """

    points: pd.DataFrame
    curve: pd.DataFrame
    n_sites: int
    method: str

    @classmethod
    def from_plan(cls, plan: "Plan | dict[str, Any] | str | Path") -> "LearningCurveDisplay":
        """Of a `Plan`, of what its ``to_dict`` gives, or of a ``plan.json`` or the folder it is in."""
        if isinstance(plan, Plan):
            found = plan.to_dict()
        elif isinstance(plan, dict):
            found = plan
        else:
            file = Path(plan) / "plan.json" if Path(plan).is_dir() else Path(plan)
            found = json.loads(file.read_text(encoding="utf-8"))
        if not found.get("curve"):
            raise DataError("this plan has no learning curve, only a comparison; make one with: brainroam plan DATA")
        return cls(pd.DataFrame(found["points"]), pd.DataFrame(found["curve"]), found["n_sites"], found["method"])

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches that suit it."""
        return 5.6, 3.7

    def plot(self, ax: Axes | None = None) -> "LearningCurveDisplay":
        """Draw it, on these axes or on new ones."""
        self.ax_ = ax = axes_for(ax, self.size)
        sites = self.curve["n_sites"]
        low, high = self.curve["low"], self.curve["high"]
        ax.fill_between(sites, low, high, color=GREY, alpha=0.18, linewidth=0, label="95 % interval")
        for part, line, name in ((sites <= self.n_sites, "-", None), (sites >= self.n_sites, (0, (3, 2)), "expected")):
            ax.plot(sites[part], self.curve["auc"][part], color=VERMILION, linewidth=2, linestyle=line, label=name)
        for share, here in self.points.sort_values("share", ascending=False).groupby("share", sort=False):
            marker, colour = MARKERS[share]
            name = "all their people" if share == 1 else f"{100 * share:.0f} % of their people"
            ax.scatter(here["n_sites"], here["auc"], s=30, marker=marker, color=colour, zorder=3, label=name)
        ax.axhline(0.5, color=GREY, linewidth=1, linestyle=(0, (4, 3)))
        ax.set(xlabel="Training sites", ylabel=f"Mean AUC of {self.method}", xlim=(0, sites.max() + 0.5))
        ax.set_ylim(min(0.48, self.points["auc"].min() - 0.02), max(self.curve["high"].max(), 0.7) + 0.02)
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3, frameon=False, fontsize=8.5)
        return self
