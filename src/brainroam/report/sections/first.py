"""The first screen: the verdict in plain words, the picture of every held-out site, and what to worry about."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from brainroam.data.target.figures import AREA, Figure
from brainroam.evaluation.results import Results
from brainroam.methods.registry import bare_name, parse_name
from brainroam.report.concerns import MOST, concerns
from brainroam.report.data import CONFOUNDS, PLAIN, ReportData, Source, Summary, read_data
from brainroam.report.figures import (
    BLUE,
    GREEN,
    GREY,
    INK,
    RULE,
    VERMILION,
    NotebookDisplay,
    add_row_tips,
    axes_for,
    drawing,
    inline,
    people_frame,
    shorten,
)
from brainroam.report.page import Missing, Section, render
from brainroam.report.sections.verdict import judge_result
from brainroam.report.tables import span

SUBJECT = "scores"
PHONE = 3.5  # inches: as wide as a phone shows without shrinking the text


@dataclass
class SiteForestDisplay(NotebookDisplay):
    """Forest plot of one method over held-out sites: its AUC, or its correlation with a number.

    Parameters
    ----------
    sites : DataFrame
        ``site``, ``n``, the figure (``auc``, ``r``), ``low`` and ``high``, in the order to draw.
    summary : Summary
        Mean over sites, its interval, and the interval of the next site.
    references : dict of str to float
        Means of other methods, drawn as lines.
    unit : str
        What was held out.
    figure : Figure
        What is drawn.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Once plotted.

    Examples
    --------
    >>> import brainroam
    >>> from brainroam.report import SiteForestDisplay
    >>> cohort = brainroam.make_cohort(n_sites=4, n_per_site=12, n_rois=10)
    >>> results = brainroam.evaluate(cohort, ["fc-ridge"], tuning="fast")
    >>> display = SiteForestDisplay.from_results(results).plot()
    >>> display.sites["site"].tolist() == sorted(cohort.sites, key=display.sites["site"].tolist().index)
    True
    """

    sites: pd.DataFrame
    summary: Summary
    references: Mapping[str, float] = field(default_factory=dict)
    unit: str = "site"
    figure: Figure = AREA

    @classmethod
    def from_results(cls, results: Source, method: str | None = None) -> "SiteForestDisplay":
        """Of a folder of runs or of results; ``method`` as for `brainroam.report`."""
        data: ReportData = read_data(results, method)
        return cls(data.site_aucs, data.summary, data.references, data.unit, data.figure)

    @classmethod
    def from_predictions(cls, y_true: Sequence[int], y_score: Sequence[float], site: Sequence[Any]):
        """Of labels, scores and sites of people who were held out with their site."""
        people = people_frame(site, y_true, score=y_score)
        people["subject"] = [f"{i:09d}" for i in range(len(people))]
        rows = people.assign(method=SUBJECT, protocol="loso", seed=0, probability=np.nan)
        from brainroam.evaluation.stats.site_scores import gather

        gathered = gather(rows, "loso")
        runs = [
            {"method": SUBJECT, "protocol": "loso", "site": name, "seed": 0, "auc": value}
            for name, value in zip(gathered.sites, gathered.values[:, 0], strict=True)
        ]
        scores = pd.DataFrame([*runs, *(runs[0] | {"site": s, "auc": np.nan} for s in gathered.without)])
        data = ReportData(Results(scores, rows, {"commands": [], "sites": []}), SUBJECT, "loso")
        sites = gathered.intervals(gathered.methods[0])
        return cls(sites, data.summary)

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches that suit it."""
        n = len(self.sites)
        return 5.6, (0.27 if n <= 12 else 0.205) * max(n, 3) + 1.1

    def plot(self, ax: Axes | None = None) -> "SiteForestDisplay":
        """Draw it, on these axes or on new ones."""
        self.ax_ = ax = axes_for(ax, self.size)
        sites, summary = self.sites, self.summary
        at = np.arange(len(sites))[::-1]
        top = len(sites) - 0.4
        if np.isfinite(summary.next_low):
            ax.axvspan(summary.next_low, summary.next_high, color=VERMILION, alpha=0.24, linewidth=0)
        ax.axvline(self.figure.chance, color=GREY, linewidth=1, linestyle=(0, (4, 3)))
        for value in self.references.values():
            ax.axvline(value, color=GREEN, linewidth=1.4, linestyle=(0, (1, 1.5)))
        if np.isfinite(summary.low):
            ax.hlines(-0.5, summary.low, summary.high, color=VERMILION, linewidth=4)
        if np.isfinite(summary.mean):
            ax.axvline(summary.mean, color=VERMILION, linewidth=1.8)
        ax.hlines(at, sites["low"], sites["high"], color=INK, linewidth=1)
        size = 12 + 55 * sites["n"] / max(sites["n"].max(), 1) if len(sites) else []
        ax.scatter(sites[self.figure.name], at, s=size, marker="s", color=BLUE, zorder=3)
        names = [f"{shorten(str(row.site), 18)} ({row.n})" for row in sites.itertuples()]
        ax.set_yticks(at, names, fontsize=8.5)
        ax.text(-0.02, len(sites) - 0.45, f"{self.unit} (people)", transform=ax.get_yaxis_transform(), ha="right",
                fontsize=7.5, color=GREY)  # fmt: skip
        ax.text(
            1.015, len(sites) - 0.45, self.figure.head, transform=ax.get_yaxis_transform(), fontsize=7.5, color=GREY
        )
        for y, value in zip(at, sites[self.figure.name], strict=True):
            ax.text(1.015, y, f"{value:.2f}", transform=ax.get_yaxis_transform(), va="center", fontsize=8.5)
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)
        ax.spines["bottom"].set_color(RULE)
        ax.set_ylim(-0.6, top)
        # Everything that is drawn is seen to its end.
        ends = np.array([self.figure.chance - 0.15, *sites["low"], summary.low, summary.next_low])
        ax.set_xlim(max(float(np.nanmin(ends)) - 0.02, self.figure.span[0]), 1.0)
        ax.set_xlabel(self.figure.axis)
        self._legend(ax)
        add_row_tips(ax, {float(y): self._tip(row) for y, row in zip(at, sites.to_dict("records"), strict=True)})
        return self

    def _tip(self, row: dict[str, Any]) -> str:
        """The tooltip of a site."""
        cases = f", {row['n_cases']} with the condition" if "n_cases" in row else ""
        value = f"{self.figure.head} {row[self.figure.name]:.2f} ({span(row['low'], row['high'])})"
        return f"{row['site']}: {value}, {row['n']} people{cases}"

    def _legend(self, ax: Axes) -> None:
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch
        from matplotlib.transforms import ScaledTranslation, blended_transform_factory

        summary = self.summary
        handles: list[Artist] = [Line2D([], [], color=GREY, linestyle=(0, (4, 3)), linewidth=1, label="guessing")]
        if np.isfinite(summary.mean):
            text = f"mean {summary.mean:.2f}"
            text += "" if np.isnan(summary.low) else f" ({span(summary.low, summary.high)})"
            handles.append(Line2D([], [], color=VERMILION, linewidth=1.8, label=text))
        if np.isfinite(summary.next_low):
            text = f"next {self.unit} {span(summary.next_low, summary.next_high)}"
            handles.append(Patch(color=VERMILION, alpha=0.24, linewidth=0, label=text))
        for name, value in self.references.items():
            line = Line2D([], [], color=GREEN, linestyle=(0, (1, 1.5)), linewidth=1.4)
            line.set_label(f"plain ridge {value:.2f}" if name == "fc-ridge" else f"{name} {value:.2f}")
            handles.append(line)
        above = ax.transAxes + ScaledTranslation(0, 0.2, ax.figure.dpi_scale_trans)
        corner = blended_transform_factory(ax.figure.transFigure, above)  # from the left edge, whatever names of sites
        spacing: dict[str, Any] = {"columnspacing": 0.9, "handlelength": 1.3, "handletextpad": 0.4, "borderpad": 0}
        spacing |= {"bbox_to_anchor": (0.01, 1), "bbox_transform": corner}
        ax.legend(handles=handles, loc="lower left", ncols=2, fontsize=8, frameon=False, **spacing)


def first_section(data: ReportData) -> Section:
    """What a reader sees without scrolling."""
    bands = "" if data.protocol == "cv" else f"; band: where {data.next_place} is expected"
    picture = drawing(
        "forest",
        f"{data.figure.head} of {data.method} at each held-out {data.unit} with its 95 % interval; in brackets how "
        f"many people it had. Line and stroke below: mean and its 95 % interval{bands}.",
        SiteForestDisplay.from_results(data),
        narrow=PHONE,
    )
    reasons = concerns(data)
    gaps = []
    if data.check is None and not data.only_files:
        what = (
            "Duplicates, short scans, dead regions" if data.words.has_time else "Duplicates, other units, missing data"
        )
        gaps.append(Missing(what, data.command("check", out=_beside(data, "check"))))
    if data.audit is None and not data.only_files:
        gaps.append(Missing("A search for leaks and shortcuts", data.command("audit", out=_beside(data, "audit"))))
    html = render(
        "first.html",
        sentences=plain_sentences(data),
        judgement=judge_result(data),
        figure=inline(picture),
        concerns=reasons[:MOST],
        more=max(len(reasons) - MOST, 0),
        looked=[name for name in ("check", "audit") if data.only_files or getattr(data, name) is not None],
        unknowns=data.file_unknowns,
        unfinished=len(data.study["missing"]) + len(data.study["failed"]),
    )
    return Section("verdict", "The short answer", html, (picture,), tuple(gaps))


def plain_sentences(data: ReportData) -> list[str]:
    """The verdict for somebody who does not know the figure, and beside it what simple methods reach."""
    pairs = data.comparison.class_pairs
    sentences = data.target.verdict(data.headline, pairs[pairs["method"] == data.method], data.place)
    text = ""
    if data.references:
        plain = data.target.plainly(data.references[PLAIN])
        part = "blocks" in parse_name(bare_name(data.method))[1]
        same = "all blocks" if part else f"the same {data.words.all_features}"
        text += f" Plain ridge regression ({PLAIN}) on {same} reaches {plain}."
    alone = data.mean_beside(data.beside(CONFOUNDS)) if data.against(CONFOUNDS) else math.nan
    if not math.isnan(alone):
        text += f" Covariates alone ({CONFOUNDS}), without the brain, reach {data.target.plainly(alone)}."
    if math.isnan(data.summary.next_low):
        return sentences
    return [*sentences[:-1], sentences[-1] + text]


def _beside(data: ReportData, name: str) -> str:
    return f"{data.shell_path}/{name}.json"
