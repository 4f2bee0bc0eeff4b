"""Ridge on the cross-site scaffold: the linear reading that CORE's network starts from, as a method of its own.

    r_site = edges after site-wise regression on the covariates       (training people), without the means of sites
    w      = mean over penalties of  argmin  sum_i (y_i - (r_site_i / s)' w)^2 + penalty |w|^2
    score  = (r_res / s)' w                                           (anybody; frozen, site-agnostic)

over the edges of the scaffold, each divided by its residual standard deviation s. A missing edge has residual 0. The
direction that moves with head motion within site and class is projected out (`brainroam.core.pathways`).

Columns of a table, and edges in units of their own, are all read unless thresholds are given: columns are hundreds. So
is everything where sites are so small that signs hardly agree whatever is true (`scaffold.are_too_small`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
import pandas as pd
from pydantic import Field, NonNegativeFloat, PositiveFloat

from brainroam.core.connectivity import PEARSON, EdgeKind, cohort_edges, readable_kind
from brainroam.core.deconfound import SiteDeconfounder, Slopes
from brainroam.core.nuisance import split_covariates
from brainroam.core.recipe import ETA, TAU_PERCENTILE, ZETA
from brainroam.core.ridge import ridge_weights, without_directions
from brainroam.core.scaffold import are_too_small
from brainroam.core.site_statistics import SiteStatistics, site_statistics
from brainroam.data.cohort import Cohort
from brainroam.data.folds import Folds, training_sites
from brainroam.data.target.within import within_sites
from brainroam.errors import EmptyScaffoldError
from brainroam.methods.base import EVERY_TARGET, Method, MethodInfo
from brainroam.methods.explanation import linear_explanation
from brainroam.methods.registry import register
from brainroam.utils.model_files import part
from brainroam.utils.parameters import Percentile

THRESHOLDS = TAU_PERCENTILE, ETA, ZETA
EVERYTHING = 0, 0.0, 0.0


class ScaffoldRidge(Method):
    """Ridge on the cross-site scaffold.

    Parameters
    ----------
    kind, shrinkage, robust
        The edge values, see `brainroam.core.connectivity`.
    penalties : sequence of float
        In units of the mean squared length of the features; their solutions are averaged.
    tau_percentile, eta, zeta : float
        Thresholds of the scaffold.
    slopes : {"shrunken", "site"}
        See `SiteDeconfounder`.
    covariates : sequence of str, optional
        Columns to remove; those of the study by default, without the nuisance variables.
    nuisance : sequence of str, optional
        Columns whose directions are projected out; those of the study by default (motion).
    """

    def __init__(
        self,
        kind: str = "log",
        shrinkage: NonNegativeFloat = 0.7,
        robust: bool = True,
        penalties: Annotated[Sequence[PositiveFloat], Field(min_length=1)] = (3, 10, 30),
        tau_percentile: Percentile = TAU_PERCENTILE,
        eta: NonNegativeFloat = ETA,
        zeta: NonNegativeFloat = ZETA,
        slopes: Slopes = "shrunken",
        covariates: Sequence[str] | None = None,
        nuisance: Sequence[str] | None = None,
    ) -> None:
        self.kind = EdgeKind(kind, shrinkage, robust)
        self.edge_kinds = (self.kind,)
        self.penalties, self.slopes, self.covariates, self.nuisance = penalties, slopes, covariates, nuisance
        self.thresholds = tau_percentile, eta, zeta

    def fit(self, cohort: Cohort, seed: int = 0, validation: Cohort | None = None) -> Self:
        """Deconfound, select, solve."""
        self.read_ = self._kind_for(cohort)
        statistics = self._statistics(cohort)
        self.reading_ = self._reading(statistics, list(np.unique(statistics.site)))
        self.notes_ = statistics.deconfounder.notes_
        return self

    def out_of_fold(self, cohort: Cohort, folds: Folds, seed: int = 0) -> list[np.ndarray]:
        """As the base class; folds that leave whole sites out share regressions and contrasts of the sites."""
        statistics = self._statistics(cohort)
        of_folds = training_sites(statistics.site, folds)
        if of_folds is None:
            return super().out_of_fold(cohort, folds, seed)
        scores = []
        for sites, (_, held_out) in zip(of_folds, folds, strict=True):
            try:
                reading = self._reading(statistics, sites)
            except EmptyScaffoldError:  # nothing is reproducible without these sites: nothing is read
                scores.append(np.zeros((1, len(held_out))))
                continue
            values = statistics.values_of(held_out, reading.edges)
            scores.append(reading.score(values, statistics.covariates.iloc[held_out])[None])
        return scores

    def score(self, cohort: Cohort) -> np.ndarray:
        """The weighted sum of the residuals on the scaffold."""
        return self.reading_.score(self._values(cohort), cohort.table)

    def contributions(self, cohort: Cohort) -> np.ndarray:
        """What each edge adds to each person's score (n, M)."""
        reading = self.reading_
        full = np.zeros((len(cohort), len(reading.deconfounder.mean_intercept_)))
        residuals = reading.residuals(self._values(cohort), cohort.table)
        full[:, reading.edges] = residuals * reading.coef
        return full

    def explanation(self, cohort: Cohort, top: int = 10) -> dict[str, Any]:
        """The weight of each edge, and what it adds to whom."""
        contributions = self.contributions(cohort)
        weight = np.zeros(contributions.shape[1])
        weight[self.reading_.edges] = self.reading_.coef
        return linear_explanation(cohort.atlas, {"weight": weight}, contributions, weight, top)

    def missing_covariates(self, cohort: Cohort) -> pd.DataFrame:
        """Covariates that stood at the training mean."""
        return self.reading_.deconfounder.encoder_.missing(cohort.table)

    def state(self) -> dict[str, np.ndarray]:
        """Deconfounder, edges and their weights."""
        reading = self.reading_
        frozen = {f"deconfounder.{name}": value for name, value in reading.deconfounder.state().items()}
        is_pearson = np.array(float(self.read_ == PEARSON))
        return {"edges": reading.edges, "coef": reading.coef, "is_pearson": is_pearson, **frozen}

    def load_state(self, state: dict[str, np.ndarray]) -> Self:
        """Restore what `state` returned."""
        deconfounder = SiteDeconfounder().load_state(part(state, "deconfounder"))
        self.reading_ = _Reading(deconfounder, state["edges"], state["coef"])
        self.read_ = PEARSON if state["is_pearson"] else self.kind
        return self

    def _values(self, cohort: Cohort) -> np.ndarray:
        return cohort_edges(cohort, *self.read_)[:, self.reading_.edges]

    def _statistics(self, cohort: Cohort) -> SiteStatistics:
        deconfounder, kind = SiteDeconfounder(slopes=self.slopes), self._kind_for(cohort)
        removed, nuisance = split_covariates(cohort, self.covariates, self.nuisance)
        return site_statistics(cohort, removed, deconfounder, kind, "mean", nuisance)

    def _kind_for(self, cohort: Cohort) -> EdgeKind:
        return readable_kind(self.kind, cohort.measure, cohort.own_units)

    def _thresholds_for(self, statistics: SiteStatistics) -> tuple[float, float, float]:
        is_wide = bool(statistics.spread) or are_too_small(statistics.y, statistics.site, statistics.coding)
        return EVERYTHING if is_wide and self.thresholds == THRESHOLDS else self.thresholds

    def _reading(self, statistics: SiteStatistics, sites: Sequence[str]) -> "_Reading":
        """The linear reading from the people of these sites."""
        edges = statistics.scaffold(sites, *self._thresholds_for(statistics)).edges
        here = np.flatnonzero(np.isin(statistics.site, sites))
        deconfounder = statistics.deconfounder_at(sites)
        residuals = within_sites(statistics.residuals_of(here, edges, deconfounder), statistics.site[here])
        spread = np.nanstd(residuals, axis=0)
        spread[~(spread > 0)] = 1
        features = np.nan_to_num(residuals / spread)
        features = without_directions(features, features.T @ statistics.nuisance[here])
        target = statistics.coding.for_ridge(statistics.y[here])
        weights = ridge_weights(features, target, *self.penalties)
        return _Reading(deconfounder, edges, weights / spread)


@dataclass(frozen=True, eq=False)
class _Reading:
    """A frozen linear reading: the edges of the scaffold, their weights, and the deconfounder."""

    deconfounder: SiteDeconfounder
    edges: np.ndarray
    coef: np.ndarray

    def residuals(self, values: np.ndarray, covariates: pd.DataFrame) -> np.ndarray:
        """r_res (n, edges) of new people; 0 where missing."""
        return np.nan_to_num(self.deconfounder.frozen_residuals(values, covariates, columns=self.edges))

    def score(self, values: np.ndarray, covariates: pd.DataFrame) -> np.ndarray:
        """The weighted sum."""
        return self.residuals(values, covariates) @ self.coef


register(
    MethodInfo(
        "scaffold-ridge",
        ScaffoldRidge,
        "ridge on the cross-site scaffold of deconfounded log-Euclidean edges",
        "recipe of brainroam",
        needs=("site", "covariates"),
        covariate_use="removed",
        reads=("series", "matrices", "table"),
        stochastic=False,
        targets=EVERY_TARGET,
        one_against_rest=True,
        least_sites=2,
    )
)
