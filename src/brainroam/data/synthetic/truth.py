"""What a synthetic cohort knows about itself."""

from dataclasses import dataclass, fields

import numpy as np


@dataclass(frozen=True)
class Truth:
    """What `make_cohort` planted. Arrays are read-only; edges stand in ``numpy.triu_indices(P, 1)`` order.

    Attributes
    ----------
    sites : tuple of str
        Site names, in the order of every array with a site axis.
    covariates : tuple of str
        Names of the d covariates, in the order of the slopes.
    covariate_mean, covariate_std : ndarray of shape (d,)
        What the covariates were standardised with: everybody, before values were made missing.
    effect : ndarray of shape (M,)
        s*: difference in correlation between cases and controls, zero on most edges.
    subtypes : dict of str to int
        The subtype of each case.
    patterns : ndarray of shape (K, M)
        What a case of each subtype, or at either end of the trait, has more than controls; their mean is `effect`.
    trait : dict of str to float
        t of each person; empty without a trait.
    trait_pattern : ndarray of shape (M,)
        Change in correlation per standard deviation of the trait, in cases and controls.
    volatility : ndarray of shape (M,)
        Difference in the amplitude of the swinging correlation between cases and controls, zero on most edges.
    rhythm : float
        By how much the autocorrelation of every region is larger in cases than in controls.
    intercept : ndarray of shape (E, M)
        b*: expected correlation of a control with mean covariates.
    coef : ndarray of shape (E, d, M)
        Gamma*: change in correlation per standard deviation of a covariate.
    autocorrelation, noise : ndarray of shape (E,)
        The scanners: phi and nu.
    shortcut : ndarray of shape (E,)
        By how many standard deviations cases are older than controls at each site.
    shrinkage : dict of str to float
        People whose edges are all ``1 - shrinkage`` times what the arrays above say.
    all_male_sites : tuple of str
        Where nobody is female by design.
    outliers : tuple of str
        People whose scan is swamped by one artefact in all regions.
    constant_rois : dict of str to tuple of int
        People with regions without signal, and which.
    missing_covariates : dict of str to str
        People with an empty covariate, and which.
    """

    sites: tuple[str, ...]
    covariates: tuple[str, ...]
    covariate_mean: np.ndarray
    covariate_std: np.ndarray
    effect: np.ndarray
    subtypes: dict[str, int]
    patterns: np.ndarray
    trait: dict[str, float]
    trait_pattern: np.ndarray
    volatility: np.ndarray
    rhythm: float
    intercept: np.ndarray
    coef: np.ndarray
    autocorrelation: np.ndarray
    noise: np.ndarray
    shortcut: np.ndarray
    shrinkage: dict[str, float]
    all_male_sites: tuple[str, ...]
    outliers: tuple[str, ...]
    constant_rois: dict[str, tuple[int, ...]]
    missing_covariates: dict[str, str]

    def __post_init__(self) -> None:
        for one in fields(self):
            if isinstance(value := getattr(self, one.name), np.ndarray):
                value.setflags(write=False)

    @property
    def effect_edges(self) -> np.ndarray:
        """Indices of the edges whose strength differs between cases and controls."""
        return np.flatnonzero(self.effect)

    @property
    def effect_signs(self) -> np.ndarray:
        """+1 where cases are stronger, -1 where they are weaker, in the order of `effect_edges`."""
        return np.sign(self.effect[self.effect_edges])

    @property
    def volatility_edges(self) -> np.ndarray:
        """Indices of the edges that fluctuate more in cases; half of them are effect edges as well."""
        return np.flatnonzero(self.volatility)
