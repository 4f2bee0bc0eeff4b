"""SRPBS (DecNef/ATR): ``participants.tsv`` of the release, and series that users made from its images.

::

    SRPBS_OPEN/participants.tsv           participant_id site protocol diag age sex hand
    SRPBS_OPEN/MRI_protocols_rsMRI.tsv    one title line; one row per property, one column per protocol
    SRPBS_OPEN/timeseries/<participant_id>.*   or wherever ``template`` says

``diag`` is 0 for controls and the code of a disorder otherwise (2 = major depression). ``sex`` is 1 = male,
2 = female. The same hospital scanned with several protocols, which differ as sites do: the site is
``<site>-<protocol>`` and the hospital is kept as ``institution``; sites can be chosen by either name.
TR is written ``2.5`` or ``2,500`` and means seconds both times.
"""

from pathlib import Path

import pandas as pd

from brainroam.data.cohort import Cohort
from brainroam.data.readers.locate import USUAL_FILES, Files
from brainroam.data.readers.participants import Participants, Request
from brainroam.data.readers.participants_table import find_participants
from brainroam.data.readers.repeats import USUAL_REPEATS, Repeats, choose, rows_of_scans
from brainroam.data.readers.tables import column, nearest, read_table
from brainroam.data.readers.values import ONE_IS_MALE, ages, codes, labels, sexes
from brainroam.errors import UsageError

LOOKS_FOR = "participants.tsv with the columns site, protocol and diag (0 for controls, else 1 to 8)"
PROTOCOLS = "MRI_protocols_rsMRI.tsv"
DISORDERS = {
    "asd": "1",
    "mdd": "2",
    "ocd": "3",
    "schizophrenia": "4",
    "pain": "5",
    "stroke": "6",
    "bipolar": "7",
    "dysthymia": "8",
}
CODES = {"0", *DISORDERS.values()}


def recognises(path: Path) -> bool:
    """Whether the table of people has the columns only SRPBS has, and its codes of diagnoses."""
    table = nearest(path, ["participants.tsv"], levels=0)
    people = pd.DataFrame() if table is None else read_table(table)
    return {"site", "protocol", "diag"} <= set(people) and bool(codes(people["diag"]).isin(CODES).any())


def read(
    path: Path,
    request: Request,
    *,
    participants: str | Path | None = None,
    case: str = "mdd",
    files: Files = USUAL_FILES,
    repeats: Repeats = USUAL_REPEATS,
) -> Cohort:
    """Read SRPBS.

    ``participants`` is the table of people when it is not in the folder; ``case`` is the disorder, by name or by its
    code in ``diag``; controls are 0.
    """
    code = DISORDERS.get(str(case).lower(), str(case))
    if code not in DISORDERS.values():
        raise UsageError(f"case {case!r} is no disorder of SRPBS; those are {', '.join(DISORDERS)}")
    (table_path,) = find_participants(path, participants)
    raw = read_table(table_path)
    protocol = codes(column(raw, "protocol", table_path))
    table = pd.DataFrame(
        {
            "subject": column(raw, "participant_id", table_path),
            "site": (column(raw, "site", table_path) + "-" + protocol).where(raw["site"] != "", ""),
            "institution": raw["site"],
            **labels(column(raw, "diag", table_path), {"0": 0, code: 1}),
            "age": ages(column(raw, "age", table_path), table_path),
            "sex": sexes(column(raw, "sex", table_path), table_path, ONE_IS_MALE, "correct the table"),
            "tr": protocol.map(_repetition_times(table_path.parent)).astype(float),
            **request.asked_columns(raw),
        }
    )
    chosen = choose(files.find(path, set(table["subject"]), [table_path]), repeats)
    return files.cohort(Participants(rows_of_scans(table, chosen), request, table_path), chosen)


def _repetition_times(folder: Path) -> dict[str, float]:
    """TR in seconds by protocol; nothing when the release's table is not there."""
    path = folder / PROTOCOLS
    if not path.is_file():
        return {}
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8", errors="replace").splitlines()]
    by_name = {row[0].strip().strip('"').replace(" ", "").lower(): row[1:] for row in rows}
    times = pd.to_numeric(pd.Series(by_name.get("tr(s)", [])).str.strip(' "').str.replace(",", "."), errors="coerce")
    return dict(zip((name.strip(' "') for name in by_name.get("protocol#", [])), times, strict=False))
