"""People given as arrays: what the arrays are, and the mistakes that can be seen in them before anything is learned.

Rows belong together by their position. Where pandas knows better (two tables of the same people in different orders),
where a table holds the answer or an id beside its measures, and where series lie on their side, an error says so.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from brainroam.data.atlas import Atlas, columns_of_table
from brainroam.data.cohort import Cohort
from brainroam.data.columns import ID, columns_named
from brainroam.data.measurements import NOT_SYMMETRIC, are_matrices
from brainroam.data.names import site_names
from brainroam.data.readers.series import region_count
from brainroam.data.readers.which_columns import measures_condition
from brainroam.data.triangles import order_of, regions_of
from brainroam.errors import DataError, listed, warn_user
from brainroam.utils.optional import as_pandas

READ_FILES = "read files with brainroam.load_cohort(folder), or one by one with numpy.loadtxt"
FEW_VOLUMES = 30  # below which a correlation is mostly chance, see `brainroam check`
NAMELESS = ("column_001", "0")  # the first column of an array, of a DataFrame made of one
MOST_MISSING = 0.2  # share of a model's columns that new people may lack, as `max_missing_rois` of a study
FEWEST_EDGES = 10  # rows of fewer numbers are seldom the triangle of a matrix


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
        cohort = cohort.called(own)
        for name, other in others:
            cohort = cohort.with_block(name, other)
        return cohort
    measure, series, atlas = _arrays_of(people)
    if len(series) == 0:
        raise DataError("no people were given")
    for name, values in {"label": y, "site": site, "tr": tr}.items():
        if values is not None and len(values) != len(series):
            raise DataError(
                f"there are {len(series)} people but {len(values)} values of {name}; give one for each person, in the "
                "order of X"
            )
    table = pd.DataFrame({"subject": [f"person {i}" for i in range(len(series))]})
    table["label"] = np.nan if y is None else np.asarray(y)
    table["site"] = "unknown" if site is None else site_names(site, len(series))
    table["tr"] = np.nan if tr is None else np.asarray(tr, dtype=float)
    return Cohort(series, table, atlas, measure=measure)


def in_order_of_training(people: Any, columns: Mapping[str, Sequence[str]]) -> Any:
    """Tables with named columns, which a model finds by their names wherever they stand; anything else as it is.

    ``columns`` are those of the model by the name of the block; of one fitted on an array there are no names.

    >>> in_order_of_training(pd.DataFrame({"b": [1], "a": [2]}), {"table": ["a", "b"]}).columns.tolist()
    ['a', 'b']
    """
    if isinstance(people, Mapping):
        return {
            name: in_order_of_training(values, {name: columns[str(name)]} if str(name) in columns else {})
            for name, values in people.items()
        }
    names, table = next(iter(columns.values()), []), as_pandas(people)
    if not isinstance(table, pd.DataFrame) or not names or names[0] in NAMELESS:
        return people
    return columns_named(table, names, "X", MOST_MISSING)


def require_measures(people: Any, y: Any, site: Any) -> None:
    """An error where a column of a table is the label or the site, or an id: whatever reads it, reads the answer.

    >>> require_measures(pd.DataFrame({"thickness": [2.5, 2.7, 2.6], "dx": [0, 1, 1]}), [0, 1, 1], ["A", "A", "B"])
    Traceback (most recent call last):
    brainroam.errors.DataError: the column dx of X is y itself; leave it out of X
    """
    for table in people.values() if isinstance(people, Mapping) else [people]:
        table = as_pandas(table)
        if not isinstance(table, pd.DataFrame):
            continue
        for name in table:
            column = table[name].to_numpy()
            what = next((what for what, answer in (("y", y), ("site", site)) if _same_groups(column, answer)), "")
            if what:
                raise DataError(f"the column {name} of X is {what} itself; leave it out of X")
            if ID.search(str(name)) and len(pd.unique(column)) == len(column):
                raise DataError(
                    f"the column {name} of X is an id, which says nothing about people never seen; leave it out of X, "
                    f"as X.set_index({name!r})"
                )


def warn_of_poor_data(cohort: Cohort) -> None:
    """Warn of probable mistakes: one site, people without a signal, few volumes, and what matrices are not."""
    if len(cohort.sites) == 1:
        warn_user(
            "everybody is of one site, so nothing is learned of how people of another site differ: probabilities and "
            "the threshold are those of this site; give site=, the name of each person's scanner or hospital"
        )
    empty = np.flatnonzero(cohort.missing_rois.all(axis=1))
    if len(empty) and not cohort.blocks:
        warn_user(f"nothing was measured of person {listed(empty)}: every region or column is missing; leave them out")
    few = np.flatnonzero(cohort.table["n_timepoints"] < FEW_VOLUMES)
    if cohort.measure == "series" and len(few):
        who = "everybody" if len(few) == len(cohort) else f"person {listed(few)}"
        turned = "; rows are volumes and columns regions: if it is the other way round give x.T of each"
        warn_user(
            f"fewer than {FEW_VOLUMES} volumes of {who}: correlations over so few are mostly chance; leave them out"
            + (turned if len(few) == len(cohort) else "")
        )
    if cohort.measure == "series" and (cohort.table["n_timepoints"] == cohort.n_rois).all():
        n = cohort.n_rois
        warn_user(
            f"arrays of {n} x {n} numbers do not look like matrices of edges and are read as series of {n} volumes; "
            "of matrices give the mean of both triangles"
        )
    for step in cohort.prepared:
        if NOT_SYMMETRIC in step:
            warn_user(f"{step}, since directed edges are no measure that methods know")
    warn_of_triangles(cohort)
    for block in (cohort.blocks or {"": cohort}).values():
        warn_of_scales(block)


def warn_of_scales(cohort: Cohort) -> None:
    """A warning where named columns of a table tell the classes apart as a scale of symptoms does."""
    if cohort.measure != "table" or cohort.atlas.labels[0] in NAMELESS:
        return
    for label in cohort.target.diagnoses(cohort.table["label"]):
        telling = measures_condition(np.concatenate(cohort.series), label, cohort.table["site"])
        columns = [name for name, tells in zip(cohort.atlas.labels, telling, strict=True) if tells]
        if columns:
            warn_user(
                f"{listed(columns)} in X tell the classes apart as a scale of symptoms does; leave out what is one, "
                "since a model that reads symptoms says nothing about the brain"
            )


def warn_of_triangles(cohort: Cohort) -> None:
    """A warning where the rows of a table without names are probably the triangles of matrices of correlations.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     warn_of_triangles(anonymous_cohort(np.full((4, 45), 0.5)))
    >>> str(told[0].message)[:73]
    'the 45 columns of X may be the edges of 10 regions, and are read as a tab'
    """
    width, n = cohort.n_rois, regions_of(cohort.n_rois)
    named = cohort.measure != "table" or cohort.atlas.labels[0] not in NAMELESS
    if named or width < FEWEST_EDGES or n is None:
        return
    if max(float(np.nanmax(np.abs(x), initial=0)) for x in cohort.series) <= 1:
        order = order_of(np.concatenate(cohort.series))
        which = {"lower": "the lower triangle: i, j = numpy.tril_indices({n}, -1)"}
        first = which.get(order or "", "the upper triangle: i, j = numpy.triu_indices({n}, 1)").format(n=n)
        sure = "" if order else "; make sure that it is not the lower one, as of nilearn, tril_indices(n, -1)"
        warn_user(
            f"the {width} columns of X may be the edges of {n} regions, and are read as a table of measures; for "
            f"pathways give the matrices M = numpy.zeros((len(X), {n}, {n})), filled from {first}; "
            f"M[:, i, j] = M[:, j, i] = X{sure}"
        )


def _arrays_of(people: Any) -> tuple[str, Sequence[np.ndarray], Atlas | None]:
    """Measure, one array per person, and column names (an atlas) where there are any."""
    people = as_pandas(people)
    if isinstance(people, str):
        raise DataError(f"X is the text {people!r}, not the arrays of people; {READ_FILES}")
    if isinstance(people, pd.DataFrame):
        words = [str(name) for name in people if not pd.api.types.is_numeric_dtype(people[name])]
        if words:
            raise DataError(f"columns of a table must be numbers, but {listed(words)} are not; leave them out")
        return "table", list(people.to_numpy(dtype=float)[:, None]), columns_of_table(people.columns)
    if isinstance(people, np.ndarray) and people.ndim == 2 and people.dtype != object:
        return "table", list(people[:, None]), None
    arrays = list(people)
    if any(isinstance(x, str) for x in arrays):
        raise DataError(f"X holds names of files, not arrays; {READ_FILES}")
    if arrays and are_matrices(arrays):
        return "matrices", arrays, None
    _refuse_turned([np.shape(x) for x in arrays])
    return "series", arrays, None


def _refuse_turned(shapes: Sequence[tuple[int, ...]]) -> None:
    """An error where the shapes of series fit only as regions x time."""
    if not shapes or any(len(shape) != 2 for shape in shapes) or len({shape[1] for shape in shapes}) == 1:
        return
    n_regions, turned = region_count(shapes, None)
    if turned.any():
        who = "everybody" if turned.all() else f"person {listed(np.flatnonzero(turned))}"
        raise DataError(
            f"the series of {who} are regions x time (they have {n_regions} rows, and numbers of columns that differ); "
            "rows must be volumes and columns regions: give x.T of each"
        )


def _same_groups(column: np.ndarray, answer: Any) -> bool:
    """Whether two columns are equal, or divide people alike into more than one group."""
    if answer is None or len(np.shape(answer)) != 1 or len(column) != len(answer):
        return False
    a, b = pd.factorize(column)[0], pd.factorize(np.asarray(answer))[0]
    n = a.max() + 1
    return bool((a == b).all() and (1 < n < len(a) or np.array_equal(column, answer)))
