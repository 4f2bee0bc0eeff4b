"""Linear references: L2-penalised ridge, logistic and SVM on static connectivity.

    score(x) = w'x + b,    (w, b) = argmin  sum_i loss(y_i, w'x_i + b) + penalty ||w||^2

The penalty does not change under rotation, so with X = U S V' (centred) the problem is solved on the n columns of U S
and rotated back, w = V w_rotated: exact, and as cheap for 20,000 edges as for 400. The ridge does without the rotation:
w = X' (X X' + penalty I)^-1 y.

`TangentRidge` is the ridge on tangent-space edges, with inner folds that share what they may share:

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
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from pydantic import PositiveFloat
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from brainroam.core.connectivity import zero_where_missing
from brainroam.core.ridge import EPS, ridge_weights
from brainroam.core.tangent import cohort_covariances, logarithms_at_mean
from brainroam.data.cohort import Cohort
from brainroam.data.folds import Folds
from brainroam.data.measurements import edge_vectors
from brainroam.data.target import CLASSES, TWO
from brainroam.methods.base import EVERY_TARGET, Method, MethodInfo
from brainroam.methods.edge_features import EdgeFeatures, tangent_training
from brainroam.methods.explanation import linear_explanation
from brainroam.methods.registry import register

Classifier = Literal["ridge", "logistic", "svm"]
ROTATED = {
    "logistic": lambda strength: LogisticRegression(C=strength, tol=1e-6, max_iter=5000),
    "svm": lambda strength: SVC(kernel="linear", C=strength),
}


class EdgeModel(Method):
    """What linear readers of edges share once they are fitted: ``score = w'(x - mean)``.

    The threshold is learned apart, so there is no intercept of a classifier, which would move with the share of cases.
    """

    kind: str

    def score(self, cohort: Cohort) -> np.ndarray:
        """The decision function, zero for the mean of the training people."""
        return self.features_.transform(cohort) @ self.coef_ + self.intercept_

    def explanation(self, cohort: Cohort, top: int = 10) -> dict[str, Any]:
        """The weight of each edge, and what it adds to whom, counted from the mean of the training people."""
        weight = self.coef_ if self.coef_.ndim == 1 else self.coef_[:, -1]  # of several classes the last
        contributions = (self.features_.transform(cohort) - self.features_.fill_) * weight
        return linear_explanation(cohort.atlas, {"weight": weight}, contributions, weight, top)

    def representation(self, cohort: Cohort) -> np.ndarray:
        """The edges."""
        return self.features_.transform(cohort)

    def state(self) -> dict[str, np.ndarray]:
        """Coefficients and what the features learned."""
        return {"coef": self.coef_, "intercept": np.atleast_1d(self.intercept_), **self.features_.state()}

    def load_state(self, state: dict[str, np.ndarray]) -> Self:
        """Restore what `state` returned."""
        self.features_ = EdgeFeatures(self.kind).load_state(state)
        self.coef_ = state["coef"]
        self.intercept_ = state["intercept"].reshape(self.coef_.shape[1:])
        return self

    def _keep(self, features: EdgeFeatures, coef: np.ndarray, mean: np.ndarray) -> Self:
        """Weights (M,), or (M, K) of several classes."""
        self.features_, self.coef_, self.intercept_ = features, coef, -(mean @ coef)
        return self


class LinearMethod(EdgeModel):
    """An L2-penalised linear classifier on edges.

    Parameters
    ----------
    kind : {"pearson", "tangent", "log", "partial"}
        The edge values, unscaled.
    classifier : {"ridge", "logistic", "svm"}
    strength : float
        scikit-learn's ``alpha`` of the ridge (larger is simpler) or ``C`` of the others (smaller is simpler).
    """

    def __init__(
        self,
        kind: str = "pearson",
        classifier: Classifier = "ridge",
        strength: PositiveFloat = 1.0,
    ) -> None:
        self.kind, self.classifier, self.strength = kind, classifier, strength

    def fit(self, cohort: Cohort, seed: int = 0, validation: Cohort | None = None) -> Self:
        """Solve for the weights of all edges."""
        features = EdgeFeatures(self.kind)
        values = features.fit_transform(cohort)
        mean = values.mean(axis=0)
        values -= mean
        return self._keep(features, self._weights(values, cohort), mean)

    def _weights(self, centred: np.ndarray, cohort: Cohort) -> np.ndarray:
        if self.classifier == "ridge":
            size = max(float(np.vdot(centred, centred)) / len(centred), EPS)  # the unit of a penalty there
            return ridge_weights(centred, cohort.target.learned(cohort.targets), self.strength / size)
        rotated, axes = principal_axes(centred)
        return axes @ np.ravel(ROTATED[self.classifier](self.strength).fit(rotated, cohort.labels).coef_)


def principal_axes(centred: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates (n, r) of centred rows on their own orthonormal axes (M, r), from products of the fewer of both.

    >>> x = np.random.default_rng(0).normal(size=(5, 40)); x -= x.mean(axis=0)
    >>> rotated, axes = principal_axes(x)
    >>> bool(np.allclose(rotated @ axes.T, x)), bool(np.allclose(axes.T @ axes, np.eye(4)))
    (True, True)
    >>> rotated, axes = principal_axes(x.T - x.T.mean(axis=0))
    >>> bool(np.allclose(rotated @ axes.T, x.T - x.T.mean(axis=0))), rotated.shape
    (True, (40, 4))
    """
    of_columns = centred.shape[1] < len(centred)
    values, vectors = np.linalg.eigh(centred.T @ centred if of_columns else centred @ centred.T)
    real = values > 1e-10 * values[-1]
    if of_columns:
        return centred @ vectors[:, real], vectors[:, real]
    scale = np.sqrt(values[real])
    return vectors[:, real] * scale, centred.T @ (vectors[:, real] / scale)


_FC = "Abraham et al. (2017) NeuroImage 147:736-745"
_TANGENT = "Dadi et al. (2019) NeuroImage 192:115-134; nilearn"
_STRENGTHS = (0.01, 0.001, 0.1)
_METHODS: list[tuple[str, str, Classifier, str]] = [
    ("fc-logistic", "pearson", "logistic", _FC),
    ("fc-svm", "pearson", "svm", _FC),
    ("tangent-logistic", "tangent", "logistic", _TANGENT),
]
for _name, _kind, _classifier, _citation in _METHODS:
    register(
        MethodInfo(
            _name,
            partial(LinearMethod, kind=_kind, classifier=_classifier, strength=_STRENGTHS[0]),
            f"{_classifier} on {_kind} connectivity",
            _citation,
            {"strength": _STRENGTHS},
            reads=("series", "matrices", "table") if _kind == "pearson" else ("series",),
            stochastic=False,
            targets=(TWO, CLASSES),
            one_against_rest=True,
        )
    )


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
    target, scores = cohort.target.learned(cohort.targets), []
    for train, held_out in folds:
        start = near.mean_without(np.setdiff1d(np.arange(len(cohort)), train))
        _, trained, unseen = logarithms_at_mean(matrices[train], matrices[held_out], start, INNER_TOL)
        edges = edge_vectors(trained, missing[train]), edge_vectors(unseen, missing[held_out])
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
