"""What a few people of the new site bring to the decisions there."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from brainroam.errors import DataError
from brainroam.evaluation.adaptation import CONTROLS, adapted, kept_next_site, summary
from brainroam.methods.site_shift import STRICT, UNLABELLED
from brainroam.report.data import Source, read_data
from brainroam.report.displays.axes import axes_for
from brainroam.report.figures import BLUE, GREY, INK, VERMILION


@dataclass
class AdaptationDisplay:
    """Balanced accuracy with and without a few people of the held-out site, by protocol.

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
        return 5.6, 0.42 * len(self.protocols) + 0.9

    def plot(self, ax: Axes | None = None) -> "AdaptationDisplay":
        """Draw it, on these axes or on new ones."""
        self.ax_ = ax = axes_for(ax, self.size)
        rows, at = self.protocols, -np.arange(len(self.protocols), dtype=float)
        strict, moved = 100 * rows["strict_balanced_acc"], 100 * rows["balanced_acc"]
        ax.hlines(at, strict, moved, color=GREY, linewidth=1.4)
        ax.scatter(strict, at, s=34, facecolor="none", edgecolor=INK, zorder=3)
        ax.scatter(moved, at, s=34, color=[VERMILION if gain > 0 else BLUE for gain in rows["gain"]], zorder=4)
        names = [f"{taken(row.adaptation)} ({row.n_sites} sites)" for row in rows.itertuples()]
        ax.set_yticks(at, names, fontsize=8.5)
        for y, row in zip(at, rows.itertuples(), strict=True):
            ends = "" if np.isnan(row.gain_low) else f" ({100 * row.gain_low:+.1f} to {100 * row.gain_high:+.1f})"
            text = "" if row.adaptation == "strict" else f"{100 * row.gain:+.1f}{ends}"
            ax.text(1.015, float(y), text, transform=ax.get_yaxis_transform(), va="center", fontsize=8.5)
        ax.tick_params(axis="y", length=0)
        ax.set_ylim(at.min() - 0.6, 0.6)
        ax.set_xlabel(f"Balanced accuracy of {self.method}, %")
        return self


def taken(protocol: str) -> str:
    """What a protocol takes from the new site.

    >>> taken("strict"), taken("controls-20"), taken("unlabelled")
    ('nothing', '20 controls', 'scans only')
    """
    n_controls = protocol.removeprefix("controls-")
    return {STRICT: "nothing", UNLABELLED: "scans only"}.get(protocol, f"{n_controls} controls")
