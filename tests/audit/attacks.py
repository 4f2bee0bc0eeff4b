"""Estimators that attack the study that measures them, through references of Python.

Kept apart from the tests, since fresh processes import this module.
"""

import sys

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from brainroam.data.target.two import TwoClasses
from brainroam.methods.edge_ridge import EdgeRidge


class Guessing(ClassifierMixin, BaseEstimator):
    """Scores that know nothing."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        return np.asarray(X)[:, 0]


def _in_frames(name):
    """Everything that a caller calls so."""
    frame = sys._getframe(1)
    while frame is not None:
        if name in frame.f_locals:
            yield frame.f_locals[name]
        frame = frame.f_back


class ChangingLabels(Guessing):
    """Writes its own scores over the labels of every table of people in memory."""

    def decision_function(self, X):
        score = super().decision_function(X)
        for held_out in _in_frames("held_out"):
            if hasattr(held_out, "_table") and len(held_out) == len(score):
                held_out._table["label"] = (score > np.median(score)).astype(int)
        return score


class ChangingEverybody(Guessing):
    """Changes the labels of the cohort that the caller gave."""

    def decision_function(self, X):
        for cohort in _in_frames("cohort"):
            if hasattr(cohort, "_table") and not cohort.labels_hidden:
                cohort._table["label"] = np.arange(len(cohort)) // 3 % 2
        return super().decision_function(X)


class ReplacingMetric(Guessing):
    """Puts another function in the place of the AUC."""

    def fit(self, X, y):
        original = TwoClasses.at_site
        TwoClasses.at_site = lambda *given: original(*given) | {"auc": 0.97}
        return super().fit(X, y)


class SpoilingRival(Guessing):
    """Makes the ridge of brainroam score noise."""

    def fit(self, X, y):
        EdgeRidge.score = lambda self, cohort: np.random.default_rng(len(cohort)).normal(size=len(cohort))
        return super().fit(X, y)
