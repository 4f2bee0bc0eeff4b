"""Sites whose series were treated otherwise by kind: without the global signal, or in 8 bits.

Regression on the global signal takes the mean over all edges to about 0, whatever it was before; sites of ABIDE that
were treated alike have means within a factor of two. A site is named when the mean edge of its median person is less
than a quarter of that of every other site, or more than four times as large as that of every other one.

Series that were stored as 8-bit integers have at most 256 different values, however long they are.
"""

from collections.abc import Iterator

import numpy as np

from brainroam.data.check.report import Finding
from brainroam.data.cohort import Cohort

FACTOR, LEAST_MEAN = 4.0, 0.1  # mean edge below which a common signal is as good as absent
EIGHT_BITS, ENOUGH = 2**8, 2**10  # different values; numbers of a person that would show more of them


def global_signal(cohort: Cohort, edges: np.ndarray) -> Iterator[Finding]:
    """A site without the common signal that all others have, or the only one with it."""
    known = np.isfinite(edges)
    mean = np.where(known, edges, 0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    people = cohort.table.assign(mean=mean)[known.any(axis=1)]
    median = {str(site): float(value) for site, value in people.groupby("site")["mean"].median().items()}
    if len(median) < 3:
        return
    for site, here in median.items():
        others = [value for other, value in median.items() if other != site]
        less = min(others) > LEAST_MEAN and here < min(others) / FACTOR
        more = here > LEAST_MEAN and max(others) < here / FACTOR
        if less or more:
            span = f"{min(others):.2f} to {max(others):.2f}"
            message = f"the mean of all edges is {here:.2f} in the median person, at the other sites {span}"
            which = "only there" if less else "everywhere but there"
            remedy = f"the global signal was probably removed {which}: treat the series of all sites alike"
            yield Finding("warning", "global-signal", message, remedy, site)


def eight_bits(cohort: Cohort) -> Iterator[Finding]:
    """Sites where most series have no more different values than 8 bits tell apart."""
    coarse = np.array([_is_coarse(x[np.isfinite(x)]) for x in cohort.series])
    for site, rows in cohort.table.groupby("site").indices.items():
        if coarse[rows].mean() > 0.5:
            values = [cohort.series[row] for row in rows[coarse[rows]]]
            at_ends = np.mean([np.isin(x, (np.nanmin(x), np.nanmax(x))).mean() for x in values])
            message = (
                f"series of {coarse[rows].sum()} of {len(rows)} people have at most {EIGHT_BITS} different values, as "
                f"8-bit integers have; {at_ends:.1%} of the numbers are the lowest or the highest"
            )
            remedy = "they were rounded, and cut off where many stand at the ends: read the series before that"
            yield Finding("warning", "eight-bits", message, remedy, str(site))


def _is_coarse(values: np.ndarray) -> bool:
    """Whether many numbers are few different ones; the first of them tell it of most people."""
    if len(values) < ENOUGH or len(np.unique(values[:ENOUGH])) > EIGHT_BITS:
        return False
    return len(np.unique(values)) <= EIGHT_BITS
