"""Tables of people as they come: any delimiter and encoding, titles above the header, blank rows, several sheets.

Every cell is read as text, so that ids keep their zeros; `brainroam.data.readers.values` makes numbers of it.

Several tables about the same people are joined by their ids.
"""

import csv
import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Sequence
from io import StringIO
from pathlib import Path

import pandas as pd

from brainroam.data.names import COLUMNS, names_role, unpadded
from brainroam.data.readers.repeats import visit_order
from brainroam.data.readers.roles import USUAL
from brainroam.data.readers.series import check_archive, refusing
from brainroam.data.readers.text import decode, head
from brainroam.errors import ReaderError, listed, unknown

TABLES = (".xlsx", ".tsv", ".csv", ".txt", ".tsv.gz", ".csv.gz", ".txt.gz")
OTHER_SHEETS = (".xls", ".ods", ".numbers", ".sav", ".rds")
MAX_COLUMNS = 10_000  # the widest tables of ABCD have a few thousand
LOOKED_AT = 50  # lines that tell the delimiter and where the header is
INVISIBLE = "\u200b\u200c\u200d\ufeff"
FORMULA_WITHOUT_VALUE = re.compile(
    rb'<c r="([A-Z]+[0-9]+)"(?![^>]*t="str")[^>]*>\s*<f[^>]*?(?:/>|>[^<]*</f>)\s*(?:<v\s*/>|<v>\s*</v>)?\s*</c>'
)
MIN_SHARED = 0.5
FIRST = 5  # columns of a table, among which its ids stand
WHOLE = re.compile(r"^(-?\d+)\.0+$")  # as spreadsheets write a number


def is_table(path: Path) -> bool:
    """Whether a file has the suffix of a table.

    >>> is_table(Path("people.CSV.gz")), is_table(Path("scan.nii.gz"))
    (True, False)
    """
    return path.name.lower().endswith(TABLES)


def begins_like_people(path: Path) -> bool:
    """Whether it is a spreadsheet, or one of its first lines has words for two of the columns of a table of people."""
    if path.suffix.lower() == ".xlsx":
        return True
    try:
        lines = head(path).splitlines()[:10]
    except OSError:
        return False
    return any(
        sum(any(names_role(name, role) for name in re.split("[\t,;]", line)) for role in COLUMNS) >= 2 for line in lines
    )


def read_table(path: Path, sheet: str | int | None = None) -> pd.DataFrame:
    """Read a csv, tsv, txt (also .gz) or xlsx table with every cell as text.

    ``sheet`` is the name or the number of a sheet; the first that holds something by default. The index tells the line
    of the file, whatever is filtered later: it is the line minus 2.
    """
    if path.suffix.lower() == ".xlsx":
        return _sheet(read_workbook(path), sheet, path)
    if path.suffix.lower() in OTHER_SHEETS:
        raise ReaderError(f"{path} is not a format brainroam reads; save it as .xlsx, .csv or .tsv")
    with refusing(path):
        text = decode(path)
        if "\0" in text:
            raise ReaderError(f"{path} is not a text file; save the table as .csv, .tsv or .xlsx")
        if not text.strip():
            raise ReaderError(f"{path} is empty; a table of people needs a header and one row per person")
        rows = _rows(text)
    return _with_header(rows, path)


def read_workbook(path: Path) -> dict[str, pd.DataFrame]:
    """All sheets of an Excel file, every cell as text."""
    check_archive(path)
    with refusing(path, "save it again as .xlsx, or as .csv or .tsv"):
        _refuse_formulas_without_values(path)
        sheets = pd.read_excel(path, sheet_name=None, header=None, dtype=str, keep_default_na=False, engine="openpyxl")
    cells = {
        str(name): [["" if cell != cell else str(cell) for cell in row] for row in sheet.to_numpy(dtype=object)]
        for name, sheet in sheets.items()
    }
    return {name: _with_header(list(enumerate(rows, start=1)), f"{path}, sheet {name}") for name, rows in cells.items()}


def _sheet(sheets: dict[str, pd.DataFrame], wanted: str | int | None, path: Path) -> pd.DataFrame:
    if wanted is None:
        return next((sheet for sheet in sheets.values() if len(sheet)), next(iter(sheets.values())))
    by_name = {name.strip().lower(): name for name in sheets}
    name = by_name.get(str(wanted).strip().lower())
    if name is None and str(wanted).isdecimal() and 1 <= int(wanted) <= len(sheets):
        name = list(sheets)[int(wanted) - 1]
    if name is None:
        raise unknown(f"sheet of {path}:", wanted, sheets)
    return sheets[name]


def _refuse_formulas_without_values(path: Path) -> None:
    """Programs that write formulas do not compute them: such cells would be read as empty."""
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.startswith("xl/worksheets/") and name.endswith(".xml"):
                match = FORMULA_WITHOUT_VALUE.search(archive.read(name))
                if match:
                    raise ReaderError(
                        f"{path}: cell {match[1].decode()} holds a formula whose value was never saved; "
                        "open the file in Excel or LibreOffice and save it, or save it as .csv"
                    )


def _rows(text: str) -> list[tuple[int, list[str]]]:
    """The rows with the number of their last line; ``sep=;`` on the first line names the delimiter, as for Excel."""
    match = re.match(r'"?sep=(.)"?\r?\n', text, re.IGNORECASE)
    delimiter = match[1] if match else _delimiter(text)
    if delimiter == " ":
        return [(k, line.split()) for k, line in enumerate(text.splitlines(), start=1)]
    reader = csv.reader(StringIO(text, newline=""), delimiter=delimiter)
    return [(reader.line_num, row) for row in reader][1 if match else 0 :]


def _delimiter(text: str) -> str:
    """The delimiter that cuts most lines into the same number of cells; blanks where no other does, below names.

    >>> _delimiter("id;age\\n1;23,5\\n2;24,5"), _delimiter("id  age\\n1   23\\n2   24")
    (';', ' ')
    """
    lines = text.splitlines()[:LOOKED_AT]

    def regularity(mark: str) -> int:
        widths = Counter(len(row) for row in csv.reader(lines, delimiter=mark) if len(row) > 1)
        return max((width * n for width, n in widths.items()), default=0)

    best = max("\t;,", key=regularity)
    words = [line.split() for line in lines if line.strip()]
    named = words and len(words[0]) > 1 and sum(cell[:1].isalpha() for cell in words[0]) > len(words[0]) / 2
    in_columns = named and len({len(row) for row in words}) == 1
    return " " if in_columns and not regularity(best) else best


def _with_header(rows: Sequence[tuple[int, list[str]]], source: object) -> pd.DataFrame:
    """Name the columns by the first row that is filled like the others, below whatever title stands above it."""
    cells = [(line, [cell.strip().strip(INVISIBLE).strip() for cell in row]) for line, row in rows]
    cells = [(line, row) for line, row in cells if any(row)]
    if not cells:
        return pd.DataFrame()
    filled = [sum(map(bool, row)) for _, row in cells[:LOOKED_AT]]
    top = next(k for k, n in enumerate(filled) if 2 * n > max(filled))
    (_, header), body = cells[top], cells[top + 1 :]
    widest = max(len(row) for _, row in cells)
    if widest > MAX_COLUMNS:
        raise ReaderError(f"{source} has {widest} columns; is it really a table of people?")
    if body and all(len(row) == len(header) + 1 for _, row in body) and _counts([row[0] for _, row in body]):
        body = [(line, row[1:]) for line, row in body]  # the row numbers of R
    elif body and all(len(row) == len(header) + 1 for _, row in body) and _are_row_names(header, body):
        header = ["", *header]
    for line, row in body:
        if any(row[len(header) :]):
            raise ReaderError(f"{source}, line {line} has more cells than the header; correct the header line")
    width = len(header)
    table = pd.DataFrame(
        [(row + [""] * width)[:width] for _, row in body], index=[line - 2 for line, _ in body], dtype=str
    )
    keep = [k for k in range(width) if header[k] or (len(body) and (table[k] != "").any())]
    names = _unique([header[k] or f"Unnamed: {k}" for k in keep])
    return table[keep].set_axis(names, axis=1) if len(body) else pd.DataFrame(columns=names, dtype=str)


def _counts(cells: Sequence[str]) -> bool:
    return any(list(cells) == [str(k) for k in range(start, start + len(cells))] for start in (0, 1))


def _are_row_names(header: Sequence[str], body: Sequence[tuple[int, list[str]]]) -> bool:
    """Whether R wrote names before each row, with no name above them: words, each another, and no column of ids."""
    first = pd.Series([row[0] for _, row in body])
    words = bool(first.is_unique and pd.to_numeric(first, errors="coerce").isna().all())
    return words and not any(names_role(name, "subject") for name in header if not re.search(r"\d", name))


def _unique(names: Sequence[str]) -> list[str]:
    """Names of which none stands twice: the second ``age`` is ``age.1``, as pandas does it."""
    seen: Counter[str] = Counter()
    unique = []
    for name in names:
        unique.append(f"{name}.{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return unique


def column(table: pd.DataFrame, name: str, source: object) -> pd.Series:
    """The column of that name, or an error that lists those there are."""
    if name not in table:
        raise ReaderError(f"{source} has no column {name!r}; it has {listed(table.columns, limit=20)}")
    return table[name]


def nearest(start: Path, patterns: Iterable[str], levels: int = 2) -> Path | None:
    """The first file matching a pattern in ``start`` or up to ``levels`` folders above it."""
    for folder in [start, *start.resolve().parents[:levels]]:
        for pattern in patterns:
            files = sorted(folder.glob(pattern))
            if files:
                return files[0]
    return None


def join_tables(first: pd.DataFrame, subject: str, paths: Sequence[Path]) -> pd.DataFrame:
    """The first table with the columns of the others beside it; ``subject`` is the first table's column of ids."""
    for path in paths[1:]:
        other = read_table(path)
        ids = first[subject].map(same_id)
        name = id_column(other, set(ids), subject)
        if name is None:
            raise ReaderError(
                f"no column of {path} holds the ids of {paths[0]}, as {listed(first[subject], 3)}; "
                f"give it the column {subject!r}"
            )
        keys = other[name].map(same_id)
        twice = keys[keys.duplicated() & (keys != "")].unique()
        if len(twice) and session_column(other) is None:
            raise ReaderError(f"{path} lists {listed(twice)} more than once; keep one row each to join it by {name!r}")
        rows = _rows_by_visit(other, keys, first, ids) if len(twice) else ids.map(pd.Series(other.index, keys))
        added = other.drop(columns=name).reindex(rows).fillna("").set_axis(first.index, axis=0)
        visit = session_column(first)
        added = added.drop(columns=[visit], errors="ignore")  # that of the first table counts
        for shared in added.columns.intersection(first.columns):
            differ = (first[shared] != added[shared]) & (first[shared] != "") & (added[shared] != "")
            if differ.any():
                raise ReaderError(
                    f"{paths[0]} and {path} disagree in {shared!r}, for {listed(first.loc[differ, subject])}; "
                    "correct one of them, or take the column out of one"
                )
            first[shared] = first[shared].where(first[shared] != "", added[shared])
        first = first.join(added.drop(columns=added.columns.intersection(first.columns)))
    return first


def with_people_in_rows(table: pd.DataFrame, ids: Iterable[str]) -> pd.DataFrame:
    """The table, turned where people stand in its columns, as ComBat has them: where its header holds most of these
    ids, and more than any of its first columns does.

    >>> turned = with_people_in_rows(pd.DataFrame({"": ["lh", "rh"], "p1": ["2", "3"], "p2": ["4", "5"]}), ["p1", "p2"])
    >>> turned.columns.tolist(), turned.iloc[0].tolist()
    (['participant_id', 'lh', 'rh'], ['p1', '2', '3'])
    """
    wanted = {same_id(name) for name in ids}
    names = [str(name) for name in table if same_id(str(name)) in wanted]
    down = max((len(wanted.intersection(table[name].map(same_id))) for name in list(table)[:FIRST]), default=0)
    if len(names) <= max(down, MIN_SHARED * min(len(wanted), table.shape[1])):
        return table
    others = [str(name) for name in table if name not in names]
    features = table[others[0]] if others else [f"feature{k}" for k in range(1, len(table) + 1)]
    turned = pd.DataFrame(table[names].to_numpy().T, columns=_unique(list(features)))
    turned.insert(0, "participant_id", names)
    return turned


def with_lines_as_ids(table: pd.DataFrame) -> pd.DataFrame:
    """The table with a first column of ids: the lines of the file.

    >>> with_lines_as_ids(pd.DataFrame({"age": ["9", "8"]}))["participant_id"].tolist()
    ['line2', 'line3']
    """
    numbered = table.copy()
    numbered.insert(0, "participant_id", [f"line{row + 2}" for row in table.index])
    return numbered


def session_column(table: pd.DataFrame) -> str | None:
    """The column that tells visits, if there is one."""
    return next((str(name) for name in table if str(name).lower() in USUAL["session"]), None)


def _rows_by_visit(other: pd.DataFrame, keys: pd.Series, first: pd.DataFrame, ids: pd.Series) -> pd.Series:
    """The row of a table of visits for each row of the first: of the same visit, else the earliest of the person.

    >>> other = pd.DataFrame({"visit": ["2", "1", "1"], "age": ["9", "7", "8"]})
    >>> _rows_by_visit(other, pd.Series(["a", "a", "b"]), pd.DataFrame(index=[0, 1]), pd.Series(["a", "b"])).tolist()
    [1, 2]
    """
    told, visit = session_column(first), other[session_column(other)]
    by_visit = other.index[visit.map(visit_order).argsort(kind="stable")]
    earliest = ids.map(pd.Series(by_visit, keys[by_visit]).groupby(level=0).first())
    if told is None:
        return earliest
    of_visit = pd.Series(other.index, [keys, visit])
    of_visit = of_visit[~of_visit.index.duplicated()]
    same = of_visit.reindex(pd.MultiIndex.from_arrays([ids, first[told]])).set_axis(ids.index)
    return same.fillna(earliest)


def same_id(text: str) -> str:
    """An id as tables share it: without ``sub-``, leading zeros or the decimals of a spreadsheet.

    >>> same_id("sub-007"), same_id("7.0")
    ('7', '7')
    """
    return unpadded(WHOLE.sub(r"\1", text))


def id_column(table: pd.DataFrame, ids: set[str], usual: str) -> str | None:
    """The column of a table that holds these ids: the one of the usual name, else the one that shares most of them."""
    shares = {str(name): len(ids.intersection(table[name].map(same_id))) / max(len(ids), 1) for name in table}
    if shares.get(usual, 0) > 0:
        return usual
    best = max(shares, key=lambda name: shares[name], default=None)
    return best if best is not None and shares[best] >= MIN_SHARED else None
