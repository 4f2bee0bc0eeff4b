"""Rules about the series: regions without signal, scans that are too short, and people who are there twice."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd

from brainroam.data.check.duplicates import find_duplicates, similar_ids
from brainroam.data.check.report import Finding
from brainroam.data.check.time_course import WEAK
from brainroam.data.cohort import Cohort
from brainroam.data.measurements import most_missing
from brainroam.data.people import group_codes
from brainroam.errors import counted, listed

MIN_VOLUMES = 30  # one sliding window
MAX_LACKING = 0.1  # share of a site's people who may lack signal in a region


class Words(NamedTuple):
    """How a region without signal, an empty row of a matrix or an empty cell of a table is called."""

    noun: str
    lacks: str
    is_missing: str
    remedy: str


WORDS = {
    "series": Words("region", "no signal", "are constant or not finite", "edges of these regions enter no fit"),
    "matrices": Words("region", "no edges", "have no edges", "edges of these regions enter no fit"),
    "table": Words("column", "no value", "have no value", "such a cell says nothing about the person"),
}


def missing_regions(cohort: Cohort, limit: float, taken: str) -> Iterator[Finding]:
    """People with regions that are constant or not finite, and those who are ``taken`` otherwise by other commands."""
    words, counts = WORDS[cohort.measure], cohort.missing_rois.sum(axis=1)
    limit = most_missing(cohort.measure, limit)
    over_limit = counts > limit * cohort.n_rois
    if over_limit.any():
        people, each = _people(cohort, over_limit, counts)
        what = f"over {limit:.0%} of the {cohort.n_rois} {words.noun}s have {words.lacks}"
        message = f"{what} in {_of(cohort, people)}: {each}"
        yield Finding("warning", "over-limit", message, f"{taken} unless max_missing_rois is raised", None, people)
    if counts.any():
        people, each = _people(cohort, counts > 0, counts)
        message = f"{words.noun}s {words.is_missing} in {_of(cohort, people)}: {each}"
        yield Finding("warning", "missing-rois", message, words.remedy, None, people)


def low_coverage(cohort: Cohort) -> Iterator[Finding]:
    """Regions, or columns of a table, that many people of a site lack, and more than one."""
    words, names = WORDS[cohort.measure], np.array(cohort.atlas.labels)
    for site, rows in cohort.table.groupby("site").indices.items():
        lacking = cohort.missing_rois[rows]
        share = lacking.mean(axis=0)
        if (rare := (share > MAX_LACKING) & (lacking.sum(axis=0) > 1)).any():
            each = listed(f"{name} ({part:.0%})" for name, part in zip(names[rare], share[rare], strict=True))
            where = counted(int(rare.sum()), words.noun, f"{words.noun}s")
            message = f"over {MAX_LACKING:.0%} of the people have {words.lacks} in {where}: {each}"
            remedy = f"read results on these {words.noun}s with care"
            yield Finding("warning", "low-coverage", message, remedy, str(site))


def weak_regions(cohort: Cohort, counts: np.ndarray) -> Iterator[Finding]:
    """Regions that hardly vary, as at the edge of the field of view."""
    if counts.any():
        people, each = _people(cohort, counts > 0, counts)
        message = f"regions vary less than {WEAK:.0%} of the usual in {_of(cohort, people)}: {each}"
        remedy = "probably outside the field of view: look at the scans"
        yield Finding("note", "weak-rois", message, remedy, None, people)


def short_scans(cohort: Cohort) -> Iterator[Finding]:
    """Scans with fewer volumes than one window."""
    lengths = cohort.table["n_timepoints"].to_numpy()
    if (short := lengths < MIN_VOLUMES).any():
        people, each = _people(cohort, short, lengths)
        message = f"fewer than {MIN_VOLUMES} volumes in {_of(cohort, people)}: {each}"
        remedy = "shorter than a sliding window: choose a shorter window or leave them out"
        yield Finding("warning", "short-series", message, remedy, None, people)


def identical_series(cohort: Cohort) -> Iterator[Finding]:
    """Everybody with one and the same series: nothing can be learned."""
    if len(cohort) > 2 and len(set(cohort.series_digests)) == 1:
        message = f"all {len(cohort)} people have the same series"
        yield Finding("error", "one-series", message, "check how files are assigned to people (template)")


def copies(cohort: Cohort, edges: np.ndarray) -> Iterator[Finding]:
    """People who are probably one: identical series or matrices, or nearly identical connectivity."""
    table = cohort.table.set_index("subject")
    remedy = "one person on both sides of a split leaks the label: leave one out, or both when the labels disagree"
    codes = group_codes(cohort.table)
    group = dict(zip(table.index, range(len(table)) if codes is None else codes.tolist(), strict=True))
    for twin in find_duplicates(cohort, edges):
        pair = (twin.first, twin.second)
        if twin.kind == "alike" and group[twin.first] == group[twin.second]:
            continue  # two scans of one person, whom every split keeps together
        rows = table.loc[list(pair)]
        facts = [
            f"the same {name} ({rows[name].iloc[0]:g})" for name in ("age", "mean_fd") if rows[name].nunique() == 1
        ]
        facts += ["opposite labels"] if rows["label"].nunique() == 2 else []
        site = rows["site"].iloc[0] if rows["site"].nunique() == 1 else None
        facts += [] if site else [f"different sites ({' and '.join(rows['site'])})"]
        identical = twin.kind == "identical"
        what = (
            f"identical {cohort.measure}"
            if identical
            else f"nearly the same connectivity (centred r = {twin.similarity:.2f})"
        )
        message = f"{pair[0]} and {pair[1]} have {', '.join([what, *facts])}"
        yield Finding("error" if identical else "warning", f"{twin.kind}-people", message, remedy, site, pair)


def nearly_same_ids(table: pd.DataFrame) -> Iterator[Finding]:
    """Ids that differ in their spelling only, which may be one person."""
    for pair in similar_ids(table["subject"].tolist()):
        message = f"{pair[0]} and {pair[1]} are nearly the same id"
        yield Finding("warning", "similar-ids", message, "make sure that they are two people", None, pair)


def _of(cohort: Cohort, people: tuple[str, ...]) -> str:
    return f"{len(people)} of {len(cohort)} people"


def _people(cohort: Cohort, mask: np.ndarray, counts: np.ndarray) -> tuple[tuple[str, ...], str]:
    """Ids of the people where ``mask`` is true, and a short list of them with their counts, the highest first."""
    subjects = cohort.table["subject"].to_numpy()
    rows = np.flatnonzero(mask)
    order = rows[np.argsort(-counts[rows], kind="stable")]
    return tuple(subjects[rows]), listed(f"{subjects[i]} ({counts[i]})" for i in order)
