"""For whom does it work: results by sex, age and motion, pooled and at every site, and a test that allows for sites."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.axes import Axes

from brainroam.errors import DataError
from brainroam.evaluation.stats.groups import group_tests
from brainroam.report.data import ReportData, Source, read_data
from brainroam.report.figures import BLUE, GREY, INK, VERMILION, NotebookDisplay, axes_for, drawing, inline
from brainroam.report.page import Section, render
from brainroam.report.tables import Column, fixed, interval, p_value, span, table

SIGNED = "{:+.2f}".format
MEASURE = {"auc": "AUC", "sensitivity": "sensitivity", "specificity": "specificity"}


@dataclass
class GroupDisplay(NotebookDisplay):
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


def groups_section(data: ReportData) -> Section:
    """Results of the method of the report by group; nothing where no covariate is known."""
    if data.protocol == "cv" or data.groups.empty or data.groups["auc"].isna().all():
        return Section("groups", "For whom", Markup(""))
    tests = group_tests(data.groups_by_site)
    sentence = _sentence(tests, data)
    drawn = drawing(
        "groups",
        f"AUC of {data.method} by sex and by thirds of age and motion of the whole cohort, with 95 % intervals; small "
        f"dots: single {data.unit}s, larger where more pairs are compared. Only people of the same {data.unit} are "
        "compared with each other.",
        GroupDisplay.from_results(data),
    )
    html = render(
        "groups.html",
        sentence=sentence + _without(data.groups),
        figure=inline(drawn),
        groups=table(data.groups, _columns(), "groups", f"{data.method} by sex, age and motion"),
        tests=table(tests, _test_columns(), "group-tests", f"{data.method}: the last group minus the first"),
        sites=table(
            data.groups_by_site,
            [_group("Group", "group"), Column("site", data.unit.capitalize()), *_counts(), *_measures()],
            "groups-by-site",
            f"{data.method} by sex, age and motion at every held-out {data.unit}",
        ),
        unit=data.unit,
    )  # fmt: skip
    return Section("groups", "For whom", html, (drawn,), gist=sentence)


def _sentence(tests: pd.DataFrame, data: ReportData) -> str:
    significant = tests[tests["p_holm"] < 0.05]
    if significant.empty:
        return (
            f"No difference between the groups is beyond chance ({data.unit}s are the unit of the test). With few "
            "people in a group that says little: see how wide the intervals are."
        )
    parts = [
        f"the {MEASURE[row.measure]} is {'higher' if row.gap > 0 else 'lower'} for "
        f"{_group_name(row.covariate, row.last)} than for {_group_name(row.covariate, row.first)}, by "
        f"{abs(row.gap):.2f} (95 % interval {_size(row)})"
        for row in significant.itertuples()
    ]
    return f"Beyond chance ({data.unit}s are the unit of the test), " + "; ".join(parts) + "."


def _without(groups: pd.DataFrame) -> str:
    """Which groups have no interval, and why."""
    lacking = groups[groups["reason"] != ""].groupby("reason", sort=False)
    return "".join(
        f" {', '.join(_group_name(row.covariate, row.group) for row in rows.itertuples())}: {reason}."
        for reason, rows in lacking
    )


def _size(row: Any) -> str:
    """The interval of the size of a gap, whatever its sign."""
    return span(*sorted((abs(row.low), abs(row.high))))


def _counts() -> list[Column]:
    return [Column("n", "People"), Column("n_cases", "With the condition")]


def _measures() -> list[Column]:
    return [
        Column("auc", "AUC", fixed(2)),
        Column("low", "95 % interval", interval("low", "high"), of_row=True),
        Column("sensitivity", "Sensitivity", fixed(2)),
        Column("specificity", "Specificity", fixed(2)),
    ]


def _columns() -> list[Column]:
    return [_group("Group", "group"), *_counts(), Column("n_sites", "Sites with both"), *_measures()]


def _group(heading: str, key: str) -> Column:
    """A column of groups, each with its covariate; a sex needs none."""
    return Column(key, heading, lambda row: _group_name(row["covariate"], row[key]), of_row=True)


def _group_name(covariate: str, group: str) -> str:
    name = group if covariate == "sex" else f"{covariate} {group}"
    return name.replace(" ", "\N{NO-BREAK SPACE}")


def _test_columns() -> list[Column]:
    return [
        _group("Group", "last"),
        _group("minus", "first"),
        Column("measure", "Measure", MEASURE.__getitem__),
        Column("gap", "Difference", SIGNED),
        Column("low", "95 % interval", interval("low", "high"), of_row=True),
        Column("p", "p", p_value),
        Column("p_holm", "p, corrected", p_value),
    ]
