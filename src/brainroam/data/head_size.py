"""The size of the head: which column of a study holds the intracranial volume."""

import re

import numpy as np
import pandas as pd

from brainroam.data.cohort import Cohort

# TIV, eTIV, ICV or EstimatedTotalIntraCranialVol; a volume divided by it (BrainSegVol-to-eTIV) is something else
HEAD_SIZE = re.compile(r"(^|(?<!to)[_\W])(e?tiv|icv)([_\W]|$)|intra_?cranial", re.IGNORECASE)


def head_sizes(cohort: Cohort) -> pd.Series:
    """Everybody's intracranial volume: a column of the people, else of a table that was measured; NaN if there is none.

    >>> import brainroam
    >>> from brainroam.data.atlas import columns_of_table
    >>> people = brainroam.make_cohort(n_sites=2, n_per_site=4, n_rois=8).table
    >>> rows = [np.array([[2.5, 1500.0 + i]]) for i in range(8)]
    >>> head_sizes(Cohort(rows, people, columns_of_table(["thickness", "eTIV"], "study"), measure="table")).tolist()[-1]
    1507.0
    """
    table = cohort.table
    for name in table:
        if HEAD_SIZE.search(str(name)) and pd.api.types.is_numeric_dtype(table[name]):
            return table[name].astype(float)
    for block in (cohort.blocks or {"": cohort}).values():
        found = [k for k, name in enumerate(block.atlas.labels) if HEAD_SIZE.search(name)]
        if block.measure == "table" and found:
            return pd.Series([x[0, found[0]] for x in block.series], index=table.index, dtype=float)
    return pd.Series(np.nan, index=table.index)
