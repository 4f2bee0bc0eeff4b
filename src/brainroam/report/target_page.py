"""The page of a study of a number or of several classes; `number_page` and `class_page` say what is on it."""

from pathlib import Path

from markupsafe import Markup

from brainroam import __version__
from brainroam.data.people import people_and_scans
from brainroam.evaluation.results import Results, compare
from brainroam.evaluation.stats.families import subject
from brainroam.report.class_page import class_content
from brainroam.report.data import ReportData
from brainroam.report.figures import inline, write
from brainroam.report.number_page import number_content
from brainroam.report.page import render
from brainroam.report.sections.audit import audit_section, check_section
from brainroam.report.sections.next_site import plan_section
from brainroam.utils.files import write_text


def write_target_page(
    results: Results,
    out: str | Path,
    figures: str | Path | None = None,
    method: str | None = None,
    name: str | None = None,
) -> Path:
    """Write the report as one HTML file; the sections that are about the AUC of two classes are left out."""
    target = results.target
    chosen = method or subject(results.scores["method"].unique())
    comparison = compare(results)
    if target.is_number:
        sites, drawings, tables = number_content(results, chosen)
    else:
        sites, drawings, tables = class_content(results, chosen, comparison)
    data = ReportData(results, chosen, str(comparison.table["protocol"].iloc[0]))
    beside = [audit_section(data)] if data.audit is not None or data.method_audits else []
    beside += [check_section(data)] if data.check is not None else []
    beside += [plan_section(data)] if data.plan is not None else []
    page = render(
        "numbers.html" if target.is_number else "classes.html",
        title=name or f"{target.name} at {len(sites)} sites",
        lines=[*(f"{row.method}: {row.verdict}" for row in comparison.table.itertuples()), *comparison.sentences],
        figure=Markup("").join(inline(drawing) for drawing in drawings),
        n_sites=len(sites),
        n_people=people_and_scans(results.predictions.drop_duplicates(["site", "subject"])),
        method=chosen,
        target=target,
        beside=beside,
        version=__version__,
        **tables,
    )
    if figures is not None:
        for drawing in drawings:
            write(drawing, figures)
    return write_text(out, page + "\n")
