"""The ledger of forecasts: what was foretold, what came of it, and whether the intervals deserve their names.

``ledger.csv`` has one row per forecast, site and measure when a forecast is made (``event`` is ``foretold``), and one
more when it is revealed. So a forecast that is never revealed shows, as does one revealed twice, of which the first
time counts. How often observed values lie inside is held against the level by a binomial test; sites of one forecast
share a model, so with few forecasts the test is too sure.
"""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from scipy.stats import binomtest

from brainroam.errors import counted
from brainroam.evaluation.forecast import LIMITS, NAMES, Forecast, ForecastError
from brainroam.evaluation.reveal import Reveal
from brainroam.utils.files import write_csv

COLUMNS = (
    *("event", "time", "forecast", "people", "model", "method", "target", "site", "n", "n_cases", "measure"),
    *("expected", *LIMITS, "observed", "labels"),
)
TEXT = ("event", "time", "forecast", "people", "model", "method", "target", "site", "measure", "labels")
ORDER = ("auc", "r")
LEAST = 5  # revealed forecasts of a measure below which nothing is said of bold or shy


def read_ledger(path: str | Path) -> pd.DataFrame:
    """The rows of a ledger; none where there is no file."""
    path = Path(path)
    if not path.exists():
        return pd.DataFrame(columns=list(COLUMNS))
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
        table = table.apply(lambda column: column.str.removeprefix("'") if column.name in TEXT else _numbers(column))
    except (OSError, ValueError) as error:
        raise ForecastError(f"{path} cannot be read as a ledger: {error}") from error
    absent = [name for name in COLUMNS if name not in table]
    if absent:
        raise ForecastError(f"{path} is no ledger of forecasts: it has no column {absent[0]}; choose another name")
    return table[list(COLUMNS)]


def _numbers(column: pd.Series) -> pd.Series:
    return pd.to_numeric(column.where(column != "")).astype(float)


def record_forecast(path: str | Path, forecast: Forecast) -> list[str]:
    """Write a new forecast into the ledger; says how earlier ones did, and whether these people were in one."""
    ledger, content = read_ledger(path), forecast.content
    lines = list(summarise(ledger))
    same = ledger[(ledger["people"] == content["people"]) & (ledger["model"] == content["model"]["digest"])]
    if len(same):
        lines.append(
            f"These people were foretold before by this model ({same['time'].iloc[0]}, {same['forecast'].iloc[0][:12]})"
        )
    _append(path, ledger, _rows(forecast, "foretold", content["made"]["time"], forecast.table))
    return lines


def record_reveal(path: str | Path, found: Reveal) -> list[str]:
    """Write what came of a forecast into the ledger; says whether it was registered there, and revealed before."""
    ledger, forecast = read_ledger(path), found.forecast
    mine = ledger[ledger["forecast"] == forecast.hash]
    lines = []
    if len(ledger) and mine.empty:
        twin = ledger[ledger["people"] == forecast.content["people"]]
        twin_words = f"; it knows {twin['forecast'].iloc[0][:12]} about the same people" if len(twin) else ""
        lines.append(f"The ledger did not hold this forecast before it was revealed{twin_words}")
    before = mine[mine["event"] == "revealed"]
    if len(before):
        other = ", then by other labels" if (before["labels"] != found.labels).any() else ""
        lines.append(f"This forecast was revealed before ({before['time'].iloc[0]}{other}): the first time counts")
    table = found.table.assign(labels=found.labels)
    ledger = _append(path, ledger, _rows(forecast, "revealed", found.time, table))
    return [*lines, *summarise(ledger)]


def revealed(ledger: pd.DataFrame) -> pd.DataFrame:
    """The rows that count: each forecast, site and measure once, the first time it was revealed."""
    rows = ledger[ledger["event"] == "revealed"].drop_duplicates(["forecast", "site", "measure"])
    rows = rows.dropna(subset=["observed", "low_95"])
    inside = {f"inside_{p}": rows["observed"].between(rows[f"low_{p}"], rows[f"high_{p}"]) for p in (80, 95)}
    return rows.assign(**inside)


def summarise(ledger: pd.DataFrame) -> Iterator[str]:
    """How forecasts of the order of people did, by kind of target, and how many were never revealed."""
    rows = revealed(ledger)
    for (target, measure), here in rows[rows["measure"].isin(ORDER)].groupby(["target", "measure"], sort=False):
        n, inside = len(here), {p: int(here[f"inside_{p}"].sum()) for p in (80, 95)}
        width, off = (here["high_95"] - here["low_95"]).mean(), (here["observed"] - here["expected"]).mean()
        yield (
            f"Forecasts of the {NAMES.get(measure, measure)} ({target}) so far: {inside[95]} of {n} inside the 95 % "
            f"interval, {inside[80]} inside that of 80 %; mean width {width:.2f}; observed minus expected {off:+.2f}"
            f"{boldness(inside[80], n)}"
        )
    made = set(ledger.loc[ledger["event"] == "foretold", "forecast"])
    open_ones = made - set(ledger.loc[ledger["event"] == "revealed", "forecast"])
    if open_ones:
        yield f"{counted(len(open_ones), 'forecast has', 'forecasts have')} not been revealed"


def boldness(inside: int, n: int) -> str:
    """Whether intervals of 80 % are too narrow or too wide, by a two-sided binomial test at 5 %.

    >>> boldness(8, 10), boldness(3, 10), boldness(40, 40)
    ('; as promised', '; too bold: intervals are too narrow', '; too shy: intervals are wider than they need be')
    """
    if n < LEAST:
        return ""
    if binomtest(inside, n, 0.8).pvalue >= 0.05:
        return "; as promised"
    return (
        "; too bold: intervals are too narrow"
        if inside < 0.8 * n
        else "; too shy: intervals are wider than they need be"
    )


def _rows(forecast: Forecast, event: str, time: str, table: pd.DataFrame) -> pd.DataFrame:
    content = forecast.content
    facts = {"event": event, "time": time, "forecast": forecast.hash, "people": content["people"]}
    facts |= {"model": content["model"]["digest"], "method": content["model"]["method"], "target": content["target"]}
    return table.assign(**facts).reindex(columns=list(COLUMNS))


def _append(path: str | Path, ledger: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    parts = [part for part in (ledger, rows) if len(part)]
    whole = pd.concat([part.astype(object) for part in parts], ignore_index=True)
    write_csv(path, whole.where(whole.notna(), None))
    return read_ledger(path)
