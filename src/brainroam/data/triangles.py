"""Rows of edges (n, M) as matrices (n, P, P): in which order a row goes through its matrix, told by the numbers.

A row of M = P(P-1)/2 numbers is a triangle of a matrix, row by row. `numpy.triu_indices(P, 1)` and MATLAB's squareform
give the upper one, nilearn's sym_matrix_to_vec the lower one; column by column they are each other's. Nothing in the
file says which, but correlations in their own order have no negative eigenvalue and in the other order many. With n(M)
their share (`edge_values.negative_share`; of Fisher's z that of tanh M), by medians over people, an order is right if

    n(M) <= `NONE` and in the other order n(M) >= 4 max(n(M), `NONE` / 2)

On ABIDE n is 0 against .03 to .28 with 10 to 116 AAL regions; with fewer, and of partial, absolute or thresholded
correlations, the order is not told. With the diagonal M is P(P+1)/2, and its places in one order hold one number.
"""

from math import isqrt

import numpy as np

from brainroam.data.edge_values import edges_alone, negative_share

ORDERS = ("upper", "lower")
WERE_READ = "were read as triangles"
AS_TRIANGLES = {order: f"{WERE_READ} of matrices, the {order} one row by row" for order in ORDERS}
NONE = 0.01
LOOKED_AT = 20  # people


def order_of(rows: np.ndarray) -> str | None:
    """``"upper"`` or ``"lower"``, the triangle that rows (n, M) are; None where M is of none or nothing tells it.

    >>> x = np.random.default_rng(0).normal(size=(5, 30, 20)) @ np.random.default_rng(1).normal(size=(20, 12))
    >>> r = np.array([np.corrcoef(one.T) for one in x])
    >>> [order_of(r[:, i, j]) for i, j in (np.triu_indices(12, 1), np.tril_indices(12, -1), np.tril_indices(12))]
    ['upper', 'lower', 'lower']
    """
    if (with_diagonal := _order_with_diagonal(rows)) or regions_of(rows.shape[1]) is None:
        return with_diagonal
    some = rows[np.unique(np.linspace(0, len(rows) - 1, LOOKED_AT).astype(int))]
    shares = {order: _share(matrices_of(some, order)) for order in ORDERS}
    right, wrong = sorted(ORDERS, key=shares.__getitem__)
    told = shares[right] <= NONE and shares[wrong] >= 4 * max(shares[right], NONE / 2)
    return right if told else None


def regions_of(width: int) -> int | None:
    """The number of regions whose matrix has a triangle of so many edges without its diagonal.

    >>> regions_of(6670), regions_of(100)
    (116, None)
    """
    n = isqrt(2 * width) + 1
    return n if n * (n - 1) == 2 * width and n > 1 else None


def untold(width: int) -> str:
    """What to do where rows may be triangles of matrices and nothing tells the order.

    >>> untold(45).partition(":")[0]
    'rows of 45 numbers may be the edges of 10 regions, but no order is told by them'
    """
    n = regions_of(width)
    return (
        f"rows of {width} numbers may be the edges of {n} regions, but no order is told by them: they are read as "
        f"columns of a table; for pathways give one array of matrices, people x {n} x {n}"
    )


def matrices_of(rows: np.ndarray, order: str) -> np.ndarray:
    """Symmetric matrices (n, P, P) from rows (n, M) in this order, with a diagonal of 1 where rows have none.

    >>> matrices_of(np.array([[0.1, 0.2, 0.3]]), "upper").tolist()
    [[[1.0, 0.1, 0.2], [0.1, 1.0, 0.3], [0.2, 0.3, 1.0]]]
    """
    skipped = 0 if _order_with_diagonal(rows) == order else 1
    n = isqrt(2 * rows.shape[1]) + skipped
    i, j = np.triu_indices(n, skipped) if order == "upper" else np.tril_indices(n, -skipped)
    matrices = np.tile(np.eye(n), (len(rows), 1, 1))
    matrices[:, i, j] = matrices[:, j, i] = rows
    return matrices


def _order_with_diagonal(rows: np.ndarray) -> str | None:
    """The order in which all places of a diagonal hold one number, if there is one."""
    n = isqrt(2 * rows.shape[1])
    if n * (n + 1) != 2 * rows.shape[1]:
        return None
    for order, (i, j) in zip(ORDERS, (np.triu_indices(n), np.tril_indices(n)), strict=True):
        if np.allclose(rows[:, i == j], rows[0, 0]) and not np.allclose(rows, rows[0, 0]):
            return order
    return None


def _share(matrices: np.ndarray) -> float:
    """The median share of negative eigenvalues; of Fisher's z that of their correlations."""
    return float(np.median([min(negative_share(x), negative_share(np.tanh(x))) for x in map(edges_alone, matrices)]))
