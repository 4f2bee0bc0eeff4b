"""Matrices as CONN writes them: ``resultsROI_Subject001_Condition001.mat``, one file a person and condition.

``Z`` has Fisher's z of the correlations of n sources with m targets, NaN where a region meets itself; ``names`` are the
sources and ``names2`` the targets. A connectivity matrix is of the regions that are both:

    r_ij = tanh(Z_ij),  i and j in names and in names2.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from brainroam.data.edge_values import correlations_of
from brainroam.data.readers.text import Series
from brainroam.errors import ReaderError, listed

VARIABLES = {"Z", "names", "names2"}


def series_of_conn(found: Mapping[str, Any], path: Path) -> Series:
    """The matrix of a file of CONN.

    >>> z = np.array([[np.nan, 0.5, 0.1], [0.5, np.nan, 0.2]])
    >>> series = series_of_conn({"Z": z, "names": ["a", "b"], "names2": ["a", "b", "CSF"]}, Path("x.mat"))
    >>> series.values.round(2).tolist(), series.names
    ([[1.0, 0.46], [0.46, 1.0]], ('a', 'b'))
    """
    z = np.asarray(found["Z"], dtype=float)
    sources, targets = (_words(found[name]) for name in ("names", "names2"))
    if z.shape != (len(sources), len(targets)):
        raise ReaderError(f"{path}: Z has shape {z.shape} for {len(sources)} names and {len(targets)} names2")
    both = [name for name in sources if name in targets]
    if len(both) < 2:
        raise ReaderError(f"{path}: no two sources of CONN are also targets; choose the same regions as both in CONN")
    matrix = z[np.ix_([sources.index(name) for name in both], [targets.index(name) for name in both])]
    others = [name for name in dict.fromkeys([*sources, *targets]) if name not in both]
    note = f"CONN: {listed(others)} are not both sources and targets and were left out"
    return Series(correlations_of(matrix), tuple(both), notes=(note,) if others else ())


def _words(cells: Any) -> list[str]:
    """A MATLAB cell of text as a list."""
    return [str(np.squeeze(cell)) for cell in np.ravel(np.asarray(cells, dtype=object))]
