"""Stability pi of a consensus sign under resampling of sites, exactly, or of sites and people, by simulation.

    pi_j = P( sgn(median of resampled d_ej) = sgn(d_com_j) )

**Closed form.** A bootstrap draws E sites with replacement; the ranks of the drawn contrasts are uniform, whatever the
values. So the joint law of the two middle ranks (a, b) is one E x E table that depends on E alone, and

    pi_j = sum_{a <= b} P(a, b) [ sgn(d_(a)j + d_(b)j) = sgn(d_com_j) ]

exactly: the limit of infinitely many bootstraps, for odd and even E, with zeros and ties. For odd E and non-zero d it
is P(Binomial(E, kappa_j) > E/2): pi then says nothing that kappa did not. `hierarchical_stability` resamples people
within site and class too; that pi also measures sampling noise.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.special import comb
from scipy.stats import binom

from brainroam.huber import huber_regression


def site_stability(contrast: np.ndarray, consensus: np.ndarray) -> np.ndarray:
    """pi (M,) of the bootstrap over sites, exactly (see the closed form above)."""
    ordered = np.sort(contrast, axis=0)  # NaN last: an edge missing at some sites is bootstrapped over the others
    count = np.isfinite(contrast).sum(axis=0)
    pi = np.zeros(contrast.shape[1])
    for n_sites in np.unique(count[count > 0]):
        columns = count == n_sites
        values, sign = ordered[:n_sites, columns], np.sign(consensus[columns])
        for (low, high), probability in _middle_ranks(int(n_sites)):
            pi[columns] += probability * (np.sign(values[low] + values[high]) == sign)
    return pi


def hierarchical_stability(
    groups: Sequence[tuple[np.ndarray, np.ndarray]],
    consensus: np.ndarray,
    n_boot: int = 1000,
    random_state: int = 0,
    huber_delta: float | None = None,
) -> np.ndarray:
    """pi (M,) when sites and, within site and class, people are resampled.

    ``groups`` holds, per site, the residuals of its cases (n1, M) and of its controls (n0, M). The robustness weights
    are those of the full sample, so each resample is a weighted mean: one matrix product.
    """
    rng = np.random.default_rng(random_state)
    weighted = [(_weighted(cases, huber_delta), _weighted(controls, huber_delta)) for cases, controls in groups]
    n_sites, kept = len(groups), np.zeros(len(consensus))
    for block in _blocks(n_boot, 50):
        drawn = rng.integers(n_sites, size=(block, n_sites))
        contrast = np.full((block, n_sites, len(consensus)), np.nan)
        for e, (cases, controls) in enumerate(weighted):
            boot, slot = np.nonzero(drawn == e)
            high, low = (_resampled_means(*group, len(boot), rng) for group in (cases, controls))
            contrast[boot, slot] = high - low
        kept += (np.sign(np.nanmedian(contrast, axis=1)) == np.sign(consensus)).sum(axis=0)
    return kept / n_boot


def _middle_ranks(n_sites: int) -> Iterator[tuple[tuple[int, int], float]]:
    """Law of the two middle ranks (0-based; equal for odd E) of E draws with replacement from E ordered values."""
    share = np.arange(n_sites + 1) / n_sites
    half = n_sites // 2
    if n_sites % 2:
        single = np.diff(binom.sf(half, n_sites, share))
        yield from (((a, a), float(p)) for a, p in enumerate(single))
        return
    # Exactly half of the draws at or below rank a (with one at a) and half at or above rank b > a (with one at b).
    below = np.diff(share**half)
    above = below[::-1]
    lower_middle = np.diff(binom.sf(half - 1, n_sites, share))
    for a in range(n_sites):
        pairs = {b: float(comb(n_sites, half) * below[a] * above[b]) for b in range(a + 1, n_sites)}
        yield (a, a), float(lower_middle[a]) - sum(pairs.values())
        yield from (((a, b), p) for b, p in pairs.items())


def _weighted(values: np.ndarray, huber_delta: float | None) -> tuple[np.ndarray, np.ndarray]:
    """Robustness weights and weighted values of one class at one site; 0 where missing."""
    weights = huber_regression(np.ones((len(values), 1)), values, delta=huber_delta)[1]
    return weights, weights * np.nan_to_num(values)


def _resampled_means(weights: np.ndarray, weighted: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    counts = rng.multinomial(len(weights), np.full(len(weights), 1 / len(weights)), size=n).astype(float)
    with np.errstate(invalid="ignore", divide="ignore"):
        return (counts @ weighted) / (counts @ weights)


def _blocks(total: int, size: int) -> Iterator[int]:
    for start in range(0, total, size):
        yield min(size, total - start)
