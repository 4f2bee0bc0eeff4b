"""The column that is to be predicted, as people ask for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from brainroam.errors import UsageError, unknown

TWO, CLASSES, ORDERED, NUMBER = "two classes", "classes", "ordered", "number"
KINDS = (TWO, CLASSES, ORDERED, NUMBER)
TRANSFORMS = ("log",)


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
