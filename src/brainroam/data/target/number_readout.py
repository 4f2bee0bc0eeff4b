"""The readout of a number: a line, intervals, and how level and scale of a new site are mended."""

import warnings
from collections.abc import Collection
from typing import Any, Self

import numpy as np
import pandas as pd

from brainroam.data.target.calibration import NumberCalibration, calibrate_number
from brainroam.data.target.order import correlations, sites_with_numbers
from brainroam.data.target.readout import Readout, Scored
from brainroam.data.target.sets import PredictionIntervals, Promise, calibrate_intervals
from brainroam.data.target.shifts import (
    LABELLED,
    NOTHING_TO_MEND,
    SCALE,
    STRICT,
    SiteShift,
    learn_scale,
    learn_shift,
    mend,
    protocol_name,
)
from brainroam.errors import DataError, UsageError

INNER_SITES_OF_NUMBERS = ("site", "n", "r", "level", "level_var", "off", "off_sd", "spread")  # off: the level in units


class ReadoutOfNumber(Readout):
    """The line from scores to the number, intervals, and how people with a known number mend level and scale."""

    measures, promise, adaptations = INNER_SITES_OF_NUMBERS, PredictionIntervals, (STRICT, LABELLED)

    @staticmethod
    def knows(target: Any) -> tuple[str, ...]:
        """Level and scale of people with a known number."""
        return LABELLED, SCALE

    @classmethod
    def learn(cls, target: Any, scans: Scored, people: Scored, foretold: Scored) -> Self:
        """Scans weigh by people; who tells the level of a site counts as one person."""
        calibration = calibrate_number(scans.score, scans.truth, scans.weight)
        sets = calibrate_intervals(scans.score, scans.truth, scans.site, scans.weight)
        score, t, site, _ = people
        prediction = calibration(score)
        level = learn_shift(t - prediction, site, np.ones(len(t), dtype=bool))
        found = cls(target, calibration, sets, {LABELLED: level, SCALE: learn_scale(prediction, t, site)})
        score = foretold.score
        errors, off = t - calibration(score), found.predict(score) - target.inverse(t)
        rows = [
            (
                *(str(site[here[0]]), len(here), float(correlations(t[here], score[here]))),
                *(float(-errors[here].mean()), float(errors[here].var(ddof=1) / len(here))),
                *(float(off[here].mean()), float(off[here].std()), float(score[here].std(ddof=1))),
            )
            for here in sites_with_numbers(t, site, score)
        ]
        found.inner_sites = pd.DataFrame(rows, columns=list(INNER_SITES_OF_NUMBERS))
        return found

    @classmethod
    def untaught(cls, target: Any) -> Self:
        """The score is the number."""
        shifts = dict.fromkeys(cls.knows(target), SiteShift(0.0, 0.0))
        return cls(target, NumberCalibration(0.0, 1.0, 0.0), PredictionIntervals(0, {}), shifts)

    @classmethod
    def _of_arrays(cls, target: Any, calibration: np.ndarray, shifts: np.ndarray, sets: Promise) -> Self:
        moved = {name: SiteShift.of_row(row) for name, row in zip(cls.knows(target), shifts, strict=True)}
        return cls(target, NumberCalibration(*map(float, calibration)), sets, moved)

    def predict(self, score: np.ndarray) -> np.ndarray:
        """The number for each score, in the target's own units."""
        return self.target.inverse(self.calibration(score))

    def interval(self, score: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
        """Ends of the interval of a number for each score, in the target's own units."""
        low, high = self.sets(self.calibration(score), level)
        return self.target.inverse(low), self.target.inverse(high)

    def require(self, adapt: str, controls: Collection[str], prevalence: Any) -> None:
        """People whose number is known mend a site; there are no controls and no shares."""
        if len(controls) or prevalence is not None:
            raise UsageError("controls and a prevalence are for classes; this model predicts a number")
        if adapt not in self.adaptations:
            raise UsageError(f"for a number adapt is {STRICT} or {LABELLED}, not {adapt!r}")
        if adapt == LABELLED and not any(shift.ratio for shift in self.shifts.values()):
            message = f"known values of {self.target.name} change no prediction: {NOTHING_TO_MEND}"
            warnings.warn(message, stacklevel=3)

    def use(self, label: pd.Series, named: np.ndarray, adapt: str) -> tuple[np.ndarray, np.ndarray]:
        """Everybody whose number is known."""
        used = label.notna().to_numpy() & (adapt == LABELLED)
        if adapt == LABELLED and (used.all() or not used.any()):
            who = "nobody" if used.any() else "everybody"
            raise DataError(
                f"adapt=labelled mends the predictions of people without a value of {self.target.name} by others of "
                f"their site who have one; {who} is without"
            )
        return used, used

    def adapted(self, score: np.ndarray, known: np.ndarray, truth: np.ndarray, adapt: str) -> np.ndarray:
        """Predictions with level and scale mended."""
        line = self.calibration
        moved = mend(line(score), line(known), self.target.forward(truth), self.shifts[LABELLED], self.shifts[SCALE])
        return self.target.inverse(moved)

    def protocol(self, n_known: int, adapt: str) -> str:
        """``strict``, ``labelled-20``."""
        return protocol_name(n_known, LABELLED)

    def columns(
        self, score: np.ndarray, adapted: np.ndarray, strict: np.ndarray, prevalence: Any
    ) -> dict[str, np.ndarray]:
        """``predicted``, of an order also the nearest ``level``, and ``low_80``, ``high_80``, ..."""
        found = {"predicted": adapted, **self.target.nearest(adapted)}
        for level in self.sets.limits:
            for end, values in zip(("low", "high"), self.interval(score, level), strict=True):
                found[f"{end}_{100 * level:g}"] = np.where(strict, values, np.nan)
        return found
