"""How would it do at my site: the prediction interval, the range of sites it holds for, what more data would bring."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup
from matplotlib.axes import Axes

from brainroam import __version__
from brainroam.data.target.figures import AREA, CORRELATION
from brainroam.errors import DataError
from brainroam.evaluation.planning.draws import MIN_SITES
from brainroam.evaluation.planning.plan import Plan
from brainroam.evaluation.run_records import plain
from brainroam.methods.registry import bare_name
from brainroam.report.data import ReportData
from brainroam.report.figures import (
    BLUE,
    GREY,
    ORANGE,
    SKY,
    VERMILION,
    NotebookDisplay,
    axes_for,
    drawing,
    inline,
    write,
)
from brainroam.report.page import Drawing, Section, missing, render
from brainroam.report.tables import Column, table
from brainroam.utils.files import write_csv, write_text

CAPTION = (
    "Mean AUC (of a number the correlation within sites) at left-out sites of smaller studies drawn from this one, by "
    "the number of training sites and the share of their people; line and band: the fitted law and its 95 % interval, "
    "dashed beyond what was measured."
)
MARKERS = {1.0: ("o", BLUE), 0.5: ("s", ORANGE), 0.25: ("^", SKY)}


@dataclass
class LearningCurveDisplay(NotebookDisplay):
    """Mean AUC, or r of a number, at left-out sites over the number of training sites, with the curve and 95 % band.

    Parameters
    ----------
    points : DataFrame
        ``n_sites``, ``share`` (of each training site's people) and ``auc``, or ``r``: what was measured.
    curve : DataFrame
        ``n_sites``, ``auc`` or ``r``, ``low`` and ``high``: the law, up to twice the sites there are.
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
            facts = plan.to_dict()
        elif isinstance(plan, dict):
            facts = plan
        else:
            file = Path(plan) / "plan.json" if Path(plan).is_dir() else Path(plan)
            facts = json.loads(file.read_text(encoding="utf-8"))
        if not facts.get("curve"):
            raise DataError("this plan has no learning curve, only a comparison; make one with: brainroam plan DATA")
        return cls(pd.DataFrame(facts["points"]), pd.DataFrame(facts["curve"]), facts["n_sites"], facts["method"])

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches that suit it."""
        return 5.6, 3.7

    def plot(self, ax: Axes | None = None) -> "LearningCurveDisplay":
        """Draw it, on these axes or on new ones."""
        self.ax_ = ax = axes_for(ax, self.size)
        figure = next(one for one in (AREA, CORRELATION) if one.name in self.points)
        sites, curve, measured = self.curve["n_sites"], self.curve[figure.name], self.points[figure.name]
        low, high = self.curve["low"], self.curve["high"]
        ax.fill_between(sites, low, high, color=GREY, alpha=0.18, linewidth=0, label="95 % interval")
        for part, line, name in ((sites <= self.n_sites, "-", None), (sites >= self.n_sites, (0, (3, 2)), "expected")):
            ax.plot(sites[part], curve[part], color=VERMILION, linewidth=2, linestyle=line, label=name)
        for share, here in self.points.sort_values("share", ascending=False).groupby("share", sort=False):
            marker, colour = MARKERS[share]
            name = "all their people" if share == 1 else f"{100 * share:.0f} % of their people"
            ax.scatter(here["n_sites"], here[figure.name], s=30, marker=marker, color=colour, zorder=3, label=name)
        ax.axhline(figure.chance, color=GREY, linewidth=1, linestyle=(0, (4, 3)))
        ax.set(
            xlabel="Training sites",
            ylabel=f"Mean {figure.head} of {self.method}",
            xlim=(0, sites.max() + 0.5),
        )
        ax.set_ylim(
            min(figure.chance, measured.min()) - 0.02, max(self.curve["high"].max(), figure.chance + 0.2) + 0.02
        )
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3, frameon=False, fontsize=8.5)
        return self


RANGES = {
    "n": ("People at the site", "{:.0f}"),
    "share": ("Share with the condition", "{:.2f}"),
    "age_mean": ("Mean age, years", "{:.1f}"),
    "male": ("Share male", "{:.2f}"),
    "mean_fd_mean": ("Mean motion (FD), mm", "{:.2f}"),
    "volumes_median": ("Volumes", "{:.0f}"),
    "tr": ("TR, s", "{:.2f}"),
}


def next_site_section(data: ReportData) -> Section:
    """The prediction interval, and the range of sites it speaks for."""
    if data.protocol == "cv" or math.isnan(data.summary.next_low):
        return Section("next-site", "The next site", render("no_next_site.html", unit=data.unit))
    sites = pd.DataFrame(data.study["sites"])
    if "probability" in data.results.predictions:
        sites["share"] = sites["n_cases"] / sites["n"]
    if "n_male" in sites:
        sites["male"] = sites["n_male"] / sites["n_sex_known"]
    rows = pd.DataFrame(
        {"what": name, "low": show.format(sites[key].min()), "middle": show.format(sites[key].median()),
         "high": show.format(sites[key].max())}
        for key, (name, show) in RANGES.items() if key in sites and sites[key].notna().any()
    )  # fmt: skip
    columns = [
        Column("what", "Of a site"),
        Column("middle", "Median"),
        Column("least", "Lowest"),
        Column("high", "Highest"),
    ]
    rows = rows.rename(columns={"low": "least"})
    html = render(
        "next_site.html",
        summary=data.summary,
        n=len(data.site_aucs),
        unit=data.unit,
        head=data.figure.head,
        method=data.method,
        words=data.words,
        ranges=table(rows, columns, "ranges", f"What the {len(sites)} sites of this study are like: is yours?"),
    )
    low, high = data.summary.next_low, data.summary.next_high
    gist = (
        f"The true {data.figure.head} of {data.method} at {data.next_place} is expected between {low:.2f} and "
        f"{high:.2f}, if it is one like these {len(data.site_aucs)}."
    )
    return Section("next-site", f"The next {data.unit}", html, gist=gist)


TITLE = "More sites, or more people"


def plan_section(data: ReportData) -> Section:
    """The learning curve and its sentences; where there is no plan, the command that makes one."""
    if data.plan is None:
        if len(data.study["sites"]) < MIN_SITES or data.method in data.from_files:
            return Section("plan", TITLE, Markup())
        command = data.command("plan", f"--methods {bare_name(data.method)}", out=f"{data.shell_path}/plan")
        return missing("plan", TITLE, "What more sites or more people would bring", command)
    drawn: tuple[Drawing, ...] = ()
    if data.plan["curve"]:
        drawn = (drawing("learning_curve", CAPTION, LearningCurveDisplay.from_plan(data.plan)),)
    html = render(
        "plan_section.html",
        plan=data.plan,
        figure=inline(drawn[0]) if drawn else "",
        other_data=data.plan.get("manifest_hash") != data.study["manifest_hash"],
    )
    return Section("plan", TITLE, html, drawn)


def write_plan(plan: Plan, folder: Path, command: str = "") -> list[Path]:
    """Write ``plan.json``, ``plan.md``, ``plan.html`` and, of a learning curve, its draws and picture."""
    content = plain({"command": command, "version": __version__, **plan.to_dict()})
    paths = [write_text(folder / "plan.json", json.dumps(content, indent=1, ensure_ascii=False) + "\n")]
    picture = None
    if plan.law is not None:
        paths.append(write_csv(folder / "learning_curve.csv", plan.table))
        picture = drawing("learning_curve", CAPTION, LearningCurveDisplay.from_plan(plan))
        paths += write(picture, folder)
    lines = [f"# Plan for {plan.method}", "", *(f"- {line}" for line in [*plan.sentences, *plan.notes])]
    if picture is not None:
        lines += ["", f"![{CAPTION}](learning_curve.png)"]
    lines += ["", *(f"{name}: {value}  " for name, value in {"command": command, **plan.facts}.items() if value != "")]
    paths.append(write_text(folder / "plan.md", "\n".join(lines) + "\n"))
    page = render(
        "plan.html",
        plan=plan,
        command=command,
        version=__version__,
        figure=inline(picture) if picture is not None else "",
    )
    return [*paths, write_text(folder / "plan.html", page + "\n")]
