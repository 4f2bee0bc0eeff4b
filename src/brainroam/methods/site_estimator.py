"""The base of the estimators for arrays, whatever is predicted.

`SiteEstimator` turns arrays into a cohort and holds one fitted `TunedMethod`; it fits, reads, explains and saves.
`SiteClassifier` (`site_classifier.py`) adds what classes need, `SiteRegressor` (`site_regressor.py`) what a number
needs.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from inspect import signature
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from brainroam.core.covariates import as_table, require_one_order
from brainroam.core.tangent import TakesSeries
from brainroam.data.atlas import Atlas, anonymous_atlas
from brainroam.data.cohort import Cohort
from brainroam.data.columns import warn_of_the_condition, warn_of_the_site
from brainroam.data.readers.values import sexes
from brainroam.data.target import TWO_CLASSES, Target
from brainroam.errors import DataError, UsageError, listed, warn_user
from brainroam.methods.arrays import anonymous_cohort, in_order_of_training, require_measures, warn_of_poor_data
from brainroam.methods.base import MEASURED, MethodInfo
from brainroam.methods.explanation import Explanation
from brainroam.methods.registry import FLAGSHIP, resolve
from brainroam.methods.saving import (
    blocks_as_in_training,
    describe_method,
    require_blocks,
    require_regions,
    write_method,
)
from brainroam.methods.tuning import TunedMethod
from brainroam.utils.parameters import says_how_to_call

People: TypeAlias = Any  # what `anonymous_cohort` takes, or a Cohort
Covariates: TypeAlias = pd.DataFrame | np.ndarray | None
Times: TypeAlias = Sequence[float] | None
READ = {"covariates": True, "tr": True}


class SiteEstimator(TakesSeries, BaseEstimator):
    """A method that learns from people of several sites, given as arrays, and reads people of any site.

    Subclasses turn what the user gives as y into a target (`_as_target`), and scores (`decision_function`) into
    predictions. Parameters and attributes are described there; ``header_`` is what a saved model says of itself:
    method, settings, training sites, atlas.
    """

    # With scikit-learn's metadata routing switched on, pipelines and cross-validation pass these on unasked.
    __metadata_request__fit: ClassVar = {**READ, "site": True}
    __metadata_request__predict: ClassVar = READ
    __metadata_request__score: ClassVar = READ
    _settings: Mapping[str, Any] = MappingProxyType({})
    _wanted: ClassVar[str] = "label"  # of every person, in words

    def __init__(self, method: Any = FLAGSHIP, tuning: str = "default", random_state: int = 0, **settings: Any) -> None:
        self.method, self.tuning, self.random_state = method, tuning, random_state
        self._settings = settings

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters, those of the method among them."""
        return super().get_params(deep) | self._settings

    def set_params(self, **params: Any) -> Self:
        """Set parameters of this estimator or of its method."""
        others = {name for name in params if name.partition("__")[0] not in self._get_param_names()}
        if "settings" not in signature(type(self)).parameters:  # all settings are spelled out
            others = set()
        super().set_params(**{name: value for name, value in params.items() if name not in others})
        if others:
            self._settings = {**self._settings, **{name: params[name] for name in others}}
        return self

    def method_and_settings(self) -> tuple[MethodInfo, dict[str, Any]]:
        """The registered method, or the estimator under its contract, and its fixed settings."""
        (info, fixed), *others = resolve(self.method)
        if others:
            raise UsageError(f"{type(self).__name__} takes one method, not {1 + len(others)}")
        if info.in_distribution_only:
            raise UsageError(f"{info.name} cannot predict at a site it was not trained on; choose another method")
        return info, fixed | self._method_settings()

    def _method_settings(self) -> dict[str, Any]:
        return dict(self._settings)

    def __getattr__(self, name: str) -> Any:
        if name.endswith("_") and not name.startswith("_") and "model_" not in vars(self):
            kind = type(self).__name__
            raise NotFittedError(f"this {kind} is not fitted yet and has no {name}; call fit(X, y, site=...) first")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    @says_how_to_call
    def fit(
        self,
        X: People,
        y: Sequence | None = None,
        *,
        site: Sequence[str] | None = None,
        covariates: Covariates = None,
        tr: Times = None,
        positive: Any = None,
    ) -> Self:
        """Learn from people of several sites of whom the class, or the number, is known.

        Parameters
        ----------
        X : sequence of ndarray of shape (T_i, P), or Cohort
            Series; a cohort (``load_cohort(..., target=...)``) has target, sites, covariates and repetition times with
            it.
        y : sequence of n labels, or of n numbers
            Three labels or more each have a score, a probability and a place in sets.
        site : sequence of n site names
        covariates : DataFrame or ndarray with n rows, optional
        tr : sequence of n repetition times in seconds, optional
        positive : label, optional
            Which of two labels is the condition. Without it that is 1 of 0/1 and -1/1, and what stands against a usual
            word for controls (TD, HC, ...).
        """
        if isinstance(X, Cohort):
            cohort, classes = X, self._classes_of(X)
            info, fixed = self.method_and_settings()
        else:
            self._require_answers(y, site)
            self._require_seed()
            require_one_order(**_frames(X), y=y, site=site, covariates=covariates)
            require_measures(X, y, site)
            values, classes, target = self._as_target(y, positive)  # type: ignore[arg-type]
            info, fixed = self.method_and_settings()
            cohort = self._cohort(X, values, site, covariates, tr, target)
            if info.covariate_use == "projected":  # what is given is meant, not the usual column of a study
                fixed = {"covariates": list(cohort.covariate_names)} | fixed
            warn_of_the_condition(cohort.table, cohort.covariate_names, cohort.target)
            warn_of_the_site(cohort.table, cohort.covariate_names)
            warn_of_poor_data(cohort)
        model = TunedMethod(info, self.tuning, **fixed).fit(cohort, self.random_state)
        model.learn_familiarity(cohort)
        self.header_ = describe_method(model, cohort, self.random_state, classes.tolist())
        self.model_ = model
        return self

    def _require_answers(self, y: Any, site: Any) -> None:
        """An error where the label or the site of everybody is not given, with how to give it."""
        absent = [name for name, values in ((self._wanted, y), ("site", site)) if values is None]
        if absent:
            raise DataError(
                f"{type(self).__name__}.fit needs the {' and '.join(absent)} of every person: fit(X, y, site=...), "
                "where site is the name of everybody's scanner or hospital; cross_val_score takes it as "
                "params={'site': ...}"
            )

    def _require_seed(self) -> None:
        """An error for a seed that would not give the same model again."""
        if not isinstance(self.random_state, int | np.integer):
            raise UsageError(f"random_state must be a whole number, not {self.random_state!r}")

    @abstractmethod
    def _classes_of(self, cohort: Cohort) -> np.ndarray:
        """The names of the classes of a cohort; an error where its target is not of the kind that is predicted."""

    @abstractmethod
    def _as_target(self, y: Sequence, positive: Any) -> tuple[np.ndarray, np.ndarray, Target]:
        """The user's y as one number per person, the names of the classes, and the target."""

    def _cohort(
        self,
        X: People,
        values: Any,
        site: Any,
        covariates: Covariates,
        tr: Times,
        target: Target = TWO_CLASSES,
        trained: str | None = None,
    ) -> Cohort:
        people = anonymous_cohort(X, values if target.is_two_classes else None, site, tr)
        if trained not in (None, people.measure):
            one = "; the series of one person is given in a list, [x]" if trained == "series" else ""
            raise DataError(f"the model was fitted on {MEASURED[trained]}, but X holds {MEASURED[people.measure]}{one}")
        table = as_table(covariates, len(people))
        if "sex" in table and not pd.api.types.is_numeric_dtype(table["sex"]):
            table = table.assign(sex=sexes(table["sex"], "covariates", remedy="give 1 for male and 0 for female"))
        people = people.with_columns(table).using(table.columns)
        if target.is_two_classes:
            return people
        return people.predicting(target, people.table.assign(label=values))

    def _people(self, X: People, covariates: Covariates = None, tr: Times = None, site: Any = None) -> Cohort:
        """People to be read, as a cohort that has the regions and covariates of the training people."""
        check_is_fitted(self, "model_")
        n_rois, of_blocks = self.header_["atlas"]["n_regions"], self.header_.get("blocks", {})
        X = in_order_of_training(X, self.header_.get("columns", {}))
        if isinstance(X, Cohort):
            cohort = blocks_as_in_training(self.header_, X)
            require_blocks(self.header_, cohort)
            _require_regions(cohort, n_rois)
            if cohort.atlas != anonymous_atlas(n_rois):
                require_regions(self.header_, cohort)
            return cohort
        require_one_order(**_frames(X), site=site, covariates=covariates)
        if not of_blocks:
            cohort = self._cohort(X, None, site, covariates, tr, trained=self.header_["measure"])
            _require_regions(cohort, n_rois)
        else:
            self._require_every_block(X)
            cohort = self._cohort(X, None, site, covariates, tr)
            cohort = blocks_as_in_training(self.header_, cohort)  # the model's own first
            for name, identity in of_blocks.items():
                _require_regions(cohort.block(name), identity["n_regions"], name)
        return self._with_covariates(cohort, covariates)

    def _require_every_block(self, X: People) -> None:
        """An error unless people given as arrays have all blocks that the model reads."""
        of_model = list(self.header_["blocks"])
        given = [str(name) for name in X] if isinstance(X, Mapping) else []
        if absent := [name for name in of_model if name not in given]:
            holds = f"the blocks {listed(given)}" if given else "one measurement"
            raise DataError(
                f"the model reads the blocks {listed(of_model)}, but X holds {holds}; give a dictionary with "
                f"{listed(absent)} too: NaN for people who lack one, who are then read from the others"
            )

    def _with_covariates(self, cohort: Cohort, covariates: Covariates) -> Cohort:
        """People given as arrays with every covariate that is read: none may be given, but not some of them."""
        given = set(cohort.covariate_names)
        absent = [name for name in self.header_["covariates"] if name not in given]
        cohort = cohort.with_columns(pd.DataFrame(np.nan, index=range(len(cohort)), columns=absent))
        read = [name for name in self.model_.missing_covariates(cohort) if name not in given]
        if read and covariates is not None:
            raise DataError(
                f"the covariate(s) {listed(read)} used in training are absent; give the column(s), with missing values "
                "where unknown (they then stand at the training mean)"
            )
        if read:
            text = f"no covariates given: {listed(read)} stand at the training mean for everybody"
            warn_user(text)
        return cohort

    @says_how_to_call
    def decision_function(self, X: People, covariates: Covariates = None, tr: Times = None) -> np.ndarray:
        """The score of each person, each on their own; ``predict`` turns it into a class or a number."""
        people = self._people(X, covariates, tr)
        return self.model_.score(people)

    def explain(
        self,
        X: People,
        covariates: Covariates = None,
        tr: Times = None,
        *,
        site: Sequence[str] | None = None,
        atlas: Atlas | None = None,
        top: int = 10,
    ) -> Explanation:
        """Which pathways the model reads, and which ``top`` of them contributed most for each person.

        ``site`` is only listed; ``atlas`` gives the regions their names, as ``cohort.atlas``; of several blocks those
        of the first.
        """
        cohort = self._people(X, covariates, tr, site)
        if atlas is not None:
            cohort = cohort.made_of(cohort.series, cohort.table, atlas=atlas)
        return Explanation.of_model(self.model_.model_, cohort, top)

    def save(self, path: str | Path, atlas: Atlas | None = None) -> Path:
        """Write a folder of JSON and arrays that `load_model` and ``brainroam predict`` read; nothing is executable.

        ``atlas`` keeps the names of the regions, as ``cohort.atlas``; without it only their number is checked later.
        """
        check_is_fitted(self, "model_")
        header = self.header_
        if atlas is not None:
            header = header | {"atlas": atlas.identity}
        return write_method(path, self.model_, header)

    @property
    def notes_(self) -> list[str]:
        """Every fallback that was taken."""
        return list(self.model_.notes_)

    @property
    def inner_scores_(self) -> np.ndarray:
        """Out-of-site score of each training person, NaN where their site was not held out; not of a loaded model."""
        return self.model_.inner_scores_


def _require_regions(cohort: Cohort, n_rois: int, block: str = "") -> None:
    if cohort.n_rois != n_rois:
        what = "columns" if cohort.measure == "table" else "regions"
        other = "" if cohort.measure == "table" else ": another atlas?"
        where = f" of the block {block}" if block else ""
        raise DataError(f"the model was fitted on {n_rois} {what}{where} but these people have {cohort.n_rois}{other}")


def _frames(X: People) -> dict[str, Any]:
    """What may name people in an order of its own: X, or each of its blocks.

    >>> list(_frames({"rest": [], "anatomy": []}))
    ["X['rest']", "X['anatomy']"]
    """
    return {f"X[{name!r}]": values for name, values in X.items()} if isinstance(X, Mapping) else {"X": X}
