"""Tangent-space edges: covariances seen from the geometric mean of the training participants.

    edge (u, v) of a person  =  log(G^-1/2 C G^-1/2)[u, v]

with C the person's Ledoit-Wolf covariance and G the geometric mean of the training participants' covariances. G is the
converged mean: the largest entry of their mean logarithm there is below 1e-10. nilearn stops its descent to the same
mean earlier (1e-4 away on ABIDE with AAL), so its edges differ from ours by that much.

The geometric mean G of matrices C_1 ... C_n is where their mean logarithm vanishes:

    L_i(G) = log(G^-1/2 C_i G^-1/2),        g(G) = (1/n) sum_i L_i(G) = 0

With ``L_i = U_i diag(l_i) U_i'``, moving G along S changes the mean logarithm by ``-H[S]``:

    G(S) = G^1/2 exp(S) G^1/2,        H[S] = (1/n) sum_i U_i (c_i * U_i' S U_i) U_i',
    c_i[p, q] = (d/2) coth(d/2),  d = l_i[p] - l_i[q]

so ``H[S] = g`` is a Newton step. H is near a multiple of the identity (its coefficients lie between 1 and about 2), and
a few conjugate-gradient steps solve it in the eigenbases that g has needed anyway, stored in single precision: an error
of 1e-7 in H costs nothing. Convergence is quadratic: from the mean of every eighth participant three
eigendecompositions each reach a mean logarithm below 1e-10. A round that cannot be the last is in single precision.

Near the mean (`near_enough`) the logarithms follow the last step S to first order, so that the last
eigendecompositions serve the mean and the features:

    L_i(G(S))  =  Q (L_i - U_i (c_i * U_i' S U_i) U_i') Q' + O(S^2),        Q = G(S)^-1/2 G^1/2 exp(S/2)
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from brainroam.data.cohort import Cohort
from brainroam.data.measurements import edge_vectors, spectral, without_signal
from brainroam.errors import DataError

Pair = tuple[np.ndarray, np.ndarray]
TOL = 1e-10
QUADRATIC = 0.05  # a Newton step from a mean logarithm with entries up to s leaves about 0.05 s^2 (measured on ABIDE)
PREDICTED = 3e-5  # largest entry that the solve for the mean of most participants may leave
ROUGH = 0.3  # how far the mean of every eighth participant is brought down: their sampling error is larger
SAMPLED = 80  # participants from whom the solve is preconditioned
CHUNK = 16  # participants at a time: large enough for one matrix product, small enough for the cache
MAX_STEPS = 30
SINGLE = 1e-5  # smallest share of the largest eigenvalue that single precision knows well enough
FEW = 64  # below this many participants there is nothing to gain from a sample


@dataclass(frozen=True)
class Logarithms:
    """Logarithms of participants at one reference, as eigenbases of all of them or of every k-th, who stands for k."""

    bases: np.ndarray  # (n, P, P) in single precision: eigenvectors as rows, U_i'
    logs: np.ndarray  # (n, P): logarithms l_i of the eigenvalues
    coefficients: np.ndarray  # (n, P, P) in single precision: c_i
    values: np.ndarray  # (n, P, P): the matrices L_i; empty unless asked for
    mean: np.ndarray  # (P, P): g, of all participants

    @classmethod
    def at(
        cls, matrices: np.ndarray, whitening: np.ndarray, keep_values: bool = False, every: int = 1, rough: bool = False
    ) -> Self:
        """One eigendecomposition per participant at the reference with ``whitening = G^-1/2``."""
        n, p = matrices.shape[:2]
        bases, coefficients = np.empty((2, -(-n // every), p, p), "f4")
        logs, mean = np.empty((n, p)), np.zeros((p, p))
        values = np.empty((n if keep_values else 0, p, p))
        for rows in _chunks(n):
            roots, vectors = _eigenpairs(matrices[rows], whitening, rough)
            bad = np.flatnonzero(~(roots > 0).all(axis=1))
            if len(bad):
                who = (rows.start + bad[:5]).tolist()
                raise DataError(f"covariances {who} are not positive definite; no tangent space exists")
            logs[rows] = np.log(roots)
            vectors = np.ascontiguousarray(vectors.transpose(0, 2, 1))
            some = slice(rows.start // every, rows.stop // every)  # a chunk is a multiple of `every`
            bases[some], coefficients[some] = vectors[::every], coth_coefficients(roots[::every])
            scaled = vectors * logs[rows, :, None].astype(vectors.dtype)
            if keep_values:
                np.matmul(vectors.transpose(0, 2, 1), scaled, out=values[rows])
                mean += values[rows].sum(axis=0)
            else:
                mean += vectors.reshape(-1, p).T @ scaled.reshape(-1, p)
        return cls(bases, logs[::every], coefficients, values, mean / max(n, 1))

    @property
    def size(self) -> float:
        """Largest absolute entry of the mean logarithm: how far the reference is from the mean."""
        return float(np.abs(self.mean).max())

    def without(self, left_out: np.ndarray) -> Self:
        """The logarithms of all but some participants, with their own mean."""
        n, bases, logs = len(self.logs), self.bases[left_out], self.logs[left_out]
        lost = np.tensordot(bases * logs[:, :, None], bases, ((0, 1), (0, 1)))
        rest = np.setdiff1d(np.arange(n), left_out)
        mean = (n * self.mean - lost) / len(rest)
        return type(self)(self.bases[rest], self.logs[rest], self.coefficients[rest], self.values[:0], mean)

    def hessian(self, direction: np.ndarray) -> np.ndarray:
        """``H[S]``: the fall of the mean logarithm along S."""
        n, p = self.bases.shape[:2]
        direction, total = direction.astype("f4"), np.zeros((p, p))
        for rows in _chunks(n):
            basis = self.bases[rows]
            turned = (basis.reshape(-1, p) @ direction).reshape(basis.shape) @ basis.transpose(0, 2, 1)
            turned *= self.coefficients[rows]
            total += basis.reshape(-1, p).T @ (turned @ basis).reshape(-1, p)
        return total / n

    def newton_step(self, goal: float) -> np.ndarray:
        """Solve ``H[S] = g`` by preconditioned conjugate gradients; the residual has no entry above ``goal``."""
        basis, diagonal = self._preconditioner()
        step, direction = np.zeros((2, *self.mean.shape))
        residual, last = self.mean, np.inf
        for _ in range(MAX_STEPS):
            if np.abs(residual).max() <= goal:
                break
            solved = basis @ ((basis.T @ residual @ basis) / diagonal) @ basis.T
            product = np.vdot(residual, solved)
            direction = solved + (product / last) * direction
            image = self.hessian(direction)
            length = product / np.vdot(direction, image)
            step, residual, last = step + length * direction, residual - length * image, product
        return (step + step.T) / 2

    def following(self, step: np.ndarray, turn: np.ndarray) -> np.ndarray:
        """The values after a small step of the reference, to first order; overwrites ``values``."""
        step, turn = step.astype("f4"), (turn - np.eye(len(turn))).astype("f4")
        for rows in _chunks(len(self.logs)):
            basis = self.bases[rows]
            change = (basis @ step) @ basis.transpose(0, 2, 1)
            change *= self.coefficients[rows]
            turned = turn @ self.values[rows].astype("f4")
            self.values[rows] += turned + turned.transpose(0, 2, 1) - basis.transpose(0, 2, 1) @ (change @ basis)
        return self.values

    def _preconditioner(self) -> Pair:
        """The diagonal of H in the eigenbasis of the mean squared logarithm, both from some participants."""
        few = slice(None, None, max(1, len(self.logs) // SAMPLED))
        bases, logs = self.bases[few], self.logs[few]
        basis = np.linalg.eigh(np.tensordot(bases * logs[:, :, None] ** 2, bases, ((0, 1), (0, 1))))[1]
        shares = (bases @ basis.astype("f4")) ** 2
        return basis, (shares.transpose(0, 2, 1) @ (self.coefficients[few] @ shares)).mean(axis=0)


def coth_coefficients(roots: np.ndarray) -> np.ndarray:
    """Coefficients ``(d/2) coth(d/2)`` for all differences d of logarithms of each row, (n, P, P) in single precision.

    With eigenvalues r they are ``(log r_p - log r_q) / 2 * (r_p + r_q) / (r_p - r_q)``.

    >>> coth_coefficients(np.exp([[0.0, 2.0]]))[0].astype(float).round(4).tolist()
    [[1.0, 1.313], [1.313, 1.0]]
    """
    half = np.log(roots) / 2
    change = half[:, :, None] - half[:, None, :]
    gap = roots[:, :, None] - roots[:, None, :]
    near = np.abs(change) < 1e-6  # there 1, as at d = 0
    np.copyto(gap, 1, where=near)
    change /= gap
    change *= roots[:, :, None] + roots[:, None, :]
    np.copyto(change, 1, where=near)
    return change.astype("f4")


def geometric_mean(matrices: np.ndarray, start: np.ndarray | None = None, tol: float = TOL) -> np.ndarray:
    """Geometric (Karcher) mean of positive definite matrices; warns where it does not converge.

    Parameters
    ----------
    matrices : ndarray of shape (n, P, P)
    start : ndarray of shape (P, P), optional
        A matrix near the mean, such as the mean of nearly the same participants. By default the mean of every eighth,
        or, of few participants, the arithmetic-harmonic mean.
    tol : float
        Largest absolute entry of the mean logarithm at the result.

    Examples
    --------
    >>> abs(geometric_mean(np.array([np.diag([1.0, 4.0]), np.diag([4.0, 1.0])]))).round(6).tolist()
    [[2.0, 0.0], [0.0, 2.0]]
    """
    return NearMean.of(matrices, start, tol, keep_values=False).last_step(tol)[0]


@dataclass(frozen=True)
class NearMean:
    """A reference so near to the mean of some participants that a Newton step leads there; their logarithms at it."""

    root: np.ndarray  # (P, P): its square root
    whitening: np.ndarray  # (P, P): the inverse of that
    here: Logarithms

    @classmethod
    def of(
        cls, matrices: np.ndarray, start: np.ndarray | None = None, tol: float = TOL, keep_values: bool = True
    ) -> Self:
        """From a start as near as that one eigendecomposition per participant suffices."""
        limit, reference, last = near_enough(tol), start, np.inf
        many, expected = len(matrices) > 4 * FEW, np.inf if start is None else 0.0  # size at the reference
        if reference is None:
            few = len(matrices) < FEW
            reference = arithmetic_harmonic_mean(matrices) if few else geometric_mean(matrices[::8], tol=ROUGH)
        for k in range(MAX_STEPS):
            near = expected <= limit
            rough = many and not near  # of a few participants, rounding would not average out
            every = 4 if rough and k == 0 else 1  # so far off, H of every fourth participant will do
            near_mean = cls._at(matrices, reference, keep_values and near, every, rough)
            size = near_mean.here.size
            if size < limit and not rough and (near or not keep_values):
                return near_mean
            if size > last:  # too far for Newton; the gradient over the largest coefficient always descends
                step, expected = near_mean.here.mean / near_mean.here.coefficients.max(), np.inf
            else:
                expected = max(QUADRATIC * size**2, limit / 4)
                step = near_mean.here.newton_step(expected)
            reference, last = near_mean.moved(step), size
        warnings.warn(
            f"the geometric mean of {len(matrices)} covariances did not converge: the largest entry of the mean "
            f"logarithm is {size:.1e} after {MAX_STEPS} steps, not below {limit:.0e}; look for covariances that are "
            "nearly singular",
            ConvergenceWarning,
            stacklevel=3,
        )
        return near_mean

    @classmethod
    def _at(cls, matrices: np.ndarray, reference: np.ndarray, keep_values: bool, every: int, rough: bool) -> Self:
        root, whitening = roots(reference)
        return cls(root, whitening, Logarithms.at(matrices, whitening, keep_values, every, rough))

    def moved(self, step: np.ndarray) -> np.ndarray:
        """The reference after a step."""
        return self.root @ spectral(step, np.exp) @ self.root

    def without_values(self) -> Self:
        """The same for `mean_without` alone, in a third of the memory."""
        return replace(self, here=replace(self.here, values=self.here.values[:0]))

    def mean_without(self, left_out: np.ndarray) -> np.ndarray:
        """Nearly the mean of all but some participants: a Newton step away, in the eigenbases that are known here."""
        return self.moved(self.here.without(left_out).newton_step(PREDICTED))

    def last_step(self, tol: float = TOL) -> Pair:
        """The mean, and the step that leads there."""
        step = self.here.newton_step(0.8 * tol)
        return self.moved(step), step

    def at_mean(self, others: np.ndarray, tol: float = TOL) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The mean, and the logarithms of the participants and of others there; the values kept here are lost."""
        mean, step = self.last_step(tol)
        turn = roots(mean)[1] @ self.root @ spectral(step, lambda s: np.exp(s / 2))
        there = Logarithms.at(others, self.whitening, keep_values=True)
        return mean, self.here.following(step, turn), there.following(step, turn)


def logarithms_at_mean(
    matrices: np.ndarray, others: np.ndarray, start: np.ndarray | None = None, tol: float = TOL
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Converged mean of some participants, and the logarithms of them and of others there.

    Parameters
    ----------
    matrices : ndarray of shape (n, P, P)
        Whose mean is the reference.
    others : ndarray of shape (m, P, P)
        Participants who are only looked at there.
    start : ndarray of shape (P, P), optional
        So near the mean that one eigendecomposition per participant suffices (`near_enough`).

    Returns
    -------
    mean : ndarray of shape (P, P)
    logarithms : ndarray of shape (n, P, P)
    logarithms of the others : ndarray of shape (m, P, P)

    Examples
    --------
    >>> people = np.array([np.diag([1.0, 4.0]), np.diag([4.0, 1.0]), np.eye(2)])
    >>> mean, _, other = logarithms_at_mean(people[:2], people[2:])
    >>> abs(mean).round(6).tolist(), abs(other[0]).round(4).tolist()
    ([[2.0, 0.0], [0.0, 2.0]], [[0.6931, 0.0], [0.0, 0.6931]])
    """
    return NearMean.of(matrices, start, tol).at_mean(others, tol)


def near_enough(tol: float) -> float:
    """How large the mean logarithm may be for one Newton step to leave a fifth of a tolerance.

    Such a step leaves about `QUADRATIC` times its square, and logarithms that follow it to first order err by as much.
    """
    return float(np.sqrt(0.2 * tol / QUADRATIC))


def arithmetic_harmonic_mean(matrices: np.ndarray) -> np.ndarray:
    """``A^1/2 (A^-1/2 H A^-1/2)^1/2 A^1/2`` of the arithmetic mean A and the harmonic mean H."""
    root = roots(matrices.mean(axis=0))[0]
    inverse = sum(np.linalg.inv(c) for c in matrices) / len(matrices)
    return root @ spectral(root @ inverse @ root, lambda w: 1 / np.sqrt(w)) @ root


def roots(matrix: np.ndarray) -> Pair:
    """``G^1/2`` and ``G^-1/2``."""
    values, vectors = np.linalg.eigh(matrix)
    if not values[0] > 0:
        raise DataError("the mean covariance is not positive definite; no tangent space exists")
    return (vectors * np.sqrt(values)) @ vectors.T, (vectors / np.sqrt(values)) @ vectors.T


def _eigenpairs(matrices: np.ndarray, whitening: np.ndarray, rough: bool) -> Pair:
    """Eigenvalues and eigenvectors of whitened matrices, in single precision where that will do and suffices."""
    if rough:
        single = whitening.astype("f4")
        values, vectors = np.linalg.eigh(single @ (matrices.astype("f4") @ single))
        if (values[:, 0] > SINGLE * values[:, -1]).all():  # nearly singular ones need all digits
            return values.astype(float), vectors
    return np.linalg.eigh(whitening @ (matrices @ whitening))


def _chunks(n: int) -> Iterator[slice]:
    return (slice(first, first + CHUNK) for first in range(0, n, CHUNK))


class TakesSeries:
    """Tells scikit-learn that X is a series for each person: a list of arrays, or one array of three dimensions."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()  # type: ignore[misc]  # of the estimator it is mixed into
        tags.input_tags.two_d_array, tags.input_tags.three_d_array, tags.input_tags.allow_nan = False, True, True
        return tags


class TangentEdges(TakesSeries, TransformerMixin, BaseEstimator):
    """Tangent-space edges; the reference is the geometric mean of the people it was fitted on.

    nilearn's ``ConnectivityMeasure(kind="tangent")`` (Ledoit-Wolf covariance of the raw series) up to the edge order
    and its early stop: the reference is the converged mean. Unlike nilearn's it is applicable to one person at a time.
    It warns (``sklearn.exceptions.ConvergenceWarning``) where the mean does not converge.

    Attributes
    ----------
    reference_ : ndarray of shape (P, P)
        The geometric mean G.
    whitening_ : ndarray of shape (P, P)
        G^-1/2.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> people = [rng.normal(size=(60, 4)) for _ in range(5)]
    >>> TangentEdges().fit(people).transform(people[:1]).shape
    (1, 6)
    """

    @threadpool_limits.wrap(limits=1)  # the matrices are small: threads would wait for each other
    def fit(self, series: Sequence[np.ndarray], y: object = None) -> Self:
        """Learn the reference from training people."""
        self.set_reference(NearMean.of(covariances(series)))
        return self

    @threadpool_limits.wrap(limits=1)
    def fit_transform(self, series: Sequence[np.ndarray], y: object = None) -> np.ndarray:
        """Learn the reference and return the edges of the training people, for the price of the reference."""
        return edge_vectors(self.set_reference(NearMean.of(covariances(series))), without_signal(series))

    def transform(self, series: Sequence[np.ndarray]) -> np.ndarray:
        """Edge values (n, M), each person on their own."""
        check_is_fitted(self)
        missing = without_signal(series)
        people = (_covariance(x, gone) for x, gone in zip(series, missing, strict=True))
        with threadpool_limits(1, "blas"):
            return edge_vectors((spectral(self.whitening_ @ c @ self.whitening_, np.log) for c in people), missing)

    def set_reference(self, near: NearMean) -> np.ndarray:
        """Take the mean of these participants as reference; their logarithms there."""
        self.reference_, logarithms, _ = near.at_mean(np.empty((0, *near.root.shape)))
        self.whitening_ = roots(self.reference_)[1]
        return logarithms


def cohort_covariances(cohort: Cohort) -> np.ndarray:
    """The `covariances` of every person, computed once for a cohort and all its subsets."""
    return cohort.per_person("covariances", covariances)


def covariances(series: Sequence[np.ndarray]) -> np.ndarray:
    """Ledoit-Wolf covariances (n, P, P); a region without signal varies as the others do and with none of them."""
    with threadpool_limits(1, "blas"):
        return np.stack([_covariance(x, gone) for x, gone in zip(series, without_signal(series), strict=True)])


def _covariance(x: np.ndarray, gone: np.ndarray) -> np.ndarray:
    z = np.where(gone, 0, x)
    return ledoit_wolf(z - z.mean(axis=0))


def ledoit_wolf(z: np.ndarray) -> np.ndarray:
    """Ledoit and Wolf's shrunken covariance of centred series (T, P).

    With S = z'z / T, m = tr S / P and d = |S - m I|^2,

        C = (1 - a) S + a m I,        a = min(1, (mean_t |z_t|^4 - |S|^2) / (T d))

    scikit-learn's, to rounding, in a tenth of the time: it forms the fourth moments of all pairs of regions, of which
    only the sum counts.

    >>> from sklearn import covariance
    >>> z = np.random.default_rng(0).normal(size=(30, 5)); z -= z.mean(axis=0)
    >>> bool(np.allclose(ledoit_wolf(z), covariance.ledoit_wolf(z, assume_centered=True)[0], atol=1e-14))
    True
    """
    n_volumes, n_rois = z.shape
    covariance = z.T @ z / n_volumes
    level, square = np.trace(covariance) / n_rois, np.vdot(covariance, covariance)
    distance = square - n_rois * level**2
    noise = (np.mean(np.einsum("tp,tp->t", z, z) ** 2) - square) / n_volumes
    shrinkage = min(noise, distance) / distance if distance > 0 else 0.0
    covariance *= 1 - shrinkage
    covariance.flat[:: n_rois + 1] += shrinkage * level
    return covariance
