"""Detect the table of people, the roles of its columns, and the meaning of its codes."""

import re
import shlex
from collections import Counter
from pathlib import Path
from unicodedata import normalize

import pandas as pd

from brainroam.data.detect.files import id_words
from brainroam.data.detect.guess import Guess, Question
from brainroam.data.names import names_role, unpadded, words_in
from brainroam.data.readers.locate import SITE
from brainroam.data.readers.participants_table import NO_COLUMN, USUAL, Columns, code_meaning, is_motion
from brainroam.data.readers.tables import (
    begins_like_people,
    id_column,
    is_table,
    join_tables,
    read_table,
    read_workbook,
    same_id,
)
from brainroam.data.readers.text import language_of
from brainroam.data.readers.values import codes, is_empty, one_spelling, sex_meaning, sexes
from brainroam.data.target import is_control
from brainroam.errors import ReaderError, UsageError, counted

ROLES = ("subject", "age", "sex", "mean_fd", "site", "label")
NEEDED = ("subject", "site", "label")
CALLED = {"mean_fd": "motion (mean framewise displacement)", "subject": "person's id", "label": "diagnosis"}
ONSET = re.compile(
    "onset|beginn|debut|inicio|esordio|发病|首发|發病|発症|발병", re.IGNORECASE
)  # an age, but not of the scan
MOST_FD = 5.0  # mm: what most people of a cohort moved less than
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
MOST_CLASSES = 20
UNIQUE = 0.9  # of a column of ids
MOST_FOLDERS, MOST_TABLES = 100, 20  # that are looked through for a table of people; more tables are people's series
OURS = ("predictions.csv", "scores.csv")  # what brainroam itself writes about people and sites


def look_at_people(folder: Path, files: list[str], guess: Guess) -> pd.DataFrame | None:
    """Add the tables, their columns and the meaning of their codes to a guess; ``files`` are those that may be series.

    Returns the tables as one.
    """
    paths = _tables_of_people(folder, guess, files)
    if not paths:
        text = (
            "Which file is the table of people (one row each, with their site and diagnosis)? People to be predicted "
            f"need none: brainroam predict MODEL {folder}"
        )
        guess.questions.append(Question("participants", text))
        return None
    path = paths[0]
    table = read_table(path, guess.options.get("sheet"))
    subject = _column(table, "subject", path, files, guess)
    if subject is None:
        return table
    others = paths[1:] or _tables_beside(path, table, subject, guess, files)
    table = join_tables(table, subject, [path, *others])
    guess.options["participants"] = [str(item) for item in (path, *others)] if others else str(path)
    languages = [f"{item.name} read as {told}" for item in (path, *others) if (told := _language(item))]
    if languages:
        guess.remarks["participants"] = f"{'; '.join(languages)}: save as UTF-8 if names look wrong"
    for role in ROLES[1:]:
        if role != "label" or guess.target is None:
            _column(table, role, path, files, guess)
    _look_at_institutions(table, guess)
    if guess.options.get("label_col") in table:
        _look_at_codes(table[guess.options["label_col"]], path, guess)
    if guess.options.get("sex_col") in table:
        _look_at_sex(table, path, guess)
    return table


def _language(path: Path) -> str | None:
    return None if path.suffix.lower() == ".xlsx" else language_of(path)


def _column(table: pd.DataFrame, role: str, path: Path, files: list[str], guess: Guess) -> str | None:
    """The column of a role, as given or as it seems; a question where none does and one is needed."""
    option = f"{role}_col"
    if option in guess.options:
        return guess.options[option] if guess.options[option] in table else None
    taken = {guess.options.get(f"{other}_col") for other in ROLES}
    fitting = [name for name in _fitting(table, role, files) if name not in taken]
    if fitting:
        guess.options[option] = fitting[0]
        if len(fitting) > 1:
            guess.remarks[option] = f"or is it {' or '.join(map(repr, fitting[1:]))}?"
        return fitting[0]
    if role not in NEEDED:
        guess.remarks[option] = f"no column of {path.name} looks like {CALLED.get(role, role)}"
    elif role != "site" or SITE not in str(guess.options.get("template")):
        # The diagnosis is looked for after the site: a column that is called like it is no answer here.
        others = set(_fitting(table, "label", files)) if role == "site" else set()
        free = tuple(name for name in map(str, table.columns) if name not in taken | others)
        text = f"Which column of {path.name} holds the {CALLED.get(role, role)}?"
        if role == "label":  # people to be predicted have none
            free = (*(name for name in free if _could_be_classes(table[name])), NO_COLUMN)
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


def _tables_beside(path: Path, table: pd.DataFrame, subject: str, guess: Guess, files: list[str]) -> list[Path]:
    """Tables in the same folder with further columns of the same people."""
    wanted = {role for role in ROLES if f"{role}_col" not in guess.options and not _fitting(table, role, files)}
    ids, beside = set(table[subject].map(same_id)), []
    for other in _tables(path.parent):
        if other == path or not wanted:
            continue
        content = read_table(other)
        tells = {role for role in wanted if _fitting(content, role, files)}
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


def _fitting(table: pd.DataFrame, role: str, files: list[str]) -> list[str]:
    """Columns that may play a role, the likeliest first: by what they hold, then by what they are called."""
    usual = {name: rank for rank, name in enumerate(USUAL[role])}
    scored = []
    for place, name in enumerate(map(str, table.columns)):
        named = names_role(name, role) or name.lower() in usual or (role == "mean_fd" and is_motion(name))
        if role == "age" and ONSET.search(name):
            continue
        share = _share_with_file(table[name], files) if role == "subject" else 0.0
        leads = role == "subject" and place == 0 and _are_words(table[name])
        visits = role == "subject" and named and _ids_of_visits(table, name)
        if (named or leads or share > 0.5) and (
            _fits_role(table[name], role) or visits or (role == "subject" and _ids_of_sites(table, name))
        ):
            rank = usual.get(name.lower(), len(usual) + (role == "mean_fd" and not is_motion(name)))
            scored.append((-round(share, 2), not visits, rank, not named, place, name))
    return [name for *_, name in sorted(scored)]


def _are_words(values: pd.Series) -> bool:
    """Whether no value is a number: a first column of such, each another, is one of ids whatever it is called."""
    return bool(pd.to_numeric(values, errors="coerce").isna().all())


def _ids_of_sites(table: pd.DataFrame, name: str) -> bool:
    """Whether a column holds ids that begin anew at every site: with a column of sites it tells people apart."""
    sites = [str(other) for other in table.columns if other != name and names_role(str(other), "site")]
    return any(
        _fits_role(table[site], "site") and len(table[[site, name]].drop_duplicates()) > UNIQUE * len(table)
        for site in sites
    )


def _ids_of_visits(table: pd.DataFrame, name: str) -> bool:
    """Whether a column holds ids of people with a row for each visit: beside them numbers of rows are no ids."""
    known = ~is_empty(table[name])
    if table.loc[known, name].nunique() > UNIQUE * len(table) or known.mean() < UNIQUE:
        return False
    sessions = [str(other) for other in table.columns if str(other).lower() in USUAL["session"]]
    return any(len(table[[name, session]].drop_duplicates()) > UNIQUE * len(table) for session in sessions)


def _fits_role(values: pd.Series, role: str) -> bool:
    """Whether the values of a column could be what the role asks for."""
    known = values[~is_empty(values)]
    distinct = known.nunique()
    if role == "subject":
        return len(known) > 0 and distinct > UNIQUE * len(values)
    if role == "age":
        plain = known.str.removesuffix("+").str.replace(",", ".")
        return len(known) > 0 and pd.to_numeric(plain, errors="coerce").notna().mean() > 0.9
    if role == "mean_fd":
        moved = pd.to_numeric(known.str.replace(",", "."), errors="coerce")
        return len(known) > 0 and moved.notna().mean() > 0.9 and moved.min() >= 0 and moved.median() < MOST_FD
    if role == "sex":
        return 1 <= distinct <= 6
    return 1 <= distinct <= max(2, len(known) // 2)


def _could_be_classes(values: pd.Series) -> bool:
    """Whether a column of any name has so few different values that they may be diagnoses; measures have many."""
    return 2 <= values[~is_empty(values)].nunique() <= MOST_CLASSES


def _share_with_file(ids: pd.Series, files: list[str]) -> float:
    """Share of ids that stand in the name of a file as a word of their own."""
    words = {unpadded(word) for file in files for word in id_words(file)}
    known = codes(ids)[~is_empty(ids)]
    return sum(unpadded(name) in words for name in known) / len(known) if len(known) else 0.0


def _look_at_codes(values: pd.Series, path: Path, guess: Guess) -> None:
    """Which codes are the condition and the controls: as the column's own name says, or as is usual, or to be asked."""
    known = one_spelling(values)[~is_empty(values)]
    present = sorted(known.unique())
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
        counts = ", ".join(f"{code} ({counted(n, 'person', 'people')})" for code, n in sorted(Counter(known).items()))
        missing, what = ("control", "the controls") if "case" in guess.options else ("case", "the condition")
        text = f"Which value of {values.name!r} means {what}? It holds {counts}"
        if len(present) > 2 and missing == "case":
            text += f". Or tell all of them apart: --target {shlex.quote(str(values.name))}"
        guess.questions.append(Question(missing, text, tuple(present)))
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
        if name in taken or not words_in(name) & HOUSE or not _fits_role(table[name], "site"):
            continue
        pairs = table.loc[~is_empty(table[site]), [site, name]].drop_duplicates()
        if pairs[site].is_unique and 1 < pairs[name].nunique() < len(pairs):
            guess.options["institution_col"] = name
            guess.remarks["institution_col"] = "whose sites count together"
            return


def _look_at_sex(table: pd.DataFrame, path: Path, guess: Guess) -> None:
    """Ask what codes of sex mean, unless they are words or the meaning is known."""
    values = table[guess.options["sex_col"]]
    try:
        sexes(values, path, sex_meaning(values, guess.options.get("sex_codes"), table, path))
    except ReaderError:
        counts = Counter(codes(values)[~is_empty(values)])
        held = ", ".join(f"{code} ({counted(n, 'person', 'people')})" for code, n in sorted(counts.items()))
        pair = sorted(code for code in counts if code.isdecimal() or not any(map(str.isdecimal, counts)))
        choices = (f"{pair[0]}=male,{pair[1]}=female", f"{pair[0]}=female,{pair[1]}=male") if len(pair) == 2 else ()
        text = f"What do the codes of {values.name!r} mean? It holds {held}; write it like 1=male,2=female,3=missing"
        guess.questions.append(Question("sex_codes", text, choices))
