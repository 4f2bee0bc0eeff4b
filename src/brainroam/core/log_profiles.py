"""Logarithms of the transient profiles of people on the edges of scaffolds, each of them computed once.

A profile is a function of one person and one edge. The folds of a study ask for different edges of the same people, so
what was computed for one fold is kept, site by site, and the next fold adds the edges that are new. Where an atlas is
not large and one fold needs many of its edges, all are computed at once: a few new ones would cost as much each time.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from brainroam.core.connectivity import edge_pairs
from brainroam.core.profile import refuse_short, temporal_descriptors
from brainroam.core.ridge import EPS
from brainroam.data.cohort import Cohort

NOT_LARGE = 20_000  # edges of an atlas
MANY = 0.1  # of them; a fold of training asks for more, people who are only read for fewer


@dataclass(frozen=True)
class Profiles:
    """log(s + eps), log(f + eps) of some people on some edges; NaN where a window count is too small."""

    edges: np.ndarray
    values: np.ndarray

    @classmethod
    def compute(
        cls,
        series: Sequence[np.ndarray],
        edges: np.ndarray,
        window: int | np.ndarray,
        stride: int | np.ndarray,
        subjects: Sequence[str] | None = None,
        stretch: int | None = None,
    ) -> "Profiles":
        """Describe these edges (ascending indices) for everybody."""
        pairs = edge_pairs(series[0].shape[1])[edges]
        return cls(edges, np.log(temporal_descriptors(series, pairs, window, stride, subjects, stretch) + EPS))

    def of(self, edges: np.ndarray, people: np.ndarray | slice = slice(None)) -> np.ndarray:
        """The values (n, len(edges), 2) of a subset of the edges."""
        columns = np.searchsorted(self.edges, edges)
        return self.values[people, columns] if isinstance(people, slice) else self.values[np.ix_(people, columns)]


class GrowingProfiles:
    """Profiles of the same people on more and more edges.

    >>> series = [np.random.default_rng(0).normal(size=(60, 4))]
    >>> growing = GrowingProfiles(series, np.array([30]), np.array([5]))
    >>> bool((growing.of(np.array([1])) == growing.of(np.array([0, 1, 5]))[:, [1]]).all())
    True
    """

    def __init__(
        self, series: Sequence[np.ndarray], window: np.ndarray, stride: np.ndarray, stretch: int | None = None
    ) -> None:
        self._compute = partial(Profiles.compute, series, window=window, stride=stride, stretch=stretch)
        self.known = Profiles(np.empty(0, dtype=int), np.empty((len(series), 0, 2)))
        self._every = np.arange(len(edge_pairs(series[0].shape[1])))

    def of(self, edges: np.ndarray) -> np.ndarray:
        """The values (n, len(edges), 2); those of new edges are computed now."""
        new = np.setdiff1d(edges, self.known.edges)
        if len(self._every) <= NOT_LARGE and len(new) > MANY * len(self._every):
            new = np.setdiff1d(self._every, self.known.edges)
        if len(new):
            both = np.concatenate([self.known.edges, new])
            order = np.argsort(both)
            values = np.concatenate([self.known.values, self._compute(edges=new).values], axis=1)
            self.known = Profiles(both[order], values[:, order])
        return self.known.of(edges)


def shared_profiles(
    cohort: Cohort, edges: np.ndarray, window: np.ndarray, stride: np.ndarray, stretch: int | None = None
) -> Profiles:
    """Log profiles of the people of a cohort on some edges; what other folds have asked for is not computed again."""
    refuse_short(cohort.series, window, cohort.table["subject"].tolist())
    site, digests = cohort.table["site"].to_numpy().astype(str), np.array(cohort.series_digests)
    values, series = np.empty((len(cohort), len(edges), 2)), cohort.series
    for name in np.unique(site):
        here = np.flatnonzero(site == name)
        people = [series[k] for k in here]
        make = partial(GrowingProfiles, people, window[here], stride[here], stretch)
        values[here] = cohort.features.cache.get(
            ("profiles", stretch), [digests[here], window[here], stride[here]], make
        ).of(edges)
    return Profiles(edges, values)


@dataclass(frozen=True)
class Moments:
    """Number, mean and squares about the mean of values over the people who have them.

    Of the people of parts k with counts n_k, means m_k and squares about the mean q_k,

        m = sum_k n_k m_k / n,        q = sum_k q_k + n_k (m_k - m)^2,        n = sum_k n_k

    so the moments of any choice of sites follow from those of each site.

    >>> x = np.array([[1.0], [2.0], [np.nan], [6.0]])
    >>> whole = Moments.of([x[:1], x[1:]])
    >>> whole.count.tolist(), whole.mean.tolist(), whole.squares.tolist()
    ([3], [3.0], [14.0])
    """

    count: np.ndarray
    mean: np.ndarray
    squares: np.ndarray

    @classmethod
    def of(cls, batches: Iterable[np.ndarray]) -> "Moments":
        """Of people (n, ...) in batches."""
        return cls.joined([cls._of_some(x) for x in batches])

    @classmethod
    def _of_some(cls, x: np.ndarray) -> "Moments":
        present = np.isfinite(x)
        if present.all():  # several times faster
            mean = x.sum(axis=0) / max(len(x), 1)
            return cls(np.full(x.shape[1:], len(x)), mean, ((x - mean) ** 2).sum(axis=0))
        count = present.sum(axis=0)
        mean = np.sum(x, axis=0, where=present) / np.maximum(count, 1)
        return cls(count, mean, np.sum((x - mean) ** 2, axis=0, where=present))

    @classmethod
    def joined(cls, parts: Sequence["Moments"]) -> "Moments":
        """Of the people of several parts together."""
        if len(parts) == 1:
            return parts[0]
        count = np.sum([part.count for part in parts], axis=0)
        mean = sum(part.count * part.mean for part in parts) / np.maximum(count, 1)
        squares = sum(part.squares + part.count * (part.mean - mean) ** 2 for part in parts)
        return cls(count, mean, squares)

    def on(self, columns: np.ndarray) -> "Moments":
        """Of some of the values."""
        return Moments(self.count[columns], self.mean[columns], self.squares[columns])

    @property
    def scale(self) -> np.ndarray:
        """Standard deviation; 1 where there is none."""
        scale = np.sqrt(self.squares / np.maximum(self.count, 1))
        return np.where(scale > EPS, scale, 1.0)
