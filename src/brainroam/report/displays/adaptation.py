"""What a few people of the new site bring to the decisions there."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from brainroam.errors import DataError
from brainroam.evaluation.adaptation import CONTROLS, adapted, kept_next_site, summary
from brainroam.methods.site_shift import STRICT, UNLABELLED
from brainroam.report.data import Source, read_data
from brainroam.report.displays.axes import Shown, axes_for
from brainroam.report.figures import BLUE, GREY, INK, VERMILION

NARROWEST = 5.0  # points to either side: smaller changes should look small


@dataclass
class AdaptationDisplay(Shown):
    """What a few people of the held-out site change in balanced accuracy, with 95 % intervals, by protocol.

    Parameters
    ----------
    protocols : DataFrame
        Rows of one method as `adaptation.summary` gives them: ``adaptation`` (the protocol), ``n_sites``,
        ``balanced_acc``, ``strict_balanced_acc`` (the same people, strictly), ``gain``, ``gain_low``, ``gain_high``.
    method : str

    Examples
    --------
    >>> from brainroam.report import AdaptationDisplay
    >>> row = {"adaptation": "controls-20", "n_sites": 9, "balanced_acc": 0.70, "strict_balanced_acc": 0.68}
    >>> rows = pd.DataFrame([row | {"gain": 0.02, "gain_low": -0.01, "gain_high": 0.05}])
    >>> AdaptationDisplay(rows, "ensemble").plot().ax_.get_yticklabels()[0].get_text()
    '20 controls (9 sites)'
    """

    protocols: pd.DataFrame
    method: str

    @classmethod
    def from_results(cls, results: Source, method: str | None = None) -> "AdaptationDisplay":
        """Of a folder of runs or of results that left sites out."""
        data = read_data(results, method)
        runs = kept_next_site(data.finished, data.method)
        if not runs:
            raise DataError(f"these runs keep no level of the sites for {data.method}; run brainroam loso again")
        return cls(summary(adapted(runs, CONTROLS)), data.method)

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches that suit it."""
        return 6.2, 0.42 * len(self.protocols) + 0.9

    def plot(self, ax: Axes | None = None) -> "AdaptationDisplay":
        """Draw it, on these axes or on new ones."""
        self.ax_ = ax = axes_for(ax, self.size)
        rows = self.protocols[self.protocols["adaptation"] != STRICT]
        at = -np.arange(len(rows), dtype=float)
        gain, low, high = (100 * rows[name].to_numpy(dtype=float) for name in ("gain", "gain_low", "gain_high"))
        ax.axvline(0, color=GREY, linewidth=1, linestyle=(0, (4, 3)))
        ax.hlines(at, low, high, color=INK, linewidth=1.4)
        ax.scatter(gain, at, s=34, color=[VERMILION if value > 0 else BLUE for value in gain], zorder=4)
        reach = max(NARROWEST, 1.1 * np.nanmax(np.abs([gain, low, high])))
        ax.set_xlim(-reach, reach)
        names = [f"{taken(row.adaptation)} ({row.n_sites} sites)" for row in rows.itertuples()]
        ax.set_yticks(at, names, fontsize=8.5)
        for y, row in zip(at, rows.itertuples(), strict=True):
            text = f"{100 * row.strict_balanced_acc:.1f} \N{RIGHTWARDS ARROW} {100 * row.balanced_acc:.1f}"
            ax.text(1.015, float(y), text, transform=ax.get_yaxis_transform(), va="center", fontsize=8.5)
        ax.tick_params(axis="y", length=0)
        ax.set_ylim(at.min() - 0.6, 0.6)
        ax.set_xlabel(f"Change in the balanced accuracy of {self.method}, points")
        return self


def taken(protocol: str) -> str:
    """What a protocol takes from the new site.

    >>> taken("strict"), taken("controls-20"), taken("unlabelled")
    ('nothing', '20 controls', 'scans only')
    """
    n_controls = protocol.removeprefix("controls-")
    return {STRICT: "nothing", UNLABELLED: "scans only"}.get(protocol, f"{n_controls} controls")
