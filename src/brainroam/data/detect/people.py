"""Which file is the table of people, which of its columns is what, and what its codes mean."""

import re
from collections import Counter
from pathlib import Path

import pandas as pd

from brainroam.data.detect.files import id_words
from brainroam.data.detect.guess import Guess, Question
from brainroam.data.readers.locate import unpadded
from brainroam.data.readers.participants_table import CONTROL_WORDS, USUAL, Columns, code_meaning
from brainroam.data.readers.sex import sexes
from brainroam.data.readers.tables import read_table
from brainroam.data.readers.values import codes, is_empty
from brainroam.errors import ReaderError, UsageError

WORDS = {
    "subject": {"participant", "subject", "subj", "sub", "id", "code", "pseudonym", "record"},
    "age": {"age", "years"},
    "sex": {"sex", "gender"},
    "site": {"site", "center", "centre", "scanner", "location", "hospital", "institution", "institute", "clinic"},
    "label": {"diagnosis", "dx", "diag", "label", "group", "grp", "patient", "status", "case", "condition", "disorder"},
}
TABLES = (".xlsx", ".tsv", ".csv", ".txt")


def look_at_people(folder: Path, files: list[str], guess: Guess) -> Path | None:
    """Add the table, its columns and the meaning of its codes to a guess; ``files`` are those that may be series."""
    path = _table(folder, guess, files)
    if path is None:
        text = "Which file is the table of people (one row each, with their site and diagnosis)?"
        guess.questions.append(Question("participants", text))
        return None
    table = read_table(path)
    taken = {guess.options[f"{role}_col"] for role in WORDS if f"{role}_col" in guess.options}
    for role in WORDS:
        option = f"{role}_col"
        if option in guess.options:
            continue
        fitting = [name for name in _fitting(table, role, files) if name not in taken]
        if fitting:
            guess.options[option] = fitting[0]
            taken.add(fitting[0])
            if len(fitting) > 1:
                guess.remarks[option] = f"or is it {' or '.join(map(repr, fitting[1:]))}?"
        elif role not in ("age", "sex"):
            free = tuple(name for name in map(str, table.columns) if name not in taken)
            guess.questions.append(Question(option, f"Which column of {path.name} holds the {role}?", free))
        else:
            guess.remarks[option] = f"no column of {path.name} looks like {role}"
    if guess.options.get("label_col") in table:
        _look_at_codes(table[guess.options["label_col"]], path, guess)
    return path


def _table(folder: Path, guess: Guess, files: list[str]) -> Path | None:
    """The table of people: the one given, else the one whose ids are in the most names of files."""
    if "participants" in guess.options:
        path = Path(guess.options["participants"])
        return path if path.is_file() or not (folder / path).is_file() else folder / path
    places = [folder, *folder.resolve().parents[: 2 if guess.reader == "bids" else 1]]
    for place in places:
        best = max(_tables(place), key=lambda path: _ids_found(path, files), default=None)
        if best is not None and (place == folder or _ids_found(best, files) > 0.5):
            guess.options["participants"] = str(best)
            return best
    return None


def _tables(folder: Path) -> list[Path]:
    """Files in a folder that begin like a table of people."""
    files = [file for file in sorted(folder.iterdir()) if file.suffix.lower() in TABLES and file.name[0] not in ".~"]
    return [file for file in files if file.is_file() and _begins_like_a_table(file)]


def _begins_like_a_table(path: Path) -> bool:
    """Whether it is a spreadsheet, or its header has words for at least two of subject, site and label."""
    if path.suffix.lower() == ".xlsx":
        return True
    with path.open("rb") as file:
        header = re.split("[\t,;]", file.readline(20_000).decode("utf-8-sig", "replace"))
    found = [role for role in ("subject", "site", "label") if any(_words(name) & WORDS[role] for name in header)]
    return len(found) >= 2


def _ids_found(path: Path, files: list[str]) -> float:
    """Share of the people in a table, by its likeliest column, who have a file."""
    try:
        table = read_table(path)
    except ReaderError:
        return 0.0
    return max((_share_with_file(table[name], files) for name in table), default=0.0)


def _fitting(table: pd.DataFrame, role: str, files: list[str]) -> list[str]:
    """Columns that may play a role, the likeliest first: by what they hold, then by what they are called."""
    usual = {name: rank for rank, name in enumerate(USUAL[role])}
    scored = []
    for place, name in enumerate(map(str, table.columns)):
        named = bool(_words(name) & WORDS[role])
        share = _share_with_file(table[name], files) if role == "subject" else 0.0
        if (named or share > 0.5) and _holds(table[name], role):
            scored.append((-round(share, 2), usual.get(name.lower(), len(usual)), not named, place, name))
    return [name for *_, name in sorted(scored)]


def _holds(values: pd.Series, role: str) -> bool:
    """Whether the values of a column could be what the role asks for."""
    known = values[~is_empty(values)]
    distinct = known.nunique()
    if role == "subject":
        return len(known) > 0 and distinct > 0.9 * len(values)
    if role == "age":
        return len(known) > 0 and pd.to_numeric(known.str.removesuffix("+"), errors="coerce").notna().mean() > 0.9
    if role == "sex":
        return 1 <= distinct <= 6 and sexes(known).notna().mean() > 0.5
    return 1 <= distinct <= max(2, len(known) // 2)


def _words(name: str) -> set[str]:
    """The words of a column name, as in ``SubID``, ``sub_id`` and ``Sub ID``.

    >>> sorted(_words("DxGroup (1=patient)"))
    ['1', 'dx', 'group', 'patient']
    """
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return {word.lower() for word in re.findall(r"[A-Za-z]+|\d+", spaced)}


def _share_with_file(ids: pd.Series, files: list[str]) -> float:
    """Share of ids that stand in the name of a file as a word of their own."""
    words = {unpadded(word) for file in files for word in id_words(file)}
    known = ids[~is_empty(ids)]
    return sum(unpadded(name) in words for name in known) / len(known) if len(known) else 0.0


def _look_at_codes(values: pd.Series, path: Path, guess: Guess) -> None:
    """Which codes are the condition and the controls: as the column's own name says, or as is usual, or to be asked."""
    known = codes(values)[~is_empty(values)]
    present = sorted(known.unique())
    if "case" not in guess.options and "control" not in guess.options:
        for code, word in re.findall(r"(\w+)\s*[=:]\s*([A-Za-z]\w*)", str(values.name)):
            if code in present:
                role = "control" if word.lower().rstrip("s") in CONTROL_WORDS else "case"
                guess.options.setdefault(role, code)
                guess.remarks[role] = f"the column's name says {code} = {word}"
    columns = Columns(case=guess.options.get("case"), control=guess.options.get("control"))
    try:
        meaning = code_meaning(values, columns, path)
    except UsageError:
        counts = ", ".join(f"{code} ({n} people)" for code, n in sorted(Counter(known).items()))
        missing, what = ("control", "the controls") if "case" in guess.options else ("case", "the condition")
        text = f"Which value of {values.name!r} means {what}? It holds {counts}"
        guess.questions.append(Question(missing, text, tuple(present)))
        return
    for role, label in (("case", 1), ("control", 0)):
        found = [code for code, value in meaning.items() if value == label]
        if found:
            guess.options[role] = found[0] if len(found) == 1 else found
    unused = [code for code in present if code not in meaning]
    if unused:
        guess.remarks["control"] = f"people with {', '.join(unused)} are neither and will be left out"
