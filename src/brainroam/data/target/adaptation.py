"""What a few people of a held-out site bring to the others there, tried afterwards on finished runs.

Each leave-one-site-out run keeps the level of training sites and how far to trust a new one's own (`shifts`). Of two
classes controls are drawn, who move the threshold; of a number people whose value is known, who mend level and scale.
They are not scored; the others are, strictly and adapted, the same people both ways. An `Adaptation` also says how all
this is shown.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd

from brainroam.data.target.calibration import Calibration, NumberCalibration
from brainroam.data.target.figures import amount, two_digits
from brainroam.data.target.order import auc
from brainroam.data.target.sets import PredictionSets
from brainroam.data.target.shifts import (
    LABELLED,
    NOTHING_TO_MEND,
    SCALE,
    STRICT,
    UNLABELLED,
    SiteShift,
    mend,
    protocol_name,
)
from brainroam.data.target.sites_number import site_metrics, weights_of
from brainroam.data.target.sites_two import BALANCED, balanced_metrics
from brainroam.data.target.weights import site_weights
from brainroam.errors import counted

NARROWEST = 5.0  # points to either side, or percent of a mean error


class Head(NamedTuple):
    """A column of a table of protocols: its key, its head, how a value is written."""

    key: str
    head: str
    form: Callable[[float], str]


@dataclass(frozen=True)
class Adaptation(ABC):
    """Of one target; ``kept`` is what a run keeps for the next site."""

    target: Any

    main: ClassVar[str]  # what an adaptation is to mend
    measured: ClassVar[tuple[str, ...]]  # also with ``strict_`` before the name
    counts: ClassVar[tuple[str, ...]] = ()  # columns beside them
    who: ClassVar[str]  # who is drawn, in the name of a protocol
    drawn: ClassVar[str]  # the same in a sentence
    sign: ClassVar[float]  # of an improvement
    points: ClassVar[float] = 1.0  # in how many parts the main measure is shown
    word: ClassVar[str]  # the main measure in a sentence
    before: ClassVar[tuple[Head, ...]]  # columns of the report before the interval of the difference
    after: ClassVar[tuple[Head, ...]]
    digits: ClassVar[int]  # of that interval
    heads: ClassVar[tuple[str, ...]]  # of the table on a terminal
    meaning: ClassVar[str]  # of the columns on a terminal

    @property
    @abstractmethod
    def taken(self) -> str:
        """Who is taken from a site, after their number."""

    @property
    @abstractmethod
    def unit(self) -> str:
        """Of the axis of a figure."""

    @property
    def scale(self) -> str:
        """Of the main measure beside a figure."""
        return f"in units of {self.target.name}"

    def narrowest(self, strict: np.ndarray) -> float:
        """Half of the width of a figure, at least: smaller changes should look small."""
        return NARROWEST / 100 * float(np.nanmax(strict))

    @abstractmethod
    def question(self, unit: str) -> str:
        """What is asked here, for a report."""

    @abstractmethod
    def free(self, label: np.ndarray) -> np.ndarray:
        """Positions of the people who may be drawn."""

    @abstractmethod
    def scored(
        self, kept: Mapping[str, Any], label: np.ndarray, score: np.ndarray, taken: np.ndarray, constant: float
    ) -> dict[str, float]:
        """What is measured of the others where these are taken, strictly as well."""

    def of_everybody(self, kept: Mapping[str, Any], label: np.ndarray, score: np.ndarray) -> dict[str, float] | None:
        """The same where the scans of everybody tell the level of the site; None where they cannot."""
        return None

    def sets(self, kept: Mapping[str, Any]) -> PredictionSets | None:
        """Sets of classes that a run promises; None of a number."""
        return None

    @abstractmethod
    def weights(self, sites: pd.DataFrame) -> np.ndarray:
        """Of sites in a mean."""

    def other_means(self, sites: pd.DataFrame) -> dict[str, float]:
        """What takes the place of a weighted mean."""
        return {}

    @abstractmethod
    def cells(self, row: Mapping[str, Any]) -> list[str]:
        """A protocol as it is printed, after its name and the number of sites."""

    @abstractmethod
    def form(self, value: float) -> str:
        """The main measure beside a figure."""

    @abstractmethod
    def sentence(self, rows: pd.DataFrame) -> str:
        """What protocols bring, and whether that is beyond chance."""

    def protocol(self, n: int) -> str:
        """The name of one that draws so many."""
        return protocol_name(n, self.who)

    def in_words(self, protocol: str) -> str:
        """What a protocol takes from the new site.

        >>> from brainroam.data.target import TWO_CLASSES, Number
        >>> [TWO_CLASSES.adaptation.in_words(name) for name in ("strict", "controls-20", "unlabelled")]
        ['nothing', '20 controls', 'scans only']
        >>> Number("age").adaptation.in_words("labelled-5")
        '5 of known age'
        """
        names = {STRICT: "nothing", UNLABELLED: "scans only"}
        return names.get(protocol, f"{protocol.rpartition('-')[2]} {self.taken}")


def _shift(kept: Mapping[str, Any], name: str) -> SiteShift:
    return SiteShift.of_row(kept["shifts"][name])


def _both(measured: Sequence[str], adapted: Mapping[str, Any], strict: Mapping[str, Any]) -> dict[str, float]:
    found = {name: adapted[name] for name in measured}
    return found | {f"strict_{name}": strict[name] for name in measured}


def _three(value: float) -> str:
    return f"{value:.3f}"


def _two(value: float) -> str:
    return f"{value:.2f}"


class AdaptationOfTwo(Adaptation):
    """Some controls, or the scans of everybody, move the threshold."""

    main, measured, counts, who, drawn = "balanced_acc", ("auc", *BALANCED), ("n_cases",), "controls", "controls"
    sign, points, word, digits = 1.0, 100.0, "balanced accuracy", 3
    taken, unit, scale = "controls", "points", "%"
    before = (
        Head("auc", "AUC", _three),
        Head("strict_balanced_acc", "Balanced accuracy without", _three),
        Head("balanced_acc", "Balanced accuracy with", _three),
    )
    after = (
        Head("strict_calibration_in_the_large", "Probabilities too high or low by, without", _three),
        Head("calibration_in_the_large", "Probabilities too high or low by, with", _three),
    )
    heads = ("AUC", "BAC\nstrict", "BAC", "difference", "off\nstrict", "off")
    meaning = (
        "BAC: balanced accuracy of the people who are scored, at the strict and at the moved threshold; off: of the "
        "mean probability, both classes alike, from one half"
    )

    def narrowest(self, strict: np.ndarray) -> float:
        """In points."""
        return NARROWEST

    def question(self, unit: str) -> str:
        """Three ways are compared."""
        return (
            f"May I use a few people of my own {unit}? Three ways are compared: nothing is taken from it; the scores "
            "of some of its controls, who are then not counted; or the scans of everybody who is to be predicted, "
            "without any diagnosis, which assumes a share with the condition like that of the training sites. Only the "
            "threshold and the probabilities move: the order of people, and so the AUC, does not."
        )

    def free(self, label: np.ndarray) -> np.ndarray:
        """Controls."""
        return np.flatnonzero(label == 0)

    def scored(
        self, kept: Mapping[str, Any], label: np.ndarray, score: np.ndarray, taken: np.ndarray, constant: float
    ) -> dict[str, float]:
        """At the threshold moved by these controls."""
        left = np.delete(np.arange(len(label)), taken)
        return self._moved(kept, label[left], score[left], _shift(kept, "controls")(score[taken]))

    def of_everybody(self, kept: Mapping[str, Any], label: np.ndarray, score: np.ndarray) -> dict[str, float]:
        """At the threshold moved by everybody."""
        return self._moved(kept, label, score, _shift(kept, UNLABELLED)(score))

    def _moved(self, kept: Mapping[str, Any], label: np.ndarray, score: np.ndarray, shift: float) -> dict[str, float]:
        """Of the people who are scored, at the shifted threshold and at that of the training sites."""
        calibration, order = Calibration(**kept["calibration"]), auc(label, score)  # which the shift leaves as it is

        def at(moved: np.ndarray) -> dict[str, float]:
            probability, called = calibration(moved, prevalence=0.5), calibration.decide(moved)
            return {"auc": order, **balanced_metrics(label, probability, called)}

        return {"n": len(label), "n_cases": int(label.sum()), **_both(self.measured, at(score - shift), at(score))}

    def sets(self, kept: Mapping[str, Any]) -> PredictionSets:
        """Of case and control."""
        return PredictionSets(kept["n_sites"], {float(level): tuple(pair) for level, pair in kept["sets"].items()})

    def weights(self, sites: pd.DataFrame) -> np.ndarray:
        """By the rarer class."""
        return site_weights(sites["n_cases"], sites["n"] - sites["n_cases"])

    def cells(self, row: Mapping[str, Any]) -> list[str]:
        """In points of 100."""
        low, high = 100 * row["gain_low"], 100 * row["gain_high"]
        gain = f"{100 * row['gain']:+.1f}" + ("" if np.isnan(low) else f" ({low:+.1f} to {high:+.1f})")
        points = [f"{100 * row[name]:.1f}" for name in ("auc", "strict_balanced_acc", "balanced_acc")]
        off = [_three(row[name]) for name in ("strict_calibration_in_the_large", "calibration_in_the_large")]
        return [*points, gain, *off]

    def form(self, value: float) -> str:
        """In points of 100."""
        return f"{value:.1f}"

    def sentence(self, rows: pd.DataFrame) -> str:
        """By how many points balanced accuracy changes."""
        parts = [
            f"{100 * row.gain:+.1f} points with {self.in_words(row.adaptation)} "
            f"({counted(row.n_sites, 'site', 'sites')})"
            for row in rows.itertuples()
            if row.adaptation != STRICT
        ]
        sure = [self.in_words(name) for name in rows[rows["gain_low"] > 0]["adaptation"]]
        beyond = f"Beyond chance: {', '.join(sure)}." if sure else "None of these is beyond chance."
        return f"Balanced accuracy changes by {', '.join(parts)}. {beyond}"


class AdaptationOfNumber(Adaptation):
    """Some people whose value is known mend level and scale of the predictions of the others."""

    main, measured, who, drawn = "mae", ("r", "mae", "off", "scale"), LABELLED, "people"
    sign, word, digits = -1.0, "mean error", 2
    before = (Head("strict_mae", "Error without", _two), Head("mae", "Error with", _two))
    after = (
        Head("strict_off", "Level off by, without", _two),
        Head("off", "Level off by, with", _two),
        Head("strict_scale", "Scale without", _two),
        Head("scale", "Scale with", _two),
    )
    heads = ("error\nstrict", "error", "difference", "off\nstrict", "off", "scale\nstrict", "scale")

    @property
    def meaning(self) -> str:  # type: ignore[override]
        """Of the columns on a terminal."""
        return (
            "error: mean absolute error of the people who are predicted; off: by how much their mean prediction is "
            f"off; means over sites, in units of {self.target.name}; scale: slope of truth on prediction, median; "
            "strict: of the same people, with nobody's value known; their order, and r, stay"
        )

    @property
    def taken(self) -> str:
        """Of known value."""
        return f"of known {self.target.name}"

    @property
    def unit(self) -> str:
        """That of the target."""
        return self.target.name

    def question(self, unit: str) -> str:
        """Who mends what."""
        return (
            f"May I use a few people of my own {unit} whose {self.target.name} is known? Some of its people are drawn, "
            "mend level and scale of the predictions, the further the more of them there are, and are not counted; the "
            "others are. The order of people, and so r, does not change."
        )

    def free(self, label: np.ndarray) -> np.ndarray:
        """Everybody."""
        return np.arange(len(label))

    def scored(
        self, kept: Mapping[str, Any], label: np.ndarray, score: np.ndarray, taken: np.ndarray, constant: float
    ) -> dict[str, float]:
        """With level and scale mended."""
        left, target = np.delete(np.arange(len(label)), taken), self.target
        prediction = NumberCalibration(**kept["calibration"])(score)
        known = prediction[taken], target.forward(label[taken])
        mended = mend(prediction[left], *known, _shift(kept, LABELLED), _shift(kept, SCALE))

        def at(values: np.ndarray) -> dict[str, float]:
            found = site_metrics(label[left], target.inverse(values), constant, target)
            return {**found, "off": abs(found["level"])}

        return {"n": len(left), **_both(self.measured, at(mended), at(prediction[left]))}

    def weights(self, sites: pd.DataFrame) -> np.ndarray:
        """By people."""
        return weights_of(sites["n"].to_numpy())

    def other_means(self, sites: pd.DataFrame) -> dict[str, float]:
        """As in a verdict: the slope of a single site may be far from the others."""
        return {name: float(sites[name].median()) for name in ("scale", "strict_scale")}

    def cells(self, row: Mapping[str, Any]) -> list[str]:
        """In units of the target."""
        low, high = row["gain_low"], row["gain_high"]
        gain, *ends = (amount(value, digits, sign=True) for value, digits in ((row["gain"], 3), (low, 2), (high, 2)))
        gain += "" if np.isnan(low) else f" ({' to '.join(ends)})"
        errors, off = ([amount(row[name]) for name in (f"strict_{key}", key)] for key in ("mae", "off"))
        return [*errors, gain, *off, *(two_digits(row[name]) for name in ("strict_scale", "scale"))]

    def form(self, value: float) -> str:
        """In units of the target."""
        return amount(value)

    def sentence(self, rows: pd.DataFrame) -> str:
        """How the errors of the others change."""
        mended = rows[rows["adaptation"] != STRICT]
        if not mended["gain"].any():
            return f"People of known {self.target.name} change nothing at a new site: {NOTHING_TO_MEND}."
        parts = [
            f"from {amount(row.strict_mae)} to {amount(row.mae)} with {self.in_words(row.adaptation)} "
            f"({counted(row.n_sites, 'site', 'sites')})"
            for row in mended.itertuples()
        ]
        sure = [self.in_words(name) for name in mended[mended["gain_high"] < 0]["adaptation"]]
        beyond = f"Smaller beyond chance: {', '.join(sure)}." if sure else "None of these is smaller beyond chance."
        return f"The mean error of the others at held-out sites goes {', '.join(parts)}. {beyond}"
