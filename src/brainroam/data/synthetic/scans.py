"""Drawing series with a given correlation, on scanners that differ.

The expected covariance of the series is R although a share nu of the variance is white noise w_t and the rest follows
an AR(1) process a_t with the scanner's phi:

    x_t = chol(R - nu I) a_t + nu^1/2 w_t.

Where that root does not exist, R is shrunk towards the identity, which scales all its edges alike.

phi may differ between people: it sets how slowly their regions move and leaves R, and so every edge, as it is.

In the two regions of a volatile edge the noise is coupled by a correlation that swings slowly around zero: the strength
over the whole scan does not change, only its fluctuation.
"""

from typing import NamedTuple

import numpy as np
from scipy.signal import lfilter

REPETITION_TIMES = (1.5, 2.0, 2.2, 2.5, 3.0)
VOLATILE_NOISE = 0.3  # share of variance that swings, in the regions of volatile edges
SWING = 0.3, 0.6  # amplitude of the swing in controls, and what cases have more at volatility=1
SWING_PERIOD = 100  # volumes, long against a window of 30
SLOWING = 0.3  # by how much the phi of cases is larger than that of controls, at rhythm=1
EIGENVALUE_FLOOR = 0.02
BURN_IN = 30


class Scanner(NamedTuple):
    """What a site's scanner does to everybody scanned there."""

    autocorrelation: float
    noise: float
    n_volumes: int
    tr: float


def draw_scanner(rng: np.random.Generator) -> Scanner:
    """A plausible scanner."""
    n_volumes, tr = int(rng.integers(120, 200)), float(rng.choice(REPETITION_TIMES))
    return Scanner(rng.uniform(0.3, 0.6), rng.uniform(0.1, 0.25), n_volumes, tr)


def draw_scans(
    rng: np.random.Generator,
    coupling: np.ndarray,
    scanner: Scanner,
    volatile: np.ndarray,
    swing: np.ndarray,
    slowing: np.ndarray,
) -> tuple[list[np.ndarray], np.ndarray]:
    """Series of the people of one site.

    Parameters
    ----------
    rng : Generator
    coupling : ndarray of shape (n, P, P)
        R - I of each person.
    scanner : Scanner
    volatile : ndarray of shape (k, 2)
        Region pairs of the volatile edges; no region stands in two of them.
    swing : ndarray of shape (n,)
        Amplitude of each person's swing, at most 1.
    slowing : ndarray of shape (n,)
        What is added to the scanner's phi for each person.

    Returns
    -------
    series : list of ndarray of shape (T, P)
    shrinkage : ndarray of shape (n,)
        The t of (1 - t) R + t I, 0 for people whose R could stay as it is.
    """
    noise = np.full(coupling.shape[1], scanner.noise)
    noise[volatile] = VOLATILE_NOISE
    # With D = diag(1 - noise - floor): (1 - t) C + D >= 0 exactly when (1 - t) lambda_min(D^-1/2 C D^-1/2) >= -1.
    room = np.sqrt(1 - noise - EIGENVALUE_FLOOR)
    kept = np.minimum(1, -1 / np.linalg.eigvalsh(coupling / np.outer(room, room))[:, 0])
    roots = np.linalg.cholesky(coupling * kept[:, None, None] + np.diag(1 - noise))
    phi, series = scanner.autocorrelation + slowing, []
    for i, root in enumerate(roots):
        smooth = _smooth(rng, phi[i], scanner.n_volumes, len(noise))
        series.append(smooth @ root.T + np.sqrt(noise) * _white(rng, scanner, len(noise), volatile, swing[i]))
    return series, 1 - kept


def _smooth(rng: np.random.Generator, phi: float, n_volumes: int, n_rois: int) -> np.ndarray:
    """AR(1) processes of unit variance, one for each region."""
    innovation = rng.normal(scale=np.sqrt(1 - phi**2), size=(BURN_IN + n_volumes, n_rois))
    return lfilter([1.0], [1.0, -phi], innovation, axis=0)[BURN_IN:]


def _white(rng: np.random.Generator, scanner: Scanner, n_rois: int, volatile: np.ndarray, swing: float) -> np.ndarray:
    """White noise of unit variance, coupled in volatile pairs by a correlation with mean zero over the scan."""
    white = rng.normal(size=(scanner.n_volumes, n_rois))
    cycles = max(1, round(scanner.n_volumes / SWING_PERIOD))  # whole ones, or the mean would not be zero
    time = np.arange(scanner.n_volumes)[:, None] / scanner.n_volumes
    correlation = swing * np.sin(2 * np.pi * (cycles * time + rng.random(len(volatile))))
    first, second = volatile.T
    white[:, second] = correlation * white[:, first] + np.sqrt(1 - correlation**2) * white[:, second]
    return white
