"""A scorer for scikit-learn that passes covariates on to the estimator."""

from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.metrics import roc_auc_score


class AucScorer(BaseEstimator):
    """AUC at a held-out site, with the covariates of its people: a scorer for scikit-learn.

    scikit-learn's own scorers cannot pass covariates on to the estimator, so that people would be read at the mean
    covariates of the training people. This one does, when metadata routing is on.

    Examples
    --------
    >>> import sklearn, brainroam
    >>> from sklearn.model_selection import LeaveOneGroupOut, cross_validate
    >>> cohort = brainroam.make_cohort(n_sites=4, n_per_site=12, n_rois=10)
    >>> people = cohort.table
    >>> known = {"site": people["site"], "covariates": people[["age", "sex"]], "groups": people["site"]}
    >>> with sklearn.config_context(enable_metadata_routing=True):
    ...     scores = cross_validate(brainroam.ChampionClassifier(), cohort.series, people["label"],
    ...                             cv=LeaveOneGroupOut(), params=known, scoring=AucScorer())
    >>> scores["test_score"].shape
    (4,)
    """

    __metadata_request__score: ClassVar = {"covariates": True}

    def score(self, estimator: Any, X: Any, y: Any, covariates: Any = None) -> float:
        """Area under the ROC curve of the estimator's decision function, or of its probability."""
        known = {} if covariates is None else {"covariates": covariates}
        condition = np.asarray(y) == estimator.classes_[1]  # roc_auc_score sorts labels, and TD comes after ASD
        if hasattr(estimator, "decision_function"):
            return float(roc_auc_score(condition, estimator.decision_function(X, **known)))
        return float(roc_auc_score(condition, estimator.predict_proba(X, **known)[:, 1]))

    __call__ = score
