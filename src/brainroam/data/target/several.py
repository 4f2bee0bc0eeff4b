"""Three or more classes without an order: labels are codes, and each class has a score."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from brainroam.data.target.base import CLASSES, Target
from brainroam.data.target.labels import is_control
from brainroam.data.target.turning import Turning, swapping
from brainroam.errors import UsageError


@dataclass(frozen=True)
class Classes(Target):
    """Codes of three or more classes, in the order of ``classes``."""

    kind = CLASSES
    is_classes = True

    @property
    def has_controls(self) -> bool:
        """Whether the first class is what the others are compared with: controls, or the code 0.

        >>> [Classes("dx", names).has_controls for names in (("HC", "MDD", "SCZ"), ("a", "b", "c"))]
        [True, False]
        """
        return is_control(self.classes[0]) or self.classes[0] == "0"

    def refuse_classes(self, what: str) -> None:
        """Refuse several classes where only two, or a number, can be."""
        raise UsageError(
            f"{what} is not made for several classes yet ({self.name} has {len(self.classes)}): choose two, in "
            f"place of --target with --option label_col={self.name} --option case={self.classes[-1]} --option "
            f"control={self.classes[0]}, or use audit, loso, compare, report, fit and predict, which take all"
        )

    def counted(self, label: pd.Series) -> str:
        """How many classes there are."""
        return f"{self.name} of {len(self.classes)} classes"

    @property
    def score_columns(self) -> list[str]:
        """A column for each class."""
        return [f"score_{name}" for name in self.classes]

    def scores_of(self, table: pd.DataFrame) -> np.ndarray:
        """Scores (n, K)."""
        return table[self.score_columns].to_numpy(dtype=float)

    def in_line(self, score: np.ndarray) -> np.ndarray:
        """Each class without its mean."""
        return (score - score.mean(axis=0)).ravel()

    @property
    def scores_wanted(self) -> str:  # type: ignore[override]
        """How many scores each person has."""
        return f"{len(self.classes)} scores each, one for each class"

    def spoiled(self, label: np.ndarray) -> np.ndarray:
        """Everybody has the next class, and the first after the last."""
        return (label + 1) % len(self.classes)

    def turning(self, label: np.ndarray) -> Turning | None:
        """Two classes change places; controls stay, as CORE compares all others with them."""
        return swapping(label, self.classes, int(self.has_controls))
