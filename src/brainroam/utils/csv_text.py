"""CSV text that no spreadsheet executes.

Text that a spreadsheet would take for a formula (beginning with ``= + - @``, a tab or a line end) is written behind an
apostrophe, as is text that begins with one. Numbers are written so that they read back exactly.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from brainroam.utils.files import write_text

ACTIVE = frozenset("=+-@\t\r\n'")
QUOTED = frozenset(',"\r\n')


def csv_lines(rows: Iterable[Iterable[Any]]) -> str:
    """Rows as CSV text.

    >>> print(csv_lines([("=1+1", "A, B", 0.1, None)]), end="")
    '=1+1,"A, B",0.1,
    """
    return "".join(",".join(map(_cell, row)) + "\n" for row in rows)


def write_csv(path: str | Path, table: pd.DataFrame) -> Path:
    """Write a table with its header, and without its index."""
    return write_text(path, csv_lines([table.columns, *table.itertuples(index=False)]))


def inactive(text: str) -> str:
    """Text that no spreadsheet takes for a formula.

    >>> inactive("=1+1"), inactive("S01")
    ("'=1+1", 'S01')
    """
    return f"'{text}" if text[:1] in ACTIVE else text


def _cell(value: Any) -> str:
    """One cell; Python's own csv module leaves a carriage return unquoted before 3.13."""
    text = "" if value is None else inactive(value) if isinstance(value, str) else str(value)
    return '"' + text.replace('"', '""') + '"' if QUOTED & set(text) else text
