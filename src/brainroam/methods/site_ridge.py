"""Ridge on deconfounded edges: the simple readers that CORE has to beat, and that the champion averages.

    r_site = edges after site-wise Huber regression on the covariates       (training people)
    w      = mean over penalties of  argmin  sum_i (y_i - (r_site_i / s)' w)^2 + penalty |w|^2
    score  = (r_res / s)' w                                                 (anybody; frozen, site-agnostic)

over all edges (s = 1), or over the scaffold only, each edge divided by its residual standard deviation s. Scores of
several shrinkages of the log edges are averaged. A missing edge has residual 0. With ``lead_lag`` the residuals of the
lead-lag edges (all, or their own scaffold) are further columns of the same ridge, scaled to half the squared length of
the others, see `brainroam.core.pathways`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import pandas as pd

from brainroam.core.connectivity import cohort_edges
from brainroam.core.deconfound import SiteDeconfounder
from brainroam.core.pathways import EPS, LEAD_SHARE, ridge_weights
from brainroam.core.scaffold import select_scaffold, site_contrasts, sites_with_both_classes
from brainroam.data.cohort import Cohort
from brainroam.errors import EmptyScaffoldError, UsageError
from brainroam.methods.base import Method, MethodInfo
from brainroam.methods.explanation import linear_explanation
from brainroam.methods.registry import register
from brainroam.utils.model_files import part


class SiteRidge(Method):
    """Ridge on site-wise deconfounded edges.

    Parameters
    ----------
    kind : {"log", "pearson", "partial"}
    shrinkages : sequence of float
        One reading each, averaged.
    robust : bool
        Spatial-sign correlations, see `brainroam.core.connectivity`.
    scaffold : bool
        Read the cross-site scaffold instead of all edges.
    lead_lag : bool
        Read lead-lag edges beside the others.
    penalties : sequence of float
        In units of the mean squared length of the features; their solutions are averaged.
    tau_percentile, eta, zeta : float
        Thresholds of the scaffold.
    may_be_empty : bool
        Read nothing where the scaffold is empty, instead of an error; an empty scaffold of lead-lag edges is none.
    covariates : sequence of str, optional
        Columns to remove; those of the study by default.
    """

    def __init__(
        self,
        kind: str = "log",
        shrinkages: Sequence[float] = (0.3, 0.5, 0.7),
        robust: bool = False,
        scaffold: bool = False,
        lead_lag: bool = False,
        penalties: Sequence[float] = (1, 3, 10, 30),
        tau_percentile: float = 80,
        eta: float = 0.75,
        zeta: float = 0.70,
        may_be_empty: bool = False,
        covariates: Sequence[str] | None = None,
    ) -> None:
        if not shrinkages:
            raise UsageError("there must be at least one shrinkage")
        self.kind, self.shrinkages, self.robust, self.scaffold = kind, shrinkages, robust, scaffold
        self.penalties, self.tau_percentile, self.eta, self.zeta = penalties, tau_percentile, eta, zeta
        self.lead_lag, self.may_be_empty, self.covariates = lead_lag, may_be_empty, covariates

    def fit(self, cohort: Cohort, seed: int = 0, validation: Cohort | None = None) -> Self:
        """Deconfound each source of edges, then one ridge per shrinkage."""
        blocks = [self._block(cohort, *source) for source in self._sources()]
        self.deconfounders_ = [block.deconfounder for block in blocks]
        n_static, target = len(self.shrinkages), 2.0 * cohort.labels - 1
        self.coefs_ = []
        lead_coefs = []
        for static in blocks[:n_static]:
            coefs = _joint_ridge([static, *blocks[n_static:]], target, self.penalties)
            self.coefs_.append(coefs[0] / n_static)
            lead_coefs += coefs[1:]
        if lead_coefs:
            self.coefs_.append(np.mean(lead_coefs, axis=0))
        return self

    def score(self, cohort: Cohort) -> np.ndarray:
        """The mean reading over shrinkages."""
        return np.sum([residual @ coef for residual, coef in self._readings(cohort)], axis=0)

    def contributions(self, cohort: Cohort) -> np.ndarray:
        """What each edge adds to each person's score (n, M)."""
        return np.sum([residual * coef for residual, coef in self._readings(cohort)], axis=0)

    def explanation(self, cohort: Cohort, top: int = 10) -> dict[str, Any]:
        """The weight of each edge, and what it adds to whom."""
        weight = np.sum(self.coefs_, axis=0)
        return linear_explanation(cohort.atlas, {"weight": weight}, self.contributions(cohort), weight, top)

    def representation(self, cohort: Cohort) -> np.ndarray:
        """The contributions of the edges."""
        return self.contributions(cohort)

    def _sources(self) -> list[tuple[str, float, bool]]:
        """Kind, shrinkage and robustness of each set of edges that is read; lead and lag come last."""
        static = [(self.kind, shrinkage, self.robust) for shrinkage in self.shrinkages]
        return [*static, ("lag", 0.0, False)] if self.lead_lag else static

    def _readings(self, cohort: Cohort) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Residual edges (n, M) and their weights (M,), for each source."""
        for source, deconfounder, coef in zip(self._sources(), self.deconfounders_, self.coefs_, strict=True):
            edges = cohort_edges(cohort, *source)
            yield np.nan_to_num(deconfounder.transform(edges, cohort.table)), coef

    def missing_covariates(self, cohort: Cohort) -> pd.DataFrame:
        """Covariates that stood at the training mean."""
        return self.deconfounders_[0].encoder_.missing(cohort.table)

    def state(self) -> dict[str, np.ndarray]:
        """Weights and deconfounder of each source."""
        return {
            f"{k}.{name}": value
            for k, (deconfounder, coef) in enumerate(zip(self.deconfounders_, self.coefs_, strict=True))
            for name, value in ({"coef": coef} | deconfounder.state()).items()
        }

    def load_state(self, state: dict[str, np.ndarray]) -> Self:
        """Restore what `state` returned."""
        readings = [part(state, str(k)) for k in range(len(self._sources()))]
        self.coefs_ = [reading["coef"] for reading in readings]
        self.deconfounders_ = [SiteDeconfounder().load_state(reading) for reading in readings]
        return self

    def _block(self, cohort: Cohort, *source: Any) -> "_Block":
        """What one source of edges brings to the ridge."""
        table, y = cohort.table, cohort.labels
        deconfounder = SiteDeconfounder().fit(
            cohort_edges(cohort, *source), cohort.covariates(self.covariates), table["site"], cache=cohort.cache
        )
        residuals = deconfounder.residuals_
        if not self.scaffold:
            return _Block(deconfounder, np.arange(residuals.shape[1]), np.ones(1), np.nan_to_num(residuals))
        site = table["site"].to_numpy()
        try:
            sites = sites_with_both_classes(y, site)
            contrast = site_contrasts(residuals, y, site, sites, cohort.cache)
            columns = select_scaffold(contrast, sites, self.tau_percentile, self.eta, self.zeta).edges
        except EmptyScaffoldError:
            if source[0] != "lag" and not self.may_be_empty:
                raise
            columns = np.empty(0, dtype=int)
        scale = np.nanstd(residuals[:, columns], axis=0)
        return _Block(deconfounder, columns, scale, np.nan_to_num(residuals[:, columns] / scale))


@dataclass(frozen=True)
class _Block:
    """One source of edges: the deconfounder, which edges are read, and their residuals divided by a scale."""

    deconfounder: SiteDeconfounder
    columns: np.ndarray
    scale: np.ndarray
    features: np.ndarray


def _joint_ridge(blocks: Sequence[_Block], target: np.ndarray, penalties: Sequence[float]) -> list[np.ndarray]:
    """Weights (M,) on the residuals of each block, all in one ridge; those after the first at their share of length."""
    lengths = [max(float(np.sum(block.features**2)), EPS) for block in blocks]
    shares = [1.0, *(np.sqrt(LEAD_SHARE * lengths[0] / length) for length in lengths[1:])]
    columns = [share * block.features for share, block in zip(shares, blocks, strict=True)]
    weights = ridge_weights(np.concatenate(columns, axis=1), target, *penalties)
    parts = np.split(weights, np.cumsum([len(block.columns) for block in blocks])[:-1])
    coefs = []
    for block, share, part_ in zip(blocks, shares, parts, strict=True):
        coef = np.zeros(block.deconfounder.residuals_.shape[1])
        coef[block.columns] = share * part_ / block.scale
        coefs.append(coef)
    return coefs


register(
    MethodInfo(
        "scaffold-ridge",
        partial(SiteRidge, scaffold=True, penalties=(3, 10, 30)),
        "ridge on the cross-site scaffold of deconfounded log-Euclidean edges",
        "recipe of brainroam",
        needs=("site", "covariates"),
        covariate_use="removed",
        stochastic=False,
        least_sites=2,
    )
)
