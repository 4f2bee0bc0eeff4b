"""The contract that CORE, linear references and deep baselines share.

A method is configured in its constructor, learns from a cohort of training sites, and scores any cohort one person at
a time. It never sees the site names, labels or statistics of the people it scores.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

import numpy as np
import pandas as pd

from brainroam.core.connectivity import EdgeKind
from brainroam.data.cohort import Cohort
from brainroam.data.folds import Folds
from brainroam.data.target import CLASSES, NUMBER, ORDERED, TWO, Target
from brainroam.errors import MethodError, UsageError, counted, listed, unknown
from brainroam.utils.parameters import require_settings

ANYTHING = "anything"  # what a control reads: it looks at no measurement
MEASURED = {"series": "time series", "matrices": "connectivity matrices", "table": "a table of measures"}
EVERY_TARGET = (TWO, CLASSES, ORDERED, NUMBER)
CLASSES_TOO = (TWO, CLASSES)  # what a method learns whose loss is defined for classes alone
_KIND = {TWO: "of two classes", CLASSES: "of several classes", ORDERED: "ordered", NUMBER: "a number"}


@contextmanager
def naming_errors(name: str) -> Iterator[None]:
    """Put the name of the method before errors by which it breaks its contract, a missing attribute among them."""
    try:
        yield
    except MethodError as error:
        raise MethodError(f"{name}: {error}") from error
    except AttributeError as error:
        raise MethodError(f"{name}: {error}; set in fit, on self, what is read later") from error


def fit_method(method: "Method", cohort: Cohort, seed: int, validation: Cohort | None = None) -> "Method":
    """Fit a method, and require that `fit` returns it."""
    fitted = method.fit(cohort, seed, validation) if validation is not None else method.fit(cohort, seed)
    if fitted is None:
        raise MethodError(f"{type(method).__name__}.fit returned None; end it with 'return self'")
    return fitted


def scores_of(method: "Method", cohort: Cohort, target: Target) -> np.ndarray:
    """The scores of people without labels: one finite number each, or one for each of several classes."""
    return _require_scores(method.score(cohort), (), cohort, target)


def score_shape(n: int, target: Target) -> tuple[int, ...]:
    """(n,), or (n, K) of K classes.

    >>> score_shape(5, Target.of_kind("dx", "classes", ("HC", "MDD", "SCZ")))
    (5, 3)
    """
    return (n, *target.score_shape)


def _require_scores(scores: Any, before: tuple[int, ...], cohort: Cohort, target: Target) -> np.ndarray:
    shape = (*before, *score_shape(len(cohort), target))
    try:
        scores = np.asarray(scores, dtype=float)
    except (TypeError, ValueError) as error:
        raise MethodError(f"scores are no numbers ({error}); return an array of floats") from error
    if scores.shape != shape:
        people = counted(len(cohort), "person", "people")
        raise MethodError(f"scores of {people} have the shape {scores.shape}; return one number each, shape {shape}")
    lost = ~np.isfinite(np.moveaxis(scores, len(before), 0).reshape(len(cohort), -1)).all(axis=1)
    if lost.any():
        raise MethodError(
            f"training diverged: scores are not finite ({listed(cohort.table['subject'].to_numpy()[lost], 3)}); try a "
            "smaller learning rate or fewer layers; in a method of your own, fill in missing values, and see whether "
            "it reads labels of the people to be scored, which are hidden from it"
        )
    return scores


class Method(ABC):
    """One configured method.

    Subclasses take keyword parameters with defaults. Whatever `fit` learned is returned by `state` as plain arrays;
    `load_state` restores it. Iterative methods take an ``epochs`` parameter.
    """

    @abstractmethod
    def fit(self, cohort: Cohort, seed: int = 0, validation: Cohort | None = None) -> Self:
        """Learn from the training people.

        When ``validation`` is given, an iterative method keeps ``validation_path_``, its scores for those people after
        each epoch (epochs, n), from which the number of epochs is chosen; it learns nothing from them, and their labels
        are hidden (`Cohort.without_labels`).
        """

    @abstractmethod
    def score(self, cohort: Cohort) -> np.ndarray:
        """A number per person, higher for the condition; each depends on that person alone.

        Of several classes (n, K): one number for each of them, higher for that class.

        Labels are hidden from it: ``cohort`` is `Cohort.without_labels`.
        """

    @abstractmethod
    def state(self) -> dict[str, np.ndarray]:
        """Everything that was learned, as named arrays: what is saved, and what must not change with held-out data."""

    @abstractmethod
    def load_state(self, state: dict[str, np.ndarray]) -> Self:
        """Restore what `state` returned."""

    def out_of_fold(self, cohort: Cohort, folds: Folds, seed: int = 0) -> list[np.ndarray]:
        """Scores (1 or epochs, n) of the held-out people of each fold, by a fit on that fold's training people.

        Of several classes (1 or epochs, n, K).

        ``folds`` are positions of training and held-out people. Nothing is kept. Methods that can share work between
        the folds of a cohort do so here.
        """
        paths = []
        for train, held_out in folds:
            model, people = deepcopy(self), cohort.subset(held_out).without_labels()
            fitted = fit_method(model, cohort.subset(train), seed, people)
            path = fitted.validation_path_
            if path is None:
                paths.append(scores_of(fitted, people, cohort.target)[None])
            else:
                paths.append(_require_scores(path, (len(path),), people, cohort.target))
        return paths

    def missing_covariates(self, cohort: Cohort) -> pd.DataFrame:
        """Which covariates of which people are unknown, so that scoring took the training mean; none by default."""
        return pd.DataFrame(index=range(len(cohort)))

    def explanation(self, cohort: Cohort, top: int = 10) -> dict[str, Any] | None:
        """The pathways read, and the ``top`` ones of each person; None where there are none.

        The entries are those of `brainroam.methods.explanation.describe_edges`.
        """
        return None

    def representation(self, cohort: Cohort) -> np.ndarray | None:
        """Features behind the decision, one row per person, for maps of similar people; None without any."""
        return None

    @property
    def decision(self) -> str:
        """Its decision at held-out training sites, in words; empty by default."""
        return ""

    notes_: Sequence[str] = ()  # every fallback that `fit` took, in words
    inner_scores_: np.ndarray  # of a method that chooses by itself: scores of training people without their site
    foretold_scores_: np.ndarray | None = None  # the same, by choices made without the person's site, where it chose
    edge_kinds: tuple[EdgeKind, ...] = ()  # the edges it reads, which the runs of a study share
    selects_scaffold: bool = False  # whether its explanation is kept with every run
    explains_people: bool = False  # whether what moved each held-out person is kept with every run
    validation_path_: np.ndarray | None = None


@dataclass(frozen=True)
class MethodInfo:
    """Registry entry of a method.

    Attributes
    ----------
    name : str
        As typed on the command line.
    make : callable
        Keyword parameters to a fresh `Method`.
    summary, citation : str
    grid : dict of str to tuple
        Values of each tuned parameter; the first is the default. Epochs are tuned besides, where there are any.
    needs : tuple of str
        What beyond series and labels it uses: ``"site"``, ``"covariates"``.
    covariate_use : str
        What it does with covariates, for the methods text: ``"removed"``, ``"projected"``, ``"kept"``,
        ``"read"`` or ``"linked"``.
    self_selecting : bool
        It runs its own inner leave-one-site-out (and then offers ``inner_scores_``).
    fast : dict
        Parameters that make its own selection follow the tuning ``fast``.
    in_distribution_only : bool
        It cannot predict at a site it was not trained on.
    keeps_people : bool
        What it learns holds rows of single training people, so it is never written to a file.
    stochastic : bool
        Another seed gives other scores; a method that is not is run once however many seeds are asked for.
    reads : tuple of str
        Which measures of people it can read: ``"series"``, ``"matrices"``, ``"table"``; or ``"anything"``.
    least_sites : int
        Sites with both classes it cannot do without; inner folds leave it as many.
    targets : tuple of str
        Kinds of targets it learns, see `brainroam.data.target`.
    one_against_rest : bool
        Several classes are read by one fit for each, against all others (`brainroam.methods.one_against_rest`); a
        method that reads them all at once returns scores (n, K) by itself.
    released : dict
        Settings of the authors' own code, where they are not our defaults: those of ``NAME[recipe=released]``.
    number_grid : dict of str to tuple
        In the place of ``grid`` for a number, and tuned whole: targets differ in how strong a penalty they want.
    estimator : object, optional
        The estimator of somebody else's that ``make`` wraps, see `brainroam.methods.adapter`.
    """

    name: str
    make: Any
    summary: str
    citation: str = ""
    grid: dict[str, tuple] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    covariate_use: str = ""
    self_selecting: bool = False
    fast: dict[str, Any] = field(default_factory=dict)
    in_distribution_only: bool = False
    keeps_people: bool = False
    stochastic: bool = True
    reads: tuple[str, ...] = ("series",)
    least_sites: int = 0
    targets: tuple[str, ...] = (TWO,)
    one_against_rest: bool = False
    released: dict[str, Any] = field(default_factory=dict)
    number_grid: dict[str, tuple] = field(default_factory=dict)
    estimator: Any = field(default=None, repr=False, compare=False)

    def make_for(self, target: Target, **settings: Any) -> Method:
        """A fresh method, once for each of several classes where it does not read them together."""
        classes = target.scored_classes if self.one_against_rest else ()
        if not classes:
            return self.make(**settings)
        from brainroam.methods.one_against_rest import OneAgainstRest  # is itself a `Method`

        return OneAgainstRest(partial(self.make, **settings), classes)

    def require_measure(self, measure: str) -> None:
        """Refuse people with a measure that the method does not read."""
        if measure not in self.reads and ANYTHING not in self.reads:
            raise UsageError(f"{self.name} reads {' or '.join(self.reads)}, but these people have {MEASURED[measure]}")

    def require_target(self, target: Target) -> None:
        """Refuse a target that the method does not learn."""
        if target.kind not in self.targets:
            scores = self.estimator is not None and not target.number
            remedy = "; give it decision_function or predict_proba" if scores else ""
            raise UsageError(
                f"{self.name} is for {' or '.join(self.targets)}; {target.name} is {_KIND[target.kind]}{remedy}"
            )

    def require_savable(self) -> None:
        """Refuse to write a method to a file that would hold data of single people."""
        if self.keeps_people:
            raise UsageError(
                f"{self.name} keeps what it saw of every training person, and a file of it would pass their data on; "
                "study it with brainroam loso, and save another method"
            )

    def settings(self, typed: Mapping[str, Any]) -> dict[str, Any]:
        """Settings of the constructor, from those that were typed.

        Which ``blocks`` of a person it is given is not its business. ``recipe=released`` stands for the settings of the
        authors' code, and what is typed beside it comes before them.

        >>> info = MethodInfo("net", dict, "a network", released={"epochs": 200, "hidden": 100})
        >>> info.settings({"blocks": "rest+anatomy", "recipe": "released", "epochs": 50})
        {'epochs': 50, 'hidden': 100}
        """
        own = {name: value for name, value in typed.items() if name != "blocks"}
        if not self.released or "recipe" not in own:
            return own
        recipe = own.pop("recipe")
        if recipe != "released":
            raise unknown(f"recipe of {self.name}", recipe, ["released"])
        return self.released | own

    def require(self, settings: Mapping[str, Any]) -> None:
        """Refuse settings that the method cannot be made with, before anything is computed."""
        settings = self.settings(settings)
        require_settings(self.name, self.make, settings)
        try:
            self.make(**settings)
        except TypeError as error:
            raise UsageError(f"{self.name} cannot be made with {listed(settings)}: {error}") from error
