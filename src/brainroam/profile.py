"""Transient pathway profiles: how much an edge's connectivity moves over sliding windows.

Windows of W volumes with stride S_w give L = floor((T - W) / S_w) + 1 windowed Pearson correlations rho_t per edge,
Fisher-transformed to c_t = atanh(rho_t):

    volatility   s = sqrt( mean_t (c_t - mean c)^2 )          flexibility  f = max_t c_t - min_t c_t

Only the requested pairs are computed. Windows overlap, so sums are taken once over blocks of gcd(W, S_w) volumes and
windows are put together from runs of blocks: the cost is linear in pairs and hardly grows with the overlap.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from functools import reduce as fold
from math import gcd

import numpy as np

from brainroam.cohort import missing_rois
from brainroam.errors import DataError, ShortSeriesError, listed

CLIP = 1 - 1e-6
CHUNK = 512  # pairs at a time: what is computed for them stays in the cache


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

    Examples
    --------
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
            np.concatenate([summarise(z) for z in _fisher_windows(x, g, pairs, w, s)])
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
    count = np.isfinite(z).sum(axis=0)
    profile = np.stack([z.std(axis=0), np.ptp(z, axis=0)], axis=1)  # NaN where a window is missing
    some = (count >= 2) & (count < len(z))
    if some.any():
        rest = z[:, some]
        profile[some] = np.stack([np.nanstd(rest, axis=0), np.nanmax(rest, axis=0) - np.nanmin(rest, axis=0)], axis=1)
    profile[count < 2] = np.nan
    return profile


def _fisher_windows(
    x: np.ndarray, gone: np.ndarray, pairs: np.ndarray, window: int, stride: int
) -> Iterator[np.ndarray]:
    """Fisher z of windowed correlations (L, m), some pairs at a time; NaN where a region is constant in the window."""
    centred = np.where(gone, 0, x)
    centred = centred - centred.mean(axis=0)  # keeps the differences of large sums below exact to rounding
    norm = np.sqrt((centred**2).mean(axis=0))
    centred /= np.where(norm > 0, norm, 1)
    over_windows = partial(_over_windows, window=window, stride=stride)
    mean = over_windows(centred, np.add) / window
    variance = over_windows(centred**2, np.add) / window - mean**2
    flat = over_windows(centred, np.maximum) - over_windows(centred, np.minimum) <= 1e-10
    with np.errstate(divide="ignore"):
        per_scale = np.where(flat | gone, np.nan, 1 / np.sqrt(np.maximum(variance, 0)))
    for u, v in (pairs[k : k + CHUNK].T for k in range(0, len(pairs), CHUNK)):
        covariance = over_windows(centred[:, u] * centred[:, v], np.add) / window - mean[:, u] * mean[:, v]
        with np.errstate(invalid="ignore"):  # 0 / 0 where rounding alone is left of a variance
            rho = covariance * per_scale[:, u] * per_scale[:, v]
        np.clip(rho, -CLIP, CLIP, out=rho)
        yield 0.5 * np.log((1 + rho) / (1 - rho))  # three times faster than arctanh


def _over_windows(values: np.ndarray, reduce: np.ufunc, window: int, stride: int) -> np.ndarray:
    """Sum, maximum or minimum over every window (L, m), from those over the blocks all windows are made of.

    Runs of 2k blocks are made of two runs of k, so a window costs the logarithm of its length.
    """
    block = gcd(window, stride)
    n_blocks, per_window = len(values) // block, window // block
    blocks = values[: n_blocks * block].reshape(n_blocks, block, -1)
    runs = fold(reduce, (blocks[:, k] for k in range(block)))  # ten times faster than reducing the middle axis
    n_windows = n_blocks - per_window + 1
    parts, start, length = [], 0, 1
    while length <= per_window:
        if per_window & length:  # the binary digits of the window's length say which runs it is made of
            parts.append(runs[start : start + n_windows])
            start += length
        if 2 * length <= per_window:
            runs = reduce(runs[:-length], runs[length:])
        length *= 2
    return fold(reduce, parts)[:: stride // block]
