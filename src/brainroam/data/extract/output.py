"""Output: a BIDS derivative that `brainroam init` reads, with a record of how each file was made.

::

    out/dataset_description.json
    out/participants.tsv                          the table of people that was found, with mean_fd
    out/runs.tsv                                  per run: volumes, TR, mean FD, missing regions, or why it failed
    out/atlas-<seg>_dseg.tsv                      index, name, x, y, z, network of the regions
    out/sub-01/[ses-1/]func/<run>_seg-<seg>_stat-mean_timeseries.tsv      a column per region, n/a where missing
    out/sub-01/[ses-1/]func/<run>_seg-<seg>_stat-mean_timeseries.json     the record; written last
    out/sub-01/[ses-1/]func/<run>_seg-<seg>_stat-coverage_bold.tsv        share of each region inside the brain
"""

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

from brainroam.data.extract.parcellation import Parcellation
from brainroam.data.extract.runs import BoldRun
from brainroam.data.extract.settings import MADE_BY, Settings
from brainroam.data.extract.signals import Extracted
from brainroam.data.names import unpadded
from brainroam.data.readers.participants_table import PATTERNS
from brainroam.data.readers.tables import nearest, read_table
from brainroam.errors import ReaderError
from brainroam.utils.files import content_hash, write_text

PACKAGES = ("brainroam", "nilearn", "nibabel", "numpy", "scipy")


def paths(run: BoldRun, out: Path, seg: str) -> tuple[Path, Path, Path]:
    """Where the series of a run, its record and its coverage are written."""
    below = 3 if "_ses-" in run.stem else 2  # sub-01/ses-1/func or sub-01/func
    folder = out.joinpath(*run.bold.parent.parts[-below:])
    stem = f"{run.stem}_seg-{seg}"
    series = folder / f"{stem}_stat-mean_timeseries.tsv"
    return series, series.with_suffix(".json"), folder / f"{stem}_stat-coverage_bold.tsv"


def asked_for(run: BoldRun, parcellation: Parcellation, settings: Settings) -> str:
    """A hash of everything a result depends on: the image, the regions and the settings."""
    files = [run.bold, *([run.mask] if run.mask else []), *([] if settings.confounds == "none" else [run.confounds])]
    stamps = [[file.name, file.stat().st_size, file.stat().st_mtime_ns] for file in files]
    regions = parcellation.table.to_csv(index=False)
    return content_hash([stamps, regions, parcellation.digest, settings.described()])


def record_of(run: BoldRun, out: Path, seg: str, asked: str) -> dict[str, Any] | None:
    """The record of a run that was finished before with the very same input and settings; None otherwise."""
    series, record, _ = paths(run, out, seg)
    try:
        content = json.loads(record.read_text(encoding="utf-8"))
        return content if series.is_file() and content["AskedFor"] == asked else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_run(run: BoldRun, extracted: Extracted, out: Path, seg: str, settings: Settings, asked: str) -> dict:
    """Write one run; the record comes last, so that its presence means all of it is there."""
    series, record, coverage = paths(run, out, seg)
    write_text(series, _tsv(extracted.series))
    write_text(coverage, _tsv(extracted.coverage.to_frame().T))
    content = {
        **extracted.facts,
        "Sources": [str(run.bold)],
        "Settings": settings.described(),
        "AskedFor": asked,
        "Versions": {name: version(name) for name in PACKAGES},
    }
    write_text(record, json.dumps(content, indent=2, allow_nan=False) + "\n")
    return content


def write_description(out: Path, parcellation: Parcellation, settings: Settings, source: Path) -> None:
    """The dataset's own record, and the table of regions."""
    made_by = {
        "Name": MADE_BY,
        "Version": version("brainroam"),
        "Description": settings.in_words(),
        "Settings": settings.described(),
    }
    content = {
        "Name": f"Regional series of {parcellation.name}",
        "BIDSVersion": "1.10.0",
        "DatasetType": "derivative",
        "GeneratedBy": [made_by],
        "SourceDatasets": [{"URL": str(source)}],
    }
    write_text(out / "dataset_description.json", json.dumps(content, indent=2) + "\n")
    write_text(out / f"atlas-{parcellation.name}_dseg.tsv", _tsv(parcellation.table))


def write_people(out: Path, source: Path, given: Path | None, runs: pd.DataFrame) -> Path | None:
    """Write ``participants.tsv`` with mean FD, and return the table it was made from, if there is one.

    Mean FD is over all runs of a person, weighted by their volumes.
    """
    done = runs[runs["mean_fd"].notna()]
    moved = (done["mean_fd"] * done["volumes"]).groupby(done["participant_id"]).sum()
    mean_fd = moved / done.groupby("participant_id")["volumes"].sum()
    path = given or nearest(source, PATTERNS, levels=3)
    if path is None:
        people = pd.DataFrame({"participant_id": sorted(runs["participant_id"].unique())})
        ids = people["participant_id"]
    else:
        people = read_table(path)
        by_id = {unpadded(subject): subject for subject in runs["participant_id"]}
        matched = {name: people[name].map(lambda value: by_id.get(unpadded(value))) for name in people}
        best = max(matched, key=lambda name: matched[name].notna().sum())
        ids = matched[best]
        if not ids.notna().any():
            raise ReaderError(f"{path} names nobody of whom there are volumes; give the table with --table")
    people = people.assign(mean_fd=ids.map(mean_fd).round(5))
    write_text(out / "participants.tsv", _tsv(people))
    return path


def _tsv(table: pd.DataFrame) -> str:
    return table.to_csv(sep="\t", index=False, na_rep="n/a", float_format="%.8g", lineterminator="\n")
