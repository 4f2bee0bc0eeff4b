"""Columns of a file of predictions of a number, or of several classes.

Of *two classes* the file may hold the probability of each, ``probability_<class>``; that of the condition is taken. Of
a *number* it holds the true value (``label``, ``y_true``) and the ``predicted`` one, both in its own units, and
``low_90``, ``high_90`` (or 80) where there are intervals. Of *several classes* it holds a column for each,
``probability_<class>`` or ``score_<class>``, the name of the class, or its place among them, as ``label``, and
``predicted`` where it is not the class with the highest value. A study beside the file says what is predicted; else the
columns do.
"""

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from brainroam.data.readers.participants_table import Columns, code_meaning
from brainroam.data.readers.values import floats, is_empty
from brainroam.data.target import MOST_CLASSES, TWO_CLASSES, Classes, Number, Target, several_classes
from brainroam.errors import ReaderError, UsageError, counted, listed

OF_CLASSES = {"probability": ("probability", "prob", "proba", "p", "y_prob"), "score": ("score", "logit", "decision")}
ROUNDED = 0.02  # how far rounded probabilities of two classes may be from adding up to 1
CANNOT_TELL = "which is the condition cannot be known"
ENDS = ("low_80", "high_80", "low_90", "high_90")


def plain_name(name: str) -> str:
    """A column name without case, blanks and marks.

    >>> plain_name("Participant ID"), plain_name("y-true")
    ('participant_id', 'y_true')
    """
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def target_of_columns(raw: pd.DataFrame, column: Mapping[str, str]) -> Target:
    """What a file that stands alone predicts: several classes by their columns, a number by its values, or two classes.

    >>> raw = pd.DataFrame({"age": ["31.5", "24.1", "55"], "y_pred": ["30", "25", "50"]})
    >>> target_of_columns(raw, {"label": "age", "predicted": "y_pred"}).kind
    'number'
    """
    for starts in OF_CLASSES.values():
        ends = [end for start in starts for end in _ends(raw, start)]
        if len(ends) > 2 and "label" in column:
            coded = several_classes(raw[column["label"]].to_numpy(dtype=str))
            names = [str(name) for name in coded[0]] if coded else []
            by_name = sorted(map(plain_name, names)) == sorted(map(plain_name, ends))  # else labels are their places
            return Classes(column["label"], tuple(names if by_name else ends))
    if "label" in column:
        values = pd.to_numeric(raw[column["label"]].str.replace(",", "."), errors="coerce")
        if values.notna().all() and (values.nunique() > MOST_CLASSES or (values % 1 != 0).any()):
            return Number(column["label"])
    return TWO_CLASSES


def _ends(raw: pd.DataFrame, start: str) -> dict[str, str]:
    """What follows ``prob_``, or another start, in names of columns, and the column of each."""
    return {str(name)[len(start) + 1 :]: str(name) for name in raw if plain_name(str(name)).startswith(f"{start}_")}


def case_column(raw: pd.DataFrame, target: Target, path: Path) -> str | None:
    """The column of the condition where there is a probability for each of two classes; None where there is not.

    >>> raw = pd.DataFrame({"subject": ["a", "b"], "prob_ASD": ["0.7", "0.2"], "prob_TC": ["0.3", "0.8"]})
    >>> case_column(raw, TWO_CLASSES, Path("mine.csv"))
    'prob_ASD'
    """
    pair = next((ends for start in OF_CLASSES["probability"] if len(ends := _ends(raw, start)) == 2), None)
    if pair is None:
        return None
    remedy = (
        "keep the column of the condition, and call it probability; several methods stand below each other, with a "
        "column method"
    )
    by_name = {plain_name(end): end for end in pair}
    case = [by_name[name] for name in map(plain_name, target.classes[1:]) if name in by_name]
    try:
        meaning = code_meaning(pd.Series(list(pair)), Columns(case=case or None), path)
    except UsageError as error:
        raise ReaderError(f"{path} holds {' and '.join(pair.values())}, and {CANNOT_TELL}: {remedy}") from error
    total = sum(floats(raw[name], path) for name in pair.values())
    if (np.abs(total - 1) > ROUNDED).any():
        raise ReaderError(f"{path}: {' and '.join(pair.values())} do not add up to 1: {remedy}")
    return next(pair[end] for end, code in meaning.items() if code == 1)


def read_target(
    raw: pd.DataFrame, column: Mapping[str, str], target: Target, subject: pd.Series, path: Path
) -> pd.DataFrame:
    """The columns of `brainroam.evaluation.tables` that say the truth, where the file does, and what was predicted."""
    return (_number if target.is_number else _of_classes)(raw, column, target, subject, path)


def _number(
    raw: pd.DataFrame, column: Mapping[str, str], target: Target, subject: pd.Series, path: Path
) -> pd.DataFrame:
    role = next((role for role in ("predicted", "score") if role in column), None)
    if role is None:
        raise ReaderError(
            f"{path} has no column for the predicted {target.name}: call it predicted, y_pred or score. It has "
            f"{listed(raw.columns, 20)}"
        )
    table = pd.DataFrame({"predicted": _finite(raw[column[role]], subject, path)})
    if "label" in column:
        table["label"] = _finite(raw[column["label"]], subject, path)
    with np.errstate(all="ignore"):
        table["score"] = target.forward(table["predicted"])
    if not np.isfinite(table["score"]).all():
        wrong = ~np.isfinite(table["score"])
        raise ReaderError(f"{path}: the predicted {target.name} has no logarithm for {listed(subject[wrong])}")
    by_name = {plain_name(str(name)): str(name) for name in raw}
    for end in ENDS:
        table[end] = floats(raw[by_name[end]], path) if end in by_name else np.nan
    return table


def _finite(values: pd.Series, subject: pd.Series, path: Path) -> pd.Series:
    numbers = floats(values, path)
    if not np.isfinite(numbers).all():
        lacking = subject[~np.isfinite(numbers)]
        raise ReaderError(f"{path}, column {values.name!r} has no number for {listed(lacking)}; leave their rows out")
    return numbers


def _of_classes(
    raw: pd.DataFrame, column: Mapping[str, str], target: Target, subject: pd.Series, path: Path
) -> pd.DataFrame:
    by_name = {plain_name(str(name)): str(name) for name in raw}
    table = pd.DataFrame(index=raw.index)
    for what, starts in OF_CLASSES.items():
        for name in target.classes:
            here = [by_name[key] for start in starts if (key := f"{start}_{plain_name(name)}") in by_name]
            table[f"{what}_{name}"] = _finite(raw[here[0]], subject, path) if here else np.nan
    complete = [
        what for what in OF_CLASSES if table[[f"{what}_{name}" for name in target.classes]].notna().all(axis=None)
    ]
    if not complete:
        columns = [f"probability_{name}" for name in target.classes]
        raise ReaderError(
            f"{path} needs a column for each class of {target.name}: {listed(columns, 20)}, or score_... It has "
            f"{listed(raw.columns, 20)}"
        )
    names = {what: [f"{what}_{name}" for name in target.classes] for what in OF_CLASSES}
    if "score" not in complete:
        table[names["score"]] = table[names["probability"]].to_numpy()
    table["predicted"] = table[names[complete[0]]].to_numpy().argmax(axis=1)
    if "predicted" in column and not is_empty(raw[column["predicted"]]).any():
        table["predicted"] = class_codes(raw[column["predicted"]], target, subject, path)
    if "label" in column:
        table["label"] = class_codes(raw[column["label"]], target, subject, path)
    return table


def class_codes(values: pd.Series, target: Target, subject: pd.Series, path: Path) -> pd.Series:
    """The place of each person's class: by its name, or as the file says it."""
    places = {plain_name(name): k for k, name in enumerate(target.classes)}
    codes = values.map(plain_name).map(places)
    numbers = pd.to_numeric(values, errors="coerce")
    if codes.isna().any() and numbers.isin(range(len(target.classes))).all():
        codes = numbers
    if codes.isna().any():
        raise ReaderError(
            f"{path}, column {values.name!r}: the class of {counted(int(codes.isna().sum()), 'person', 'people')} "
            f"({listed(subject[codes.isna()], 3)}) is none of {listed(target.classes, 20)}"
        )
    return codes.astype(int)
