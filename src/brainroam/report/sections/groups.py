"""For whom does it work: results by sex, age and motion, pooled and at every site, and a test that allows for sites."""

import pandas as pd

from brainroam.evaluation.stats.groups import group_tests
from brainroam.report.data import ReportData
from brainroam.report.displays.axes import drawing
from brainroam.report.displays.groups import GroupDisplay
from brainroam.report.figures import inline
from brainroam.report.page import render
from brainroam.report.section import Section
from brainroam.report.tables import Column, fixed, interval, p_value, table

SIGNED = "{:+.3f}".format


def groups_section(data: ReportData) -> Section:
    """Results of the method of the report by group; nothing where no covariate is known."""
    if data.protocol == "cv" or data.groups.empty or data.groups["auc"].isna().all():
        return Section("groups", "For whom", "")
    tests = group_tests(data.groups_by_site)
    drawn = drawing(
        "groups",
        f"AUC of {data.method} by sex and by thirds of age and motion of the whole cohort, with 95 % intervals; small "
        f"dots: single {data.unit}s, larger where more pairs are compared. Only people of the same {data.unit} are "
        "compared with each other.",
        GroupDisplay.from_results(data),
    )
    html = render(
        "groups.html",
        sentence=_sentence(tests, data),
        figure=inline(drawn),
        groups=table(data.groups, _columns(), "groups", f"{data.method} by sex, age and motion"),
        tests=table(tests, _test_columns(), "group-tests", f"{data.method}: the last group minus the first"),
        sites=table(
            data.groups_by_site,
            [Column("covariate", "By"), Column("group", "Group"), Column("site", data.unit.capitalize()), *_counts(),
             *_measures()],
            "groups-by-site",
            f"{data.method} by sex, age and motion at every held-out {data.unit}",
        ),
        unit=data.unit,
    )  # fmt: skip
    return Section("groups", "For whom", html, (drawn,))


def _sentence(tests: pd.DataFrame, data: ReportData) -> str:
    found = tests[tests["p_holm"] < 0.05]
    if found.empty:
        return (
            f"No difference between the groups is beyond chance when {data.unit}s are allowed for. With few people in "
            "a group that says little: see how wide the intervals are."
        )
    parts = [
        f"{row.measure if row.measure != 'auc' else 'AUC'} by {row.covariate} ({row.last} against {row.first}): "
        f"{row.gap:+.2f} ({row.low:+.2f} to {row.high:+.2f})"
        for row in found.itertuples()
    ]
    return f"Beyond chance, {data.unit}s allowed for, differ: " + "; ".join(parts) + "."


def _counts() -> list[Column]:
    return [Column("n", "People"), Column("n_cases", "Cases")]


def _measures() -> list[Column]:
    return [
        Column("auc", "AUC", fixed(3)),
        Column("low", "95 % interval", interval("low", "high"), of_row=True),
        Column("sensitivity", "Sensitivity", fixed(2)),
        Column("specificity", "Specificity", fixed(2)),
    ]


def _columns() -> list[Column]:
    names = [Column("covariate", "By"), Column("group", "Group")]
    return [*names, *_counts(), Column("n_sites", "Sites with both"), *_measures()]


def _test_columns() -> list[Column]:
    return [
        Column("covariate", "By"),
        Column("last", "Group"),
        Column("first", "Against"),
        Column("measure", "Of"),
        Column("gap", "Difference", SIGNED),
        Column("low", "95 % interval", interval("low", "high"), of_row=True),
        Column("p", "p", p_value),
        Column("p_holm", "p, corrected", p_value),
    ]
