"""Which axis of a file is time: series that users made themselves are often regions x time, at one site or at all.

The number of regions is that of the atlas, or what nearly all files share along one axis while the other varies. A
file that has it only along its rows was written the other way round.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from brainroam.data.atlas import SHIPPED
from brainroam.data.readers.text import Series
from brainroam.errors import DataError, counted

REMEDY = "pass transpose=True (--option transpose=true), or transpose=False if it is right as it is"


def region_count(shapes: Sequence[tuple[int, ...]], n_rois: int | None = None) -> tuple[int, np.ndarray]:
    """The number of regions, and which files have it only along their rows; ``n_rois`` is that of a known atlas.

    >>> n_rois, turned = region_count([(150, 40), (180, 40), (40, 200)])
    >>> n_rois, turned.tolist()
    (40, [False, False, True])
    """
    rows, columns = np.array([shape[:2] for shape in shapes]).T
    if n_rois is None:
        across = len(set(rows)) == 1 and (len(set(columns)) > 1 or rows[0] == SHIPPED["aal"])
        n_rois = int(rows[0]) if across else Counter(columns.tolist()).most_common(1)[0][0]
    return n_rois, (rows == n_rois) & (columns != n_rois)


def turn_to_time_first(
    series: list[Series],
    people: pd.DataFrame,
    n_rois: int | None,
    keep: Callable[[Series], Series] | None = None,
) -> tuple[list[Series], str]:
    """Turn the series that fit only so, and say whose, by site; an error where it cannot be known which way is right.

    With a known atlas nothing is in doubt. Without one, series of several lengths tell it: regions are what all share.
    ``keep`` moves a turned series to disk, for cohorts that memory cannot hold.
    """
    found, turned = region_count([person.values.shape for person in series], n_rois)
    if not turned.any():
        return series, ""
    lengths = {person.values.shape[1 if flip else 0] for person, flip in zip(series, turned, strict=True)}
    if n_rois is None and (turned.all() or len(lengths) == 1):
        first = int(np.flatnonzero(turned)[0])
        height, width = series[first].values.shape
        remedy = (
            REMEDY if turned.all() else "give the atlas (--atlas), a name or a table of its regions, which tells it"
        )
        raise DataError(
            f"subject {people['subject'].iloc[first]}: the series of {height} rows x {width} columns looks transposed "
            f"(rows should be volumes, columns {found} regions; {int(turned.sum())} people are like this); {remedy}"
        )
    of_site = pd.Series(turned).groupby(people["site"].astype(str).to_numpy()).agg(["sum", "size"])
    told = ", ".join(f"{row['sum']} of {row['size']} at {site}" for site, row in of_site.iterrows() if row["sum"])
    keep = keep or (lambda person: person)
    upright = [keep(_turned(person)) if flip else person for person, flip in zip(series, turned, strict=True)]
    n = counted(int(turned.sum()), "series is", "series are")
    return upright, f"{n} regions x time and read the other way round ({told}), for {found} regions"


def _turned(series: Series) -> Series:
    return replace(series, values=np.ascontiguousarray(series.values.T), names=None)
