"""Which columns of a table are measures of a brain, and which are ids, ages, scores, codes or the diagnosis.

That is seen by what they hold: numbers that are not ids, codes or ages, and that do not tell the diagnosis as a symptom
score does; and by their names: measures of a brain are many and share parts of their names, a questionnaire beside them
does not. In a clinical table (`brainroam.data.readers.clinical`) scores, codes and words are what was measured.
"""

import glob
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm, rankdata

from brainroam.data.columns import FEWEST, HARDLY, TELLS
from brainroam.data.columns import MOSTLY as KNOWN
from brainroam.data.names import plain
from brainroam.data.readers.clinical import (
    LACKS,
    LEVEL,
    MOST_COLUMNS,
    NOTHING,
    UNKNOWN,
    columns_as_in_training,
    columns_of_words,
    flags_of,
    holds_numbers,
)
from brainroam.data.readers.values import DECIMAL_COMMA, THOUSANDS, fold, is_empty
from brainroam.data.target import MOST_CLASSES
from brainroam.errors import counted, listed

MOSTLY, HARDLY_ANY = 0.5, 0.05  # share of people who have a number in a column, of a clinical table
SURELY_TELLS = 0.97  # AUC of a single column that no region of a brain has
IMPROBABLE = 0.01  # that a column which tells nothing tells two classes apart so well, over all columns and pairs
MOST_STEPS = 100  # of a scale of symptoms
FEWEST_VALUES = 6  # different numbers below which a column holds codes
#: Whole words of a name, so that no measure is taken for one: Adiantum is no ADI.
WORD = r"(^|[_\W])({})([_\W\d]|$)"
NO_PROPERTY = re.compile(
    WORD.format(
        r"ids|rid|ptid|eid|uid|imageuid|site|scanner|dx|diag(noses|nosis|nostic\w*)?|date|visit|viscode|session|unnamed"
    )
    + "|^(index|row|group|label)$",
    re.IGNORECASE,
)
ID_NAME = re.compile(WORD.format("id"), re.IGNORECASE)
OF_PEOPLE = re.compile(
    WORD.format(
        r"age|ages|sex|gender|index|row|group|label|iq|fiq|viq|piq|hand(ed|edness|scores?)?|medic(ated|ation\w*|ine)?|score|"
        r"ados\d?|adi([-_]?r)?|srs\d?|panss|hamd|hama|madrs|bdi|mmse|moca|cdr(sb|global)?|adas(cog|q)?|updrs|ymrs|bprs|phq|"
        r"gaf|cbcl|faq|gds|npi(q|score)?|ravlt|ecog(pt|sp)\w*|hads|stai|wais|wisc|wasi|(pt)?educ(at|ation)?|apoe\w*|"
        r"mpacc\w*|ldel(total)?\w*|trab(scor)?\w*|digit(scor|span)?\w*"
    ),
    re.IGNORECASE,
)
OF_QUALITY = re.compile(WORD.format("qc|qa|rating|snr|cnr") + "|holes|euler", re.IGNORECASE)
FEW_MARKS, RARE = 2, 0.2  # number and share of columns named like marks of quality, above which they were measured
NAMED_OTHERWISE = "named like an id, an age, a score or a mark of quality"
#: Words for regions and for what is measured of them.
OF_A_BRAIN = re.compile(
    r"brain|cort|vol|thick|area|icv|tiv|csf|vent|vessel|plexus|hypointens|matter|stem|hippo|amyg|thal|caud|putam|pall|"
    r"accumb|cereb|insul|call|optic|front|tempor|pariet|occip|cingul|lobe|pole|gyr|sulc|fascic|(^|[_\W])cc([_\W]|$)",
    re.IGNORECASE,
)
PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")  # of a name: lh, Left, thickness
KIN, FEWEST_KIN = 0.1, 5  # share and number of columns with a part of the name in common
ALIKE = 0.8  # share of columns with kin, or named after a brain, from which on names tell the others apart
SCALE = 7  # different numbers from which on a target is a scale, and its values are no classes


@dataclass(frozen=True)
class OfModel:
    """In place of patterns: the columns on which a model was trained, see `brainroam.data.columns.columns_named`."""

    names: tuple[str, ...]


Wanted = str | Sequence[str] | OfModel


def measures_of(
    table: pd.DataFrame, wanted: str | Sequence[str] = "*", people: pd.DataFrame | None = None, clinical: bool = False
) -> pd.DataFrame:
    """The columns of a table of text that are measures, as numbers, see `choose_measures`.

    >>> table = pd.DataFrame({"age": ["9", "8"] * 4, "lh_area": [str(800 + k) for k in range(8)]})
    >>> measures_of(table).columns.tolist()
    ['lh_area']
    """
    return choose_measures(table, wanted, people, clinical)[0]


def choose_measures(
    table: pd.DataFrame, wanted: Wanted = "*", people: pd.DataFrame | None = None, clinical: bool = True
) -> tuple[pd.DataFrame, dict[str, str]]:
    """The columns of a table of text that are measures, as numbers, NaN where a cell is empty; and why others are not.

    ``wanted`` are patterns of names (``*_thickness``), with ``!`` before those that are not to be read; a column named
    in full is kept whatever it holds. By ``*`` alone, columns named like ids, ages, scores or marks of quality, columns
    of few codes, `foreign_columns` and, where ``people`` has label (see `class_codes`) and site, columns that tell two
    of their classes apart are left out. Of a clinical table, unless ``clinical`` is false, codes, scores and words are
    measures too, and columns say who lacks one (`brainroam.data.readers.clinical`).

    >>> table = pd.DataFrame({f"lh_area_{k}": ["9.1", "8.2"] * 4 for k in range(4)} | {"note": ["a", "b"] * 4})
    >>> choose_measures(table)[1]["note"], choose_measures(table, ["*", "note"])[0].columns.tolist()
    ('no numbers', ['note=b'])
    >>> clinical = pd.DataFrame({"ct": ["I", "III"] * 4, "shift": ["0", "1"] * 4, "hb": ["9", "", "", "", *"8765"]})
    >>> choose_measures(clinical)[0].columns.tolist()
    ['ct=III', 'shift', 'hb', 'hb is missing']
    """
    if isinstance(wanted, OfModel):
        table, words = columns_as_in_training(table, wanted.names), set(map(plain, wanted.names))
        return pd.DataFrame(numbers_of(table[[name for name in table if plain(str(name)) in words]]), table.index), {}
    patterns = [wanted] if isinstance(wanted, str) else list(wanted)
    unwanted = [pattern[1:] for pattern in patterns if pattern.startswith("!")]
    patterns = [pattern for pattern in patterns if not pattern.startswith("!")] or ["*"]
    asked = [pattern for pattern in patterns if pattern != "*"]
    left, numbers = dict[str, str](), dict[str, np.ndarray]()
    table = table[[name for name in table if _fits(name, patterns)]].rename(columns=str)
    clinical = clinical and is_clinical(list(table))
    otherwise = _named_otherwise(table, clinical)
    for name, values in numbers_of(table).items():
        known = values[np.isfinite(values)]
        guessed = not _fits(name, asked)
        in_full = not {name, glob.escape(name)}.isdisjoint(patterns)
        if _fits(name, unwanted):
            left[name] = "as asked"
        elif guessed and name in otherwise:
            left[name] = NAMED_OTHERWISE
        elif (clinical or not guessed) and len(known) < len(values) and not holds_numbers(table[name]):
            levels = columns_of_words(table[name])
            numbers |= levels
            left |= {} if levels else {name: "no numbers, and no 2 to 12 levels"}
        elif not in_full and not len(known):
            left[name] = "no numbers"
        elif not in_full and len(known) < (HARDLY_ANY if clinical else MOSTLY) * len(values):
            left[name] = f"known for fewer than {'5 %' if clinical else 'half'} of the people"
        elif guessed and len(np.unique(known)) < (2 if clinical else min(FEWEST_VALUES, len(known))):
            left[name] = "few different values"
        else:
            numbers[name] = values
    source = {name: name if name in table else name.rpartition(LEVEL)[0] for name in numbers}
    free = [name for name in foreign_columns(list(numbers)) if not _fits(source[name], asked)]
    left |= dict.fromkeys(free, "named unlike the others")
    measures = pd.DataFrame({name: x for name, x in numbers.items() if name not in left}, index=table.index)
    if people is not None and len(measures.columns):
        telling = measures.columns[_tell_classes(measures.to_numpy(), people["label"], people["site"])]
        left |= {name: "tells the diagnosis alone" for name in telling if not _fits(source[name], asked)}
    measures = measures.drop(columns=[name for name in left if name in measures])
    if clinical:
        flags = pd.DataFrame(flags_of(table, dict.fromkeys(source[name] for name in measures)), index=table.index)
        measures = measures.join(flags.mask(measures.isna().all(axis=1)))  # of whom nothing is known: not even that
    return measures, left


def _named_otherwise(table: pd.DataFrame, clinical: bool) -> set[str]:
    """Columns whose names say that they hold no measure: ids, dates and sites; beside a brain also scores and quality.

    Where several columns are named like marks of quality, and the others not after a brain, these were measured; an id
    holds no decimals.
    """
    named = {name for name in table if NO_PROPERTY.search(name)}
    named |= {name for name in table if ID_NAME.search(name) and not table[name].str.contains(r"\d\.0*[1-9]").any()}
    if clinical:
        return named
    quality = {name for name in table if OF_QUALITY.search(name)}
    named |= {name for name in table if OF_PEOPLE.search(name)}
    of_a_brain = sum(_alike(list(table))) >= ALIKE * table.shape[1]
    few = len(quality) <= (RARE * table.shape[1] if of_a_brain else FEW_MARKS)
    return named | quality if few else named


def is_clinical(names: Sequence[str]) -> bool:
    """Whether columns are those of a clinical table: few, neither named after a brain nor like one another.

    >>> is_clinical(["ct", "motor", "hypoxia"]), is_clinical([f"lh_{k}_thickness" for k in range(34)])
    (True, False)
    """
    return 0 < len(names) <= MOST_COLUMNS and sum(_alike(names)) < ALIKE * len(names)


def described(measures: Iterable[str]) -> str:
    """Which columns are read, by kind, from their names; those of 0 and 1 that were made of others apart.

    >>> described(["age", "ct=III", "ct=IV", "hb", "hb is missing"])
    'age, hb; levels of ct (III, IV); who lacks hb'
    """
    names = list(measures)
    levels = dict[str, list[str]]()
    for name in names:
        column, mark, level = name.rpartition(LEVEL)
        if mark and column:
            levels.setdefault(column, []).append(level)
    lacking = [name.removesuffix(LACKS) for name in names if name.endswith(LACKS)]
    own = [name for name in names if not name.endswith(LACKS) and not name.rpartition(LEVEL)[0]]
    parts = [listed(own, 15)] if own else []
    parts += [f"levels of {column} ({listed(held, 12)})" for column, held in levels.items()]
    return "; ".join([*parts, *([f"who lacks {listed(lacking, 12)}"] if lacking else [])])


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

    A scale, as MMSE, is a number: of its values any two tell little apart.

    >>> class_codes(pd.DataFrame({"label": np.nan, "dx": ["AD", "CN", "AD"]}), "dx").tolist()
    [0.0, 1.0, 0.0]
    """
    column = next((name for name in people if target is not None and fold(str(name)) == fold(target)), "label")
    text = people[column].astype(object).where(people[column].notna(), "").astype(str)
    known = text.mask(is_empty(text))
    codes = pd.Series(pd.factorize(known, sort=True)[0].astype(float), index=people.index).where(known.notna())
    numbers = pd.to_numeric(known.dropna(), errors="coerce")
    is_scale = len(numbers) > 0 and numbers.notna().all() and numbers.nunique() >= SCALE
    return codes if known.nunique() <= MOST_CLASSES and not is_scale else codes * np.nan


def strange_cells(table: pd.DataFrame, names: Iterable[str]) -> str:
    """Cells of measures that hold something but no number, in words; nothing where there are none.

    >>> strange_cells(pd.DataFrame({"area": ["800", "n/a", "7oo"]}), ["area"])
    "; 1 cell holds no number and counts as unknown, as '7oo' in area"
    """
    numbers = numbers_of(table[list(names)])
    cells = [
        (name, text)
        for name, values in numbers.items()
        if np.isnan(values).any()
        for text in table[name][np.isnan(values) & ~is_empty(table[name]) & ~table[name].isin(NOTHING)]
        if not text.lstrip("-").replace(".", "").isdecimal()
    ]
    many = counted(len(cells), "cell holds no number and counts", "cells hold no number and count")
    return f"; {many} as unknown, as {cells[0][1]!r} in {cells[0][0]}" if cells else ""


def _fits(name: object, patterns: Iterable[str]) -> bool:
    return any(fnmatch(str(name), pattern) for pattern in patterns)


def _tell_classes(values: np.ndarray, label: pd.Series, site: pd.Series) -> np.ndarray:
    """Mask of columns that tell two of the classes apart as a measure of the condition does."""
    telling = np.zeros(values.shape[1], dtype=bool)
    pairs = list(combinations(np.unique(label.dropna()), 2))
    for one, other in pairs:
        telling |= measures_condition(values, label.map({one: 0.0, other: 1.0}), site, len(pairs))
    return telling


def foreign_columns(names: Sequence[str]) -> list[str]:
    """Columns named unlike nearly all others: they share no part of their names, nor are they named after a brain.

    Where names say nothing, as ``V1`` to ``V200``, there are none.

    >>> foreign_columns(["PTEDUCAT", "FAQ", *(f"thickness.left.{region}" for region in "abcdefgh"), "ICV"])
    ['PTEDUCAT', 'FAQ']
    """
    alike = _alike(names)
    names_tell = sum(alike) >= ALIKE * max(len(names), 1)
    return [name for name, kin in zip(names, alike, strict=True) if not kin] if names_tell else []


def _alike(names: Sequence[str]) -> list[bool]:
    """Which columns are named after a brain, or share a part of their names with many others."""
    parts = [{part.lower() for part in PART.findall(name) if len(part) > 1} for name in names]
    counts = Counter(part for of_name in parts for part in of_name)
    least = max(FEWEST_KIN, KIN * len(names))
    return [
        bool(OF_A_BRAIN.search(name)) or any(counts[part] >= least for part in of_name)
        for name, of_name in zip(names, parts, strict=True)
    ]


def numbers_of(table: pd.DataFrame) -> dict[Any, np.ndarray]:
    """Columns of text as numbers, NaN where a cell holds none; commas are decimal where some cannot be thousands."""
    numbers = {name: pd.to_numeric(table[name], errors="coerce").to_numpy(dtype=float) for name in table}
    gaps = [table[name] for name, values in numbers.items() if np.isnan(values).any()]
    commas = [text for text in gaps if text.str.contains(",", regex=False).any()]
    if any((~text[text.str.contains(",", regex=False)].str.fullmatch(THOUSANDS)).any() for text in commas):
        for text in commas:
            points = text.str.replace(DECIMAL_COMMA, r"\1.\2", regex=True)
            numbers[text.name] = pd.to_numeric(points, errors="coerce").to_numpy(dtype=float)
    return {name: np.where(np.isfinite(x) & ~np.isin(x, UNKNOWN), x, np.nan) for name, x in numbers.items()}


def measures_condition(values: np.ndarray, label: pd.Series, site: pd.Series, n_tests: int = 1) -> np.ndarray:
    """Which columns measure the condition: `brainroam.data.columns.of_the_condition`, of many at once.

    A scale of few whole numbers, as symptoms have it, is one from an AUC of `TELLS` on. A measured region may tell that
    much itself, as the hippocampus does of Alzheimer's disease: any other column is one from `SURELY_TELLS` on. Few
    pairs of people are told apart by chance: of U, Mann and Whitney's sum over sites, with its variance under the null,

        |U - pairs / 2| / sd(U) > z      with P(|Z| > z) = IMPROBABLE / (columns x n_tests)
    """
    y, place = label.to_numpy(dtype=float), site.to_numpy().astype(str)
    if min((y == 1).sum(), (y == 0).sum()) < FEWEST:
        return np.zeros(values.shape[1], dtype=bool)
    cases, controls = (np.isfinite(values[y == k]).mean(axis=0) for k in (1, 0))
    one_class = (np.maximum(cases, controls) >= KNOWN) & (np.minimum(cases, controls) <= HARDLY)
    won, pairs, variance = np.zeros(values.shape[1]), 0, 0.0
    for name in np.unique(place):
        case, control = (np.flatnonzero((place == name) & (y == k)) for k in (1, 0))
        if len(case) and len(control):
            ranks = rankdata(np.nan_to_num(values[np.concatenate([case, control])]), axis=0)
            won += ranks[: len(case)].sum(axis=0) - len(case) * (len(case) + 1) / 2
            pairs += len(case) * len(control)
            variance += len(case) * len(control) * (len(case) + len(control) + 1) / 12
    share = won / max(pairs, 1)
    least = np.where(_are_scales(values), TELLS, SURELY_TELLS)
    improbable = np.abs(won - pairs / 2) > norm.isf(IMPROBABLE / (2 * values.shape[1] * n_tests)) * np.sqrt(variance)
    return one_class | (improbable & (np.maximum(share, 1 - share) >= least))


def _are_scales(values: np.ndarray) -> np.ndarray:
    """Which columns hold whole numbers, few different ones."""
    whole = ~((values != np.round(values)) & np.isfinite(values)).any(axis=0)
    few = [len(np.unique(column[np.isfinite(column)])) <= MOST_STEPS for column in values.T]
    return whole & np.array(few, dtype=bool)
