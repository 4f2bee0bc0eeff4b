"""Ridge on tangent-space edges, with inner folds that share what they may share.

    score(x) = k(x)' (K + strength I)^-1 (t - mean t),    t = +1 for the condition, -1 for controls

with K the Gram matrix of the training people's edges and k(x) the products of a person's edges with theirs, all centred
at the training mean. The reference of the tangent space is learned from the training people, so every inner fold has
one of its own. Three things make that cheap, and none of them sees more than the training people of the outer fold:

- the reference of an inner fold starts from a Newton step away from the outer one, where all eigenbases are known, so
  that one eigendecomposition per person is enough (`brainroam.core.tangent`);
- edges and Gram matrix of an inner fold serve all strengths;
- weights of edges are never computed: inner scores need K alone.

Inner scores equal those of a model fitted on the inner fold alone to 1e-8 (4e-10 on twenty-site ABIDE).
"""

from collections.abc import Sequence

import numpy as np
from pydantic import PositiveFloat
from threadpoolctl import threadpool_limits

from brainroam.core.connectivity import edge_vectors, zero_where_missing
from brainroam.core.tangent import cohort_covariances, logarithms_at_mean
from brainroam.core.targets import learned_target
from brainroam.data.cohort import Cohort
from brainroam.data.folds import Folds
from brainroam.methods.base import EVERY_TARGET, MethodInfo
from brainroam.methods.features import tangent_training
from brainroam.methods.linear import LinearMethod
from brainroam.methods.registry import register

STRENGTHS = (1000.0, 100.0, 10000.0)
INNER_TOL = 1e-8  # of an inner reference; scores err by less, as its error is much the same for everybody


class TangentRidge(LinearMethod):
    """Ridge on tangent connectivity.

    Parameters
    ----------
    strength : float
        scikit-learn's ``alpha``; larger is simpler.
    """

    def __init__(self, strength: PositiveFloat = STRENGTHS[0]) -> None:
        super().__init__("tangent", "ridge", strength)

    def out_of_fold(self, cohort: Cohort, folds: Folds, seed: int = 0) -> list[np.ndarray]:
        """Scores (1, n) of the people each inner fold holds out; the usual strengths are computed together."""
        strengths = STRENGTHS if self.strength in STRENGTHS else (self.strength,)
        # By content of all training people, since their mean is where the inner references start.
        content = [np.array(cohort.series_digests), cohort.targets, *(rows for fold in folds for rows in fold)]
        scores = cohort.features.cache.get(
            ("tangent-ridge", strengths), content, lambda: inner_scores(cohort, folds, strengths)
        )
        return [of_fold[[strengths.index(self.strength)]] for of_fold in scores]


@threadpool_limits.wrap(limits=1)
def inner_scores(cohort: Cohort, folds: Folds, strengths: Sequence[float]) -> list[np.ndarray]:
    """Scores (strengths, n), or (strengths, n, K) of several classes, of the people each fold holds out."""
    matrices, missing, near = cohort_covariances(cohort), cohort.missing_rois, tangent_training(cohort).near
    target, scores = learned_target(cohort), []
    for train, held_out in folds:
        start = near.mean_without(np.setdiff1d(np.arange(len(cohort)), train))
        _, known, unseen = logarithms_at_mean(matrices[train], matrices[held_out], start, INNER_TOL)
        edges = edge_vectors(known, missing[train]), edge_vectors(unseen, missing[held_out])
        scores.append(ridge_scores(*edges, target[train], strengths))
    return scores


def ridge_scores(known: np.ndarray, unseen: np.ndarray, target: np.ndarray, strengths: Sequence[float]) -> np.ndarray:
    """Scores (strengths, n) of unseen people by a ridge on known ones; a missing edge (NaN) is at the known mean.

    >>> ridge_scores(np.array([[1.0], [-1.0]]), np.array([[0.5], [np.nan]]), np.array([1.0, -1.0]), [2.0]).tolist()
    [[0.25, 0.0]]
    """
    present = np.isfinite(known)
    mean = np.sum(known, axis=0, where=present) / np.maximum(present.sum(axis=0), 1)
    known, unseen = (zero_where_missing(edges - mean) for edges in (known, unseen))
    gram, products = known @ known.T, unseen @ known.T
    wanted, identity = target - target.mean(axis=0), np.eye(len(gram))
    # Not Cholesky, as elsewhere: its rounding would move the calibrated probabilities in the ninth digit.
    return np.stack([products @ np.linalg.solve(gram + strength * identity, wanted) for strength in strengths])


register(
    MethodInfo(
        "tangent-ridge",
        TangentRidge,
        "ridge on tangent connectivity",
        "Dadi et al. (2019) NeuroImage 192:115-134; nilearn",
        {"strength": STRENGTHS},
        stochastic=False,
        targets=EVERY_TARGET,
    )
)
