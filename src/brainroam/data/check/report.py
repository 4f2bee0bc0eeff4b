"""What a check found, for people and for machines."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

import pandas as pd

from brainroam.utils.html import html_summary

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


@dataclass(frozen=True)
class Finding:
    """One thing worth knowing about a cohort.

    Attributes
    ----------
    severity : {"error", "warning", "note"}
        An error makes the cohort unusable, a warning can make results wrong, a note is handled but should be known.
    code : str
        A fixed name of the kind of finding.
    message, remedy : str
        What is the case, and what to do about it.
    site : str or None
        The site it is about; None when it is about the whole cohort.
    subjects : tuple of str
        The people it is about, if it is about certain people.
    """

    severity: Severity
    code: str
    message: str
    remedy: str
    site: str | None = None
    subjects: tuple[str, ...] = ()


@dataclass(frozen=True)
class CheckReport:
    """Everything `check_cohort` found, the gravest first.

    Attributes
    ----------
    cohort : dict
        Numbers of the whole cohort: people, scans, cases, controls, unlabelled, regions, atlas, manifest hash.
    sites : DataFrame
        One row per site: people, classes, age, sex, volumes, TR, people with regions without signal.
    excluded : DataFrame
        ``subject`` and ``reason`` of everybody the reader left out.
    findings : tuple of Finding
    """

    cohort: dict[str, Any]
    sites: pd.DataFrame
    excluded: pd.DataFrame
    findings: tuple[Finding, ...]

    @property
    def usable(self) -> bool:
        """Whether nothing stands in the way of training and evaluating on this cohort."""
        return not any(finding.severity == "error" for finding in self.findings)

    def _repr_html_(self) -> str:
        """For notebooks: the sites, then every finding with its remedy."""
        found = [
            f"{finding.severity}{f', {finding.site}' if finding.site else ''}: {finding.message}; {finding.remedy}"
            for finding in self.findings
        ]
        return html_summary("usable" if self.usable else "cannot be used", self.sites, found)

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, numbers and text, ready for JSON; what is not known is None."""
        return {
            "usable": self.usable,
            **self.cohort,
            "sites": _records(self.sites),
            "excluded": _records(self.excluded),
            "findings": [{**asdict(finding), "subjects": list(finding.subjects)} for finding in self.findings],
        }


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [
        {str(name): None if isinstance(value, float) and value != value else value for name, value in row.items()}
        for row in table.to_dict(orient="records")
    ]
