"""What differs between kinds of targets in a hospital: labels of its people, and how they are drawn in before anything.

One class per kind; `SiteKind.of` gives the one of a target. See `brainroam.execution.federation.kinds` for the pool.
"""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from brainroam.data.cohort import Cohort
from brainroam.data.people import mean_of_scans, persons
from brainroam.data.target import CLASSES, NUMBER, ORDERED, TWO, Target
from brainroam.errors import DataError, SummaryError, UsageError, listed
from brainroam.execution.federation.disclosure import DRAWN_IN, STEPS_JOINED, disclosable_number, disclosable_steps

FEW_OF_CLASS = "left out: fewer than the {least} people below which a summary tells too much about each of them"


class SiteKind:
    """Two classes, which the other kinds differ from."""

    two_of_one: ClassVar[str] = "as a case and as a control"

    def __init__(self, target: Target) -> None:
        self.target = target

    @staticmethod
    def of(target: Target) -> "SiteKind":
        """The kind of a target."""
        return _KINDS[target.kind](target)

    def large_enough(self, cohort: Cohort, least: int) -> tuple[Cohort, dict[str, str]]:
        """Without the people of those of several classes that too few have here, and which these are."""
        return cohort, {}

    def labels(self, cohort: Cohort, person: np.ndarray) -> tuple[np.ndarray, float]:
        """Labels of each person as `Labels` has them, and the mean of a number.

        The classes are those of this target. Somebody's number is the mean over their scans.
        """
        return self._of_people(cohort, person).astype(int), 0.0

    def _of_people(self, cohort: Cohort, person: np.ndarray) -> np.ndarray:
        return mean_of_scans(cohort.targets[:, None], person)[:, 0]

    def drawn_in(self, site: str, y: np.ndarray, level: float, k: int, why: dict[str, str]) -> tuple[np.ndarray, float]:
        """A number, or step of an order, as it is told, and its mean."""
        return y, level

    def refuse_two_of_one(self, site: str, n_different: int) -> None:
        """Refuse people with scans of both classes."""
        if n_different:
            raise DataError(f"site {site}: {n_different} people have scans {self.two_of_one}; keep one kind of them")

    def refuse_noise(self) -> None:
        """Noise is made for two classes."""

    def refuse_steps(self) -> None:
        """Refuse steps that sites may number differently."""

    def strange_to(self, asked: Target) -> set[str]:
        """Classes of the people here that a request does not know."""
        return set()

    @property
    def told(self) -> dict[str, Any]:
        """The target in a file."""
        return self.target.described()

    def beside(self, y: np.ndarray, level: float) -> dict[str, np.ndarray]:
        """Further arrays of a first summary."""
        return {}

    # --- people with the same blocks ----------------------------------------------------------------------------------

    def in_large_classes(self, group: Cohort, least: int) -> np.ndarray:
        """Positions of the people whose class has enough people in this group."""
        count = persons(group.table).groupby(group.targets).transform("nunique")
        return np.flatnonzero((count >= least).to_numpy())

    def of_group(self, labels: pd.Series, k: int) -> tuple[np.ndarray, pd.Series] | None:
        """Labels as numbers, and in their own units, of a group drawn in like a site; None where nobody differs."""
        return labels.to_numpy().astype(int), labels


class SiteClasses(SiteKind):
    """Several classes."""

    two_of_one: ClassVar[str] = "of two classes"

    def large_enough(self, cohort: Cohort, least: int) -> tuple[Cohort, dict[str, str]]:
        """Without the people of those classes that too few have here, and which these are."""
        target = self.target
        code, person = cohort.targets.astype(int), persons(cohort.table).to_numpy()
        counts = {name: len(set(person[code == k])) for k, name in enumerate(target.classes)}
        few = {name: n for name, n in counts.items() if n < least}
        included = ~np.isin(code, [target.classes.index(name) for name in few])
        why = {f"{target.name} {name}": FEW_OF_CLASS.format(least=least) for name, n in few.items() if n}
        if len(few) > len(target.classes) - 2:
            raise SummaryError(
                f"site {cohort.sites[0]}: fewer than two classes of {target.name} have the {least} people below which "
                "a summary tells too much about each of them: nothing was written"
            )
        table, names = cohort.table, [name for name in target.classes if name not in few]
        place = {float(target.classes.index(name)): float(k) for k, name in enumerate(names)}
        recoded = table.assign(label=table["label"].map(place))
        return cohort.predicting(replace(target, classes=tuple(names)), recoded).subset(included), why

    def labels(self, cohort: Cohort, person: np.ndarray) -> tuple[np.ndarray, float]:
        """Indicators of the classes."""
        place = np.array([self.target.classes.index(name) for name in cohort.target.classes])
        return np.eye(len(self.target.classes), dtype=int)[place[self._of_people(cohort, person).astype(int)]], 0.0

    def refuse_noise(self) -> None:
        """Refuse it."""
        _refuse_noise(self.target)

    def strange_to(self, asked: Target) -> set[str]:
        """Classes of the people here that a request does not know."""
        return set(self.target.classes) - set(asked.classes)

    def of_group(self, labels: pd.Series, k: int) -> tuple[np.ndarray, pd.Series] | None:
        """Indicators of the classes."""
        return np.eye(len(self.target.classes), dtype=int)[labels.astype(int)], labels


class SiteNumber(SiteKind):
    """A number about its mean."""

    reason: ClassVar[str] = DRAWN_IN

    def labels(self, cohort: Cohort, person: np.ndarray) -> tuple[np.ndarray, float]:
        """The number about its mean, and the mean."""
        label = self._of_people(cohort, person)
        return label - label.mean(), float(label.mean())

    def disclosable(self, t: np.ndarray, k: int) -> np.ndarray | None:
        """The number as it may be told."""
        return disclosable_number(t, k)

    def drawn_in(self, site: str, y: np.ndarray, level: float, k: int, why: dict[str, str]) -> tuple[np.ndarray, float]:
        """The number as it is told, and its mean."""
        drawn = self.disclosable(y, k)
        if drawn is None:
            raise SummaryError(
                f"site {site}: fewer than {k} people differ in {self.target.name} from all others, and every slope "
                "would tell about them: nothing was written"
            )
        if not np.array_equal(drawn, y):
            why[self.target.name] = self.reason.format(k=k)
        return drawn - drawn.mean(), level + float(drawn.mean())

    def refuse_two_of_one(self, site: str, n_different: int) -> None:
        """Nobody: their number is the mean of their scans."""

    def refuse_noise(self) -> None:
        """Refuse it."""
        _refuse_noise(self.target)

    def in_large_classes(self, group: Cohort, least: int) -> np.ndarray:
        """Everybody, where they are twice as many as are needed of a class."""
        enough = persons(group.table).nunique() >= 2 * least
        return np.arange(len(group)) if enough else np.empty(0, dtype=int)

    def of_group(self, labels: pd.Series, k: int) -> tuple[np.ndarray, pd.Series] | None:
        """The number drawn in."""
        drawn = self.disclosable(self.target.forward(labels.to_numpy()), k)
        return None if drawn is None else (drawn - drawn.mean(), pd.Series(self.target.inverse(drawn)))


class SiteOrder(SiteNumber):
    """The steps of an order: whole numbers that name them, since codes depend on which steps a site has."""

    reason: ClassVar[str] = STEPS_JOINED

    def _of_people(self, cohort: Cohort, person: np.ndarray) -> np.ndarray:
        code = np.rint(super()._of_people(cohort, person)).astype(int)
        return np.array(cohort.target.classes, dtype=float)[code]

    def disclosable(self, t: np.ndarray, k: int) -> np.ndarray | None:
        """Steps that k people share."""
        return disclosable_steps(t, k)

    def refuse_steps(self) -> None:
        """Refuse steps that are no whole numbers."""
        numbers = pd.to_numeric(pd.Series(self.target.classes, dtype=object), errors="coerce")
        odd = [step for step, n in zip(self.target.classes, numbers, strict=True) if not float(n).is_integer()]
        if odd:
            name = self.target.name
            raise UsageError(
                f"steps of an order are pooled where they are whole numbers, since a site may lack some; {name} has "
                f"{listed(odd)}: number them 1, 2, 3 in a column of their own, or of numbers say --target {name}:number"
            )

    @property
    def told(self) -> dict[str, Any]:
        """Without names of steps: sites may lack some."""
        return replace(self.target, classes=()).described()

    def beside(self, y: np.ndarray, level: float) -> dict[str, np.ndarray]:
        """The steps (K, 2) that somebody has, and how many people each."""
        steps = np.unique(np.rint(y + level), return_counts=True)
        return {"steps": np.column_stack(steps).astype(float)}

    def of_group(self, labels: pd.Series, k: int) -> tuple[np.ndarray, pd.Series] | None:
        """Whole steps drawn in."""
        return super().of_group(pd.Series(np.rint(labels)), k)


def _refuse_noise(target: Target) -> None:
    raise UsageError(f"noise (--epsilon) is made for two classes, and {target.name} is: {target.kind}")


_KINDS: dict[str, type[SiteKind]] = {TWO: SiteKind, CLASSES: SiteClasses, NUMBER: SiteNumber, ORDERED: SiteOrder}
