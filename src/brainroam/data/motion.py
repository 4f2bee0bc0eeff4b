"""Head motion as estimated from the series of a person, where nobody measured it.

A head that moves changes all regions at once for a volume or two. With z the regions that vary, each standardised over
the T volumes, and P of them,

    DVARS_t    = root of the mean over regions of (z_t - z_t-1)^2
    variation  = log(standard deviation of DVARS_t / its mean)       how unevenly the signal jumps; without a unit
    amplitude  = log(mean over regions of the standard deviation)    in the file's unit: comparable within a site

Neither is framewise displacement. Within sites of ABIDE (AAL) its logarithm correlates by .57 with the first, .68 with
the second and .71 with several such measures together (docs/results/motion.md). Series that were standardised have no
amplitude: it is 0 of everybody, and says nothing.

References
----------
Power et al. (2012), Spurious but systematic correlations in functional connectivity MRI networks arise from subject
motion, NeuroImage 59(3), 2142-2154.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from brainroam.data.cohort import Cohort

ESTIMATES = ("variation", "amplitude")
EPS = 1e-12


def estimate_motion(series: Sequence[np.ndarray]) -> pd.DataFrame:
    """Two measures of each person's head motion, from the person's own series (T_i, P) alone; NaN without a signal.

    Give them as covariates where nobody measured motion, with the sites: ``SiteDeconfounder().fit(edges,
    covariates=estimate_motion(series), site=site)``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> still, moving = rng.normal(size=(2, 200, 10))
    >>> moving[50:53] += 20
    >>> found = estimate_motion([still, moving])
    >>> list(found), bool(found["variation"][1] > found["variation"][0] + 0.5)
    (['variation', 'amplitude'], True)
    """
    return pd.DataFrame(_estimates(series), columns=list(ESTIMATES))


def motion_of(cohort: Cohort) -> np.ndarray:
    """`estimate_motion` of everybody (n, 2), computed once; NaN where people have no series."""
    if cohort.measure != "series":
        return np.full((len(cohort), len(ESTIMATES)), np.nan)
    return np.array(cohort.per_person("motion", _estimates))


def without_motion(cohort: Cohort) -> np.ndarray:
    """Whose (n,) motion can only be estimated: people with series of sites where nobody's was measured."""
    if cohort.measure != "series":
        return np.zeros(len(cohort), dtype=bool)
    return cohort.table["mean_fd"].isna().groupby(cohort.table["site"]).transform("all").to_numpy()


def _estimates(series: Sequence[np.ndarray]) -> np.ndarray:
    return np.array([_estimate(np.asarray(x, dtype=float)) for x in series]).reshape(len(series), len(ESTIMATES))


def _estimate(x: np.ndarray) -> tuple[float, float]:
    spread = x.std(axis=0)
    varies = np.isfinite(spread) & (spread > EPS)
    if not varies.any() or len(x) < 3:
        return np.nan, np.nan
    z = (x[:, varies] - x[:, varies].mean(axis=0)) / spread[varies]
    dvars = np.sqrt(np.square(np.diff(z, axis=0)).mean(axis=1))
    return float(np.log(max(dvars.std() / max(dvars.mean(), EPS), EPS))), float(np.log(spread[varies].mean()))
