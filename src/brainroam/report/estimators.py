"""Explanations of fitted scikit-learn classifiers, for notebooks."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from brainroam.core.classifier import CoreClassifier
from brainroam.core.covariates import as_table
from brainroam.data.atlas import Atlas
from brainroam.data.cohort import Cohort, anonymous_cohort
from brainroam.errors import UsageError
from brainroam.methods.base import Method
from brainroam.methods.core import Core
from brainroam.methods.ensemble import EnsembleClassifier
from brainroam.report.explanation import Explanation


def explain(
    estimator: Any,
    series: Sequence[np.ndarray],
    covariates: Any = None,
    site: Sequence[str] | None = None,
    atlas: Atlas | None = None,
    top: int = 10,
    tr: Sequence[float] | None = None,
) -> Explanation:
    """Which pathways a fitted classifier reads, and which of them contributed most for each person.

    Parameters
    ----------
    estimator : CoreClassifier or EnsembleClassifier
        Fitted.
    series, covariates, tr
        The people to read, as for its ``predict_proba``.
    site : sequence of str, optional
        Only to list them.
    atlas : Atlas, optional
        Names and coordinates of the regions, as ``cohort.atlas``.
    top : int
        Pathways to list for each person.

    Examples
    --------
    >>> import brainroam
    >>> cohort = brainroam.make_cohort(n_sites=4, n_per_site=16, n_rois=12)
    >>> people = cohort.table
    >>> clf = brainroam.CoreClassifier(epochs=0, tau_percentile=60)
    >>> clf = clf.fit(cohort.series, people["label"], site=people["site"], covariates=people[["age", "sex"]])
    >>> found = clf.explain(cohort.series, people[["age", "sex"]], atlas=cohort.atlas)
    >>> found.pathways[["region_1", "region_2"]].iloc[0].tolist()
    ['ROI_004', 'ROI_012']
    """
    people = anonymous_cohort(series, site=site, tr=tr)
    method, names = _method(estimator)
    table = as_table(covariates, len(people))
    unknown = {name: np.nan for name in names if name not in table}
    cohort = people.with_columns(table.assign(**unknown))
    if atlas is not None:
        cohort = Cohort(cohort.series, cohort.table, atlas)
    return Explanation.of_model(method, cohort, top)


def _method(estimator: Any) -> tuple[Method, list[str]]:
    """The estimator under the contract of all methods, and the covariates it needs."""
    if isinstance(estimator, CoreClassifier):
        names = list(estimator.deconfounder_.encoder_.columns_)
        method = Core(tuple(names), **{k: v for k, v in estimator.get_params().items() if k != "random_state"})
        method.classifier_ = estimator
        return method, names
    if isinstance(estimator, EnsembleClassifier):
        return estimator.ensemble_, list(estimator.ensemble_.covariates)
    raise UsageError(f"a {type(estimator).__name__} cannot be explained; CoreClassifier and EnsembleClassifier can")
