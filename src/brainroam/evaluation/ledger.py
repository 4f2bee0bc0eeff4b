"""The ledger of forecasts: what was foretold, what came of it, and whether the intervals deserve their names.

``ledger.csv`` has one row per forecast, site and measure when a forecast is made (``event`` is ``foretold``), and one
more when it is revealed. So a forecast that is never revealed shows, as does one revealed twice. What a model says of
the same people counts once, the first time it can be judged: foretold again, it was known. A site whose diagnoses were
all missing when its forecast was revealed is still to be revealed. How often observed values lie
inside is held against the level by a binomial test; sites of one forecast share a model, so with few forecasts the test
is too sure.

Rows hang together: ``chain`` is the SHA-256 of a row and of the chain of the row before it, so that a row that was
changed, moved or taken out shows. A forecast holds the last chain of the ledger when it was made (``after``): whoever
registers its hash registers the ledger up to there, and rows cut off its end show when the forecast is revealed.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from scipy.stats import binomtest

from brainroam.errors import counted, listed
from brainroam.evaluation.forecast import LIMITS, NAMES, Forecast, ForecastError, people_digest
from brainroam.evaluation.reveal import Reveal
from brainroam.utils.files import clear_parts, content_hash, one_at_a_time, write_csv

COLUMNS = (
    *("event", "time", "forecast", "people", "model", "method", "target", "site", "n", "n_judged", "n_cases"),
    *("measure", "expected", *LIMITS, "observed", "labels", "chain"),
)
TEXT = ("event", "time", "forecast", "people", "model", "method", "target", "site", "measure", "labels", "chain")
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
    return column.map(lambda text: float(text or "nan")).astype(float)  # exactly; pandas 2 rounds the last digit


def end_of(path: str | Path) -> str:
    """The chain of the last row, nothing where there is none: what a forecast states as ``after``."""
    return "".join(read_ledger(path)["chain"].tail(1))


def record_forecast(path: str | Path, forecast: Forecast) -> list[str]:
    """Write a new forecast into the ledger; says how earlier ones did, and whether these people were in one."""
    ledger, content = read_ledger(path), forecast.content
    lines = [*summarise(ledger), *_clock(ledger, content["made"]["time"])]
    people, mine = _people(forecast), ledger["model"] == content["model"]["digest"]
    same = ledger["people"].isin(people.values())
    for rows, who in (
        (ledger[same & mine], "These people of {} were foretold before by this model"),
        (ledger[same & ~mine], "These people of {} were foretold before by another model"),
        (ledger[~same & ledger["site"].isin(people)], "Other people of {} were foretold before"),
    ):
        if len(rows):
            first = f"{rows['time'].iloc[0]}, {rows['forecast'].iloc[0][:12]}"
            lines.append(f"{who.format(listed(rows['site'].unique()))} ({first})")
    _append(path, _rows(forecast, "foretold", content["made"]["time"], forecast.table))
    return lines


def record_reveal(path: str | Path, reveal: Reveal) -> list[str]:
    """Write what came of a forecast into the ledger; says whether it was registered there, and revealed before.

    By the same labels it is written once: a command that was stopped may be given again.
    """
    ledger, forecast = read_ledger(path), reveal.forecast
    mine = ledger[ledger["forecast"] == forecast.hash]
    lines = _clock(ledger, reveal.time)
    if not (mine["event"] == "foretold").any():
        twin = ledger[ledger["people"].isin(_people(forecast).values()) & (ledger["forecast"] != forecast.hash)]
        twin_words = f"; it knows {twin['forecast'].iloc[0][:12]} about the same people" if len(twin) else ""
        lines.append(f"The ledger did not hold this forecast before it was revealed{twin_words}")
    if forecast.content["after"] not in {"", *ledger["chain"]}:
        lines.append("The ledger lacks entries that it held when this forecast was made")
    before = mine[mine["event"] == "revealed"]
    if len(before):
        other = ", then by other labels" if (before["labels"] != reveal.labels).any() else ""
        lines.append(f"This forecast was revealed before ({before['time'].iloc[0]}{other}): the first time counts")
    if not (before["labels"] == reveal.labels).any():
        table = reveal.table.assign(labels=reveal.labels)
        ledger = _append(path, _rows(forecast, "revealed", reveal.time, table))
    return [*lines, *summarise(ledger)]


def _clock(ledger: pd.DataFrame, time: str) -> list[str]:
    """What is to be said where the ledger holds a later time than now."""
    latest = ledger["time"].max() if len(ledger) else ""
    return [f"The clock says {time}, and the ledger holds an entry of {latest}: one of them is wrong"] * (latest > time)


def changed_line(ledger: pd.DataFrame) -> int | None:
    """The first line of the file that does not follow from the one before it, the header being the first."""
    before = ""
    for line, row in enumerate(ledger.to_dict("records"), start=2):
        if row["chain"] != _chain(before, row):
            return line
        before = row["chain"]
    return None


def _chain(before: str, row: dict[str, Any]) -> str:
    return content_hash([before, *(None if pd.isna(row[name]) else row[name] for name in COLUMNS[:-1])])


def revealed(ledger: pd.DataFrame) -> pd.DataFrame:
    """The rows that count: each model, people of a site and measure once, the first time they could be judged."""
    rows = ledger[ledger["event"] == "revealed"].dropna(subset=["observed", "low_95"])
    rows = rows.drop_duplicates(["model", "people", "site", "measure"])
    inside = {f"inside_{p}": rows["observed"].between(rows[f"low_{p}"], rows[f"high_{p}"]) for p in (80, 95)}
    return rows.assign(**inside)


def waiting(ledger: pd.DataFrame) -> pd.DataFrame:
    """The sites of which an order was foretold and nobody's diagnosis revealed, one row each."""
    foretold = ledger[(ledger["event"] == "foretold") & ledger["measure"].isin(ORDER)]
    judged = ledger[(ledger["event"] == "revealed") & (ledger["n_judged"] > 0)]
    known = pd.MultiIndex.from_frame(judged[["forecast", "site"]])
    return foretold[~pd.MultiIndex.from_frame(foretold[["forecast", "site"]]).isin(known)]


def summarise(ledger: pd.DataFrame) -> Iterator[str]:
    """How forecasts of the order of people did, by kind of target, and how many were never revealed."""
    rows = revealed(ledger)
    for (target, measure), here in rows[rows["measure"].isin(ORDER)].groupby(["target", "measure"], sort=False):
        n, inside = len(here), {p: int(here[f"inside_{p}"].sum()) for p in (80, 95)}
        width, off = (here["high_95"] - here["low_95"]).mean(), (here["observed"] - here["expected"]).mean()
        yield (
            f"Forecasts of the {NAMES.get(measure, measure)} ({target}) so far: {inside[95]} of {n} inside the 95 % "
            f"interval, {inside[80]} inside that of 80 %; mean width {width:.2f}; observed minus expected "
            f"{round(off, 2) + 0:+.2f}{boldness(inside[80], n)}"
        )
    if (line := changed_line(ledger)) is not None:
        yield f"The ledger was changed by hand: line {line} is not what was written after the line before it"
    sites = waiting(ledger)
    begun = sites["forecast"].isin(ledger.loc[ledger["event"] == "revealed", "forecast"])
    if n := sites.loc[~begun, "forecast"].nunique():
        yield f"{counted(n, 'forecast has', 'forecasts have')} not been revealed"
    if begun.any():
        have = counted(int(begun.sum()), "site of revealed forecasts has", "sites of revealed forecasts have")
        yield f"{have} nobody with a diagnosis yet: {listed(sites.loc[begun, 'site'].unique())}"


def boldness(inside: int, n: int) -> str:
    """Whether intervals of 80 % are too narrow or too wide, by a two-sided binomial test at 5 %.

    >>> boldness(8, 10), boldness(3, 10), boldness(40, 40)
    ('; as promised, within chance', '; too bold: intervals are too narrow', '; too shy: intervals are too wide')
    """
    if n < LEAST:
        return ""
    if binomtest(inside, n, 0.8).pvalue >= 0.05:
        return "; as promised, within chance"
    return "; too bold: intervals are too narrow" if inside < 0.8 * n else "; too shy: intervals are too wide"


def _rows(forecast: Forecast, event: str, time: str, table: pd.DataFrame) -> pd.DataFrame:
    content = forecast.content
    facts = {"event": event, "time": time, "forecast": forecast.hash}
    facts |= {"model": content["model"]["digest"], "method": content["model"]["method"], "target": content["target"]}
    return table.assign(**facts, people=table["site"].map(_people(forecast))).reindex(columns=list(COLUMNS))


def _people(forecast: Forecast) -> dict[str, str]:
    """The digest of each site's people."""
    by_site = forecast.people.groupby("site")
    return {str(site): people_digest(here["subject"], here["digest"]) for site, here in by_site}


def _append(path: str | Path, rows: pd.DataFrame) -> pd.DataFrame:
    """Write the ledger with further rows, each with its chain; two commands at once write one after the other."""
    with one_at_a_time(Path(path)):
        clear_parts(Path(path).parent, of=Path(path).name)
        ledger = read_ledger(path)
        before, chained = "".join(ledger["chain"].tail(1)), []
        for row in rows.drop(columns="chain").to_dict("records"):
            row = {name: _text(value) if name in TEXT else float(value) for name, value in row.items()}
            before = _chain(before, row)
            chained.append({**row, "chain": before})
        parts = [part.astype(object) for part in (ledger, pd.DataFrame(chained)) if len(part)]
        whole = pd.concat(parts, ignore_index=True)
        write_csv(path, whole.where(whole.notna(), None))
        return read_ledger(path)


def _text(value: Any) -> str:
    return "" if pd.isna(value) else str(value)
