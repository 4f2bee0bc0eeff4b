"""Nuisance variables: what is taken out of edges as a direction, needed in training and not of a new person.

Head motion shows in many edges at once. A regression of every edge on it, as on age and sex, needs the motion of
everybody who is read, and takes out of their edges what a straight line says. A direction needs it in training only:

    D = sum_i x_i c_i'        x_i the edges of training person i without site means, c_i their nuisance variables
    x -> x - D (D'D)^-1 D'x   everybody, known or not

c has no means of site and class (beside a number, nothing of the number within the site), so that D holds nothing of
the difference between the classes that is not motion. `brainroam.core.ridge` and `brainroam.core.pathways` do it.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from brainroam.core.covariates import CovariateEncoder
from brainroam.data.cohort import Cohort
from brainroam.data.motion import motion_of, without_motion
from brainroam.errors import listed

MOTION = "mean_fd"


def nuisance_variables(cohort: Cohort, names: Sequence[str] | None = None) -> np.ndarray:
    """Covariates (n, k) without their means within site and class, 0 where missing; by default those of the study.

    What is left varies among people of the same site and diagnosis only; beside a number, what goes with it within a
    site is taken out instead. Mean framewise displacement is skewed: its logarithm is taken. At sites where nobody
    measured it, motion as estimated from the series stands in two more columns.

    >>> import brainroam
    >>> cohort = brainroam.make_cohort(n_sites=2, n_per_site=8, n_rois=8)
    >>> nuisance_variables(cohort, ["age", "mean_fd"]).shape
    (16, 2)
    >>> unknown = cohort.with_columns(pd.DataFrame({"mean_fd": [np.nan] * 16}))
    >>> nuisance_variables(unknown, ["mean_fd"]).shape
    (16, 3)
    """
    table, columns = cohort.table, cohort.covariates(cohort.nuisance_names if names is None else names)
    if MOTION in columns:
        columns[MOTION] = np.log(columns[MOTION].clip(lower=1e-4))
    values = CovariateEncoder().fit(columns).encode(columns)
    if MOTION in columns and (unmeasured := without_motion(cohort)).any():
        values = np.hstack([values, np.where(unmeasured[:, None], motion_of(cohort), np.nan)])
    number = cohort.target.is_number
    group = table["site"].astype(str) + ("" if number else table["label"].astype(str))
    for people in group.groupby(group).indices.values():
        here = values[people]
        present = np.isfinite(here)
        mean = np.where(present, here, 0).sum(axis=0) / np.maximum(present.sum(axis=0), 1)
        values[people] = np.where(present, here - mean, 0)
        if number:
            t = cohort.targets[people]
            t = t - t.mean()
            values[people] -= np.outer(t, t @ values[people] / max(float(t @ t), 1e-12)) * present
    return values


def note_of_motion(cohort: Cohort, names: Sequence[str] | None) -> list[str]:
    """What stands in the place of motion that nobody measured, in words; nothing where all is known."""
    asked = MOTION in (cohort.nuisance_names if names is None else names)
    sites = set(cohort.table["site"][without_motion(cohort)]) if asked else set[str]()
    if not sites:
        return []
    where = "" if len(sites) == len(cohort.sites) else f" at {listed(sorted(sites))}"
    return [f"motion was not measured{where}: what goes with motion as estimated from the series is taken out"]


def split_covariates(
    cohort: Cohort, covariates: Sequence[str] | None, nuisance: Sequence[str] | None
) -> tuple[pd.DataFrame, np.ndarray]:
    """What is regressed out of every edge and what is projected out, by default the study's covariates and nuisance.

    A nuisance variable is projected out, and not regressed, wherever it is named.

    >>> import brainroam
    >>> cohort = brainroam.make_cohort(n_sites=2, n_per_site=8, n_rois=8)
    >>> removed, projected = split_covariates(cohort, ["age", "mean_fd"], None)
    >>> list(removed), projected.shape
    (['age'], (16, 1))
    """
    nuisance = cohort.nuisance_names if nuisance is None else nuisance
    removed = [name for name in cohort.covariates(covariates) if name not in nuisance]
    return cohort.covariates(removed), nuisance_variables(cohort, nuisance)
