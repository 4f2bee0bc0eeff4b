"""Tables of measures and files of matrices: what stands beside the series of people, or in their place.

A table has a row per person and columns of numbers, as FreeSurfer's ``aparcstats2table`` and ``asegstats2table`` write
it; which of its columns are measures, `brainroam.data.readers.which_columns` says.
"""

import glob
import re
import warnings
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from brainroam.data.atlas import Atlas, anonymous_atlas, columns_of_table
from brainroam.data.atlas.known import recognise_atlas
from brainroam.data.cohort import Cohort
from brainroam.data.columns import columns_named
from brainroam.data.edge_values import correlations_at
from brainroam.data.measurements import READ_AS
from brainroam.data.readers.locate import files_below
from brainroam.data.readers.repeats import Scan, visit_order
from brainroam.data.readers.series import as_floats, read_mat, read_npz, read_series, refusing, suffix_of
from brainroam.data.readers.tables import is_table, read_table, same_id, session_column, with_people_in_rows
from brainroam.data.readers.which_columns import (
    OfModel,
    Wanted,
    choose_measures,
    class_codes,
    described,
    left_out,
    numbers_of,
    strange_cells,
)
from brainroam.data.triangles import AS_TRIANGLES, matrices_of, order_of, regions_of, untold
from brainroam.errors import ReaderError, UsageError, counted, listed, warn_user

MOSTLY = 0.5  # share of people whose ids a table has
KINDS = ("series", "matrices", "table")
FIRST_COLUMNS = 5  # of a table, among which its ids stand
VISIT = re.compile(
    r"[_.-](ses|session|visit|wave|timepoint|run|acq|long|bl|m\d+|y\d+|t\d+)([-_.]|\d|$).*$", re.IGNORECASE
)
OTHER_FILE = " of another file"


def read_block(
    entry: Mapping[str, Any],
    cohort: Cohort,
    homes: Iterable[Path],
    target: str | None = None,
    covariates: Iterable[str] = (),
    unread: Container[str] = (),
    edges: Mapping[str, str] | None = None,
) -> Cohort:
    """A further measurement of the people of a cohort: ``{table: ..., columns: ...}`` or ``{matrices: ..., ids: ...}``.

    ``target`` is the column that will be predicted, where it is not the label. ``covariates`` of a table are no
    measures; they become columns of its people. ``ids`` is the table that says whose rows the one array of everybody
    has, one after the other. Files of the people of ``unread`` are not opened. ``edges`` says of sites whether their
    matrices hold correlations (``r``) or Fisher's z (``z``).
    """
    kinds = [kind for kind in KINDS if kind in entry]
    if len(kinds) != 1:
        raise UsageError(f"a block is one of {listed(KINDS)}, as in {{table: freesurfer/*.tsv}}, not {dict(entry)}")
    homes = list(homes)
    paths = sorted({path for pattern in paths_of(entry) for path in _existing(pattern, homes)})
    files = [file for path in paths for file in (files_below(path) if path.is_dir() else [path])]
    if len(files) == 1 and files[0].suffix in (".npy", ".npz", ".mat"):
        whose = _existing(str(entry["ids"]), homes)[0] if "ids" in entry else None
        table = "the table of people" if whose is None else whose.name
        warn_user(f"{files[0].name} holds no ids: its rows are taken to be those of {table}, in their order")
        return _read_one_array(files[0], cohort, None if whose is None else read_table(whose), kinds[0], edges)
    if kinds[0] == "table":
        further = [name for name in covariates if name not in cohort.table]
        return _read_tables(files, cohort, entry.get("columns", "*"), target, further)
    return _read_arrays(files, cohort, kinds[0], unread, edges)


def paths_of(entry: Mapping[str, Any]) -> list[str]:
    """The files, folders or patterns that a block names.

    >>> paths_of({"table": "aseg.tsv"}), paths_of({"matrices": ["a", "b"]})
    (['aseg.tsv'], ['a', 'b'])
    """
    paths: Any = next((entry[kind] for kind in KINDS if kind in entry), [])
    return [str(paths)] if isinstance(paths, (str, Path)) else [str(item) for item in paths]


def guess_block(path: str | Path) -> dict[str, Any]:
    """What a path holds, as a block of a study: a table, a folder of tables, or files of matrices or series.

    >>> guess_block("freesurfer/aseg.tsv")
    {'table': 'freesurfer/aseg.tsv'}
    """
    place = Path(path)
    files = files_below(place, 1) if place.is_dir() else []
    if place.is_dir() and not (files and all(is_table(file) for file in files) and _is_of_many(files[0])):
        return {"series" if _holds_series(place) else "matrices": str(path)}
    if place.is_dir():
        return {"table": [str(file) for file in files]}
    return (
        {"table": str(path)} if is_table(place) or any(mark in str(path) for mark in "*?") else {"matrices": str(path)}
    )


def _holds_series(folder: Path) -> bool:
    """Whether the first file of a person that can be read is no square matrix."""
    for file in files_below(folder):
        if suffix_of(file):
            with suppress(ReaderError):
                return not _square(read_series(file).values)
    return False


def _is_of_many(path: Path) -> bool:
    """Whether a table has people in its rows: its first column is no number."""
    table = read_table(path)
    return (
        len(table) > 1 and len(table.columns) > 1 and not table.iloc[:, 0].str.fullmatch(r"-?\d*\.\d+(e-?\d+)?").any()
    )


def _existing(pattern: str, homes: Iterable[Path]) -> list[Path]:
    for home in homes:
        paths = [Path(path) for path in glob.glob(str(home / pattern))]
        if paths:
            return paths
    raise ReaderError(f"no file is called {pattern}; check the path, which is relative to the study file or the data")


def _read_tables(
    paths: Sequence[Path],
    cohort: Cohort,
    wanted: Wanted,
    target: str | None = None,
    covariates: Sequence[str] = (),
) -> Cohort:
    """Tables of people side by side; of several rows of a person, visits, the earliest."""
    parts, left = list[tuple[Path, pd.DataFrame]](), dict[str, str]()
    odd, repeated, with_several, beside = "", list[str](), set[str](), pd.DataFrame(index=cohort.table["subject"])
    for path in paths:
        table = with_people_in_rows(read_table(path), cohort.table["subject"])
        session = session_column(table)
        if session is not None:
            table = table.iloc[table[session].map(visit_order).argsort(kind="stable")]
        ids, rows, words = rows_of(table, cohort.table)
        if ids is None:
            raise ReaderError(
                f"no column of {path} holds the ids of the people, as {listed(cohort.table['subject'], 3)}; add one"
            )
        people = cohort.table.iloc[list(rows)].reset_index(drop=True)
        people = people.assign(label=class_codes(people, target))
        of_people = table.loc[list(rows.values())].reset_index(drop=True)
        of_people = of_people.drop(columns=[name for name in (ids, session) if name in of_people])
        of_people = of_people.set_axis(people["subject"].to_numpy(), axis=0)
        here = [name for name in covariates if name in of_people and name not in beside]
        beside = beside.join(pd.DataFrame(numbers_of(of_people[here]), index=of_people.index))
        of_people = of_people.drop(columns=[name for name in covariates if name in of_people])
        measures, others = choose_measures(of_people, wanted, people)
        left |= others
        odd += strange_cells(of_people, measures.columns)
        parts.append((path, measures))
        again = people["subject"][words.duplicated(keep=False)[list(rows.values())].to_numpy()]
        if len(again):
            repeated.append(path.name)
            with_several |= set(again)
    joined = _side_by_side(parts)
    if isinstance(wanted, OfModel):
        joined = columns_named(joined, wanted.names, listed(paths))
    if joined.empty:
        raise ReaderError(f"no column of {listed(paths)} holds measures; name them with columns")
    people = cohort.table.set_index("subject").loc[joined.index].join(beside).reset_index()
    columns = columns_of_table(joined.columns, paths[0].stem if len(paths) == 1 else paths[0].resolve().parent.name)
    # Rows, not people: nobody is left out for them.
    several = f"of {counted(len(with_several), 'person', 'people')} with several rows in {listed(repeated)} the first"
    steps = [f"{several} {READ_AS}"] if with_several else []
    steps.append(f"{len(joined.columns)} columns {READ_AS}: {described(joined)}{left_out(left, 'columns')}{odd}")
    return Cohort(list(joined.to_numpy()[:, None]), people, columns, measure="table", prepared=steps)


def _side_by_side(parts: Sequence[tuple[Path, pd.DataFrame]]) -> pd.DataFrame:
    """Columns of several tables; one of the same name is left out where it says the same, else named by its file."""
    joined = parts[0][1]
    for path, other in parts[1:]:
        again = other.columns.intersection(joined.columns)
        both = joined.join(other.rename(columns={name: f"{name}{OTHER_FILE}" for name in again}), how="outer")
        same, renamed = dict[str, pd.Series](), dict[str, str]()
        for name in again:
            one, two = both[name], both[f"{name}{OTHER_FILE}"]
            if np.allclose(one, two.fillna(one), equal_nan=True):
                same[name] = one.fillna(two)
            else:
                renamed[f"{name}{OTHER_FILE}"] = f"{path.stem}: {name}"
        joined = both.assign(**same).drop(columns=[f"{name}{OTHER_FILE}" for name in same]).rename(columns=renamed)
    return joined


def _read_arrays(
    files: Sequence[Path],
    cohort: Cohort,
    measure: str,
    unread: Container[str],
    edges: Mapping[str, str] | None,
) -> Cohort:
    """Matrices or series, a file each, named by the id; of several files of a person the first session."""
    file_of: dict[int, Path] = {}
    keys = _positions(cohort.table)
    for file in sorted(files, key=lambda file: (Scan.of(file, file.name).session, file)):
        if suffix_of(file):
            stem = file.name.removesuffix(suffix_of(file))
            inside = [k for word in map(same_id, _words(stem)) for k in keys.get(word, ())]
            inside = inside or [k for word in map(same_id, file.parts[:-1]) for k in keys.get(word, ())]
            for k in inside:
                file_of.setdefault(k, file)
    file_of = {k: file for k, file in file_of.items() if cohort.table["subject"].iat[k] not in unread}
    if not file_of:
        raise ReaderError(f"no file of {listed(files)} is named by an id, as {cohort.table['subject'].iat[0]}")
    series = [read_series(file) for file in file_of.values()]
    arrays = [one.values for one in series]
    if measure == "matrices" and (
        odd := [file for file, x in zip(file_of.values(), arrays, strict=True) if not _square(x)]
    ):
        raise ReaderError(
            f"{listed(odd)} hold no square matrix; a matrix is regions x regions, series are another block"
        )
    people = cohort.table.iloc[list(file_of)].reset_index(drop=True)
    names = series[0].names
    atlas = None if names is None else recognise_atlas(names) or anonymous_atlas(len(names), names)
    return (
        Cohort(arrays, people, atlas, measure=measure)
        if measure != "matrices"
        else _matrices(arrays, people, edges, atlas)
    )


def _matrices(
    arrays: Sequence[np.ndarray],
    people: pd.DataFrame,
    edges: Mapping[str, str] | None,
    atlas: Atlas | None = None,
    steps: Sequence[str] = (),
) -> Cohort:
    """A cohort of matrices, whose edges are those that the study says."""
    told = list[str]()
    if edges:
        arrays, told = correlations_at(arrays, people["site"].tolist(), edges)
    return Cohort(arrays, people, atlas, measure="matrices", prepared=[*steps, *told])


def _square(x: np.ndarray) -> bool:
    return x.ndim == 2 and x.shape[0] == x.shape[1]


def _read_one_array(
    path: Path, cohort: Cohort, ids: pd.DataFrame | None, kind: str, edges: Mapping[str, str] | None
) -> Cohort:
    """One array of everybody: n x P x P, or (n, M); row for row as the people, or as the ids of a table."""
    values = read_array(path)
    wanted = len(cohort) if ids is None else len(ids)
    if values.ndim not in (2, 3) or len(values) != wanted:
        problem = f"{path} has the shape {values.shape} for {counted(wanted, 'person', 'people')}"
        raise ReaderError(f"{problem}; give a row for each, in their order, or one file a person, named by the id")
    people = cohort.table
    if ids is not None:
        rows = rows_of(ids.reset_index(drop=True), people).rows
        values, people = values[list(rows.values())], people.iloc[list(rows)].reset_index(drop=True)
    if values.ndim == 3:
        return _matrices(list(values), people, edges)
    order = order_of(values) if kind == "matrices" else None
    if order is not None:
        steps = [f"rows of {values.shape[1]} edges {AS_TRIANGLES[order]}"]
        return _matrices(list(matrices_of(values, order)), people, edges, steps=steps)
    if kind == "matrices" and regions_of(values.shape[1]):
        warnings.warn(f"{path}: {untold(values.shape[1])}", stacklevel=2)
    return Cohort(list(values[:, None]), people, measure="table")


def read_array(path: Path) -> np.ndarray:
    """The array of everybody in a file of NumPy or MATLAB, people first."""
    with refusing(path):
        if path.suffix == ".npy":
            values = as_floats(np.load(path, mmap_mode="r", allow_pickle=False), path)
        else:
            values = read_npz(path) if path.suffix == ".npz" else read_mat(path)
    # MATLAB's P x P x n
    people_last = values.ndim == 3 and values.shape[0] == values.shape[1] != values.shape[2]
    return np.moveaxis(values, -1, 0) if people_last else values


class Rows(NamedTuple):
    """Which rows of a table belong to whom: its column of ids, the first row of each position, ids in one spelling."""

    column: str | None
    rows: dict[int, Any]
    words: pd.Series


def rows_of(table: pd.DataFrame, people: pd.DataFrame) -> Rows:
    """The column of ids of a table, and for each position among ``people`` that has one the first row of theirs.

    Ids may be spelled with ``sub-``, with leading zeros, with a visit (``sub-01_ses-2``, ``01.long.base``) or, where
    nothing else fits, after the name of a site. Of columns that fit as many people, as numbers of rows may, the one
    that fits more rows is taken.

    >>> table = pd.DataFrame({"lh.aparc.thickness": ["sub-07_ses-1", "sub-07_ses-2", "sub-08_ses-1"]})
    >>> rows_of(table, pd.DataFrame({"subject": ["8", "7"]}))[:2]
    ('lh.aparc.thickness', {0: 2, 1: 0})
    """
    best, most = Rows(None, {}, pd.Series(dtype=str)), (0, 0)
    for spell in SPELLINGS:
        keys = _positions(people, spell)
        for name in map(str, list(table.columns)[:FIRST_COLUMNS]):
            first: dict[int, Any] = {}
            words = table[name].map(spell)
            known = words[words.isin(keys)]
            for row, word in known.items():
                for k in keys[word]:
                    first.setdefault(k, row)
            fitting = len(first), len(known)
            if fitting > most:
                best, most = Rows(name, dict(sorted(first.items())), words), fitting
        if len(best.rows) > MOSTLY * len(people):
            break
    return best


def _positions(people: pd.DataFrame, spell: Callable[[str], str] = same_id) -> dict[str, list[int]]:
    """Positions by a spelling of the id; scans of one person also by the person. What two people share is nobody's."""
    whose = people["person"].astype(str) if "person" in people else people["subject"]
    rows_of: dict[str, list[int]] = {}
    for k, word in enumerate(people["subject"].map(spell)):
        rows_of.setdefault(word, []).append(k)
    rows_of = {word: rows for word, rows in rows_of.items() if len(rows) == 1}
    by_word = whose.groupby(whose.map(spell))
    n_people = by_word.nunique()
    for word, rows in by_word.indices.items():
        if n_people[word] == 1:
            rows_of.setdefault(str(word), rows.tolist())
    return {word: rows for word, rows in rows_of.items() if word}


def _without_visit(text: str) -> str:
    """``sub-07_ses-2`` and ``07.long.base`` as 7."""
    return same_id(VISIT.sub("", text))


def _last_part(text: str) -> str:
    """``sub-01_Oslo_0042`` as 42."""
    return same_id(re.split(r"[_-]", text)[-1])


SPELLINGS = (same_id, _without_visit, _last_part)


def _words(stem: str) -> list[str]:
    parts = re.split(r"([_-])", stem)
    return [stem, *("".join(parts[:k]) for k in range(len(parts) - 2, 0, -2)), *parts[::2]]
