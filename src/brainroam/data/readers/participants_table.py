"""A table of people as they write it: columns of any name, codes of any kind, one or several files, found or told."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from brainroam.data.readers.roles import GUESSED, USUAL, columns_for, is_motion
from brainroam.data.readers.tables import join_tables, nearest, read_table, with_lines_as_ids
from brainroam.data.readers.values import (
    ages,
    codes,
    fold,
    is_empty,
    labels,
    numbers,
    one_spelling,
    sex_meaning,
    sexes,
)
from brainroam.data.target import is_control
from brainroam.errors import ReaderError, UsageError, in_shell, listed, unknown, warn_user

PATTERNS = ("participants.tsv", "participants.csv", "participants.xlsx")
NO_COLUMN = "none"
MANY = 10  # different numbers from which on a column holds no codes of a diagnosis
UNKNOWN_SITE = "unknown"


@dataclass(frozen=True)
class Columns:
    """Which column is what, and what its codes mean.

    ``subject_col``, ``site_col``, ``label_col``, ``age_col``, ``sex_col``, ``mean_fd_col``, ``group_col`` (families:
    who shares a value stays on one side of every split) and ``institution_col`` (of the site) are column names; None
    looks for the usual ones, ``none`` is for a table without one (without ids, people are called by their lines).
    ``case`` and ``control`` are the codes, one or several, of the condition and of the controls (None: 0 and words such
    as HC or control stand for controls, and a single other code for the condition). ``sex_codes`` says what codes of
    sex mean: ``1=male,2=female``. ``sheet`` is the name or number of the sheet of a workbook.
    """

    subject_col: str | None = None
    site_col: str | None = None
    label_col: str | None = None
    age_col: str | None = None
    sex_col: str | None = None
    mean_fd_col: str | None = None
    group_col: str | None = None
    institution_col: str | None = None
    case: str | Sequence[str] | None = None
    control: str | Sequence[str] | None = None
    sex_codes: str | dict[str, str] | None = None
    sheet: str | int | None = None


USUAL_COLUMNS = Columns()


def find_participants(folder: Path, given: Any, levels: int = 0) -> list[Path]:
    """The tables of people: those given, else the one in the folder or up to ``levels`` above it."""
    if given is None:
        path = nearest(folder, PATTERNS, levels)
        paths = [] if path is None else [path]
    else:
        paths = [Path(item) for item in ([given] if isinstance(given, (str, Path)) else given)]
    absent = [path for path in paths if not path.is_file()]
    if absent or not paths:
        where = f"{absent[0]} does not exist" if absent else f"no participants.tsv in {folder}"
        raise ReaderError(
            f"{where}; give the table of people with participants (--option participants=FILE), "
            f"or let brainroam init {in_shell(folder)} look for it"
        )
    return paths


def read_participants(
    paths: Sequence[Path],
    columns: Columns,
    require_label: bool = True,
    site_known: bool = False,
    target: str | None = None,
) -> pd.DataFrame:
    """The table of people as `Participants` needs it, with every further column kept as text.

    People whose label is not required need no site either; with ``site_known`` it comes from elsewhere. With a
    ``target`` the column of diagnoses may be absent or of any codes, and the target keeps its column whatever its role.
    """
    path = paths[0]
    raw = read_table(path, columns.sheet)
    if raw.empty:
        raise ReaderError(f"{path} has no rows; a table of people needs a header and one row per person")
    if fold(columns.subject_col or "") == NO_COLUMN and NO_COLUMN not in raw:
        raw = with_lines_as_ids(raw)
        columns = replace(columns, subject_col=str(raw.columns[0]))
    subject = _find(raw, "subject", columns.subject_col, path) or next(iter(columns_for(raw, "subject")), None)
    if subject is None:
        raise _no_column(raw, "subject", path)
    raw = join_tables(raw, subject, paths)
    known = {role for role, is_known in {"site": site_known, "label": bool(target)}.items() if is_known}
    named = _roles(raw, columns, subject, known, path)
    for role in ("site", "label"):
        is_told = named[role] is not None or getattr(columns, f"{role}_col") is not None
        if require_label and role not in known and not is_told:
            raise _no_column(raw, role, path)
    if named["group"] == named["label"]:
        named["group"] = None
    table = pd.DataFrame({"subject": codes(raw[subject])})
    table["site"] = UNKNOWN_SITE if named["site"] is None else codes(raw[named["site"]])
    if named["label"] is None:
        table = table.assign(label=float("nan"), unlabelled="")
    else:
        try:
            meaning = code_meaning(raw[named["label"]], columns, path, require_label)
        except UsageError as error:
            if target is None and (require_label or columns.case or columns.control):
                raise
            if target is None:
                warn_user(f"diagnoses are not read: {error}")
            meaning = {}  # three diagnoses, or a score: the target says what is predicted
        table = table.assign(**labels(raw[named["label"]], meaning))
    for role, convert in {"age": ages, "mean_fd": numbers, "tr": numbers}.items():
        if named[role] is not None:
            table[role] = convert(raw[named[role]], path)
    if named["sex"] is not None:
        values = raw[named["sex"]]
        table["sex"] = sexes(values, path, sex_meaning(values, columns.sex_codes, raw, path))
    if named["group"] is not None:
        family = codes(raw[named["group"]])
        table["group"] = family.where(~is_empty(family))
    if named["institution"] not in (None, named["site"]):
        table["institution"] = codes(raw[named["institution"]])
    if named["session"] is not None:
        table["session"] = raw[named["session"]]
    kept = {name for name in raw.columns if target is not None and fold(str(name)) == fold(target)}
    rest = raw.drop(columns=[name for name in named.values() if name is not None and name not in kept])
    return table.join(rest[[name for name in rest.columns if name not in table]])


def _roles(
    table: pd.DataFrame, columns: Columns, subject: str, known: Collection[str], path: Path
) -> dict[str, str | None]:
    """The column of every role: as told, by its usual name, or as it seems, with a warning; ``known`` need none."""
    told = {role: getattr(columns, f"{role}_col", None) for role in USUAL}
    named = {role: _find(table, role, told[role], path) for role in USUAL}
    guessed = dict[str, str]()
    for role in GUESSED:
        if named[role] is None and told[role] is None and role not in known:
            fitting = [subject] if role == "subject" else columns_for(table, role)
            free = [name for name in fitting if name not in named.values()]
            if free:
                named[role] = guessed[role] = free[0]
    guessed = {role: name for role, name in guessed.items() if role != "subject" or name != table.columns[0]}
    if guessed:
        each = ", ".join(f"{role}_col={name}" for role, name in guessed.items())
        warn_user(
            f"{path}: columns as their names and values seem to say: {each}; where one is wrong, give another, or none "
            f"(--option {next(iter(guessed))}_col=COLUMN)"
        )
    return named


def _find(table: pd.DataFrame, role: str, given: str | None, path: Path) -> str | None:
    """The column of a role: the one given, else the one with a usual name."""
    by_lower = {fold(str(name)): str(name) for name in reversed(table.columns)}
    if given is not None:
        if fold(given) == NO_COLUMN and NO_COLUMN not in by_lower:
            return None
        if fold(given) not in by_lower:
            raise unknown(f"column in {path}:", given, table.columns)
        return given if given in table else by_lower[fold(given)]
    column = next((by_lower[name] for name in USUAL[role] if name in by_lower), None)
    if column is None and role == "mean_fd":
        column = next((str(name) for name in table.columns if is_motion(str(name))), None)
    twin = f"{column}.1"
    if twin in table and (table[column] != table[twin]).any():
        raise ReaderError(
            f"{path} has two columns named {column!r} with different values; rename one of them, "
            f"or name the column with {role}_col (the second is called {twin!r})"
        )
    return column


def _no_column(table: pd.DataFrame, role: str, path: Path) -> ReaderError:
    elsewhere = ", or put {site} into the template where a folder names it" if role == "site" else ""
    elsewhere += ", or which column is predicted instead with target (--target COLUMN)" if role == "label" else ""
    elsewhere += "; another sheet is read with sheet (--option sheet=NAME)" if path.suffix == ".xlsx" else ""
    return ReaderError(
        f"{path} has no column named {' or '.join(USUAL[role])}; it has {listed(table.columns, limit=20)}: "
        f"say which holds the {role} with {role}_col (--option {role}_col=NAME){elsewhere}"
    )


def code_meaning(values: pd.Series, columns: Columns, path: Path, require_all: bool = True) -> dict[str, int]:
    """What each code stands for; without a known word for the controls nothing is guessed.

    With ``require_all`` every code that was asked for has to occur; a new site may have people of one class only.
    """
    present = sorted(set(one_spelling(values)[~is_empty(values)]))
    by_word = {fold(code): code for code in present}
    asked = {"case": as_codes(columns.case), "control": as_codes(columns.control)}
    for code in [*asked["case"], *asked["control"]]:
        if require_all and fold(code) not in by_word:
            raise unknown(f"code in column {values.name!r} of {path}:", code, present)
    case, control = (
        [by_word[fold(code)] for code in asked[role] if fold(code) in by_word] for role in ("case", "control")
    )
    told = bool(asked["case"]), bool(asked["control"])
    if not told[1]:
        control = [code for code in present if (code == "0" or is_control(code)) and code not in case]
    others = [code for code in present if code not in control and code not in case]
    if case and not control and not told[1] and len(others) == 1:
        control = others
    elif not case and not told[0] and (control or present == ["1"]) and len(others) == 1:
        case = others
    if (
        not case
        and not control
        and len(present) > MANY
        and pd.to_numeric(pd.Series(present), errors="coerce").notna().all()
    ):
        raise UsageError(
            f"column {values.name!r} of {path} holds {len(present)} different numbers, so it is no diagnosis; to "
            f"predict it, write target: {values.name} into the study file, or --target {values.name}"
        )
    several = f", or predict all of them with --target {values.name}" if len(present) > 2 else ""
    known = all(told) or (case and control)
    if set(case) & set(control) or (set(present) - {*case, *control} and not known):
        absent = [code for code in [*asked["case"], *asked["control"]] if fold(code) not in by_word]
        without = f", and not {listed(absent)}" if absent else ""
        raise UsageError(
            f"column {values.name!r} of {path} holds {listed(present, limit=10)}{without}; say which is the condition "
            f"and which the controls with case and control (--option case=..., --option control=...){several}"
        )
    return {**dict.fromkeys(control, 0), **dict.fromkeys(case, 1)}


def as_codes(given: object) -> list[str]:
    """Codes given as one text with commas, as a number, or one by one."""
    if given is None:
        return []
    parts = given if isinstance(given, (list, tuple, set)) else str(given).split(",")
    return codes(pd.Series([str(part).strip() for part in parts])).tolist()
