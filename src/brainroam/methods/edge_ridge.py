"""Ridge on all edges: the simple methods that CORE has to beat, and that the ensemble adds up.

    score(x) = (x - b_bar)' w,      w = ridge on the training people's edges, see `brainroam.core.site_edges`

``centred`` takes each training site's mean edges from its people, and the mean of those means from anybody else. What
moves with a nuisance variable (head motion) within site and class is projected out of the edges, see
`brainroam.core.ridge`: the variable is needed in training only. With ``soft`` > 0 edge j is first multiplied by
|t_j|^soft, with t its pooled contrast at the training sites, so that edges without a contrast are penalised more: a
scaffold without a threshold. The threshold of the decision is learned apart, so there is no intercept, which would
move with the share of cases.

Columns of a table, which have units of their own, are divided by their standard deviation within training sites; skewed
ones are read by their normal scores first (`brainroam.methods.column_scores`).

Of a number more is known. Sites differ in it, often by more than people of one site do, and what goes with it between
sites tells its order within them too; but scanners differ as well. So the means of sites are neither removed nor
believed: they are random effects,

    t_i = x_i' w + u_e + c + error,      u_e ~ N(0, SITE_EFFECT v),  v the mean squared length of x within sites

so w = R' beta with `DualRidge` of K = R R' (R without site means removed) and the covariance SITE_EFFECT v of people of
one site. A new site has u = 0. The penalty is chosen of `NUMBER_PENALTIES` by the mean correlation within inner
held-out sites: what is right for age is ten times too weak for intelligence.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field, NonNegativeFloat, PositiveFloat

from brainroam.core.connectivity import EdgeKind, cohort_edges, zero_where_missing
from brainroam.core.nuisance import nuisance_variables
from brainroam.core.ridge import DualRidge, iterative_ridge
from brainroam.core.site_edges import SiteEdges
from brainroam.data.cohort import Cohort
from brainroam.data.folds import Folds, training_sites
from brainroam.methods.base import EVERY_TARGET, Method, MethodInfo
from brainroam.methods.column_scores import ColumnScores, by_scores
from brainroam.methods.explanation import linear_explanation
from brainroam.methods.registry import register

# Of the plain reference, the first by default: of .1 to 30 the best on average over both atlases of ABIDE at ten and
# twenty sites, with 5 or 12 people of a class at each site, and with 20 or 40 regions; see docs/results/abide20.md.
PENALTIES = ((3.0,), (1.0,), (10.0,))
MOST_PEOPLE = 4096  # whose matrix of products is inverted: that takes their number to the third power
MATRICES = 8  # of that size that a fit holds at most
NUMBER_PENALTIES = ((1.0,), (0.3,), (3.0,), (10.0,))
# Variance of the level of a site, in units of the mean squared length of a person's edges. Between removing site means
# (infinity) and ignoring sites (0): best or within .003 of it for age and intelligence, two atlases of twenty sites.
SITE_EFFECT = 0.1


class CentredReading(Method):
    """What linear readings of everything measured share once they are fitted: ``score = (x - centre)' coef``.

    Attributes
    ----------
    kind : EdgeKind
    coef_ : ndarray of shape (M,) or (M, K)
        A column for each of several classes.
    centre_ : ndarray of shape (M,)
    """

    kind: EdgeKind
    coef_: np.ndarray
    centre_: np.ndarray
    columns_: ColumnScores

    def score(self, cohort: Cohort) -> np.ndarray:
        """The weighted sum of what was measured about the centre."""
        return self._about_centre(cohort) @ self.coef_

    def contributions(self, cohort: Cohort, code: int = -1) -> np.ndarray:
        """What each edge or column adds to each person's score (n, M), of several classes to that of one of them."""
        return self._about_centre(cohort) * self.coef_of(code)

    def explanation(self, cohort: Cohort, top: int = 10) -> dict[str, Any]:
        """The weights, and what they add to whom, counted from the mean of the training sites."""
        coef = self.coef_of(-1)
        return linear_explanation(cohort.atlas, {"weight": coef}, self.contributions(cohort), coef, top)

    def state(self) -> dict[str, np.ndarray]:
        """Weights and means."""
        return {"coef": self.coef_, "centre": self.centre_, **self.columns_.state()}

    def load_state(self, state: dict[str, np.ndarray]) -> Self:
        """Restore what `state` returned."""
        self.coef_, self.centre_ = state["coef"], state["centre"]
        self.columns_ = ColumnScores().load_state(state)
        return self

    def coef_of(self, code: int) -> np.ndarray:
        """The weights (M,), of several classes those of one of them."""
        return self.coef_ if self.coef_.ndim == 1 else self.coef_[:, code]

    def _about_centre(self, cohort: Cohort) -> np.ndarray:
        return zero_where_missing(cohort_edges(self.columns_.transform(cohort), *self.kind) - self.centre_)


class EdgeRidge(CentredReading):
    """Ridge on all edges of one kind.

    Parameters
    ----------
    kind, shrinkage, robust
        The edge values, see `brainroam.core.connectivity`.
    centred : bool
        Remove the mean of each training site; of a number, take it as a random effect.
    soft : float
        Power of the pooled contrast that an edge is multiplied by; needs ``centred``.
    penalties : sequence of float
        In units of the mean squared length of the people's edges; the weights, scaled to unit length, are averaged.
    strength : float, optional
        scikit-learn's ``alpha`` instead of ``penalties``.
    covariates : sequence of str, optional
        Nuisance variables whose directions are projected out; None is those of the study.
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
        covariates: Sequence[str] | None = (),
    ) -> None:
        self.kind = EdgeKind(kind, shrinkage, robust)
        self.edge_kinds = (self.kind,)
        self.centred, self.soft = centred, soft
        self.penalties, self.strength, self.covariates = penalties, strength, covariates

    def fit(self, cohort: Cohort, seed: int = 0, validation: Cohort | None = None) -> Self:
        """Solve for the weights of all edges."""
        self.columns_, cohort = by_scores(cohort)
        edges = self._site_edges(cohort)
        self.coef_ = self._weights(edges, cohort, [edges.sites])[0]
        self.centre_ = edges.centre(edges.sites)
        return self

    def out_of_fold(self, cohort: Cohort, folds: Folds, seed: int = 0) -> list[np.ndarray]:
        """As the base class; folds that leave whole sites out are solved together, and with the fit on everybody."""
        of_folds = training_sites(cohort.table["site"].to_numpy().astype(str), folds)
        if of_folds is None:
            return super().out_of_fold(cohort, folds, seed)
        cohort = by_scores(cohort)[1]
        edges = self._site_edges(cohort)
        coefs = self._weights(edges, cohort, [*of_folds, edges.sites])
        return [
            edges.score(held_out, edges.centre(sites), coef)[None]
            for (_, held_out), sites, coef in zip(folds, of_folds, coefs, strict=False)
        ]

    def _weights(self, edges: SiteEdges, cohort: Cohort, choices: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """Weights of the edges for each choice of training sites; those not in the cache are solved together."""
        target, nuisance = self._target(cohort), nuisance_variables(cohort, self.covariates)
        place = cohort.table["site"].to_numpy().astype(str)
        people = np.column_stack([np.isin(place, sites) for sites in choices])
        known_by = [*edges.cache_key, target, nuisance]
        if not self.soft and len(cohort) <= MOST_PEOPLE and cohort.features.has_memory(MATRICES * 8 * len(cohort) ** 2):
            return self._from_products(edges, cohort, people, target, nuisance)
        name = "iterative ridge", self.kind, self.centred, self.soft, self.penalties, self.strength
        solve = partial(self._solve_together, edges, cohort, choices, people, target, nuisance)
        return cohort.features.cache.summaries(name, [[*known_by, who] for who in people.T], solve)

    def _from_products(
        self, edges: SiteEdges, cohort: Cohort, people: np.ndarray, target: np.ndarray, nuisance: np.ndarray
    ) -> list[np.ndarray]:
        """Weights from products of people, which all folds of a study share."""
        gram, known_by = edges.gram(), [*edges.cache_key, nuisance]
        if not cohort.target.is_number:
            shared, unit = None, float(np.trace(gram)) / len(gram)
        else:
            gram, unit = _centre_products(gram), self._unit(cohort)
            shared = self._site_variance(unit) * (edges.cache_key[1][:, None] == edges.cache_key[1])
        name = "ridge", self.kind, self.centred, cohort.target.is_number
        ridges = [
            cohort.features.cache.get((*name, penalty), known_by, partial(DualRidge, gram, penalty, nuisance, shared))
            for penalty in self._absolute(unit)
        ]
        betas = [_combine(ridges, target, np.flatnonzero(~who)) for who in people.T]
        return list(edges.primal(np.column_stack(betas)).T)

    def _solve_together(
        self,
        edges: SiteEdges,
        cohort: Cohort,
        choices: Sequence[Sequence[str]],
        people: np.ndarray,
        target: np.ndarray,
        nuisance: np.ndarray,
        new: Sequence[int],
    ) -> list[np.ndarray]:
        """Weights without products of people, where folds scale the edges differently or people are too many."""
        if self.soft:
            scales = np.column_stack([np.abs(edges.contrast(choices[k])) ** self.soft for k in new])
        else:
            scales = np.ones((edges.n_edges, len(new)))
        blocks: Iterable[tuple[slice, np.ndarray]] = edges.residuals()
        # The unit of a penalty is that of the features of each problem, and of all training people without scales.
        if not cohort.target.is_number:
            units = [
                edges.mean_square(choices[k] if self.soft else edges.sites, scale**2)
                for k, scale in zip(new, scales.T, strict=True)
            ]
        else:
            units = [self._unit(cohort)] * len(new)
            blocks = [*blocks, self._site_block(edges, units[0])]
            scales = np.concatenate([scales, np.ones((len(edges.sites), len(new)))])
        penalties = np.column_stack([self._absolute(unit) for unit in units])
        weights = iterative_ridge(blocks, people[:, new], scales, target, nuisance, penalties)[:, : edges.n_edges]
        scales = scales[: edges.n_edges]
        if len(weights) > 1:
            weights /= np.maximum(np.linalg.norm(weights, axis=1, keepdims=True), 1e-150)
        return list(edges.in_own_units(weights.mean(axis=0) * scales).T)

    def _site_edges(self, cohort: Cohort) -> SiteEdges:
        return SiteEdges(cohort, self.kind, self.centred and not cohort.target.is_number)

    def _unit(self, cohort: Cohort) -> float:
        """v, beside a number."""
        edges = SiteEdges(cohort, self.kind)
        return edges.mean_square(edges.sites, np.ones(edges.n_edges))

    def _site_variance(self, unit: float) -> float:
        return SITE_EFFECT * unit if self.centred else 0.0

    def _site_block(self, edges: SiteEdges, unit: float) -> tuple[slice, np.ndarray]:
        """Features whose products are the shared variance of people of one site, after all edges."""
        sites = np.arange(len(edges.sites))
        here = np.sqrt(self._site_variance(unit)) * (edges.cache_key[1][:, None] == sites)
        return slice(edges.n_edges, edges.n_edges + len(sites)), here.astype(np.float32)

    def _target(self, cohort: Cohort) -> np.ndarray:
        if cohort.target.is_number:
            return cohort.targets  # as it is: its mean and spread would be those of held-out people, too
        target = cohort.target.learned(cohort.targets)
        if self.centred:
            site = cohort.table["site"].to_numpy()
            for name in np.unique(site):
                target[site == name] -= target[site == name].mean()
        return target

    def _absolute(self, unit: float) -> list[float]:
        """Penalties, given the mean squared length of the people's features."""
        if self.strength is not None:
            return [self.strength]
        return [penalty * max(unit, 1e-12) for penalty in self.penalties]


def _centre_products(gram: np.ndarray) -> np.ndarray:
    """Products of features without their mean over people; the intercept of a ridge is free, so its fit is the same."""
    mean = gram.mean(axis=0)
    return gram - mean - mean[:, None] + mean.mean()


def _combine(ridges: Iterable[DualRidge], target: np.ndarray, without: np.ndarray) -> np.ndarray:
    """The mean over ridges of weights of the people whose edge weights have unit length."""
    scores = []
    for ridge in ridges:
        beta = ridge.weights(target, without)
        scores.append((beta, np.sqrt(max(beta @ ridge.gram @ beta, 1e-300))))
    return scores[0][0] if len(scores) == 1 else np.mean([beta / length for beta, length in scores], axis=0)


register(
    MethodInfo(
        "fc-ridge",
        partial(EdgeRidge, kind="pearson", penalties=PENALTIES[0]),
        "ridge on Pearson connectivity, site means removed",
        "Abraham et al. (2017) NeuroImage 147:736-745; penalty and centring of brainroam",
        {"penalties": PENALTIES},
        needs=("site",),
        stochastic=False,
        reads=("series", "matrices", "table"),
        targets=EVERY_TARGET,
        one_against_rest=True,
        number_grid={"penalties": NUMBER_PENALTIES},
    )
)
register(
    MethodInfo(
        "log-ridge",
        partial(EdgeRidge, kind="log", shrinkage=0.7, robust=True, covariates=None),
        "ridge on log-Euclidean edges of spatial-sign correlations, without site means and the direction of motion",
        "Varoquaux et al. (2010) MICCAI; recipe of brainroam",
        needs=("site",),
        covariate_use="projected",
        stochastic=False,
        reads=("series", "matrices"),
        targets=EVERY_TARGET,
        one_against_rest=True,
        number_grid={"penalties": NUMBER_PENALTIES},
    )
)
