"""Edges without the effects of site and covariates, for people who want harmonised data and nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from brainroam.core.connectivity import cohort_edges
from brainroam.core.deconfound import SiteDeconfounder
from brainroam.data.cohort import Cohort
from brainroam.errors import DataError, unknown


@dataclass(frozen=True)
class Residuals:
    """Deconfounded edges, and how each person's were made.

    Attributes
    ----------
    values : ndarray of shape (n, M)
    by : ndarray of shape (n,)
        ``"site"`` for people whose own site was learned from, ``"frozen"`` for all others.
    description : str
        In words, for the record.
    """

    values: np.ndarray
    by: np.ndarray
    description: str


def deconfounded(cohort: Cohort, kind: str = "pearson", held_out: Sequence[str] = ()) -> Residuals:
    """Edges without the effects of site and covariates.

    People of the training sites get the residuals of their own site's regression. People of the ``held_out`` sites
    take no part in any of it: theirs are of the frozen average of the training sites, as at a site never seen.

    >>> import brainroam
    >>> found = deconfounded(brainroam.make_cohort(n_sites=3, n_per_site=10, n_rois=8), held_out=["S03"])
    >>> found.values.shape, found.by.tolist().count("frozen")
    ((30, 28), 10)
    """
    for name in held_out:
        if name not in cohort.sites:
            raise unknown("site to hold out", name, cohort.sites)
    site, q = cohort.table["site"].to_numpy(), cohort.covariates()
    train = ~np.isin(site, list(held_out))
    if not train.any():
        raise DataError("every site is held out: none is left to learn the effects of site and covariates from")
    edges = cohort_edges(cohort, kind)
    fitted = SiteDeconfounder().fit(edges[train], covariates=q[train], site=site[train])
    values = np.empty_like(edges)
    values[train] = fitted.residuals_
    if not train.all():
        values[~train] = fitted.transform(edges[~train], covariates=q[~train])
    learned = sorted(set(site[train]))
    description = (
        f"residuals of site-wise Huber regressions on {', '.join(cohort.covariate_names) or 'no covariates'}, learned "
        f"on {len(learned)} sites ({', '.join(learned)}); people of other sites by the mean of these regressions"
    )
    return Residuals(values, np.where(train, "site", "frozen"), description)
