"""What an audit found: one row per check, for people and for machines."""

from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from brainroam.evaluation.finding import Check as Check
from brainroam.utils.html import html_summary

OUTCOMES = {True: "passed", False: "leak", None: "to know"}


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
        found = f"{failed} of {len(rows)} checks found a leak" if failed else f"no leak found by {len(rows)} checks"
        return html_summary(found, table, [f"No check can find: {text}" for text in self.cannot_see])

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, numbers and text, ready for JSON."""
        checks = [asdict(check) for check in self.checks]
        return {
            "passed": self.passed,
            "manifest_hash": self.manifest_hash,
            "checks": checks,
            "cannot_see": list(self.cannot_see),
        }
