"""Rules about tables and matrices: units that differ between sites, rows that are copies, zeros that mean missing."""

from collections.abc import Iterator

import numpy as np

from brainroam.data.check.report import Finding
from brainroam.data.cohort import Cohort
from brainroam.errors import listed

FACTOR = 5.0  # of a site's median from that of the others, beyond which a unit differs (mm and cm: 10)
MANY = 0.05  # share of people with a zero in a column whose others are all positive


def units(cohort: Cohort) -> Iterator[Finding]:
    """Sites whose positive columns have another size than everywhere else."""
    values, site = np.concatenate(cohort.series), cohort.table["site"].to_numpy()
    names = np.array(cohort.atlas.labels, dtype=object)
    with np.errstate(all="ignore"):
        medians = {name: np.nanmedian(values[site == name], axis=0) for name in cohort.sites}
        usual = np.nanmedian(np.stack(list(medians.values())), axis=0)
        for name, median in medians.items():
            ratio = median / usual
            strange = (usual > 0) & (median > 0) & ((ratio > FACTOR) | (ratio < 1 / FACTOR))
            if strange.any():
                each = listed(f"{n} (x {r:.3g})" for n, r in zip(names[strange], ratio[strange], strict=True))
                message = f"{strange.sum()} columns are of another size than at other sites: {each}"
                yield Finding("warning", "other-units", message, "give all sites one unit (mm, not cm)", name)


def zeros(cohort: Cohort) -> Iterator[Finding]:
    """Columns that are positive but for some zeros, which then mean missing."""
    values = np.concatenate(cohort.series)
    with np.errstate(all="ignore"):
        zero = (values == 0).mean(axis=0)
        small = np.nanmin(np.where(values > 0, values, np.nan), axis=0) > 0.1 * np.nanmedian(values, axis=0)
    columns = (zero > 0) & (zero < MANY) & small & ~(values < 0).any(axis=0)
    if columns.any():
        each = listed(np.array(cohort.atlas.labels, dtype=object)[columns])
        message = f"zeros stand among values far from zero in {columns.sum()} columns: {each}"
        yield Finding("warning", "zero-as-missing", message, "leave the cells empty if zero means missing")


def copied_rows(cohort: Cohort) -> Iterator[Finding]:
    """People with the very same measures."""
    digests = np.array(cohort.series_digests)
    present = ~cohort.missing_rois.all(axis=1)
    subjects = cohort.table["subject"].to_numpy()
    for digest in np.unique(digests[present]):
        people = subjects[present & (digests == digest)]
        if len(people) > 1:
            message = f"{listed(people)} have identical measures"
            yield Finding("error", "identical-people", message, "one person on both sides of a split leaks the label")
