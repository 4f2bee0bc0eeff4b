"""Extract regional series from the volumes of a dataset, run by run; an interrupted extraction resumes."""

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from brainroam.data.extract.output import asked_for, paths, record_of, write_description, write_people, write_run
from brainroam.data.extract.parcellation import Parcellation
from brainroam.data.extract.runs import BoldRun
from brainroam.data.extract.settings import Settings
from brainroam.data.extract.signals import extract_run
from brainroam.errors import BrainroamError, listed
from brainroam.execution import engine as engines
from brainroam.execution.progress import View, show_progress
from brainroam.utils.files import clear_parts, write_text


@dataclass(frozen=True)
class Job:
    """What every run needs to know."""

    out: Path
    parcellation: Parcellation
    settings: Settings


@dataclass(frozen=True)
class Extraction:
    """What was done.

    Attributes
    ----------
    runs : DataFrame
        One row per run, as in ``runs.tsv``; ``error`` says why a run failed.
    n_before : int
        Runs that were finished by an earlier call.
    people : Path or None
        The table of people that was found.
    """

    runs: pd.DataFrame
    n_before: int
    people: Path | None


def extract(
    runs: Sequence[BoldRun],
    source: Path,
    out: Path,
    parcellation: Parcellation,
    settings: Settings,
    people: Path | None = None,
    jobs: int = 1,
    progress: bool | View = False,
) -> Extraction:
    """Extract every run that is not there yet, and write the tables of runs and people.

    A run that fails does not stop the others; it is written down and tried again by the next call.
    """
    # What a command that was killed had not completed.
    clear_parts(out, *{paths(run, out, parcellation.name)[0].parent for run in runs})
    write_description(out, parcellation, settings, source)
    job, rows, todo = Job(out, parcellation, settings), {}, []
    for run in runs:
        try:
            record = record_of(run, out, parcellation.name, asked_for(run, parcellation, settings))
        except BrainroamError as error:
            rows[run.bold] = _row(run, {}, str(error))
            continue
        if record is None:
            todo.append(run)
        else:
            rows[run.bold] = _row(run, record)
    n_before = len(rows) - sum(row["error"] != "" for row in rows.values())
    with (
        closing(engines.map(_one, todo, job, jobs)) as outcomes,
        show_progress(len(todo), progress) as advance,
    ):
        for run, outcome in outcomes:
            if isinstance(outcome, engines.Failure):
                rows[run.bold] = _row(run, {}, outcome.error)
                advance(f"{run.stem}: failed, {outcome.error}")
            else:
                rows[run.bold] = _row(run, outcome)
                advance(f"{run.stem}: {_news(outcome, parcellation)}")
    table = pd.DataFrame([rows[run.bold] for run in runs])
    write_text(out / "runs.tsv", table.to_csv(sep="\t", index=False, na_rep="n/a", lineterminator="\n"))
    if (table["error"] != "").all():
        raise BrainroamError(f"no run could be extracted: {listed(table['error'].unique(), limit=3)}")
    written = write_people(out, source, people, table[table["error"] == ""])
    return Extraction(table, n_before, written)


def _one(job: Job, run: BoldRun) -> dict[str, Any]:
    """Extract and write one run; in a worker process of its own when there are several jobs."""
    start = time.perf_counter()
    asked = asked_for(run, job.parcellation, job.settings)
    extracted = extract_run(run, job.parcellation, job.settings)
    record = write_run(run, extracted, job.out, job.parcellation.name, job.settings, asked)
    return {**record, "seconds": time.perf_counter() - start}


def _row(run: BoldRun, record: dict[str, Any], error: str = "") -> dict[str, Any]:
    return {
        "participant_id": run.subject,
        "run": run.stem,
        "volumes": record.get("Volumes"),
        "volumes_kept": record.get("VolumesKept"),
        "tr": record.get("RepetitionTime"),
        "mean_fd": record.get("MeanFramewiseDisplacement"),
        "missing_regions": len(record["MissingRegions"]) if record else None,
        "error": error,
    }


def _news(record: dict[str, Any], parcellation: Parcellation) -> str:
    seen = len(parcellation.table) - len(record["MissingRegions"])
    moved = record["MeanFramewiseDisplacement"]
    return (
        f"{record['VolumesKept']} of {record['Volumes']} volumes, {seen} of {len(parcellation.table)} regions, "
        f"mean FD {'unknown' if moved is None else f'{moved:.2f} mm'}, {record['seconds']:.1f} s"
    )
