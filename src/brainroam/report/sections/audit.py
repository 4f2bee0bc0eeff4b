"""Can the result be trusted: leaks, shortcuts and duplicates."""

from dataclasses import asdict

import pandas as pd
from markupsafe import Markup

from brainroam.report.data import ReportData
from brainroam.report.page import render
from brainroam.report.section import Section
from brainroam.report.tables import Column, table

RESULTS = {True: "passed", None: "to note", False: "failed"}


def audit_section(data: ReportData) -> Section:
    """Checks of ``brainroam audit``, of foreign methods before they ran, and of files of predictions."""
    audit = data.audit
    html, gist = Markup(), ""
    if data.method_audits:
        html += render("method_audits.html", audits=data.method_audits)
    if data.file_checks:
        checks = [asdict(check) for check in data.file_checks]
        html += render("file_checks.html", checks=_checks(checks, "file-checks"), **_counts(checks))
    if audit is not None:
        counts = _counts(audit["checks"])
        failed = f"; failed: {', '.join(counts['failed'])}" if counts["failed"] else ", and none failed"
        gist = f"{counts['n_passed']} of {counts['n_checks']} checks for leaks and shortcuts passed{failed}."
        html += render(
            "audit.html",
            checks=_checks(audit["checks"], "audit"),
            command=audit.get("command"),
            **counts,
            other_data=audit.get("manifest_hash") != data.study["manifest_hash"],
        )
    return Section("audit", "Audit: leaks and shortcuts", html, gist=gist)


def _counts(checks: list[dict]) -> dict:
    """How many passed, and which failed or are neither good nor bad but to be known."""
    verdicts = [RESULTS.get(check.get("passed"), "failed") for check in checks]
    failed, noted = (
        [_named(check) for check, verdict in zip(checks, verdicts, strict=True) if verdict == wanted]
        for wanted in ("failed", "to note")
    )
    return {"n_checks": len(checks), "n_passed": verdicts.count("passed"), "failed": failed, "noted": noted}


def _named(check: dict) -> str:
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
