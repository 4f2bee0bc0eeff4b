"""Edge features of a cohort for linear methods, with missing values at the training mean.

Columns of a table have units of their own: each is divided by its standard deviation within training sites, skewed ones
are read by their normal scores before (`brainroam.methods.column_scores`).
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from threadpoolctl import threadpool_limits

from brainroam.core.connectivity import EdgeKind, cohort_edges
from brainroam.core.site_edges import SiteEdges
from brainroam.core.tangent import NearMean, TangentEdges, cohort_covariances
from brainroam.data.cohort import Cohort
from brainroam.data.measurements import edge_vectors
from brainroam.methods.column_scores import ColumnScores, by_scores


@dataclass(frozen=True)
class TangentTraining:
    """The tangent space of training people, their edges there, and where the means of most of them are near."""

    space: TangentEdges
    edges: np.ndarray
    near: NearMean


def tangent_training(cohort: Cohort) -> TangentTraining:
    """The tangent space of these people, which is the same for every strength tried."""

    @threadpool_limits.wrap(limits=1)
    def learn() -> TangentTraining:
        near, space = NearMean.of(cohort_covariances(cohort)), TangentEdges()
        edges = edge_vectors(space.set_reference(near), cohort.missing_rois)
        return TangentTraining(space, edges, near.without_values())

    return cohort.features.cache.get("tangent", [np.array(cohort.series_digests)], learn)


class EdgeFeatures:
    """Edges of one kind as a complete matrix: what is missing stands at the mean of the training people.

    Parameters
    ----------
    kind : {"pearson", "log", "partial", "tangent"}
        For ``"tangent"`` the reference is learned from the training people too.
    scaled : bool
        Whether columns of a table are divided by their standard deviation within training sites, skewed ones after
        they were read by their normal scores.
    """

    def __init__(self, kind: str, scaled: bool = True) -> None:
        self.kind, self.scaled = kind, scaled
        self.columns_ = ColumnScores().load_state({})

    def fit_transform(self, cohort: Cohort) -> np.ndarray:
        """Learn the fill-in (and the tangent reference) from the training people and return their features."""
        if self.scaled:
            self.columns_, cohort = by_scores(cohort)
        if self.kind == "tangent":
            training = tangent_training(cohort)
            self.tangent_, values = training.space, training.edges
        else:
            values = cohort_edges(cohort, self.kind)
        self.scale_ = SiteEdges(cohort, EdgeKind(self.kind)).scale if self.scaled and cohort.own_units else None
        values = self._scale(values)
        known = np.isfinite(values)
        self.fill_ = np.where(known, values, 0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        return np.where(known, values, self.fill_)

    def transform(self, cohort: Cohort) -> np.ndarray:
        """Features of new people, person by person."""
        cohort = self.columns_.transform(cohort)
        values = self.tangent_.transform(cohort.series) if self.kind == "tangent" else cohort_edges(cohort, self.kind)
        values = self._scale(values)
        return np.where(np.isfinite(values), values, self.fill_)

    def _scale(self, values: np.ndarray) -> np.ndarray:
        return values if self.scale_ is None else values / self.scale_

    def state(self) -> dict[str, np.ndarray]:
        """What was learned."""
        whitening = {"whitening": self.tangent_.whitening_} if self.kind == "tangent" else {}
        scale = {} if self.scale_ is None else {"scale": self.scale_}
        return {"fill": self.fill_, **whitening, **scale, **self.columns_.state()}

    def load_state(self, state: dict[str, np.ndarray]) -> Self:
        """Restore what `state` returned."""
        self.fill_, self.scale_ = state["fill"], state.get("scale")
        self.columns_ = ColumnScores().load_state(state)
        if self.kind == "tangent":
            self.tangent_ = TangentEdges()
            self.tangent_.whitening_ = state["whitening"]
        return self
