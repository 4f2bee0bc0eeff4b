"""What is wrong with the data: the findings of `brainroam check`."""

import pandas as pd

from brainroam.errors import counted, listed
from brainroam.report.concerns import findings
from brainroam.report.data import ReportData
from brainroam.report.page import render
from brainroam.report.section import Section
from brainroam.report.tables import Column, table


def check_section(data: ReportData) -> Section:
    """Findings, the gravest first; from the table of participants alone where nobody checked the series."""
    found = findings(data)
    keys = {"severity": "Severity", "site": "Site", "message": "Finding", "remedy": "What to do"}
    rows = pd.DataFrame([{key: str(item.get(key) or "") for key in keys} for item in found], columns=list(keys))
    rows["site"] = rows["site"].replace("", "all")
    columns = [Column("message", "Finding"), *(Column(k, h) for k, h in keys.items() if k != "message")]
    known = len(data.participants) > 0 or data.check is not None
    html = render(
        "check.html",
        table=table(rows, columns, "check", "What check found") if found else None,
        n=len(found),
        whole=data.check is not None,
        known=known,
        other_data=data.check is not None and data.check.get("manifest_hash") != data.study["manifest_hash"],
    )
    grave = [str(item.get("message")) for item in found if item.get("severity") in ("error", "warning")]
    gist = f"{counted(len(grave), 'warning', 'warnings')} about the data{': ' if grave else ''}{listed(grave, 2)}."
    return Section("check", "Checks of the data", html, gist=gist if known else "")
