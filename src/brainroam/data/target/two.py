"""Two classes: labels are 0 and 1, one score orders people."""

from dataclasses import dataclass
from typing import Any

import pandas as pd

from brainroam.data.target.base import TWO, Target


@dataclass(frozen=True)
class TwoClasses(Target):
    """Labels 0 and 1: controls and cases."""

    name: str = "diagnosis"
    classes: tuple[str, ...] = ("control", "case")

    kind = TWO
    is_two_classes = True

    @property
    def condition(self) -> str:  # type: ignore[override]
        """What is called the condition, of two classes in a column that was asked for; nothing of a diagnosis.

        >>> TwoClasses("sex", ("female", "male")).condition, TWO_CLASSES.condition
        ('sex male', '')
        """
        return f"{self.name} {self.classes[1]}" if self.classes != TWO_CLASSES.classes else ""

    def counted(self, label: pd.Series) -> str:
        """How many have the condition."""
        return f"{int((label == 1).sum())} with {self.condition or 'the condition'}"

    def summary(self, counted: str) -> str:
        """How many have the condition."""
        return counted

    def entry(self, key: str = "target") -> dict[str, Any]:
        """None: a file that does not say what is predicted is of two classes."""
        return {}

    def request(self) -> dict[str, Any] | None:
        """None: readers of people know their diagnoses."""
        return None


TWO_CLASSES = TwoClasses()
