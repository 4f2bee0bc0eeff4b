"""From the text of a table's cells to numbers, codes and labels; what cannot be one is an error that names the line.

Sex is told by words of some languages. 0 and 1, or 1 and 2, are read as nearly everybody means them, with a warning;
any other code is an error, not a guess.
"""

import json
import re
import unicodedata
import warnings
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from pandas.api.types import is_integer

from brainroam.data import names
from brainroam.data.names import plain
from brainroam.errors import ReaderError, UsageError, counted

SENTINELS = (-9999, -999, 999, 555, 888, 777)
EMPTY = ("", "n/a", "na", "nan", "[]", "none", "null", "#n/a")
DECIMAL_COMMA = r"^([+-]?\d*),(\d+)$"
THOUSANDS = r"[+-]?[1-9]\d{0,2},\d{3}"
MONTHS = re.compile(r"months?([_\W\d]|$)|monate|(^|[_\W])mois([_\W]|$)|meses", re.IGNORECASE)
RANGE = r"^(\d{1,3})\s?[-\u2013]\s?(\d{1,3})$"
OLDEST = 100.0  # years: the age of half of no cohort
MALE, FEMALE, MISSING = 1.0, 0.0, float("nan")
MISSING_WORDS = "missing unknown unspecified unbekannt inconnu desconocido desconhecido sconosciuto 不详 未知 不明 미상"
WORDS = {
    **dict.fromkeys(map(plain, names.MALE.split()), MALE),
    **dict.fromkeys(map(plain, names.FEMALE.split()), FEMALE),
    **dict.fromkeys([*MISSING_WORDS.split(), "not reported", *map(str, SENTINELS)], MISSING),
}
# One letter means something only beside the other: M is man in M/F, M/W and mujer in H/M.
LETTERS = (("m", "f"), ("m", "w"), ("h", "f"))
ZERO_OR_ONE = {"0": FEMALE, "1": MALE}  # as `brainroam.Cohort` has it
ONE_IS_MALE = {"1": MALE, "2": FEMALE}  # as ABIDE, ADNI, ENIGMA and ABCD have it
ABIDE_COLUMNS = {"sub_id", "dx_group", "age_at_scan", "sex"}  # ABIDE I and II: 1 = male, 2 = female
SAY = "say what they mean with sex_codes (--option sex_codes=1=male,2=female; 'missing' for sex unknown)"


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
    """Ages in years; 0 stands for unknown. A column named after months, or NDA's ``interview_age``, is divided by 12.

    >>> ages(pd.Series(["120", "0"], name="age_months"), "table").tolist()
    [10.0, nan]
    """
    plain = middle_of_ranges(values)
    if (plain != values).any():
        ranges = values[plain != values].iloc[0]
        warnings.warn(f"{source}, column {values.name!r} holds ranges, as {ranges}: read as their middle", stacklevel=2)
    age = numbers(plain, source).replace(0.0, np.nan)
    in_months = MONTHS.search(str(values.name)) or (values.name == "interview_age" and age.median() > OLDEST)
    return age / 12 if in_months else age


def middle_of_ranges(values: pd.Series) -> pd.Series:
    """Ages given as ranges, as HCP does, as the middle of each; others as they are.

    >>> middle_of_ranges(pd.Series(["22-25", "36+", "31"])).tolist()
    ['23.5', '36+', '31']
    """
    ends = values.str.extract(RANGE).astype(float)
    return values.where(ends[0].isna(), ends.mean(axis=1).astype(str))


def codes(values: pd.Series) -> pd.Series:
    """Codes as text in one spelling: a spreadsheet's ``1.0`` is ``1``."""
    return values.str.replace(r"^(-?\d+)\.0+$", r"\1", regex=True)


def fold(text: str) -> str:
    """A word without the differences people do not mean: case, blanks, and how letters are composed.

    >>> fold("Autism ") == fold("autism") == fold("AUTISM")
    True
    """
    return re.sub(r"\s+", " ", unicodedata.normalize("NFKC", text)).strip().casefold()


def one_spelling(values: pd.Series) -> pd.Series:
    """Codes that differ only in case or blanks become the commonest of them.

    >>> one_spelling(pd.Series(["Autism", "autism", "Autism", "TD"])).tolist()
    ['Autism', 'Autism', 'Autism', 'TD']
    """
    spelled = codes(values)
    same = spelled.map(fold)
    commonest = spelled.groupby(same).agg(lambda group: group.value_counts().index[0])
    return same.map(commonest).rename(values.name).astype(str)


def labels(values: pd.Series, meaning: Mapping[str, int]) -> dict[str, pd.Series]:
    """Two columns every table of participants has: ``label``, and for people without one why it is ``unlabelled``."""
    known = codes(values)
    by_word = {fold(code): label for code, label in meaning.items()}
    reason = f"{values.name} is " + known.map(repr).where(~is_empty(known), "empty")
    label = known.map(fold).map(by_word).astype(float)
    return {"label": label, "unlabelled": reason + ": neither condition nor control"}


def sexes(
    values: pd.Series, source: object, meaning: Mapping[str, float] | None = None, remedy: str = SAY
) -> pd.Series:
    """1 = male, 0 = female, NaN for empty cells; codes that are neither words nor in ``meaning`` are an error.

    >>> sexes(pd.Series(["M", "w", "", "männlich"]), "table").tolist()
    [1.0, 0.0, nan, 1.0]
    >>> sexes(pd.Series(["男", "女", "여성", "Féminin"]), "table").tolist()
    [1.0, 0.0, 0.0, 0.0]
    """
    words = codes(values).map(_word)
    codes_of = {**WORDS, **_letters(set(words)), **{_word(code): value for code, value in (meaning or {}).items()}}
    strange = words[~words.isin(codes_of) & ~is_empty(words)]
    if len(strange):
        counts = sorted(Counter(values[strange.index]).items())
        held = ", ".join(f"{code!r} ({counted(n, 'person', 'people')})" for code, n in counts[:8])
        raise ReaderError(f"{source}, column {values.name!r} holds {held}, which is neither male nor female; {remedy}")
    return words.map(codes_of).astype(float)


def _word(text: object) -> str:
    return plain(fold(str(text)))


def _letters(present: set[str]) -> dict[str, float]:
    """What single letters mean; H or V beside M is Spanish or Dutch, where M may be either."""
    single = {word for word in present if len(word) == 1 and word.isascii() and word.isalpha()}
    for male, female in LETTERS:
        if single <= {male, female} and single != {"h"}:
            return {male: MALE, female: FEMALE}
    return {}


def sex_meaning(values: pd.Series, given: object, table: pd.DataFrame, path: Path) -> dict[str, float]:
    """What codes of sex mean, as given, as the column's name says, as the table's sidecar says, or as in ABIDE."""
    if given is not None:
        return parse_sex_codes(given)
    name = str(values.name)
    pairs = re.findall(r"(\w+)\s*[=:]\s*(\w+)", unicodedata.normalize("NFKC", name))
    meaning = {_word(code): WORDS.get(_word(word)) for code, word in pairs}
    short = {"m": MALE, "f": FEMALE, "w": FEMALE}
    meaning |= {_word(code): short[_word(word)] for code, word in pairs if _word(word) in short}
    words = set(re.findall(r"[a-z]+", name.lower()))
    if "female" in words and "male" not in words:
        meaning |= {"1": FEMALE, "0": MALE}
    elif "male" in words and "female" not in words and not meaning:
        meaning |= {"1": MALE, "0": FEMALE}
    meaning |= _sidecar(path, name)
    if not meaning and {str(column).lower() for column in table.columns} >= ABIDE_COLUMNS:
        meaning = dict(ONE_IS_MALE)
    present = set(codes(values)[~is_empty(values)])
    usual = next((pair for pair in (ZERO_OR_ONE, ONE_IS_MALE) if present and present <= set(pair)), None)
    if not meaning and usual is not None:
        meaning = dict(usual)
        (male,), (female,) = ([code for code in usual if usual[code] == sex] for sex in (MALE, FEMALE))
        warnings.warn(
            f"{path}, column {name!r} holds {' and '.join(sorted(present))}, read as {male} = male and {female} = "
            f"female; if it is otherwise say so with sex_codes (--option sex_codes={female}=male,{male}=female)",
            stacklevel=2,
        )
    return {code: value for code, value in meaning.items() if value is not None}


def parse_sex_codes(given: object) -> dict[str, float]:
    """Codes as a mapping, or as text.

    >>> parse_sex_codes("1=male, 2=female, diverse=missing")
    {'1': 1.0, '2': 0.0, 'diverse': nan}
    """
    pairs = (
        given.items() if isinstance(given, Mapping) else [part.partition("=")[::2] for part in str(given).split(",")]
    )
    meaning = {}
    for code, word in pairs:
        value = WORDS.get(_word(word))
        if value is None:
            raise UsageError(f"sex_codes: {code}={word} should name male, female or missing, as in 1=male,2=female")
        meaning[_word(code)] = value
    return meaning


def _sidecar(path: Path, name: str) -> dict[str, float | None]:
    """``Levels`` of the column in the JSON file beside a BIDS table."""
    try:
        levels = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))[name]["Levels"]
        return {_word(code): WORDS.get(_word(word)) for code, word in levels.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
