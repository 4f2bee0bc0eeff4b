"""From which commands, data, seeds and versions every figure here comes, and what is missing."""

from brainroam.report.data import ReportData
from brainroam.report.facts import gather_facts
from brainroam.report.page import render
from brainroam.report.section import Section


def provenance_section(data: ReportData) -> Section:
    """Enough to make the report again."""
    html = render(
        "provenance.html", data=data, study=data.study, facts=gather_facts(data), n_finished=len(data.finished)
    )
    return Section("provenance", "Provenance", html)
