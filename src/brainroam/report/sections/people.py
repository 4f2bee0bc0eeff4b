"""Who was analysed: the flow of participants and a table of the sites."""

import re
from collections.abc import Mapping
from typing import Any

import pandas as pd

from brainroam.data.people import persons
from brainroam.report.data import ReportData
from brainroam.report.page import Section, render
from brainroam.report.tables import Column, fixed, table


def people_section(data: ReportData) -> Section:
    """Participants."""
    sites = pd.DataFrame(data.study["sites"])
    excluded = pd.DataFrame(data.study["excluded"], columns=["subject", "reason"])
    html = render(
        "people.html",
        n=len(data.everybody),
        n_scans=len(data.participants),
        flow=data.target.flow(data.everybody["label"]) if len(data.everybody) else "",
        n_sites=len(sites),
        n_excluded=len(excluded),
        reasons=_reasons(excluded["reason"]),
        atlas=data.study["atlas"],
        words=data.words,
        lacking=_lacking(data.study),
        sites=_site_table(sites, data),
        excluded=table(
            excluded,
            [Column("subject", "Person"), Column("reason", "Reason")],
            "excluded",
            "Everybody who was left out, and why",
        ),
        method=data.method,
        held_out=_held_out(data),
    )
    return Section("people", "Participants", html)


def _lacking(study: Mapping[str, Any]) -> str:
    """How many people have each of several blocks, where somebody lacks one."""
    have = {name: words.get("n") for name, words in study.get("measured", {}).items()}
    if len(have) < 2 or len(set(have.values())) == 1:
        return ""
    each = ", ".join(f"{n} have {name}" for name, n in have.items())
    return f"Of them {each}; who lacks a block is predicted from the others."


def _held_out(data: ReportData) -> int:
    rows = data.results.predictions
    return persons(rows[(rows["method"] == data.method) & (rows["protocol"] == data.protocol)]).nunique()


def _site_table(sites: pd.DataFrame, data: ReportData):
    labels = data.target.describe(data.everybody) if len(data.everybody) else pd.DataFrame(index=sites["site"])
    frame = sites.join(labels, on="site")
    columns = [Column("site", "Site"), Column("n", "People"), *(Column(head, head, _short) for head in labels)]
    if (frame["n_scans"] > frame["n"]).any():
        columns.insert(2, Column("n_scans", "Scans"))
    if "n_male" in frame:
        frame["male"] = frame["n_male"] / frame["n_sex_known"]
        columns.append(Column("male", "Share male", fixed(2)))
    if "age_mean" in frame:
        columns += [Column("age_mean", "Age, mean (SD)", _mean_sd, of_row=True)]
        columns += [Column("age_min", "Age range", _range("age"), of_row=True)]
    if "mean_fd_mean" in frame:
        columns.append(Column("mean_fd_mean", "Mean FD, mm", fixed(2)))
    if "volumes_median" in frame:
        columns.append(Column("volumes_median", "Volumes", _volumes, of_row=True))
    if "tr" in frame:
        columns.append(Column("tr", "TR, s", fixed(2)))
    return table(frame, columns, "sites", "The sites: who was analysed at each of them")


def _short(value: float) -> str:
    """A count, or a number with two digits."""
    return f"{value:.0f}" if float(value).is_integer() else f"{value:.2f}"


def _mean_sd(row: dict) -> str:
    spread = "" if pd.isna(row["age_sd"]) else f" ({row['age_sd']:.1f})"
    return f"{row['age_mean']:.1f}{spread}"


def _range(name: str):
    return lambda row: f"{row[f'{name}_min']:.0f} to {row[f'{name}_max']:.0f}"


def _volumes(row: dict) -> str:
    if row["volumes_min"] == row["volumes_max"]:
        return f"{row['volumes_median']:.0f}"
    return f"{row['volumes_median']:.0f} ({_range('volumes')(row)})"


def _reasons(reasons: pd.Series) -> list[tuple[str, int]]:
    """Reasons that differ in figures only are one, told by its first."""
    kinds: dict[str, list[str]] = {}
    for reason in map(str, reasons):
        kinds.setdefault(re.sub(r"\d+(\.\d+)?", "", reason), []).append(reason)
    commonest = sorted(kinds.values(), key=len, reverse=True)
    return [(alike[0] if len(alike) == 1 else f"for example {alike[0]}", len(alike)) for alike in commonest]
