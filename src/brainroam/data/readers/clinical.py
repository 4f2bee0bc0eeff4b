"""Clinical tables: few columns of any kind, each made numbers.

=============  =====================================================================================================
numbers        as they are: 0 and 1, short codes, scales and what was measured
words          one column of 0 and 1 for each level that enough people have, ``ct=III``; of two levels for the last
missing cells  unknown, to be filled in within training; where enough people lack a column, a further column of 0 and 1
               says who: ``glucose is missing``. Columns that the same people lack share one
=============  =====================================================================================================

Nobody's label is looked at, so what is made of a column cannot leak. New people get the columns of the training.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from brainroam.data.readers.values import DECIMAL_COMMA, codes, fold, is_empty

MOST_COLUMNS = 50  # of a clinical table; wider ones are of measures of one kind
MOST_LEVELS = 12  # of a column of words
LEAST_SHARE, LEAST_PEOPLE = 0.01, 3  # of all people who have a level, or lack a column
MOSTLY = 0.8  # share of cells that are numbers in a column of numbers
LEVEL, LACKS = "=", " is missing"
UNKNOWN = (-9999.0, -999.0)  # how datasets write that a number is not known
NOTHING = (".", "-", "?", "inf", "-inf", "-9999", "-999")  # cells that people leave without a number


def numbers_in(text: pd.Series) -> np.ndarray:
    """A column as numbers, NaN where a cell holds none.

    >>> numbers_in(pd.Series(["1,5", "2", "?", "-999"])).tolist()
    [1.5, 2.0, nan, nan]
    """
    plain = text.str.replace(DECIMAL_COMMA, r"\1.\2", regex=True)
    values = pd.to_numeric(plain, errors="coerce").to_numpy(dtype=float)
    return np.where(np.isfinite(values) & ~np.isin(values, UNKNOWN), values, np.nan)


def lacks(text: pd.Series) -> np.ndarray:
    """Which cells hold nothing; ``none`` is a level, as of medication.

    >>> lacks(pd.Series(["1", "", "?", "none", "n/a"])).tolist()
    [False, True, True, False, True]
    """
    return ((is_empty(text) & (text.str.lower() != "none")) | text.isin(NOTHING)).to_numpy()


def holds_numbers(text: pd.Series) -> bool:
    """Whether nearly all cells that hold something hold a number.

    >>> holds_numbers(pd.Series(["1", "2", ""])), holds_numbers(pd.Series(["3", "4/3", "I/II"]))
    (True, False)
    """
    known = text[~lacks(text)]
    return len(known) == 0 or float(np.isfinite(numbers_in(known)).mean()) >= MOSTLY


def levels_of(text: pd.Series) -> list[str]:
    """The levels of a column of words that enough people have; none where they are too many to be levels.

    >>> levels_of(pd.Series(["III", "I/II", "iii", "I/II", "", "III"] * 3))
    ['I/II', 'III']
    """
    words = spelled_alike(text)
    counts = words[~lacks(text)].value_counts()
    enough = counts[counts >= max(LEAST_PEOPLE, LEAST_SHARE * len(text))]
    few = 2 <= len(enough) <= MOST_LEVELS and enough.sum() >= MOSTLY * counts.sum()
    return sorted(map(str, enough.index)) if few else []


def spelled_alike(text: pd.Series) -> pd.Series:
    """Words that differ only in case or blanks in the spelling of the first of them."""
    folded = codes(text).map(fold)
    return folded.map(dict(zip(folded[::-1], codes(text).str.strip()[::-1], strict=True)))


def has_level(text: pd.Series, level: str) -> np.ndarray:
    """1 for who has a level, 0 for who has another, NaN where the cell is empty."""
    return np.where(lacks(text), np.nan, codes(text).map(fold) == fold(level))


def columns_of_words(text: pd.Series) -> dict[str, np.ndarray]:
    """A column of 0 and 1 for each level of a column of words; of two levels for the last.

    >>> list(columns_of_words(pd.Series(["one", "both", "none", "both", "one", "none"] * 3, name="pupils")))
    ['pupils=both', 'pupils=none', 'pupils=one']
    """
    levels = levels_of(text)
    return {f"{text.name}{LEVEL}{level}": has_level(text, level) for level in levels[1 if len(levels) == 2 else 0 :]}


def flags_of(table: pd.DataFrame, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Columns of 0 and 1 that say who lacks one of these columns of text, where enough people do.

    >>> table = pd.DataFrame({"hb": ["", "12", "", "9", "", "9"], "age": ["9"] * 6, "hbt": ["", "2", "", "1", "", "3"]})
    >>> {name: flag.tolist() for name, flag in flags_of(table, ["hb", "age", "hbt"]).items()}
    {'hb is missing': [1.0, 0.0, 1.0, 0.0, 1.0, 0.0]}
    """
    flags, seen = dict[str, np.ndarray](), set[bytes]()
    for name in names:
        absent = lacks(table[name])
        least = max(LEAST_PEOPLE, LEAST_SHARE * len(absent))
        if least <= absent.sum() <= len(absent) - least and absent.tobytes() not in seen:
            seen.add(absent.tobytes())
            flags[f"{name}{LACKS}"] = absent.astype(float)
    return flags


def columns_as_in_training(table: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """The table of text of new people, with the columns that were made of levels and missing cells in training.

    >>> new = pd.DataFrame({"ct": ["iii", "VI"], "hb": ["", "12"]})
    >>> columns_as_in_training(new, ["ct=III", "hb", "hb is missing"]).to_dict("list")
    {'ct': ['iii', 'VI'], 'hb': ['', '12'], 'ct=III': ['1.0', '0.0'], 'hb is missing': ['1.0', '0.0']}
    """
    made = dict[str, np.ndarray]()
    for name in names:
        column, _, level = name.rpartition(LEVEL)
        if name.endswith(LACKS) and name.removesuffix(LACKS) in table:
            made[name] = lacks(table[name.removesuffix(LACKS)])
        elif name not in table and column in table:
            made[name] = has_level(table[column], level)
    text = {name: pd.Series(values.astype(float), table.index).astype(str) for name, values in made.items()}
    return table.assign(**text)
