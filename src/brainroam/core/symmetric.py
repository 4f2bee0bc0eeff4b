"""Symmetric matrices, one per participant: functions of their eigenvalues, and their upper triangles as edges."""

from collections.abc import Callable, Iterable

import numpy as np


def spectral(matrix: np.ndarray, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Apply a function to the eigenvalues of symmetric matrices (..., P, P).

    >>> spectral(np.diag([1.0, 4.0]), np.sqrt).tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * function(values)[..., None, :]) @ np.swapaxes(vectors, -1, -2)


def edge_vectors(matrices: Iterable[np.ndarray], missing: np.ndarray) -> np.ndarray:
    """Upper triangles (n, M) of one matrix per participant, NaN at the edges of regions without signal.

    >>> edge_vectors([np.array([[1.0, 0.5], [0.5, 1.0]])], np.array([[False, False]])).tolist()
    [[0.5]]
    """
    n_people, n_rois = missing.shape
    u, v = np.triu_indices(n_rois, 1)
    flat = u * n_rois + v
    vectors = np.empty((n_people, len(flat)))
    for vector, matrix in zip(vectors, matrices, strict=True):
        np.take(matrix.reshape(-1), flat, out=vector)
    vectors[missing[:, u] | missing[:, v]] = np.nan
    return vectors
