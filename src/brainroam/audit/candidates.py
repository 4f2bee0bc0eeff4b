"""What can be audited: registered methods, methods of one's own, and any procedure that scores held-out people."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import isfunction
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from brainroam.data.cohort import Cohort
from brainroam.errors import UsageError
from brainroam.methods.adapter import arguments_of, in_file
from brainroam.methods.base import MethodInfo, score_shape
from brainroam.methods.registry import IN_A_FILE, Judged, full_name, resolve
from brainroam.methods.tuning import TunedMethod

Procedure: TypeAlias = Callable[[Cohort, np.ndarray, np.ndarray, int], np.ndarray]


class Outcome(NamedTuple):
    """Scores of each group of held-out people, and the learned arrays as bytes, where the method has a state."""

    scores: list[np.ndarray]
    state: dict[str, bytes]


class Candidate(Protocol):
    """Something that learns from the people at some positions of a cohort and scores those at others."""

    @property
    def name(self) -> str:
        """As listed in the audit."""

    def run(self, cohort: Cohort, train: np.ndarray, groups: Sequence[np.ndarray], seed: int) -> Outcome:
        """Learn, with threshold and tuning, and score each group by itself."""

    def quick_scores(self, cohort: Cohort, train: np.ndarray, test: np.ndarray, seed: int) -> np.ndarray:
        """Scores alone, by default settings."""


@dataclass(frozen=True)
class MethodCandidate:
    """A `Method`, registered or not. It sees the training people only, so it can leak only by what it remembers."""

    info: MethodInfo
    fixed: dict[str, Any] = field(default_factory=dict)
    own_name: str = ""

    @property
    def name(self) -> str:
        """The given name, else that of the method with its parameters."""
        return self.own_name or full_name(self.info.name, self.fixed)

    def run(self, cohort: Cohort, train: np.ndarray, groups: Sequence[np.ndarray], seed: int) -> Outcome:
        """Tune ``fast``, fit, and score."""
        model = TunedMethod(self.info, "fast", **self.fixed).fit(cohort.subset(train), seed)
        scores = [model.score(cohort.subset(group)) for group in groups]
        return Outcome(scores, {name: value.tobytes() for name, value in model.state().items()})

    def quick_scores(self, cohort: Cohort, train: np.ndarray, test: np.ndarray, seed: int) -> np.ndarray:
        """Fit by default settings and score."""
        method = self.info.make_for(cohort.target, **self.fixed).fit(cohort.subset(train), seed)
        return method.score(cohort.subset(test).without_labels())


@dataclass(frozen=True)
class ProcedureCandidate:
    """A function ``procedure(cohort, train, test, seed) -> scores of the test people``.

    It is handed everybody, held-out people and their labels included, and trusted not to look: that is how most
    pipelines are written, and where leaks can be both made and seen.
    """

    procedure: Procedure
    own_name: str = ""

    @property
    def name(self) -> str:
        """The given name, else that of the function."""
        return self.own_name or getattr(self.procedure, "__name__", type(self.procedure).__name__)

    def run(self, cohort: Cohort, train: np.ndarray, groups: Sequence[np.ndarray], seed: int) -> Outcome:
        """Call it once for each group."""
        return Outcome([self.quick_scores(cohort, train, group, seed) for group in groups], {})

    def quick_scores(self, cohort: Cohort, train: np.ndarray, test: np.ndarray, seed: int) -> np.ndarray:
        """Call it."""
        scores = np.asarray(self.procedure(cohort, train, test, seed), dtype=float)
        if scores.shape != score_shape(len(test), cohort.target):
            raise UsageError(
                f"{self.name} returned an array of shape {scores.shape} for {len(test)} people; return "
                f"{cohort.target.scores_wanted}"
            )
        return scores


def candidates_of(methods: Judged | Sequence[Judged] | Mapping[str, Judged]) -> list[Candidate]:
    """One method or procedure, several, or several under names of one's own.

    >>> [item.name for item in candidates_of({"mine": "fc-ridge"})], candidates_of("core")[0].name
    (['mine'], 'core')
    """
    if isinstance(methods, Mapping):
        named = [(str(name), candidate(method)) for name, method in methods.items()]
        return [replace(item, own_name=name) for name, item in named]  # type: ignore[type-var]  # both are dataclasses
    listed = isinstance(methods, Sequence) and not isinstance(methods, str)
    return [candidate(method) for method in (methods if listed else [methods])]


def candidate(method: Judged) -> Candidate:
    """Make a candidate of a name, a method, an estimator or a procedure.

    >>> candidate("core[budget=20]").name
    'core[budget=20]'
    """
    if isinstance(method, str) and IN_A_FILE in method and isfunction(content := in_file(method)):
        method = content if arguments_of(content) else method
    if isinstance(method, str | MethodInfo | type) or hasattr(method, "fit"):
        ((info, fixed),) = resolve([method])
        if info.in_distribution_only:
            raise UsageError(f"{info.name} cannot predict at a site it was not trained on; there is nothing to audit")
        info.require(fixed)
        return MethodCandidate(info, fixed)
    if callable(method):
        return ProcedureCandidate(method)
    raise UsageError(
        f"{method!r} cannot be audited: give a name, a Method, an estimator, or procedure(cohort, train, test, seed)"
    )
