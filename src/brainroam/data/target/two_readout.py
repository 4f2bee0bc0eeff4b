"""The readout of two classes: a threshold, probabilities, sets, and what is odd about a site."""

import warnings
from collections.abc import Collection
from typing import Any, Self

import numpy as np
import pandas as pd

from brainroam.data.target.calibration import Calibration, calibrate
from brainroam.data.target.readout import Scored, ShiftedReadout
from brainroam.data.target.sets import PredictionSets, Promise, calibrate_sets
from brainroam.data.target.shifts import (
    CONTROLS,
    INNER_SITES,
    STRICT,
    UNLABELLED,
    SiteShift,
    inner_sites,
    learn_shift,
    require_protocol,
)

OTHER_SHARE = 0.1  # a stated prevalence that differs more from that of training does not go with adapt=unlabelled
ONE_SIDED, LEAST_PEOPLE = 0.1, 10  # of at least so many people of a site at most this share is called case, or control


class ReadoutOfTwo(ShiftedReadout):
    """Decision, probability, sets, and how far controls or all people of a new site move its threshold."""

    measures, promise, adaptations = INNER_SITES, PredictionSets, (STRICT, UNLABELLED)

    @staticmethod
    def knows(target: Any) -> tuple[str, ...]:
        """Controls, or all people without labels."""
        return CONTROLS, UNLABELLED

    @classmethod
    def learn(cls, target: Any, scans: Scored, people: Scored, foretold: Scored) -> Self:
        """Scans weigh by people; who is a control of a site counts as one person."""
        y = scans.truth.astype(int)
        calibration = calibrate(scans.score, y, scans.site, scans.weight)
        who = {CONTROLS: people.truth == 0, UNLABELLED: np.ones(len(people.truth), dtype=bool)}
        shifts = {name: learn_shift(people.score, people.site, here) for name, here in who.items()}
        sets = calibrate_sets(scans.score, y, scans.site, scans.weight)
        sites = inner_sites(foretold.score, foretold.truth.astype(int), foretold.site, calibration)
        return cls(target, calibration, sets, shifts, sites)

    @classmethod
    def untaught(cls, target: Any) -> Self:
        """A threshold of 0."""
        shifts = dict.fromkeys(cls.knows(target), SiteShift(0.0, 0.0))
        return cls(target, Calibration(0.0, 1.0, 0.0, 0.5), PredictionSets(0, {}), shifts)

    @classmethod
    def _of_arrays(cls, target: Any, calibration: np.ndarray, shifts: np.ndarray, sets: Promise) -> Self:
        moved = {name: SiteShift.of_row(row) for name, row in zip(cls.knows(target), shifts, strict=True)}
        return cls(target, Calibration(*map(float, calibration)), sets, moved)

    def require(self, adapt: str, controls: Collection[str], prevalence: Any) -> None:
        """Controls are named, or everybody's scores are used."""
        require_protocol(adapt, controls)
        if adapt == UNLABELLED and prevalence is not None:
            trained = self.calibration.prevalence
            if abs(prevalence - trained) > OTHER_SHARE:
                warnings.warn(
                    f"adapt=unlabelled takes {trained:.0%} of the people at a site for cases, as in training; where "
                    f"{prevalence:.0%} are, it moves the level of the site too far: name controls instead",
                    stacklevel=3,
                )

    def columns(
        self, score: np.ndarray, adapted: np.ndarray, strict: np.ndarray, prevalence: float | None
    ) -> dict[str, np.ndarray]:
        """``probability``, the ``prevalence`` it holds for, the ``predicted`` class, ``set_80``, ..."""
        share = self.calibration.prevalence if prevalence is None else prevalence
        return {
            "probability": self.calibration(adapted, prevalence),
            "prevalence": np.full(len(score), share),
            "predicted": self.calibration.decide(adapted),
            **{f"set_{100 * level:g}": np.where(strict, self.sets(score, level), "") for level in self.sets.limits},
        }

    def probabilities(self, score: np.ndarray, prevalence: float | None) -> np.ndarray:
        """Probabilities (n, 2) of control and condition."""
        p = self.calibration(score, prevalence)
        return np.column_stack([1 - p, p])

    def in_set(self, score: np.ndarray, level: float) -> np.ndarray:
        """Whether controls and cases (n, 2) are in the set of each person."""
        words = self.sets(score, level)
        return np.column_stack([np.isin(words, [name, "either"]) for name in ("control", "case")])

    def odd_sites(self, table: pd.DataFrame, score: np.ndarray) -> dict[str, str]:
        """Sites where nearly all or none are predicted cases, or whose scores lie far from others, with the reason."""
        site, found = table["site"].to_numpy(), {}
        for name in np.unique(site):
            here = site == name
            n, cases = int(here.sum()), int(table["predicted"].to_numpy()[here].sum())
            one_sided = n >= LEAST_PEOPLE and min(cases, n - cases) <= ONE_SIDED * n
            strict = table["protocol"].to_numpy()[here][0] == STRICT
            far = strict and self.shifts[UNLABELLED].is_far(score[here])
            if one_sided or far:
                lies = ", and its scores lie far from those of the training sites" if far else ""
                found[str(name)] = f"{cases} of {n} people are predicted to have the condition{lies}"
        return found

    def _advice(self, here: pd.DataFrame) -> str:
        if not (here["protocol"] == STRICT).all():
            return "use only the order of its people, or check how its scans were made"
        return (
            f"name controls of the site (--controls), or use --adapt unlabelled if about "
            f"{self.calibration.prevalence:.0%} of its people are cases, as in training; or use only the order of its "
            "people, which neither changes"
        )
