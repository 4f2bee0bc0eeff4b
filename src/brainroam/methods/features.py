"""Edge features of a cohort for linear readers, with missing values at the training mean."""

from typing import Self

import numpy as np

from brainroam.core.connectivity import TangentEdges, cohort_edges
from brainroam.data.cohort import Cohort


def tangent_reference(cohort: Cohort) -> TangentEdges:
    """The tangent space of these people; they come again for every strength tried."""
    whom = np.array(cohort.series_digests)
    return cohort.cache.get("tangent", [whom], lambda: TangentEdges().fit(cohort.series))


class EdgeFeatures:
    """Edges of one kind as a complete matrix: what is missing stands at the mean of the training people.

    Parameters
    ----------
    kind : {"pearson", "log", "partial", "tangent"}
        For ``"tangent"`` the reference is learned from the training people too.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def fit_transform(self, cohort: Cohort) -> np.ndarray:
        """Learn the fill-in (and the tangent reference) from the training people and return their features."""
        if self.kind == "tangent":
            self.tangent_ = tangent_reference(cohort)
        values = self._values(cohort)
        known = np.isfinite(values)
        self.fill_ = np.where(known, values, 0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        return np.where(known, values, self.fill_)

    def transform(self, cohort: Cohort) -> np.ndarray:
        """Features of anybody, person by person."""
        values = self._values(cohort)
        return np.where(np.isfinite(values), values, self.fill_)

    def state(self) -> dict[str, np.ndarray]:
        """What was learned."""
        return {"fill": self.fill_, **({"whitening": self.tangent_.whitening_} if self.kind == "tangent" else {})}

    def load_state(self, state: dict[str, np.ndarray]) -> Self:
        """Restore what `state` returned."""
        self.fill_ = state["fill"]
        if self.kind == "tangent":
            self.tangent_ = TangentEdges()
            self.tangent_.whitening_ = state["whitening"]
        return self

    def _values(self, cohort: Cohort) -> np.ndarray:
        return self.tangent_.transform(cohort.series) if self.kind == "tangent" else cohort_edges(cohort, self.kind)
