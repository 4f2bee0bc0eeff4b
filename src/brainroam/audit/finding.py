"""What an audit found: one row per check, for people and for machines."""

from dataclasses import asdict, dataclass
from typing import Any

from brainroam.evaluation.finding import Check as Check


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

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, numbers and text, ready for JSON."""
        checks = [asdict(check) for check in self.checks]
        return {
            "passed": self.passed,
            "manifest_hash": self.manifest_hash,
            "checks": checks,
            "cannot_see": list(self.cannot_see),
        }
