"""Ridge regressions of many people on many edges by conjugate gradients, without products of people.

Several problems are solved together, such as a fit and its inner folds. Problem c has its own people, scales s of the
edges and penalties p. With R (n, M) the edges of its people, F = R diag(s), t their targets, C (n, k) nuisance
variables, H the centring over its people and G = F'C the directions of the features that move with C,

    P = I - G (G'G)^+ G',        (H F P F' H + p I) a = H t,        w = P F' a

which is what `brainroam.core.ridge.DualRidge` finds from F F'. Here every iteration walks over the edges once, for all
problems and all their penalties (`brainroam.core.conjugate_gradients`). A study then grows with its people, not with
their square, and nothing of that size is held.

R is taken in single precision, since edges are known to fewer digits; all sums are in double precision.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from brainroam.core.conjugate_gradients import CACHED, solve

Blocks = Iterable[tuple[slice, np.ndarray]]


def iterative_ridge(
    blocks: Blocks,
    people: np.ndarray,
    scales: np.ndarray,
    target: np.ndarray,
    nuisance: np.ndarray,
    penalties: np.ndarray,
) -> np.ndarray:
    """Weights w (q, M, c) of the scaled edges, for q penalties of each of c problems.

    Parameters
    ----------
    blocks : iterable of (slice, ndarray of shape (n, edges))
        R of everybody, walked over again and again.
    people : ndarray of bool, shape (n, c)
        Whose problem it is.
    scales : ndarray of shape (M, c)
    target : ndarray of shape (n,)
    nuisance : ndarray of shape (n, k)
    penalties : ndarray of shape (q, c)

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(20, 50)).astype(np.float32)
    >>> problem = np.ones((20, 1), dtype=bool), np.ones((50, 1)), x[:, 0].astype(float), np.empty((20, 0))
    >>> w = iterative_ridge([(slice(0, 50), x)], *problem, np.array([[1.0]]))
    >>> bool(w[0, 0, 0] == w.max())
    True
    """
    problems = _Problems(blocks, people, scales, nuisance)
    return problems.weights(solve(problems, problems.centred(target[:, None]), penalties))


class _Problems:
    """The matrices H F P F' H of all problems, by their products with one vector each."""

    def __init__(self, blocks: Blocks, people: np.ndarray, scales: np.ndarray, nuisance: np.ndarray) -> None:
        self.blocks, self.scales, self.squares = blocks, scales, scales**2
        self.inside, self.count = people.astype(float), people.sum(axis=0)
        self.nuisance = nuisance[:, :, None] * self.inside[:, None]  # C (n, k, c)
        self.moved = self._products(self.nuisance)  # U = F F'C (n, k, c)
        inner = np.einsum("nkc,nlc->ckl", self.nuisance, self.moved)  # C'U = G'G
        self.inverse = np.linalg.pinv(inner, hermitian=True)

    def centred(self, values: np.ndarray) -> np.ndarray:
        """H times values (n, c); 0 for people of other problems."""
        inside = values * self.inside
        return inside - self.inside * (inside.sum(axis=0) / self.count)

    def __matmul__(self, centred: np.ndarray) -> np.ndarray:
        """H F P F' times values (n, c) that are centred."""
        product = self._products(centred[:, None])[:, 0]
        return self.centred(product - np.einsum("nkc,kqc->nc", self.moved, self._along(centred[:, None])))

    def weights(self, a: np.ndarray) -> np.ndarray:
        """P F'a (q, M, c) of a (n, q, c)."""
        n_people, n_penalties, n_problems = a.shape
        along, columns = self._along(a), np.concatenate([a, self.nuisance], axis=1).reshape(n_people, -1)
        found = np.empty((n_penalties, len(self.scales), n_problems))
        for edges, x in self._walk():
            features = (x.T @ columns).reshape(x.shape[1], -1, n_problems)
            kept = features[:, :n_penalties] - np.einsum("mkc,kqc->mqc", features[:, n_penalties:], along)
            found[:, edges] = (kept * self.scales[edges, None]).transpose(1, 0, 2)
        return found

    def _walk(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Some edges at a time, in double precision in one piece of memory that stays in the cache."""
        width = max(CACHED // len(self.inside), 16)
        room = np.empty((len(self.inside), width))
        for edges, block in self.blocks:
            for start in range(0, block.shape[1], width):
                some = block[:, start : start + width]
                x = room if some.shape[1] == width else np.empty(some.shape)
                np.copyto(x, some)
                first = edges.start + start
                yield slice(first, first + some.shape[1]), x

    def _products(self, values: np.ndarray) -> np.ndarray:
        """F F' times values (n, j, c), in one walk over the edges."""
        flat, total = values.reshape(len(values), -1), np.zeros_like(values).reshape(len(values), -1)
        if flat.size:
            for edges, x in self._walk():
                total += x @ ((x.T @ flat) * np.tile(self.squares[edges], values.shape[1]))
        return total.reshape(values.shape) * self.inside[:, None]

    def _along(self, values: np.ndarray) -> np.ndarray:
        """(G'G)^+ G'F' times values (n, q, c): how far they move with each nuisance variable (k, q, c)."""
        return np.einsum("ckl,nlc,nqc->kqc", self.inverse, self.moved, values)
