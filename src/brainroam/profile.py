"""Transient pathway profiles: how much an edge's connectivity moves over sliding windows.

Windows of W volumes with stride S_w give L = floor((T - W) / S_w) + 1 windowed Pearson correlations rho_t per edge,
Fisher-transformed to c_t = atanh(rho_t):

    volatility   s = sqrt( mean_t (c_t - mean c)^2 )          flexibility  f = max_t c_t - min_t c_t

Only the requested pairs are computed. Windows overlap, so sums are taken once over blocks of gcd(W, S_w) volumes and
windows are sums of blocks: the cost is linear in pairs and does not grow with the overlap.
"""

from collections.abc import Sequence
from math import gcd

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from brainroam.cohort import missing_rois
from brainroam.errors import DataError, ShortSeriesError, listed

CLIP = 1 - 1e-6


def temporal_descriptors(
    series: Sequence[np.ndarray],
    pairs: np.ndarray,
    window: int | np.ndarray = 30,
    stride: int | np.ndarray = 5,
    subjects: Sequence[str] | None = None,
) -> np.ndarray:
    """Volatility and flexibility (n, len(pairs), 2) of the given region pairs; no logarithm is taken.

    NaN where a region has no signal, and where fewer than two windows are left once windows with a constant region are
    set aside.

    Parameters
    ----------
    series : sequence of ndarray of shape (T_i, P)
    pairs : ndarray of int, shape (m, 2)
    window, stride : int or sequence of n ints
        In volumes; one number for everybody or one per person, see `windows_in_volumes`.
    subjects : sequence of str, optional
        Ids for the error that names people with fewer volumes than a window.

    >>> x = np.random.default_rng(0).normal(size=(100, 3))
    >>> temporal_descriptors([x], np.array([[0, 1], [1, 2]])).shape
    (1, 2, 2)
    """
    windows = np.broadcast_to(window, len(series)).astype(int)
    strides = np.broadcast_to(stride, len(series)).astype(int)
    if windows.min() < 3 or strides.min() < 1:
        raise DataError("a window needs at least 3 volumes and a stride at least 1")
    short = too_short(series, windows)
    if short.any():
        ids = subjects if subjects is not None else [f"number {i}" for i in range(len(series))]
        names = listed(f"{ids[i]} ({len(series[i])} volumes)" for i in np.flatnonzero(short).tolist())
        raise ShortSeriesError(
            f"{int(short.sum())} people have fewer volumes than one window of {windows.max()}: {names}; "
            'use a shorter window, or leave them out with on_short="exclude"'
        )
    gone = missing_rois(series)
    return np.stack(
        [
            summarise(_fisher_windows(x, g, pairs, w, s))
            for x, g, w, s in zip(series, gone, windows, strides, strict=True)
        ]
    )


def too_short(series: Sequence[np.ndarray], window: int | np.ndarray) -> np.ndarray:
    """Which people have fewer volumes than one window."""
    return np.array([len(x) for x in series]) < window


def windows_in_volumes(seconds: float, tr: Sequence[float] | np.ndarray) -> np.ndarray:
    """A duration in volumes for each person's repetition time.

    >>> windows_in_volumes(60, [2.0, 1.5]).tolist()
    [30, 40]
    """
    tr = np.asarray(tr, dtype=float)
    if not (np.isfinite(tr).all() and (tr > 0).all()):
        raise DataError("windows in seconds need the repetition time (tr) of everybody; give it, or windows in volumes")
    return np.maximum(1, np.round(seconds / tr)).astype(int)


def summarise(z: np.ndarray) -> np.ndarray:
    """Volatility and flexibility (m, 2) of windowed Fisher z (L, m); NaN where fewer than two windows have a value."""
    known = np.isfinite(z)
    count = known.sum(axis=0)
    filled = np.where(known, z, 0)
    n = np.maximum(count, 1)
    deviation = np.where(known, filled - filled.sum(axis=0) / n, 0)
    volatility = np.sqrt((deviation**2).sum(axis=0) / n)
    flexibility = np.where(known, z, -np.inf).max(axis=0) - np.where(known, z, np.inf).min(axis=0)
    profile = np.stack([volatility, flexibility], axis=1)
    profile[count < 2] = np.nan
    return profile


def _fisher_windows(x: np.ndarray, gone: np.ndarray, pairs: np.ndarray, window: int, stride: int) -> np.ndarray:
    """Fisher z of the windowed correlations (L, m); NaN where a region is constant in the window."""
    centred = np.where(gone, 0, x)
    centred = centred - centred.mean(axis=0)  # keeps the differences of large sums below exact to rounding
    norm = np.sqrt((centred**2).mean(axis=0))
    centred /= np.where(norm > 0, norm, 1)
    mean = _window_sums(centred, window, stride) / window
    variance = _window_sums(centred**2, window, stride) / window - mean**2
    u, v = pairs.T
    covariance = _window_sums(centred[:, u] * centred[:, v], window, stride) / window - mean[:, u] * mean[:, v]
    scale = np.sqrt(np.maximum(variance, 0))
    flat = _constant_in_window(centred, window, stride) | gone
    with np.errstate(divide="ignore", invalid="ignore"):
        rho = covariance / (scale[:, u] * scale[:, v])
    rho[flat[:, u] | flat[:, v]] = np.nan
    return np.arctanh(np.clip(rho, -CLIP, CLIP))


def _window_sums(values: np.ndarray, window: int, stride: int) -> np.ndarray:
    """Sums over every window (L, m), from sums over the blocks all windows are made of."""
    block = gcd(window, stride)
    n_blocks = len(values) // block
    sums = values[: n_blocks * block].reshape(n_blocks, block, -1).sum(axis=1)
    per_window, step = window // block, stride // block
    starts = range(0, n_blocks - per_window + 1, step)
    return np.stack([sums[s : s + per_window].sum(axis=0) for s in starts])


def _constant_in_window(values: np.ndarray, window: int, stride: int) -> np.ndarray:
    view = sliding_window_view(values, window, axis=0)[::stride]
    return view.max(axis=-1) - view.min(axis=-1) <= 1e-10
