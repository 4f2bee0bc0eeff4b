"""Findings of a check, as text, HTML and plain values."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import pandas as pd

from brainroam.errors import listed
from brainroam.utils.html import html_summary

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
MANY_SITES = 3  # with one kind of finding, beyond which they are told together


@dataclass(frozen=True)
class Finding:
    """One finding about a cohort.

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


def together(findings: Iterable[Finding]) -> list[Finding]:
    """Join findings of one kind about many sites, in the place of the first; confounds of sites keep their figures.

    >>> found = [Finding("note", "constant-sex", "everybody is male", "none", site) for site in "ABCD"]
    >>> [finding.message for finding in together(found)]
    ['everybody is male, at 4 sites: A, B, C, D']
    """
    kinds: dict[tuple[str, ...], list[Finding]] = {}
    for k, one in enumerate(findings):
        alone = one.site is None or one.code.startswith("label-by-")
        kinds.setdefault((str(k),) if alone else (one.severity, one.code, one.remedy), []).append(one)
    return [told for kind in kinds.values() for told in ([_of_sites(kind)] if len(kind) > MANY_SITES else kind)]


def _of_sites(findings: list[Finding]) -> Finding:
    first, said = findings[0], {finding.message for finding in findings}
    if len(said) == 1:
        message = f"{first.message}, at {len(findings)} sites: {listed(str(finding.site) for finding in findings)}"
    else:
        message = f"{len(findings)} sites: {listed(f'{finding.site} ({finding.message})' for finding in findings)}"
    people = tuple(person for finding in findings for person in finding.subjects)
    return replace(first, message=message, site=None, subjects=people)


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
        """Whether there is no error: training and evaluation on this cohort are possible."""
        return not any(finding.severity == "error" for finding in self.findings)

    def _repr_html_(self) -> str:
        """For notebooks: the sites, then every finding with its remedy."""
        lines = [
            f"{finding.severity}{f', {finding.site}' if finding.site else ''}: {finding.message}; {finding.remedy}"
            for finding in self.findings
        ]
        return html_summary("usable" if self.usable else "cannot be used", self.sites, lines)

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
