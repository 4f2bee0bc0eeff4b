"""Tables of measures and files of matrices: what stands beside the series of people, or in their place.

A table has a row per person and columns of numbers, as FreeSurfer's ``aparcstats2table`` and ``asegstats2table`` write
it, or one wide table that also tells site, diagnosis, age and sex. Which of its columns are measures is seen by what
they hold: numbers that are not ids, codes or ages, and that do not tell the diagnosis as a symptom score does.
"""

import glob
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from brainroam.data.atlas import columns_of_table
from brainroam.data.cohort import Cohort
from brainroam.data.condition_columns import FEWEST, HARDLY, TELLS
from brainroam.data.condition_columns import MOSTLY as KNOWN
from brainroam.data.measurements import is_matrix
from brainroam.data.readers.joining import same_id
from brainroam.data.readers.series import read_series, suffix_of
from brainroam.data.readers.tables import is_table, read_table
from brainroam.data.readers.values import is_empty
from brainroam.data.readers.walk import files_below
from brainroam.errors import ReaderError, UsageError, counted, listed

MOSTLY = 0.5  # share of people who have a number in a column, or whose ids a table has
FEWEST_VALUES = 6  # different numbers below which a column holds codes
NO_MEASURE = re.compile(
    r"(^|[_\W])(id|ids|index|row|age|ages|sex|gender|site|scanner|dx|diag\w*|group|label|iq|fiq|viq|piq|education|"
    r"hand\w*|medic\w*|score|ados\w*|adi\w*|srs\w*|panss\w*|hamd|hama|madrs|bdi|date|visit|session|unnamed)([_\W\d]|$)",
    re.IGNORECASE,
)
KINDS = ("series", "matrices", "table")


def measures_of(
    table: pd.DataFrame, wanted: str | Sequence[str] = "*", people: pd.DataFrame | None = None
) -> pd.DataFrame:
    """The columns of a table of text that are measures, as numbers; NaN where a cell is empty.

    ``wanted`` are patterns of names (``*_thickness``). Without one, columns named like ids, ages or scores, columns of
    few codes and, where ``people`` tells label and site, columns that tell the diagnosis are none.

    >>> table = pd.DataFrame({"age": ["9", "8"] * 4, "lh_area": [str(800 + k) for k in range(8)]})
    >>> measures_of(table).columns.tolist()
    ['lh_area']
    """
    patterns = [wanted] if isinstance(wanted, str) else list(wanted)
    every = patterns == ["*"]
    names = [name for name in table if any(fnmatch(str(name), pattern) for pattern in patterns)]
    names = [name for name in names if not every or not NO_MEASURE.search(str(name))]
    numbers = {}
    for name in names:
        text = table[name].astype(str)
        values = pd.to_numeric(text.where(~is_empty(text)), errors="coerce").to_numpy(dtype=float)
        known = np.isfinite(values)
        if known.mean() >= MOSTLY and (not every or len(np.unique(values[known])) >= min(FEWEST_VALUES, known.sum())):
            numbers[str(name)] = np.where(known, values, np.nan)
    found = pd.DataFrame(numbers, index=table.index)
    if every and people is not None and len(found.columns):
        found = found.loc[:, ~_tell_the_condition(found.to_numpy(), people["label"], people["site"])]
    return found


def _tell_the_condition(values: np.ndarray, label: pd.Series, site: pd.Series) -> np.ndarray:
    """Which columns measure the condition: `brainroam.data.condition_columns.of_the_condition`, of many at once."""
    y, place = label.to_numpy(dtype=float), site.to_numpy().astype(str)
    if min((y == 1).sum(), (y == 0).sum()) < FEWEST:
        return np.zeros(values.shape[1], dtype=bool)
    cases, controls = (np.isfinite(values[y == k]).mean(axis=0) for k in (1, 0))
    one_class = (np.maximum(cases, controls) >= KNOWN) & (np.minimum(cases, controls) <= HARDLY)
    won, pairs = np.zeros(values.shape[1]), 0
    for name in np.unique(place):
        case, control = (np.flatnonzero((place == name) & (y == k)) for k in (1, 0))
        if len(case) and len(control):
            ranks = rankdata(np.nan_to_num(values[np.concatenate([case, control])]), axis=0)
            won += ranks[: len(case)].sum(axis=0) - len(case) * (len(case) + 1) / 2
            pairs += len(case) * len(control)
    share = won / max(pairs, 1)
    return one_class | ((pairs > 0) & (np.maximum(share, 1 - share) >= TELLS))


def read_block(told: Mapping[str, Any], cohort: Cohort, homes: Iterable[Path]) -> Cohort:
    """A further measurement of the people of a cohort: ``{table: ..., columns: ...}`` or ``{matrices: ...}``."""
    kinds = [kind for kind in KINDS if kind in told]
    if len(kinds) != 1:
        raise UsageError(f"a block is one of {listed(KINDS)}, as in {{table: freesurfer/*.tsv}}, not {dict(told)}")
    given = told[kinds[0]]
    patterns = [str(given)] if isinstance(given, (str, Path)) else [str(item) for item in given]
    paths = sorted({path for pattern in patterns for path in _existing(pattern, homes)})
    if kinds[0] == "table":
        return _read_tables(paths, cohort, told.get("columns", "*"))
    return _read_arrays(paths, cohort, kinds[0])


def guess_block(path: str | Path) -> dict[str, Any]:
    """What a path holds, as a block of a study: a table, a folder of tables, or files of matrices or series.

    >>> guess_block("freesurfer/aseg.tsv")
    {'table': 'freesurfer/aseg.tsv'}
    """
    place = Path(path)
    files = files_below(place, 1) if place.is_dir() else []
    if place.is_dir() and not (files and all(is_table(file) for file in files) and _is_of_many(files[0])):
        return {"matrices": str(path)}
    if place.is_dir():
        return {"table": [str(file) for file in files]}
    return (
        {"table": str(path)} if is_table(place) or any(mark in str(path) for mark in "*?") else {"matrices": str(path)}
    )


def _is_of_many(path: Path) -> bool:
    """Whether a table has people in its rows: its first column is no number."""
    table = read_table(path)
    return (
        len(table) > 1 and len(table.columns) > 1 and not table.iloc[:, 0].str.fullmatch(r"-?\d*\.\d+(e-?\d+)?").any()
    )


def _existing(pattern: str, homes: Iterable[Path]) -> list[Path]:
    for home in homes:
        found = [Path(path) for path in glob.glob(str(home / pattern))]
        if found:
            return found
    raise ReaderError(f"no file is called {pattern}; check the path, which is relative to the study file or the data")


def _read_tables(paths: Sequence[Path], cohort: Cohort, wanted: str | Sequence[str]) -> Cohort:
    parts = []
    for path in paths:
        table = read_table(path)
        rows = _rows_of(table, cohort, path)
        people = cohort.table.iloc[list(rows.values())].reset_index(drop=True)
        of_people = table.loc[list(rows)].reset_index(drop=True)
        measures = measures_of(of_people.iloc[:, 1:] if len(paths) > 1 else of_people, wanted, people)
        parts.append(measures.set_axis(people["subject"].to_numpy(), axis=0))
    joined = pd.concat(parts, axis=1)
    joined = joined.loc[:, ~joined.columns.duplicated()]
    if joined.empty:
        raise ReaderError(f"no column of {listed(paths)} holds measures; name them with columns")
    people = cohort.table.set_index("subject").loc[joined.index].reset_index()
    columns = columns_of_table(joined.columns, paths[0].stem)
    return Cohort(list(joined.to_numpy()[:, None]), people, columns, measure="table")


def _read_arrays(paths: Sequence[Path], cohort: Cohort, measure: str) -> Cohort:
    """Matrices or series: a file each, named by the id, or one array of everybody in the order of the people."""
    files = [file for path in paths for file in (files_below(path) if path.is_dir() else [path])]
    if len(files) == 1 and files[0].suffix in (".npy", ".npz"):
        return _of_one_file(files[0], cohort)
    found: dict[int, Path] = {}
    keys = _keys(cohort.table["subject"], same_id)
    words = {word: k for word, k in keys.items() if word}
    for file in files:
        if suffix_of(file) or file.suffix == ".npz":
            inside = [words[word] for word in map(same_id, _words(file.name.split(".")[0])) if word in words]
            if inside:
                found.setdefault(inside[0], file)
    if not found:
        raise ReaderError(f"no file below {listed(paths)} is named by an id, as {cohort.table['subject'].iat[0]}")
    arrays = [read_square(file) for file in found.values()]
    kind = "matrices" if measure == "matrices" and all(is_matrix(x) for x in arrays) else "series"
    people = cohort.table.iloc[list(found)].reset_index(drop=True)
    return Cohort(arrays, people, measure=kind if measure == "series" else "matrices")


def read_square(path: Path) -> np.ndarray:
    """One person's array from any file of series, or the only array of an ``.npz``."""
    if path.suffix != ".npz":
        return read_series(path).values
    with np.load(path, allow_pickle=False) as arrays:
        if len(arrays.files) != 1:
            raise ReaderError(f"{path} holds {listed(arrays.files)}; keep one array a person")
        return np.asarray(arrays[arrays.files[0]], dtype=float)


def _of_one_file(path: Path, cohort: Cohort) -> Cohort:
    values = read_square(path) if path.suffix == ".npz" else np.load(path, allow_pickle=False)
    if len(values) != len(cohort):
        told = f"{path} has {len(values)} rows for {counted(len(cohort), 'person', 'people')}"
        raise ReaderError(f"{told}; give a row for each, in their order, or one file a person, named by the id")
    measure = "matrices" if values.ndim == 3 else "table"
    return Cohort(list(values if values.ndim == 3 else values[:, None]), cohort.table, measure=measure)


def _rows_of(table: pd.DataFrame, cohort: Cohort, path: Path) -> dict[Any, int]:
    """Which row of a table belongs to whom (position in the cohort), by the column and spelling of ids that fit."""
    best: dict[Any, int] = {}
    for key in (same_id, _last_part):
        keys = _keys(cohort.table["subject"], key)
        for name in list(table.columns)[:5]:
            ids = table[name].map(key)
            twice = set(ids[ids.duplicated() & ids.isin(keys)])
            if twice:
                continue
            rows = {row: keys[word] for row, word in ids.items() if word in keys}
            if len(rows) > len(best):
                best = rows
        if len(best) > MOSTLY * len(cohort):
            return best
    if best:
        return best
    raise ReaderError(
        f"no column of {path} holds the ids of the people once each, as {listed(cohort.table['subject'], 3)}; add one"
        " (rows of several visits: keep one each)"
    )


def _keys(ids: pd.Series, key: Callable[[str], str]) -> dict[str, int]:
    """Positions by a spelling of the id, where it is nobody else's."""
    words = ids.map(key)
    return {word: k for k, word in enumerate(words) if word not in set(words[words.duplicated()])}


def _last_part(text: str) -> str:
    """``sub-01_Oslo_0042`` as 42."""
    return same_id(re.split(r"[_-]", text)[-1])


def _words(stem: str) -> list[str]:
    parts = re.split(r"([_-])", stem)
    return [stem, *("".join(parts[:k]) for k in range(len(parts) - 2, 0, -2)), *parts[::2]]
