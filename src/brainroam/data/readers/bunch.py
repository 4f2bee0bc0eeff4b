"""Cohorts from what nilearn's fetchers return."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from brainroam.data.atlas import load_atlas
from brainroam.data.cohort import Cohort
from brainroam.data.readers.abide import TR
from brainroam.data.readers.values import SENTINELS
from brainroam.errors import DataError, listed


def cohort_from_bunch(bunch: Mapping[str, Any], atlas: str = "aal") -> Cohort:
    """A cohort from what ``nilearn.datasets.fetch_abide_pcp(derivatives="rois_aal")`` returns.

    Parameters
    ----------
    bunch : Bunch
        With ``rois_<atlas>``, a list of series, and ``phenotypic``, a table.
    atlas : str
        Which of its ROI sets.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> people = pd.DataFrame({"SUB_ID": [50002, 50003], "SITE_ID": ["PITT", "PITT"], "DX_GROUP": [1, 2],
    ...                        "AGE_AT_SCAN": [16.8, -9999], "SEX": [1, 2]})
    >>> cohort_from_bunch({"rois_aal": [rng.normal(size=(50, 116)) for _ in range(2)], "phenotypic": people})
    Cohort(2 people, 1 sites, 1 with the condition, 116 regions of 'aal')
    """
    name = f"rois_{atlas}"
    if name not in bunch or "phenotypic" not in bunch:
        raise DataError(f"the bunch holds {listed(sorted(bunch), 20)}; fetch it with derivatives={name!r}")
    people = pd.DataFrame(bunch["phenotypic"]).reset_index(drop=True)
    absent = [column for column in ("SUB_ID", "SITE_ID", "DX_GROUP") if column not in people]
    if absent:
        raise DataError(f"the phenotypic table of the bunch lacks {', '.join(absent)}")
    table = pd.DataFrame(
        {
            "subject": people.get("FILE_ID", people["SUB_ID"]).astype(str),
            "site": people["SITE_ID"].astype(str),
            "label": people["DX_GROUP"].astype(int).map({1: 1, 2: 0}),
            "tr": people["SITE_ID"].map(TR).astype(float),
        }
    )
    for ours, theirs in {"age": "AGE_AT_SCAN", "mean_fd": "func_mean_fd"}.items():
        if theirs in people:
            table[ours] = people[theirs].astype(float).replace(dict.fromkeys(map(float, SENTINELS), np.nan))
    if "SEX" in people:
        table["sex"] = people["SEX"].astype(int).map({1: 1.0, 2: 0.0})
    series = list(bunch[name])
    shipped = load_atlas(atlas) if atlas in ("aal", "cc200") else None
    return Cohort(series, table, shipped)
