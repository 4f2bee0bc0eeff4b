"""Tables of people: read as text, so that ids keep their zeros; a number only where one is asked for."""

from collections.abc import Iterable, Mapping
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
from pandas.api.types import is_integer

from brainroam.data.readers.series import check_archive, refusing
from brainroam.errors import ReaderError, listed

SENTINELS = (-9999, -999, 999, 555, 888, 777)
MAX_COLUMNS = 10_000  # the widest tables of ABCD have a few thousand
EMPTY = ("", "n/a", "na", "nan", "[]", "none", "null")


def read_table(path: Path) -> pd.DataFrame:
    """Read a csv, tsv, txt or xlsx table (its first sheet) with every cell as text.

    The index keeps counting the rows of the file, whatever is filtered later, so that messages can name the line.
    """
    if path.suffix.lower() == ".xlsx":
        return next(iter(read_workbook(path).values()))
    with refusing(path):
        text = _decode(path.read_bytes())
        if not text.strip():
            raise ReaderError(f"{path} is empty; a table of people needs a header and one row per person")
        header = text.lstrip().split("\n", 1)[0]
        separator = max("\t,;", key=header.count)
        widest = 1 + max(line.count(separator) for line in text.split("\n"))
        if widest > MAX_COLUMNS:
            raise ReaderError(f"{path} has {widest} columns; is it really a table of people?")
        table = pd.read_csv(StringIO(text), sep=separator, dtype=str, keep_default_na=False)
    if not isinstance(table.index, pd.RangeIndex):
        raise ReaderError(f"{path} has more cells in its rows than in its header; correct the header line")
    return _clean(table)


def read_workbook(path: Path) -> dict[str, pd.DataFrame]:
    """All sheets of an Excel file, every cell as text."""
    check_archive(path)
    with refusing(path, "save it again as .xlsx, or as .csv or .tsv"):
        sheets = pd.read_excel(path, sheet_name=None, dtype=str, keep_default_na=False, engine="openpyxl")
    return {str(name): _clean(sheet) for name, sheet in sheets.items()}


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")  # what Excel on Windows writes; ids and codes are ASCII either way


def _clean(table: pd.DataFrame) -> pd.DataFrame:
    # Cell by cell: pandas takes a millisecond for each column, and a bad header may have very many.
    cells = [["" if cell != cell else str(cell).strip() for cell in row] for row in table.to_numpy(dtype=object)]
    names = [str(name).strip() for name in table.columns]
    return pd.DataFrame(cells, index=table.index, columns=names, dtype=str)


def column(table: pd.DataFrame, name: str, source: object) -> pd.Series:
    """The column of that name, or an error that lists those there are."""
    if name not in table:
        raise ReaderError(f"{source} has no column {name!r}; it has {listed(table.columns, limit=20)}")
    return table[name]


def is_empty(values: pd.Series) -> pd.Series:
    """Which cells hold nothing, in any of the ways people write that."""
    return values.str.lower().isin(EMPTY)


def numbers(values: pd.Series, source: object) -> pd.Series:
    """Text to floats; empty cells and the datasets' codes for "unknown" become NaN, anything else is an error.

    >>> numbers(pd.Series(["12.5", "-9999", "n/a", "89+"], name="age"), "table").tolist()
    [12.5, nan, nan, 89.0]
    """
    parsed = pd.to_numeric(values.str.removesuffix("+"), errors="coerce").astype(float)
    strange = parsed.isna() & ~is_empty(values)
    if strange.any():
        row = strange.idxmax()
        where = f"line {row + 2}" if is_integer(row) else row  # some tables are by person
        raise ReaderError(
            f"{source}, {where}, column {values.name!r} holds {values[row]!r}, which is no number; "
            "correct it, or leave the cell empty if it is unknown"
        )
    return parsed.mask(parsed.isin(SENTINELS) | ~np.isfinite(parsed))


def ages(values: pd.Series, source: object) -> pd.Series:
    """Ages in years; 0 stands for unknown."""
    return numbers(values, source).replace(0.0, np.nan)


def codes(values: pd.Series) -> pd.Series:
    """Codes as text in one spelling: a spreadsheet's ``1.0`` is ``1``."""
    return values.str.replace(r"^(-?\d+)\.0+$", r"\1", regex=True)


def sexes(values: pd.Series, meaning: Mapping[str, int] | None = None) -> pd.Series:
    """1 = male, 0 = female, NaN for anything else. Codes are 1 = male and 2 (or 0) = female unless told otherwise.

    >>> sexes(pd.Series(["M", "female", "2", "0", "9"])).tolist()
    [1.0, 0.0, 0.0, 0.0, nan]
    """
    words = {"m": 1, "male": 1, "f": 0, "female": 0}
    return codes(values).str.lower().map(words | dict(meaning or {"1": 1, "2": 0, "0": 0})).astype(float)


def labels(values: pd.Series, meaning: Mapping[str, int]) -> dict[str, pd.Series]:
    """The two columns every roster has: ``label``, and for people without one the reason ``unlabelled``."""
    known = codes(values)
    reason = f"{values.name} is " + known.map(repr).where(~is_empty(known), "empty")
    return {"label": known.map(dict(meaning)).astype(float), "unlabelled": reason + ": neither condition nor control"}


def nearest(start: Path, patterns: Iterable[str], levels: int = 2) -> Path | None:
    """The first file matching a pattern in ``start`` or up to ``levels`` folders above it."""
    for folder in [start, *start.resolve().parents[:levels]]:
        for pattern in patterns:
            found = sorted(folder.glob(pattern))
            if found:
                return found[0]
    return None
