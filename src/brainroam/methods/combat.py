"""ComBat with a train/apply split, then ridge.

Edge j of person i at site e is modelled as

    y_ij = alpha_j + x_i' beta_j + gamma_ej + delta_ej eps_ij,      eps of variance sigma_j^2

with covariates x whose effect is kept. Site shifts gamma and scales delta are shrunk towards their distribution over
edges (parametric empirical Bayes) and removed from the training people:

    y*_ij = sigma_j (z_ij - gamma*_ej) / delta*_ej + alpha_j + x_i' beta_j,     z = (y - alpha - x' beta) / sigma

A site never seen has no estimate of its own, and using its people would make the method transductive, so it is applied
with gamma* = 0 and delta* = 1: its edges are left as they are. Johnson, Li & Rabinovic (2007) Biostatistics 8:118-127;
Fortin et al. (2018) NeuroImage 167:104-120. Diagnosis is not among the covariates: it is unknown at a new site.
"""

import warnings
from collections.abc import Sequence
from typing import Self

import numpy as np
from pydantic import PositiveFloat
from sklearn.exceptions import ConvergenceWarning

from brainroam.core.covariates import CovariateEncoder
from brainroam.core.ridge import ridge_weights
from brainroam.data.cohort import Cohort
from brainroam.errors import listed
from brainroam.methods.base import EVERY_TARGET, MethodInfo
from brainroam.methods.edge_features import EdgeFeatures
from brainroam.methods.linear import EdgeModel
from brainroam.methods.registry import register

TOLERANCE, MAX_STEPS = 1e-4, 200  # of the iteration for a site's shift and scale
ROUNDING = 1e-20  # variances of standardised edges below which people do not differ


class CombatRidge(EdgeModel):
    """Ridge on Pearson edges harmonised by ComBat; people of a new site are read on their edges as they are.

    Parameters
    ----------
    penalty : float
        Of the ridge, in units of the mean squared length of the features.
    covariates : tuple of str, optional
        Whose effect ComBat keeps; those of the study by default.
    """

    kind = "pearson"

    def __init__(self, penalty: PositiveFloat = 3.0, covariates: Sequence[str] | None = None) -> None:
        self.penalty, self.covariates = penalty, covariates

    def fit(self, cohort: Cohort, seed: int = 0, validation: Cohort | None = None) -> Self:
        """Harmonise the training people and fit the ridge on them."""
        features = EdgeFeatures(self.kind)
        q = cohort.covariates(self.covariates)
        harmonised = combat(
            features.fit_transform(cohort), cohort.table["site"].to_numpy(), CovariateEncoder().fit(q).standardise(q)
        )
        mean = harmonised.mean(axis=0)
        return self._keep(
            features, ridge_weights(harmonised - mean, cohort.target.learned(cohort.targets), self.penalty), mean
        )


def combat(values: np.ndarray, site: np.ndarray, covariates: np.ndarray) -> np.ndarray:
    """Harmonised values (n, M) of people of several sites; covariates (n, d) keep their effect.

    >>> rng = np.random.default_rng(0)
    >>> site = np.repeat(["A", "B"], 50)
    >>> shifted = rng.normal(size=(100, 20)) + 3.0 * (site == "B")[:, None]
    >>> clean = combat(shifted, site, np.zeros((100, 0)))
    >>> bool(abs(clean[site == "A"].mean() - clean[site == "B"].mean()) < 0.1)
    True
    """
    sites, where, counts = np.unique(site, return_inverse=True, return_counts=True)
    onehot = np.eye(len(sites))[where]
    effects = np.linalg.lstsq(np.column_stack([onehot, covariates]), values, rcond=None)[0]
    alpha = counts @ effects[: len(sites)] / len(values)
    expected = alpha + covariates @ effects[len(sites) :]
    residual = values - onehot @ effects[: len(sites)] - covariates @ effects[len(sites) :]
    sigma = np.sqrt((residual**2).mean(axis=0))
    sigma = np.where(sigma > 0, sigma, 1.0)
    z = (values - expected) / sigma
    unsettled = []
    for e in range(len(sites)):
        if counts[e] > 1:
            shift, scale, change = _estimate_site_effect(z[where == e])
            z[where == e] = (z[where == e] - shift) / scale
            unsettled += [sites[e]] if change >= TOLERANCE else []
    if unsettled:
        warnings.warn(
            f"ComBat did not converge in {MAX_STEPS} steps at {listed(unsettled)}: its estimates of shift and scale of "
            f"these sites were still changing by more than {TOLERANCE:.2%}, so their people are harmonised less "
            "exactly; such sites have very few people, or people whose measures do not belong together "
            "(brainroam check)",
            ConvergenceWarning,
            stacklevel=2,
        )
    return z * sigma + expected


def _estimate_site_effect(z: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Posterior means of one site's shift (normal prior) and scale (inverse gamma prior on its square) per edge.

    Also the last relative change of either. Of a single edge, or where people of the site are all the same, there is no
    distribution over edges to shrink towards, and the site's own estimates stand.
    """
    n, shift_hat, square_hat = len(z), z.mean(axis=0), z.var(axis=0, ddof=1)
    if len(square_hat) == 1 or np.ptp(square_hat) < ROUNDING:
        return shift_hat, np.where(square_hat > ROUNDING, np.sqrt(square_hat), 1.0), 0.0
    prior_mean, prior_variance = shift_hat.mean(), shift_hat.var(ddof=1)
    mean, variance = square_hat.mean(), square_hat.var(ddof=1)
    shape, rate = mean**2 / variance + 2, mean * (mean**2 / variance + 1)
    shift, square = shift_hat, square_hat
    for _ in range(MAX_STEPS):
        new_shift = (n * prior_variance * shift_hat + square * prior_mean) / (n * prior_variance + square)
        error = ((z - new_shift) ** 2).sum(axis=0)
        new_square = (0.5 * error + rate) / (n / 2 + shape - 1)
        change = max(_relative(new_shift, shift), _relative(new_square, square))
        shift, square = new_shift, new_square
        if change < TOLERANCE:
            break
    return shift, np.sqrt(square), change


def _relative(new: np.ndarray, old: np.ndarray) -> float:
    return float(np.max(np.abs(new - old) / np.maximum(np.abs(old), 1e-12)))


register(
    MethodInfo(
        "combat-ridge",
        CombatRidge,
        "ridge on Pearson connectivity harmonised by ComBat (a new site is left as it is)",
        "Johnson et al. (2007) Biostatistics 8:118-127; Fortin et al. (2018) NeuroImage 167:104-120",
        {"penalty": (3.0, 1.0, 10.0)},
        needs=("site", "covariates"),
        covariate_use="kept",
        reads=("series", "matrices", "table"),
        stochastic=False,
        targets=EVERY_TARGET,
    )
)
