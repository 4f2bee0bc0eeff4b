"""What checks of methods, data or predictions found: one row per check, for people and for machines."""

from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from brainroam.utils.html import html_summary

OUTCOMES = {True: "passed", False: "leak", None: "to know"}


@dataclass(frozen=True)
class Check:
    """The outcome of one check.

    Attributes
    ----------
    name : str
        A fixed name of the kind of check.
    method : str
        The method checked; empty when it is about the data alone.
    passed : bool or None
        False is a leak. None is neither: something to know before believing a result.
    value, limit : float or None
        What was measured, and where it would have been judged otherwise.
    evidence : str
        What was done and what came of it, in words.
    """

    name: str
    method: str
    passed: bool | None
    value: float | None
    limit: float | None
    evidence: str


@dataclass(frozen=True)
class Audit:
    """All checks of a cohort and its methods.

    Attributes
    ----------
    checks : tuple of Check
    manifest_hash : str
        Of the cohort.
    cannot_see : tuple of str
        What no check of it can find.
    """

    checks: tuple[Check, ...]
    manifest_hash: str
    cannot_see: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether no leak was found."""
        return not any(check.passed is False for check in self.checks)

    def _repr_html_(self) -> str:
        """For notebooks: one row per check."""
        rows = [(check.name, check.method, OUTCOMES[check.passed], check.evidence) for check in self.checks]
        table = pd.DataFrame(rows, columns=["check", "method", "outcome", "evidence"])
        failed = sum(check.passed is False for check in self.checks)
        outcome = f"{failed} of {len(rows)} checks found a leak" if failed else f"no leak found by {len(rows)} checks"
        return html_summary(outcome, table, [f"No check can find: {text}" for text in self.cannot_see])

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, numbers and text, ready for JSON."""
        checks = [asdict(check) for check in self.checks]
        return {
            "passed": self.passed,
            "manifest_hash": self.manifest_hash,
            "checks": checks,
            "cannot_see": list(self.cannot_see),
        }
