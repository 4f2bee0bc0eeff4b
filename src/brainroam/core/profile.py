"""Transient pathway profiles: how much an edge's connectivity moves over sliding windows.

Windows of W volumes with stride S_w give L = floor((T - W) / S_w) + 1 windowed Pearson correlations rho_t per edge,
Fisher-transformed to c_t = atanh(rho_t):

    volatility   s = sqrt( mean_t (c_t - mean c)^2 )          flexibility  f = max_t c_t - min_t c_t

The range over L windows grows with L, so both would tell how long a scan was. With ``stretch`` = k they are means over
consecutive stretches of k windows, which is the same for scans of any length; without it they are the paper's.

Only the requested pairs are computed. Windows overlap, so sums are taken once over blocks of gcd(W, S_w) volumes and
windows are put together from runs of blocks: the cost is linear in pairs and hardly grows with the overlap.

What takes time is moving numbers, so they lie as they are read: the first volumes of all blocks, region by region, then
the second ones, and so on. Fetching a region copies consecutive memory, and a sum over blocks adds whole arrays.

What CORE reads is their logarithm (`Profiles`), a function of one person and one edge. The folds of a study ask for
different edges of the same people: what one fold has computed is kept for the next (`Features.growing_columns`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from functools import reduce as fold
from math import gcd
from operator import iadd

import numpy as np

from brainroam.core.connectivity import edge_pairs
from brainroam.core.ridge import EPS
from brainroam.data.cohort import Cohort
from brainroam.data.features import Columns
from brainroam.data.measurements import missing_rois
from brainroam.errors import DataError, ShortSeriesError, counted, listed

CLIP = 1 - 1e-6
CHUNK = 2**16  # numbers at a time: what is computed for some pairs stays in the cache
FLAT = 1e-10  # range of a window, relative to the whole series, up to which a region counts as constant in it


def temporal_descriptors(
    series: Sequence[np.ndarray],
    pairs: np.ndarray,
    window: int | np.ndarray = 30,
    stride: int | np.ndarray = 5,
    subjects: Sequence[str] | None = None,
    stretch: int | None = None,
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
    stretch : int, optional
        Windows that are looked at together; by default all. A scan of fewer windows has one shorter stretch.

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
    refuse_short([len(x) for x in series], windows, subjects)
    gone = missing_rois(series)
    # A lone pair is computed twice: numpy would sum its windows in another order than among others.
    requested = np.repeat(pairs, 2, axis=0) if len(pairs) == 1 else pairs
    people = zip(series, gone, windows.tolist(), strides.tolist(), strict=True)
    described = [
        np.concatenate([summarise(z, stretch) for z in _fisher_windows(x, g, requested, w, s)]) for x, g, w, s in people
    ]
    return np.stack(described)[:, : len(pairs)]


def refuse_short(
    volumes: Sequence[int] | np.ndarray, window: np.ndarray, subjects: Sequence[str] | None = None
) -> None:
    """Name everybody who has fewer volumes than one window."""
    short = np.flatnonzero(np.asarray(volumes) < window).tolist()
    if short:
        ids = subjects if subjects is not None else [f"number {i}" for i in range(len(volumes))]
        names = listed(f"{ids[i]} ({int(volumes[i])} volumes)" for i in short)
        have = counted(len(short), "person has", "people have")
        raise ShortSeriesError(
            f"{have} fewer volumes than one window of {window.max()}: {names}; "
            'use a shorter window, or leave them out with on_short="exclude"'
        )


def windows_in_volumes(seconds: float, tr: Sequence[float] | np.ndarray) -> np.ndarray:
    """A duration in volumes for each person's repetition time.

    >>> windows_in_volumes(60, [2.0, 1.5]).tolist()
    [30, 40]
    """
    tr = np.asarray(tr, dtype=float)
    if not (np.isfinite(tr).all() and (tr > 0).all()):
        raise DataError("windows in seconds need the repetition time (tr) of everybody; give it, or windows in volumes")
    return np.maximum(1, np.round(seconds / tr)).astype(int)


def summarise(z: np.ndarray, stretch: int | None = None) -> np.ndarray:
    """Volatility and flexibility (m, 2) of windowed Fisher z (L, m); NaN where fewer than two windows have a value.

    >>> z = np.array([[0.0], [1.0], [5.0], [6.0]])
    >>> summarise(z, stretch=2).tolist()
    [[0.5, 1.0]]
    """
    if stretch is not None and len(z) >= 2 * stretch:
        parts = np.stack([summarise(z[k : k + stretch]) for k in range(0, len(z) - stretch + 1, stretch)])
        present = np.isfinite(parts)
        with np.errstate(invalid="ignore"):
            return np.where(present, parts, 0).sum(axis=0) / present.sum(axis=0)
    if stretch is not None:
        z = z[:stretch]
    profile = np.stack([z.std(axis=0), np.ptp(z, axis=0)], axis=1)  # NaN where a window is missing
    if len(z) > 1 and not np.isnan(profile).any():
        return profile
    count = np.isfinite(z).sum(axis=0)
    gappy = (count >= 2) & (count < len(z))
    if gappy.any():
        rest = z[:, gappy]
        spread, extent = np.nanstd(rest, axis=0), np.nanmax(rest, axis=0) - np.nanmin(rest, axis=0)
        profile[gappy] = np.stack([spread, extent], axis=1)
    profile[count < 2] = np.nan
    return profile


def _fisher_windows(
    x: np.ndarray, gone: np.ndarray, pairs: np.ndarray, window: int, stride: int
) -> Iterator[np.ndarray]:
    """Fisher z of windowed correlations (L, m), some pairs at a time; NaN where a region is constant in the window."""
    block = gcd(window, stride)
    over_windows = partial(_over_windows, per_window=window // block, step=stride // block)
    volumes = _by_place_in_block(np.where(gone, 0, x) if gone.any() else x, block)
    power = fold(iadd, (place * place for place in volumes))
    total = over_windows(volumes.sum(axis=0), np.add) / np.sqrt(window)
    variation = over_windows(power, np.add) - total**2
    overall = power.mean(axis=1, keepdims=True) / block
    if (variation <= 1e-9 * overall).any():  # else no window is constant
        spread = over_windows(volumes.max(axis=0), np.maximum) - over_windows(volumes.min(axis=0), np.minimum)
        variation[spread <= FLAT * np.sqrt(overall)] = np.nan
    with np.errstate(divide="ignore"):
        per_scale = 1 / np.sqrt(np.maximum(variation, 0))
    chunk = max(2, CHUNK // volumes.shape[2])
    for u, v in (part.T for part in np.array_split(pairs, max(1, -(-len(pairs) // chunk)))):
        rho = over_windows(fold(iadd, (_product(place, u, v) for place in volumes)), np.add) - _product(total, u, v)
        with np.errstate(invalid="ignore"):  # 0 / 0 where rounding alone is left of a variance
            rho *= _product(per_scale, u, v)
        np.clip(rho, -CLIP, CLIP, out=rho)
        ratio = 1 + rho
        ratio /= np.subtract(1, rho, out=rho)
        z = np.empty(rho.shape[::-1])
        np.log(ratio, out=z.T)
        z *= 0.5  # the area tangent, several times faster than by numpy's own
        yield z


def _by_place_in_block(x: np.ndarray, block: int) -> np.ndarray:
    """Centred series (T, P) as (block, P, n_blocks): what stands first in every block, what stands second, ...

    Centred, so that the differences of large sums stay exact to rounding.
    """
    n_blocks = len(x) // block
    blocks = x[: n_blocks * block].reshape(n_blocks, block, -1).transpose(1, 2, 0)
    return np.subtract(blocks, x.mean(axis=0)[:, None], order="C")


def _product(rows: np.ndarray, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Rows u times rows v; `take` copies whole rows, three times faster than an index in brackets."""
    product = rows.take(u, axis=0)
    product *= rows.take(v, axis=0)
    return product


def _over_windows(blocks: np.ndarray, reduce: np.ufunc, per_window: int, step: int) -> np.ndarray:
    """Sum, maximum or minimum over every window (m, L), from those over blocks (m, n_blocks).

    Runs of 2k blocks are made of two runs of k, so a window costs the logarithm of its length. The rows are laid end to
    end, which makes each step one pass over memory; windows across two rows are left out at the end.
    """
    runs = blocks.reshape(-1)
    n_runs = len(runs) - per_window + 1
    parts, start, length = [], 0, 1
    while length <= per_window:
        if per_window & length:  # the binary digits of the window's length say which runs it is made of
            parts.append(runs[start : start + n_runs])
            start += length
        if 2 * length <= per_window:
            runs = reduce(runs[:-length], runs[length:])
        length *= 2
    windows = np.empty_like(blocks)
    windows.reshape(-1)[:n_runs] = fold(reduce, parts)
    return windows[:, : blocks.shape[1] - per_window + 1 : step]


@dataclass(frozen=True)
class Profiles:
    """log(s + eps), log(f + eps) of some people on some edges; NaN where there are too few windows.

    Attributes
    ----------
    edges : ndarray of int
        Ascending.
    values : Columns
        Both values of every edge side by side (n, 2 m), in memory or on disk.
    n_people : int
    """

    edges: np.ndarray
    values: Columns
    n_people: int

    def of(self, edges: np.ndarray, people: np.ndarray | slice = slice(None)) -> np.ndarray:
        """The values (n, len(edges), 2) of a subset of the edges."""
        rows, at = np.arange(self.n_people)[people], 2 * np.searchsorted(self.edges, edges)
        return self.values.read(rows, np.stack([at, at + 1], axis=1).ravel()).reshape(len(rows), len(edges), 2)


def log_profiles(
    edges: np.ndarray,
    series: Sequence[np.ndarray],
    window: int | np.ndarray,
    stride: int | np.ndarray,
    stretch: int | None = None,
) -> np.ndarray:
    """The logarithms (n, len(edges), 2) of `temporal_descriptors` of these edges."""
    pairs = edge_pairs(series[0].shape[1])[edges]
    return np.log(temporal_descriptors(series, pairs, window, stride, stretch=stretch) + EPS)


def profiles_of(
    cohort: Cohort, edges: np.ndarray, window: np.ndarray, stride: np.ndarray, stretch: int | None = None
) -> Profiles:
    """Log profiles of the people of a cohort on some edges; what other folds have asked for is not computed again."""
    refuse_short(cohort.table["n_timepoints"].to_numpy(), window, cohort.table["subject"].tolist())
    site, digests = cohort.table["site"].to_numpy().astype(str), np.array(cohort.series_digests)
    series, n_edges = cohort.series, len(cohort.atlas.pairs)

    def read(people: np.ndarray) -> np.ndarray:
        """Of some people (n, 2 m), site by site: folds share whole sites."""
        values = np.empty((len(people), len(edges), 2))
        for name in np.unique(site[people]):
            here = site[people] == name
            own = people[here]
            scans = {"series": [series[k] for k in own], "window": window[own], "stride": stride[own]}
            compute = partial(log_profiles, **scans, stretch=stretch)
            who = [digests[own], window[own], stride[own]]
            values[here] = cohort.features.growing_columns(("profiles", stretch), who, n_edges).of(edges, compute)
        return values.reshape(len(people), -1)

    return Profiles(edges, cohort.features.kept_rows(len(cohort), 2 * len(edges), read), len(cohort))
