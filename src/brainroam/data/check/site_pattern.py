"""Sites whose mean connectivity is unlike everybody else's: columns in another order, or of another atlas.

Mean edges of two sites with the same regions agree: r is .89 to .96 between a site of ABIDE and the others together.
A site whose two halves agree with each other, but which does not agree with the other sites, has other regions. With
ten regions of ABIDE drawn by chance and six people of each site that never named a site wrongly (0 of 1,200; with four
regions 20, so fewer than eight are not looked at).
"""

from collections.abc import Iterator

import numpy as np

from brainroam.data.check.duplicates import correlations
from brainroam.data.check.report import Finding
from brainroam.data.cohort import Cohort

MIN_REGIONS = 8
FEWEST, MOST = 6, 30  # people of a site that are needed, and that are enough
MIN_HALVES = 0.5  # agreement of the halves of a site below which its mean says nothing
LEAST_SHARE = 0.5  # of that agreement, with the other sites


def unlike_sites(cohort: Cohort) -> Iterator[Finding]:
    """Sites that agree with themselves and not with the others."""
    people = {site: _some(rows) for site, rows in cohort.table.groupby("site").indices.items() if len(rows) >= FEWEST}
    if len(people) < 2 or cohort.n_rois < MIN_REGIONS:
        return
    edges = {str(site): correlations(cohort.subset(rows)) for site, rows in people.items()}
    means = {site: _mean(part) for site, part in edges.items()}
    for site, part in edges.items():
        halves = _agreement(_mean(part[::2]), _mean(part[1::2]))
        others = _agreement(means[site], _mean(np.array([means[other] for other in means if other != site])))
        if halves >= MIN_HALVES and others < LEAST_SHARE * halves:
            message = (
                f"mean connectivity is unlike that of the other sites (r = {others:.2f}; {halves:.2f} between two "
                "halves of this site)"
            )
            remedy = "its regions are probably in another order, or of another atlas: compare the columns of its series"
            yield Finding("warning", "unlike-site", message, remedy, site)


def _some(rows: np.ndarray) -> np.ndarray:
    """At most so many as are enough, evenly spaced."""
    return rows[np.linspace(0, len(rows) - 1, min(len(rows), MOST)).astype(int)]


def _mean(edges: np.ndarray) -> np.ndarray:
    """Mean of each column over the people who have it; NaN where nobody does."""
    known = np.isfinite(edges)
    with np.errstate(invalid="ignore"):
        return np.where(known, edges, 0).sum(axis=0, dtype=float) / known.sum(axis=0)


def _agreement(a: np.ndarray, b: np.ndarray) -> float:
    """Pearson correlation over the edges that both know; 0 where there is nothing to compare."""
    known = np.isfinite(a) & np.isfinite(b)
    a, b = a[known], b[known]
    return float(np.corrcoef(a, b)[0, 1]) if len(a) > 2 and np.ptp(a) > 0 and np.ptp(b) > 0 else 0.0
