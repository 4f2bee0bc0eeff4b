"""Find people who are in the cohort twice, under any ids.

A copy that was shifted, cut, rescaled or rounded still has nearly the same connectivity. What all people share is
removed first, by regressing each person's edges on the mean edges; then the profiles of two different people correlate
around zero, and a pair far outside the bulk of all pairs is one person.

Memory is bounded for any number of people: of many, evenly spaced edges stand for all, pairs are looked at some people
at a time, and of all similarities only a histogram is kept, from which the bulk is read.

Rows of a table whose columns hold few different values agree by chance. With p_j(v) the share of people who have the
value v in column j, two people agree in a row x, or in one that is rarer, with a probability of at most
q(x) = prod_j p_j(x_j) if columns are independent; so n people have at most

    n (n - 1) / 2  q(x)

such pairs on average. A pair is a copy where that is below `CHANCE`. Levels of one column of words are one column
there, and columns that say who lacks another are none.
"""

import re
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from brainroam.data.cohort import Cohort
from brainroam.data.readers.clinical import LACKS, LEVEL

MIN_SIMILARITY = 0.75
NEARLY_ONE, MIN_DEVIATION = 1 - 1e-6, 0.1  # so that the last digits of single precision make nobody stand out
N_BINS, Z_LIMIT = 200_000, 10.0  # of the histogram of arctanh(similarity)
PEOPLE_AT_A_TIME = 256
CHANCE = 0.01  # pairs expected by chance, below which two equal rows of a table are copies
PROFILE_BYTES, MIN_EDGES = 400e6, 1024  # of everybody's profiles; at least so many edges each
MIN_ROBUST_Z = 7  # with few regions chance alone makes profiles alike; their spread then raises the bar


@dataclass(frozen=True)
class Duplicate:
    """Two people who are probably one.

    Attributes
    ----------
    first, second : str
        Subject ids, in the order of the cohort.
    kind : {"identical", "alike"}
        The same series bit by bit, or nearly the same connectivity.
    similarity : float
        Correlation of the connectivity profiles without what all people share.
    """

    first: str
    second: str
    kind: str
    similarity: float


def find_duplicates(cohort: Cohort, edges: np.ndarray | None = None) -> list[Duplicate]:
    """Pairs of people with identical measurements or nearly identical connectivity; ``edges`` are used up where given.

    >>> from brainroam.data.synthetic import make_cohort
    >>> from brainroam.data.cohort import Cohort
    >>> cohort = make_cohort(n_sites=2, n_per_site=20, n_rois=20)
    >>> find_duplicates(cohort)
    []
    >>> series = cohort.series
    >>> series[3] = series[30][10:]
    >>> [(d.first, d.second, d.kind) for d in find_duplicates(Cohort(series, cohort.table))]
    [('S01_0004', 'S02_0011', 'alike')]
    """
    subjects, digests = cohort.table["subject"].tolist(), cohort.series_digests
    duplicates = [Duplicate(subjects[i], subjects[j], "identical", 1.0) for i, j in identical_pairs(cohort)]
    if cohort.measure == "table":  # people of one site are alike in their columns: only the same row is a copy
        return duplicates
    for i, j, similarity in _alike(correlations(cohort) if edges is None else edges):
        if digests[i] != digests[j]:
            duplicates.append(Duplicate(subjects[i], subjects[j], "alike", similarity))
    return duplicates


def identical_pairs(cohort: Cohort) -> list[tuple[int, int]]:
    """Positions of all pairs of people with the same measurements bit by bit; of rows of a table those not by chance.

    >>> from brainroam.data.synthetic import make_cohort
    >>> cohort = make_cohort(n_sites=2, n_per_site=4, n_rois=8)
    >>> identical_pairs(Cohort([*cohort.series[:7], cohort.series[2]], cohort.table))
    [(2, 7)]
    """
    digests = pd.Series(cohort.series_digests)
    alike = np.flatnonzero(digests.duplicated(keep=False))
    if not len(alike):
        return []
    alike = alike[~cohort.missing_rois[alike].all(axis=1)]  # empty scans are all alike, but no copies
    if cohort.measure == "table":
        alike = alike[_expected_pairs(cohort)[alike] < CHANCE]
    pairs = _groups_to_pairs(digests[alike].tolist())
    return [(int(alike[i]), int(alike[j])) for i, j in pairs]


def _expected_pairs(cohort: Cohort) -> np.ndarray:
    """n (n - 1) / 2 q(x) of each person's row (n,)."""
    frame = pd.DataFrame(np.concatenate(cohort.series), columns=list(cohort.atlas.labels))
    words = [name.rpartition(LEVEL)[0] or name for name in frame]
    log_share = np.zeros(len(frame))
    for name in dict.fromkeys(word for word in words if not word.endswith(LACKS)):
        columns = frame.loc[:, [word == name for word in words]]
        same = columns.groupby(list(columns), dropna=False)[columns.columns[0]].transform("size")
        log_share += np.log(same / len(frame)).to_numpy()
    return len(frame) * (len(frame) - 1) / 2 * np.exp(log_share)


def correlations(cohort: Cohort) -> np.ndarray:
    """Some or all edges (n, k) of everybody, in single precision: correlations of series, values of matrices.

    NaN where a region has no signal.
    """
    u, v = np.triu_indices(cohort.n_rois, 1)
    width = min(len(u), max(MIN_EDGES, int(PROFILE_BYTES / (4 * len(cohort)))))
    u, v = (ends[np.linspace(0, len(u) - 1, width).astype(int)] for ends in (u, v))
    gone, values = cohort.missing_rois, np.empty((len(cohort), width), dtype=np.float32)
    with threadpool_limits(1), np.errstate(all="ignore"):  # threads only wait for each other on small products
        for row, x in zip(values, cohort.series, strict=True):
            row[:] = (x if cohort.measure == "matrices" else np.corrcoef(x, rowvar=False))[u, v]
    values[gone[:, u] | gone[:, v]] = np.nan
    return values


def _alike(edges: np.ndarray) -> Iterator[tuple[int, int, float]]:
    """Positions of similar pairs of people, with their similarity."""
    profiles, counts, close = _profiles(edges), np.zeros(N_BINS), []
    for start in range(0, len(profiles), PEOPLE_AT_A_TIME):
        block = profiles[start : start + PEOPLE_AT_A_TIME]
        similarity = np.clip(block @ profiles[start:].T, -1, 1)  # with themselves and with those after them
        later = np.arange(similarity.shape[1]) > np.arange(len(block))[:, None]
        z = np.arctanh(similarity[later] * NEARLY_ONE)
        counts += np.histogram(z, N_BINS, (-Z_LIMIT, Z_LIMIT))[0]
        for i, j in np.argwhere(later & (similarity > MIN_SIMILARITY)):
            close.append((start + int(i), start + int(j), float(similarity[i, j])))
    width = 2 * Z_LIMIT / N_BINS
    centres = np.arange(-Z_LIMIT, Z_LIMIT, width)[:N_BINS] + width / 2
    middle = _median(centres, counts)
    scale = _median(np.abs(centres - middle), counts) / 0.6745
    for i, j, similarity in close:
        if np.arctanh(similarity * NEARLY_ONE) - middle > max(MIN_ROBUST_Z * scale, MIN_DEVIATION):
            yield i, j, similarity


def _profiles(edges: np.ndarray) -> np.ndarray:
    """Everybody's edges without what all people share, at unit length; written over ``edges``."""
    present = np.isfinite(edges)
    common = np.where(present, edges, 0).sum(axis=0, dtype=float) / np.maximum(present.sum(axis=0), 1)
    np.copyto(edges, common.astype(edges.dtype), where=~present)
    edges -= edges.mean(axis=1, keepdims=True)
    common = (common - common.mean()).astype(edges.dtype)
    # What is left of a person once the shared pattern is fitted: noisy scans are alike in having less of that pattern.
    edges -= np.outer(edges @ common / max(common @ common, 1e-12), common)
    edges /= np.maximum(np.linalg.norm(edges, axis=1, keepdims=True), 1e-12)
    return edges


def _median(values: np.ndarray, counts: np.ndarray) -> float:
    """The median of values with these frequencies.

    >>> _median(np.array([3.0, 1.0, 2.0]), np.array([1, 5, 1]))
    1.0
    """
    order = np.argsort(values, kind="stable")
    return float(values[order][np.searchsorted(np.cumsum(counts[order]), counts.sum() / 2)])


def similar_ids(subjects: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of ids that differ only in case, punctuation, a ``sub-`` prefix or leading zeros.

    >>> similar_ids(["sub-0012", "12", "A_7", "a7", "S1-1-0001", "S11-0001"])
    [('sub-0012', '12'), ('A_7', 'a7')]
    """
    return [(subjects[i], subjects[j]) for i, j in _groups_to_pairs([_canonical(s) for s in subjects])]


def _canonical(subject: str) -> tuple[str, ...]:
    words = re.findall(r"[a-z]+|[0-9]+", subject.lower().removeprefix("sub-"))
    return tuple(word.lstrip("0") for word in words)


def _groups_to_pairs(keys: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Positions of all pairs with equal keys."""
    groups = defaultdict(list)
    for position, key in enumerate(keys):
        groups[key].append(position)
    return [pair for group in groups.values() for pair in combinations(group, 2)]
