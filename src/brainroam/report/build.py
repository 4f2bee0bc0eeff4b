"""Put the report together: sections in page order, one self-contained file, nothing fetched from anywhere."""

from collections.abc import Callable
from pathlib import Path

from brainroam import __version__
from brainroam.evaluation.splits import TITLES
from brainroam.report import brain, figures
from brainroam.report.data import ReportData, read_data
from brainroam.report.page import render
from brainroam.report.section import Section
from brainroam.report.sections.ablation import ablation_section
from brainroam.report.sections.audit import audit_section
from brainroam.report.sections.calibration import calibration_section
from brainroam.report.sections.comparison import comparison_section
from brainroam.report.sections.people import people_section
from brainroam.report.sections.provenance import provenance_section
from brainroam.report.sections.sensitivity import sensitivity_section
from brainroam.report.sections.sites import sites_section
from brainroam.report.sections.verdict import verdict_section
from brainroam.report.sections.writing import checklist_section, methods_section, model_card_section
from brainroam.utils.files import write_text

SECTIONS: tuple[Callable[[ReportData], Section], ...] = (
    verdict_section,
    people_section,
    sites_section,
    comparison_section,
    calibration_section,
    ablation_section,
    sensitivity_section,
    brain.scaffold_section,
    brain.gates_section,
    brain.embedding_section,
    audit_section,
    methods_section,
    checklist_section,
    model_card_section,
    provenance_section,
)


def report(
    runs: str | Path,
    out: str | Path = "report.html",
    figures: str | Path | None = None,
    method: str | None = None,
) -> Path:
    """Write what a reader of the study wants to see as one HTML file.

    Runs that are missing or failed are listed in it; sections whose runs do not exist name the command that adds them.

    Parameters
    ----------
    runs : path
        A folder of runs, as `brainroam.evaluate` writes it.
    out : path
        The HTML file; it needs nothing but itself.
    figures : path, optional
        A folder for the figures as PNG (300 dpi) and SVG.
    method : str, optional
        The method the report is about; by default the champion, or core, or the first that is no control.

    Returns
    -------
    Path
        Of the HTML file.

    Examples
    --------
    >>> import brainroam, tempfile
    >>> cohort = brainroam.make_cohort(n_sites=3, n_per_site=12, n_rois=10)
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = brainroam.evaluate(cohort, ["fc-ridge", "majority"], budget="fast", out=folder / "runs")
    >>> brainroam.report(folder / "runs", folder / "report.html").name
    'report.html'
    """
    data = read_data(runs, method)
    sections = [make(data) for make in SECTIONS]
    html = render(
        "page.html",
        title=f"{data.method} at {len(data.study['sites'])} sites",
        subtitle=_subtitle(data),
        sections=sections,
        data=data,
        version=__version__,
    )
    if figures is not None:
        write_figures(sections, figures)
    return write_text(out, html)


def _subtitle(data: ReportData) -> str:
    people, cases = (sum(site[key] for site in data.study["sites"]) for key in ("n", "n_cases"))
    title = TITLES[data.protocol].capitalize()
    return f"{title}: {people} people, {cases} with the condition; atlas {data.study['atlas']}"


def write_figures(sections: list[Section], folder: str | Path) -> list[Path]:
    """Write every drawing of these sections as PNG and SVG."""
    return [path for section in sections for drawing in section.drawings for path in figures.write(drawing, folder)]
