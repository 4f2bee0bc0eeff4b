"""The one gate for bare arrays: what estimators are given becomes a cohort whose people are named by their position."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from brainroam.data.atlas import Atlas, columns_of_table
from brainroam.data.cohort import Cohort
from brainroam.data.measurements import is_matrix
from brainroam.data.names import site_names
from brainroam.errors import DataError, listed
from brainroam.utils.optional import as_pandas


def anonymous_cohort(
    people: Any,
    y: Sequence[int] | np.ndarray | None = None,
    site: Sequence[str] | None = None,
    tr: Sequence[float] | None = None,
) -> Cohort:
    """A cohort whose people are named by their position.

    ``people`` are a series (T_i, P) each; a symmetric matrix each, or one array (n, P, P) of them; or a table, as a
    DataFrame or an array (n, F); or a dictionary of these, several measurements of the same people.

    >>> anonymous_cohort([np.random.default_rng(0).normal(size=(9, 3))]).table["subject"].tolist()
    ['person 0']
    >>> anonymous_cohort(pd.DataFrame({"thickness": [2.5, 2.7], "volume": [900.0, None]})).measure
    'table'
    """
    if isinstance(people, Mapping):
        parts = {str(name): anonymous_cohort(values, y, site, tr) for name, values in people.items()}
        if not parts or len({len(one) for one in parts.values()}) > 1:
            raise DataError("blocks need the same people in the same order; give one row or array for each of them")
        (own, cohort), *others = parts.items()
        for name, other in others:
            cohort = cohort.with_block(name, other, own)
        return cohort
    measure, series, atlas = _measured(people)
    if len(series) == 0:
        raise DataError("no people were given")
    for name, values in {"label": y, "site": site, "tr": tr}.items():
        if values is not None and len(values) != len(series):
            raise DataError(f"there are {len(series)} people but {len(values)} values of {name}")
    table = pd.DataFrame({"subject": [f"person {i}" for i in range(len(series))]})
    table["label"] = np.nan if y is None else np.asarray(y)
    table["site"] = "unknown" if site is None else site_names(site, len(series))
    table["tr"] = np.nan if tr is None else np.asarray(tr, dtype=float)
    cohort = Cohort(series, table, atlas, measure=measure)
    if y is not None:
        refuse_one_series(cohort)
    return cohort


def _measured(people: Any) -> tuple[str, Sequence[np.ndarray], Atlas | None]:
    """What bare arrays are, one for each person, and the names of their columns where there are any."""
    people = as_pandas(people)
    if isinstance(people, pd.DataFrame):
        words = [str(name) for name in people if not pd.api.types.is_numeric_dtype(people[name])]
        if words:
            raise DataError(f"columns of a table must be numbers, but {listed(words)} are not; leave them out")
        return "table", list(people.to_numpy(dtype=float)[:, None]), columns_of_table(people.columns)
    if isinstance(people, np.ndarray) and people.ndim == 2 and people.dtype != object:
        return "table", list(people[:, None]), None
    arrays = list(people)
    if arrays and all(is_matrix(np.asarray(x)) for x in arrays):
        return "matrices", arrays, None
    return "series", arrays, None


def refuse_one_series(cohort: Cohort) -> None:
    """Refuse to learn from people who all have the same series: scores would differ by rounding alone."""
    if cohort.measure == "series" and len(cohort) > 2 and len(set(cohort.series_digests)) == 1:
        raise DataError(
            f"all {len(cohort)} people have the same series; check how files are assigned to people (template)"
        )
