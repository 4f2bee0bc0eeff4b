"""Can the result be trusted: leaks and shortcuts, what `brainroam check` found, and what fits had to leave out."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

import pandas as pd
from markupsafe import Markup

from brainroam.errors import counted
from brainroam.report.concerns import findings
from brainroam.report.data import ReportData
from brainroam.report.figures import inline
from brainroam.report.page import Section, render
from brainroam.report.sections.columns import columns_drawing
from brainroam.report.tables import Column, table

RESULTS = {True: "passed", None: "to note", False: "failed"}
COUNTS = re.compile(r"\d+(?= (?:training )?(?:people|person|edges)\b|%)")  # differ from fold to fold, not the cause
MARK = "\0"  # in the place of a count; no note holds it


def audit_section(data: ReportData) -> Section:
    """Checks of ``brainroam audit``, of foreign methods before they ran, and of files of predictions."""
    audit, gist = data.audit, data.audit_verdict.sentence
    html = Markup("<p>{}</p>").format(gist) if gist else Markup()
    if data.method_audits:
        html += render("method_audits.html", audits=data.method_audits)
    if data.file_checks:
        checks = [asdict(check) for check in data.file_checks]
        html += render("file_checks.html", checks=_checks(checks, "file-checks"), **_counts(checks))
    if audit is not None:
        html += render(
            "audit.html",
            checks=_checks(audit["checks"], "audit"),
            command=audit.get("command"),
            **_counts(audit["checks"]),
            other_data=audit.get("manifest_hash") != data.study["manifest_hash"],
        )
    return Section("audit", "Audit: leaks and shortcuts", html, gist=gist)


def _counts(checks: list[dict]) -> dict:
    """How many checks passed, which failed, and which are to be noted."""
    verdicts = [RESULTS.get(check.get("passed"), "failed") for check in checks]
    failed, noted = (
        [_describe_check(check) for check, verdict in zip(checks, verdicts, strict=True) if verdict == outcome]
        for outcome in ("failed", "to note")
    )
    return {"n_checks": len(checks), "n_passed": verdicts.count("passed"), "failed": failed, "noted": noted}


def _describe_check(check: dict) -> str:
    name, method = _text(check.get("name")), _text(check.get("method"))
    return f"{name} ({method})" if method else name


def _checks(checks: list[dict], name: str):
    frame = pd.DataFrame(
        {
            "name": _text(check.get("name")),
            "method": _text(check.get("method")),
            "result": RESULTS.get(check.get("passed"), "failed"),
            "value": _text(check.get("value")),
            "limit": _text(check.get("limit")),
            "evidence": _text(check.get("evidence")),
        }
        for check in checks
    )
    headings = {"name": "Check", "result": "Result", "evidence": "Evidence", "method": "Method", "value": "Value",
                "limit": "Limit"}  # fmt: skip
    return table(
        frame, [Column(key, heading) for key, heading in headings.items()], name, "Every check and its evidence"
    )


def _text(value: object) -> str:
    """Any JSON value as a person reads it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    if isinstance(value, dict):
        return "; ".join(f"{key}: {_text(item)}" for key, item in value.items())
    return str(value)


def check_section(data: ReportData) -> Section:
    """Findings, the gravest first; from the table of participants alone where nobody checked the series."""
    checked = findings(data)
    keys = {"severity": "Severity", "site": "Site", "message": "Finding", "remedy": "What to do"}
    rows = pd.DataFrame([{key: str(item.get(key) or "") for key in keys} for item in checked], columns=list(keys))
    rows["site"] = rows["site"].replace("", "all")
    columns = [Column("message", "Finding"), *(Column(k, h) for k, h in keys.items() if k != "message")]
    looked_at = len(data.participants) > 0 or data.check is not None
    groups = (data.check or {}).get("columns") or []
    drawings = (columns_drawing(groups),) if groups else ()
    html = render(
        "check.html",
        columns=[inline(drawing) for drawing in drawings],
        table=table(rows, columns, "check", "What check found") if checked else None,
        n=len(checked),
        whole=data.check is not None,
        known=looked_at,
        words=data.words,
        other_data=data.check is not None and data.check.get("manifest_hash") != data.study["manifest_hash"],
    )
    grave = [
        f"at {item['site']} {item.get('message')}" if item.get("site") else str(item.get("message"))
        for item in checked
        if item.get("severity") in ("error", "warning")
    ]
    more = f"; and {len(grave) - 2} more" if len(grave) > 2 else ""
    worst = f": {'; '.join(grave[:2])}{more}" if grave else ""
    what = "series" if data.words.has_time else "measures"
    where = "about the data" if data.check is not None else f"in the table of participants; {what} were not checked"
    gist = f"{counted(len(grave), 'warning', 'warnings')} {where}{worst}."
    return Section("check", "Checks of the data", html, drawings, gist=gist if looked_at else "")


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
    by_cause: dict[str, list[tuple[str, str]]] = {}
    for method, result in runs:
        for note in dict.fromkeys(result.get("notes", ())):
            by_cause.setdefault(COUNTS.sub(MARK, note), []).append((method, note))
    rows = [
        {
            "note": _with_ranges(cause, [note for _, note in notes]),
            "methods": sorted({method for method, _ in notes}),
            "n_runs": len(notes),
        }
        for cause, notes in by_cause.items()
    ]
    return sorted(rows, key=lambda row: -row["n_runs"])


def _with_ranges(cause: str, notes: list[str]) -> str:
    """The cause with the smallest and the largest of each count in it."""
    columns = zip(*(map(int, COUNTS.findall(note)) for note in notes), strict=True)
    ranges = iter([f"{min(c)}" if min(c) == max(c) else f"{min(c)} to {max(c)}" for c in map(list, columns)])
    return re.sub(MARK, lambda _: next(ranges), cause)
