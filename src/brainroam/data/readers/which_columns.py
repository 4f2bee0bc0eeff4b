"""Which columns of a table are measures of a brain, and which are ids, ages, scores, codes or the diagnosis.

That is seen by what they hold: numbers that are not ids, codes or ages, and that do not tell the diagnosis as a symptom
score does; and by their names: measures of a brain are many and share parts of their names, a questionnaire beside them
does not.
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
from scipy.stats import rankdata

from brainroam.data.columns import FEWEST, HARDLY, TELLS
from brainroam.data.columns import MOSTLY as KNOWN
from brainroam.data.names import plain
from brainroam.data.readers.values import DECIMAL_COMMA, THOUSANDS, fold, is_empty
from brainroam.data.target import MOST_CLASSES
from brainroam.errors import counted, listed

MOSTLY = 0.5  # share of people who have a number in a column
SURELY_TELLS = 0.97  # AUC of a single column that no region of a brain has
MOST_STEPS = 100  # of a scale of symptoms
FEWEST_VALUES = 6  # different numbers below which a column holds codes
NO_MEASURE = re.compile(
    r"(^|[_\W])(id|ids|rid|ptid|eid|index|row|age|ages|sex|gender|site|scanner|dx|diag\w*|group|label|iq|fiq|viq|piq|"
    r"hand\w*|medic\w*|score|ados\w*|adi\w*|srs\w*|panss\w*|hamd|hama|madrs|bdi|mmse|moca|cdr\w*|adas\w*|updrs\w*|"
    r"ymrs|bprs|phq\w*|gaf|cbcl\w*|faq|gds|npi\w*|ravlt\w*|ecog\w*|hads\w*|stai\w*|wais\w*|wisc\w*|wasi\w*|"
    r"(pt)?educ\w*|apoe\w*|uid|imageuid|mpacc\w*|ldel\w*|trab\w*|digit\w*|date|visit|viscode|session|unnamed|qc|qa|rating|snr|cnr)([_\W\d]|$)|holes|euler",
    re.IGNORECASE,
)
#: Words for regions and for what is measured of them.
OF_A_BRAIN = re.compile(
    r"brain|cort|vol|thick|area|icv|tiv|csf|vent|vessel|plexus|hypointens|matter|stem|hippo|amyg|thal|caud|putam|pall|"
    r"accumb|cereb|insul|call|optic|front|tempor|pariet|occip|cingul|lobe|pole|gyr|sulc|fascic|(^|[_\W])cc([_\W]|$)",
    re.IGNORECASE,
)
PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")  # of a name: lh, Left, thickness
KIN, FEWEST_KIN = 0.1, 5  # share and number of columns with a part of the name in common
ALIKE = 0.8  # share of columns with kin, or named after a brain, from which on names tell the others apart
NOTHING = (".", "-", "?", "inf", "-inf")  # cells that people leave without a number
UNKNOWN = (-9999.0, -999.0)  # how datasets write that a number is not known


@dataclass(frozen=True)
class OfModel:
    """In place of patterns: the columns on which a model was trained, see `brainroam.data.columns.columns_named`."""

    names: tuple[str, ...]


Wanted = str | Sequence[str] | OfModel


def measures_of(
    table: pd.DataFrame, wanted: str | Sequence[str] = "*", people: pd.DataFrame | None = None
) -> pd.DataFrame:
    """The columns of a table of text that are measures, as numbers, see `choose_measures`.

    >>> table = pd.DataFrame({"age": ["9", "8"] * 4, "lh_area": [str(800 + k) for k in range(8)]})
    >>> measures_of(table).columns.tolist()
    ['lh_area']
    """
    return choose_measures(table, wanted, people)[0]


def choose_measures(
    table: pd.DataFrame, wanted: Wanted = "*", people: pd.DataFrame | None = None
) -> tuple[pd.DataFrame, dict[str, str]]:
    """The columns of a table of text that are measures, as numbers, NaN where a cell is empty; and why others are not.

    ``wanted`` are patterns of names (``*_thickness``), with ``!`` before those that are not to be read; a column named
    in full is kept whatever it holds. By ``*`` alone, columns named like ids, ages, scores or marks of quality, columns
    of few codes, `foreign_columns` and, where ``people`` has label (see `class_codes`) and site, columns that tell two
    of their classes apart are left out.

    >>> table = pd.DataFrame({"age": ["9", "8"] * 4, "note": ["a", "b"] * 4})
    >>> choose_measures(table)[1]
    {'age': 'named like an id, an age, a score or a mark of quality', 'note': 'no numbers'}
    >>> choose_measures(table, ["*", "age"])[0].columns.tolist()
    ['age']
    """
    if isinstance(wanted, OfModel):
        words = set(map(plain, wanted.names))
        return pd.DataFrame(numbers_of(table[[name for name in table if plain(str(name)) in words]]), table.index), {}
    patterns = [wanted] if isinstance(wanted, str) else list(wanted)
    unwanted = [pattern[1:] for pattern in patterns if pattern.startswith("!")]
    patterns = [pattern for pattern in patterns if not pattern.startswith("!")] or ["*"]
    asked = [pattern for pattern in patterns if pattern != "*"]
    left, numbers = dict[str, str](), dict[str, np.ndarray]()
    for name, values in numbers_of(table[[name for name in table if _fits(name, patterns)]]).items():
        known = values[np.isfinite(values)]
        guessed = not _fits(name, asked)
        in_full = not {str(name), glob.escape(str(name))}.isdisjoint(patterns)
        if _fits(name, unwanted):
            left[str(name)] = "as asked"
        elif guessed and NO_MEASURE.search(str(name)):
            left[str(name)] = "named like an id, an age, a score or a mark of quality"
        elif not in_full and not len(known):
            left[str(name)] = "no numbers"
        elif not in_full and len(known) < MOSTLY * len(values):
            left[str(name)] = "known for fewer than half of the people"
        elif guessed and len(np.unique(known)) < min(FEWEST_VALUES, len(known)):
            left[str(name)] = "few different values"
        else:
            numbers[str(name)] = values
    free = [name for name in foreign_columns(list(numbers)) if not _fits(name, asked)]
    left |= dict.fromkeys(free, "named unlike the others")
    measures = pd.DataFrame({name: x for name, x in numbers.items() if name not in left}, index=table.index)
    if people is not None and len(measures.columns):
        telling = measures.columns[_tell_classes(measures.to_numpy(), people["label"], people["site"])]
        left |= {name: "tells the diagnosis alone" for name in telling if not _fits(name, asked)}
    return measures.drop(columns=[name for name in left if name in measures]), left


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

    >>> class_codes(pd.DataFrame({"label": np.nan, "dx": ["AD", "CN", "AD"]}), "dx").tolist()
    [0.0, 1.0, 0.0]
    """
    column = next((name for name in people if target is not None and fold(str(name)) == fold(target)), "label")
    text = people[column].astype(object).where(people[column].notna(), "").astype(str)
    known = text.mask(is_empty(text))
    codes = pd.Series(pd.factorize(known, sort=True)[0].astype(float), index=people.index).where(known.notna())
    return codes if known.nunique() <= MOST_CLASSES else codes * np.nan


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
    for one, other in combinations(np.unique(label.dropna()), 2):
        telling |= measures_condition(values, label.map({one: 0.0, other: 1.0}), site)
    return telling


def foreign_columns(names: Sequence[str]) -> list[str]:
    """Columns named unlike nearly all others: they share no part of their names, nor are they named after a brain.

    Where names say nothing, as ``V1`` to ``V200``, there are none.

    >>> foreign_columns(["PTEDUCAT", "FAQ", *(f"thickness.left.{region}" for region in "abcdefgh"), "ICV"])
    ['PTEDUCAT', 'FAQ']
    """
    parts = [{part.lower() for part in PART.findall(name) if len(part) > 1} for name in names]
    counts = Counter(part for of_name in parts for part in of_name)
    least = max(FEWEST_KIN, KIN * len(names))
    alike = [
        bool(OF_A_BRAIN.search(name)) or any(counts[part] >= least for part in of_name)
        for name, of_name in zip(names, parts, strict=True)
    ]
    names_tell = sum(alike) >= ALIKE * max(len(names), 1)
    return [name for name, kin in zip(names, alike, strict=True) if not kin] if names_tell else []


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


def measures_condition(values: np.ndarray, label: pd.Series, site: pd.Series) -> np.ndarray:
    """Which columns measure the condition: `brainroam.data.columns.of_the_condition`, of many at once.

    A scale of few whole numbers, as symptoms have it, is one from an AUC of `TELLS` on. A measured region may tell that
    much itself, as the hippocampus does of Alzheimer's disease: any other column is one from `SURELY_TELLS` on.
    """
    y, place = label.to_numpy(dtype=float), site.to_numpy().astype(str)
    if min((y == 1).sum(), (y == 0).sum()) < FEWEST:
        return np.zeros(values.shape[1], dtype=bool)
    cases, controls = (np.isfinite(values[y == k]).mean(axis=0) for k in (1, 0))
    one_class = (np.maximum(cases, controls) >= KNOWN) & (np.minimum(cases, controls) <= HARDLY)
    won, pairs = np.zeros(values.shape[1]), 0
    for name in np.unique(place):
        case, control = (np.flatnonzero((place == name) & (y == k)) for k in (1, 0))
        if len(case) and len(control):
            ranks = rankdata(np.nan_to_num(values[np.concatenate([case, control])]), axis=0)
            won += ranks[: len(case)].sum(axis=0) - len(case) * (len(case) + 1) / 2
            pairs += len(case) * len(control)
    share = won / max(pairs, 1)
    least = np.where(_are_scales(values), TELLS, SURELY_TELLS)
    return one_class | ((pairs > 0) & (np.maximum(share, 1 - share) >= least))


def _are_scales(values: np.ndarray) -> np.ndarray:
    """Which columns hold whole numbers, few different ones."""
    whole = ~((values != np.round(values)) & np.isfinite(values)).any(axis=0)
    few = [len(np.unique(column[np.isfinite(column)])) <= MOST_STEPS for column in values.T]
    return whole & np.array(few, dtype=bool)
