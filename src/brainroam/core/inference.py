"""Reading new people with a fitted CORE: frozen pathways, frozen reading, one person at a time.

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
from brainroam.core.choice import Choice, CoreReading
from brainroam.core.connectivity import cohort_edges
from brainroam.core.covariates import FIT_METADATA, READ_METADATA, as_table
from brainroam.core.deconfound import SiteDeconfounder
from brainroam.core.pathways import Pathways, profiles_of
from brainroam.core.profile import windows_in_volumes
from brainroam.core.scaffold import Scaffold
from brainroam.core.series import TakesSeries
from brainroam.data.cohort import Cohort, anonymous_cohort
from brainroam.errors import DataError, UsageError, listed
from brainroam.utils.estimator_verbs import EstimatorVerbs

if TYPE_CHECKING:
    from brainroam.core.gate import GatedNetwork

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
    classes_: np.ndarray
    n_rois_: int
    reading_: CoreReading
    max_pathways: int | None
    calibration_: Calibration
    pathways_: Pathways
    scaffold_: Scaffold
    deconfounder_: SiteDeconfounder

    def decision_function(self, series: Series, covariates: Covariates = None, tr: Times = None) -> np.ndarray:
        """The logit of each person, each on their own; positive is not the decision, see ``calibration_``."""
        return self._fitted_reading().logits(self._nodes(series, covariates, tr))

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
        return self._fitted_reading().gates(self._nodes(series, covariates, tr)).T

    def pathway_contributions(self, series: Series, covariates: Covariates = None, tr: Times = None) -> np.ndarray:
        """How much each pathway moved each person's score (n, M_S), see `CoreReading.contributions`."""
        return self._fitted_reading().contributions(self._nodes(series, covariates, tr)).T

    def embedding(self, series: Series, covariates: Covariates = None, tr: Times = None) -> np.ndarray:
        """The graph-level representation z of each person (n, hidden)."""
        z = self._fitted_reading().embedding(self._nodes(series, covariates, tr))
        if z is None:
            raise UsageError("there is no embedding: the network is not used, the decision is a linear reading")
        return z

    def _fitted_reading(self) -> CoreReading:
        check_is_fitted(self, "reading_")
        return self.reading_

    def _nodes(self, series: Series, covariates: Covariates, tr: Times) -> np.ndarray:
        """New people as they are read: frozen pathways, no site, no statistics of their own group."""
        return self.read_cohort(anonymous_cohort(series, tr=tr), covariates)

    def read_cohort(self, cohort: Cohort, covariates: Covariates) -> np.ndarray:
        """Node features (M_S, n, channels) of the people of a cohort; labels and sites are not looked at."""
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
        if self.profiles and self.reading_.network is not None:  # the linear reading looks at the static channel alone
            window, stride = self._windows(cohort)
            profiles = np.full((len(cohort), len(edges), 2), np.nan)
            long = ~self._short(cohort, window)
            if long.any():
                profiles[long] = profiles_of(cohort.subset(long), edges, window[long], stride[long], self.stretch).of(
                    edges
                )
        values, table = cohort_edges(cohort, self.kind, self.shrinkage, self.robust), as_table(covariates, len(cohort))
        return self.pathways_.nodes(values[:, edges], table, profiles, self.adapt)

    def set_reading(self, pathways: Pathways, choice: Choice, network: "GatedNetwork | None") -> None:
        """Hold the frozen steps 1 to 5 and the chosen reading, which is in double precision, on the processor."""
        self.pathways_, self.scaffold_, self.deconfounder_ = pathways, pathways.scaffold, pathways.deconfounder
        nodes, graph = pathways.strongest(self.max_pathways), None
        if network is not None:
            import torch

            from brainroam.core.gate import PathwayGraph

            network = network.cpu().double().eval().requires_grad_(False)
            graph = PathwayGraph.of(pathways.on(nodes).graph, dtype=torch.float64)
        self.reading_ = CoreReading(choice, pathways, nodes, network, graph)

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
