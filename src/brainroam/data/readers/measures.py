"""Tables of measures and files of matrices: what stands beside the series of people, or in their place.

A table has a row per person and columns of numbers, as FreeSurfer's ``aparcstats2table`` and ``asegstats2table`` write
it, or one wide table that also tells site, diagnosis, age and sex. Which of its columns are measures is seen by what
they hold: numbers that are not ids, codes or ages, and that do not tell the diagnosis as a symptom score does; and by
their names: measures of a brain are many and share parts of their names, a questionnaire beside them does not.
"""

import glob
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from brainroam.data.atlas import anonymous_atlas, columns_of_table
from brainroam.data.atlas.known import recognise_atlas
from brainroam.data.cohort import Cohort
from brainroam.data.columns import FEWEST, HARDLY, TELLS, columns_named
from brainroam.data.columns import MOSTLY as KNOWN
from brainroam.data.measurements import READ_AS
from brainroam.data.names import plain
from brainroam.data.readers.locate import files_below
from brainroam.data.readers.repeats import Scan, visit_order
from brainroam.data.readers.series import as_floats, read_mat, read_npz, read_series, refusing, suffix_of
from brainroam.data.readers.tables import is_table, read_table, same_id, session_column, with_people_in_rows
from brainroam.data.readers.values import DECIMAL_COMMA, THOUSANDS, fold, is_empty
from brainroam.data.target import MOST_CLASSES
from brainroam.errors import ReaderError, UsageError, counted, listed

MOSTLY = 0.5  # share of people who have a number in a column, or whose ids a table has
SURELY_TELLS = 0.97  # AUC of a single column that no region of a brain has
MOST_STEPS = 100  # of a scale of symptoms
FEWEST_VALUES = 6  # different numbers below which a column holds codes
NO_MEASURE = re.compile(
    r"(^|[_\W])(id|ids|rid|ptid|eid|index|row|age|ages|sex|gender|site|scanner|dx|diag\w*|group|label|iq|fiq|viq|piq|"
    r"hand\w*|medic\w*|score|ados\w*|adi\w*|srs\w*|panss\w*|hamd|hama|madrs|bdi|mmse|moca|cdr\w*|adas\w*|updrs\w*|"
    r"ymrs|bprs|phq\w*|gaf|cbcl\w*|faq|gds|npi\w*|ravlt\w*|ecog\w*|hads\w*|stai\w*|wais\w*|wisc\w*|wasi\w*|"
    r"(pt)?educ\w*|apoe\w*|date|visit|viscode|session|unnamed|qc|qa|rating|snr|cnr)([_\W\d]|$)|holes|euler",
    re.IGNORECASE,
)
#: Words for regions and for what is measured of them.
OF_A_BRAIN = re.compile(
    r"brain|cort|vol|thick|area|icv|tiv|csf|vent|vessel|plexus|hypointens|matter|stem|hippo|amyg|thal|caud|putam|pall|"
    r"accumb|cereb|insul|call|optic|front|tempor|pariet|occip|cingul|lobe|pole|gyr|sulc|fascic|(^|[_\W])cc([_\W]|$)",
    re.IGNORECASE,
)
PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")  # of a name: lh, Left, thickness
KIN, FEWEST_KIN = 0.1, 5  # share and number of columns with a part of the name in common
ALIKE = 0.8  # share of columns with kin, or named after a brain, from which on names tell the others apart
KINDS = ("series", "matrices", "table")
UNKNOWN = (-9999.0, -999.0)  # how datasets write that a number is not known
FIRST_COLUMNS = 5  # of a table, among which its ids stand
VISIT = re.compile(
    r"[_.-](ses|session|visit|wave|timepoint|run|acq|long|bl|m\d+|y\d+|t\d+)([-_.]|\d|$).*$", re.IGNORECASE
)
OTHER_FILE = " of another file"


@dataclass(frozen=True)
class OfModel:
    """In place of patterns: the columns on which a model was trained, see `brainroam.data.columns.columns_named`."""

    names: tuple[str, ...]


Wanted = str | Sequence[str] | OfModel


def measures_of(
    table: pd.DataFrame, wanted: str | Sequence[str] = "*", people: pd.DataFrame | None = None
) -> pd.DataFrame:
    """The columns of a table of text that are measures, as numbers, see `choose_measures`.

    >>> table = pd.DataFrame({"age": ["9", "8"] * 4, "lh_area": [str(800 + k) for k in range(8)]})
    >>> measures_of(table).columns.tolist()
    ['lh_area']
    """
    return choose_measures(table, wanted, people)[0]


def choose_measures(
    table: pd.DataFrame, wanted: Wanted = "*", people: pd.DataFrame | None = None
) -> tuple[pd.DataFrame, dict[str, str]]:
    """The columns of a table of text that are measures, as numbers, NaN where a cell is empty; and why others are not.

    ``wanted`` are patterns of names (``*_thickness``), with ``!`` before those that are not to be read; a column named
    in full is kept whatever it holds. By ``*`` alone, columns named like ids, ages, scores or marks of quality, columns
    of few codes, `foreign_columns` and, where ``people`` has label (see `class_codes`) and site, columns that tell two
    of their classes apart are left out.

    >>> table = pd.DataFrame({"age": ["9", "8"] * 4, "note": ["a", "b"] * 4})
    >>> choose_measures(table)[1]
    {'age': 'named like an id, an age, a score or a mark of quality', 'note': 'no numbers'}
    >>> choose_measures(table, ["*", "age"])[0].columns.tolist()
    ['age']
    """
    if isinstance(wanted, OfModel):
        words = set(map(plain, wanted.names))
        return pd.DataFrame(numbers_of(table[[name for name in table if plain(str(name)) in words]]), table.index), {}
    patterns = [wanted] if isinstance(wanted, str) else list(wanted)
    unwanted = [pattern[1:] for pattern in patterns if pattern.startswith("!")]
    patterns = [pattern for pattern in patterns if not pattern.startswith("!")] or ["*"]
    asked = [pattern for pattern in patterns if pattern != "*"]
    left, numbers = dict[str, str](), dict[str, np.ndarray]()
    for name, values in numbers_of(table[[name for name in table if _fits(name, patterns)]]).items():
        known = values[np.isfinite(values)]
        guessed = not _fits(name, asked)
        in_full = not {str(name), glob.escape(str(name))}.isdisjoint(patterns)
        if _fits(name, unwanted):
            left[str(name)] = "as asked"
        elif guessed and NO_MEASURE.search(str(name)):
            left[str(name)] = "named like an id, an age, a score or a mark of quality"
        elif not in_full and not len(known):
            left[str(name)] = "no numbers"
        elif not in_full and len(known) < MOSTLY * len(values):
            left[str(name)] = "known for fewer than half of the people"
        elif guessed and len(np.unique(known)) < min(FEWEST_VALUES, len(known)):
            left[str(name)] = "few different values"
        else:
            numbers[str(name)] = values
    free = [name for name in foreign_columns(list(numbers)) if not _fits(name, asked)]
    left |= dict.fromkeys(free, "named unlike the others")
    measures = pd.DataFrame({name: x for name, x in numbers.items() if name not in left}, index=table.index)
    if people is not None and len(measures.columns):
        telling = measures.columns[_tell_classes(measures.to_numpy(), people["label"], people["site"])]
        left |= {name: "tells the diagnosis alone" for name in telling if not _fits(name, asked)}
    return measures.drop(columns=[name for name in left if name in measures]), left


def left_out(left: Mapping[str, str], key: str) -> str:
    """Which columns are no measures, by reason, in words that follow READ_AS; ``key`` of a study file reads others.

    >>> left_out({"IQ": "few values", "DX": "no numbers", "QC": "few values"}, "columns")
    ', not IQ, QC (few values); DX (no numbers); columns: ["*", NAME] reads another too'
    """
    reasons = dict.fromkeys(left.values())
    parts = [f"{listed(name for name in left if left[name] == reason)} ({reason})" for reason in reasons]
    return f', not {"; ".join(parts)}; {key}: ["*", NAME] reads another too' if parts else ""


def class_codes(people: pd.DataFrame, target: str | None) -> pd.Series:
    """Codes of the classes that are predicted: the label, or a target of few different values; missing for a number.

    >>> class_codes(pd.DataFrame({"label": np.nan, "dx": ["AD", "CN", "AD"]}), "dx").tolist()
    [0.0, 1.0, 0.0]
    """
    column = next((name for name in people if target is not None and fold(str(name)) == fold(target)), "label")
    text = people[column].astype(object).where(people[column].notna(), "").astype(str)
    known = text.mask(is_empty(text))
    codes = pd.Series(pd.factorize(known, sort=True)[0].astype(float), index=people.index).where(known.notna())
    return codes if known.nunique() <= MOST_CLASSES else codes * np.nan


def _fits(name: object, patterns: Iterable[str]) -> bool:
    return any(fnmatch(str(name), pattern) for pattern in patterns)


def _tell_classes(values: np.ndarray, label: pd.Series, site: pd.Series) -> np.ndarray:
    """Mask of columns that tell two of the classes apart as a measure of the condition does."""
    telling = np.zeros(values.shape[1], dtype=bool)
    for one, other in combinations(np.unique(label.dropna()), 2):
        telling |= measures_condition(values, label.map({one: 0.0, other: 1.0}), site)
    return telling


def foreign_columns(names: Sequence[str]) -> list[str]:
    """Columns named unlike nearly all others: they share no part of their names, nor are they named after a brain.

    Where names say nothing, as ``V1`` to ``V200``, there are none.

    >>> foreign_columns(["PTEDUCAT", "FAQ", *(f"thickness.left.{region}" for region in "abcdefgh"), "ICV"])
    ['PTEDUCAT', 'FAQ']
    """
    parts = [{part.lower() for part in PART.findall(name) if len(part) > 1} for name in names]
    counts = Counter(part for of_name in parts for part in of_name)
    least = max(FEWEST_KIN, KIN * len(names))
    alike = [
        bool(OF_A_BRAIN.search(name)) or any(counts[part] >= least for part in of_name)
        for name, of_name in zip(names, parts, strict=True)
    ]
    names_tell = sum(alike) >= ALIKE * max(len(names), 1)
    return [name for name, kin in zip(names, alike, strict=True) if not kin] if names_tell else []


def numbers_of(table: pd.DataFrame) -> dict[Any, np.ndarray]:
    """Columns of text as numbers, NaN where a cell holds none; commas are decimal where some cannot be thousands."""
    numbers = {name: pd.to_numeric(table[name], errors="coerce").to_numpy(dtype=float) for name in table}
    gaps = [table[name] for name, values in numbers.items() if np.isnan(values).any()]
    commas = [text for text in gaps if text.str.contains(",", regex=False).any()]
    if any((~text[text.str.contains(",", regex=False)].str.fullmatch(THOUSANDS)).any() for text in commas):
        for text in commas:
            plain = text.str.replace(DECIMAL_COMMA, r"\1.\2", regex=True)
            numbers[text.name] = pd.to_numeric(plain, errors="coerce").to_numpy(dtype=float)
    return {name: np.where(np.isfinite(x) & ~np.isin(x, UNKNOWN), x, np.nan) for name, x in numbers.items()}


def measures_condition(values: np.ndarray, label: pd.Series, site: pd.Series) -> np.ndarray:
    """Which columns measure the condition: `brainroam.data.columns.of_the_condition`, of many at once.

    A scale of few whole numbers, as symptoms have it, is one from an AUC of `TELLS` on. A measured region may tell that
    much itself, as the hippocampus does of Alzheimer's disease: any other column is one from `SURELY_TELLS` on.
    """
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
    least = np.where(_are_scales(values), TELLS, SURELY_TELLS)
    return one_class | ((pairs > 0) & (np.maximum(share, 1 - share) >= least))


def _are_scales(values: np.ndarray) -> np.ndarray:
    """Which columns hold whole numbers, few different ones."""
    whole = ~((values != np.round(values)) & np.isfinite(values)).any(axis=0)
    few = [len(np.unique(column[np.isfinite(column)])) <= MOST_STEPS for column in values.T]
    return whole & np.array(few, dtype=bool)


def read_block(
    entry: Mapping[str, Any],
    cohort: Cohort,
    homes: Iterable[Path],
    target: str | None = None,
    covariates: Iterable[str] = (),
) -> Cohort:
    """A further measurement of the people of a cohort: ``{table: ..., columns: ...}`` or ``{matrices: ..., ids: ...}``.

    ``target`` is the column that will be predicted, where it is not the label. ``covariates`` of a table are no
    measures; they become columns of its people. ``ids`` is the table that says whose rows the one array of everybody
    has, one after the other.
    """
    kinds = [kind for kind in KINDS if kind in entry]
    if len(kinds) != 1:
        raise UsageError(f"a block is one of {listed(KINDS)}, as in {{table: freesurfer/*.tsv}}, not {dict(entry)}")
    homes = list(homes)
    paths = sorted({path for pattern in paths_of(entry) for path in _existing(pattern, homes)})
    files = [file for path in paths for file in (files_below(path) if path.is_dir() else [path])]
    if len(files) == 1 and files[0].suffix in (".npy", ".npz", ".mat"):
        order = read_table(_existing(str(entry["ids"]), homes)[0]) if "ids" in entry else None
        return _read_one_array(files[0], cohort, order)
    if kinds[0] == "table":
        further = [name for name in covariates if name not in cohort.table]
        return _read_tables(files, cohort, entry.get("columns", "*"), target, further)
    return _read_arrays(files, cohort, kinds[0])


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
    repeated, with_several, beside = list[str](), set[str](), pd.DataFrame(index=cohort.table["subject"])
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
    if left:
        steps.append(f"{len(joined.columns)} columns {READ_AS}{left_out(left, 'columns')}")
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


def _read_arrays(files: Sequence[Path], cohort: Cohort, measure: str) -> Cohort:
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
    return Cohort(arrays, people, atlas, measure=measure)


def _square(x: np.ndarray) -> bool:
    return x.ndim == 2 and x.shape[0] == x.shape[1]


def _read_one_array(path: Path, cohort: Cohort, order: pd.DataFrame | None) -> Cohort:
    """One array of everybody: n x P x P, or (n, M); row for row as the people, or as the ids of a table."""
    values = read_array(path)
    wanted = len(cohort) if order is None else len(order)
    if values.ndim not in (2, 3) or len(values) != wanted:
        problem = f"{path} has the shape {values.shape} for {counted(wanted, 'person', 'people')}"
        raise ReaderError(f"{problem}; give a row for each, in their order, or one file a person, named by the id")
    people = cohort.table
    if order is not None:
        rows = rows_of(order.reset_index(drop=True), people).rows
        values, people = values[list(rows.values())], people.iloc[list(rows)].reset_index(drop=True)
    measure = "matrices" if values.ndim == 3 else "table"
    return Cohort(list(values if values.ndim == 3 else values[:, None]), people, measure=measure)


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
            for row, word in words.items():
                for k in keys.get(word, ()):
                    first.setdefault(k, row)
            fitting = len(first), int(words.isin(keys).sum())
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
    for word, rows in people.groupby(whose.map(spell)).indices.items():
        if whose.iloc[rows].nunique() == 1:
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
