"""A plain folder: one series file per person and a table of people.

::

    study/participants.tsv                 participant_id, site, diagnosis, age, sex (other names: say which)
    study/timeseries/<participant_id>.npy  or .csv .tsv .txt .1D .mat .ptseries.nii, also side by side

Series are time x regions. The files may stand elsewhere (``template``), and so may the table (``participants``).
"""

from pathlib import Path

from brainroam.data.cohort import Cohort
from brainroam.data.readers.locate import USUAL, USUAL_FILES, Files
from brainroam.data.readers.participants import Participants, Request
from brainroam.data.readers.participants_table import (
    PATTERNS,
    USUAL_COLUMNS,
    Columns,
    find_participants,
    read_participants,
)
from brainroam.data.readers.series import suffix_of
from brainroam.data.readers.tables import nearest

LOOKS_FOR = f"participants.tsv beside series files ({' or '.join(USUAL)})"


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
    participants: str | Path | None = None,
    columns: Columns = USUAL_COLUMNS,
    files: Files = USUAL_FILES,
) -> Cohort:
    """Read a plain folder. ``participants`` is the table of people when it is not in the folder."""
    table_path = find_participants(path, participants)
    roster = Participants(read_participants(table_path, columns, request.require_label), request, table_path)
    return files.cohort(roster, path, table_path)
