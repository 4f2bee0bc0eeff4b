"""Several classes by a method for two: one fit for each class, against everybody else.

    score_k(x) = score of the method fitted to  t = +1 for class k, -1 for all others        k = 1 .. K

For a ridge this is the regression on K indicator columns: products of people and inverses are those of one fit, which
folds and classes share through the cohort's cache, and only right-hand sides differ. A class that nobody of the
training people has, or that shows nothing reproducible to a method that asks for it, gets the score 0.
"""

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
import pandas as pd

from brainroam.data.cohort import Cohort
from brainroam.errors import EmptyScaffoldError
from brainroam.methods.base import Folds, Method, fit_method
from brainroam.utils.model_files import part


class OneAgainstRest(Method):
    """A method for two classes, once for each of several.

    Parameters
    ----------
    make : callable
        A fresh method.
    classes : sequence of str

    Attributes
    ----------
    members_ : dict of int to Method
        Of each class that was in training, by its code.
    inner_scores_ : ndarray of shape (n, K)
        Of a method that holds out sites by itself; else not there.

    Examples
    --------
    >>> import brainroam
    >>> from brainroam.data.target_column import with_target
    >>> from brainroam.methods.registry import method_info
    >>> cohort = brainroam.make_cohort(n_sites=2, n_per_site=9, n_rois=8)
    >>> cohort = with_target(cohort.with_columns(pd.DataFrame({"dx": ["HC", "MDD", "SCZ"] * 6})), "dx")
    >>> OneAgainstRest(method_info("fc-ridge").make, cohort.target.classes).fit(cohort).score(cohort).shape
    (18, 3)
    """

    members_: dict[int, Method]

    def __init__(self, make: Callable[[], Method], classes: Sequence[str]) -> None:
        self.make, self.classes = make, classes

    def fit(self, cohort: Cohort, seed: int = 0, validation: Cohort | None = None) -> Self:
        """Fit every class that is there; of an iterative method, keep the scores after each epoch."""
        self.members_, silent = {}, dict[str, EmptyScaffoldError]()
        for code in present(cohort):
            try:
                self.members_[code] = fit_method(self.make(), cohort.one_against_rest(code), seed, validation)
            except EmptyScaffoldError as error:
                silent[self.classes[code]] = error
        if not self.members_:
            raise next(iter(silent.values()))
        one = next(iter(self.members_.values()))
        self.notes_ = list(dict.fromkeys(note for member in self.members_.values() for note in member.notes_))
        self.notes_ += [f"the class {name!r} is not read: {error}" for name, error in silent.items()]
        if hasattr(one, "inner_scores_"):
            self.inner_scores_ = self._side_by_side({k: each.inner_scores_ for k, each in self.members_.items()})
        if one.validation_path_ is not None:
            self.validation_path_ = self._side_by_side({k: each.validation_path_ for k, each in self.members_.items()})
        return self

    def out_of_fold(self, cohort: Cohort, folds: Folds, seed: int = 0) -> list[np.ndarray]:
        """As the base class; what folds share within a class is shared."""
        by_class = {code: self._out_of_fold(cohort.one_against_rest(code), folds, seed) for code in present(cohort)}
        return [self._side_by_side({k: scores[fold] for k, scores in by_class.items()}) for fold in range(len(folds))]

    def _out_of_fold(self, cohort: Cohort, folds: Folds, seed: int) -> list[np.ndarray]:
        """One class against the rest; a fold whose training people all are of one class tells nothing."""
        both = [k for k, (train, _) in enumerate(folds) if len(set(cohort.labels[train])) == 2]
        try:
            scores = dict(zip(both, self.make().out_of_fold(cohort, [folds[k] for k in both], seed), strict=True))
        except EmptyScaffoldError:
            scores = {}
        epochs = max((len(path) for path in scores.values()), default=1)
        return [scores.get(k, np.zeros((epochs, len(held_out)))) for k, (_, held_out) in enumerate(folds)]

    def score(self, cohort: Cohort) -> np.ndarray:
        """The score (n, K) of each class."""
        hidden = cohort.without_labels()
        return self._side_by_side({k: member.score(hidden) for k, member in self.members_.items()})

    def _side_by_side(self, by_class: dict[int, Any]) -> np.ndarray:
        one = np.asarray(next(iter(by_class.values())))
        return np.stack([by_class.get(k, np.zeros_like(one)) for k in range(len(self.classes))], axis=-1)

    def missing_covariates(self, cohort: Cohort) -> pd.DataFrame:
        """Those of any class: all are given the same columns."""
        return next(iter(self.members_.values())).missing_covariates(cohort)

    def explanation(self, cohort: Cohort, top: int = 10) -> dict[str, Any] | None:
        """What tells the last class from the rest; of another class ask its member."""
        return self.members_[max(self.members_)].explanation(cohort, top)

    def state(self) -> dict[str, np.ndarray]:
        """What was learned of each class, by its code."""
        return {f"{k}.{name}": value for k, member in self.members_.items() for name, value in member.state().items()}

    def load_state(self, state: dict[str, np.ndarray]) -> Self:
        """Restore what `state` returned."""
        codes = sorted({int(name.partition(".")[0]) for name in state})
        self.members_ = {k: self.make().load_state(part(state, str(k))) for k in codes}
        return self


def present(cohort: Cohort) -> list[int]:
    """Codes of the classes that some people have, and not all."""
    codes = np.unique(cohort.targets.astype(int)).tolist()
    return codes if len(codes) > 1 else []
