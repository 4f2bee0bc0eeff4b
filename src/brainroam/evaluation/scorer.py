"""Scorers for scikit-learn that pass covariates on to the estimator, by the names of scikit-learn's own."""

from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.metrics import (
    average_precision_score,
    balanced_accuracy_score,
    brier_score_loss,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
)

from brainroam.errors import unknown


def _of_score(metric: Any) -> Any:
    def measure(estimator: Any, condition: np.ndarray, X: Any, metadata: dict[str, Any]) -> float:
        if hasattr(estimator, "decision_function"):
            return metric(condition, estimator.decision_function(X, **metadata))
        return metric(condition, estimator.predict_proba(X, **metadata)[:, 1])

    return measure


def _balanced_accuracy(estimator: Any, condition: np.ndarray, X: Any, metadata: dict[str, Any]) -> float:
    return balanced_accuracy_score(condition, np.asarray(estimator.predict(X, **metadata)) == estimator.classes_[1])


def _neg_brier_score(estimator: Any, condition: np.ndarray, X: Any, metadata: dict[str, Any]) -> float:
    return -brier_score_loss(condition, estimator.predict_proba(X, **metadata)[:, 1])


def _neg_mean_absolute_error(y: np.ndarray, predicted: np.ndarray) -> float:
    return -mean_absolute_error(y, predicted)


METRICS = {
    "roc_auc": _of_score(roc_auc_score),
    "balanced_accuracy": _balanced_accuracy,
    "average_precision": _of_score(average_precision_score),
    "neg_brier_score": _neg_brier_score,
}
NUMBER_METRICS = {"r2": r2_score, "neg_mean_absolute_error": _neg_mean_absolute_error}


class SiteScorer(BaseEstimator):
    """A measure at a held-out site, with the covariates of its people: a scorer for scikit-learn.

    scikit-learn's own scorers of the same names cannot pass covariates on to the estimator, so that a pipeline that
    needs them fails (a score of ``nan``), and others read people at the mean covariates of the training people. They
    also sort labels: with words, TD would be taken for the condition because it comes after ASD. This one passes
    covariates on when metadata routing is on, and takes the estimator's second class for the condition.

    Parameters
    ----------
    metric : {"roc_auc", "balanced_accuracy", "average_precision", "neg_brier_score", "r2", "neg_mean_absolute_error"}
        The last two are of a number (`SiteRegressor`).

    Examples
    --------
    >>> import sklearn, brainroam
    >>> from sklearn.model_selection import cross_val_score
    >>> cohort = brainroam.make_cohort(n_sites=4, n_per_site=12, n_rois=10)
    >>> people = cohort.table
    >>> known = {"site": people["site"], "covariates": people[["age", "sex"]], "groups": people["site"]}
    >>> with sklearn.config_context(enable_metadata_routing=True):
    ...     scores = cross_val_score(brainroam.EnsembleClassifier(), cohort.series, people["label"], params=known,
    ...                              cv=brainroam.LeaveOneSiteOut(), scoring=SiteScorer("balanced_accuracy"))
    >>> scores.shape
    (4,)
    """

    __metadata_request__score: ClassVar = {"covariates": True}

    def __init__(self, metric: str = "roc_auc") -> None:
        self.metric = metric

    def score(self, estimator: Any, X: Any, y: Any, covariates: Any = None) -> float:
        """The measure of the estimator on these people."""
        options = {} if covariates is None else {"covariates": covariates}
        if self.metric in NUMBER_METRICS:
            return float(NUMBER_METRICS[self.metric](np.asarray(y, dtype=float), estimator.predict(X, **options)))
        if self.metric not in METRICS:
            raise unknown("metric", self.metric, [*METRICS, *NUMBER_METRICS])
        condition = np.asarray(y) == estimator.classes_[1]
        return float(METRICS[self.metric](estimator, condition, X, options))

    __call__ = score
