"""A file written by `brainroam.Cohort.save`."""

import zipfile
from pathlib import Path

from brainroam.cohort import Cohort
from brainroam.errors import UsageError
from brainroam.readers.roster import Request
from brainroam.readers.series import check_archive, refusing

LOOKS_FOR = "a file that brainroam saved (Cohort.save, brainroam convert)"


def recognises(path: Path) -> bool:
    """Whether the file is an archive with the members `Cohort.save` writes."""
    if not path.is_file() or not zipfile.is_zipfile(path):
        return False
    check_archive(path)
    with zipfile.ZipFile(path) as archive:
        return {"header.npy", "data.npy"} <= set(archive.namelist())


def read(path: Path, request: Request) -> Cohort:
    """Read a saved cohort."""
    check_archive(path)
    with refusing(path):  # a member may claim any size
        cohort = Cohort.load(path)
    if request.roi_set not in (None, cohort.atlas.name):
        raise UsageError(f"{path} holds regions of {cohort.atlas.name!r}, not of {request.roi_set!r}")
    if request.sites is not None:
        cohort = cohort.select(request.sites)
    unlabelled = cohort.table["label"].isna().to_numpy()
    if request.require_label and unlabelled.any():
        cohort = cohort.exclude(unlabelled, ["no label"] * int(unlabelled.sum()))
    return cohort
