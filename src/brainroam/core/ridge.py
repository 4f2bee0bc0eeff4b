"""Ridge regression, in the features or in the people, and every refit that leaves one group of people out.

There are two solvers. The dense one (Cholesky) is `DualRidge` and `ridge_weights`; where both people and features are
many, `solve` iterates.

**Dense.** With R (n, M) the features of the training people, K = R R', t their targets, p the penalty and C (n, k)
nuisance variables, `DualRidge` fits a ridge with a free intercept on features that do not move with C: the directions
G = R'C are projected out of everybody's features.

    B    = (K + p I)^-1,    U = K C,    S = C'U                      S = G'G
    B'   = B + B U (S - U'B U)^-1 U'B                                inverse of K - U S^-1 U' + p I
    a    = B'(t - c 1),     c = 1'B't / 1'B'1
    beta = a - C S^-1 U'a,                                           weights of the features: w = R' beta

Leaving out the people of group b needs no other inverse: with "rest" everybody else, for any V,

    (K_rest + p I)^-1 V_rest = (B V)_rest - B_rest,b (B_bb)^-1 (B V)_b

so inner leave-one-site-out costs little more than one fit.

**Iterative.** Positive semidefinite systems with several penalties each,

    (A + p I) a = t

need products of A with vectors only. The Krylov space does not depend on p, so that one product per iteration serves
all penalties of a problem: the smallest is iterated, and for another one, p + shift, residuals stay parallel to those
of the first, with the ratio ``ratio`` (B. Jegerlehner, hep-lat/9612014). A is X'X (`FeatureProducts`), or that of a
ridge on many edges without nuisance variables (`iterative_ridge`).

There, several problems are solved together, such as a fit and its inner folds. Problem c has its own people, scales s
of the edges and penalties p. With R (n, M) the edges of its people, F = R diag(s), t their targets, C (n, k) nuisance
variables, H the centring over its people and G = F'C the directions of the features that move with C,

    P = I - G (G'G)^+ G',        (H F P F' H + p I) a = H t,        w = P F' a

which is what `DualRidge` finds from F F'. Every iteration walks over the edges once, for all
problems and all their penalties. A study then grows with its people, not with their square, and nothing of that size is
held. R is taken in single precision, since edges are known to fewer digits; all sums are in double precision.
"""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from scipy.linalg.lapack import dposv, dpotrf, dpotri
from sklearn.exceptions import ConvergenceWarning

from brainroam.errors import UsageError

EPS = 1e-8
LARGE = 1000  # people and features, both more than this: iterations cost less than products of them
STRONG = 1.0  # a weaker penalty would take many iterations
TOL = 1e-11  # of the residual, relative to the target
MAX_STEPS = 500
CACHED = 2**17  # numbers that a product works on at a time: a megabyte, which a core keeps beside it


class DualRidge:
    """A ridge in the space of the people.

    Parameters
    ----------
    gram : ndarray of shape (n, n)
        K, the products of the training people's features.
    penalty : float
        p, in the units of ``gram``.
    nuisance : ndarray of shape (n, k), optional
        C; a column of zeros takes nothing away.
    shared : ndarray of shape (n, n), optional
        Covariance of what people share beside the features, such as a level of their site: added to K in B alone. C
        must be free of it (shared C = 0), as it is without its means at the sites.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(20, 50))
    >>> ridge = DualRidge(x @ x.T, 1.0)
    >>> w = x.T @ ridge.weights(x[:, 0])
    >>> bool(w[0] == w.max())
    True
    """

    def __init__(
        self,
        gram: np.ndarray,
        penalty: float,
        nuisance: np.ndarray | None = None,
        shared: np.ndarray | None = None,
    ) -> None:
        require_penalties(penalty)
        self.gram, self.penalty = gram, penalty
        self.nuisance = np.zeros((len(gram), 0)) if nuisance is None else nuisance
        self._inverse = _inverse(gram if shared is None else gram + shared, penalty)
        self._gram_nuisance = gram @ self.nuisance

    def weights(self, target: np.ndarray, without: np.ndarray | None = None) -> np.ndarray:
        """beta (n,) of a fit on everybody, or on everybody but the people at these positions, who get 0."""
        rest = np.ones(len(self.gram), dtype=bool)
        solved = self._inverse @ np.column_stack([target, np.ones(len(target)), self.nuisance])
        moved = self._gram_nuisance
        if without is not None and len(without):
            rest[without] = False
            inside = self._inverse[np.ix_(without, without)]
            solved = solved - self._inverse[:, without] @ np.linalg.solve(inside, solved[without])
            moved = moved - self.gram[:, without] @ self.nuisance[without]
        beta = np.zeros(len(target))
        beta[rest] = self._project(target[rest], solved[rest], self.nuisance[rest], moved[rest])
        return beta

    def _project(self, t: np.ndarray, solved: np.ndarray, c: np.ndarray, u: np.ndarray) -> np.ndarray:
        """beta of these people from B [t, 1, C], C and U."""
        s = c.T @ u
        bu = c - self.penalty * solved[:, 2:]  # B U = B (B^-1 - p I) C
        inner = np.linalg.pinv(s - u.T @ bu, hermitian=True)
        bt, b1 = (solved[:, k] + bu @ (inner @ (bu.T @ v)) for k, v in enumerate((t, np.ones(len(t)))))
        total = b1.sum()
        a = bt - b1 * (bt.sum() / total if abs(total) > EPS else 0.0)
        return a - c @ (np.linalg.pinv(s, hermitian=True) @ (u.T @ a))


def without_directions(x: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """Rows x (n, M) without their part along the directions (M, k).

    >>> without_directions(np.array([[1.0, 1.0], [-1.0, 1.0]]), np.array([[2.0], [0.0]])).tolist()
    [[0.0, 1.0], [0.0, 1.0]]
    """
    inverse = np.linalg.pinv(directions.T @ directions, hermitian=True)
    return x - (x @ directions) @ inverse @ directions.T


def _inverse(gram: np.ndarray, penalty: float) -> np.ndarray:
    """B = (K + p I)^-1."""
    matrix = gram.copy()
    matrix.flat[:: len(matrix) + 1] += penalty
    factor, failed = dpotrf(matrix.T, lower=0, overwrite_a=1)
    if failed:
        raise UsageError(f"the penalty {penalty:g} is too small for these features; use a larger one")
    inverse, _ = dpotri(factor, lower=0, overwrite_c=1)
    for k in range(len(inverse)):
        inverse[k + 1 :, k] = inverse[k, k + 1 :]
    return inverse


def ridge_weights(x: np.ndarray, target: np.ndarray, *penalties: float) -> np.ndarray:
    """Ridge coefficients, averaged over penalties, of features scaled so that people have unit mean square length.

    Of several targets (n, K) there are coefficients (M, K), from one solution with K right-hand sides.
    A penalty then means the same for any number and scale of features. Solved in the Gram matrix of the people or of
    the features, whichever are fewer; where both are many, by iterations that need neither.

    >>> x = np.random.default_rng(0).normal(size=(20, 50))
    >>> w = ridge_weights(x, x[:, 0], 1.0)
    >>> bool(w[0] == w.max())
    True
    """
    return ridge_candidates(x, target, [penalties])[0]


class Rows(NamedTuple):
    """Further rows of a regression beside those of people: features (E, M) and targets (E,), weighted and centred."""

    features: np.ndarray
    target: np.ndarray


def ridge_candidates(
    x: np.ndarray,
    target: np.ndarray,
    candidates: Sequence[Sequence[float]],
    rows: Rows | None = None,
) -> list[np.ndarray]:
    """`ridge_weights` for each of several choices of penalties, from one matrix; with further ``rows``."""
    for penalties in candidates:
        require_penalties(*penalties)
    centred = target - target.mean(axis=0)
    if rows is None and min(x.shape) > LARGE and min(map(min, candidates)) >= STRONG:
        return [_solve_iteratively(x, centred, penalties) for penalties in candidates]
    if x.shape[1] < len(x):
        gram, products = x.T @ x, x.T @ centred
        if rows is not None:
            gram = gram + rows.features.T @ rows.features
            products = products + rows.features.T @ rows.target
        return [ridge_of_products(gram, products, len(x), *penalties) for penalties in candidates]
    gram = x @ x.T
    if rows is None:
        return [x.T @ ridge_of_products(gram, centred, len(x), *penalties) for penalties in candidates]
    mixed = x @ rows.features.T
    gram = np.block([[gram, mixed], [mixed.T, rows.features @ rows.features.T]])
    centred = np.append(centred, rows.target)
    duals = [ridge_of_products(gram, centred, len(x), *penalties) for penalties in candidates]
    return [x.T @ dual[: len(x)] + rows.features.T @ dual[len(x) :] for dual in duals]


def _solve_iteratively(x: np.ndarray, centred: np.ndarray, penalties: Sequence[float]) -> np.ndarray:
    """Weights of x, averaged over penalties, from products of X'X with vectors."""
    size = max(float(np.vdot(x, x)) / len(x), EPS)
    products = (x.T @ centred).reshape(x.shape[1], -1)
    scaled = np.repeat(size * np.array(penalties)[:, None], products.shape[1], axis=1)
    return solve(FeatureProducts(x), products, scaled).mean(axis=1).reshape(x.shape[1], *centred.shape[1:])


def ridge_of_products(gram: np.ndarray, products: np.ndarray, n_people: int, *penalties: float) -> np.ndarray:
    """What `ridge_weights` gives, from the products of the features, X'X and X't, of so many people.

    Products of people add up over sites. With X X' and t instead, the weights are X' times the result.
    """
    size = max(float(np.trace(gram)) / n_people, EPS)
    solutions = []
    for penalty in penalties:
        matrix = gram / size
        matrix.flat[:: len(matrix) + 1] += penalty
        _, solution, failed = dposv(matrix, products)
        # Products to which noise was added for privacy need not be positive definite.
        solutions.append(np.linalg.solve(matrix, products) if failed else solution)
    return np.mean(solutions, axis=0) / size


def require_penalties(*penalties: float) -> None:
    """Refuse penalties that are not larger than 0, or none at all."""
    if not penalties or min(penalties) <= 0:
        raise UsageError(f"a ridge needs penalties larger than 0, not {', '.join(map(str, penalties)) or 'none'}")


Blocks = Iterable[tuple[slice, np.ndarray]]


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
        length = going_on * _divide(size, (direction * image).sum(axis=0))  # 0 for problems that are solved
        new = _divide(ratio * before * last, length * growth * (before - ratio) + before * last * (1 + shift * length))
        step = _divide(length * new, ratio)
        solution += step * directions
        residual -= length * image
        last = np.where(going_on, length, last)
        size, growth = (residual**2).sum(axis=0), going_on * _divide((residual**2).sum(axis=0), size)
        direction = residual + growth * direction
        directions = new * residual[:, None] + growth * _divide(new, ratio) ** 2 * directions
        before, ratio = ratio, new
    warnings.warn(
        f"a ridge did not converge in {MAX_STEPS} steps; use larger penalties", ConvergenceWarning, stacklevel=2
    )
    return solution


def _divide(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """The quotient; 0 once a problem is solved exactly and nothing is left to divide by."""
    return np.divide(above, below, out=np.zeros(np.broadcast_shapes(above.shape, below.shape)), where=below != 0)


class FeatureProducts:
    """X'X by its products with vectors, some people at a time: X is read once for each."""

    def __init__(self, x: np.ndarray) -> None:
        self.x = x

    def __matmul__(self, values: np.ndarray) -> np.ndarray:
        total, step = np.zeros_like(values), max(CACHED // self.x.shape[1], 1)
        for start in range(0, len(self.x), step):
            some = self.x[start : start + step]
            total += some.T @ (some @ values)
        return total


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
    return problems.weights(solve(problems, problems.centre(target[:, None]), penalties))


class _Problems:
    """The matrices H F P F' H of all problems, by their products with one vector each."""

    def __init__(self, blocks: Blocks, people: np.ndarray, scales: np.ndarray, nuisance: np.ndarray) -> None:
        self.blocks, self.scales, self.squares = blocks, scales, scales**2
        self.inside, self.count = people.astype(float), people.sum(axis=0)
        self.nuisance = nuisance[:, :, None] * self.inside[:, None]  # C (n, k, c)
        self.moved = self._products(self.nuisance)  # U = F F'C (n, k, c)
        inner = np.einsum("nkc,nlc->ckl", self.nuisance, self.moved)  # C'U = G'G
        self.inverse = np.linalg.pinv(inner, hermitian=True)

    def centre(self, values: np.ndarray) -> np.ndarray:
        """H times values (n, c); 0 for people of other problems."""
        inside = values * self.inside
        return inside - self.inside * (inside.sum(axis=0) / self.count)

    def __matmul__(self, centred: np.ndarray) -> np.ndarray:
        """H F P F' times values (n, c) that are centred."""
        product = self._products(centred[:, None])[:, 0]
        return self.centre(product - np.einsum("nkc,kqc->nc", self.moved, self._along(centred[:, None])))

    def weights(self, a: np.ndarray) -> np.ndarray:
        """P F'a (q, M, c) of a (n, q, c)."""
        n_people, n_penalties, n_problems = a.shape
        along, columns = self._along(a), np.concatenate([a, self.nuisance], axis=1).reshape(n_people, -1)
        weights = np.empty((n_penalties, len(self.scales), n_problems))
        for edges, x in self._walk():
            features = (x.T @ columns).reshape(x.shape[1], -1, n_problems)
            kept = features[:, :n_penalties] - np.einsum("mkc,kqc->mqc", features[:, n_penalties:], along)
            weights[:, edges] = (kept * self.scales[edges, None]).transpose(1, 0, 2)
        return weights

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
