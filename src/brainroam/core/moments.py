"""Mean and spread over people, put together from parts of them.

Of the people of parts k with counts n_k, means m_k and squares about the mean q_k,

    m = sum_k n_k m_k / n,        q = sum_k q_k + n_k (m_k - m)^2,        n = sum_k n_k

so the moments of any choice of sites follow from those of each site.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from brainroam.core.ridge import EPS


@dataclass(frozen=True)
class Moments:
    """Number, mean and squares about the mean of values over the people who have them.

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
