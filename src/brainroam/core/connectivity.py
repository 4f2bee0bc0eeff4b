"""Static connectivity: from series to edge values.

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

All these are transforms of one person alone, so they cannot leak. `TangentEdges` needs a reference learned from
training people: log(G^-1/2 C G^-1/2)[u, v] with C the Ledoit-Wolf covariance and G their geometric mean.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from brainroam.data.cohort import Cohort, missing_rois
from brainroam.data.validation import refuse_no_series
from brainroam.errors import DataError, listed, unknown

KINDS = ("pearson", "log", "cofluctuation", "partial", "lag")
SHRUNK = ("log", "cofluctuation", "partial")


class EdgeKind(NamedTuple):
    """What `edges` computes: the kind, its shrinkage and whether correlations are spatial-sign ones."""

    kind: str = "pearson"
    shrinkage: float = 0.5
    robust: bool = False


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
    missing = _gate(series)
    people = zip(series, missing, strict=True)
    with threadpool_limits(1, "blas"):  # the matrices are small: threads would wait for each other
        return _edge_vectors((_edge_matrix(x, gone, kind, shrinkage, robust) for x, gone in people), missing)


def cohort_edges(cohort: Cohort, kind: str = "pearson", shrinkage: float = 0.5, robust: bool = False) -> np.ndarray:
    """Edge values (n, M) of every person, computed once for a cohort and all its subsets; NaN where missing."""
    return cohort.per_person(
        _name(EdgeKind(kind, shrinkage, robust)), lambda series: edges(series, kind, shrinkage, robust)
    )


def keep_edges(cohort: Cohort, kind: EdgeKind, values: np.ndarray | None = None) -> bool:
    """Give a cohort the edge values that `cohort_edges` would compute; without values, whether it has them."""
    if values is not None:
        cohort.per_person(_name(kind), lambda _: values)
    return cohort.has_per_person(_name(kind))


def _name(kind: EdgeKind) -> str:
    shrinkage = f"-{kind.shrinkage:g}" if kind.kind in SHRUNK else ""
    return f"edges-{kind.kind}{shrinkage}{'-robust' if kind.robust and kind.kind != 'cofluctuation' else ''}"


class TakesSeries:
    """Tells scikit-learn that X is a series for each person: a list of arrays, or one array of three dimensions."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.two_d_array, tags.input_tags.three_d_array, tags.input_tags.allow_nan = False, True, True
        return tags


class TangentEdges(TakesSeries, TransformerMixin, BaseEstimator):
    """Tangent-space edges; the reference is the geometric mean of the people it was fitted on.

    Equal to nilearn's ``ConnectivityMeasure(kind="tangent")`` (Ledoit-Wolf covariance of the raw series) up to the
    edge order, and, unlike it, applicable to one person at a time.

    Parameters
    ----------
    max_iter : int
        Gradient steps of the geometric mean (Fletcher & Joshi 2007).
    tol : float
        Stop when the mean absolute gradient falls below this.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> people = [rng.normal(size=(60, 4)) for _ in range(5)]
    >>> TangentEdges().fit(people).transform(people[:1]).shape
    (1, 6)
    """

    def __init__(self, max_iter: int = 30, tol: float = 1e-7) -> None:
        self.max_iter = max_iter
        self.tol = tol

    def fit(self, series: Sequence[np.ndarray], y: object = None) -> Self:
        """Learn the reference from training people."""
        with threadpool_limits(1, "blas"):
            covariances = np.stack([_ledoit_wolf(x, gone) for x, gone in zip(series, _gate(series), strict=True)])
            self.reference_ = _geometric_mean(covariances, self.max_iter, self.tol)
        self.whitening_ = spectral(self.reference_, lambda w: 1 / np.sqrt(w))
        return self

    def transform(self, series: Sequence[np.ndarray]) -> np.ndarray:
        """Edge values (n, M), each person on their own."""
        check_is_fitted(self)
        missing = _gate(series)
        covariances = (_ledoit_wolf(x, gone) for x, gone in zip(series, missing, strict=True))
        with threadpool_limits(1, "blas"):
            return _edge_vectors(
                (spectral(self.whitening_ @ c @ self.whitening_, np.log) for c in covariances), missing
            )


def spectral(matrix: np.ndarray, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Apply a function to the eigenvalues of symmetric matrices (..., P, P).

    >>> spectral(np.diag([1.0, 4.0]), np.sqrt).tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * function(values)[..., None, :]) @ np.swapaxes(vectors, -1, -2)


def _gate(series: Sequence[np.ndarray]) -> np.ndarray:
    """Regions without signal (n, P), of what really are series."""
    if not len(series):
        raise DataError("no people were given")
    for i, x in enumerate(series):
        refuse_no_series(np.asarray(x), f"person {i}")
    widths = {np.shape(x)[1] for x in series}
    if len(widths) > 1:
        raise DataError(f"series of {listed(sorted(widths))} regions cannot be compared: all must come from one atlas")
    return missing_rois(series)


def _edge_vectors(matrices: Iterator[np.ndarray], missing: np.ndarray) -> np.ndarray:
    """Upper triangles of one matrix per person, NaN at the edges of regions without signal."""
    n_people, n_rois = missing.shape
    u, v = np.triu_indices(n_rois, 1)
    flat = u * n_rois + v
    vectors = np.empty((n_people, len(flat)))
    for vector, matrix in zip(vectors, matrices, strict=True):
        np.take(matrix.reshape(-1), flat, out=vector)
    vectors[missing[:, u] | missing[:, v]] = np.nan
    return vectors


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


def _ledoit_wolf(x: np.ndarray, gone: np.ndarray) -> np.ndarray:
    """Ledoit-Wolf covariance: (1 - s) S + s mean(diag S) I with the s that minimises the expected squared error."""
    n, p = x.shape
    z = np.where(gone, 0, x)
    z = z - z.mean(axis=0)
    covariance = z.T @ z / n
    mu = np.trace(covariance) / p
    squared = np.einsum("ij,ij->i", z, z)
    total = np.sum(covariance**2)
    beta = (np.sum(squared**2) / n - total) / (p * n)
    delta = (total - p * mu**2) / p
    shrinkage = min(beta, delta) / delta if delta > 0 else 0.0
    covariance *= 1 - shrinkage
    covariance.flat[:: p + 1] += shrinkage * mu
    return covariance


def _geometric_mean(matrices: np.ndarray, max_iter: int, tol: float) -> np.ndarray:
    """Minimiser of the summed squared affine-invariant distances, by steps along the mean of the logarithms."""
    mean, step, best = matrices.mean(axis=0), 1.0, np.inf
    for _ in range(max_iter):
        values, vectors = np.linalg.eigh(mean)
        root = (vectors * np.sqrt(values)) @ vectors.T
        inverse_root = (vectors / np.sqrt(values)) @ vectors.T
        # A running sum: the logarithms of everybody at once would be as large as all the matrices again.
        gradient = np.zeros_like(mean)
        for c in matrices:
            gradient += spectral(inverse_root @ c @ inverse_root, np.log) / len(matrices)
        mean = root @ spectral(step * gradient, np.exp) @ root
        norm = float(np.linalg.norm(gradient))
        if norm > best:
            step /= 2
        best = min(best, norm)
        if best / mean.size < tol:
            break
    return mean
