"""The page of a pool of summaries: did it work, at which sites, what about the next one; no person is in it."""

import json
from pathlib import Path

import pandas as pd

from brainroam import __version__
from brainroam.errors import SummaryError
from brainroam.evaluation.run_records import plain
from brainroam.evaluation.stats.metrics import RULE, over_sites
from brainroam.evaluation.stats.verdict import Verdict, site_intervals, verdict
from brainroam.evaluation.tables import read_table
from brainroam.report import figures
from brainroam.report.data import Summary
from brainroam.report.figures import drawing
from brainroam.report.page import render
from brainroam.report.sections.first import SiteForestDisplay
from brainroam.utils.files import write_text

CAPTION = (
    "AUC at each hospital of a model learned from the summaries of the others, with 95 % intervals, their mean, and "
    "where the AUC of the next site is expected."
)


def is_pool(folder: Path) -> bool:
    """Whether a folder is a pool of summaries."""
    return (folder / "pool.json").is_file()


def write_pool_page(folder: Path, out: Path | None = None) -> list[str]:
    """Write ``next_site.json`` and ``report.html`` of a pool whose three rounds are done; returns what they say."""
    try:
        scores = read_table(folder / "scores.csv")
    except OSError as error:
        raise SummaryError(f"{folder} has no scores yet: its third round is not done") from error
    controls = scores["n"] - scores["n_cases"]
    found = verdict(scores["auc"].to_numpy(), scores["n_cases"].to_numpy(), controls.to_numpy())
    low, high = site_intervals(scores["auc"].to_numpy(), scores["n_cases"].to_numpy(), controls.to_numpy())
    sites = scores[["site", "n", "n_cases", "auc"]].assign(low=low, high=high).sort_values("auc", ascending=False)
    lines = _sentences(found, scores)
    write_text(folder / "next_site.json", json.dumps(plain(vars(found)), indent=1) + "\n")
    summary = Summary(found.mean, found.low, found.high, found.next_low, found.next_high)
    picture = drawing("sites", CAPTION, SiteForestDisplay(sites.reset_index(drop=True), summary))
    page = render(
        "pool.html",
        lines=lines,
        rows=sites.round(3).to_dict("records"),
        figure=figures.inline(picture),
        version=__version__,
    )
    path = write_text(out or folder / "report.html", page + "\n")
    return [*lines, f"report: {path}"]


def _sentences(found: Verdict, scores: pd.DataFrame) -> list[str]:
    summary = over_sites(scores)
    worst = f", lowest {summary['worst_auc']:.3f} ({summary['worst_site']})" if summary["worst_site"] else ""
    lines = [f"mean AUC over {found.n_sites} held-out sites {found.mean:.3f}{worst}; {RULE}"]
    if found.low == found.low:
        lines.append(f"95 % interval of the mean {found.low:.3f} to {found.high:.3f}")
    if found.next_low == found.next_low:
        lines.append(f"the next site's AUC is expected between {found.next_low:.3f} and {found.next_high:.3f} (95 %)")
    return [*lines, *([found.reason] if found.reason else [])]
