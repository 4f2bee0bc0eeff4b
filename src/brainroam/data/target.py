"""What is predicted: two classes, several, ordered ones, or a number.

A `Target` says what the column ``label`` of a cohort holds: 0 and 1, the code of a class (its place in ``classes``), or
the value itself in its own units. Methods learn from `Cohort.targets`, where a number is on the scale of its
``transform``: with ``log`` a prediction a + b * score is turned back by exp. `brainroam.data.target_column` makes a
column of the table the target.

Which of two labels is the condition is guessed only where it is certain: guessing wrong turns every score around.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from brainroam.data.names import CONTROL_WORDS, canonical, plain
from brainroam.errors import DataError, UsageError, listed, unknown, warn_user

MOST_CLASSES = 20
TWO, CLASSES, ORDERED, NUMBER = "two classes", "classes", "ordered", "number"
KINDS = (TWO, CLASSES, ORDERED, NUMBER)
TRANSFORMS = ("log",)


def is_control(label: object) -> bool:
    """Whether a label is one of the usual words for controls, in any case and in the languages of `names`.

    >>> [is_control(word) for word in ("TD", "healthy control", "Kontrolle", "témoin", "健康对照", "ASD", 2)]
    [True, True, True, True, True, False, False]
    """
    return plain("".join(canonical(label))) in CONTROL_WORDS


def two_classes(y: Sequence | np.ndarray, positive: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """The two classes of y, controls first, and y as 0 and 1.

    The condition is ``positive`` if given; 1 of 0/1, -1/1 and false/true; or what stands against a usual word for
    controls. Anything else (1/2 has both meanings: DX_GROUP of ABIDE is 1 for autism) is refused.

    >>> two_classes(["TD", "ASD"], positive="ASD")[1].tolist()
    [0, 1]
    >>> two_classes([1, 2, 2])
    Traceback (most recent call last):
    brainroam.errors.DataError: y holds 1 and 2, and which is the condition cannot be known; say positive=1 ...
    """
    labels = np.asarray(y)
    if labels.ndim != 1:
        raise DataError(f"y must be one label per person, got shape {labels.shape}")
    missing = np.flatnonzero(pd.isna(labels))
    if len(missing):
        raise DataError(f"y is missing for person {listed(missing)}; leave people without a label out")
    classes = np.array(sorted(pd.unique(labels), key=lambda label: (str(type(label)), label)))
    if len(classes) != 2:
        raise DataError(f"y must have two classes, controls and cases; found {len(classes)}: {listed(classes)}")
    condition = classes == positive if positive is not None else _condition(classes)
    if condition.sum() != 1:
        a, b = classes.tolist()
        known = (
            f"positive={positive!r} is not in y" if positive is not None else "which is the condition cannot be known"
        )
        raise DataError(
            f"y holds {a} and {b}, and {known}; say positive={a!r} or positive={b!r} in fit, or give 1 for the "
            "condition and 0 for controls"
        )
    if condition[0]:
        classes = classes[::-1]
        if positive is None:
            warn_user(
                f"{classes[1]} is taken for the condition and {classes[0]} for controls. scikit-learn's own scorers "
                "sort labels and would turn the AUC around: give 1 and 0, or use brainroam.SiteScorer"
            )
    return classes, (labels == classes[1]).astype(int)


def several_classes(y: Sequence | np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Three or more classes of y, controls first and then in order, and the code of each person; None of fewer.

    >>> classes, codes = several_classes(["SCZ", "HC", "MDD", "HC"])
    >>> classes.tolist(), codes.tolist()
    (['HC', 'MDD', 'SCZ'], [2, 0, 1, 0])
    """
    labels = np.asarray(y)
    if labels.ndim != 1 or pd.isna(labels).any() or len(pd.unique(labels)) < 3:
        return None  # `two_classes` says what is wrong
    classes = sorted(pd.unique(labels), key=lambda label: (not is_control(label), str(type(label)), label))
    if len(classes) > MOST_CLASSES:
        raise DataError(
            f"y has {len(classes)} different values: for a number, as age, use brainroam.SiteRegressor; up to "
            f"{MOST_CLASSES} classes can be told apart"
        )
    code = {label: k for k, label in enumerate(classes)}
    return np.array(classes), np.array([code[label] for label in labels])


def _condition(classes: np.ndarray) -> np.ndarray:
    """Which of two labels is the condition: one true value where it is certain."""
    numbers = pd.to_numeric(pd.Series(classes), errors="coerce").to_numpy(dtype=float)
    if set(numbers.tolist()) in ({0.0, 1.0}, {-1.0, 1.0}):
        return numbers == 1
    controls = np.array([is_control(label) for label in classes])
    return ~controls if controls.sum() == 1 else np.zeros(2, dtype=bool)


@dataclass(frozen=True)
class Target:
    """The target: the kind, name and classes of the labels of a cohort.

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
    def condition(self) -> str:
        """What is called the condition, of two classes in a column that was asked for; nothing of a diagnosis.

        >>> Target("sex", TWO, ("female", "male")).condition, TWO_CLASSES.condition
        ('sex male', '')
        """
        named = self.is_two_classes and self.classes != TWO_CLASSES.classes
        return f"{self.name} {self.classes[1]}" if named else ""

    def with_class(self, code: int) -> str:
        """Whom a class is of, in words: "with sex male"."""
        return f"with {self.name} {self.classes[code]}"

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
        """Labels in a few words: "40 with the condition", "9 with sex male", "age 7 to 64", "DSM of 4 classes"."""
        if self.is_two_classes:
            return f"{int((label == 1).sum())} with {self.condition or 'the condition'}"
        if self.classes:
            return f"{self.name} of {len(self.classes)} {'classes' if self.is_classes else 'steps'}"
        return f"{self.name} {label.min():.4g} to {label.max():.4g}"

    @classmethod
    def of_description(cls, content: Mapping[str, Any] | None) -> "Target":
        """From what `described` gave; nothing stands for two classes."""
        return cls(**{**content, "classes": tuple(content["classes"])}) if content else TWO_CLASSES


TWO_CLASSES = Target()


@dataclass(frozen=True)
class TargetRequest:
    """The column to predict, with the kind and transform asked for.

    Attributes
    ----------
    column : str
    kind : str
        One of `KINDS`, or nothing where the values show it.
    transform : str
    case : str
        The value that is the condition, of two classes whose names do not tell.
    order : tuple of str
        The steps of an order from the least to the most, where they are words.
    """

    column: str
    kind: str = ""
    transform: str = ""
    case: str = ""
    order: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.order and self.kind != ORDERED:
            raise UsageError(f"target {self.column!r}: an order is for kind {ORDERED}, not for {self.kind or 'none'}")
        if self.kind and self.kind not in KINDS:
            raise unknown(f"kind of the target {self.column!r}:", self.kind, KINDS)
        if self.transform and self.transform not in TRANSFORMS:
            raise unknown(f"transform of the target {self.column!r}:", self.transform, TRANSFORMS)
        if self.transform and self.kind in (TWO, CLASSES, ORDERED):
            raise UsageError(f"target {self.column!r}: a transform is for numbers, not for {self.kind}")

    @classmethod
    def of(cls, asked: "str | Mapping[str, str | Sequence[str]] | TargetRequest") -> "TargetRequest":
        """From ``COLUMN``, ``COLUMN:number``, ``COLUMN:log``, ``COLUMN:case=VALUE``, or a mapping of these.

        The steps of an order that are words: ``COLUMN:ordered=mild,moderate,severe``.

        >>> TargetRequest.of("age:log")
        TargetRequest(column='age', kind='number', transform='log', case='', order=())
        >>> TargetRequest.of("severity:ordered=mild,severe").order
        ('mild', 'severe')
        >>> TargetRequest.of({"column": "ADOS", "kind": "ordered"}).kind
        'ordered'
        """
        if isinstance(asked, TargetRequest):
            return asked
        if isinstance(asked, Mapping):
            keys = ("column", "kind", "transform", "case", "order")
            for name in asked:
                if name not in keys:
                    raise unknown("entry of target", name, keys)
            if "column" not in asked:
                raise UsageError("target needs the column, as in target: {column: FIQ, kind: number}")
            order = asked.get("order", ())
            return cls(
                **{name: str(value) for name, value in asked.items() if name != "order"},
                order=_steps(order) if isinstance(order, str) else tuple(map(str, order)),
            )
        column, *rest = [part.strip() for part in str(asked).split(":")]
        request = cls(column)
        for word in rest:
            if word.startswith("case="):
                request = replace(request, case=word.removeprefix("case="))
            elif word.startswith(f"{ORDERED}="):
                request = replace(request, kind=ORDERED, order=_steps(word.removeprefix(f"{ORDERED}=")))
            elif word in TRANSFORMS:
                request = replace(request, kind=NUMBER, transform=word)
            else:
                request = replace(request, kind=word)
        return request


def _steps(text: str) -> tuple[str, ...]:
    return tuple(step.strip() for step in text.split(",") if step.strip())
