"""Figure 1 of the paper on any cohort: how sites differ, and how one correlation moves within a scan."""

from typing import Any

import numpy as np

from brainroam.core.connectivity import cohort_edges
from brainroam.core.recipe import PAPER
from brainroam.core.scaffold import median_over_sites, site_contrasts, sites_with_contrast
from brainroam.data.cohort import Cohort
from brainroam.methods.explanation import QUANTILES

PEOPLE = 3


def variation(cohort: Cohort) -> dict[str, Any]:
    """By site the quantiles over people of their mean correlation; and windowed correlations of one edge.

    The edge is the one whose difference between the classes, median over sites, is largest; the people are the first of
    some sites.

    >>> import brainroam
    >>> found = variation(brainroam.make_cohort(n_sites=3, n_per_site=12, n_rois=8))
    >>> len(found["sites"]), len(found["people"])
    (3, 3)
    """
    edges, site = cohort_edges(cohort), cohort.table["site"].to_numpy(dtype=str)
    level = np.nanmean(edges, axis=1)
    sites = [{"site": name, "level": np.quantile(level[site == name], QUANTILES)} for name in cohort.sites]
    contrast = site_contrasts(edges, cohort.labels, site, sites_with_contrast(cohort.labels, site))
    edge = int(np.nanargmax(median_over_sites(contrast)))
    pair = cohort.atlas.pairs[edge]
    chosen = np.linspace(0, len(cohort.sites) - 1, min(PEOPLE, len(cohort.sites))).astype(int)
    first = [int(np.flatnonzero(site == cohort.sites[k])[0]) for k in chosen]
    people = [{"site": site[i], "windows": windowed(cohort.series[i][:, pair])} for i in first]
    return {"sites": sites, "edge": [cohort.atlas.labels[k] for k in pair], "people": people}


def windowed(pair: np.ndarray, window: int = PAPER.window, stride: int = PAPER.stride) -> list[float]:
    """Correlation of two series (T, 2) in each window; 0 where one is constant.

    >>> windowed(np.column_stack([np.arange(40.0), np.arange(40.0)]))
    [1.0, 1.0, 1.0]
    """
    found = []
    for start in range(0, len(pair) - window + 1, stride):
        x, y = (pair[start : start + window] - pair[start : start + window].mean(axis=0)).T
        size = np.sqrt((x @ x) * (y @ y))
        found.append(round(float(x @ y / size), 6) if size > 0 else 0.0)
    return found
