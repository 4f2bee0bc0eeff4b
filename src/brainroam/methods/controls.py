"""Controls that every comparison shows: predictions without any brain signal.

``majority``   the same score for everybody: the share of cases, or the mean of a number
``confounds``  logistic regression on the covariates of the study and motion
``site-only``  the share of cases at each site (in-distribution only: it knows nothing of a new site)
"""

import json
from collections.abc import Sequence
from functools import partial
from typing import Self

import numpy as np
import pandas as pd

from brainroam.core.covariates import CovariateEncoder
from brainroam.data.cohort import Cohort
from brainroam.errors import UsageError
from brainroam.methods.base import ANYTHING, EVERY_TARGET, Method, MethodInfo
from brainroam.methods.registry import register

MOTION = "mean_fd"


class Majority(Method):
    """The share of cases in training, for everybody."""

    def fit(self, cohort: Cohort, seed: int = 0, validation: Cohort | None = None) -> Self:
        """Count."""
        self.share_ = float(cohort.targets.mean())
        return self

    def score(self, cohort: Cohort) -> np.ndarray:
        """The same number for everybody."""
        return np.full(len(cohort), self.share_)

    def state(self) -> dict[str, np.ndarray]:
        """The share."""
        return {"share": np.array([self.share_])}

    def load_state(self, state: dict[str, np.ndarray]) -> Self:
        """Restore what `state` returned."""
        self.share_ = float(state["share"][0])
        return self


class Confounds(Method):
    """Logistic regression on covariates alone; a missing one stands at the training mean."""

    def __init__(self, covariates: Sequence[str] | None = None) -> None:
        if covariates is not None and not covariates:
            raise UsageError("there must be at least one covariate")
        self.covariates = covariates

    def fit(self, cohort: Cohort, seed: int = 0, validation: Cohort | None = None) -> Self:
        """Standardise and fit."""
        table = cohort.covariates(self.covariates or confounds_of(cohort.covariate_names))
        self.encoder_ = CovariateEncoder().fit(table)
        model = cohort.target.coding.linear_model().fit(self.encoder_.standardise(table), cohort.targets)
        self.coef_, self.intercept_ = np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])
        return self

    def score(self, cohort: Cohort) -> np.ndarray:
        """The log odds."""
        return self.encoder_.standardise(cohort.table) @ self.coef_ + self.intercept_

    def missing_covariates(self, cohort: Cohort) -> pd.DataFrame:
        """Covariates that stood at the training mean."""
        return self.encoder_.missing(cohort.table)

    def state(self) -> dict[str, np.ndarray]:
        """Coefficients and the standardisation."""
        return {"coef": self.coef_, "intercept": np.array([self.intercept_]), "covariates": self.encoder_.state()}

    def load_state(self, state: dict[str, np.ndarray]) -> Self:
        """Restore what `state` returned."""
        self.coef_, self.intercept_ = state["coef"], float(state["intercept"][0])
        self.encoder_ = CovariateEncoder().load_state(state["covariates"])
        return self


def confounds_of(covariates: Sequence[str]) -> tuple[str, ...]:
    """Columns that the control reads: the covariates of a study, and always motion.

    >>> confounds_of(["age", "mean_fd", "iq"])
    ('age', 'mean_fd', 'iq')
    >>> confounds_of(["age", "sex"])
    ('age', 'sex', 'mean_fd')
    """
    return tuple(dict.fromkeys([*covariates, MOTION]))


class SiteOnly(Method):
    """The share of cases at the person's own site; the overall share at a site never seen."""

    def fit(self, cohort: Cohort, seed: int = 0, validation: Cohort | None = None) -> Self:
        """Count by site."""
        learned = pd.Series(cohort.targets).groupby(cohort.table["site"].to_numpy())
        self.shares_ = {str(site): float(share) for site, share in learned.mean().items()}
        self.overall_ = float(cohort.targets.mean())
        return self

    def score(self, cohort: Cohort) -> np.ndarray:
        """Look the site up."""
        return np.array([self.shares_.get(site, self.overall_) for site in cohort.table["site"]])

    def state(self) -> dict[str, np.ndarray]:
        """The shares, as JSON bytes."""
        learned = json.dumps({"shares": self.shares_, "overall": self.overall_}, sort_keys=True)
        return {"shares": np.frombuffer(learned.encode(), dtype=np.uint8)}

    def load_state(self, state: dict[str, np.ndarray]) -> Self:
        """Restore what `state` returned."""
        learned = json.loads(state["shares"].tobytes())
        self.shares_, self.overall_ = learned["shares"], learned["overall"]
        return self


_control = partial(MethodInfo, stochastic=False, reads=(ANYTHING,), targets=EVERY_TARGET, one_against_rest=True)
register(_control("majority", Majority, "control: the same score for everybody"))
register(
    _control(
        "confounds",
        Confounds,
        "control: logistic regression on covariates and motion",
        needs=("covariates",),
        covariate_use="read",
    )
)
register(
    _control(
        "site-only",
        SiteOnly,
        "control: the share of cases at each site (in-distribution only)",
        needs=("site",),
        in_distribution_only=True,
    )
)
