"""May I use a few people of my own: what they bring to decisions, or to predictions of a number, at held-out sites."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.axes import Axes

from brainroam.data.target import TWO_CLASSES, Target
from brainroam.data.target.shifts import STRICT
from brainroam.errors import DataError, counted
from brainroam.evaluation.next_site import CONTROLS, adaptation_summary, adapted, kept_next_site
from brainroam.report.data import ReportData, Source, read_data
from brainroam.report.figures import BLUE, GREY, INK, VERMILION, NotebookDisplay, axes_for, drawing, inline
from brainroam.report.page import Section, render
from brainroam.report.tables import Column, interval, table

TITLE = "A few people of the new site"


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
        return cls(adaptation_summary(adapted(runs, CONTROLS), data.results.target), data.method, data.results.target)

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches that suit it."""
        return 6.2, 0.42 * len(self.protocols) + 0.9

    def plot(self, ax: Axes | None = None) -> "AdaptationDisplay":
        """Draw it, on these axes or on new ones."""
        self.ax_ = ax = axes_for(ax, self.size)
        rows = self.protocols[self.protocols["adaptation"] != STRICT]
        at = -np.arange(len(rows), dtype=float)
        about = self.target.adaptation
        if about is None:
            raise DataError(f"runs do not try what people of a new site bring where {self.target.name} is predicted")
        main, parts = about.main, about.points
        strict, found = (parts * rows[name].to_numpy(dtype=float) for name in (f"strict_{main}", main))
        gain, low, high = (parts * rows[name].to_numpy(dtype=float) for name in ("gain", "gain_low", "gain_high"))
        ax.axvline(0, color=GREY, linewidth=1, linestyle=(0, (4, 3)))
        ax.hlines(at, low, high, color=INK, linewidth=1.4)
        ax.scatter(gain, at, s=34, color=np.where(about.sign * gain > 0, VERMILION, BLUE), zorder=4)
        reach = max(about.narrowest(strict), 1.1 * np.nanmax(np.abs([gain, low, high])))
        ax.set_xlim(-reach, reach)
        names = [
            f"{about.in_words(row.adaptation)} ({counted(row.n_sites, 'site', 'sites')})" for row in rows.itertuples()
        ]
        ax.set_yticks(at, names, fontsize=8.5)
        for y, before, after in zip(at, strict, found, strict=True):
            text = f"{about.form(before)} \N{RIGHTWARDS ARROW} {about.form(after)}"
            ax.text(1.015, float(y), text, transform=ax.get_yaxis_transform(), va="center", fontsize=8.5)
        ax.tick_params(axis="y", length=0)
        ax.set_ylim(at.min() - 0.6, 0.6)
        ax.set_xlabel(f"Change in the {about.word} of {self.method}, {about.unit}")
        return self


def adaptation_section(data: ReportData) -> Section:
    """What decisions or errors are by protocol; nothing for runs that do not keep the level of sites."""
    about = data.results.target.adaptation
    if about is None or not kept_next_site(data.finished, data.method):
        return Section("adaptation", TITLE, Markup(""))
    display = AdaptationDisplay.from_results(data)
    rows = display.protocols
    if len(rows) < 2:
        return Section("adaptation", TITLE, Markup(""))
    drawn = drawing(
        "adaptation",
        f"How the {about.word} of {data.method} at held-out {data.unit}s changes by what is taken from the new "
        f"{data.unit}, with 95 % intervals; dashed: no change. Right: without and with it, {about.scale}, for the same "
        "people.",
        display,
    )
    sentence = about.sentence(rows)
    columns = [
        Column("adaptation", f"Taken from the {data.unit}", about.in_words),
        Column("n_sites", "Sites"),
        *(Column(*head) for head in about.before),
        Column(
            "gain_low", "95 % interval of the difference", interval("gain_low", "gain_high", about.digits), of_row=True
        ),
        *(Column(*head) for head in about.after),
    ]
    html = render(
        "adaptation.html",
        sentence=sentence,
        figure=inline(drawn),
        table=table(rows, columns, "adaptation", f"{data.method} without and with people of the new {data.unit}"),
        unit=data.unit,
        about=about,
    )
    return Section("adaptation", TITLE, html, (drawn,), gist=sentence)
