"""Three or more classes without an order: labels are codes, and each class has a score."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from brainroam.data.target import sites_several
from brainroam.data.target.base import Place, Target
from brainroam.data.target.coding import ClassesCoded
from brainroam.data.target.figures import INTERVAL, NEXT, Shown, points, span
from brainroam.data.target.labels import is_control, stratified_fifths
from brainroam.data.target.order import macro_auc
from brainroam.data.target.orders import MacroAreas
from brainroam.data.target.outlook import OutlookOfClasses
from brainroam.data.target.request import CLASSES
from brainroam.data.target.several_readout import ReadoutOfClasses
from brainroam.data.target.sites_several import one_sided
from brainroam.data.target.turning import Turning, swapping
from brainroam.data.target.validation import ValidationOfClasses
from brainroam.errors import UsageError, listed

if TYPE_CHECKING:
    from brainroam.data.target.orders import Models


@dataclass(frozen=True)
class Classes(Target):
    """Codes of three or more classes, in the order of ``classes``."""

    kind = CLASSES
    is_classes = True
    readout = ReadoutOfClasses
    coding = ClassesCoded()

    @property
    def scored_classes(self) -> tuple[str, ...]:
        """All."""
        return self.classes

    @property
    def class_labels(self) -> tuple[str, ...]:
        """Their names."""
        return self.classes

    def require_controls(self, what: str) -> None:
        """Refuse what needs controls, where the first class is none."""
        if not self.has_controls:
            raise UsageError(f'{what} needs controls, and none of these classes is; use fit_on="all"')

    @property
    def score_shape(self) -> tuple[int, ...]:
        """A score for each class."""
        return (len(self.classes),)

    def merit(self, truth: np.ndarray, site: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """The mean over classes of the AUC against the rest."""
        return np.nan_to_num(macro_auc(truth, scores))

    def fifths(self, truth: np.ndarray, codes: np.ndarray | None, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Stratified."""
        counts = ", ".join(f"{np.sum(truth == k)} {name}" for k, name in enumerate(self.classes))
        yield from stratified_fifths(truth.astype(int), codes, seed, len(self.classes), counts)

    @property
    def has_controls(self) -> bool:
        """Whether the first class is what the others are compared with: controls, or the code 0.

        >>> [Classes("dx", names).has_controls for names in (("HC", "MDD", "SCZ"), ("a", "b", "c"))]
        [True, False]
        """
        return is_control(self.classes[0]) or self.classes[0] == "0"

    def known(self, label: pd.Series, of: Target) -> pd.Series:
        """The names of classes."""
        if of.name != self.name or not of.classes:
            return label.where(label.isna()).astype(object)
        return label.map(dict(enumerate(of.classes)))

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

    @property
    def validation(self) -> ValidationOfClasses:
        """What is said of predictions, and against the truth."""
        return ValidationOfClasses(self)

    @property
    def outlook(self) -> OutlookOfClasses:
        """The mean AUC against the rest, and balanced accuracy."""
        return OutlookOfClasses(self)

    def explained(self, kind: str) -> list[str]:
        """One class has to be chosen."""
        called = "the class with a person's highest score" if kind == "scaffold" else "the last class"
        return [f"of several classes, contributions are those to {called} ({', '.join(self.classes)})"]

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

    @property
    def order(self) -> MacroAreas:
        """The mean AUC of the classes, each against the rest."""
        return MacroAreas(classes=self.classes)

    exchanged = "classes are named otherwise"

    scale = ", in points of 100"

    @property
    def shown(self) -> list[Shown]:
        """The AUC against the rest with its intervals, of each class, and decisions."""
        k = len(self.classes)
        right = f"Mean over classes of the share of their people who are called right: {100 / k:.1f} is guessing."
        rest = "Mean over classes of how often somebody of the class scores higher for it than others of the same site."
        brier = f"Of probabilities: 0 is perfect, {1 - 1 / k:.2f} is saying the same of every class."
        of_each = "The same of {name} alone: below one half where others lie on both sides of it."
        return [
            Shown(("auc",), "AUC", points, rest),
            Shown(("low", "high"), "interval", span, INTERVAL),
            Shown(("next_low", "next_high"), "next {unit}*", span, NEXT),
            *(Shown((f"auc_{name}",), name, points, of_each.format(name=name)) for name in self.classes),
            Shown(("balanced_acc",), "BAC", points, right),
            Shown(("brier",), "Brier", lambda value: "-" if math.isnan(value) else f"{value:.3f}", brier),
        ]

    @property
    def shown_at_site(self) -> list[Shown]:
        """Each class against the rest, and decisions."""
        of_each = "How often its people score higher for {name} than others of the site."
        return [
            *(Shown((f"auc_{name}",), f"AUC {name}", points, of_each.format(name=name)) for name in self.classes),
            Shown(("acc",), "Accuracy", points, "Share of people who are called right."),
        ]

    pictures = ("confusion",)
    answers = "A score and a calibrated probability of each class, and the class at equal shares."
    metrics_in_words = (
        "AUC of each class against the rest per {unit} and their mean (primary), each pair of classes, share called "
        "right, Brier score"
    )

    outcome = "Label of one of several classes"
    balance = "AUC and the share called right per class do not depend on the balance; probabilities state their shares."

    def describe(self, people: pd.DataFrame) -> pd.DataFrame:
        """How many of each class."""
        return pd.crosstab(people["site"], people["label"].astype(int).map(dict(enumerate(self.classes)))).reindex(
            columns=list(self.classes), fill_value=0
        )

    def flow(self, label: pd.Series) -> str:
        """People of each class."""
        return ", ".join(f"{int((label == k).sum())} {name}" for k, name in enumerate(self.classes))

    def one_sided(self, called: pd.DataFrame) -> list[tuple[str, str]]:
        """Sites where nearly everybody is called one class."""
        return one_sided(called, self.classes)

    def caption(self, unit: str) -> str:
        """What the columns mean, for a terminal."""
        return (
            f"AUC within {unit}s: mean over classes, and of each class against the rest, in which {unit}s weigh by the "
            f"people of that class; BAC: mean share of a class called right, {100 / len(self.classes):.1f} by chance; "
            f"{self.order.rule}; intervals 95 %"
        )

    @property
    def measured(self) -> tuple[str, ...]:
        """The number of people and the metrics of `sites_several`."""
        return ("n", *sites_several.metric_names(self.classes))

    @property
    def told(self) -> tuple[str, ...]:
        """The codes of two classes, and a probability and a score of each."""
        return ("label", "predicted", *self._columns("probability"), *self._columns("score"))

    @property
    def pairs_of_classes(self) -> list[tuple[int, int]]:
        """Every two."""
        return list(combinations(range(len(self.classes)), 2))

    def _columns(self, what: str) -> list[str]:
        return [f"{what}_{name}" for name in self.classes]

    @property
    def ranked_by(self) -> list[str]:
        """The score of each class."""
        return self._columns("score")

    def ranked(self, people: pd.DataFrame) -> np.ndarray:
        """The scores of all classes (n, K)."""
        return people[self.ranked_by].to_numpy(dtype=float)

    def scored(self, model: Any, label: np.ndarray, score: np.ndarray) -> dict[str, np.ndarray]:
        """Classes, and probabilities and scores of each."""
        of_each = {"probability": model.calibration_(score), "score": score}
        columns = {f"{what}_{name}": of[:, k] for what, of in of_each.items() for k, name in enumerate(self.classes)}
        return {"label": label.astype(int), "predicted": model.calibration_.decide(score), **columns}

    def facts(self, model: Any, label: np.ndarray) -> dict[str, Any]:
        """The target, and the shares of classes for which probabilities hold."""
        return {"target": self.described(), "prevalence": model.calibration_.prevalence}

    def decided(self, people: pd.DataFrame, model: Any = None) -> pd.DataFrame:
        """A mean of codes is no class: the decision is that of the mean scores, or else the likeliest class."""
        if model is not None:
            return people.assign(predicted=model.calibration_.decide(self.ranked(people)))
        chance = people[self._columns("probability")].to_numpy(dtype=float)
        return people.assign(predicted=(self.ranked(people) if np.isnan(chance).any() else chance).argmax(axis=1))

    def at_site(self, people: pd.DataFrame, facts: Mapping[str, Any]) -> dict[str, Any]:
        """See `sites_several.site_metrics`."""
        chance, score = people[self._columns("probability")].to_numpy(dtype=float), self.ranked(people)
        called = people["predicted"].to_numpy(dtype=int)
        label = people["label"].to_numpy(dtype=int)
        return sites_several.site_metrics(label, score, called, chance, self.classes)

    def over_sites(self, sites: pd.DataFrame, models: "Models") -> dict[str, Any]:
        """See `sites_several.over_sites`."""
        return sites_several.over_sites(sites, self.classes)

    def verdict(self, row: Mapping[str, Any], pairs: pd.DataFrame, place: Place) -> list[str]:
        """Whether classes are told apart, what to expect at the next site, and which pairs are not.

        >>> pairs = pd.DataFrame({"class_1": ["HC", "HC", "MDD"], "class_2": ["MDD", "SCZ", "SCZ"],
        ...     "auc": [.7, .8, .52], "low": [.6, .7, .4], "high": [.8, .9, .6], "apart": [True, True, False]})
        >>> row = {"auc": .68, "low": .6, "high": .75, "next_low": .55, "next_high": .8, "balanced_acc": .5}
        >>> Classes("dx", ("HC", "MDD", "SCZ")).verdict(row, pairs, Place("", "the next site", "site"))[0]
        'Some classes are told apart, not all (AUC 68.0 against the rest, next site 55.0 to 80.0; 50.0 % called right, \
33.3 % by chance): HC from MDD (70.0), HC from SCZ (80.0); cannot be told apart: MDD from SCZ (52.0, 40.0 to 60.0).'
        """
        by_outcome = {
            apart: [_in_words(one) for one in pairs[pairs["apart"] == apart].itertuples()] for apart in (True, False)
        }
        facts = f"AUC {100 * row['auc']:.1f} against the rest"
        if math.isnan(row["low"]):
            facts += f"; {row['reason']}"
        elif math.isnan(row["next_low"]) or row["low"] <= 0.5:
            facts += f", {100 * row['low']:.1f} to {100 * row['high']:.1f}"
        else:
            span = f"{100 * row['next_low']:.1f} to {100 * row['next_high']:.1f}"
            more = self.with_more(row, place, lambda value: f"{100 * value:.1f}")
            facts += f", {place.following.removeprefix('the ')} {span}{more}"
        facts += f"; {100 * row['balanced_acc']:.1f} % called right, {100 / len(self.classes):.1f} % by chance"
        if not by_outcome[True]:
            return [f"The classes cannot be told apart ({facts}): {listed(by_outcome[False], 6)}."]
        if not by_outcome[False]:
            return [f"All classes are told apart, two by two ({facts}): {listed(by_outcome[True], 6)}."]
        return [
            f"Some classes are told apart, not all ({facts}): {listed(by_outcome[True], 6)}; "
            f"cannot be told apart: {listed(by_outcome[False], 6)}."
        ]


def _in_words(row: Any) -> str:
    """A pair of classes with its AUC, and its interval where they are not told apart."""
    ends = "" if row.apart or math.isnan(row.low) else f", {100 * row.low:.1f} to {100 * row.high:.1f}"
    size = "too few people" if math.isnan(row.auc) else f"{100 * row.auc:.1f}{ends}"
    return f"{row.class_1} from {row.class_2} ({size})"
