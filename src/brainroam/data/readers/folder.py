"""A plain folder: one series file per person and a table of people.

::

    study/participants.tsv                 participant_id, site, diagnosis, age, sex (other names: say which)
    study/timeseries/<participant_id>.npy  or .csv .tsv .txt .1D .mat .ptseries.nii, also side by side

Series are time x regions. The files may stand elsewhere (``template``), and so may the table (``participants``). People
who are only to be predicted need no table: their ids are the names of the files.
"""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from brainroam.data.cohort import Cohort
from brainroam.data.readers.locate import USUAL, USUAL_FILES, Files, files_below
from brainroam.data.readers.participants import Participants, Request
from brainroam.data.readers.participants_table import (
    PATTERNS,
    UNKNOWN_SITE,
    USUAL_COLUMNS,
    Columns,
    find_participants,
    read_participants,
)
from brainroam.data.readers.repeats import (
    USUAL_REPEATS,
    Repeats,
    at_several_sites,
    choose,
    named_with_site,
    refuse_numbered_by_site,
    rows_of_scans,
)
from brainroam.data.readers.series import suffix_of
from brainroam.data.readers.tables import begins_like_people, is_table, nearest
from brainroam.errors import ReaderError, in_shell

FEW = 5  # files of text that are looked into: more of them are series
LOOKS_FOR = f"participants.tsv beside series files ({' or '.join(USUAL[:2])})"


def recognises(path: Path) -> bool:
    """Whether a table of people stands beside files that may be series."""
    table = nearest(path, PATTERNS, levels=0)
    folders = [path / "timeseries", path]
    return table is not None and any(
        suffix_of(file) and file != table for folder in folders if folder.is_dir() for file in folder.iterdir()
    )


def read(
    path: Path,
    request: Request,
    *,
    participants: str | Path | Sequence[str] | None = None,
    columns: Columns = USUAL_COLUMNS,
    files: Files = USUAL_FILES,
    repeats: Repeats = USUAL_REPEATS,
) -> Cohort:
    """Read a plain folder.

    ``participants`` is the table of people when it is not in the folder, or several tables to be joined by their ids.
    """
    if participants is None and not request.require_label and nearest(path, PATTERNS, levels=0) is None:
        table, sources = _people_without_a_table(path, files), [path]
    else:
        sources = find_participants(path, participants)
        table = read_participants(sources, columns, request.require_label, files.tells_site, request.target)
    if not files.tells_site:
        refuse_numbered_by_site(table, sources[0])
    scans = files.find(path, set(table["subject"]), [source for source in sources if source.is_file()])
    if files.tells_site and at_several_sites(table).any():
        table, scans = named_with_site(table, scans)
    elif files.tells_site:
        table["site"] = [next((scan.site for scan in scans.get(name, ())), "") for name in table["subject"]]
    chosen = choose(scans, repeats)
    return files.cohort(Participants(rows_of_scans(table, chosen), request, sources[0]), chosen)


def _people_without_a_table(path: Path, files: Files) -> pd.DataFrame:
    """Everybody who has a file of the usual name, with nothing known about them."""
    if files.template is not None:
        raise ReaderError(f"no participants.tsv in {path}; a template needs the ids of a table (participants)")
    places = [path / "timeseries", path]
    present = [file for place in places for file in files_below(place, 0) if suffix_of(file)]
    texts = [file for file in present if is_table(file)]
    tables = [file for file in texts if begins_like_people(file)] if len(texts) <= FEW else []
    if tables:
        raise ReaderError(
            f"{tables[0]} looks like a table of people, not like a series; write a study file first: "
            f"brainroam init {in_shell(path)} --out new.yaml, and give new.yaml instead of the folder"
        )
    names = [file.name for file in present]
    ids = list(dict.fromkeys(name.split("_")[0] if name.startswith("sub-") else name.split(".")[0] for name in names))
    return pd.DataFrame({"subject": ids, "site": UNKNOWN_SITE, "label": float("nan"), "unlabelled": ""}, dtype=object)
