"""Two classes: labels are 0 and 1, one score orders people."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from brainroam.data.target import sites_two
from brainroam.data.target.adaptation import AdaptationOfTwo
from brainroam.data.target.association import Association, contrast
from brainroam.data.target.base import Place, Target
from brainroam.data.target.coding import TwoCoded
from brainroam.data.target.figures import INTERVAL, NEXT, Shown, points, span
from brainroam.data.target.labels import stratified_fifths
from brainroam.data.target.order import aucs
from brainroam.data.target.orders import Areas
from brainroam.data.target.outlook import OutlookOfTwo
from brainroam.data.target.request import TWO
from brainroam.data.target.sites_several import one_sided
from brainroam.data.target.two_readout import ReadoutOfTwo
from brainroam.data.target.validation import ValidationOfTwo
from brainroam.data.target.weights import JUDGED
from brainroam.errors import DataError

if TYPE_CHECKING:
    from brainroam.data.target.orders import Models


@dataclass(frozen=True)
class TwoClasses(Target):
    """Labels 0 and 1: controls and cases."""

    name: str = "diagnosis"
    classes: tuple[str, ...] = ("control", "case")

    kind = TWO
    is_two_classes = True
    readout = ReadoutOfTwo
    coding = TwoCoded()

    def association(self, values: np.ndarray, label: np.ndarray) -> Association:
        """Cases against controls."""
        d, p = contrast(values[label == 1], values[label == 0])
        return d, p, f"d = {d:.2f}"

    def worded(self, of_cases: str, of_others: str) -> str:
        """The one about cases and controls."""
        return of_cases

    @property
    def words_of_codes(self) -> dict[int, str]:
        """Cases first."""
        return {1: "cases", 0: "controls"}

    def class_counts(self, label: pd.Series, cases: str, controls: str) -> dict[str, int]:
        """Cases and controls."""
        return {cases: int((label == 1).sum()), controls: int((label == 0).sum())}

    def site_columns(self, sites: Any) -> dict[str, pd.Series]:
        """Cases and controls."""
        return {
            "cases": sites.apply(lambda y: int((y == 1).sum())),
            "controls": sites.apply(lambda y: int((y == 0).sum())),
        }

    def binary(self, values: np.ndarray) -> np.ndarray:
        """As integers."""
        return values.astype(int)

    def as_condition(self, label: pd.Series) -> pd.Series | None:
        """As they are."""
        return label

    def diagnoses(self, label: pd.Series) -> Iterator[pd.Series]:
        """They are."""
        yield label

    def state(self) -> dict[str, np.ndarray]:
        """Nothing: a model of which nothing else is said is of two classes."""
        return {}

    def merit(self, truth: np.ndarray, site: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """The AUC."""
        return aucs(truth, scores)

    def fifths(self, truth: np.ndarray, codes: np.ndarray | None, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Stratified."""
        y = truth.astype(int)
        yield from stratified_fifths(y, codes, seed, 2, f"{y.sum()} cases and {(1 - y).sum()} controls")

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

    doubt = "are cases and controls exchanged, or ids"

    def how_many(self, label: np.ndarray) -> dict[str, int]:
        """Also how many are cases."""
        return {"n": len(label), "n_cases": int(label.sum())}

    def entry(self, key: str = "target") -> dict[str, Any]:
        """None: a file that does not say what is predicted is of two classes."""
        return {}

    @property
    def called(self) -> str:
        """Whatever they are called."""
        return TWO

    def require_two_classes(self, what: str) -> None:
        """They are."""

    def require_same(self, here: Target) -> None:
        """Any two classes."""
        if here.kind != TWO:
            raise DataError(
                f"the forecast is of two classes, and these data tell {here.name}; load them without a target"
            )

    def recoded(self, label: pd.Series, here: Target) -> pd.Series:
        """As they are: 1 is the condition, whatever it is called."""
        return label

    @property
    def adaptation(self) -> AdaptationOfTwo:
        """What a few people of a held-out site bring."""
        return AdaptationOfTwo(self)

    @property
    def validation(self) -> ValidationOfTwo:
        """What is said of predictions, and against the truth."""
        return ValidationOfTwo(self)

    @property
    def outlook(self) -> OutlookOfTwo:
        """AUC, balanced accuracy, level and Brier score."""
        return OutlookOfTwo(self)

    def request(self) -> dict[str, Any] | None:
        """None: readers of people know their diagnoses."""
        return None

    @property
    def order(self) -> Areas:
        """The AUC."""
        return Areas()

    scale = ", in points of 100"

    @property
    def named(self) -> bool:
        """Only a column that was asked for."""
        return bool(self.condition)

    @property
    def shown(self) -> list[Shown]:
        """The AUC with its intervals, how pairs of one site are ordered, the worst site, decisions."""
        return [
            Shown(
                ("auc",), "AUC", points, "How often somebody with the condition scores higher than somebody without."
            ),
            Shown(("auc_low", "auc_high"), "interval", span, INTERVAL),
            Shown(("next_low", "next_high"), "next {unit}*", span, NEXT),
            Shown(("concordance",), "pairs", points, "The AUC where each pair of a case and a control counts once."),
            Shown(("worst_auc", "worst_site"), "worst", _worst, f"Of sites with {JUDGED} or more of each class."),
            Shown(("acc",), "ACC", points, "Share of people who are called right."),
            Shown(
                ("balanced_acc",), "BAC", points, "Mean of the shares of cases and of controls who are called right."
            ),
        ]

    @property
    def shown_at_site(self) -> list[Shown]:
        """Decisions and probabilities."""
        return [
            Shown(("balanced_acc",), "Balanced accuracy", points, "Mean of sensitivity and specificity."),
            Shown(("sensitivity",), "Sensitivity", points, "Share of people with the condition who are found."),
            Shown(("specificity",), "Specificity", points, "Share of people without it who are left alone."),
            Shown(
                ("brier",), "Brier score", points, "Mean squared error of probabilities: 0.25 is 50 % for everybody."
            ),
        ]

    pictures = ("roc", "scores")
    answers = (
        "A score, a calibrated probability of the condition, and a class at a threshold learned on the training sites."
    )
    metrics_in_words = (
        "AUC per {unit} (primary), balanced accuracy, sensitivity, specificity, Brier score, calibration slope and "
        "intercept"
    )
    outcome = "Binary label, 1 with the condition and 0 control"
    balance = "AUC and balanced accuracy do not depend on the balance; probabilities state their prevalence."

    def describe(self, people: pd.DataFrame) -> pd.DataFrame:
        """Cases, controls and the share of cases."""
        sites = people.groupby("site")["label"]
        cases, n = sites.apply(lambda label: int((label == 1).sum())), sites.size()
        condition = self.condition or "the condition"
        return pd.DataFrame({f"With {condition}": cases, "Controls": n - cases, f"Share with {condition}": cases / n})

    def flow(self, label: pd.Series) -> str:
        """Cases and controls."""
        cases = int((label == 1).sum())
        return f"{cases} with {self.condition or 'the condition'}, {len(label) - cases} controls"

    def spell(self, label: float) -> str:
        """With or without the condition."""
        condition = self.condition or "the condition"
        return f"{'with' if label else 'without'} {condition}"

    def plainly(self, value: float) -> str:
        """Times out of 100."""
        return f"{100 * value:.0f}"

    def one_sided(self, called: pd.DataFrame) -> list[tuple[str, str]]:
        """Sites where nearly everybody is called a case, or a control."""
        return one_sided(called, ("controls", self.condition or "cases"))

    def caption(self, unit: str) -> str:
        """What the columns mean, for a terminal."""
        return (
            f"AUC, ACC (accuracy), BAC (balanced accuracy): {self.order.rule.replace('site', unit)}; intervals 95 %; "
            f"pairs: AUC where each pair of a case and a control of one {unit} counts once; worst: of {unit}s with "
            f"{JUDGED} or more of each class"
        )

    @property
    def measured(self) -> tuple[str, ...]:
        """Counts, the metrics of `sites_two`, and what decisions and probabilities hold for."""
        return ("n", "n_cases", *sites_two.METRICS, "threshold", "prevalence")

    @property
    def told(self) -> tuple[str, ...]:
        """Score, probability and class."""
        return ("label", "score", "probability", "predicted")

    def scored(self, model: Any, label: np.ndarray, score: np.ndarray) -> dict[str, np.ndarray]:
        """Scores and probabilities."""
        return {"label": label.astype(int), "score": score, "probability": model.calibration_(score)}

    def facts(self, model: Any, label: np.ndarray) -> dict[str, Any]:
        """From which score on people are called cases, and the share of cases for which probabilities hold."""
        return {"threshold": model.calibration_.threshold, "prevalence": model.calibration_.prevalence}

    def at_site(self, people: pd.DataFrame, facts: Mapping[str, Any]) -> dict[str, Any]:
        """See `sites_two.site_metrics`."""
        label, score, chance = (people[name].to_numpy(dtype=float) for name in ("label", "score", "probability"))
        return sites_two.site_metrics(label, score, facts.get("threshold", np.nan), chance)

    def over_sites(self, sites: pd.DataFrame, models: "Models") -> dict[str, Any]:
        """See `sites_two.over_sites`."""
        return sites_two.over_sites(sites)

    def verdict(self, row: Mapping[str, Any], pairs: pd.DataFrame, place: Place) -> list[str]:
        """For somebody who does not know what an AUC is.

        >>> row = {"method": "core", "n_sites": 9, "auc": .72, "auc_low": .66, "auc_high": .78, "next_low": .55,
        ...        "next_high": .85, "reason": ""}
        >>> place = Place("a site it has never seen", "the next site", "site")
        >>> for sentence in TWO_CLASSES.verdict(row, pd.DataFrame(), place): print(sentence)
        Shown one person with the condition and one without, both from a site it has never seen, core ranks the right \
one higher 72 times out of 100 (95 % interval 66 to 78); guessing gives 50.
        At the next site expect 55 to 85 of 100.
        """
        if math.isnan(row["auc"]):
            both = f"both people {self.with_class(1)} and others" if self.condition else "both cases and controls"
            return [f"No {place.unit} has {both}, so nothing can be said about {row['method']}."]
        one, other = ("with the condition", "without") if not self.condition else map(self.with_class, (1, 0))
        mean, low, high = (f"{100 * row[name]:.0f}" for name in ("auc", "auc_low", "auc_high"))
        interval = f" (95 % interval {low} to {high})" if math.isfinite(row["auc_low"]) else ""
        sentences = [
            f"Shown one person {one} and one {other}, both from {place.where}, {row['method']} ranks the right one "
            f"higher {mean} times out of 100{interval}; guessing gives 50."
        ]
        if math.isfinite(row["next_low"]):
            following = f"{100 * row['next_low']:.0f} to {100 * row['next_high']:.0f} of 100"
            more = self.with_more(row, place, lambda value: f"{100 * value:.0f}")
            sentences.append(f"At {place.following} expect {following}{more}.")
        return sentences


def _worst(auc: float, site: str) -> str:
    return f"{points(auc)} {site}".strip()


TWO_CLASSES = TwoClasses()
