"""``scores.csv`` and ``predictions.csv``: what the runs of a study say, one row per run and site, and one per scan.

``site`` is what was measured, ``fold`` the run's share of the people. The two are the same wherever one site (or
in-distribution fold) is held out at a time; a half of the sites or an institution holds several, a row each.

``person`` says whose scan it is, the ``subject`` itself where everybody has one; ``institution`` is that of the site,
empty where none is given. Metrics are of people: who has several scans counts once, with the mean of the scores.

Rows stand in a fixed order and numbers are written so that they read back exactly, so the same runs give the same bytes
whenever and in whatever order they were done. Text that a spreadsheet would take for a formula (beginning with
``= + - @``, a tab or a line end) is written behind an apostrophe, as is text that begins with one; `read_table` takes
it off again.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from brainroam.data.people import people_of
from brainroam.data.target import TWO_CLASSES, Target
from brainroam.data.target.sites_two import METRICS
from brainroam.evaluation.run_records import RunSpec
from brainroam.evaluation.splits import SEVERAL_SITES

KEY = ("method", "protocol", "site", "fold", "seed")
SCORES = (*KEY, *TWO_CLASSES.measured, "tuning", "configuration")
PERSON = ("subject", "person", "institution")
TEXT = dict.fromkeys(("method", "protocol", "site", "fold", "tuning", "configuration", *PERSON), str)


def columns_of(study: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns of both tables of a study, or of a run, by what it predicts.

    Of several classes ``label`` and ``predicted`` are their codes, in the order of the columns ``probability_<class>``.
    """
    target = Target.of_description(study.get("target"))
    return (*KEY, *target.measured, "tuning", "configuration"), (*KEY, *PERSON, *target.told)


def score_rows(spec: RunSpec, result: Mapping[str, Any]) -> list[tuple]:
    """The rows of a run in ``scores.csv``, by site."""
    chosen = json.dumps(result["configuration"], sort_keys=True)
    of_run = {**result, "tuning": spec.tuning, "configuration": chosen}
    names = columns_of(result)[0][len(KEY) :]
    rows = []
    for site, metrics in sorted(metrics_by_site(spec, result).items()):
        values = {**metrics, **of_run}
        rows.append((spec.name, spec.protocol, site, spec.fold, spec.seed, *(values[name] for name in names)))
    return rows


def prediction_rows(spec: RunSpec, result: Mapping[str, Any]) -> list[tuple]:
    """The rows of a run in ``predictions.csv``, by site and subject."""
    people = result["predictions"]
    n = len(people["subject"])
    values = {"site": [spec.fold] * n, "person": people["subject"], "institution": [""] * n, **people}
    if "predicted" not in people:
        values["predicted"] = [int(score >= result["threshold"]) for score in people["score"]]
    columns = [values[name] for name in columns_of(result)[1][len(KEY) :]]
    return sorted(
        (spec.name, spec.protocol, site, spec.fold, spec.seed, *row)
        for site, *row in zip(values["site"], *columns, strict=True)
    )


def people_metrics(scans: pd.DataFrame, target: Target, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics of held-out people of one run at one site by their rows of ``predictions.csv`` (`Target.at_site`)."""
    people = people_of(scans, ())
    return target.at_site(people if len(people) == len(scans) else target.decided(people), facts)


def others_mean(predictions: pd.DataFrame, key: Sequence[Any], target: Target) -> float:
    """The mean of the target of people outside a fold: the share of cases, or what a constant says of a number.

    ``key`` are method, protocol, seed and fold.
    """
    method, _, seed, fold = key
    runs = predictions[(predictions["method"] == method) & (predictions["seed"] == seed)]
    inside = set(runs["subject"][runs["fold"] == fold])
    others = runs[~runs["subject"].isin(inside)].drop_duplicates("subject")
    label = (others if len(others) else runs)["label"].to_numpy(dtype=float)
    return target.constant(label)


def metrics_by_site(spec: RunSpec, result: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The metrics of a run at each site it held out: the fold itself, or the sites of a half or an institution."""
    return result["metrics"] if spec.protocol in SEVERAL_SITES else {spec.fold: result["metrics"]}


def require_types(columns: Iterable[str], rows: Iterable[tuple]) -> None:
    """Raise a `TypeError` if a column of text holds something else, or another column no number and not None."""
    for row in rows:
        for name, value in zip(columns, row, strict=True):
            if not isinstance(value, str if name in TEXT else int | float | None):
                raise TypeError(f"{name} cannot be {value!r}")


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
