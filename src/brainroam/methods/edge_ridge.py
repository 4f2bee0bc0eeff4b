"""Ridge on all edges: the simple readers that CORE has to beat, and that the champion adds up.

    score(x) = (x - b_bar)' w,      w = ridge on the training people's edges, see `brainroam.core.site_edges`

``centred`` takes each training site's mean edges from its people, and the mean of those means from anybody else. What
moves with a nuisance variable (head motion) within site and class is projected out of the edges, see
`brainroam.core.ridge`: the variable is needed in training only. With ``soft`` > 0 edge j is first multiplied by
|t_j|^soft, with t its pooled contrast at the training sites, so that edges without a contrast are penalised more: a
scaffold without a threshold. The threshold of the decision is learned apart, so there is no intercept, which would
move with the share of cases.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field, NonNegativeFloat, PositiveFloat
from scipy.linalg.blas import ssyrk

from brainroam.core.connectivity import EdgeKind, cohort_edges
from brainroam.core.covariates import nuisance_variables
from brainroam.core.ridge import DualRidge
from brainroam.core.site_edges import SiteEdges, zero_where_missing
from brainroam.data.cohort import Cohort
from brainroam.methods.base import Folds, Method, MethodInfo, sites_kept
from brainroam.methods.explanation import linear_explanation
from brainroam.methods.registry import register

MATRICES = 8  # of the size of the Gram matrix that a fit holds at most


class EdgeRidge(Method):
    """Ridge on all edges of one kind.

    Parameters
    ----------
    kind, shrinkage, robust
        The edge values, see `brainroam.core.connectivity`.
    centred : bool
        Remove the mean of each training site.
    soft : float
        Power of the pooled contrast that an edge is multiplied by; needs ``centred``.
    penalties : sequence of float
        In units of the mean squared length of the people's edges; the weights, scaled to unit length, are averaged.
    strength : float, optional
        scikit-learn's ``alpha`` instead of ``penalties``.
    covariates : sequence of str
        Nuisance variables whose directions are projected out; a cohort without the column goes without.

    Attributes
    ----------
    coef_, centre_ : ndarray of shape (M,)
    """

    def __init__(
        self,
        kind: str = "pearson",
        shrinkage: NonNegativeFloat = 0.5,
        robust: bool = False,
        centred: bool = True,
        soft: Annotated[float, Field(ge=0, le=4)] = 0.0,
        penalties: Annotated[Sequence[PositiveFloat], Field(min_length=1)] = (1, 3, 10),
        strength: PositiveFloat | None = None,
        covariates: Sequence[str] = (),
    ) -> None:
        self.kind = EdgeKind(kind, shrinkage, robust)
        self.edge_kinds = (self.kind,)
        self.centred, self.soft = centred, soft
        self.penalties, self.strength, self.covariates = penalties, strength, covariates

    def fit(self, cohort: Cohort, seed: int = 0, validation: Cohort | None = None) -> Self:
        """Solve for the weights of all edges."""
        edges = SiteEdges(cohort, self.kind, self.centred)
        people = self._people(edges, cohort)
        if self.soft:
            self.coef_ = self._soft_weights(people, [edges.sites])[0]
        else:
            self.coef_ = edges.primal(_combined(self._ridges(people, cohort), people.target))[:, 0]
        self.centre_ = edges.centre(edges.sites)
        return self

    def out_of_fold(self, cohort: Cohort, folds: Folds, seed: int = 0) -> list[np.ndarray]:
        """As the base class; folds that leave whole sites out share residuals, Gram matrix and its inverse."""
        edges = SiteEdges(cohort, self.kind, self.centred)
        kept = sites_kept(cohort.table["site"].to_numpy().astype(str), folds)
        if kept is None:
            return super().out_of_fold(cohort, folds, seed)
        people = self._people(edges, cohort)
        if self.soft:
            coefs = self._soft_weights(people, kept)
        else:
            ridges = self._ridges(people, cohort)
            betas = [_combined(ridges, people.target, held_out) for _, held_out in folds]
            coefs = list(edges.primal(np.column_stack(betas)).T)
        return [
            edges.score(held_out, edges.centre(sites), coef)[None]
            for (_, held_out), sites, coef in zip(folds, kept, coefs, strict=True)
        ]

    def score(self, cohort: Cohort) -> np.ndarray:
        """The weighted sum of the centred edges."""
        return self._centred(cohort) @ self.coef_

    def contributions(self, cohort: Cohort) -> np.ndarray:
        """What each edge adds to each person's score (n, M)."""
        return self._centred(cohort) * self.coef_

    def explanation(self, cohort: Cohort, top: int = 10) -> dict[str, Any]:
        """The weight of each edge, and what it adds to whom, counted from the mean of the training sites."""
        return linear_explanation(cohort.atlas, {"weight": self.coef_}, self.contributions(cohort), self.coef_, top)

    def state(self) -> dict[str, np.ndarray]:
        """Weights and means."""
        return {"coef": self.coef_, "centre": self.centre_}

    def load_state(self, state: dict[str, np.ndarray]) -> Self:
        """Restore what `state` returned."""
        self.coef_, self.centre_ = state["coef"], state["centre"]
        return self

    def _centred(self, cohort: Cohort) -> np.ndarray:
        return zero_where_missing(cohort_edges(cohort, *self.kind) - self.centre_)

    def _people(self, edges: SiteEdges, cohort: Cohort) -> "_People":
        people = _People(edges, self._target(cohort), nuisance_variables(cohort, self.covariates))
        cohort.require_memory(MATRICES * 8 * len(cohort) ** 2, f"the products of {len(cohort)} people")
        return people

    def _target(self, cohort: Cohort) -> np.ndarray:
        target = 2.0 * cohort.labels - 1
        if self.centred:
            site = cohort.table["site"].to_numpy()
            for name in np.unique(site):
                target[site == name] -= target[site == name].mean()
        return target

    def _absolute(self, gram: np.ndarray) -> list[float]:
        if self.strength is not None:
            return [self.strength]
        unit = max(float(np.trace(gram)) / len(gram), 1e-12)
        return [penalty * unit for penalty in self.penalties]

    def _ridges(self, people: "_People", cohort: Cohort) -> list[DualRidge]:
        """One per penalty; the fit and its inner folds share them."""
        gram, nuisance, known_by = people.edges.gram(), people.nuisance, [*people.edges.whom, people.nuisance]
        name = "ridge", self.kind, self.centred
        return [
            cohort.cache.get((*name, penalty), known_by, partial(DualRidge, gram, penalty, nuisance))
            for penalty in self._absolute(gram)
        ]

    def _soft_weights(self, people: "_People", kept: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """Weights of the edges from the people of each choice of sites.

        All choices are dealt with in two walks over the edges: one for the products of the people, one for the weights.
        """
        edges, here = people.edges, [np.isin(people.place, sites) for sites in kept]
        scales = [(np.abs(edges.contrast(sites)) ** self.soft).astype(np.float32) for sites in kept]
        # Single precision: the edges themselves are known to fewer digits.
        uppers = [np.zeros((who.sum(), who.sum()), np.float32, order="F") for who in here]
        for columns, residuals in edges.residuals():
            for k, (who, scale) in enumerate(zip(here, scales, strict=True)):
                features = residuals[who] * scale[columns]
                uppers[k] = ssyrk(1.0, features.T, trans=1, beta=1.0, c=uppers[k], overwrite_c=1)
        betas = []
        for who in here:
            order, upper = people.order[who], uppers.pop(0)
            gram = (np.triu(upper) + np.triu(upper, 1).T).astype(float)
            del upper
            ridges = (
                DualRidge(gram, penalty, people.nuisance[order], refits=False) for penalty in self._absolute(gram)
            )
            betas.append(_combined(ridges, people.target[order]).astype(np.float32))
        coefs = [np.empty(len(scale)) for scale in scales]
        for columns, residuals in edges.residuals():
            for coef, who, scale, beta in zip(coefs, here, scales, betas, strict=True):
                coef[columns] = ((residuals[who] * scale[columns]).T @ beta).astype(float) * scale[columns]
        return coefs


class _People:
    """Training people: their edges, targets and nuisance variables, and their order site by site."""

    def __init__(self, edges: SiteEdges, target: np.ndarray, nuisance: np.ndarray) -> None:
        self.edges, self.target, self.nuisance = edges, target, nuisance
        self.order = np.concatenate([edges.people[name] for name in edges.sites])
        self.place = np.repeat(edges.sites, [len(edges.people[name]) for name in edges.sites])


def _combined(ridges: Iterable[DualRidge], target: np.ndarray, without: np.ndarray | None = None) -> np.ndarray:
    """The mean over ridges of weights of the people whose edge weights have unit length."""
    found = []
    for ridge in ridges:
        beta = ridge.weights(target, without)
        found.append((beta, np.sqrt(max(beta @ ridge.gram @ beta, 1e-300))))
    return found[0][0] if len(found) == 1 else np.mean([beta / length for beta, length in found], axis=0)


register(
    MethodInfo(
        "fc-ridge",
        partial(EdgeRidge, kind="pearson", centred=False, strength=500.0),
        "ridge on Pearson connectivity",
        "Abraham et al. (2017) NeuroImage 147:736-745",
        {"strength": (500.0, 50.0, 5000.0)},
        stochastic=False,
    )
)
register(
    MethodInfo(
        "log-ridge",
        partial(EdgeRidge, kind="log", shrinkage=0.7, robust=True),
        "ridge on log-Euclidean edges of spatial-sign correlations, site means removed",
        "Varoquaux et al. (2010) MICCAI; recipe of brainroam",
        needs=("site",),
        stochastic=False,
    )
)
