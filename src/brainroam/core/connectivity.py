"""Features of people: from series to edge values, and what matrices and tables give instead.

Edge j joins the regions ``(u_j, v_j)``, ``u_j < v_j``, in the order of ``numpy.triu_indices(P, 1)``; nilearn vectorises
the lower triangle instead, see `nilearn_order`. An edge of a region without signal (constant or not finite) does not
exist: it is NaN, never 0.

With R the Pearson matrix of one person and ``R_a = (1 - a) R + a I`` (shrinkage a), the edge values are

=================  =========================================================================================
``pearson``        r = R[u, v]                                                     (the paper's choice)
``log``            log(R_a)[u, v], the matrix logarithm
``cofluctuation``  log(Q_a)[u, v], Q = S'(G o G)S with unit diagonal, see below
``partial``        -Q[u, v] / sqrt(Q[u, u] Q[v, v]) with Q = R_a^-1
``lag``            (L[u, v] - L[v, u]) / 2 with L[u, v] = corr(x_u(t), x_v(t + 1)): how much u leads v by a volume
=================  =========================================================================================

With ``robust=True`` R is the spatial-sign correlation: every volume, z-scored over time, is scaled to unit length
before R is taken, so that no single moment (a jerk of the head) weighs more than another.

Co-fluctuation: the rows of S (T, P) are the z-scored volumes at unit length and G = S S', so that a moment counts by
how much the rest of the scan repeats its pattern.

A person's matrix, where a cohort has no series, stands for R: its values are the edges of kind ``pearson``, whatever
they are, and ``log`` and ``partial`` are taken of it as a correlation matrix (divided by its largest value, where that
is beyond 1, as with counts of streamlines). It has no time course, so no other kind. A table has no edges: its row is
the features, of any kind.

All these are transforms of one person alone, so they cannot leak. `TangentEdges` needs a reference learned from
training people, see `brainroam.core.tangent`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from brainroam.core.tangent import TangentEdges as TangentEdges
from brainroam.data.cohort import Cohort
from brainroam.data.edge_values import largest_edge
from brainroam.data.measurements import edge_vectors, missing_rois, spectral, without_signal
from brainroam.errors import DataError, unknown

KINDS = ("pearson", "log", "cofluctuation", "partial", "lag")
OF_MATRICES = ("pearson", "log", "partial")
LEAST_EIGENVALUE = 1e-3  # of a matrix whose logarithm is taken; sample correlations with shrinkage have none smaller
SHRUNK = ("log", "cofluctuation", "partial")
BLOCK = 1024  # edges worked on together


class EdgeKind(NamedTuple):
    """What `edges` computes: the kind, its shrinkage and whether correlations are spatial-sign ones."""

    kind: str = "pearson"
    shrinkage: float = 0.5
    robust: bool = False


PEARSON = EdgeKind()


def edge_pairs(n_rois: int) -> np.ndarray:
    """Region pairs (M, 2) of all edges, M = P(P-1)/2.

    >>> edge_pairs(3).tolist()
    [[0, 1], [0, 2], [1, 2]]
    """
    return np.stack(np.triu_indices(n_rois, 1), axis=1)


def nilearn_order(n_rois: int) -> np.ndarray:
    """Where each of our edges stands in nilearn's lower-triangle vector: ``ours = theirs[..., nilearn_order(P)]``.

    >>> nilearn_order(4).tolist()
    [0, 1, 3, 2, 4, 5]
    """
    u, v = np.triu_indices(n_rois, 1)
    return v * (v - 1) // 2 + u


def edges_to_matrix(edges: np.ndarray) -> np.ndarray:
    """Symmetric (P, P) matrices, zero on the diagonal, from edge vectors (..., M).

    >>> edges_to_matrix(np.array([1.0, 2.0, 3.0])).tolist()
    [[0.0, 1.0, 2.0], [1.0, 0.0, 3.0], [2.0, 3.0, 0.0]]
    """
    n_rois = n_rois_of(edges.shape[-1])
    u, v = np.triu_indices(n_rois, 1)
    matrix = np.zeros((*edges.shape[:-1], n_rois, n_rois), dtype=edges.dtype)
    matrix[..., u, v] = matrix[..., v, u] = edges
    return matrix


def n_rois_of(n_edges: int) -> int:
    """Number of regions P behind M = P(P-1)/2 edges."""
    n_rois = round((1 + float(np.sqrt(1 + 8 * n_edges))) / 2)
    if n_rois * (n_rois - 1) // 2 != n_edges:
        raise DataError(f"{n_edges} edges are not the upper triangle of any square matrix")
    return n_rois


def pearson_edges(series: Sequence[np.ndarray]) -> np.ndarray:
    """Pearson correlations of every pair of regions, (n, M); NaN where a region has no signal.

    >>> x = np.random.default_rng(0).normal(size=(30, 3))
    >>> bool(np.allclose(pearson_edges([x])[0], np.corrcoef(x.T)[np.triu_indices(3, 1)]))
    True
    """
    return edges(series, kind="pearson")


def edges(
    series: Sequence[np.ndarray], kind: str = "pearson", shrinkage: float = 0.5, robust: bool = False
) -> np.ndarray:
    """Edge values (n, M) of one kind, see the module's table.

    Parameters
    ----------
    series : sequence of ndarray of shape (T_i, P)
    kind : {"pearson", "log", "cofluctuation", "partial", "lag"}
    shrinkage : float in (0, 1]
        The a of ``R_a``; used by ``"log"``, ``"cofluctuation"`` and ``"partial"`` only.
    robust : bool
        Spatial-sign instead of Pearson correlation.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(50, 4))
    >>> edges([x], kind="log").shape
    (1, 6)
    """
    if kind not in KINDS:
        raise unknown("edge kind", kind, KINDS)
    if kind in SHRUNK and not 0 < shrinkage <= 1:
        raise DataError(f"shrinkage must lie in (0, 1], got {shrinkage}")
    missing = without_signal(series)
    people = zip(series, missing, strict=True)
    with threadpool_limits(1, "blas"):  # the matrices are small: threads would wait for each other
        return edge_vectors((_edge_matrix(x, gone, kind, shrinkage, robust) for x, gone in people), missing)


def cohort_edges(cohort: Cohort, kind: str = "pearson", shrinkage: float = 0.5, robust: bool = False) -> np.ndarray:
    """Features (n, M) of every person, computed once for a cohort and all its subsets; NaN where missing."""
    wanted = EdgeKind(kind, shrinkage, robust)
    return cohort.per_person(edge_name(wanted), lambda arrays: features(arrays, cohort.measure, wanted))


def readable_kind(kind: EdgeKind, measure: str, own_units: bool) -> EdgeKind:
    """The kind of edges to read: of matrices in units of their own the edges as they are, whatever is asked for.

    Counts of streamlines and covariances are no correlations, whose logarithm says something.
    """
    return PEARSON if measure == "matrices" and own_units else kind


def features(arrays: Sequence[np.ndarray], measure: str, kind: EdgeKind) -> np.ndarray:
    """Features (n, M) of arrays that are series, matrices or rows of a table.

    >>> features([np.array([[1.0, 5.0]]), np.array([[2.0, 3.0]])], "table", EdgeKind()).tolist()
    [[1.0, 5.0], [2.0, 3.0]]
    """
    if measure == "table":
        return np.concatenate(list(arrays))
    return matrix_edges(arrays, kind) if measure == "matrices" else edges(arrays, *kind)


def matrix_edges(matrices: Sequence[np.ndarray], kind: EdgeKind) -> np.ndarray:
    """Edge values (n, M) of connectivity matrices; NaN where missing.

    >>> matrix_edges([np.array([[1.0, 0.5], [0.5, 1.0]])], EdgeKind("pearson")).tolist()
    [[0.5]]
    """
    if kind.kind not in OF_MATRICES:
        raise DataError(f"{kind.kind} edges need time series; matrices give {', '.join(OF_MATRICES)}")
    missing = missing_rois(matrices, "matrices")
    with threadpool_limits(1, "blas"):
        return edge_vectors((_transform_matrix(x, kind) for x in matrices), missing)


def _transform_matrix(x: np.ndarray, kind: EdgeKind) -> np.ndarray:
    """One person's matrix of edge values; for a transform of all of it, a missing edge counts as 0."""
    if kind.kind == "pearson":
        return x
    shrunk = _shrunk(x / max(largest_edge(x), 1.0), kind.shrinkage)
    shrunk = np.nan_to_num(shrunk)
    transformed = spectral(shrunk, _log_of_positive) if kind.kind == "log" else _partial(shrunk)
    return np.where(np.isnan(x), np.nan, transformed)


def _log_of_positive(values: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(values, LEAST_EIGENVALUE))


def edge_blocks(n_edges: int) -> list[slice]:
    """All edges in blocks, the same in memory and on disk, so that sums over edges are the same numbers.

    >>> edge_blocks(1500)
    [slice(0, 1024, None), slice(1024, 1500, None)]
    """
    return [slice(start, min(start + BLOCK, n_edges)) for start in range(0, n_edges, BLOCK)]


def edge_name(kind: EdgeKind) -> str:
    """Name of a kind of edges among the features of a cohort."""
    shrinkage = f"-{kind.shrinkage:g}" if kind.kind in SHRUNK else ""
    return f"edges-{kind.kind}{shrinkage}{'-robust' if kind.robust and kind.kind != 'cofluctuation' else ''}"


def _edge_matrix(x: np.ndarray, gone: np.ndarray, kind: str, shrinkage: float, robust: bool) -> np.ndarray:
    """One person's matrix of edge values; a region without signal is correlated with itself alone."""
    z = _unit_columns(x, gone)
    if robust or kind == "cofluctuation":
        length = np.sqrt(np.einsum("ij,ij->i", z, z))[:, None]
        z = z / np.where(length > 0, length, 1)
    if kind == "cofluctuation":
        return spectral(_shrunk(_cofluctuation(z), shrinkage), np.log)
    if robust:
        z = _unit_columns(z, gone)
    if kind == "lag":
        lagged = z[:-1].T @ z[1:]
        return (lagged - lagged.T) / 2
    if kind == "log" and 2 * len(z) < z.shape[1]:
        return _log_of_few_volumes(z, shrinkage)
    correlation = np.clip(z.T @ z, -1, 1)
    if kind == "pearson":
        return correlation
    shrunk = _shrunk(correlation, shrinkage)
    return spectral(shrunk, np.log) if kind == "log" else _partial(shrunk)


def _shrunk(matrix: np.ndarray, shrinkage: float) -> np.ndarray:
    """(1 - a) R + a I, for R with a unit diagonal."""
    shrunk = (1 - shrinkage) * matrix
    np.fill_diagonal(shrunk, 1)
    return shrunk


def _log_of_few_volumes(z: np.ndarray, shrinkage: float) -> np.ndarray:
    """log R_a of R = Z'Z with fewer volumes T than regions P, off the diagonal, from T x T matrices.

    With Z Z' = U diag(d) U', R has the eigenvectors v_k = Z'u_k / sqrt(d_k), and all others share the eigenvalue 0:

        log R_a = log(a) I + sum_k  (log((1 - a) d_k + a) - log a) v_k v_k'
    """
    values, vectors = np.linalg.eigh(z @ z.T)
    values = np.maximum(values, 0)
    gain = np.log1p((1 - shrinkage) / shrinkage * values)
    per_value = np.divide(gain, values, out=np.full_like(values, (1 - shrinkage) / shrinkage), where=values > 1e-12)
    rotated = vectors.T @ z
    return (rotated.T * per_value) @ rotated


def _cofluctuation(s: np.ndarray) -> np.ndarray:
    """Q = S'(G o G)S, G = S S', scaled to a unit diagonal."""
    g = s @ s.T
    q = s.T @ (g * g @ s)
    scale = np.sqrt(np.diag(q))
    scale[scale == 0] = 1  # a region without signal
    return q / np.outer(scale, scale)


def _unit_columns(x: np.ndarray, gone: np.ndarray) -> np.ndarray:
    """Each region centred and scaled to unit length; zero where it has no signal."""
    z = x - x.mean(axis=0)
    if gone.any():
        z[:, gone] = 0
    length = np.sqrt(np.einsum("ij,ij->j", z, z))
    z /= np.where(length > 0, length, 1)
    return z


def _partial(matrix: np.ndarray) -> np.ndarray:
    precision = np.linalg.inv(matrix)
    scale = np.sqrt(np.diag(precision))
    return -precision / np.outer(scale, scale)


def zero_where_missing(values: np.ndarray) -> np.ndarray:
    """The same array with 0 in the place of NaN.

    >>> zero_where_missing(np.array([1.0, np.nan])).tolist()
    [1.0, 0.0]
    """
    np.copyto(values, 0, where=np.isnan(values))
    return values
