"""Both propositions of the paper in numbers: what pooling leaves behind, and when the scaffold cannot change.

Proposition 1. Edges are drawn as r = Gamma_e' q~ + s + noise on the covariates and sites of a cohort, with slopes that
differ between sites by a standard deviation ``spread``. What a deconfounder leaves is its residual minus s and noise;
its root mean square over people and edges is the bias. Pooling leaves more the more slopes differ; a site's own fit
leaves the same at any spread, the error of estimating so many slopes from so few people.

Proposition 2. An edge whose margin m* exceeds the perturbation Delta of its nuisance estimate keeps its membership.
Edges are drawn with effects of all sizes, the nuisance is estimated as always, and membership is compared with that of
the true residuals, by the ratio m* / Delta.
"""

from collections.abc import Sequence
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pandas as pd

from brainroam.core.deconfound import SiteDeconfounder
from brainroam.core.scaffold import median_over_sites, sign_consistency, site_contrasts, site_stability
from brainroam.data.cohort import Cohort

SPREADS = (0.0, 0.01, 0.02, 0.04, 0.08, 0.16)
NOISE, EFFECT = 0.2, 0.05  # of a correlation between two regions, over people; of the condition
FITS: dict[str, dict[str, Any]] = {
    "pooled": {"pooled": True},
    "each site by itself (paper)": {"slopes": "site"},
    "slopes pooled by precision (ours)": {"slopes": "shrunken"},
}
DELTA = 0.4  # the margin holds for a fixed Huber threshold
ETA, ZETA, TAU_PERCENTILE = 0.75, 0.70, 80


def pooling_bias(
    covariates: pd.DataFrame,
    site: np.ndarray,
    y: np.ndarray,
    spreads: Sequence[float] = SPREADS,
    n_edges: int = 200,
    seed: int = 0,
) -> pd.DataFrame:
    """Root mean square of what each way of deconfounding leaves, by ``spread`` of the slopes: one row each.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> site, age = np.repeat(["A", "B", "C"], 30), pd.DataFrame({"age": rng.normal(size=90)})
    >>> found = pooling_bias(age, site, np.tile([0, 1], 45), [0.0, 0.1], n_edges=20).set_index("fit")["bias"]
    >>> bool(found["pooled"].iloc[1] > 2 * found["pooled"].iloc[0])
    True
    """
    rows = []
    names, e = np.unique(site, return_inverse=True)
    q = (
        SiteDeconfounder()
        .fit(np.zeros((len(site), 1)), covariates=covariates, site=site)
        .encoder_.transform(covariates)
    )
    rng = np.random.default_rng(seed)
    own = rng.normal(size=(len(names), q.shape[1], n_edges))
    common = rng.normal(scale=0.02, size=(q.shape[1], n_edges))
    kept = np.outer(2 * y - 1, EFFECT / 2 * rng.choice([-1, 1], n_edges)) + rng.normal(0, NOISE, (len(site), n_edges))
    for spread in spreads:
        edges = np.einsum("nd,ndm->nm", q, (common + spread * own)[e]) + kept
        for fit, options in FITS.items():
            where = None if fit == "pooled" else site
            left = SiteDeconfounder(**options).fit(edges, covariates=covariates, site=where).residuals_ - kept
            rows.append({"spread": spread, "fit": fit, "bias": float(np.sqrt(np.mean(left**2)))})
    return pd.DataFrame(rows)


def slope_spread(edges: np.ndarray, values: np.ndarray, site: np.ndarray) -> np.ndarray:
    """How much the slope of each edge (M,) on one standardised covariate differs between sites, beyond sampling error.

    Per edge the variance of the sites' least-squares slopes minus their mean sampling variance, or 0 where that is
    negative; its square root is in the units of ``SPREADS``.
    """
    slopes, variances = [], []
    for name in np.unique(site):
        x, r = values[site == name], edges[site == name]
        x = x - x.mean()
        if len(x) < 5 or x @ x < 1e-6:
            continue  # everybody the same there
        r = r - np.nanmean(r, axis=0)
        slope = np.nan_to_num(r).T @ x / (x @ x)
        residual = np.nan_to_num(r - np.outer(x, slope))
        slopes.append(slope)
        variances.append((residual**2).sum(axis=0) / (len(x) - 2) / (x @ x))
    between = np.var(slopes, axis=0, ddof=1) - np.mean(variances, axis=0)
    return np.sqrt(np.maximum(between, 0))


def spread_in(cohort: Cohort) -> dict[str, float]:
    """Of each numeric covariate of a cohort: the root mean square over edges of how much its slopes differ."""
    from brainroam.core.connectivity import cohort_edges

    edges, site = cohort_edges(cohort), cohort.table["site"].to_numpy(dtype=str)
    found = {}
    for name in ("age", "sex"):
        values = cohort.table[name].to_numpy(dtype=float)
        known = np.isfinite(values)
        if known.sum() > 10 and values[known].std() > 0:
            standard = (values[known] - values[known].mean()) / values[known].std()
            found[name] = float(np.sqrt(np.mean(slope_spread(edges[known], standard, site[known]) ** 2)))
    return found


def margin_recovery(
    n_sites: int = 9, n_per_site: int = 40, n_edges: int = 400, draws: int = 10, seed: int = 0
) -> pd.DataFrame:
    """One row per drawn edge: ``ratio`` of margin to perturbation, and whether its membership ``agrees``.

    Examples
    --------
    >>> found = margin_recovery(n_sites=5, n_edges=50, draws=2)
    >>> bool(found.loc[found["ratio"] > 1, "agrees"].all())
    True
    """
    rng = np.random.default_rng(seed)
    return pd.concat([_drawn(rng, n_sites, n_per_site, n_edges) for _ in range(draws)], ignore_index=True)


def _drawn(rng: np.random.Generator, n_sites: int, n_per_site: int, n_edges: int) -> pd.DataFrame:
    n = n_sites * n_per_site
    e, y = np.repeat(np.arange(n_sites), n_per_site), np.tile([0, 1], n // 2)
    site, age = np.array([f"S{k}" for k in e]), rng.normal(size=n)
    effect = rng.choice([-1, 1], n_edges) * rng.uniform(0, 0.8, n_edges)
    # Noise from none to much: where people scatter little, the nuisance is known well and margins hold.
    noise = np.geomspace(0.003, NOISE, n_edges)
    truth = np.outer(y - 0.5, effect) + rng.normal(size=(n, n_edges)) * noise
    q = (age - age.mean()) / age.std()
    edges = truth + rng.normal(0, 0.1, (n_sites, n_edges))[e] + q[:, None] * rng.normal(0, 0.05, (n_sites, n_edges))[e]
    covariates = pd.DataFrame({"age": age})
    # Fitted on controls: the label is no covariate, so with both classes intercepts would hold half of its effect.
    fitted = SiteDeconfounder(huber_delta=DELTA, fit_on="controls", slopes="site")
    fitted.fit(edges, y, covariates=covariates, site=site)
    oracle = truth + 0.5 * effect  # controls stand at 0, as in the estimate
    estimated = fitted.residuals_
    worst = [[np.abs(estimated - oracle)[(e == k) & (y == c)].max(axis=0) for c in (0, 1)] for k in range(n_sites)]
    perturbation = np.sum(worst, axis=1).max(axis=0)
    contrast, consensus, kappa, pi = _statistics(oracle, y, site)
    tau = float(np.percentile(np.abs(consensus), TAU_PERCENTILE))
    margin = np.minimum(_sign_margin(contrast, consensus), np.abs(np.abs(consensus) - tau))
    _, moved, moved_kappa, moved_pi = _statistics(estimated, y, site)
    agrees = _member(consensus, kappa, pi, tau) == _member(moved, moved_kappa, moved_pi, tau)
    return pd.DataFrame({"ratio": margin / perturbation, "agrees": agrees})


def _statistics(residuals: np.ndarray, y: np.ndarray, site: np.ndarray) -> tuple[np.ndarray, ...]:
    contrast = site_contrasts(residuals, y, site, sorted(set(site)), huber_delta=DELTA)
    consensus = median_over_sites(contrast)
    return contrast, consensus, sign_consistency(contrast, consensus), site_stability(contrast, consensus)


def _member(consensus: np.ndarray, kappa: np.ndarray, pi: np.ndarray, tau: float) -> np.ndarray:
    return (np.abs(consensus) > tau) & (kappa >= ETA) & (pi >= ZETA)


def _sign_margin(contrast: np.ndarray, consensus: np.ndarray) -> np.ndarray:
    """How far consensus, contrasts and every possible bootstrap median are from changing sign."""
    ordered, n = np.sort(contrast, axis=0), len(contrast)
    pairs = ((a, a) for a in range(n)) if n % 2 else combinations_with_replacement(range(n), 2)
    medians = [np.abs(ordered[a] + ordered[b]) / 2 for a, b in pairs]
    return np.min([np.abs(consensus), *np.abs(contrast), *medians], axis=0)
