"""May I use a few people of my own: what they bring to decisions, or to predictions of a number, at held-out sites."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.axes import Axes

from brainroam.data.target import TWO_CLASSES, Target
from brainroam.data.target.figures import amount
from brainroam.data.target.shifts import NOTHING_TO_MEND, STRICT, UNLABELLED
from brainroam.errors import DataError, counted
from brainroam.evaluation.next_site import CONTROLS, adaptation_summary, adapted, kept_next_site
from brainroam.report.data import ReportData, Source, read_data
from brainroam.report.figures import BLUE, GREY, INK, VERMILION, NotebookDisplay, axes_for, drawing, inline
from brainroam.report.page import Section, render
from brainroam.report.tables import Column, fixed, interval, number, table

NARROWEST = 5.0  # points to either side, or percent of a mean error: smaller changes should look small
TITLE = "A few people of the new site"
_COLUMNS = (
    Column("auc", "AUC", fixed(3)),
    Column("strict_balanced_acc", "Balanced accuracy without", fixed(3)),
    Column("balanced_acc", "Balanced accuracy with", fixed(3)),
    Column("gain_low", "95 % interval of the difference", interval("gain_low", "gain_high", 3), of_row=True),
    Column("strict_calibration_in_the_large", "Probabilities too high or low by, without", fixed(3)),
    Column("calibration_in_the_large", "Probabilities too high or low by, with", fixed(3)),
)
_NUMBER_COLUMNS = (
    Column("strict_mae", "Error without", number),
    Column("mae", "Error with", number),
    Column("gain_low", "95 % interval of the difference", interval("gain_low", "gain_high", 2), of_row=True),
    Column("strict_off", "Level off by, without", number),
    Column("off", "Level off by, with", number),
    Column("strict_scale", "Scale without", number),
    Column("scale", "Scale with", number),
)


@dataclass
class AdaptationDisplay(NotebookDisplay):
    """What a few people of the held-out site change, with 95 % intervals, by protocol.

    Parameters
    ----------
    protocols : DataFrame
        Rows of one method as `adaptation_summary` gives them: ``adaptation`` (the protocol), ``n_sites``,
        ``balanced_acc``, ``strict_balanced_acc`` (the same people, strictly), ``gain``, ``gain_low``, ``gain_high``;
        of a number ``mae`` in the place of ``balanced_acc``.
    method : str
    target : Target
        What is predicted.

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
    target: Target = TWO_CLASSES

    @classmethod
    def from_results(cls, results: Source, method: str | None = None) -> "AdaptationDisplay":
        """Of a folder of runs or of results that left sites out."""
        data = read_data(results, method)
        runs = kept_next_site(data.finished, data.method)
        if not runs:
            raise DataError(f"these runs keep no level of the sites for {data.method}; run brainroam loso again")
        return cls(adaptation_summary(adapted(runs, CONTROLS)), data.method, data.results.target)

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches that suit it."""
        return 6.2, 0.42 * len(self.protocols) + 0.9

    def plot(self, ax: Axes | None = None) -> "AdaptationDisplay":
        """Draw it, on these axes or on new ones."""
        self.ax_ = ax = axes_for(ax, self.size)
        rows = self.protocols[self.protocols["adaptation"] != STRICT]
        at = -np.arange(len(rows), dtype=float)
        of_number = self.target.is_number
        main, unit = ("mae", 1.0) if of_number else ("balanced_acc", 100.0)
        strict, found = (unit * rows[name].to_numpy(dtype=float) for name in (f"strict_{main}", main))
        gain, low, high = (unit * rows[name].to_numpy(dtype=float) for name in ("gain", "gain_low", "gain_high"))
        ax.axvline(0, color=GREY, linewidth=1, linestyle=(0, (4, 3)))
        ax.hlines(at, low, high, color=INK, linewidth=1.4)
        better = gain < 0 if of_number else gain > 0
        ax.scatter(gain, at, s=34, color=np.where(better, VERMILION, BLUE), zorder=4)
        narrowest = NARROWEST / 100 * np.nanmax(strict) if of_number else NARROWEST
        reach = max(narrowest, 1.1 * np.nanmax(np.abs([gain, low, high])))
        ax.set_xlim(-reach, reach)
        names = [
            f"{taken(row.adaptation, self.target)} ({counted(row.n_sites, 'site', 'sites')})"
            for row in rows.itertuples()
        ]
        ax.set_yticks(at, names, fontsize=8.5)
        shown = amount if of_number else fixed(1)
        for y, before, after in zip(at, strict, found, strict=True):
            text = f"{shown(before)} \N{RIGHTWARDS ARROW} {shown(after)}"
            ax.text(1.015, float(y), text, transform=ax.get_yaxis_transform(), va="center", fontsize=8.5)
        ax.tick_params(axis="y", length=0)
        ax.set_ylim(at.min() - 0.6, 0.6)
        what, points = ("mean error", self.target.name) if of_number else ("balanced accuracy", "points")
        ax.set_xlabel(f"Change in the {what} of {self.method}, {points}")
        return self


def taken(protocol: str, target: Target = TWO_CLASSES) -> str:
    """What a protocol takes from the new site.

    >>> taken("strict"), taken("controls-20"), taken("unlabelled"), taken("labelled-5", Target.of_kind("age", "number"))
    ('nothing', '20 controls', 'scans only', '5 of known age')
    """
    who = f"of known {target.name}" if target.is_number else "controls"
    return {STRICT: "nothing", UNLABELLED: "scans only"}.get(protocol, f"{protocol.rpartition('-')[2]} {who}")


def adaptation_section(data: ReportData) -> Section:
    """What decisions or errors are by protocol; nothing for runs that do not keep the level of sites."""
    target = data.results.target
    if target.is_classes or not kept_next_site(data.finished, data.method):
        return Section("adaptation", TITLE, Markup(""))
    display = AdaptationDisplay.from_results(data)
    rows = display.protocols
    if len(rows) < 2:
        return Section("adaptation", TITLE, Markup(""))
    what, unit = ("mean error", f"in units of {target.name}") if target.is_number else ("balanced accuracy", "%")
    drawn = drawing(
        "adaptation",
        f"How the {what} of {data.method} at held-out {data.unit}s changes by what is taken from the new {data.unit}, "
        f"with 95 % intervals; dashed: no change. Right: without and with it, {unit}, for the same people.",
        display,
    )
    sentence = _sentence_on_number(rows, target) if target.is_number else _sentence(rows)
    columns = [
        Column("adaptation", f"Taken from the {data.unit}", lambda name: taken(name, target)),
        Column("n_sites", "Sites"),
        *(_NUMBER_COLUMNS if target.is_number else _COLUMNS),
    ]
    html = render(
        "adaptation.html",
        sentence=sentence,
        figure=inline(drawn),
        table=table(rows, columns, "adaptation", f"{data.method} without and with people of the new {data.unit}"),
        unit=data.unit,
        target=target,
    )
    return Section("adaptation", TITLE, html, (drawn,), gist=sentence)


def _sentence(rows: pd.DataFrame) -> str:
    parts = [
        f"{100 * row.gain:+.1f} points with {taken(row.adaptation)} ({counted(row.n_sites, 'site', 'sites')})"
        for row in rows.itertuples()
        if row.adaptation != STRICT
    ]
    sure = [taken(name) for name in rows[rows["gain_low"] > 0]["adaptation"]]
    beyond = f"Beyond chance: {', '.join(sure)}." if sure else "None of these is beyond chance."
    return f"Balanced accuracy changes by {', '.join(parts)}. {beyond}"


def _sentence_on_number(rows: pd.DataFrame, target: Target) -> str:
    """What people of known value bring: the errors of the others, and whether that is beyond chance."""
    mended = rows[rows["adaptation"] != STRICT]
    if not mended["gain"].any():
        return f"People of known {target.name} change nothing at a new site: {NOTHING_TO_MEND}."
    parts = [
        f"from {amount(row.strict_mae)} to {amount(row.mae)} with {taken(row.adaptation, target)} "
        f"({counted(row.n_sites, 'site', 'sites')})"
        for row in mended.itertuples()
    ]
    sure = [taken(name, target) for name in mended[mended["gain_high"] < 0]["adaptation"]]
    beyond = f"Smaller beyond chance: {', '.join(sure)}." if sure else "None of these is smaller beyond chance."
    return f"The mean error of the others at a new site goes {', '.join(parts)}. {beyond}"
