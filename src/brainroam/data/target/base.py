"""What is predicted: the one object that knows what kind of target it is.

A `Target` says what the column ``label`` of a cohort holds: 0 and 1, the code of a class (its place in ``classes``), or
the value itself in its own units. Methods learn from `Cohort.targets`, where a number is on the scale of its
``transform``: with ``log`` a prediction a + b * score is turned back by exp. `brainroam.data.target_column` makes a
column of the table the target.

Each kind is a subclass, in a file of its own: `TwoClasses`, `Classes`, `Number`, and `Ordered`, a number with steps.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd

from brainroam.data.target.association import Association, with_classes
from brainroam.data.target.coding import Coding
from brainroam.data.target.readout import Readout, Scored
from brainroam.data.target.request import TWO, TargetRequest
from brainroam.data.target.turning import Turning, mirrored
from brainroam.data.target.within import Coded
from brainroam.errors import DataError, UsageError, listed

if TYPE_CHECKING:
    from brainroam.data.target.adaptation import Adaptation
    from brainroam.data.target.figures import Shown
    from brainroam.data.target.orders import Models, Order
    from brainroam.data.target.outlook import Outlook
    from brainroam.data.target.validation import Validation


class Place(NamedTuple):
    """Where people were held out, for sentences: "a site it has never seen", "the next site", "site"."""

    where: str
    following: str
    unit: str


@dataclass(frozen=True)
class Target:
    """The target: name and classes of the labels of a cohort; its class is the kind.

    Attributes
    ----------
    name : str
        As people call it: the column.
    classes : tuple of str
        Names by code; empty for a number.
    transform : str
        ``log``, or nothing.

    Examples
    --------
    >>> age = Target.of_kind("age", "number", transform="log")
    >>> age.forward(np.array([1.0, np.e])).tolist(), age.inverse(np.zeros(1)).tolist()
    ([0.0, 1.0], [1.0])
    """

    name: str
    classes: tuple[str, ...] = ()
    transform: str = ""

    kind: ClassVar[str]
    readout: ClassVar[type[Readout]]
    coding: ClassVar[Coding]
    is_two_classes: ClassVar[bool] = False  # labels are 0 and 1
    is_classes: ClassVar[bool] = False  # codes of three or more classes without an order, with a score for each
    is_number: ClassVar[bool] = False  # learned as a number: a number, or the steps of an order
    condition: ClassVar[str] = ""
    _of: ClassVar[dict[str, type["Target"]]] = {}

    def __init_subclass__(cls) -> None:
        Target._of[cls.kind] = cls

    @classmethod
    def of_kind(cls, name: str, kind: str, classes: tuple[str, ...] = (), transform: str = "") -> "Target":
        """The target of one of `KINDS`.

        >>> Target.of_kind("age", "number")
        Number(name='age', classes=(), transform='')
        """
        return cls._of[kind](name, classes, transform)

    @classmethod
    def of_description(cls, content: Mapping[str, Any] | None) -> "Target":
        """From what `described` gave; nothing stands for two classes."""
        if not content:
            return cls._of[TWO]("diagnosis", ("control", "case"))
        return cls.of_kind(**{**content, "classes": tuple(content["classes"])})

    def described(self) -> dict[str, Any]:
        """Plain values, for files."""
        return {"name": self.name, "kind": self.kind, "classes": list(self.classes), "transform": self.transform}

    def state(self) -> dict[str, np.ndarray]:
        """Of a saved model, an array of what `described` gives."""
        return {"target": np.frombuffer(json.dumps(self.described()).encode(), dtype=np.uint8)}

    @classmethod
    def of_state(cls, state: Mapping[str, np.ndarray]) -> "Target":
        """From a saved model; without the array it is of two classes."""
        return cls.of_description(json.loads(state["target"].tobytes()) if "target" in state else None)

    @property
    def score_shape(self) -> tuple[int, ...]:
        """Of the score of one person: () for one number, (K,) for one of each class."""
        return ()

    def columns(self, values: np.ndarray) -> np.ndarray:
        """What people have, as labels 0 and 1, a column for each of several classes, or the number."""
        return self.coding.columns(values, len(self.classes))

    def learned(self, values: np.ndarray) -> np.ndarray:
        """Target of a ridge on all edges: -1 and 1, or the number over its standard deviation."""
        return self.coding.standardised(self.columns(values))

    def code(self, values: np.ndarray, site: np.ndarray) -> Coded:
        """Target of CORE, see `brainroam.data.target.coding`."""
        return Coded(self.columns(values), {})

    def association(self, values: np.ndarray, label: np.ndarray) -> Association:
        """Of values with labels: size as a Cohen's d, p value, and the size in words."""
        return with_classes(values, label)

    def worded(self, of_cases: str, of_others: str) -> str:
        """The sentence about cases and controls, or the one about any target."""
        return of_others

    @property
    def words_of_codes(self) -> dict[int, str]:
        """Words for the classes by their codes; none for a number."""
        return dict(enumerate(self.classes))

    def class_counts(self, label: pd.Series, cases: str, controls: str) -> dict[str, int]:
        """How many people each class has, under these names or its own; nothing for a number."""
        return {f"n_{name}": int((label == code).sum()) for code, name in enumerate(self.classes)}

    def site_figures(self, label: pd.Series) -> dict[str, float]:
        """What of a number a site has, beside counts."""
        return {}

    def site_columns(self, sites: Any) -> dict[str, pd.Series]:
        """What people of each site have, of labels grouped by site."""
        return {self.name: sites.mean()}

    def binary(self, values: np.ndarray) -> np.ndarray:
        """Labels 0 and 1 as integers; refused where there are no two classes."""
        self.refuse_classes("this")
        raise DataError(f"this needs two classes, and the target {self.name!r} is: {self.kind}")

    def as_condition(self, label: pd.Series) -> pd.Series | None:
        """1 for people with a condition, 0 for others; None of a number."""
        return (label > 0).astype(float).where(label.notna())

    @property
    def scored_classes(self) -> tuple[str, ...]:
        """The classes that have a score each; none where people have one score."""
        return ()

    @property
    def class_labels(self) -> Sequence[Any]:
        """What a classifier of arrays calls the classes."""
        return 0, 1

    def diagnoses(self, label: pd.Series) -> Iterator[pd.Series]:
        """Labels 0 and 1 of a diagnosis; nothing where the target is none."""
        yield from ()

    def is_learnable(self, values: np.ndarray) -> bool:
        """Whether these people are enough to learn from: two people of two classes each."""
        return int((np.unique(values, return_counts=True)[1] >= 2).sum()) >= 2

    @property
    def number(self) -> str:
        """The name of a number; nothing of classes."""
        return ""

    def require_controls(self, what: str) -> None:
        """Refuse what needs controls, where no class is one of controls."""

    def learn_readout(self, scans: Scored, people: Scored, foretold: Scored | None = None) -> Readout:
        """What scores of people whose site was held out teach about the next one, see `Readout.learn`."""
        return self.readout.learn(self, scans, people, foretold or people)

    def merit(self, truth: np.ndarray, site: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """How well each of several scores (..., N), or (..., N, K), orders people of held-out sites."""
        raise NotImplementedError

    def ordered_sites(self, truth: np.ndarray, site: np.ndarray) -> list[str]:
        """Sites whose people a score can put in order."""
        return [name for name in np.unique(site) if len(set(truth[site == name])) >= 2]

    def fifths(self, truth: np.ndarray, codes: np.ndarray | None, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Train and held-out people where no site can be held out; whole groups where people belong together."""
        raise NotImplementedError

    def grid_of(self, grid: Mapping[str, tuple], of_numbers: Mapping[str, tuple]) -> tuple[Mapping[str, tuple], bool]:
        """The grid of a method, and whether it was made for this kind of target and is tuned whole."""
        return grid, False

    def known(self, label: pd.Series, of: "Target") -> pd.Series:
        """What is known of people whose labels are of another target, as a table shows it; missing where it differs."""
        return label

    def request_in(self, table: pd.DataFrame) -> TargetRequest | None:
        """What asks for this target in a table of new people, where a column alone says it."""
        return None

    def with_class(self, code: int) -> str:
        """Whom a class is of, in words: "with sex male"."""
        return f"with {self.name} {self.classes[code]}"

    def refuse_classes(self, what: str) -> None:
        """Refuse several classes where only two, or a number, can be."""

    @property
    def has_controls(self) -> bool:
        """Whether the first of several classes is what the others are compared with: controls, or the code 0."""
        return False

    def forward(self, values: np.ndarray) -> np.ndarray:
        """From its own units to the scale it is learned on."""
        return np.asarray(values, dtype=float)

    def inverse(self, values: np.ndarray) -> np.ndarray:
        """Back to its own units; steps of an order stay between the first and the last."""
        return np.asarray(values, dtype=float)

    def counted(self, label: pd.Series) -> str:
        """Labels in a few words: "40 with the condition", "9 with sex male", "age 7 to 64", "DSM of 4 classes"."""
        raise NotImplementedError

    def summary(self, counted: str) -> str:
        """What is predicted, in the line that describes a study; ``counted`` are the labels in a few words."""
        steps = f": {', '.join(self.classes)}" if self.classes else ""
        return f"target {self.name} ({self.kind}{steps})"

    def entry(self, key: str = "target") -> dict[str, Any]:
        """The entry of a file that says what is predicted; of two classes none, which a file without one stands for."""
        return {key: self.described()}

    @property
    def called(self) -> str:
        """What a forecast is of."""
        return self.name

    def require_two_classes(self, what: str) -> None:
        """Refuse what is made for two classes only: "another pipeline belongs to forecasts of"."""
        raise UsageError(f"{what} two classes; {self.name} is: {self.kind}")

    @property
    def adaptation(self) -> "Adaptation | None":
        """What a few people of a held-out site bring; None of several classes, of which runs do not try it."""
        return None

    @property
    def validation(self) -> "Validation":
        """What is said of predictions, and against the truth."""
        raise NotImplementedError

    @property
    def outlook(self) -> "Outlook":
        """What is foretold of a new site, and observed there."""
        raise NotImplementedError

    label_type: ClassVar[type] = int  # of what is true of a person

    def require_same(self, here: "Target") -> None:
        """Refuse data that do not tell this target."""
        named = self.name != "y"  # which stands for what a model of arrays predicts
        if here.kind != self.kind or (named and here.name != self.name):
            raise DataError(f"these data do not say what {self.name} is; name it with --target {self.name}:{self.kind}")

    def recoded(self, label: pd.Series, here: "Target") -> pd.Series:
        """Labels of such data by the codes of this target: classes and steps have names."""
        if not self.classes:
            return label
        code = {name: float(k) for k, name in enumerate(self.classes)}
        strange = [name for k, name in enumerate(here.classes) if name not in code and (label == k).any()]
        if strange:
            raise DataError(f"{self.name} is one of {listed(self.classes)}, not {listed(strange)}")
        return label.map({k: code.get(name) for k, name in enumerate(here.classes)})

    def request(self) -> dict[str, Any] | None:
        """How to ask new data for the same target; None where their readers know it."""
        return {"column": self.name, "kind": self.kind, "transform": self.transform}

    @property
    def score_columns(self) -> list[str]:
        """The columns of a table that hold a person's score, or the score of each class."""
        return ["score"]

    def score_table(self, score: np.ndarray) -> dict[str, np.ndarray]:
        """Scores as these columns."""
        return dict(zip(self.score_columns, score.reshape(len(score), -1).T, strict=True))

    def scores_of(self, table: pd.DataFrame) -> np.ndarray:
        """Scores (n,), or (n, K), of a table with these columns."""
        return table["score"].to_numpy(dtype=float)

    def how_many(self, label: np.ndarray) -> dict[str, int]:
        """How many people there are, ``n``, and of whom."""
        return {"n": len(label)}

    def explained(self, kind: str) -> list[str]:
        """What contributions of a kind of explanation are contributions to, where that is not one score."""
        return []

    @property
    def doubt(self) -> str:
        """Why labels of a file may not be those of a study."""
        return f"is it of {self.name}"

    def in_line(self, score: np.ndarray) -> np.ndarray:
        """All scores (n,) or (n K,) in one line, to be compared with others of the same people."""
        return score

    scores_wanted: ClassVar[str] = "one score each"

    def spoiled(self, label: np.ndarray) -> np.ndarray:
        """Labels that are wrong for everybody: those of the other class."""
        return mirrored(label)

    def turning(self, label: np.ndarray) -> Turning | None:
        """How labels in training are turned round for a site whose people have these; None where they cannot be."""
        return Turning(self.spoiled, lambda scores: scores, label)

    # --- what is measured of people who were held out ---

    @property
    def order(self) -> "Order":
        """What a held-out site tells of the order of its people."""
        raise NotImplementedError

    exchanged: ClassVar[str] = "the codes of cases and controls are swapped"  # what turns the scores of a site round

    scale: ClassVar[str] = ""  # behind the title of such a table

    @property
    def named(self) -> bool:
        """Whether it is named in titles: not a plain diagnosis."""
        return True

    @property
    def shown(self) -> list["Shown"]:
        """The columns of a table of methods; ``{unit}`` in a head is what was held out."""
        raise NotImplementedError

    def caption(self, unit: str) -> str:
        """What these columns mean, for a terminal."""
        raise NotImplementedError

    @property
    def shown_at_site(self) -> list["Shown"]:
        """What is shown of a single site beside its figure, from what is `measured` there."""
        raise NotImplementedError

    headlines: ClassVar[tuple[str, ...]] = ()  # of `shown`, beside the figure itself

    pictures: ClassVar[tuple[str, ...]] = ()  # of what a method says of held-out people, see `report.sections.sites`
    answers: ClassVar[str] = ""  # what a model gives, for a model card
    metrics_in_words: ClassVar[str] = ""
    outcome: ClassVar[str] = ""  # and what it is, for a checklist
    balance: ClassVar[str] = ""

    def describe(self, people: pd.DataFrame) -> pd.DataFrame:
        """The labels of the people of each site: a column for each thing to say, by its head."""
        raise NotImplementedError

    def flow(self, label: pd.Series) -> str:
        """How many people there are of which kind, for a flow of participants."""
        return self.counted(label)

    def spell(self, label: float) -> str:
        """A label in words."""
        return self.classes[int(label)] if self.classes else f"{label:g}"

    def plainly(self, value: float) -> str:
        """A mean of the figure in the words of `verdict`."""
        return f"{self.order.figure.head} {self.order.figure.form(value)}"

    def one_sided(self, called: pd.DataFrame) -> list[tuple[str, str]]:
        """Sites where nearly everybody is called the same, though they are not, with the evidence."""
        return []

    @property
    def measured(self) -> tuple[str, ...]:
        """What the scores of a run hold of a held-out site."""
        raise NotImplementedError

    @property
    def told(self) -> tuple[str, ...]:
        """What the predictions of a run hold of a person."""
        raise NotImplementedError

    def scored(self, model: Any, label: np.ndarray, score: np.ndarray) -> dict[str, np.ndarray]:
        """What a fitted method says of held-out scans, from their scores: columns of predictions."""
        raise NotImplementedError

    def facts(self, model: Any, label: np.ndarray) -> dict[str, Any]:
        """What of a fitted method and of its training people (their labels) a run keeps, for `at_site`."""
        raise NotImplementedError

    def decided(self, people: pd.DataFrame, model: Any = None) -> pd.DataFrame:
        """People of several scans, with their means, and what they are called by these, by the method if known."""
        return people

    @property
    def pairs_of_classes(self) -> list[tuple[int, int]]:
        """The classes that are told from one another beside the order of everybody: pairs, where there are several."""
        return []

    @property
    def ranked_by(self) -> list[str]:
        """The columns of predictions by which people are ordered."""
        return ["score"]

    def ranked(self, people: pd.DataFrame) -> np.ndarray:
        """These scores, (n,) or (n, K)."""
        return people["score"].to_numpy(dtype=float)

    def at_site(self, people: pd.DataFrame, facts: Mapping[str, Any]) -> dict[str, Any]:
        """What is `measured` of a held-out site from predictions of its people, everybody once.

        ``facts`` are those of the run: the ``threshold`` of two classes, the ``constant`` a number is held against.
        """
        raise NotImplementedError

    def constant(self, label: np.ndarray) -> float:
        """What a constant says that has seen these labels, in their own units: the share of cases, or their mean."""
        return float(np.mean(label))

    def over_sites(self, sites: pd.DataFrame, models: "Models") -> dict[str, Any]:
        """What sites (rows of `at_site`, seeds averaged) say of one method beside its order."""
        raise NotImplementedError

    @staticmethod
    def with_more(row: Mapping[str, Any], place: Place, form: Callable[[float], str]) -> str:
        """What makes an interval wide where sites are few, and what twice as many would leave of it; else nothing.

        >>> row = {"n_sites": 6, "more_low": 0.52, "more_high": 0.91}
        >>> Target.with_more(row, Place("", "", "site"), "{:.2f}".format)
        ' (few sites make that wide: 12 like these would leave 0.52 to 0.91)'
        """
        if not math.isfinite(row.get("more_low", math.nan)):
            return ""
        left = f"{form(row['more_low'])} to {form(row['more_high'])}"
        return f" (few {place.unit}s make that wide: {2 * row['n_sites']} like these would leave {left})"

    def verdict(self, row: Mapping[str, Any], pairs: pd.DataFrame, place: Place) -> list[str]:
        """The result of a method in one or two plain sentences.

        ``row`` is that of a table of methods, ``pairs`` are those of several classes.
        """
        raise NotImplementedError
