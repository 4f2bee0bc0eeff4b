"""Can the result be trusted: leaks, shortcuts, duplicates, and what the confounds alone can do."""

import pandas as pd

from brainroam.evaluation.stats.families import CONTROLS
from brainroam.report.data import ReportData
from brainroam.report.page import render
from brainroam.report.section import Section
from brainroam.report.tables import Column, table

CONTROL_MEANING = {
    "majority": "The same score for everybody: what an empty method gets",
    "confounds": "Age, sex and motion only: what can be had without looking at the brain",
    "site-only": "The share of cases at each site: what knowing the site alone gives",
}


RESULTS = {True: "passed", None: "to note", False: "failed"}


def audit_section(data: ReportData) -> Section:
    """Checks of ``brainroam audit`` where they exist, and the controls among the runs."""
    audit = data.audit
    html = render(
        "audit.html",
        checks=None if audit is None else _checks(audit["checks"]),
        command=None if audit is None else audit.get("command"),
        **_counts([] if audit is None else audit["checks"]),
        other_data=audit is not None and audit.get("manifest_hash") != data.study["manifest_hash"],
        controls=_controls(data),
        path=data.shell_path,
        method=data.method,
    )
    return Section("audit", "Audit", html)


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


def _checks(checks: list[dict]):
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
        frame, [Column(key, heading) for key, heading in headings.items()], "audit", "Every check and its evidence"
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


def _controls(data: ReportData) -> list[dict]:
    """Each control: what it means, its sentence against the method, or how to run it."""
    sentences = dict(zip(data.comparison.paired["method"], data.comparison.sentences, strict=True))
    found = []
    for name in CONTROLS:
        protocol = "cv" if name == "site-only" else "loso"
        command = f"brainroam {protocol} DATA --methods {name} --out {data.shell_path}"
        sentence = sentences.get(name, "")
        if not sentence and name in data.names_under("cv"):
            scores = data.results.scores
            cv = scores[(scores["protocol"] == "cv") & (scores["method"] == name)]
            sentence = f"Mean AUC {cv['auc'].mean():.3f} in in-distribution folds"
        found.append({"name": name, "meaning": CONTROL_MEANING[name], "sentence": sentence, "command": command})
    return found
