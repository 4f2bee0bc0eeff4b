"""The champion: different readers of the same person, averaged.

Selecting the winner of an inner competition is unstable with ten sites; averaging readers that differ is not. Two
families of readers, all of them ridges on site-wise deconfounded edges (`site_ridge`):

    connectivity   {log-Euclidean, Pearson} x {all edges, cross-site scaffold}, spatial-sign correlations
    lead-lag       how much one region runs ahead of another, all edges

A reader's score is divided by its spread, a family is the mean of its readers, and

    score = sum over families  d_f * family_f

where d_f >= 0 is the family's effect size (difference of class means over spread, averaged over sites). Spread and
effect size are those of out-of-site scores, by inner leave-one-site-out over the training sites. For independent
families this is the best linear weighting; there is nothing else to tune.
"""

from typing import Any, Self

import numpy as np
import pandas as pd

from brainroam.baselines.base import Method, MethodInfo
from brainroam.baselines.registry import register
from brainroam.baselines.selection import inner_folds
from brainroam.baselines.site_ridge import SiteRidge
from brainroam.cohort import Cohort

PENALTIES = (3, 10, 30)
FAMILIES: dict[str, dict[str, dict[str, Any]]] = {
    "connectivity": {
        "log-all": {"kind": "log", "shrinkages": (0.5, 0.7), "robust": True},
        "log-scaffold": {"kind": "log", "shrinkages": (0.5, 0.7), "robust": True, "scaffold": True},
        "pearson-all": {"kind": "pearson", "shrinkages": (0.0,), "robust": True},
        "pearson-scaffold": {"kind": "pearson", "shrinkages": (0.0,), "robust": True, "scaffold": True},
    },
    "lead-lag": {"lag-all": {"kind": "lag", "shrinkages": (0.0,)}},
}


class Champion(Method):
    """Average of different readers, weighted by family.

    Attributes
    ----------
    readers_ : dict of str to SiteRidge
        Fitted on all training people.
    weights_ : dict of str to float
        Of each reader's raw score in the sum.
    inner_scores_ : ndarray
        Out-of-site score of each training person.
    """

    def fit(self, cohort: Cohort, seed: int = 0, validation: Cohort | None = None) -> Self:
        """Fit every reader on inner folds for its spread and effect, then on everybody."""
        y, site = cohort.labels, cohort.table["site"].to_numpy()
        folds = list(inner_folds(cohort, "full", seed))
        self.readers_: dict[str, SiteRidge] = {}
        self.weights_: dict[str, float] = {}
        self.inner_scores_ = np.zeros(len(cohort))
        for readers in FAMILIES.values():
            spread, family = {}, np.zeros(len(cohort))
            for name, settings in readers.items():
                inner = _out_of_site(settings, cohort, folds, seed)
                spread[name] = _spread(inner, site)
                family += inner / spread[name] / len(readers)
                self.readers_[name] = _reader(settings).fit(cohort, seed)
            effect = max(_effect_size(family, y, site), 0.0)
            self.inner_scores_ += effect * family
            self.weights_ |= {name: effect / spread[name] / len(readers) for name in readers}
        return self

    def score(self, cohort: Cohort) -> np.ndarray:
        """The weighted sum of all readers."""
        return np.sum([weight * self.readers_[name].score(cohort) for name, weight in self.weights_.items()], axis=0)

    def missing_covariates(self, cohort: Cohort) -> pd.DataFrame:
        """Covariates that stood at the training mean, the same for all readers."""
        return next(iter(self.readers_.values())).missing_covariates(cohort)

    def state(self) -> dict[str, np.ndarray]:
        """Weights and readers."""
        weights = {f"{name}.weight": np.array([weight]) for name, weight in self.weights_.items()}
        readers = {f"{name}.{key}": v for name, reader in self.readers_.items() for key, v in reader.state().items()}
        return weights | readers

    def load_state(self, state: dict[str, np.ndarray]) -> Self:
        """Restore what `state` returned."""
        self.readers_, self.weights_ = {}, {}
        for readers in FAMILIES.values():
            for name, settings in readers.items():
                prefix = f"{name}."
                part = {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
                self.weights_[name] = float(part.pop("weight")[0])
                self.readers_[name] = _reader(settings).load_state(part)
        return self


def _reader(settings: dict[str, Any]) -> SiteRidge:
    return SiteRidge(**settings, penalties=PENALTIES)


def _out_of_site(settings: dict[str, Any], cohort: Cohort, folds: list, seed: int) -> np.ndarray:
    """Score of everybody by a reader that never saw their site; 0 for those of a site that could not be held out."""
    inner = np.zeros(len(cohort))
    for train, held_out in folds:
        inner[held_out] = _reader(settings).fit(cohort.subset(train), seed).score(cohort.subset(held_out))
    return inner


def _spread(score: np.ndarray, site: np.ndarray) -> float:
    """Standard deviation within sites."""
    within = [np.var(score[site == name]) for name in np.unique(site)]
    return float(np.sqrt(np.mean(within))) or 1.0


def _effect_size(score: np.ndarray, y: np.ndarray, site: np.ndarray) -> float:
    """Difference of class means in units of the within-site spread, averaged over the sites with both classes."""
    gaps = []
    for name in np.unique(site):
        cases, controls = score[(site == name) & (y == 1)], score[(site == name) & (y == 0)]
        if len(cases) and len(controls):
            gaps.append(cases.mean() - controls.mean())
    return float(np.mean(gaps)) / _spread(score, site)


register(
    MethodInfo(
        "champion",
        Champion,
        "average of linear readers: log and Pearson edges, all and scaffold, and lead-lag",
        "brainroam",
        needs=("site", "covariates"),
        self_selecting=True,
        stochastic=False,
    )
)
