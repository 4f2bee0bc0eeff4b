"""The readout of several classes: decision, probabilities and sets of each."""

from collections.abc import Collection
from typing import Any, Self

import numpy as np
import pandas as pd

from brainroam.data.target.calibration import ClassCalibration, as_shares, calibrate_classes
from brainroam.data.target.order import equivalent_sizes, macro_auc, macro_variances
from brainroam.data.target.readout import Scored, ShiftedReadout
from brainroam.data.target.sets import ClassSets, Promise, calibrate_class_sets
from brainroam.data.target.shifts import (
    CONTROLS,
    STRICT,
    UNLABELLED,
    ClassShift,
    SiteShift,
    learn_class_shifts,
    require_protocol,
)
from brainroam.errors import UsageError, listed

#: m: with how many cases and controls a site compares; the variances of `macro_variances`; people called right.
INNER_SITES_OF_CLASSES = ("site", "n", "auc", "m", "auc_var", "class_var", "balanced_acc", "balanced_acc_var")


class ReadoutOfClasses(ShiftedReadout):
    """Decision, probabilities, sets, and how far people of the first class, or all, move the scores of a new site."""

    measures, promise, adaptations = INNER_SITES_OF_CLASSES, ClassSets, (STRICT, UNLABELLED)

    @classmethod
    def learn(cls, target: Any, scans: Scored, people: Scored, foretold: Scored) -> Self:
        """Scans weigh by people; who tells the level of a site counts as one person."""
        code = scans.truth.astype(int)
        calibration = calibrate_classes(scans.score, code, scans.site, scans.weight)
        who = {CONTROLS: people.truth == 0, UNLABELLED: np.ones(len(people.truth), dtype=bool)}
        shifts = {name: learn_class_shifts(people.score, people.site, who[name]) for name in cls.knows(target)}
        sets = calibrate_class_sets(calibration.equal(scans.score), code, scans.site, scans.weight)
        sites = _measured(calibration, foretold)
        return cls(target, calibration, sets, shifts, sites)

    @classmethod
    def untaught(cls, target: Any) -> Self:
        """The class with the highest score."""
        k = len(target.classes)
        calibration = ClassCalibration(np.zeros(k), np.ones(k), np.full(k, 1 / k))
        return cls(target, calibration, ClassSets(0, {}), {})

    @classmethod
    def _of_arrays(cls, target: Any, calibration: np.ndarray, shifts: np.ndarray, sets: Promise) -> Self:
        names = cls.knows(target) if len(shifts) else ()
        moved = {
            name: ClassShift(tuple(SiteShift.of_row(one) for one in row))
            for name, row in zip(names, shifts, strict=True)
        }
        return cls(target, ClassCalibration(*calibration), sets, moved)

    @staticmethod
    def knows(target: Any) -> tuple[str, ...]:
        """By whose scores a new site's level is found."""
        return (CONTROLS, UNLABELLED) if target.has_controls else (UNLABELLED,)

    @property
    def _n_limits(self) -> int:
        return len(self.target.classes)

    def require(self, adapt: str, controls: Collection[str], prevalence: Any) -> None:
        """Controls where the first class is one of controls, and a share for each class."""
        if len(controls) and not self.target.has_controls:
            names = listed(self.target.classes)
            raise UsageError(f"{self.target.name} has no class of controls ({names}): use adapt={UNLABELLED}")
        require_protocol(adapt, controls)
        if (adapt != STRICT or len(controls)) and not self.shifts:
            raise UsageError("this model was pooled before its third round, or by an older version: it cannot adapt")
        if prevalence is not None:
            as_shares(prevalence, self.target.classes)

    def probabilities(self, score: np.ndarray, prevalence: Any) -> np.ndarray:
        """Probabilities (n, K), where these shares of people are of each class."""
        return self.calibration(score, None if prevalence is None else as_shares(prevalence, self.target.classes))

    def in_set(self, score: np.ndarray, level: float) -> np.ndarray:
        """Which classes (n, K) are in the set of each person."""
        return self.sets(self.calibration.equal(score), level)

    def columns(
        self, score: np.ndarray, adapted: np.ndarray, strict: np.ndarray, prevalence: Any
    ) -> dict[str, np.ndarray]:
        """``predicted``, a ``probability_`` and ``score_`` of each class, ``set_80``, ...: classes by their names."""
        names = np.array(self.target.classes)
        of_each = {"probability": self.probabilities(adapted, prevalence), "score": score}
        found: dict[str, np.ndarray] = {"predicted": names[self.calibration.decide(adapted)]}
        found |= {f"{what}_{name}": each[:, k] for what, each in of_each.items() for k, name in enumerate(names)}
        for level in self.sets.limits:
            inside = self.in_set(score, level)
            found[f"set_{100 * level:g}"] = np.where(strict, ["; ".join(names[row]) for row in inside], "")
        return found


def _measured(calibration: ClassCalibration, people: Scored) -> pd.DataFrame:
    """Measures of the inner sites with two classes or more."""
    score, code, site = people.score, people.truth.astype(int), people.site
    known = np.isfinite(score).all(axis=1)
    sites = [(name, np.flatnonzero(known & (site == name))) for name in np.unique(site[known])]
    rows = [(str(name), len(here), *_measures_of(calibration, code[here], score[here])) for name, here in sites]
    return pd.DataFrame(rows, columns=list(INNER_SITES_OF_CLASSES)).dropna(ignore_index=True)


def _measures_of(calibration: ClassCalibration, code: np.ndarray, score: np.ndarray) -> tuple[float, ...]:
    """Measures of one site: the columns after its name and number of people."""
    count = np.bincount(code, minlength=score.shape[1])
    there, called = np.flatnonzero(count), calibration.decide(score)
    recall = np.array([np.mean(called[code == k] == k) for k in there])
    # One person more of a class, called right by half: no class is ever called right for certain.
    shrunken = (recall * count[there] + 0.5) / (count[there] + 1)
    variance = float((shrunken * (1 - shrunken) / count[there]).sum()) / len(there) ** 2
    m, auc = float(equivalent_sizes(count[None])[0]), float(macro_auc(code, score))
    return auc, m, *macro_variances(code, score), float(recall.mean()), variance
