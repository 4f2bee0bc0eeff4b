"""What scores of people whose site was held out teach about the next site: the readout of a target.

A method gives each person a score, or one for each of several classes. What it means is learned from training people,
each scored by a fit without the person's site: a decision and probabilities, or a number in its units (`calibration`),
answers that hold the truth with a promised probability (`sets`), how far a few people of a new site move its level
(`shifts`), and how the held-out sites did (`inner_sites`).
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import astuple, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
import pandas as pd

from brainroam.data.target.sets import LEVELS, Promise
from brainroam.data.target.shifts import CONTROLS, UNLABELLED, protocol_name

if TYPE_CHECKING:
    from brainroam.data.target.base import Target


class Scored(NamedTuple):
    """Scores (n,) or (n, K) of people by fits without their site, NaN without one; what is true of them, and where.

    ``weight`` is how many people each row stands for: less than one for scans of a person who has several.
    """

    score: np.ndarray
    truth: np.ndarray
    site: np.ndarray
    weight: np.ndarray


@dataclass(eq=False)
class Readout(ABC):
    """What a target's scores mean at a site never seen; see the module.

    Attributes
    ----------
    target : Target
    calibration : callable
        From scores to probabilities, or to a number.
    sets : Promise
    shifts : dict of str to SiteShift or ClassShift
        By what is known of the new site.
    inner_sites : DataFrame
        What was measured at the inner held-out sites: columns ``measures``.
    """

    target: Any
    calibration: Any
    sets: Any
    shifts: Mapping[str, Any]
    inner_sites: pd.DataFrame = field(default_factory=pd.DataFrame)

    measures: ClassVar[tuple[str, ...]]
    promise: ClassVar[type[Promise]]  # what `sets` are
    adaptations: ClassVar[tuple[str, ...]]  # what ``adapt`` may be, the usual one first

    @classmethod
    @abstractmethod
    def learn(cls, target: Any, scans: Scored, people: Scored, foretold: Scored) -> Self:
        """From every scan, and from people, each once with the mean score of the scans.

        ``foretold`` are people with scores by choices made without their site, of which `inner_sites` are measured.
        """

    @staticmethod
    @abstractmethod
    def knows(target: Any) -> tuple[str, ...]:
        """Names of the shifts: what may be known of a new site."""

    @classmethod
    @abstractmethod
    def untaught(cls, target: Any) -> Self:
        """Before anything is known of held-out sites: scores as they are, and nothing moves."""

    @classmethod
    @abstractmethod
    def _of_arrays(cls, target: Any, calibration: np.ndarray, shifts: np.ndarray, sets: Promise) -> Self:
        """From what `state` keeps."""

    @property
    def _n_limits(self) -> int:
        """Of a set."""
        return 2

    def state(self) -> dict[str, np.ndarray]:
        """Arrays of a saved model; ``inner_sites`` are kept in its header."""
        nothing = (np.nan,) * self._n_limits
        limits = [self.sets.limits.get(level, nothing) for level in LEVELS]
        return {
            "calibration": np.array(astuple(self.calibration)),
            "shifts": np.array([shift.row for shift in self.shifts.values()]),
            "sets": np.array([(self.sets.n_sites, *nothing[1:]), *limits], dtype=float),
            **self.target.state(),
        }

    @classmethod
    def of_state(cls, target: "Target", state: Mapping[str, np.ndarray]) -> Self:
        """Restore what `state` returned."""
        n_sites, rows = state["sets"][0, 0], state["sets"][1:]
        limits = {level: tuple(map(float, row)) for level, row in zip(LEVELS, rows, strict=True)}
        promised = {level: row for level, row in limits.items() if np.isfinite(row).all()}
        sets = cls.promise(int(np.nan_to_num(n_sites)), promised)
        return cls._of_arrays(target, state["calibration"], state["shifts"], sets)

    @abstractmethod
    def require(self, adapt: str, controls: Collection[str], prevalence: Any) -> None:
        """Refuse what this target cannot use of a new site."""

    @abstractmethod
    def use(self, label: pd.Series, named: np.ndarray, adapt: str) -> tuple[np.ndarray, np.ndarray]:
        """Who tells the level of their site, and who of these is not predicted.

        ``label`` is what is known of people, ``named`` who is listed as a control.
        """

    @abstractmethod
    def adapted(self, score: np.ndarray, known: np.ndarray, truth: np.ndarray, adapt: str) -> np.ndarray:
        """Scores of a site, of a number its predictions, moved by people there with these scores and this truth."""

    @abstractmethod
    def protocol(self, n_known: int, adapt: str) -> str:
        """The name of what was used of a site."""

    @abstractmethod
    def columns(
        self, score: np.ndarray, adapted: np.ndarray, strict: np.ndarray, prevalence: Any
    ) -> dict[str, np.ndarray]:
        """What is said of each person; sets where nothing of the site was used (``strict``)."""

    def odd_sites(self, table: pd.DataFrame, score: np.ndarray) -> dict[str, str]:
        """Sites whose predictions are one-sided, or whose scores lie far from others, with the reason."""
        return {}

    def advise(self, table: pd.DataFrame, score: np.ndarray) -> None:
        """Warn of `odd_sites`, and say what to do."""
        for name, seen in self.odd_sites(table, score).items():
            here = table[table["site"].astype(str) == name]
            warnings.warn(
                f"site {name}: {seen}. Unless that is so, its class and probability are not to be trusted: "
                f"{self._advice(here)}",
                stacklevel=3,
            )

    def _advice(self, here: pd.DataFrame) -> str:
        """What to do at an odd site."""
        return ""


class ShiftedReadout(Readout):
    """A readout of classes: named controls of a new site, or everybody there, shift its scores."""

    def use(self, label: pd.Series, named: np.ndarray, adapt: str) -> tuple[np.ndarray, np.ndarray]:
        """The named controls, or everybody."""
        return np.ones(len(named), dtype=bool) if adapt == UNLABELLED else named, named

    def adapted(self, score: np.ndarray, known: np.ndarray, truth: np.ndarray, adapt: str) -> np.ndarray:
        """Scores minus the shifts of their site."""
        return score - self.shifts[UNLABELLED if adapt == UNLABELLED else CONTROLS](known)

    def protocol(self, n_known: int, adapt: str) -> str:
        """``strict``, ``unlabelled``, ``controls-20``."""
        return UNLABELLED if adapt == UNLABELLED else protocol_name(n_known)
