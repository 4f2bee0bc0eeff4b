"""BIDS derivatives with parcellated series: XCP-D, giga_connectome, and whatever writes alike.

::

    xcp_d/sub-01/[ses-1/]func/sub-01[_ses-1]_task-rest[_run-1]_space-<S>_seg-<set>_stat-mean_timeseries.tsv
    xcp_d/sub-01/[ses-1/]func/..._timeseries.json           RepetitionTime; giga_connectome: SamplingFrequency
    raw/participants.tsv                                    of the raw dataset: here, above, or ``participants``

The header names the parcels. A parcel that is not covered is a column of ``n/a`` and becomes NaN. Volumes with much
motion may already be gone, so lengths differ. ``.ptseries.nii`` files are read where there is no text twin.
`brainroam.data.readers.entities` and `brainroam.data.readers.repeats` tell which files of a person are taken.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from brainroam.data.atlas.known import canonical
from brainroam.data.cohort import Cohort
from brainroam.data.extract.made_by import how_made
from brainroam.data.readers.entities import ANY_SERIES, Selection, find_series, parcellated_files, sidecar_tr
from brainroam.data.readers.locate import bare_id, unpadded
from brainroam.data.readers.participants import Participants, Request
from brainroam.data.readers.participants_table import USUAL_COLUMNS, Columns, find_participants, read_participants
from brainroam.data.readers.repeats import USUAL_REPEATS, Repeats, choose, read_joined, rows_of_scans
from brainroam.data.readers.series import read_series
from brainroam.data.readers.text import Series
from brainroam.errors import ReaderError, UsageError

LOOKS_FOR = "sub-*/[ses-*/]func/*_{seg,atlas}-<set>_*timeseries.tsv or .ptseries.nii, here or in derivatives/*"


def recognises(path: Path) -> bool:
    """Whether there are parcellated series in a BIDS derivatives folder."""
    return bool(_roots(path))


def read(
    path: Path,
    request: Request,
    *,
    participants: str | Path | None = None,
    columns: Columns = USUAL_COLUMNS,
    selection: Selection = ANY_SERIES,
    repeats: Repeats = USUAL_REPEATS,
) -> Cohort:
    """Read BIDS derivatives.

    ``participants`` is the table of people, or several to be joined, when it is neither in the folder nor above it.
    """
    roots = _roots(path)
    if not roots:
        raise ReaderError(f"{path} holds no parcellated series; looked for {LOOKS_FOR}")
    if len(roots) > 1:
        raise UsageError(f"{path} holds series in {', '.join(map(str, roots))}; give one of these as the path")
    found, roi_set = find_series(parcellated_files(roots[0]), selection, request, roots[0])
    described = roots[0] / f"atlas-{roi_set}_dseg.tsv"  # as `brainroam extract` writes it
    if request.atlas is None and canonical(roi_set) is None and described.is_file():
        request = replace(request, atlas=described)
    sources = find_participants(roots[0], participants, levels=3)
    table = read_participants(sources, columns, request.require_label, target=request.target)
    on_disk = {unpadded(name): name for name in found}
    table["subject"] = [name and on_disk.get(unpadded(name), f"sub-{bare_id(name)}") for name in table["subject"]]
    chosen = choose(found, repeats)
    roster = Participants(rows_of_scans(table, chosen), request, sources[0])
    roster.require_files(chosen.first_files, f"a series of {roi_set} below {roots[0]}")
    cohort = roster.cohort(lambda subject: read_joined(chosen.files[subject], read_with_tr), roi_set)
    made = how_made(roots[0])
    return cohort if made is None else cohort.noting(made)


def read_with_tr(path: Path) -> Series:
    """A series with the TR of its own header, else of its sidecar."""
    series = read_series(path)
    return replace(series, tr=sidecar_tr(path)) if np.isnan(series.tr) else series


def _roots(path: Path) -> list[Path]:
    places = [path, *sorted(path.glob("derivatives/*"))]
    return [place for place in places if parcellated_files(place)]
