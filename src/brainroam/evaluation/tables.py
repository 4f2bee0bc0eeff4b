"""``scores.csv`` and ``predictions.csv``: what the runs of a study say, one row per run and one per person.

Rows stand in a fixed order and numbers are written so that they read back exactly, so the same runs give the same bytes
whenever and in whatever order they were done. Text that a spreadsheet would take for a formula (beginning with
``= + - @``, a tab or a line end) is written behind an apostrophe, as is text that begins with one; `read_table` takes
it off again.
"""

import csv
import json
from collections.abc import Iterable, Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import pandas as pd

from brainroam.evaluation.metrics import METRICS
from brainroam.evaluation.runs import RunSpec

KEY = ("method", "protocol", "site", "seed")
SCORES = (*KEY, "n", "n_cases", *METRICS, "threshold", "budget", "configuration")
PREDICTIONS = (*KEY, "subject", "label", "score", "probability")
TEXT = dict.fromkeys(("method", "protocol", "site", "budget", "configuration", "subject"), str)
ACTIVE = frozenset("=+-@\t\r\n'")


def score_rows(spec: RunSpec, result: Mapping[str, Any]) -> list[tuple]:
    """The one row of a run in ``scores.csv``."""
    metrics = (result["metrics"][name] for name in ("n", "n_cases", *METRICS))
    chosen = json.dumps(result["configuration"], sort_keys=True)
    return [(spec.name, spec.protocol, spec.fold, spec.seed, *metrics, result["threshold"], spec.budget, chosen)]


def prediction_rows(spec: RunSpec, result: Mapping[str, Any]) -> list[tuple]:
    """The rows of a run in ``predictions.csv``, by subject."""
    columns = [result["predictions"][name] for name in PREDICTIONS[len(KEY) :]]
    return sorted((spec.name, spec.protocol, spec.fold, spec.seed, *row) for row in zip(*columns, strict=True))


def csv_lines(rows: Iterable[Iterable[Any]]) -> str:
    """Rows as CSV text.

    >>> print(csv_lines([("=1+1", "A, B", 0.1, None)]), end="")
    '=1+1,"A, B",0.1,
    """
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerows([[_harmless(cell) for cell in row] for row in rows])
    return text.getvalue()


def frame(columns: Iterable[str], rows: Iterable[tuple]) -> pd.DataFrame:
    """Rows as a table, numbers missing where nothing could be measured."""
    table = pd.DataFrame(list(rows), columns=list(columns))
    return table.astype({name: float for name in table if table[name].dtype == object and name not in TEXT})


def read_table(path: str | Path) -> pd.DataFrame:
    """Read ``scores.csv`` or ``predictions.csv`` with the names of sites and people as they were."""
    table = pd.read_csv(path, dtype=TEXT, keep_default_na=False, na_values={name: [""] for name in METRICS})
    for name in TEXT.keys() & table:
        table[name] = table[name].str.removeprefix("'")
    return table


def _harmless(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in ACTIVE and cell else cell
