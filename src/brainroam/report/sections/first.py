"""The first screen: the verdict in plain words, the picture that carries it, and what to worry about."""

import math

from brainroam.report.concerns import MOST, concerns
from brainroam.report.data import CONFOUNDS, PLAIN, ReportData
from brainroam.report.displays.axes import drawing
from brainroam.report.displays.site_forest import SiteForestDisplay
from brainroam.report.figures import inline
from brainroam.report.page import render
from brainroam.report.section import Missing, Section
from brainroam.report.sections.verdict import judgement

PHONE = 3.5  # inches: as wide as a phone shows without shrinking the text


def first_section(data: ReportData) -> Section:
    """What a reader sees without scrolling."""
    bands = "" if data.protocol == "cv" else f"; pale band: where {data.next_place} is expected"
    picture = drawing(
        "forest",
        f"AUC of {data.method} at each held-out {data.unit} with its 95 % interval; the number beside a name says how "
        f"many people it had. Line and darker band: mean and its 95 % interval{bands}.",
        SiteForestDisplay.from_results(data),
        narrow=PHONE,
    )
    found = concerns(data)
    gaps = []
    if data.check is None and not data.only_files:
        gaps.append(Missing("Duplicates, short scans, dead regions", data.command("check", out=_beside(data, "check"))))
    if data.audit is None and not data.only_files:
        gaps.append(Missing("A search for leaks and shortcuts", data.command("audit", out=_beside(data, "audit"))))
    html = render(
        "first.html",
        sentences=list(plain_sentences(data)),
        judgement=judgement(data),
        figure=inline(picture),
        concerns=found[:MOST],
        more=max(len(found) - MOST, 0),
        looked=[name for name in ("check", "audit") if data.only_files or getattr(data, name) is not None],
        unknowns=data.file_unknowns,
        unfinished=len(data.study["missing"]) + len(data.study["failed"]),
    )
    return Section("verdict", "The short answer", html, (picture,), tuple(gaps))


def plain_sentences(data: ReportData):
    """The verdict for somebody who does not know what an AUC is."""
    summary, n = data.summary, int(data.headline["n_sites"])
    if n == 0:
        yield (
            f"No {data.unit} has both people with the condition and controls, so nothing can be said about "
            f"{data.method}."
        )
        return
    where = {
        "loso": "Shown one person with the condition and one without, both from a site it has never seen",
        "loio": "Shown one person with the condition and one without, both from an institution it has never seen",
        "halves": "Shown one person with the condition and one without, both from a site it has never seen",
        "cv": "Shown one new person with the condition and one without, both from a site it knows",
    }[data.protocol]
    text = f"{where}, {data.method} ranks the right one higher {_times(summary.mean)} times out of 100"
    if not math.isnan(summary.low):
        text += f" (95 % interval {_times(summary.low)} to {_times(summary.high)})"
    yield f"{text}; guessing gives 50."
    if not math.isnan(summary.next_low):
        text = f"At {data.next_place} expect {_times(summary.next_low)} to {_times(summary.next_high)} of 100."
        if data.references:
            text += f" Plain ridge regression on the same connectivity reaches {_times(data.references[PLAIN])}."
        if data.against(CONFOUNDS):
            text += f" Covariates alone, without the brain, reach {_times(data.row_of(data.beside(CONFOUNDS))['auc'])}."
        yield text


def _times(auc: float) -> str:
    return f"{100 * auc:.0f}"


def _beside(data: ReportData, name: str) -> str:
    return f"{data.shell_path}/{name}.json"
