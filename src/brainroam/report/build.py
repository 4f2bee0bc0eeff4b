"""Build the report: the reader's questions in order, in one self-contained file."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from brainroam import __version__
from brainroam.data.cohort import Cohort
from brainroam.data.people import people_and_scans
from brainroam.errors import listed
from brainroam.evaluation.results import Results
from brainroam.evaluation.splits import TITLES
from brainroam.report import figures
from brainroam.report.brain.people import embedding_section, gates_section
from brainroam.report.brain.scaffold import scaffold_section
from brainroam.report.data import ReportData, read_data
from brainroam.report.page import Section, render
from brainroam.report.sections.ablation import ablation_section, sensitivity_section
from brainroam.report.sections.adaptation import adaptation_section
from brainroam.report.sections.audit import audit_section, check_section, notes_section
from brainroam.report.sections.calibration import abstaining_section, calibration_section
from brainroam.report.sections.comparison import comparison_section
from brainroam.report.sections.confounding import confounding_section, controls_section
from brainroam.report.sections.first import first_section
from brainroam.report.sections.groups import groups_section
from brainroam.report.sections.next_site import next_site_section, plan_section
from brainroam.report.sections.people import people_section
from brainroam.report.sections.sites import sites_section
from brainroam.report.sections.verdict import verdict_section
from brainroam.report.sections.writing import (
    checklist_section,
    methods_section,
    model_card_section,
    probast_section,
    provenance_section,
)
from brainroam.utils.files import write_text

Maker = Callable[[ReportData], Section]

#: The reader's questions, in the order they are asked, and the sections that answer them.
CHAPTERS: tuple[tuple[str, str, tuple[Maker, ...]], ...] = (
    ("work", "Did it work?", (verdict_section, comparison_section)),
    ("fail", "Where did it fail?", (sites_section,)),
    (
        "confounds",
        "Is it motion, age, sex or site?",
        (confounding_section, groups_section, controls_section, embedding_section),
    ),
    ("connections", "Which connections?", (scaffold_section, gates_section)),
    (
        "mine",
        "How would it do at my site?",
        (next_site_section, adaptation_section, abstaining_section, calibration_section, plan_section),
    ),
    (
        "trust",
        "Can I trust the numbers?",
        (
            check_section,
            audit_section,
            people_section,
            notes_section,
            ablation_section,
            sensitivity_section,
            provenance_section,
        ),
    ),
    ("write", "How do I write it up?", (methods_section, checklist_section, probast_section, model_card_section)),
)


#: The four questions of a reader in a hurry, and the sections whose gist answers them.
ANSWERS = (
    ("Did it work?", ("figures",)),
    ("Can I believe it?", ("audit", "check", "confounding")),
    ("For whom?", ("sites", "groups", "abstaining")),
    ("What next?", ("next-site", "adaptation", "plan")),
)
#: What is open when the page is; everything else is a line until it is asked for.
OPEN = ("figures",)


@dataclass(frozen=True)
class Chapter:
    """A question of the reader and the sections that answer it."""

    id: str
    question: str
    sections: tuple[Section, ...]


def write_report(
    runs: str | Path | Sequence[str | Path] | Results,
    out: str | Path = "report.html",
    figures: str | Path | None = None,
    method: str | None = None,
    name: str | None = None,
    data: Cohort | None = None,
) -> Path:
    """Write what a reader of the study wants to see as one HTML file.

    Runs that are missing or failed are listed in it; its end names the commands that would add more.

    Parameters
    ----------
    runs : path, sequence of paths, or Results
        A folder of runs, as `brainroam.evaluate` writes it, or what it returned; several folders of the same people
        (two atlases, two pipelines) are reported side by side, and so are tables of predictions made elsewhere.
    out : path
        The HTML file; it is self-contained.
    figures : path, optional
        A folder for the figures as PNG (300 dpi) and SVG.
    method : str, optional
        The method the report is about; by default core, or the ensemble, or the first that is no control.
    name : str, optional
        What the study is called; by default the name of its data or of the folder of its study file.
    data : Cohort, optional
        The people of a table of predictions, where no folder of runs stands beside it.

    Returns
    -------
    Path
        Of the HTML file.

    Examples
    --------
    >>> import brainroam, tempfile
    >>> cohort = brainroam.make_cohort(n_sites=3, n_per_site=12, n_rois=10)
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = brainroam.evaluate(cohort, ["fc-ridge", "majority"], tuning="fast", out=folder / "runs")
    >>> brainroam.write_report(folder / "runs", folder / "report.html").name
    'report.html'
    """
    content = read_data(runs, method, data)
    first = first_section(content)
    chapters = [
        Chapter(id, _question_for(question, content), tuple(make(content) for make in makers))
        for id, question, makers in CHAPTERS
    ]
    sections = [first, *(section for chapter in chapters for section in chapter.sections)]
    html = render(
        "page.html",
        title=name or content.name,
        subtitle=_subtitle(content),
        first=first,
        answers=_answers(sections),
        open=OPEN,
        chapters=[
            replace(c, sections=shown) for c in chapters if (shown := tuple(s for s in c.sections if s.html.strip()))
        ],
        gaps=list(dict.fromkeys(gap for section in sections for gap in section.missing)),
        data=content,
        version=__version__,
    )
    if figures is not None:
        write_figures(sections, figures)
    return write_text(out, html)


def _question_for(question: str, data: ReportData) -> str:
    """A question of `CHAPTERS` in the words that suit what was measured."""
    return question if data.words.has_regions else question.replace("connections", "measures")


def _answers(sections: list[Section]) -> list[tuple[str, list[Section]]]:
    """Each question with the sections that answer it in a sentence; none where no section does."""
    by_id = {section.id: section for section in sections if section.gist and section.html.strip()}
    answers = [(question, [by_id[id] for id in ids if id in by_id]) for question, ids in ANSWERS]
    return [(question, sections) for question, sections in answers if sections]


def _subtitle(data: ReportData) -> str:
    people, target = people_and_scans(data.participants), data.target
    flow = f" ({target.counted(data.everybody['label'])})" if len(data.everybody) else ""
    day = f"{_day(data.date)}. " if data.date else ""
    atlas = data.study["atlas"] if data.study["atlas"] != "custom" else None  # regions that nobody described
    what = "atlas" if data.words.has_regions else "table"
    if len(blocks := data.study.get("measured") or {}) > 1:
        what, atlas = "blocks", listed(blocks)
    n_left_out = data.study.get("not_shared", 0)
    return (
        f"{day}{data.method}, {TITLES[data.protocol]}: {people}{flow} at "
        f"{len(data.study['sites'])} sites"
        + (f", {what} {atlas}" if atlas else "")
        + (f"; {n_left_out} left out who {'is' if n_left_out == 1 else 'are'} not in every study" if n_left_out else "")
    )


def _day(iso: str) -> str:
    day = date.fromisoformat(iso)
    return f"{day.day} {day:%B %Y}"


def write_figures(sections: list[Section], folder: str | Path) -> list[Path]:
    """Write every drawing of these sections as PNG and SVG."""
    return [path for section in sections for drawing in section.drawings for path in figures.write(drawing, folder)]
