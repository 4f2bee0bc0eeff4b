"""Every method as a scikit-learn classifier, for people given as arrays; and what saves, loads and explains a model.

`CoreClassifier` and `EnsembleClassifier` are `SiteClassifier` for one method, with its settings spelled out. A model of
``brainroam fit`` and one of ``clf.save`` are the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.metadata_routing import UNUSED

from brainroam.core.model import CoreModel
from brainroam.core.recipe import Recipe, as_recipe
from brainroam.data.atlas import Atlas
from brainroam.data.cohort import Cohort
from brainroam.data.target import TWO_CLASSES, Classes, Target, several_classes, two_classes
from brainroam.errors import DataError, UsageError
from brainroam.methods.core import Core
from brainroam.methods.ensemble import Ensemble
from brainroam.methods.explanation import Explanation
from brainroam.methods.saving import load_method
from brainroam.methods.site_estimator import READ, Covariates, People, SiteEstimator, Times
from brainroam.methods.site_regressor import SiteRegressor
from brainroam.utils.parameters import says_how_to_call


class SiteClassifier(ClassifierMixin, SiteEstimator):
    """Learn from people of several sites, predict at a site never seen: any method, as a scikit-learn classifier.

    Parameters
    ----------
    method : str or estimator
        A registered name, see ``brainroam methods``, such as ``"core"`` (the default), ``"ensemble"`` (the same without
        a network) or ``"core[recipe=paper]"``; or anybody's estimator.
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

    __metadata_request__fit: ClassVar = {"positive": UNUSED}
    __metadata_request__predict_proba: ClassVar = READ
    __metadata_request__decision_function: ClassVar = READ

    def _classes_of(self, cohort: Cohort) -> np.ndarray:
        target = cohort.target
        if target.number:
            raise DataError(f"the cohort's target {target.name!r} is {target.kind}: use SiteRegressor")
        return np.array(target.class_labels)

    def _as_target(self, y: Sequence, positive: Any) -> tuple[np.ndarray, np.ndarray, Target]:
        found = several_classes(y) if positive is None else None
        classes, labels = found or two_classes(y, positive)
        return labels, classes, Classes("y", tuple(map(str, classes))) if found else TWO_CLASSES

    @says_how_to_call
    def predict_proba(
        self, X: People, covariates: Covariates = None, tr: Times = None, *, prevalence: Any = None
    ) -> np.ndarray:
        """Calibrated probabilities (n, 2) of control and condition, or (n, K) of ``classes_``, for people of any site.

        They hold where ``prevalence`` of the people have the condition, by default the share among the training people
        (``calibration_.prevalence``); of several classes it is a share for each. `predict` does not depend on it.
        """
        score = self.decision_function(X, covariates, tr)
        return self.model_.readout_.probabilities(score, prevalence)

    @says_how_to_call
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
        return self.model_.readout_.in_set(score, level)

    def score(
        self, X: People, y: Sequence, sample_weight: Any = None, *, covariates: Covariates = None, tr: Times = None
    ) -> float:
        """Accuracy, as every classifier of scikit-learn."""
        return float(np.average(self.predict(X, covariates, tr) == np.asarray(y), weights=sample_weight))

    @property
    def classes_(self) -> np.ndarray:
        """The labels of controls and cases, or of several classes."""
        return np.array(self.header_["classes"])

    @property
    def calibration_(self) -> Any:
        """Decision and probability, learned on inner held-out sites."""
        return self.model_.calibration_


class EnsembleClassifier(SiteClassifier):
    """The ensemble as a scikit-learn classifier: `CoreClassifier` without its network, many times faster.

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
    """CORE as a scikit-learn classifier: the model to start with, and the default of ``brainroam fit``.

    It reads all edges softly, and a gated network reads the scaffold of pathways that sites agree on; sites held out of
    training decide how far the network is believed.

    Parameters that are None are as the recipe says. All other settings are changed by a recipe of your own:
    ``CoreClassifier(recipe=dataclasses.replace(brainroam.core.recipe.PAPER, orient=True))``.

    Parameters
    ----------
    recipe : {"ours", "paper", "network"} or Recipe
        Our defaults, the paper's method, or its network with our training; docs/fidelity.md tables the differences.
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
        The linear reading of the scaffold, with which the network is compared; ``"none"`` is the network alone.
    hidden : int, optional
        Width of the network.
    epochs : int, optional
        A fixed number, at a constant learning rate; 0 is without a network, and needs no torch.
    updates : int, optional
        Steps of Adam over which the learning rate falls to zero.
    max_pathways : int, optional
        How many pathways the network reads.
    device : str, optional
        A torch device.
    nuisance : sequence of str, optional
        Covariates whose directions are projected out instead of regressed out; ``mean_fd`` by default.
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
        nuisance: Sequence[str] | None = None,
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
        self.nuisance = nuisance
        self.tuning = tuning
        self.random_state = random_state

    def _method_settings(self) -> dict[str, Any]:
        named = {field.name for field in fields(Recipe)} & self.get_params(deep=False).keys()
        changed = {name: getattr(self, name) for name in named if getattr(self, name) is not None}
        told = {} if self.nuisance is None else {"nuisance": list(self.nuisance)}
        return replace(as_recipe(self.recipe), **changed).changes() | told

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
        """Decisions made at held-out training sites, see `CoreModel`."""
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
    """The fitted estimator of a model folder, be it of ``clf.save`` or of ``brainroam fit``: the same bits.

    Examples
    --------
    >>> import tempfile, brainroam
    >>> cohort = brainroam.make_cohort(n_sites=4, n_per_site=12, n_rois=8)
    >>> clf = brainroam.SiteClassifier("fc-ridge").fit(cohort.series, cohort.labels, site=cohort.table["site"])
    >>> again = brainroam.load_model(clf.save(Path(tempfile.mkdtemp()) / "model"))
    >>> bool((again.decision_function(cohort.series) == clf.decision_function(cohort.series)).all())
    True
    """
    model, header = load_method(path)
    seed: Mapping[str, Any] = {"random_state": header["seed"]}
    clf: SiteClassifier
    if model.target_.number:
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
    clf.model_, clf.header_ = model, header
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
