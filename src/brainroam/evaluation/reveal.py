"""Compare a forecast (`brainroam.evaluation.forecast`) with the diagnoses, once they are opened.

A forecast that was changed, other people and another model are refused.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from brainroam.data.cohort import Cohort
from brainroam.data.loading import load_cohort
from brainroam.data.readers.participants_table import Columns, read_participants
from brainroam.data.readers.roles import USUAL
from brainroam.data.readers.tables import is_table, read_table
from brainroam.data.readers.values import fold, is_empty, numbers, one_spelling
from brainroam.data.target import TWO_CLASSES, Target
from brainroam.errors import DataError, counted, listed
from brainroam.evaluation.forecast import NAMES, Forecast, ForecastError, fitted_model, foretell, model_digest
from brainroam.evaluation.run_records import plain
from brainroam.utils.files import content_hash
from brainroam.utils.html import html_summary


@dataclass(frozen=True)
class Reveal:
    """What came of a forecast.

    Attributes
    ----------
    forecast : Forecast
    table : DataFrame
        That of the forecast with ``n_judged`` (people with a diagnosis), ``n_cases``, ``observed``, ``inside_80`` and
        ``inside_95``.
    labels : str
        Hash of the labels it was judged by.
    time : str
    notes : list of str
        People without a diagnosis, people of the labels whom the forecast is not about.
    """

    forecast: Forecast
    table: pd.DataFrame
    labels: str
    time: str
    notes: list[str]

    def _repr_html_(self) -> str:
        """For notebooks: what was expected beside what was observed."""
        return html_summary("Expected and observed", self.table, self.notes)

    @property
    def content(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return plain(
            {
                "kind": "reveal",
                "forecast": self.forecast.hash,
                "made": self.forecast.content["made"]["time"],
                "time": self.time,
                "labels": self.labels,
                "notes": self.notes,
                "table": self.table.astype(object).to_dict("records"),
            }
        )

    def sentences(self) -> Iterator[str]:
        """A sentence for each site, then notes."""
        order, alike = self.forecast.order, self.forecast.target.outlook.alike
        for row in self.table[self.table["measure"] == order].itertuples():
            unlike = "; the forecast said that its people are unlike those trained on"
            yield f"{row.site}: {_judge(row, alike)}{unlike * (row.site in self.forecast.unlike)}"
        others = self.table[(self.table["measure"] != order) & self.table["inside_95"].notna()]
        if len(others):
            outside = others[~others["inside_95"].astype(bool)]
            misses = [f"{NAMES[row.measure]} at {row.site} ({_gap(row, 95)})" for row in outside.itertuples()]
            rest = f"outside: {', '.join(misses)}" if misses else "none outside"
            yield f"{self.forecast.target.outlook.rest}, 95 % intervals: {rest}"
        yield from self.notes


def _judge(row: Any, alike: str) -> str:
    name = NAMES[row.measure]
    if not row.n_judged:
        return "nobody has a diagnosis"
    if not np.isfinite(row.observed):
        return f"{counted(row.n_judged, 'person', 'people')} {alike}, so there is no {name} to judge by"
    if not np.isfinite(row.low_95):
        return f"{name} {row.observed:.2f}; no {name} had been foretold"
    measured = f"{name} {row.observed:.2f}, foretold {row.expected:.2f} (95 %: {row.low_95:.2f} to {row.high_95:.2f})"
    if row.inside_80:
        return f"{measured}: inside the 80 % interval"
    if row.inside_95:
        return f"{measured}: inside the 95 % interval, outside that of 80 % ({_gap(row, 80)})"
    return f"{measured}: outside, {_gap(row, 95)}"


def _gap(row: Any, percent: int) -> str:
    low, high = getattr(row, f"low_{percent}"), getattr(row, f"high_{percent}")
    gap, side = (low - row.observed, "below") if row.observed < low else (row.observed - high, "above")
    return f"{gap:.2f} {side} it" if gap >= 0.005 else f"less than 0.01 {side} it"


def reveal(
    forecast: Forecast | str | Path,
    labels: Any,
    *,
    model: Any = None,
    hash: str | None = None,
    time: str | None = None,
    **options: Any,
) -> Reveal:
    """Judge a forecast by the diagnoses.

    Parameters
    ----------
    forecast : Forecast or the path of one
        Refused where it was changed after it was written.
    labels : Cohort, DataFrame, mapping, or path
        A cohort with labels, whose series must be those of the forecast; a table with ``subject`` and ``label`` (0, 1),
        a mapping of ids to labels; or the path of a table of people or of a study. Everybody of the forecast must be in
        it; a diagnosis may be unknown.
    model : optional
        Refused where it is not the model of the forecast; with a cohort, also where it foretells something else of it.
    hash : str, optional
        The hash that was committed before (its first digits are enough, eight at least); refused where it is not that
        of the forecast.
    time : str, optional
        By default now, in UTC.
    **options
        How a table of people is to be read: ``label_col``, ``case``, ``control`` and so on.
    """
    forecast = forecast if isinstance(forecast, Forecast) else Forecast.load(forecast)
    if hash is not None and not (len(hash.strip()) >= 8 and forecast.hash.startswith(hash.strip().lower())):
        raise ForecastError(f"the forecast has the hash {forecast.hash}, not {hash}: it is not the one committed")
    if model is not None:
        _require_model(forecast, model)
    people, diagnoses = forecast.people, labels_of(labels, forecast.target, **options)
    notes = _require_people(people, diagnoses)
    if model is not None and isinstance(labels, Cohort):
        _require_same_forecast(forecast, model, labels)
    people = people.assign(label=people["subject"].map(diagnoses.set_index("subject")["label"]))
    same = people.groupby(["site", "person"])["label"]
    people["label"] = people["label"].fillna(same.transform("first"))  # told of one scan, true of the others
    judged_of = same.count().gt(0).groupby("site").agg(["sum", "size"])
    if not judged_of["sum"].any():
        raise DataError("nobody of the forecast has a diagnosis in these labels; name the column (--option label_col=)")
    if (unknown := int((judged_of["size"] - judged_of["sum"]).sum())) > 0:
        notes.append(
            f"{unknown} of {judged_of['size'].sum()} people have no diagnosis and are not counted; the intervals are "
            "for all of them, and fewer scatter more"
        )
    time = time or datetime.now(UTC).isoformat(timespec="seconds")
    if time < forecast.content["made"]["time"]:
        notes.append("The labels were opened before the forecast was made, by the clocks of the computers")
    outlook, threshold = forecast.target.outlook, forecast.content["model"]["threshold"]
    share = (forecast.content["prevalence"] or {}).get("value")
    measured = pd.DataFrame(outlook.observed(people.dropna(subset="label"), threshold, share))
    notes += outlook.doubts(measured, judged_of["sum"], share)
    table = forecast.table.merge(measured, on=["site", "measure"], how="left")
    table.insert(2, "n_judged", table["site"].map(judged_of["sum"]))
    for percent in (80, 95):
        inside = table["observed"].between(table[f"low_{percent}"], table[f"high_{percent}"])
        judged = table[["observed", f"low_{percent}"]].notna().all(axis=1)
        table[f"inside_{percent}"] = inside.astype(object).where(judged, None)
    kind = forecast.target.label_type
    judged_by = content_hash(
        sorted([s, None if pd.isna(y) else kind(y)] for s, y in people[["subject", "label"]].values)
    )
    return Reveal(forecast, table, judged_by, time, notes)


def labels_of(labels: Any, target: Target = TWO_CLASSES, **options: Any) -> pd.DataFrame:
    """``subject``, ``label`` (NaN where unknown) and, of a cohort, ``digest`` of everybody.

    >>> labels_of({"01": 1, "02": 0})["label"].tolist()
    [1.0, 0.0]
    """
    if isinstance(labels, str | Path):
        labels = Path(labels).expanduser()
        if not (is_table(labels) and labels.is_file()):
            labels = load_cohort(labels, require_label=False, **options)
    if isinstance(labels, Cohort):
        target.require_same(labels.target)
        label = target.recoded(labels.table["label"], labels.target)
        return labels.table[["subject"]].assign(label=label, digest=labels.block_digests)
    of_table, of_values = (_cases_of, _codes) if target.is_two_classes else (_column_of, _encode)
    if isinstance(labels, Path):
        return of_table(labels, target, options)
    if isinstance(labels, Mapping | pd.Series):
        labels = {"subject": list(labels.keys()), "label": list(labels.values())}
    table = pd.DataFrame(labels)
    if not {"subject", "label"} <= set(table):
        raise DataError(f"labels need the columns subject and label; there are {listed(table.columns)}")
    return table.assign(subject=table["subject"].astype(str), label=of_values(table["label"], target))


def _codes(values: pd.Series, target: Target) -> pd.Series:
    """Labels of two classes, which have to be coded."""
    strange = set(values.dropna().unique()) - {0, 1}
    if strange:
        raise DataError(
            f"labels are 1 for cases, 0 for controls, or empty; there are {listed(values.dropna().unique())}: code "
            "them so"
        )
    return values.astype(float)


def _cases_of(path: Path, target: Target, options: Mapping[str, Any]) -> pd.DataFrame:
    """``subject`` and ``label`` of a table of people whose diagnoses their readers know."""
    unread = dict.fromkeys(("age_col", "sex_col", "mean_fd_col", "site_col"), "none")
    table = read_participants([path], Columns(**{**unread, **options}), require_label=False, site_known=True)
    if table["label"].isna().all():
        raise DataError(f"{path} has no diagnosis of anybody; name its column with --option label_col=NAME")
    return table[["subject", "label"]]


def _encode(values: pd.Series, target: Target) -> pd.Series:
    """Numbers, or the codes of classes and of steps by their names; NaN where empty."""
    text = one_spelling(values.astype(object).where(values.notna(), "").astype(str))
    if target.classes:
        allowed, codes = target.classes, text.map({name: float(k) for k, name in enumerate(target.classes)})
        strange = codes.isna() & ~is_empty(text)
    else:
        allowed, codes = ("numbers above 0",), numbers(text, target.name)
        strange = (codes <= 0) & (target.transform == "log")
    if strange.any():
        raise DataError(
            f"the forecast knows {listed(allowed)} of {target.name}, not {listed(sorted(set(text[strange])))}"
        )
    return codes


def _column_of(path: Path, target: Target, options: Mapping[str, Any]) -> pd.DataFrame:
    """``subject`` and ``label`` of a table with a column for the target."""
    table, column = read_table(path), options.get("label_col", target.name)
    column = next((str(name) for name in table if fold(str(name)) == fold(column)), column)
    if column not in table:
        raise DataError(
            f"{path} has no column {column!r}; name it with --option label_col=NAME: {listed(table.columns)}"
        )
    subject = next((name for name in table if str(name).lower() in USUAL["subject"]), table.columns[0])
    return pd.DataFrame({"subject": table[subject].astype(str), "label": _encode(table[column], target)})


def _require_people(people: pd.DataFrame, diagnoses: pd.DataFrame) -> list[str]:
    """Refuse labels that lack somebody, have somebody twice, or belong to other series; notes on the rest."""
    twice = diagnoses.loc[diagnoses["subject"].duplicated(), "subject"]
    if len(twice):
        raise DataError(f"the labels have more than one row of {listed(twice.unique())}; leave one of them")
    absent = sorted(set(people["subject"]) - set(diagnoses["subject"]))
    if absent:
        raise ForecastError(
            f"the forecast is about {len(people)} people, and {len(absent)} of them are not among the labels: "
            f"{listed(absent)}; give the labels of everybody (a diagnosis may be empty)"
        )
    if "digest" in diagnoses:
        here = people.set_index("subject")["digest"]
        other = diagnoses[diagnoses["digest"] != diagnoses["subject"].map(here)]["subject"]
        other = sorted(set(other) & set(people["subject"]))
        if other:
            raise ForecastError(
                f"{counted(len(other), 'person has', 'people have')} other series than the forecast was made from: "
                f"{listed(other)}; it was about those, so give the labels as a table or the data as they were"
            )
    more = len(set(diagnoses["subject"]) - set(people["subject"]))
    return [f"{counted(more, 'person', 'people')} with a label are not in the forecast and are not counted"] * bool(
        more
    )


def _require_model(forecast: Forecast, model: Any) -> None:
    """Refuse a model that the forecast was not made with."""
    method, _ = fitted_model(model, None)
    if model_digest(method) != forecast.content["model"]["digest"]:
        raise ForecastError("the forecast was made with another model than this one; give the one it was made with")


def _require_same_forecast(forecast: Forecast, model: Any, cohort: Cohort) -> None:
    """Refuse scores and intervals that the model does not give for these scans; those widened by a version are left."""
    subjects = set(forecast.people["subject"])
    of_forecast = cohort.subset(np.flatnonzero(cohort.table["subject"].isin(subjects)))
    share = forecast.content["prevalence"] or {"stated": False}
    again = foretell(model, of_forecast, prevalence=share["value"] if share["stated"] else None)
    pairs = [(forecast.people, again.people)]
    pairs += [(forecast.table, again.table)] if forecast.content["pipelines"] is None else []
    for written, computed in pairs:
        values, now = (table.select_dtypes(float).to_numpy() for table in (written, computed))
        if values.shape != now.shape or not np.allclose(values, now, rtol=1e-5, atol=1e-6, equal_nan=True):
            raise ForecastError(
                "the model does not foretell this of these scans: scores or intervals of the forecast are other ones "
                f"(it was made by {forecast.content['made']['code']})"
            )
