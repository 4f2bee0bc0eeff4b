"""Positive semidefinite systems with several penalties each, by conjugate gradients with shifts.

    (A + p I) a = t

needs products of A with vectors only. The Krylov space does not depend on p, so that one product per iteration serves
all penalties of a problem: the smallest is iterated, and for another one, p + shift, residuals stay parallel to those
of the first, with the ratio ``ratio`` (B. Jegerlehner, hep-lat/9612014).
"""

import warnings
from typing import Protocol

import numpy as np
from sklearn.exceptions import ConvergenceWarning

TOL = 1e-11  # of the residual, relative to the target
MAX_STEPS = 500
CACHED = 2**17  # numbers that a product works on at a time: a megabyte, which a core keeps beside it


class Products(Protocol):
    """Matrices A of c problems, by their products with one vector each."""

    def __matmul__(self, values: np.ndarray, /) -> np.ndarray:
        """A times values (n, c)."""


def solve(matrix: Products, target: np.ndarray, penalties: np.ndarray) -> np.ndarray:
    """Solutions a (n, q, c) for q penalties (q, c) of each of c problems with targets (n, c).

    >>> solve(np.diag([1.0, 3.0]), np.ones((2, 1)), np.array([[1.0], [2.0]]))[:, :, 0].round(3).tolist()
    [[0.5, 0.333], [0.25, 0.2]]
    """
    base = penalties.min(axis=0)
    shift = penalties - base
    solution = np.zeros((len(target), *penalties.shape))
    residual = target.copy()
    direction, directions = target.copy(), np.repeat(target[:, None], len(penalties), axis=1)
    size = goal = (residual**2).sum(axis=0)
    before = ratio = np.ones_like(penalties)
    last, growth = np.ones_like(base), np.zeros_like(base)
    for _ in range(MAX_STEPS):
        going_on = size > TOL**2 * goal
        if not going_on.any():
            return solution
        image = matrix @ direction + base * direction
        length = going_on * _divided(size, (direction * image).sum(axis=0))  # 0 for problems that are solved
        new = _divided(ratio * before * last, length * growth * (before - ratio) + before * last * (1 + shift * length))
        step = _divided(length * new, ratio)
        solution += step * directions
        residual -= length * image
        last = np.where(going_on, length, last)
        size, growth = (residual**2).sum(axis=0), going_on * _divided((residual**2).sum(axis=0), size)
        direction = residual + growth * direction
        directions = new * residual[:, None] + growth * _divided(new, ratio) ** 2 * directions
        before, ratio = ratio, new
    warnings.warn(
        f"a ridge did not converge in {MAX_STEPS} steps; use larger penalties", ConvergenceWarning, stacklevel=2
    )
    return solution


def _divided(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """The quotient; 0 once a problem is solved exactly and nothing is left to divide by."""
    return np.divide(above, below, out=np.zeros(np.broadcast_shapes(above.shape, below.shape)), where=below != 0)
