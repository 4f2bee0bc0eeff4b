"""For whom does it work: results by sex, age and motion, pooled and at every site, and a test that allows for sites."""

from typing import Any

import pandas as pd
from markupsafe import Markup

from brainroam.evaluation.stats.groups import group_tests
from brainroam.report.data import ReportData
from brainroam.report.displays.axes import drawing
from brainroam.report.displays.groups import GroupDisplay
from brainroam.report.figures import inline
from brainroam.report.page import render
from brainroam.report.section import Section
from brainroam.report.tables import Column, fixed, interval, p_value, span, table

SIGNED = "{:+.2f}".format
MEASURE = {"auc": "AUC", "sensitivity": "sensitivity", "specificity": "specificity"}


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
    found = tests[tests["p_holm"] < 0.05]
    if found.empty:
        return (
            f"No difference between the groups is beyond chance ({data.unit}s are the unit of the test). With few "
            "people in a group that says little: see how wide the intervals are."
        )
    parts = [
        f"the {MEASURE[row.measure]} is {'higher' if row.gap > 0 else 'lower'} for {_named(row.covariate, row.last)} "
        f"than for {_named(row.covariate, row.first)}, by {abs(row.gap):.2f} (95 % interval {_size(row)})"
        for row in found.itertuples()
    ]
    return f"Beyond chance ({data.unit}s are the unit of the test), " + "; ".join(parts) + "."


def _without(groups: pd.DataFrame) -> str:
    """Which groups have no interval, and why."""
    lacking = groups[groups["reason"] != ""].groupby("reason", sort=False)
    return "".join(
        f" {', '.join(_named(row.covariate, row.group) for row in rows.itertuples())}: {reason}."
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
    """A group with what it is a group of; a sex says so itself."""
    return Column(key, heading, lambda row: _named(row["covariate"], row[key]), of_row=True)


def _named(covariate: str, group: str) -> str:
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
