"""Every method as a scikit-learn estimator, for people given as arrays.

`SiteEstimator` turns arrays into a cohort and holds one fitted `TunedMethod`; it fits, reads, explains and saves,
whatever is predicted. `SiteClassifier` adds what classes need, `SiteRegressor` what a number needs.
`CoreClassifier` and `EnsembleClassifier` are the same for one method, with its settings spelled out. A model of
``brainroam fit`` and one of ``clf.save`` are the same.
"""

import warnings
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import fields, replace
from inspect import signature
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from brainroam.core.class_calibration import as_shares
from brainroam.core.covariates import as_table
from brainroam.core.model import CoreModel
from brainroam.core.recipe import Recipe, as_recipe
from brainroam.core.series import TakesSeries
from brainroam.data.atlas import Atlas
from brainroam.data.bare_arrays import anonymous_cohort
from brainroam.data.classes import several_classes, two_classes
from brainroam.data.cohort import Cohort
from brainroam.data.condition_columns import warn_of_the_condition
from brainroam.data.target import CLASSES, NUMBER, TWO_CLASSES, Target
from brainroam.errors import DataError, UsageError, listed
from brainroam.methods.adapter import resolve
from brainroam.methods.base import MethodInfo
from brainroam.methods.core import Core
from brainroam.methods.ensemble import Ensemble
from brainroam.methods.explanation_tables import Explanation
from brainroam.methods.saving import describe_method, load_method, write_method
from brainroam.methods.tuning import TunedMethod
from brainroam.utils.model_files import describe_atlas

People: TypeAlias = Any  # what `anonymous_cohort` takes, or a Cohort
Covariates: TypeAlias = pd.DataFrame | np.ndarray | None
Times: TypeAlias = Sequence[float] | None
READ = {"covariates": True, "tr": True}


class SiteEstimator(TakesSeries, BaseEstimator):
    """A method that learns from people of several sites, given as arrays, and reads people of any site.

    Subclasses turn their target into a column (`_fit`) and the score into predictions (`decision_function`).

    Parameters
    ----------
    method : str or estimator
        A registered name (``brainroam methods``), with settings in brackets or without, or anybody's estimator, see
        `EstimatorMethod`.
    tuning : {"default", "fast", "full"}
        How much is chosen on inner held-out sites.
    random_state : int
        Random seed.
    **settings
        Of the method.

    Attributes
    ----------
    model_ : TunedMethod
        Everything that was learned.
    header_ : dict
        What a saved model says of itself: method, settings, training sites, atlas.
    """

    # With scikit-learn's metadata routing switched on, pipelines and cross-validation pass these on unasked.
    __metadata_request__fit: ClassVar = {**READ, "site": True, "positive": UNUSED}
    __metadata_request__predict: ClassVar = READ
    __metadata_request__score: ClassVar = READ
    _settings: Mapping[str, Any] = MappingProxyType({})

    def __init__(
        self, method: Any = "ensemble", tuning: str = "default", random_state: int = 0, **settings: Any
    ) -> None:
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

    def _fit(
        self,
        X: People,
        values: Any,
        site: Any,
        covariates: Covariates,
        tr: Times,
        classes: Any = (0, 1),
        target: Target = TWO_CLASSES,
    ) -> Self:
        """Fit the method on people whose target is a number each."""
        info, fixed = self.method_and_settings()
        cohort = X
        if not isinstance(X, Cohort):
            cohort = self._cohort(X, values, site, covariates, tr, target)
            if info.covariate_use == "projected":  # what is given is meant, not the usual column of a study
                fixed = {"covariates": list(cohort.covariate_names)} | fixed
            warn_of_the_condition(cohort.table, cohort.covariate_names, cohort.target)
        model = TunedMethod(info, self.tuning, **fixed).fit(cohort, self.random_state)
        self.header_ = describe_method(model, cohort, self.random_state, np.asarray(classes).tolist())
        self.model_ = model
        return self

    def _cohort(
        self, X: People, values: Any, site: Any, covariates: Covariates, tr: Times, target: Target = TWO_CLASSES
    ) -> Cohort:
        people = anonymous_cohort(X, values if target.is_two_classes else None, site, tr)
        table = as_table(covariates, len(people))
        people = people.with_columns(table).using(table.columns)
        if target.is_two_classes:
            return people
        return people.predicting(target, people.table.assign(label=values))

    def _people(self, X: People, covariates: Covariates = None, tr: Times = None, site: Any = None) -> Cohort:
        """People to be read, as a cohort that has the regions and covariates of the training people."""
        check_is_fitted(self, "model_")
        cohort = X if isinstance(X, Cohort) else self._cohort(X, None, site, covariates, tr)
        n_rois = self.header_["atlas"]["n_regions"]
        if cohort.n_rois != n_rois:
            raise DataError(
                f"the model was fitted on {n_rois} regions but these people have {cohort.n_rois}: another atlas?"
            )
        return cohort if isinstance(X, Cohort) else self._with_covariates(cohort, covariates)

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
            warnings.warn(text, stacklevel=4)
        return cohort

    def decision_function(self, X: People, covariates: Covariates = None, tr: Times = None) -> np.ndarray:
        """The score of each person, each on their own; what it means is said by ``predict``."""
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

        ``site`` is only listed; ``atlas`` gives the regions their names, as ``cohort.atlas``.
        """
        cohort = self._people(X, covariates, tr, site)
        if atlas is not None:
            cohort = Cohort(cohort.series, cohort.table, atlas, measure=cohort.measure)
        return Explanation.of_model(self.model_.model_, cohort, top)

    def save(self, path: str | Path, atlas: Atlas | None = None) -> Path:
        """Write a folder of JSON and arrays that `load_model` and ``brainroam predict`` read; nothing is executable.

        ``atlas`` keeps the names of the regions, as ``cohort.atlas``; without it only their number is checked later.
        """
        check_is_fitted(self, "model_")
        header = self.header_
        if atlas is not None:
            header = header | {"atlas": describe_atlas(atlas.name, atlas.labels)}
        return write_method(path, self.model_, header)

    @property
    def notes_(self) -> list[str]:
        """Every fallback that was taken."""
        return list(self.model_.notes_)

    @property
    def inner_scores_(self) -> np.ndarray:
        """Out-of-site score of each training person, NaN where their site was not held out; not of a loaded model."""
        return self.model_.inner_scores_


class SiteClassifier(ClassifierMixin, SiteEstimator):
    """Learn from people of several sites, predict at a site never seen: any method, as a scikit-learn classifier.

    Parameters
    ----------
    method : str or estimator
        A registered name, see ``brainroam methods``, such as ``"ensemble"`` (the default, to predict), ``"core"`` (to
        see which pathways are reproducible) or ``"core[recipe=paper]"``; or anybody's estimator.
    tuning : {"default", "fast", "full"}
        How much is chosen on inner held-out sites.
    random_state : int
        Random seed.
    **settings
        Of the method, as in brackets on the command line.

    Attributes
    ----------
    model_ : TunedMethod
        Everything that was learned.
    classes_ : ndarray
        The labels of controls and cases.
    calibration_ : Calibration
        Decision and probability, learned on inner held-out sites.
    inner_scores_ : ndarray of shape (n,)
        Out-of-site score of each training person, NaN where their site was not or could not be held out.
    notes_ : list of str
        Every fallback that was taken.

    Examples
    --------
    >>> import brainroam
    >>> cohort = brainroam.make_cohort(n_sites=5, n_per_site=16, n_rois=12, seed=0)
    >>> people = cohort.table
    >>> clf = SiteClassifier("fc-ridge").fit(cohort.series, people["label"], site=people["site"])
    >>> clf.predict_proba(cohort.series[:2]).shape, clf.predict_set(cohort.series[:2], level=0.8).shape
    ((2, 2), (2, 2))
    """

    __metadata_request__predict_proba: ClassVar = READ
    __metadata_request__decision_function: ClassVar = READ

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
        """Learn from labelled people of several sites.

        Parameters
        ----------
        X : sequence of ndarray of shape (T_i, P), or Cohort
            Series; a cohort has labels, sites, covariates and repetition times with it.
        y : sequence of n labels of two classes or more
            1 of 0/1 and -1/1 is the condition, and so is what stands against a usual word for controls (TD, HC, ...).
            Three classes or more each have a score, a probability and a place in sets.
        site : sequence of n site names
        covariates : DataFrame or ndarray with n rows, optional
        tr : sequence of n repetition times in seconds, optional
        positive : label, optional
            The value of ``y`` that is the condition; needed for other labels.
        """
        if isinstance(X, Cohort):
            if X.target.is_number:
                raise DataError(f"the cohort's target {X.target.name!r} is {X.target.kind}: use SiteRegressor")
            self.classes_ = np.array(X.target.classes if X.target.is_classes else [0, 1])
            return self._fit(X, None, None, None, None, self.classes_)
        if site is None or y is None:
            raise DataError(f"{type(self).__name__}.fit needs the label and site of every person: fit(X, y, site=...)")
        several = several_classes(y) if positive is None else None
        classes, labels = several or two_classes(y, positive)
        target = Target("y", CLASSES, tuple(map(str, classes))) if several else TWO_CLASSES
        self._fit(X, labels, site, covariates, tr, classes, target)
        self.classes_ = classes
        return self

    def predict_proba(
        self, X: People, covariates: Covariates = None, tr: Times = None, *, prevalence: Any = None
    ) -> np.ndarray:
        """Calibrated probabilities (n, 2) of control and condition, or (n, K) of ``classes_``, for people of any site.

        They hold where ``prevalence`` of the people have the condition, by default the share among the training people
        (``calibration_.prevalence``); of several classes it is a share for each. `predict` does not depend on it.
        """
        score = self.decision_function(X, covariates, tr)
        if self.model_.target_.is_classes:
            shares = None if prevalence is None else as_shares(prevalence, self.model_.target_.classes)
            return self.model_.calibration_(score, shares)
        p = self.model_.calibration_(score, prevalence)
        return np.column_stack([1 - p, p])

    def predict(self, X: People, covariates: Covariates = None, tr: Times = None) -> np.ndarray:
        """The class of each person, at the threshold learned on inner held-out sites, which treats classes alike."""
        score = self.decision_function(X, covariates, tr)
        return self.classes_[self.model_.calibration_.decide(score)]

    def predict_set(
        self, X: People, covariates: Covariates = None, tr: Times = None, *, level: float = 0.9
    ) -> np.ndarray:
        """Which classes (n, K) are in the set that holds the truth for a share ``level`` of people at a new site.

        Several: the model does not decide between them. A level that so few training sites cannot promise is refused.
        """
        score = self.decision_function(X, covariates, tr)
        if self.model_.target_.is_classes:
            return self.model_.sets_(self.model_.calibration_.equal(score), level)
        words = self.model_.sets_(score, level)
        return np.column_stack([np.isin(words, [name, "either"]) for name in ("control", "case")])

    def score(
        self, X: People, y: Sequence, sample_weight: Any = None, *, covariates: Covariates = None, tr: Times = None
    ) -> float:
        """Accuracy, as every classifier of scikit-learn."""
        return float(np.average(self.predict(X, covariates, tr) == np.asarray(y), weights=sample_weight))

    @property
    def calibration_(self) -> Any:
        """Decision and probability, learned on inner held-out sites."""
        return self.model_.calibration_


class SiteRegressor(RegressorMixin, SiteEstimator):
    """Learn a number from people of several sites, predict it at a site never seen: any method that can.

    Parameters
    ----------
    method : str
        A registered name, see ``brainroam methods``: ``"ensemble"`` by default.
    tuning : {"default", "fast", "full"}
        How much is chosen on inner held-out sites.
    random_state : int
        Random seed.
    transform : {"", "log"}
        Learn the logarithm, as for ages; predictions are in the units of y all the same.
    **settings
        Of the method, as in brackets on the command line.

    Attributes
    ----------
    model_ : TunedMethod
        Everything that was learned.
    inner_scores_ : ndarray of shape (n,)
        Out-of-site score of each training person, NaN where their site was not or could not be held out.
    notes_ : list of str
        Every fallback that was taken.

    Examples
    --------
    >>> import brainroam
    >>> cohort = brainroam.make_cohort(n_sites=6, n_per_site=16, n_rois=12, seed=0)
    >>> people = cohort.table
    >>> model = SiteRegressor("fc-ridge", transform="log").fit(cohort.series, people["age"], site=people["site"])
    >>> model.predict(cohort.series[:2]).shape, model.predict_interval(cohort.series[:2], level=0.8).shape
    ((2,), (2, 2))
    >>> model.adapt(cohort.series[:5], people["age"][:5]).predict(cohort.series[5:7]).shape
    (2,)
    """

    __metadata_request__decision_function: ClassVar = READ
    _known: tuple[np.ndarray, np.ndarray] | None = None  # scores and numbers of people of the site it is adapted to

    def __init__(
        self,
        method: Any = "ensemble",
        tuning: str = "default",
        random_state: int = 0,
        transform: str = "",
        **settings: Any,
    ) -> None:
        super().__init__(method, tuning, random_state, **settings)
        self.transform = transform

    def fit(
        self,
        X: People,
        y: Sequence | None = None,
        *,
        site: Sequence[str] | None = None,
        covariates: Covariates = None,
        tr: Times = None,
    ) -> Self:
        """Learn from people of several sites whose number is known.

        Parameters
        ----------
        X : sequence of ndarray of shape (T_i, P), or Cohort
            Series; a cohort (``load_cohort(..., target=...)``) has its target, sites and covariates with it.
        y : sequence of n numbers
        site : sequence of n site names
        covariates : DataFrame or ndarray with n rows, optional
        tr : sequence of n repetition times in seconds, optional
        """
        self._known = None
        if isinstance(X, Cohort):
            if not X.target.is_number:
                raise DataError("the cohort has classes; read it with target=COLUMN, or use SiteClassifier")
            return self._fit(X, None, None, None, None, ())
        if site is None or y is None:
            raise DataError("SiteRegressor.fit needs the number and site of every person: fit(X, y, site=...)")
        values = np.asarray(y, dtype=float)
        if not np.isfinite(values).all():
            raise DataError(f"y is missing for person {listed(np.flatnonzero(~np.isfinite(values)))}; leave them out")
        if self.transform == "log" and (values <= 0).any():
            raise DataError(f"y has no logarithm for person {listed(np.flatnonzero(values <= 0))}: it must be above 0")
        return self._fit(X, values, site, covariates, tr, (), Target("y", NUMBER, (), self.transform))

    def predict(self, X: People, covariates: Covariates = None, tr: Times = None) -> np.ndarray:
        """The number of each person, in the units of y, for people of any site, or of the one it is adapted to."""
        score = self.decision_function(X, covariates, tr)
        return self.model_.predicted(score) if self._known is None else self.model_.mended(score, *self._known)

    def adapt(self, X: People, y: Sequence, covariates: Covariates = None, tr: Times = None) -> Self:
        """A copy whose `predict` is for the site of these people, whose number is known: ``reg.adapt(X, y).predict``.

        They mend level and scale there, shrunken by how many they are, never the order of people
        (`brainroam.methods.site_shift`). Intervals are for a site of which nothing is known, so the copy has none, and
        it cannot be saved.
        """
        adapted = copy(self)
        adapted._known = self.decision_function(X, covariates, tr), np.asarray(y, dtype=float)
        return adapted

    def save(self, path: str | Path, atlas: Atlas | None = None) -> Path:
        """As of every estimator here."""
        self._require_strict("saved")
        return super().save(path, atlas)

    def _require_strict(self, what: str) -> None:
        if self._known is not None:
            raise UsageError(f"a model adapted to one site cannot be {what}; use the one it was made of")

    def predict_interval(
        self, X: People, covariates: Covariates = None, tr: Times = None, *, level: float = 0.9
    ) -> np.ndarray:
        """Ends (n, 2) of intervals that hold the truth for a share ``level`` of people at a new site.

        Conformal over inner held-out sites (`brainroam.methods.prediction_sets`): on average over sites like those of
        the training. A level that so few training sites cannot promise is refused.
        """
        self._require_strict("asked for intervals")
        score = self.decision_function(X, covariates, tr)
        return np.column_stack([self.model_.target_.inverse(end) for end in self.model_.interval(score, level)])

    def score(
        self, X: People, y: Sequence, sample_weight: Any = None, *, covariates: Covariates = None, tr: Times = None
    ) -> float:
        """R squared, as of every regressor of scikit-learn; it counts differences between sites, too."""
        return float(r2_score(np.asarray(y, dtype=float), self.predict(X, covariates, tr), sample_weight=sample_weight))


class EnsembleClassifier(SiteClassifier):
    """The ensemble as a scikit-learn classifier: the model to start with, and the default of ``brainroam fit``.

    Use it to predict at sites never seen; use `CoreClassifier` to see which pathways are reproducible across sites.
    Covariates given to `fit` are nuisance variables, such as ``mean_fd``: what moves with them is taken out of the
    edges. Reading people needs none.

    Parameters
    ----------
    random_state : int
        Random seed.

    Attributes
    ----------
    ensemble_ : Ensemble
        Its readers and their weights; the others are those of `SiteClassifier`.

    Examples
    --------
    >>> import brainroam
    >>> cohort = brainroam.make_cohort(n_sites=4, n_per_site=16, n_rois=12, seed=0)
    >>> people = cohort.table
    >>> clf = EnsembleClassifier()
    >>> clf = clf.fit(cohort.series, people["label"], site=people["site"], covariates=people[["mean_fd"]])
    >>> clf.predict_proba(cohort.series[:1]).shape
    (1, 2)
    """

    method, tuning = "ensemble", "default"

    def __init__(self, random_state: int = 0) -> None:
        self.random_state = random_state

    def _method_settings(self) -> dict[str, Any]:
        return {}

    @property
    def ensemble_(self) -> Ensemble:
        """The fitted ensemble."""
        return self.model_.model_


class CoreClassifier(SiteClassifier):
    """CORE as a scikit-learn classifier: a reproducible scaffold of pathways, read by a ridge, a gated network or both.

    Use it to see which pathways are reproducible across sites; use `EnsembleClassifier` to predict.
    Parameters that are None are as the recipe says. All other settings are changed by a recipe of your own:
    ``CoreClassifier(recipe=dataclasses.replace(brainroam.core.recipe.PAPER, orient=True))``.

    Parameters
    ----------
    recipe : {"ours", "paper", "network"} or Recipe
        Our defaults, the literal reading of the paper, or its network alone; docs/fidelity.md tables the differences.
    kind : {"log", "pearson", "partial"}, optional
        Edge values.
    tau_percentile, eta : float or sequence, optional
        Scaffold thresholds: the percentile of the absolute consensus contrast that an edge must exceed, and the share
        of sites that must agree on its sign. Where a sequence is given, inner leave-one-site-out chooses.
    budget : float, optional
        K of the gate budget.
    prior_strength : float, optional
        How much the gate follows the consensus contrast.
    gated, profiles : bool, optional
        Subject-adaptive gates; volatility and flexibility beside the strength of each pathway.
    window, stride : int, optional
        Sliding windows of the profiles, in volumes.
    skip : {"ridge", "sum", "none"}, optional
        The linear reading that stands beside the network; ``"none"`` is the network alone.
    hidden : int, optional
        Width of the network.
    epochs : int, optional
        A fixed number, at a constant learning rate; 0 is the linear reading alone, and needs no torch.
    updates : int, optional
        Steps of Adam over which the learning rate falls to zero.
    max_pathways : int, optional
        How many pathways the network reads.
    device : str, optional
        A torch device.
    tuning : {"default", "fast"}
        ``fast`` holds out one group of sites only.
    random_state : int
        Random seed.

    Attributes
    ----------
    scaffold_, deconfounder_, pathways_, reading_, chosen_
        Those of `brainroam.core.model.CoreModel`; the others are those of `SiteClassifier`.

    Examples
    --------
    >>> import brainroam
    >>> cohort = brainroam.make_cohort(n_sites=4, n_per_site=16, n_rois=12, seed=0)
    >>> people = cohort.table
    >>> clf = CoreClassifier(budget=4, tau_percentile=60)
    >>> clf = clf.fit(cohort.series, people["label"], site=people["site"], covariates=people[["age", "sex"]])
    >>> clf.predict_proba(cohort.series[:2], covariates=people[["age", "sex"]][:2]).shape
    (2, 2)
    """

    method = "core"

    def __init__(
        self,
        recipe: str | Recipe = "ours",
        kind: str | None = None,
        tau_percentile: float | Sequence[float] | None = None,
        eta: float | Sequence[float] | None = None,
        budget: float | None = None,
        prior_strength: float | None = None,
        gated: bool | None = None,
        profiles: bool | None = None,
        window: int | None = None,
        stride: int | None = None,
        skip: str | None = None,
        hidden: int | None = None,
        epochs: int | None = None,
        updates: int | None = None,
        max_pathways: int | None = None,
        device: str | None = None,
        tuning: str = "default",
        random_state: int = 0,
    ) -> None:
        self.recipe = recipe
        self.kind = kind
        self.tau_percentile = tau_percentile
        self.eta = eta
        self.budget = budget
        self.prior_strength = prior_strength
        self.gated = gated
        self.profiles = profiles
        self.window = window
        self.stride = stride
        self.skip = skip
        self.hidden = hidden
        self.epochs = epochs
        self.updates = updates
        self.max_pathways = max_pathways
        self.device = device
        self.tuning = tuning
        self.random_state = random_state

    def _method_settings(self) -> dict[str, Any]:
        named = {field.name for field in fields(Recipe)} & self.get_params(deep=False).keys()
        given = {name: getattr(self, name) for name in named if getattr(self, name) is not None}
        return replace(as_recipe(self.recipe), **given).changes()

    def gates(self, X: People, covariates: Covariates = None, tr: Times = None) -> np.ndarray:
        """Gate of each pathway (n, M_S), in the order of ``scaffold_.edges``."""
        people = self._people(X, covariates, tr)
        return self.model_.model_.gates_and_contributions(people)[0]

    def pathway_contributions(self, X: People, covariates: Covariates = None, tr: Times = None) -> np.ndarray:
        """How much each pathway moved each person's score (n, M_S), see `CoreReading.contributions`."""
        people = self._people(X, covariates, tr)
        return self.model_.model_.gates_and_contributions(people)[1]

    def embedding(self, X: People, covariates: Covariates = None, tr: Times = None) -> np.ndarray:
        """The graph-level representation z of each person (n, hidden)."""
        people, core = self._people(X, covariates, tr), self._core
        z = core.reading_.embedding(core.nodes(people, people.table))
        if z is None:
            raise UsageError("there is no embedding: the network is not used, the decision is a linear reading")
        return z

    @property
    def _core(self) -> CoreModel:
        return self.model_.model_.core_

    @property
    def scaffold_(self) -> Any:
        """The pathways that all sites agree on."""
        return self._core.scaffold_

    @property
    def deconfounder_(self) -> Any:
        """The frozen deconfounder."""
        return self._core.deconfounder_

    @property
    def pathways_(self) -> Any:
        """Scaffold, line graph and standardisation."""
        return self._core.pathways_

    @property
    def reading_(self) -> Any:
        """The linear reading, the network, or both."""
        return self._core.reading_

    @property
    def chosen_(self) -> dict[str, Any]:
        """What held-out training sites decided."""
        return self._core.chosen_


def save_model(estimator: SiteEstimator, path: str | Path, atlas: Atlas | None = None) -> Path:
    """Write a fitted estimator as a folder of JSON and arrays, see `SiteEstimator.save`.

    Examples
    --------
    >>> import brainroam, tempfile
    >>> cohort = brainroam.make_cohort(n_sites=4, n_per_site=16, n_rois=12, seed=0)
    >>> people = cohort.table
    >>> clf = brainroam.EnsembleClassifier().fit(cohort.series, people["label"], site=people["site"])
    >>> again = load_model(save_model(clf, Path(tempfile.mkdtemp()) / "model", cohort.atlas))
    >>> bool((again.predict_proba(cohort.series) == clf.predict_proba(cohort.series)).all())
    True
    """
    if not isinstance(estimator, SiteEstimator):
        raise UsageError(f"a {type(estimator).__name__} cannot be saved; estimators of brainroam can")
    return estimator.save(path, atlas)


def load_model(path: str | Path) -> Any:
    """The fitted estimator of a model folder, be it of ``clf.save`` or of ``brainroam fit``: the same bits."""
    model, header = load_method(path)
    seed: Mapping[str, Any] = {"random_state": header["seed"]}
    clf: SiteClassifier
    if model.target_.is_number:
        regressor = SiteRegressor(
            model.info.name, model.tuning, **seed, transform=model.target_.transform, **model.fixed
        )
        regressor.model_, regressor.header_ = model, header
        return regressor
    if isinstance(model.model_, Core):
        clf = CoreClassifier(recipe=model.model_.recipe, tuning=model.tuning, **seed)
    elif isinstance(model.model_, Ensemble):
        clf = EnsembleClassifier(**seed)
    else:
        clf = SiteClassifier(model.info.name, model.tuning, **seed, **model.fixed)
    clf.model_, clf.header_, clf.classes_ = model, header, np.array(header["classes"])
    return clf


def explain(estimator: SiteEstimator, X: People, covariates: Covariates = None, **options: Any) -> Explanation:
    """Which pathways a fitted classifier reads, and which of them contributed most for each person.

    ``X`` is a cohort or what `SiteClassifier.fit` takes; options are those of `SiteEstimator.explain`.

    Examples
    --------
    >>> import brainroam
    >>> cohort = brainroam.make_cohort(n_sites=4, n_per_site=16, n_rois=12)
    >>> people = cohort.table
    >>> clf = brainroam.CoreClassifier(epochs=0, tau_percentile=60)
    >>> clf = clf.fit(cohort.series, people["label"], site=people["site"], covariates=people[["age", "sex"]])
    >>> explain(clf, cohort).pathways[["region_1", "region_2"]].iloc[0].tolist()
    ['ROI_004', 'ROI_012']
    """
    if not isinstance(estimator, SiteEstimator):
        raise UsageError(f"a {type(estimator).__name__} cannot be explained; estimators of brainroam can")
    return estimator.explain(X, covariates, **options)
