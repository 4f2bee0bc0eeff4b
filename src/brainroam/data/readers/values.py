"""From the text of a table's cells to numbers, codes and labels; what cannot be one is an error that names the line."""

import re
import unicodedata
from collections.abc import Mapping

import numpy as np
import pandas as pd
from pandas.api.types import is_integer

from brainroam.errors import ReaderError

SENTINELS = (-9999, -999, 999, 555, 888, 777)
EMPTY = ("", "n/a", "na", "nan", "[]", "none", "null", "#n/a")
DECIMAL_COMMA = r"^([+-]?\d*),(\d+)$"
THOUSANDS = r"[+-]?[1-9]\d{0,2},\d{3}"


def is_empty(values: pd.Series) -> pd.Series:
    """Which cells hold nothing, in any of the ways people write that."""
    return values.str.lower().isin(EMPTY)


def numbers(values: pd.Series, source: object) -> pd.Series:
    """Text to floats as by `floats`; the datasets' codes for "unknown" become NaN too.

    >>> numbers(pd.Series(["12.5", "-9999", "n/a", "89+", "12,75"], name="age"), "table").tolist()
    [12.5, nan, nan, 89.0, 12.75]
    """
    parsed = floats(values, source)
    return parsed.mask(parsed.isin(SENTINELS) | ~np.isfinite(parsed))


def floats(values: pd.Series, source: object) -> pd.Series:
    """Text to floats; empty cells become NaN, anything else is an error.

    A comma is a decimal comma, unless it could as well stand between thousands.
    """
    commas = values[values.str.contains(",", regex=False)]
    if len(commas) and commas.str.fullmatch(THOUSANDS).all():
        raise ReaderError(
            f"{source}, column {values.name!r} holds {commas.iloc[0]!r}, which may be a decimal or a thousand; "
            "write it with a decimal point, and thousands without a mark"
        )
    plain = values.str.removesuffix("+").str.replace(DECIMAL_COMMA, r"\1.\2", regex=True)
    parsed = pd.to_numeric(plain, errors="coerce").astype(float)
    strange = parsed.isna() & ~is_empty(values)
    if strange.any():
        row = strange.idxmax()
        where = f"line {row + 2}" if is_integer(row) else row  # some tables are by person
        raise ReaderError(
            f"{source}, {where}, column {values.name!r} holds {values[row]!r}, which is not a number; "
            "correct it, or leave the cell empty if it is unknown"
        )
    return parsed


def ages(values: pd.Series, source: object) -> pd.Series:
    """Ages in years; 0 stands for unknown."""
    return numbers(values, source).replace(0.0, np.nan)


def codes(values: pd.Series) -> pd.Series:
    """Codes as text in one spelling: a spreadsheet's ``1.0`` is ``1``."""
    return values.str.replace(r"^(-?\d+)\.0+$", r"\1", regex=True)


def folded(text: str) -> str:
    """A word without the differences people do not mean: case, blanks, and how letters are composed.

    >>> folded("Autism ") == folded("autism") == folded("AUTISM")
    True
    """
    return re.sub(r"\s+", " ", unicodedata.normalize("NFKC", text)).strip().casefold()


def one_spelling(values: pd.Series) -> pd.Series:
    """Codes that differ only in case or blanks become the commonest of them.

    >>> one_spelling(pd.Series(["Autism", "autism", "Autism", "TD"])).tolist()
    ['Autism', 'Autism', 'Autism', 'TD']
    """
    spelled = codes(values)
    same = spelled.map(folded)
    commonest = spelled.groupby(same).agg(lambda group: group.value_counts().index[0])
    return same.map(commonest).rename(values.name).astype(str)


def labels(values: pd.Series, meaning: Mapping[str, int]) -> dict[str, pd.Series]:
    """Two columns every table of participants has: ``label``, and for people without one why it is ``unlabelled``."""
    known = codes(values)
    by_word = {folded(code): label for code, label in meaning.items()}
    reason = f"{values.name} is " + known.map(repr).where(~is_empty(known), "empty")
    label = known.map(folded).map(by_word).astype(float)
    return {"label": label, "unlabelled": reason + ": neither condition nor control"}
