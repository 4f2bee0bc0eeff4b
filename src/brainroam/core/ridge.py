"""Ridge regression, in the features or in the people, and every refit that leaves one group of people out.

All of it is dense (Cholesky); where both people and features are many, `brainroam.core.iterative_ridge` solves.

With R (n, M) the features of the training people, K = R R', t their targets, p the penalty and C (n, k) nuisance
variables, `DualRidge` fits a ridge with a free intercept on features that do not move with C: the directions G = R'C
are projected out of everybody's features.

    B    = (K + p I)^-1,    U = K C,    S = C'U                      S = G'G
    B'   = B + B U (S - U'B U)^-1 U'B                                inverse of K - U S^-1 U' + p I
    a    = B'(t - c 1),     c = 1'B't / 1'B'1
    beta = a - C S^-1 U'a,                                           weights of the features: w = R' beta

Leaving out the people of group b needs no other inverse: with "rest" everybody else, for any V,

    (K_rest + p I)^-1 V_rest = (B V)_rest - B_rest,b (B_bb)^-1 (B V)_b

so inner leave-one-site-out costs little more than one fit.
"""

import numpy as np
from scipy.linalg.lapack import dposv, dpotrf, dpotri

from brainroam.core.iterative_ridge import FeatureProducts, solve
from brainroam.errors import UsageError

EPS = 1e-8
LARGE = 1000  # people and features, both more than this: iterations cost less than products of them
STRONG = 1.0  # a weaker penalty would take many iterations


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
        beta[rest] = self._projected(target[rest], solved[rest], self.nuisance[rest], moved[rest])
        return beta

    def _projected(self, t: np.ndarray, solved: np.ndarray, c: np.ndarray, u: np.ndarray) -> np.ndarray:
        """beta of these people from B [t, 1, C], C and U."""
        s = c.T @ u
        bu = c - self.penalty * solved[:, 2:]  # B U = B (B^-1 - p I) C
        inner = np.linalg.pinv(s - u.T @ bu, hermitian=True)
        bt, b1 = (solved[:, k] + bu @ (inner @ (bu.T @ v)) for k, v in enumerate((t, np.ones(len(t)))))
        total = b1.sum()
        a = bt - b1 * (bt.sum() / total if abs(total) > EPS else 0.0)
        return a - c @ (np.linalg.pinv(s, hermitian=True) @ (u.T @ a))


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
    require_penalties(*penalties)
    centred = target - target.mean(axis=0)
    if min(x.shape) > LARGE and min(penalties) >= STRONG:
        size = max(float(np.vdot(x, x)) / len(x), EPS)
        wanted = (x.T @ centred).reshape(x.shape[1], -1)
        scaled = np.repeat(size * np.array(penalties)[:, None], wanted.shape[1], axis=1)
        return solve(FeatureProducts(x), wanted, scaled).mean(axis=1).reshape(x.shape[1], *target.shape[1:])
    if x.shape[1] < len(x):
        return ridge_of_products(x.T @ x, x.T @ centred, len(x), *penalties)
    return x.T @ ridge_of_products(x @ x.T, centred, len(x), *penalties)


def ridge_of_products(gram: np.ndarray, wanted: np.ndarray, n_people: int, *penalties: float) -> np.ndarray:
    """What `ridge_weights` gives, from the products of the features, X'X and X't, of so many people.

    Products of people add up over sites. With X X' and t instead, the weights are X' times the result.
    """
    size = max(float(np.trace(gram)) / n_people, EPS)
    solved = []
    for penalty in penalties:
        matrix = gram / size
        matrix.flat[:: len(matrix) + 1] += penalty
        _, found, failed = dposv(matrix, wanted)
        # Products to which noise was added for privacy need not be positive definite.
        solved.append(np.linalg.solve(matrix, wanted) if failed else found)
    return np.mean(solved, axis=0) / size


def require_penalties(*penalties: float) -> None:
    """Refuse penalties that are not larger than 0, or none at all."""
    if not penalties or min(penalties) <= 0:
        raise UsageError(f"a ridge needs penalties larger than 0, not {', '.join(map(str, penalties)) or 'none'}")
