"""What is predicted: two classes, several, ordered ones, or a number.

A `Target` says what the column ``label`` of a cohort holds: 0 and 1, the code of a class (its place in ``classes``), or
the value itself in its own units. Methods learn from `Cohort.targets`, where a number is on the scale of its
``transform``: with ``log`` a prediction a + b * score is turned back by exp. `brainroam.data.target_column` makes a
column of the table the target.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from brainroam.data.classes import is_control
from brainroam.errors import UsageError, unknown

TWO, CLASSES, ORDERED, NUMBER = "two classes", "classes", "ordered", "number"
KINDS = (TWO, CLASSES, ORDERED, NUMBER)
TRANSFORMS = ("log",)


@dataclass(frozen=True)
class Target:
    """What the labels of a cohort are.

    Attributes
    ----------
    name : str
        As people call it: the column.
    kind : {"two classes", "classes", "ordered", "number"}
    classes : tuple of str
        Names by code; empty for a number.
    transform : str
        ``log``, or nothing.

    Examples
    --------
    >>> age = Target("age", "number", (), "log")
    >>> age.forward(np.array([1.0, np.e])).tolist(), age.inverse(np.zeros(1)).tolist()
    ([0.0, 1.0], [1.0])
    """

    name: str = "diagnosis"
    kind: str = TWO
    classes: tuple[str, ...] = ("control", "case")
    transform: str = ""

    @property
    def is_two_classes(self) -> bool:
        """Whether labels are 0 and 1."""
        return self.kind == TWO

    @property
    def is_classes(self) -> bool:
        """Whether labels are codes of three or more classes without an order, with a score for each."""
        return self.kind == CLASSES

    def refuse_classes(self, what: str) -> None:
        """Refuse several classes where only two, or a number, can be."""
        if self.is_classes:
            raise UsageError(
                f"{what} is not made for several classes yet ({self.name} has {len(self.classes)}): choose two, in "
                f"place of --target with --option label_col={self.name} --option case={self.classes[-1]} --option "
                f"control={self.classes[0]}, or use audit, loso, compare, report, fit and predict, which take all"
            )

    def require_two_classes(self, what: str) -> None:
        """Refuse several classes and numbers."""
        self.refuse_classes(what)
        if self.is_number:
            raise UsageError(
                f"{what} is made for two classes, and the target {self.name!r} is a number; loso, compare, report, fit "
                "and predict take numbers"
            )

    @property
    def has_controls(self) -> bool:
        """Whether the first of several classes is what the others are compared with: controls, or the code 0.

        >>> [Target("dx", CLASSES, names).has_controls for names in (("HC", "MDD", "SCZ"), ("a", "b", "c"))]
        [True, False]
        """
        return self.is_classes and (is_control(self.classes[0]) or self.classes[0] == "0")

    @property
    def is_number(self) -> bool:
        """Whether it is learned as a number: a number, or the steps of an order."""
        return self.kind in (NUMBER, ORDERED)

    def forward(self, values: np.ndarray) -> np.ndarray:
        """From its own units to the scale it is learned on."""
        return np.log(values) if self.transform == "log" else np.asarray(values, dtype=float)

    def inverse(self, values: np.ndarray) -> np.ndarray:
        """Back to its own units; steps of an order stay between the first and the last."""
        values = np.exp(values) if self.transform == "log" else np.asarray(values, dtype=float)
        return np.clip(values, 0, len(self.classes) - 1) if self.kind == ORDERED else values

    def described(self) -> dict[str, Any]:
        """Plain values, for files."""
        return {**asdict(self), "classes": list(self.classes)}

    def counted(self, label: pd.Series) -> str:
        """Labels in a few words: "40 with the condition", "age 7 to 64", "DSM_IV_TR of 4 classes"."""
        if self.is_two_classes:
            return f"{int((label == 1).sum())} with the condition"
        if self.classes:
            return f"{self.name} of {len(self.classes)} classes"
        return f"{self.name} {label.min():.4g} to {label.max():.4g}"

    @classmethod
    def of_description(cls, content: Mapping[str, Any] | None) -> "Target":
        """From what `described` gave; nothing stands for two classes."""
        return cls(**{**content, "classes": tuple(content["classes"])}) if content else TWO_CLASSES


TWO_CLASSES = Target()


@dataclass(frozen=True)
class TargetRequest:
    """Which column is the target, and what is known of it.

    Attributes
    ----------
    column : str
    kind : str
        One of `KINDS`, or nothing where the values show it.
    transform : str
    case : str
        The value that is the condition, of two classes whose names do not tell.
    """

    column: str
    kind: str = ""
    transform: str = ""
    case: str = ""

    def __post_init__(self) -> None:
        if self.kind and self.kind not in KINDS:
            raise unknown(f"kind of the target {self.column!r}:", self.kind, KINDS)
        if self.transform and self.transform not in TRANSFORMS:
            raise unknown(f"transform of the target {self.column!r}:", self.transform, TRANSFORMS)
        if self.transform and self.kind in (TWO, CLASSES, ORDERED):
            raise UsageError(f"target {self.column!r}: a transform is for numbers, not for {self.kind}")

    @classmethod
    def of(cls, asked: "str | Mapping[str, str] | TargetRequest") -> "TargetRequest":
        """From ``COLUMN``, ``COLUMN:number``, ``COLUMN:log``, ``COLUMN:case=VALUE``, or a mapping of these.

        >>> TargetRequest.of("age:log")
        TargetRequest(column='age', kind='number', transform='log', case='')
        >>> TargetRequest.of({"column": "ADOS", "kind": "ordered"}).kind
        'ordered'
        """
        if isinstance(asked, TargetRequest):
            return asked
        if isinstance(asked, Mapping):
            known = ("column", "kind", "transform", "case")
            for name in asked:
                if name not in known:
                    raise unknown("entry of target", name, known)
            if "column" not in asked:
                raise UsageError("target needs the column, as in target: {column: FIQ, kind: number}")
            return cls(**{name: str(value) for name, value in asked.items()})
        column, *rest = [part.strip() for part in str(asked).split(":")]
        request = cls(column)
        for word in rest:
            if word.startswith("case="):
                request = replace(request, case=word.removeprefix("case="))
            elif word in TRANSFORMS:
                request = replace(request, kind=NUMBER, transform=word)
            else:
                request = replace(request, kind=word)
        return request
