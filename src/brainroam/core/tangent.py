"""Tangent-space edges: covariances seen from the geometric mean of the training participants.

    edge (u, v) of a person  =  log(G^-1/2 C G^-1/2)[u, v]

with C the person's Ledoit-Wolf covariance and G the geometric mean of the training participants' covariances. G is the
converged mean: the largest entry of their mean logarithm there is below 1e-10. nilearn stops its descent to the same
mean earlier (1e-4 away on ABIDE with AAL), so its edges differ from ours by that much.
"""

from collections.abc import Sequence
from typing import Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from brainroam.core.geometric_mean import NearMean, roots
from brainroam.core.series import TakesSeries, without_signal
from brainroam.core.symmetric import edge_vectors, spectral
from brainroam.data.cohort import Cohort


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
