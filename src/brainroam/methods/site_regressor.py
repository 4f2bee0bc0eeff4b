"""A number at sites never seen: every method that can as a scikit-learn regressor, for people given as arrays."""

from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from brainroam.data.atlas import Atlas
from brainroam.data.cohort import Cohort
from brainroam.data.target import TRANSFORMS, Number, Target
from brainroam.data.target.shifts import LABELLED
from brainroam.errors import DataError, UsageError, listed, unknown
from brainroam.methods.registry import FLAGSHIP
from brainroam.methods.site_estimator import READ, Covariates, People, SiteEstimator, Times
from brainroam.utils.parameters import says_how_to_call


class SiteRegressor(RegressorMixin, SiteEstimator):
    """Learn a number from people of several sites, predict it at a site never seen: any method that can.

    Parameters
    ----------
    method, tuning, random_state, **settings
        As of `brainroam.SiteClassifier`.
    transform : {"", "log"}
        Learn the logarithm, as for ages; predictions are in the units of y all the same.

    Attributes
    ----------
    model_, inner_scores_, notes_
        As of `brainroam.SiteClassifier`.

    Examples
    --------
    >>> import brainroam
    >>> cohort = brainroam.make_cohort(n_sites=6, n_per_site=16, n_rois=12, seed=0)
    >>> people = cohort.table
    >>> model = SiteRegressor("fc-ridge", transform="log").fit(cohort.series, people["age"], site=people["site"])
    >>> model.predict(cohort.series[:2]).shape, model.predict_interval(cohort.series[:2], level=0.8).shape
    ((2,), (2, 2))
    >>> model.adapt(cohort.series[:5], people["age"][:5]).predict(cohort.series[5:7]).shape
    (2,)
    """

    __metadata_request__decision_function: ClassVar = READ
    _wanted: ClassVar[str] = "number"

    def __init__(
        self,
        method: Any = FLAGSHIP,
        tuning: str = "default",
        random_state: int = 0,
        transform: str = "",
        **settings: Any,
    ) -> None:
        super().__init__(method, tuning, random_state, **settings)
        self.transform = transform

    def _classes_of(self, cohort: Cohort) -> np.ndarray:
        if not cohort.target.number:
            raise DataError("the cohort has classes; read it with target=COLUMN, or use SiteClassifier")
        return np.array([])

    def _as_target(self, y: Sequence, positive: Any) -> tuple[np.ndarray, np.ndarray, Target]:
        if positive is not None:
            raise UsageError("positive names one of two classes, and SiteRegressor learns a number; leave it out")
        if self.transform not in ("", *TRANSFORMS):
            raise unknown("transform", self.transform, TRANSFORMS)
        values = _numbers(y)
        if not np.isfinite(values).all():
            raise DataError(f"y is missing for person {listed(np.flatnonzero(~np.isfinite(values)))}; leave them out")
        if self.transform == "log" and (values <= 0).any():
            raise DataError(f"y has no logarithm for person {listed(np.flatnonzero(values <= 0))}: it must be above 0")
        if np.ptp(values) == 0:
            raise DataError(
                f"y is {values[0]:g} for everybody, so there is nothing to learn; give a number that varies"
            )
        return values, np.array([]), Number("y", transform=self.transform)

    @says_how_to_call
    def predict(self, X: People, covariates: Covariates = None, tr: Times = None) -> np.ndarray:
        """The number of each person, in the units of y, for people of any site, or of the one it is adapted to."""
        score = self.decision_function(X, covariates, tr)
        readout, known = self.model_.readout_, self.model_.known_
        return readout.predict(score) if known is None else readout.adapted(score, *known, LABELLED)

    def adapt(self, X: People, y: Sequence, covariates: Covariates = None, tr: Times = None) -> Self:
        """A copy whose `predict` is for the site of these people, whose number is known: ``reg.adapt(X, y).predict``.

        They mend level and scale there, shrunken by how many they are, never the order of people
        (`brainroam.data.target.shifts`). Intervals are for a site of which nothing is known, so the copy has none, and
        it cannot be saved.
        """
        known = self.decision_function(X, covariates, tr), np.asarray(y, dtype=float)
        adapted = copy(self)
        adapted.model_ = copy(self.model_)
        adapted.model_.known_ = known
        return adapted

    def save(self, path: str | Path, atlas: Atlas | None = None) -> Path:
        """Write a model folder, see `SiteEstimator.save`."""
        check_is_fitted(self, "model_")
        self._require_strict("saved")
        return super().save(path, atlas)

    def _require_strict(self, what: str) -> None:
        if self.model_.known_ is not None:
            raise UsageError(f"a model adapted to one site cannot be {what}; use the one it was made of")

    def predict_interval(
        self, X: People, covariates: Covariates = None, tr: Times = None, *, level: float = 0.9
    ) -> np.ndarray:
        """Ends (n, 2) of intervals that hold the truth for a share ``level`` of people at a new site.

        Learned on inner held-out sites (`brainroam.data.target.sets`), and held on average over sites like those of the
        training; at a single site whose level lies far off, they may hold half as often. A level that so few training
        sites cannot promise is refused.
        """
        score = self.decision_function(X, covariates, tr)
        self._require_strict("asked for intervals")
        return np.column_stack(self.model_.readout_.interval(score, level))

    def score(
        self, X: People, y: Sequence, sample_weight: Any = None, *, covariates: Covariates = None, tr: Times = None
    ) -> float:
        """R squared, as of every regressor of scikit-learn; it counts differences between sites, too."""
        return float(r2_score(np.asarray(y, dtype=float), self.predict(X, covariates, tr), sample_weight=sample_weight))


def _numbers(y: Sequence) -> np.ndarray:
    """y as floats (n,), an error where it holds words."""
    values = np.asarray(y)
    if values.ndim != 1:
        raise DataError(f"y must be one number per person, got shape {values.shape}")
    try:
        return values.astype(float)
    except (ValueError, TypeError) as error:
        raise DataError(f"y must hold numbers, but {error}; classes are learned by brainroam.SiteClassifier") from error
