"""Sites whose people are of other ages, or have other values of the target, than everybody else."""

from collections.abc import Iterator

import numpy as np

from brainroam.data.check.report import Finding
from brainroam.data.cohort import Cohort

OUTSIDE = 0.5  # share of a site's people beyond all others
FEWEST = 5  # people with a known value


def outside_all_others(cohort: Cohort) -> Iterator[Finding]:
    """Sites most of whose people lie beyond the range of all other sites, in age or in a number that is predicted.

    >>> import brainroam
    >>> cohort = brainroam.make_cohort(n_sites=3, n_per_site=8, n_rois=8)
    >>> old = cohort.with_columns((cohort.table[["age"]] + 60).where(cohort.table[["site"]].eq("S02").to_numpy(),
    ...     cohort.table[["age"]]))
    >>> [finding.message for finding in outside_all_others(old)]
    ['ages 75.3 to 89.4 here, 19.5 to 29.9 at all other sites']
    """
    table, is_number = cohort.table, cohort.target.is_number
    remedy = "order within the site may travel; the level of numbers and probabilities there is extrapolated"
    for name, column in {"age": "age", **({cohort.target.name: "label"} if is_number else {})}.items():
        values, site = table[column].to_numpy(dtype=float), table["site"].to_numpy()
        known = np.isfinite(values)
        for one in cohort.sites:
            here, others = values[known & (site == one)], values[known & (site != one)]
            if min(len(here), len(others)) >= FEWEST:
                beyond = (here < others.min()) | (here > others.max())
                if beyond.mean() > OUTSIDE:
                    ends = [f"{x.min():.3g} to {x.max():.3g}" for x in (here, others)]
                    what = "ages" if name == "age" else name
                    message = f"{what} {ends[0]} here, {ends[1]} at all other sites"
                    yield Finding("warning", "outside-all-others", message, remedy, one)
