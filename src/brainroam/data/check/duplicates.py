"""Finding the same person twice, under whatever name.

A copy that was shifted, cut, rescaled or rounded still has nearly the same connectivity. What all people share is
removed first, by regressing each person's edges on the mean edges; then the profiles of two different people correlate
around zero, and a pair far outside the bulk of all pairs is one person.
"""

import re
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from threadpoolctl import threadpool_limits

from brainroam.data.cohort import Cohort, missing_rois

MIN_SIMILARITY = 0.75
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


def find_duplicates(cohort: Cohort) -> list[Duplicate]:
    """Pairs of people with identical series or nearly identical connectivity.

    >>> from brainroam.data.synthetic import make_cohort
    >>> from brainroam.data.cohort import Cohort, missing_rois
    >>> cohort = make_cohort(n_sites=2, n_per_site=20, n_rois=20)
    >>> find_duplicates(cohort)
    []
    >>> series = cohort.series
    >>> series[3] = series[30][10:]
    >>> [(d.first, d.second, d.kind) for d in find_duplicates(Cohort(series, cohort.table))]
    [('S01_0004', 'S02_0011', 'alike')]
    """
    subjects, digests = cohort.table["subject"].tolist(), cohort.series_digests
    with_signal = np.flatnonzero(~cohort.missing_rois.all(axis=1))  # empty scans are all alike, but no copies
    pairs = _groups_to_pairs([digests[i] for i in with_signal])
    found = [Duplicate(subjects[with_signal[i]], subjects[with_signal[j]], "identical", 1.0) for i, j in pairs]
    edges = _correlations(cohort.series)
    for i, j, similarity in _alike(edges):
        if digests[i] != digests[j]:
            found.append(Duplicate(subjects[i], subjects[j], "alike", similarity))
    return found


def _correlations(series: Sequence[np.ndarray]) -> np.ndarray:
    """Upper triangles (n, M) of everybody's correlation matrix; NaN where a region has no signal."""
    u, v = np.triu_indices(series[0].shape[1], 1)
    gone = missing_rois(series)
    with threadpool_limits(1), np.errstate(all="ignore"):  # threads only wait for each other on small products
        values = np.stack([np.corrcoef(x, rowvar=False)[u, v] for x in series])
    return np.where(gone[:, u] | gone[:, v], np.nan, values)


def _alike(edges: np.ndarray) -> Iterator[tuple[int, int, float]]:
    """Positions of alike people and how alike they are."""
    present = np.isfinite(edges)
    common = np.where(present, edges, 0).sum(axis=0) / np.maximum(present.sum(axis=0), 1)
    profiles = np.where(present, edges, common)
    profiles -= profiles.mean(axis=1, keepdims=True)
    common = common - common.mean()
    # What is left of a person once the shared pattern is fitted: noisy scans are alike in having less of that pattern.
    profiles -= np.outer(profiles @ common / max(common @ common, 1e-12), common)
    profiles /= np.maximum(np.linalg.norm(profiles, axis=1, keepdims=True), 1e-12)
    rows, columns = np.triu_indices(len(edges), 1)
    similarity = np.clip((profiles @ profiles.T)[rows, columns], -1, 1)
    z = np.arctanh(similarity * (1 - 1e-12))
    deviation = z - np.median(z)
    scale = np.median(np.abs(deviation)) / 0.6745
    for k in np.flatnonzero((similarity > MIN_SIMILARITY) & (deviation > MIN_ROBUST_Z * scale)):
        yield int(rows[k]), int(columns[k]), float(similarity[k])


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
