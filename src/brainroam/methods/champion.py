"""The champion: different readers of the same person, averaged.

Selecting the winner of an inner competition is unstable with ten sites; averaging readers that differ is not. Four
readers, all of them ridges on site-wise deconfounded edges (`site_ridge`):

    {log-Euclidean, Pearson} x {all edges, cross-site scaffold}      of spatial-sign correlations

each with lead-lag edges (how much one region runs ahead of another) beside them in the same ridge.

Inner leave-one-site-out over the training sites gives each reader's out-of-site score z for every training person,
scaled to unit spread within sites. With delta the mean over sites of the difference of class means and Sigma the
covariance within site and class, the weights are those of a shrunken linear discriminant, never negative:

    w = max(0, (Sigma + a I)^-1 delta),    a = 0.5            score = w' z
"""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from brainroam.core.calibration import calibrate
from brainroam.core.covariates import FIT_METADATA, READ_METADATA, as_table
from brainroam.data.cohort import Cohort, anonymous_cohort, two_classes
from brainroam.errors import DataError
from brainroam.methods.base import Method, MethodInfo
from brainroam.methods.explanation import linear_explanation
from brainroam.methods.registry import register
from brainroam.methods.site_ridge import SiteRidge
from brainroam.methods.tuning import inner_folds
from brainroam.utils.estimator_verbs import EstimatorVerbs
from brainroam.utils.model_files import part

SHRINKAGE = 0.5
PENALTIES = (3, 10, 30)
KINDS = ("log", "pearson", "lag")
_LOG = {"kind": "log", "shrinkages": (0.5, 0.7), "robust": True, "lead_lag": True, "penalties": PENALTIES}
_PEARSON = {**_LOG, "kind": "pearson", "shrinkages": (0.0,)}
_SCAFFOLD = {"scaffold": True, "may_be_empty": True}  # the other readers go on where nothing is reproducible
READERS: dict[str, dict[str, Any]] = {
    "log-all": _LOG,
    "log-scaffold": {**_LOG, **_SCAFFOLD},
    "pearson-all": _PEARSON,
    "pearson-scaffold": {**_PEARSON, **_SCAFFOLD},
}


class Champion(Method):
    """A weighted sum of different readers.

    Parameters
    ----------
    covariates : sequence of str
        Columns to remove.

    Attributes
    ----------
    readers_ : dict of str to SiteRidge
        Fitted on all training people.
    weights_ : ndarray
        Of each reader's score, in the order of ``READERS``.
    inner_scores_ : ndarray
        Out-of-site score of each training person; NaN where their site could not be held out.
    """

    def __init__(self, covariates: Sequence[str] = ("age", "sex")) -> None:
        self.covariates = covariates

    @threadpool_limits.wrap(limits=1)  # the same bytes on any number of cores
    def fit(self, cohort: Cohort, seed: int = 0, validation: Cohort | None = None) -> Self:
        """Weigh the readers on inner held-out sites, then fit them on everybody."""
        folds = list(inner_folds(cohort, "full", seed))
        inner = np.column_stack([self._out_of_site(name, cohort, folds) for name in READERS])
        self.weights_ = discriminant_weights(inner, cohort.labels, cohort.table["site"].to_numpy())
        self.inner_scores_ = inner @ self.weights_
        self.readers_ = {name: self._reader(name).fit(cohort) for name in READERS}
        return self

    @threadpool_limits.wrap(limits=1)
    def score(self, cohort: Cohort) -> np.ndarray:
        """The weighted sum of all readers."""
        return np.column_stack([reader.score(cohort) for reader in self.readers_.values()]) @ self.weights_

    def contributions(self, cohort: Cohort) -> np.ndarray:
        """What each edge adds to each person's score (n, M), all readers together."""
        readers = zip(self.weights_, self.readers_.values(), strict=True)
        return sum(weight * reader.contributions(cohort) for weight, reader in readers)

    def explanation(self, cohort: Cohort, top: int = 10) -> dict[str, Any]:
        """The weight of each edge in log-Euclidean, Pearson and lead-lag values, and what it adds to whom.

        Its direction is that of the two kinds of connectivity; lead and lag say who runs ahead, not how strongly.
        """
        weights = {f"weight_{kind}": np.zeros(len(self.readers_["log-all"].coefs_[0])) for kind in KINDS}
        for weight, reader in zip(self.weights_, self.readers_.values(), strict=True):
            *static, lag = reader.coefs_
            weights[f"weight_{reader.kind}"] += weight * np.sum(static, axis=0)
            weights["weight_lag"] += weight * lag
        direction = weights["weight_log"] + weights["weight_pearson"]
        return linear_explanation(cohort.atlas, weights, self.contributions(cohort), direction, top)

    def representation(self, cohort: Cohort) -> np.ndarray:
        """The contributions of the edges."""
        return self.contributions(cohort)

    def missing_covariates(self, cohort: Cohort) -> pd.DataFrame:
        """Covariates that stood at the training mean."""
        return self.readers_["log-all"].missing_covariates(cohort)

    def state(self) -> dict[str, np.ndarray]:
        """Weights and readers."""
        readers = {f"{name}.{key}": v for name, reader in self.readers_.items() for key, v in reader.state().items()}
        return {"weights": self.weights_, **readers}

    def load_state(self, state: dict[str, np.ndarray]) -> Self:
        """Restore what `state` returned."""
        self.weights_ = state["weights"]
        self.readers_ = {name: self._reader(name).load_state(part(state, name)) for name in READERS}
        return self

    def _reader(self, name: str) -> SiteRidge:
        return SiteRidge(**READERS[name], covariates=self.covariates)

    def _out_of_site(self, name: str, cohort: Cohort, folds: list) -> np.ndarray:
        """Score of everybody by a reader that never saw their site."""
        inner = np.full(len(cohort), np.nan)
        for train, held_out in folds:
            inner[held_out] = self._reader(name).fit(cohort.subset(train)).score(cohort.subset(held_out))
        return inner


class ChampionClassifier(EstimatorVerbs, ClassifierMixin, BaseEstimator):
    """The champion as a scikit-learn classifier.

    Attributes
    ----------
    classes_ : ndarray
    champion_ : Champion
    calibration_ : Calibration
        Threshold and slope learned on inner held-out sites.

    Examples
    --------
    >>> import brainroam
    >>> cohort = brainroam.make_cohort(n_sites=4, n_per_site=16, n_rois=12, seed=0)
    >>> people = cohort.table
    >>> clf = ChampionClassifier()
    >>> clf = clf.fit(cohort.series, people["label"], site=people["site"], covariates=people[["age", "sex"]])
    >>> clf.predict_proba(cohort.series[:1], covariates=people[["age", "sex"]][:1]).shape
    (1, 2)
    """

    __metadata_request__fit = FIT_METADATA
    __metadata_request__predict = READ_METADATA
    __metadata_request__predict_proba = READ_METADATA
    __metadata_request__decision_function = READ_METADATA

    def fit(
        self,
        series: Sequence[np.ndarray],
        y: Sequence,
        site: Sequence[str] | None = None,
        covariates: pd.DataFrame | np.ndarray | None = None,
    ) -> Self:
        """Learn from labelled people of several sites; see `CoreClassifier.fit`."""
        if site is None:
            raise DataError("ChampionClassifier.fit needs the site of every person: fit(series, y, site=...)")
        self.classes_, labels = two_classes(y)
        table = as_table(covariates, len(series))
        cohort = anonymous_cohort(series, labels, site).with_columns(table)
        self.champion_ = Champion(tuple(table.columns)).fit(cohort)
        self.calibration_ = calibrate(self.champion_.inner_scores_, labels, cohort.table["site"].to_numpy())
        return self

    def decision_function(
        self, series: Sequence[np.ndarray], covariates: pd.DataFrame | np.ndarray | None = None
    ) -> np.ndarray:
        """The score of each person, each on their own."""
        check_is_fitted(self)
        names = list(self.champion_.covariates)
        missing = pd.DataFrame(np.nan, index=range(len(series)), columns=names)
        table = missing if covariates is None else as_table(covariates, len(series))
        return self.champion_.score(anonymous_cohort(series).with_columns(table))

    def predict_proba(
        self, series: Sequence[np.ndarray], covariates: pd.DataFrame | np.ndarray | None = None
    ) -> np.ndarray:
        """Calibrated probabilities (n, 2) of control and condition, for people of any site."""
        p = self.calibration_(self.decision_function(series, covariates))
        return np.column_stack([1 - p, p])

    def predict(self, series: Sequence[np.ndarray], covariates: pd.DataFrame | np.ndarray | None = None) -> np.ndarray:
        """The class of each person, at the threshold learned on inner held-out sites."""
        return self.classes_[(self.predict_proba(series, covariates)[:, 1] >= 0.5).astype(int)]


def discriminant_weights(scores: np.ndarray, y: np.ndarray, site: np.ndarray) -> np.ndarray:
    """Weights of the readers from their out-of-site scores (n, readers); people without a score are left out.

    >>> rng = np.random.default_rng(0)
    >>> y, site = np.tile([0, 1], 100), np.repeat(["A", "B"], 100)
    >>> good, useless = y + rng.normal(size=200), rng.normal(size=200)
    >>> w = discriminant_weights(np.column_stack([good, useless]), y, site)
    >>> bool(w[0] > 5 * w[1] >= 0)
    True
    """
    known = np.isfinite(scores).all(axis=1)
    scores, y, site = scores[known], y[known], site[known]
    gaps, within, centred = [], [], []
    for name in np.unique(site):
        cases, controls = scores[(site == name) & (y == 1)], scores[(site == name) & (y == 0)]
        centred.append(scores[site == name] - scores[site == name].mean(axis=0))
        if len(cases) and len(controls):
            gaps.append(cases.mean(axis=0) - controls.mean(axis=0))
            within += [cases - cases.mean(axis=0), controls - controls.mean(axis=0)]
    spread = np.concatenate(centred).std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    residual = np.concatenate(within) / spread
    covariance = residual.T @ residual / len(residual)
    delta = np.mean(gaps, axis=0) / spread
    return np.maximum(np.linalg.solve(covariance + SHRINKAGE * np.eye(len(delta)), delta), 0) / spread


register(
    MethodInfo(
        "champion",
        Champion,
        "weighted sum of four readers: log and Pearson edges, all and scaffold, each with lead-lag beside",
        "brainroam",
        needs=("site", "covariates"),
        self_selecting=True,
        stochastic=False,
    )
)
