"""Line graph of the scaffold: its nodes are scaffold edges, joined where two edges share a region.

    a     = |d_com| on S                     mu0 = (a - mean a) / (std a + eps)
    A_pq  = exp(-|mu0_p - mu0_q| / (max mu0 - min mu0 + eps))        for p != q that share a region, else 0
    A^    = A + I,   D = diag(A^ 1),         A~  = D^-1/2 A^ D^-1/2

Two distinct edges share at most one region, so the graph is a disjoint sum of cliques, one per region: it is built
from the incidence lists in time proportional to its non-zeros and never exists as a dense matrix.
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
    propagation : scipy.sparse CSR array of shape (M_S, M_S)
        A~, symmetric, eigenvalues in (-1, 1].
    """

    prior: np.ndarray
    propagation: sparse.csr_array

    def __len__(self) -> int:
        return len(self.prior)


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
    p, q = _neighbours(np.asarray(pairs))
    weight = np.exp(-np.abs(prior[p] - prior[q]) / (np.ptp(prior) + EPS))
    n = len(prior)
    adjacency = sparse.csr_array((weight, (p, q)), shape=(n, n)) + sparse.eye_array(n, format="csr")
    root = 1 / np.sqrt(adjacency.sum(axis=1))
    propagation = (sparse.diags_array(root) @ adjacency @ sparse.diags_array(root)).tocsr()
    propagation.sort_indices()
    return LineGraph(prior, propagation)


def _neighbours(pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All ordered pairs (p, q), p != q, of edges that share a region: every region contributes a clique."""
    region = pairs.T.reshape(-1)
    edge = np.tile(np.arange(len(pairs)), 2)
    order = np.argsort(region, kind="stable")
    cliques = np.split(edge[order], np.flatnonzero(np.diff(region[order])) + 1)
    p = np.concatenate([np.repeat(clique, len(clique)) for clique in cliques])
    q = np.concatenate([np.tile(clique, len(clique)) for clique in cliques])
    return p[p != q], q[p != q]
