"""Inside the hospital: read the people of one site, answer a round, write one file. No network is used."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from brainroam.core.connectivity import cohort_edges
from brainroam.core.covariates import CovariateEncoder
from brainroam.core.deconfound import SiteDeconfounder
from brainroam.core.site_summary import SiteProducts, SiteSummary
from brainroam.data.cohort import Cohort
from brainroam.errors import DataError, SummaryError, UsageError, listed
from brainroam.execution.federation.files import SUMMARY, Message, Settings
from brainroam.execution.federation.protection import Protection
from brainroam.execution.federation.scores import score_summary
from brainroam.utils.model_files import describe_atlas, part

MIN_PER_CLASS = 10


@threadpool_limits.wrap(limits=1)  # the same bytes on any number of cores
def answer(
    cohort: Cohort,
    request: Message | None = None,
    name: str | None = None,
    settings: Settings | None = None,
    min_per_class: int = MIN_PER_CLASS,
    protection: Protection | None = None,
    rng: np.random.Generator | None = None,
) -> Message:
    """The summary with which a site answers a request; without one, its first summary.

    Parameters
    ----------
    cohort : Cohort
        The labelled people of one site.
    request : Message, optional
        What the pool asks for; its settings hold.
    name : str, optional
        What the site is called in the files; as in the data unless told.
    settings : Settings, optional
        Of a first summary.
    min_per_class : int
        A site with fewer cases or controls is refused.
    protection : Protection, optional
        Clip and add noise.
    rng : numpy Generator, optional
        Of the noise; fresh randomness of the system unless told, since whoever knows the noise can take it away.

    Examples
    --------
    >>> import brainroam
    >>> cohort = brainroam.make_cohort(n_sites=2, n_per_site=24, n_rois=8)
    >>> first = answer(cohort.select(["S01"]), name="Hospital A")
    >>> first.site, first.arrays["contrast"].shape
    ('Hospital A', (28,))
    """
    own = _one_site(cohort)
    site = own if name is None else name
    y, rng = cohort.labels, np.random.default_rng() if rng is None else rng
    _require_enough(site, y, min_per_class)
    settings = request.settings if request else settings or Settings()
    names = request.covariates if request else list(cohort.covariate_names)
    if protection is not None and names:
        raise UsageError("noise protects no slopes of covariates: leave them out at all sites, with --covariates none")
    covariates, atlas = _numeric(cohort, names, site), describe_atlas(cohort.atlas.name, cohort.atlas.labels)
    edges = cohort_edges(cohort, settings.kind, settings.shrinkage, settings.robust)
    answered = ""
    if request is None:
        summary = (
            SiteSummary.of(edges, y, covariates, settings.huber_k, settings.contrast)
            if protection is None
            else protection.summary(edges, y, rng)
        )
        arrays = summary.arrays()
    else:
        _require_asked(request, site, atlas)
        if request.round == 2:
            arrays = _products(request, edges, y, covariates, protection, rng)
        else:
            arrays, answered = _scores(request, site, edges, y, covariates, protection, rng), request.request
    return Message(
        what=SUMMARY,
        round=request.round if request else 1,
        settings=settings,
        atlas=atlas,
        covariates=names,
        arrays=arrays,
        site=site,
        request=answered,
        protection=vars(protection).copy() if protection else {},
    )


def reading_of(arrays: Mapping[str, np.ndarray], position: int) -> dict[str, np.ndarray]:
    """The reading that a third request holds for the site at this position."""
    return part(dict(arrays), str(position))


def read_scores(reading: Mapping[str, np.ndarray], edges: np.ndarray, covariates: pd.DataFrame) -> np.ndarray:
    """Scores of people by a reading: w' (r - b - Gamma' q~) on its edges; a missing edge says nothing."""
    encoder = CovariateEncoder.of_moments(list(covariates.columns), reading["covariate_mean"], reading["covariate_std"])
    learned = {name: reading[name] for name in ("mean_intercept", "mean_coef")}
    frozen = SiteDeconfounder().load_state({**learned, "covariates": encoder.state()})
    return np.nan_to_num(frozen.frozen_residuals(edges[:, reading["edges"]], covariates)) @ reading["weights"]


def _products(
    request: Message,
    edges: np.ndarray,
    y: np.ndarray,
    covariates: pd.DataFrame,
    protection: Protection | None,
    rng: np.random.Generator,
) -> dict[str, np.ndarray]:
    asked = request.arrays["edges"]
    if protection is None:
        found = SiteProducts.of(asked, edges[:, asked], y, covariates, request.settings.huber_k)
    else:
        found = protection.products(asked, edges[:, asked], request.arrays["centre"], y, rng)
    return {"counts": np.array([(y == label).sum() for label in (0, 1)]), **vars(found)}


def _scores(
    request: Message,
    site: str,
    edges: np.ndarray,
    y: np.ndarray,
    covariates: pd.DataFrame,
    protection: Protection | None,
    rng: np.random.Generator,
) -> dict[str, np.ndarray]:
    reading = reading_of(request.arrays, request.sites.index(site))
    if not reading:
        raise SummaryError(f"without {site} the other sites agree on no edge: it cannot be held out, and sends nothing")
    score = read_scores(reading, edges, covariates)
    arrays: dict[str, Any] = score_summary(score, y)
    if protection is not None:
        auc, means = protection.scores(float(roc_auc_score(y, score)), score, y, rng)
        arrays |= {"auc": np.array(auc), "mean": means, "square": arrays["counts"].astype(float)}
        arrays |= {"roc": np.zeros((0, 2)), "bins": np.zeros((0, 3))}
    return arrays


def _one_site(cohort: Cohort) -> str:
    if len(cohort.sites) != 1:
        raise DataError(
            f"a summary is of one site; these data hold {len(cohort.sites)}: {listed(cohort.sites)}; "
            "name one with --sites"
        )
    return cohort.sites[0]


def _require_enough(site: str, y: np.ndarray, least: int) -> None:
    for label, people in ((1, "cases"), (0, "controls")):
        count = int((y == label).sum())
        if count < max(least, 2):
            raise SummaryError(
                f"site {site} has {count} {people}, fewer than the {max(least, 2)} below which a summary tells too "
                "much about each of them: nothing was written"
            )


def _require_asked(request: Message, site: str, atlas: dict[str, Any]) -> None:
    if site not in request.sites:
        raise SummaryError(
            f"{request.path} does not ask site {site}, which sent no first summary; it asks {listed(request.sites)}"
        )
    if atlas["labels_sha256"] != request.atlas["labels_sha256"]:
        raise SummaryError(
            f"{request.path} asks for the {request.atlas['n_regions']} regions of {request.atlas['name']!r}; these "
            f"data have the {atlas['n_regions']} of {atlas['name']!r}, by other names or in another order"
        )


def _numeric(cohort: Cohort, names: list[str], site: str) -> pd.DataFrame:
    """The covariates, which have to be numbers: sites do not know each other's categories."""
    table = cohort.covariates(names).reset_index(drop=True)
    encoder = CovariateEncoder().fit(table)
    if encoder.levels_:
        raise DataError(
            f"site {site}: {listed(encoder.levels_)} has words for values; sites do not know each other's words: make "
            "it a column of numbers, or leave it out with --covariates"
        )
    unknown = [name for name in names if encoder.missing(table)[name].all()]
    if unknown:
        raise DataError(f"site {site} knows {listed(unknown)} of nobody; leave it out at all sites, with --covariates")
    return table
