"""Line graph of the scaffold: its nodes, the pathways, are scaffold edges, joined where two edges share a region.

    a     = |d_com| on S                     mu0 = (a - mean a) / (std a + eps)
    A_pq  = exp(-|mu0_p - mu0_q| / (max mu0 - min mu0 + eps))        for p != q that share a region, else 0
    A^    = A + I,   D = diag(A^ 1),         A~  = D^-1/2 A^ D^-1/2

Two distinct edges share at most one region, so the graph is a disjoint sum of cliques, one per region: it is built
from the incidence lists in time proportional to its non-zeros, and neither A nor A~ is kept as a matrix.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

EPS = 1e-8


@dataclass(frozen=True, eq=False)
class LineGraph:
    """Prior and propagation over scaffold edges.

    Attributes
    ----------
    prior : ndarray of shape (M_S,)
        mu0, the standardised size of the consensus contrast.
    cliques : list of ndarray
        The scaffold edges that end at each region, for regions where some do.
    root : ndarray of shape (M_S,)
        The diagonal of D^-1/2.
    """

    prior: np.ndarray
    cliques: list[np.ndarray]
    root: np.ndarray

    def __len__(self) -> int:
        return len(self.prior)

    def weights(self, p: np.ndarray, q: np.ndarray) -> np.ndarray:
        """A~_pq of scaffold edges that share a region, or are the same."""
        return _similarity(self.prior, p, q) * self.root[p] * self.root[q]

    @property
    def propagation(self) -> sparse.csr_array:
        """A~ (M_S, M_S), symmetric, eigenvalues in (-1, 1]; put together when asked for, since it can be large."""
        p = np.concatenate([np.repeat(clique, len(clique)) for clique in self.cliques])
        q = np.concatenate([np.tile(clique, len(clique)) for clique in self.cliques])
        neighbours, everyone = p != q, np.arange(len(self))
        p, q = np.concatenate([p[neighbours], everyone]), np.concatenate([q[neighbours], everyone])
        return sparse.csr_array((self.weights(p, q), (p, q)), shape=(len(self), len(self)))


def line_graph(pairs: np.ndarray, consensus: np.ndarray) -> LineGraph:
    """Build the line graph of the scaffold edges.

    Parameters
    ----------
    pairs : ndarray of int, shape (M_S, 2)
        The two regions of each scaffold edge.
    consensus : ndarray of shape (M_S,)
        d_com of each scaffold edge.

    Examples
    --------
    >>> graph = line_graph(np.array([[0, 1], [1, 2], [3, 4]]), np.array([0.1, -0.2, 0.3]))
    >>> (graph.propagation.toarray() > 0).astype(int).tolist()
    [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    """
    size = np.abs(np.asarray(consensus, dtype=float))
    prior = (size - size.mean()) / (size.std() + EPS)
    cliques = _cliques(np.asarray(pairs))
    degree = np.ones(len(prior))
    for clique in cliques:
        degree[clique] += _similarity(prior, clique[:, None], clique).sum(axis=1) - 1  # not to itself
    return LineGraph(prior, cliques, 1 / np.sqrt(degree))


def _similarity(prior: np.ndarray, p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """A^_pq of edges that share a region, or are the same."""
    return np.exp(-np.abs(prior[p] - prior[q]) / (np.ptp(prior) + EPS))


def _cliques(pairs: np.ndarray) -> list[np.ndarray]:
    """The edges at each region."""
    region = pairs.T.reshape(-1)
    edge = np.tile(np.arange(len(pairs)), 2)
    order = np.argsort(region, kind="stable")
    return np.split(edge[order], np.flatnonzero(np.diff(region[order])) + 1)
