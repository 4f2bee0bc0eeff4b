"""Tables that can be sorted, read aloud and taken away as CSV."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from markupsafe import Markup

from brainroam.report.glossary import MEANING
from brainroam.report.page import render

NOTHING = "\N{EN DASH}"
SENTENCE = 40  # characters; anything shorter is a name


@dataclass(frozen=True)
class Column:
    """One column: the key of its values, its heading, and how a value is shown.

    ``show`` may also take the whole row, by ``of_row``; the column is sorted by its value all the same.
    """

    key: str
    heading: str
    show: Callable[[Any], str] = str
    of_row: bool = False


def table(rows: pd.DataFrame, columns: Sequence[Column], name: str, caption: str) -> Markup:
    """A table with this caption; the first column heads the rows, and ``name`` is that of the CSV file.

    >>> frame = pd.DataFrame({"site": ["<b>"], "auc": [0.71234]})
    >>> "&lt;b&gt;" in table(frame, [Column("site", "Site"), Column("auc", "AUC", fixed(2))], "sites", "AUC by site")
    True
    """
    body = [[cell(row, column) for column in columns] for row in rows.to_dict("records")]
    looks = [_look(rows[column.key], [row[i][1] for row in body]) for i, column in enumerate(columns)]
    meanings = [MEANING.get(column.key, "") for column in columns]
    return render("table.html", columns=columns, looks=looks, body=body, name=name, caption=caption, meanings=meanings)


def fixed(digits: int, scale: float = 1.0) -> Callable[[float], str]:
    """How a number is shown.

    >>> fixed(1, 100)(0.7125)
    '71.2'
    """
    return lambda value: f"{scale * value:.{digits}f}"


def number(value: float, digits: int = 2) -> str:
    """A number in a sentence, or a dash where there is none.

    >>> number(0.7125), number(float("nan"))
    ('0.71', '–')
    """
    return NOTHING if math.isnan(value) else f"{value:.{digits}f}"


def p_value(value: float) -> str:
    """A p value as journals print it.

    >>> p_value(0.00012), p_value(0.04321)
    ('< 0.001', '0.043')
    """
    return "< 0.001" if value < 0.001 else f"{value:.2g}" if value < 0.1 else f"{value:.2f}"


def span(low: float, high: float, digits: int = 2) -> str:
    """An interval in words, or a dash where there is none.

    >>> span(0.581, 0.8)
    '0.58 to 0.80'
    """
    return NOTHING if math.isnan(low) or math.isnan(high) else f"{low:.{digits}f} to {high:.{digits}f}"


def interval(low: str, high: str, digits: int = 2) -> Callable[[dict[str, Any]], str]:
    """Show the interval that a row has under these two keys."""
    return lambda row: span(row[low], row[high], digits)


def _look(values: pd.Series, texts: list[str]) -> str:
    """The class of a column: numbers stand right, sentences get room."""
    if pd.api.types.is_numeric_dtype(values):
        return "number"
    return "prose" if max(map(len, texts), default=0) > SENTENCE else "word"


def cell(row: dict[str, Any], column: Column) -> tuple[str, str]:
    """The value to sort by and export, and the text to read: a dash where there is none."""
    value = row[column.key]
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "", NOTHING
    return str(value), column.show(row if column.of_row else value)
