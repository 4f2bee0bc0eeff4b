"""Ridge on deconfounded edges: the simple readers that CORE has to beat, and that the champion averages.

    r_site = edges after site-wise Huber regression on the covariates       (training people)
    w      = mean over penalties of  argmin  sum_i (y_i - (r_site_i / s)' w)^2 + penalty |w|^2
    score  = (r_res / s)' w                                                 (anybody; frozen, site-agnostic)

over all edges (s = 1), or over the scaffold only, each edge divided by its residual standard deviation s. Scores of
several shrinkages of the log edges are averaged. A missing edge has residual 0.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Self

import numpy as np
import pandas as pd

from brainroam.baselines.base import Method, MethodInfo
from brainroam.baselines.explained import linear_explanation
from brainroam.baselines.registry import register
from brainroam.cohort import Cohort
from brainroam.connectivity import cohort_edges
from brainroam.deconfound import SiteDeconfounder
from brainroam.pathways import ridge_weights
from brainroam.persist import part
from brainroam.scaffold import select_scaffold, site_contrasts, sites_with_both_classes


class SiteRidge(Method):
    """Ridge on site-wise deconfounded edges.

    Parameters
    ----------
    kind : {"log", "pearson", "partial"}
    shrinkages : sequence of float
        One reading each, averaged.
    robust : bool
        Spatial-sign correlations, see `brainroam.connectivity`.
    scaffold : bool
        Read the cross-site scaffold instead of all edges.
    penalties : sequence of float
        In units of the mean squared length of the features; their solutions are averaged.
    tau_percentile, eta, zeta : float
        Thresholds of the scaffold.
    covariates : sequence of str
        Columns to remove.
    """

    def __init__(
        self,
        kind: str = "log",
        shrinkages: Sequence[float] = (0.3, 0.5, 0.7),
        robust: bool = False,
        scaffold: bool = False,
        penalties: Sequence[float] = (1, 3, 10, 30),
        tau_percentile: float = 80,
        eta: float = 0.75,
        zeta: float = 0.70,
        covariates: Sequence[str] = ("age", "sex"),
    ) -> None:
        self.kind, self.shrinkages, self.robust, self.scaffold = kind, shrinkages, robust, scaffold
        self.penalties, self.tau_percentile, self.eta, self.zeta = penalties, tau_percentile, eta, zeta
        self.covariates = covariates

    def fit(self, cohort: Cohort, seed: int = 0, validation: Cohort | None = None) -> Self:
        """One deconfounder and one set of weights per shrinkage."""
        self.deconfounders_, self.coefs_ = [], []
        for shrinkage in self.shrinkages:
            edges = cohort_edges(cohort, self.kind, shrinkage, self.robust)
            table = cohort.table
            deconfounder = SiteDeconfounder().fit(
                edges, cohort.covariates(self.covariates), table["site"], memo=cohort.memo
            )
            self.deconfounders_.append(deconfounder)
            self.coefs_.append(self._weights(deconfounder.residuals_, cohort))
        return self

    def score(self, cohort: Cohort) -> np.ndarray:
        """The mean reading over shrinkages."""
        return np.mean([residual @ coef for residual, coef in self._readings(cohort)], axis=0)

    def contributions(self, cohort: Cohort) -> np.ndarray:
        """What each edge adds to each person's score (n, M)."""
        return np.mean([residual * coef for residual, coef in self._readings(cohort)], axis=0)

    def explanation(self, cohort: Cohort, top: int = 10) -> dict[str, Any]:
        """The weight of each edge, and what it adds to whom."""
        weight = np.mean(self.coefs_, axis=0)
        return linear_explanation(cohort.atlas, {"weight": weight}, self.contributions(cohort), weight, top)

    def representation(self, cohort: Cohort) -> np.ndarray:
        """The contributions of the edges."""
        return self.contributions(cohort)

    def _readings(self, cohort: Cohort) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Residual edges (n, M) and their weights (M,), for each shrinkage."""
        for shrinkage, deconfounder, coef in zip(self.shrinkages, self.deconfounders_, self.coefs_, strict=True):
            edges = cohort_edges(cohort, self.kind, shrinkage, self.robust)
            yield np.nan_to_num(deconfounder.transform(edges, cohort.covariates(self.covariates))), coef

    def missing_covariates(self, cohort: Cohort) -> pd.DataFrame:
        """Covariates that stood at the training mean."""
        return self.deconfounders_[0].encoder_.missing(cohort.table)

    def state(self) -> dict[str, np.ndarray]:
        """Weights and deconfounder of each shrinkage."""
        return {
            f"{k}.{name}": value
            for k, (deconfounder, coef) in enumerate(zip(self.deconfounders_, self.coefs_, strict=True))
            for name, value in ({"coef": coef} | deconfounder.state()).items()
        }

    def load_state(self, state: dict[str, np.ndarray]) -> Self:
        """Restore what `state` returned."""
        readings = [part(state, str(k)) for k in range(len(self.shrinkages))]
        self.coefs_ = [reading["coef"] for reading in readings]
        self.deconfounders_ = [SiteDeconfounder().load_state(reading) for reading in readings]
        return self

    def _weights(self, residuals: np.ndarray, cohort: Cohort) -> np.ndarray:
        """Weights (M,) on residuals, zero outside the scaffold."""
        y, columns, scale = cohort.labels, np.arange(residuals.shape[1]), np.ones(1)
        if self.scaffold:
            site = cohort.table["site"].to_numpy()
            sites = sites_with_both_classes(y, site)
            contrast = site_contrasts(residuals, y, site, sites, cohort.memo)
            columns = select_scaffold(contrast, sites, self.tau_percentile, self.eta, self.zeta).edges
            scale = np.nanstd(residuals[:, columns], axis=0)
        features = np.nan_to_num(residuals[:, columns] / scale)
        coef = np.zeros(residuals.shape[1])
        coef[columns] = ridge_weights(features, 2.0 * y - 1, *self.penalties) / scale
        return coef


register(
    MethodInfo(
        "log-ridge",
        SiteRidge,
        "ridge on all log-Euclidean edges, site means and per-site age and sex removed",
        "Varoquaux et al. (2010) MICCAI; recipe of brainroam",
        needs=("site", "covariates"),
        stochastic=False,
    )
)
register(
    MethodInfo(
        "scaffold-ridge",
        partial(SiteRidge, scaffold=True, penalties=(3, 10, 30)),
        "ridge on the cross-site scaffold of deconfounded log-Euclidean edges",
        "recipe of brainroam",
        needs=("site", "covariates"),
        stochastic=False,
    )
)
