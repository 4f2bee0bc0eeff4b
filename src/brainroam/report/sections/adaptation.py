"""May I use a few people of my own: what they bring to the decisions at held-out sites."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.axes import Axes

from brainroam.errors import DataError, counted
from brainroam.evaluation.next_site import CONTROLS, adaptation_summary, adapted, kept_next_site
from brainroam.methods.site_shift import STRICT, UNLABELLED
from brainroam.report.data import ReportData, Source, read_data
from brainroam.report.figures import BLUE, GREY, INK, VERMILION, Shown, axes_for, drawing, inline
from brainroam.report.page import Section, render
from brainroam.report.tables import Column, fixed, interval, table

NARROWEST = 5.0  # points to either side: smaller changes should look small
TITLE = "A few people of the new site"


@dataclass
class AdaptationDisplay(Shown):
    """What a few people of the held-out site change in balanced accuracy, with 95 % intervals, by protocol.

    Parameters
    ----------
    protocols : DataFrame
        Rows of one method as `adaptation_summary` gives them: ``adaptation`` (the protocol), ``n_sites``,
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
        return cls(adaptation_summary(adapted(runs, CONTROLS)), data.method)

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
        names = [f"{taken(row.adaptation)} ({counted(row.n_sites, 'site', 'sites')})" for row in rows.itertuples()]
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


def adaptation_section(data: ReportData) -> Section:
    """Balanced accuracy and calibration by protocol; nothing for runs that do not keep the level of sites."""
    if not kept_next_site(data.finished, data.method):
        return Section("adaptation", TITLE, Markup(""))
    display = AdaptationDisplay.from_results(data)
    rows = display.protocols
    if len(rows) < 2:
        return Section("adaptation", TITLE, Markup(""))
    drawn = drawing(
        "adaptation",
        f"How the balanced accuracy of {data.method} at held-out {data.unit}s changes by what is taken from the new "
        f"{data.unit}, with 95 % intervals; dashed: no change. Right: without and with it, %, for the same people.",
        display,
    )
    columns = [
        Column("adaptation", f"Taken from the {data.unit}", taken),
        Column("n_sites", "Sites"),
        Column("auc", "AUC", fixed(3)),
        Column("strict_balanced_acc", "Balanced accuracy without", fixed(3)),
        Column("balanced_acc", "Balanced accuracy with", fixed(3)),
        Column("gain_low", "95 % interval of the difference", interval("gain_low", "gain_high", 3), of_row=True),
        Column("strict_calibration_in_the_large", "Probabilities too high or low by, without", fixed(3)),
        Column("calibration_in_the_large", "Probabilities too high or low by, with", fixed(3)),
    ]
    html = render(
        "adaptation.html",
        sentence=_sentence(rows),
        figure=inline(drawn),
        table=table(rows, columns, "adaptation", f"{data.method} without and with people of the new {data.unit}"),
        unit=data.unit,
    )
    return Section("adaptation", TITLE, html, (drawn,), gist=_sentence(rows))


def _sentence(rows: pd.DataFrame) -> str:
    parts = [
        f"{100 * row.gain:+.1f} points with {taken(row.adaptation)} ({counted(row.n_sites, 'site', 'sites')})"
        for row in rows.itertuples()
        if row.adaptation != STRICT
    ]
    sure = [taken(name) for name in rows[rows["gain_low"] > 0]["adaptation"]]
    beyond = f"Beyond chance: {', '.join(sure)}." if sure else "None of these is beyond chance."
    return f"Balanced accuracy changes by {', '.join(parts)}. {beyond}"
