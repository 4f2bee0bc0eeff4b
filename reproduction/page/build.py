"""Put the page together: the paper's order, one self-contained HTML file, and markdown with its figures."""

from collections.abc import Callable
from pathlib import Path

from markupsafe import Markup

from brainroam import __version__
from brainroam.evaluation.code_version import package_of
from brainroam.report.build import Chapter
from brainroam.report.page import Section, render
from brainroam.utils.files import write_text
from reproduction.page.accuracy import accuracy
from reproduction.page.cohort import cohort
from reproduction.page.content import Part
from reproduction.page.cost import complexity, cost
from reproduction.page.data import PaperData, read_paper
from reproduction.page.edges import site_edges, top_edges
from reproduction.page.embedding import embedding
from reproduction.page.framework import framework
from reproduction.page.learning import learning
from reproduction.page.propositions import propositions
from reproduction.page.systems import in_distribution, leave_one_site_out
from reproduction.page.variants import ablation, budgets, deviations, thresholds, windows
from reproduction.page.variation import variation

Maker = Callable[[PaperData], Part]
FIGURES = "paper-figures"

#: The paper's order, and last what only we can say.
CHAPTERS: tuple[tuple[str, str, tuple[Maker, ...]], ...] = (
    ("introduction", "Introduction", (variation,)),
    ("method", "Method", (framework, propositions, learning)),
    ("experiments", "Experiments", (leave_one_site_out, accuracy, embedding, ablation, budgets, windows, thresholds)),
    ("appendix", "Appendix", (cohort, complexity, in_distribution, top_edges, site_edges, cost)),
    ("beyond", "Beyond the paper", (deviations,)),
)


def paper_page(folder: str | Path) -> tuple[Path, Path]:
    """Write ``paper.html`` and ``paper.md`` into the folder of a study of the paper, finished or not."""
    data = read_paper(folder)
    chapters = [(id, title, [make(data) for make in makers]) for id, title, makers in CHAPTERS]
    provenance = Part("provenance", "Provenance", tuple(_provenance(data)))
    chapters.append(("origin", "Where the numbers come from", [provenance]))
    title = f"The paper on {data.dataset.title}" if data.dataset else "The paper on other data"
    html = render(
        "page.html",
        title=title,
        subtitle=_subtitle(data),
        first=Section("first", "What this is", Markup("<p>{}</p>").format(_what(data))),
        chapters=[Chapter(id, name, tuple(part.section() for part in parts)) for id, name, parts in chapters],
        gaps=[],
        answers=[],
        open=[part.id for _, _, parts in chapters for part in parts],
        data=data,
        version=__version__,
    )
    parts = [part for _, _, found in chapters for part in found]
    for part in parts:
        part.write_figures(Path(folder) / FIGURES)
    text = [f"# {title}", _subtitle(data) + ".", _what(data)]
    for _, name, found in chapters:
        text += [f"## {name}", *(part.markdown(FIGURES) for part in found)]
    markdown = write_text(Path(folder) / "paper.md", "\n\n".join(text) + "\n")
    return write_text(Path(folder) / "paper.html", html), markdown


def _subtitle(data: PaperData) -> str:
    people, cases = (sum(site[key] for site in data.study["sites"]) for key in ("n", "n_cases"))
    done = f"{data.days}: " if data.days else ""
    sites = len(data.study["sites"])
    return f"{done}{people} people ({cases} with the condition) at {sites} sites, atlas {data.study['atlas']}"


def _what(data: PaperData) -> str:
    words = "Every table and figure of When Brain Networks Travel: Learning Beyond Site (2026), in its order. "
    if data.dataset is None:
        return (
            words + "These data are none of its five datasets, so no published number stands here: all are of this run."
        )
    return (
        words + "Columns named published are the paper's; every other number is of this run and made by our own code."
    )


def _provenance(data: PaperData) -> list[str]:
    runs = data.results.records if data.results else ()
    tuning = sorted({spec.tuning for spec, _ in runs})
    seeds = sorted({spec.seed for spec, _ in runs})
    versions = sorted({package_of(spec.version) for spec, _ in runs})
    missing = sorted({line.partition(" at ")[0] for line in (*data.study["missing"], *data.study["failed"])})
    lines = [
        "Commands: " + "; ".join(data.study["commands"]) + "." if data.study["commands"] else "No runs yet.",
        f"Manifest hash {data.study['manifest_hash']} (people, labels, sites and series).",
        f"{len(runs)} finished runs, tuning {', '.join(tuning) or 'none'}, "
        f"seeds {', '.join(map(str, seeds)) or 'none'}, by brainroam {', '.join(versions) or __version__}; "
        f"one after the other they took {data.hours:.1f} hours.",
    ]
    return lines + ([f"Asked for and not finished: {', '.join(missing)}."] if missing else [])
