"""What fits could not estimate or had to leave out: the notes of the runs, each cause once."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from brainroam.report.data import ReportData
from brainroam.report.page import render
from brainroam.report.section import Section

COUNTS = re.compile(r"\d+(?= (?:training )?(?:people|person|edges)\b)")  # differ from fold to fold, not the cause
MARK = "\0"  # in the place of a count; no note holds it


def notes_section(data: ReportData) -> Section:
    """Notes of the runs; nothing where no fit took a fallback."""
    runs = [(spec.name, result) for spec, result in data.finished if spec.protocol == data.protocol]
    causes = causes_of(runs)
    html = render("notes.html", causes=causes, n_runs=len(runs))
    return Section("notes", "What fits could not estimate", html)


def causes_of(runs: Iterable[tuple[str, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Each cause with the methods it is about and the number of their runs, the most frequent first.

    >>> runs = [("core", {"notes": [f"age: missing for {n} training people"]}) for n in (7, 9)]
    >>> causes_of(runs)
    [{'note': 'age: missing for 7 to 9 training people', 'methods': ['core'], 'n_runs': 2}]
    """
    seen: dict[str, list[tuple[str, str]]] = {}
    for method, result in runs:
        for note in dict.fromkeys(result.get("notes", ())):
            seen.setdefault(COUNTS.sub(MARK, note), []).append((method, note))
    rows = [
        {
            "note": _with_ranges(cause, [note for _, note in found]),
            "methods": sorted({method for method, _ in found}),
            "n_runs": len(found),
        }
        for cause, found in seen.items()
    ]
    return sorted(rows, key=lambda row: -row["n_runs"])


def _with_ranges(cause: str, notes: list[str]) -> str:
    """The cause with the smallest and the largest of each count in it."""
    columns = zip(*(map(int, COUNTS.findall(note)) for note in notes), strict=True)
    ranges = iter([f"{min(c)}" if min(c) == max(c) else f"{min(c)} to {max(c)}" for c in map(list, columns)])
    return re.sub(MARK, lambda _: next(ranges), cause)
