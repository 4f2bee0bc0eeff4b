"""Reading new people with a fitted CORE: frozen pathways, frozen network, one person at a time.

No site is asked for and no statistic of the people read is taken: a batch is the same as its people one by one. Only
``adapt="unlabelled"`` breaks that promise, and is transductive.
"""

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from brainroam.core.calibration import Calibration
from brainroam.core.connectivity import cohort_edges
from brainroam.core.covariates import FIT_METADATA, READ_METADATA, as_table
from brainroam.core.deconfound import SiteDeconfounder
from brainroam.core.episodes import Episode, as_array, predict_logits
from brainroam.core.linear_reading import LinearReading
from brainroam.core.pathways import Pathways, profiles_of
from brainroam.core.profile import windows_in_volumes
from brainroam.core.scaffold import Scaffold
from brainroam.core.series import TakesSeries
from brainroam.core.site_folds import path_graph, placed
from brainroam.data.cohort import Cohort, anonymous_cohort
from brainroam.errors import DataError, UsageError, listed
from brainroam.utils.estimator_verbs import EstimatorVerbs
from brainroam.utils.threads import one_thread

if TYPE_CHECKING:
    from brainroam.core.gate import GatedNetwork, PathwayGraph

Series: TypeAlias = Sequence[np.ndarray]
Covariates: TypeAlias = pd.DataFrame | np.ndarray | None
Times: TypeAlias = Sequence[float] | None


class FrozenCore(EstimatorVerbs, TakesSeries, ClassifierMixin, BaseEstimator):
    """What a `CoreClassifier` does once it is fitted; parameters and attributes are described there."""

    # With scikit-learn's metadata routing switched on, pipelines and cross-validation pass these on unasked.
    __metadata_request__fit = FIT_METADATA | {"tr": True}
    __metadata_request__predict = READ_METADATA | {"tr": True}
    __metadata_request__predict_proba = READ_METADATA | {"tr": True}
    __metadata_request__decision_function = READ_METADATA | {"tr": True}
    __metadata_request__score = READ_METADATA | {"tr": True}

    kind: str
    shrinkage: float
    robust: bool
    window: int
    stride: int
    stretch: int | None
    window_seconds: float | None
    stride_seconds: float | None
    profiles: bool
    on_short: str
    adapt: str | None
    device: str
    classes_: np.ndarray
    n_rois_: int
    network_: "GatedNetwork | LinearReading"
    calibration_: Calibration
    pathways_: Pathways
    scaffold_: Scaffold
    deconfounder_: SiteDeconfounder
    _graph: "PathwayGraph | Pathways"

    def decision_function(self, series: Series, covariates: Covariates = None, tr: Times = None) -> np.ndarray:
        """The logit of each person, each on their own; positive is not the decision, see ``calibration_``."""
        people = self._episode(series, covariates, tr)
        return predict_logits(self.network_, people)

    def predict_proba(
        self, series: Series, covariates: Covariates = None, tr: Times = None, *, prevalence: float | None = None
    ) -> np.ndarray:
        """Calibrated probabilities (n, 2) of control and condition, for people of any site.

        They hold where ``prevalence`` of the people have the condition, by default the share among the training people
        (``calibration_.prevalence``). `predict` does not depend on it.
        """
        score = self.decision_function(series, covariates, tr)
        p = self.calibration_(score, prevalence)
        return np.column_stack([1 - p, p])

    def predict(self, series: Series, covariates: Covariates = None, tr: Times = None) -> np.ndarray:
        """The class of each person, at the threshold learned on inner held-out sites, which treats classes alike."""
        score = self.decision_function(series, covariates, tr)
        return self.classes_[self.calibration_.decide(score)]

    def gates(self, series: Series, covariates: Covariates = None, tr: Times = None) -> np.ndarray:
        """Gate of each pathway (n, M_S), in the order of ``scaffold_.edges``."""
        return self.gates_of(self._episode(series, covariates, tr))

    def pathway_contributions(self, series: Series, covariates: Covariates = None, tr: Times = None) -> np.ndarray:
        """How much each pathway moved each person's logit (n, M_S), see `GatedNetwork.contributions`."""
        return self.contributions_of(self._episode(series, covariates, tr))

    @one_thread()
    def embedding(self, series: Series, covariates: Covariates = None, tr: Times = None) -> np.ndarray:
        """The graph-level representation z of each person (n, hidden)."""
        episode = self._episode(series, covariates, tr)
        if isinstance(self.network_, LinearReading):
            raise UsageError("there is no embedding: the network was not trained, the decision is a linear reading")
        return as_array(self.network_(episode.features, episode.graph).z)

    @one_thread()
    def gates_of(self, people: Episode) -> np.ndarray:
        """As `gates`, of people read by `read_cohort`."""
        return as_array(self.network_.gates(people.features, people.graph)).T

    @one_thread()
    def contributions_of(self, people: Episode) -> np.ndarray:
        """As `pathway_contributions`, of people read by `read_cohort`."""
        return as_array(self.network_.contributions(people.features, people.graph)).T

    def _episode(self, series: Series, covariates: Covariates, tr: Times) -> Episode:
        """New people as the network reads them: frozen pathways, no site, no statistics of their own group."""
        check_is_fitted(self, "network_")
        return self.read_cohort(anonymous_cohort(series, tr=tr), covariates)

    def read_cohort(self, cohort: Cohort, covariates: Covariates) -> Episode:
        """Node features of the people of a cohort; labels and sites are not looked at."""
        if cohort.n_rois != self.n_rois_:
            raise DataError(
                f"the model was fitted on {self.n_rois_} regions but the series have {cohort.n_rois}: another atlas?"
            )
        refuse_empty(cohort)
        if covariates is None and self.deconfounder_.encoder_.columns_:
            names = self.deconfounder_.encoder_.columns_
            warnings.warn(
                f"no covariates given: {listed(names)} stand at the training mean for everybody", stacklevel=3
            )
            covariates = pd.DataFrame(np.nan, index=range(len(cohort)), columns=names)
        edges = self.scaffold_.edges
        profiles = None
        if self.profiles and not isinstance(self.network_, LinearReading):  # which looks at the static channel alone
            window, stride = self._windows(cohort)
            profiles = np.full((len(cohort), len(edges), 2), np.nan)
            long = ~self._short(cohort, window)
            if long.any():
                profiles[long] = profiles_of(cohort.subset(long), edges, window[long], stride[long], self.stretch).of(
                    edges
                )
        values, table = cohort_edges(cohort, self.kind, self.shrinkage, self.robust), as_table(covariates, len(cohort))
        nodes = self.pathways_.nodes(values[:, edges], table, profiles, self.adapt)
        return Episode(placed(nodes, self._where()), np.full(len(cohort), np.nan), self._graph)

    def set_pathways(self, pathways: Pathways) -> None:
        """Hold the frozen steps 1 to 5, and the view of them of ``network_``, which has to be there."""
        self.pathways_, self.scaffold_, self.deconfounder_ = pathways, pathways.scaffold, pathways.deconfounder
        self._graph = path_graph(pathways, self._where())

    def _where(self) -> str | None:
        """The device of the network; None for the linear reading."""
        return None if isinstance(self.network_, LinearReading) else self.device

    def _windows(self, cohort: Cohort) -> tuple[np.ndarray, np.ndarray]:
        """Window and stride of each person, in volumes."""
        tr = cohort.table["tr"].to_numpy()
        window, stride = np.full(len(cohort), self.window), np.full(len(cohort), self.stride)
        if self.window_seconds is not None:
            window = np.maximum(windows_in_volumes(self.window_seconds, tr), 3)
        if self.stride_seconds is not None:
            stride = windows_in_volumes(self.stride_seconds, tr)
        return window, stride

    def _short(self, cohort: Cohort, window: np.ndarray) -> np.ndarray:
        """People to set aside; with ``on_short="raise"`` nobody, so that the error of the profile names them."""
        short = cohort.table["n_timepoints"].to_numpy() < window
        return short if self.on_short == "exclude" else np.zeros(len(cohort), dtype=bool)


def refuse_empty(cohort: Cohort) -> None:
    """A person without any signal has no edge to be read."""
    empty = cohort.missing_rois.sum(axis=1) >= cohort.n_rois - 1
    if empty.any():
        raise DataError(f"no region has a signal in {listed(cohort.table['subject'][empty])}; leave them out")
