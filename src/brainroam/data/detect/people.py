"""Detect the table of people, the roles of its columns, and the meaning of its codes."""

import re
import shlex
import warnings
from collections import Counter
from pathlib import Path
from unicodedata import normalize

import pandas as pd

from brainroam.data.detect.files import id_words
from brainroam.data.detect.guess import Guess, Question
from brainroam.data.names import unpadded, words_in
from brainroam.data.readers.locate import SITE
from brainroam.data.readers.participants_table import NO_COLUMN, Columns, as_codes, code_meaning
from brainroam.data.readers.roles import CALLED, GUESSED, coded_together, columns_for, fits_role
from brainroam.data.readers.tables import (
    begins_like_people,
    id_column,
    is_table,
    join_tables,
    read_table,
    read_workbook,
    same_id,
    session_column,
    with_lines_as_ids,
)
from brainroam.data.readers.text import language_of
from brainroam.data.readers.values import codes, fold, is_empty, one_spelling, sex_meaning, sexes
from brainroam.data.target import is_control
from brainroam.errors import ReaderError, UsageError, counted, in_shell, listed, unknown

NEEDED = ("subject", "site", "label")
HOUSE = {
    "institution",
    "institute",
    "hospital",
    "university",
    "center",
    "centre",
    "house",
    "organisation",
    "organization",
}
MIN_IDS = 0.5
FEWEST_FILES = 10  # people with files from which on the others of the table are not those of the study
MOST_CLASSES, MOST_NUMBERS = 20, 5  # different values of a column of words, or of numbers, that may be diagnoses
MOST_FOLDERS, MOST_TABLES = 100, 20  # that are looked through for a table of people; more tables are people's series
LINES = "participant_id"  # the column of `with_lines_as_ids`
OURS = ("predictions.csv", "scores.csv")  # what brainroam itself writes about people and sites


def look_at_people(folder: Path, files: list[str], guess: Guess) -> pd.DataFrame | None:
    """Add the tables, their columns and the meaning of their codes to a guess; ``files`` are those that may be series.

    Returns the tables as one.
    """
    paths = _tables_of_people(folder, guess, files)
    if not paths:
        text = (
            "Which file is the table of people (one row each, with their site and diagnosis)? People to be predicted "
            f"need none: brainroam predict MODEL {in_shell(folder)}"
        )
        guess.questions.append(Question("participants", text))
        return None
    path = paths[0]
    if path.suffix.lower() == ".xlsx" and "sheet" not in guess.options:
        _choose_sheet(path, guess)
    table = read_table(path, guess.options.get("sheet"))
    subject = _column(table, "subject", path, files, guess)
    if subject == NO_COLUMN:
        table, subject = with_lines_as_ids(table), LINES
    if subject is None:
        return table
    table = join_tables(table, subject, paths)
    others = paths[1:]
    for other in _tables_beside(path, table, subject, guess) if not others else ():
        try:
            table = join_tables(table, subject, [path, other])
            others = [*others, other]
        except ReaderError as error:
            guess.remarks["tables"] = f"{other.name} is not joined: {error}"
    guess.options["participants"] = [str(item) for item in (path, *others)] if others else str(path)
    languages = [f"{item.name} read as {told}" for item in (path, *others) if (told := _language(item))]
    if languages:
        guess.remarks["participants"] = f"{'; '.join(languages)}: save as UTF-8 if names look wrong"
    for role in GUESSED[1:]:
        if role != "label" or guess.target is None:
            _column(table, role, path, files, guess)
    _look_at_institutions(table, guess)
    measured = _with_files(table, subject, files)
    if guess.options.get("label_col") in table:
        _look_at_codes(table[guess.options["label_col"]], measured, path, guess)
    if guess.options.get("sex_col") in table:
        _look_at_sex(table, measured, path, guess)
    return table


def _choose_sheet(path: Path, guess: Guess) -> None:
    """The sheet of a workbook with most cells, if it is not the first: notes come first."""
    sheets = read_workbook(path)
    largest = max(sheets, key=lambda name: sheets[name].size, default="")
    if largest != next(iter(sheets), ""):
        guess.options["sheet"] = largest


def _language(path: Path) -> str | None:
    return None if path.suffix.lower() == ".xlsx" else language_of(path)


def _column(table: pd.DataFrame, role: str, path: Path, files: list[str], guess: Guess) -> str | None:
    """The column of a role, as given or as it seems; a question where none does and one is needed."""
    option = f"{role}_col"
    if guess.like.get(option) in table:
        guess.options.setdefault(option, guess.like[option])
    if option in guess.options:
        return guess.options[option] if guess.options[option] in table else None
    taken = {guess.options.get(f"{other}_col") for other in GUESSED}
    fitting = columns_for(table, role, lambda ids: _share_with_file(ids, files))
    fitting = [name for name in fitting if name not in taken]
    if fitting:
        guess.options[option] = fitting[0]
        if len(fitting) > 1:
            guess.remarks[option] = f"or is it {' or '.join(map(repr, fitting[1:]))}?"
        return fitting[0]
    if role == "subject" and guess.reader == "table":
        guess.options[option] = NO_COLUMN
        guess.remarks[option] = f"{path.name} has no column of ids: people are called by their lines, as line2"
        return NO_COLUMN
    if role not in NEEDED:
        guess.remarks[option] = f"no column of {path.name} looks like {CALLED.get(role, role)}"
    elif role != "site" or SITE not in str(guess.options.get("template")):
        # The diagnosis is looked for after the site: a column that is called like it is no answer here.
        others = set(columns_for(table, "label")) if role == "site" else set()
        free = tuple(name for name in map(str, table.columns) if name not in taken | others)
        free = tuple(name for name in free if fits_role(table[name], role))
        text = f"Which column of {path.name} holds the {CALLED.get(role, role)}?"
        if role == "site" and (parts := coded_together(table)):
            free = tuple(name for name in free if name not in parts)
            text += f" {listed(sorted(parts))} are 0 and 1 each and may code it together: put it into one column."
        elif not free:
            text += f" No column has {'another value in every row' if role == 'subject' else 'few values'}: add one."
        if role == "label":  # people to be predicted have none
            free = tuple(name for name in free if _could_be_classes(table[name]) and name != session_column(table))
            free = (*free, NO_COLUMN)
            text = f"{text} none if nobody's is known; --target COLUMN, as --target age, predicts something else"
        guess.questions.append(Question(option, text, free))
    return None


def _tables_of_people(folder: Path, guess: Guess, files: list[str]) -> list[Path]:
    """The tables of people: those given, else the one whose ids are in the most names of files."""
    given = guess.options.get("participants")
    if given is not None:
        paths = [Path(item) for item in ([given] if isinstance(given, str) else given)]
        return [path if path.is_file() or not (folder / path).is_file() else folder / path for path in paths]
    above = folder.resolve().parents[: 2 if guess.reader == "bids" else 1]
    beside = _folders_of_tables(above[0] if guess.reader == "bids" else folder)
    for place in [folder, *above, *beside]:
        best = max(_tables(place), key=lambda path: _share_of_ids(path, files)[0], default=None)
        if best is not None and (place == folder or _share_of_ids(best, files)[0] > MIN_IDS):
            _, sheet = _share_of_ids(best, files)
            if sheet is not None:
                guess.options.setdefault("sheet", sheet)
            return [best]
    return []


def _tables_beside(path: Path, table: pd.DataFrame, subject: str, guess: Guess) -> list[Path]:
    """Tables in the same folder with further columns of the same people."""
    needed = [role for role in GUESSED if role != "label" or guess.target is None]
    wanted = {role for role in needed if f"{role}_col" not in guess.options and not columns_for(table, role)}
    ids, beside = set(table[subject].map(same_id)), []
    for other in _tables(path.parent):
        if other == path or not wanted:
            continue
        content = read_table(other)
        tells = {role for role in wanted if columns_for(content, role)}
        if tells and id_column(content, ids, subject) is not None:
            beside.append(other)
            wanted -= tells
    return beside


def _tables(folder: Path) -> list[Path]:
    """Files in a folder that begin like a table of people."""
    files = [file for file in sorted(folder.iterdir()) if is_table(file) and file.name[0] not in ".~"]
    files = [file for file in files if file.name not in OURS]
    return [file for file in files if file.is_file() and begins_like_people(file)]


def _folders_of_tables(folder: Path) -> list[Path]:
    """Folders just below this one with few tables, such as ``phenotype`` or the raw BIDS folder beside derivatives."""
    below = [item for item in sorted(folder.iterdir()) if item.is_dir() and item.name[0] != "."][:MOST_FOLDERS]
    return [item for item in below if 0 < sum(map(is_table, item.iterdir())) <= MOST_TABLES]


def _share_of_ids(path: Path, files: list[str]) -> tuple[float, str | None]:
    """Share of the people in a table, by its likeliest column, who have a file; and the sheet, if not the first."""
    try:
        sheets = read_workbook(path) if path.suffix.lower() == ".xlsx" else {"": read_table(path)}
    except ReaderError:
        return 0.0, None
    shares = {
        name: max((_share_with_file(table[column], files) for column in table), default=0.0)
        for name, table in sheets.items()
        if len(table)
    }
    best = max(shares, key=lambda name: shares[name], default="")
    return shares.get(best, 0.0), best if shares and best != next(iter(shares)) else None


def _could_be_classes(values: pd.Series) -> bool:
    """Whether a column of any name has so few different values that they may be diagnoses; measures have many."""
    known = values[~is_empty(values)]
    are_numbers = pd.to_numeric(known, errors="coerce").notna().all()
    return 2 <= known.nunique() <= (MOST_NUMBERS if are_numbers else MOST_CLASSES)


def _share_with_file(ids: pd.Series, files: list[str]) -> float:
    """Share of ids that stand in the name of a file as a word of their own."""
    words = {unpadded(word) for file in files for word in id_words(file)}
    known = codes(ids)[~is_empty(ids)]
    return sum(unpadded(name) in words for name in known) / len(known) if len(known) else 0.0


def _with_files(table: pd.DataFrame, subject: str, files: list[str]) -> pd.Series:
    """Whose files are there: a table of a whole consortium tells of more people; everybody, where hardly any are."""
    words = {unpadded(word) for file in files for word in id_words(file)}
    has_file = codes(table[subject]).map(lambda name: bool(name) and unpadded(name) in words)
    return has_file if has_file.sum() >= min(FEWEST_FILES, len(table)) else pd.Series(True, table.index)


def _require_codes(given: object, present: list[str], column: object, path: Path) -> None:
    """Refuse a code of the condition or the controls that nobody has, before anything else is asked."""
    spelled = {fold(code) for code in present}
    for code in as_codes(given):
        if fold(code) not in spelled:
            raise unknown(f"code in column {column!r} of {path}:", code, present)


def _look_at_codes(values: pd.Series, measured: pd.Series, path: Path, guess: Guess) -> None:
    """Which codes are the condition and the controls: as the column's own name says, or as is usual, or to be asked."""
    known = one_spelling(values)[~is_empty(values)]
    present = sorted(known.unique())
    for role in ("case", "control"):
        _require_codes(guess.options.get(role), present, values.name, path)
        if role not in guess.options and set(as_codes(guess.like.get(role))) <= set(present) and role in guess.like:
            guess.options[role] = guess.like[role]
    if "case" not in guess.options and "control" not in guess.options:
        for code, word in re.findall(r"(\w+)\s*[=:]\s*([^\W\d]\w*)", normalize("NFKC", str(values.name))):
            if code in present:
                role = "control" if is_control(word) else "case"
                guess.options.setdefault(role, code)
                guess.remarks[role] = f"the column's name says {code} = {word}"
    columns = Columns(case=guess.options.get("case"), control=guess.options.get("control"))
    try:
        meaning = code_meaning(values, columns, path)
    except UsageError:
        here = Counter(known[measured])
        counts = ", ".join(f"{code} ({counted(here[code], 'person', 'people')})" for code in present)
        missing, what = ("control", "the controls") if "case" in guess.options else ("case", "the condition")
        text = f"Which value of {values.name!r} means {what}? It holds {counts}"
        if len(present) > 2 and missing == "case":
            text += f". Or tell all of them apart: --target {shlex.quote(str(values.name))}"
        choices = tuple(code for code in present if missing == "control" or not is_control(code))
        guess.questions.append(Question(missing, text, choices))
        return
    for role, label in (("case", 1), ("control", 0)):
        codes = [code for code, value in meaning.items() if value == label]
        if codes:
            guess.options[role] = codes[0] if len(codes) == 1 else codes
    unused = [code for code in present if code not in meaning]
    if unused:
        guess.remarks["control"] = f"people with {', '.join(unused)} are neither and will be left out"


def _look_at_institutions(table: pd.DataFrame, guess: Guess) -> None:
    """A column that puts sites together: named like one, with one value for each site and fewer values than sites."""
    site = guess.options.get("site_col")
    if site not in table or "institution_col" in guess.options:
        return
    taken = set(guess.options.values()) if all(isinstance(v, str) for v in guess.options.values()) else {site}
    for name in map(str, table.columns):
        if name in taken or not words_in(name) & HOUSE or not fits_role(table[name], "site"):
            continue
        pairs = table.loc[~is_empty(table[site]), [site, name]].drop_duplicates()
        if pairs[site].is_unique and 1 < pairs[name].nunique() < len(pairs):
            guess.options["institution_col"] = name
            guess.remarks["institution_col"] = "whose sites count together"
            return


def _look_at_sex(table: pd.DataFrame, measured: pd.Series, path: Path, guess: Guess) -> None:
    """Ask what codes of sex mean, unless they are words or the meaning is known."""
    values = table[guess.options["sex_col"]]
    if "sex_codes" in guess.like:
        guess.options.setdefault("sex_codes", guess.like["sex_codes"])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # reading says what codes are taken for
            sexes(values, path, sex_meaning(values, guess.options.get("sex_codes"), table, path))
    except ReaderError:
        counts = Counter(codes(values)[~is_empty(values) & measured])
        held = ", ".join(f"{code} ({counted(n, 'person', 'people')})" for code, n in sorted(counts.items()))
        pair = sorted(code for code in counts if code.isdecimal() or not any(map(str.isdecimal, counts)))
        choices = (f"{pair[0]}=male,{pair[1]}=female", f"{pair[0]}=female,{pair[1]}=male") if len(pair) == 2 else ()
        text = f"What do the codes of {values.name!r} mean? It holds {held}; write it like 1=male,2=female,3=missing"
        guess.questions.append(Question("sex_codes", text, choices))
