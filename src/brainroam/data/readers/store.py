"""What brainroam itself wrote: a file of `Cohort.save`, or a folder of `brainroam convert`."""

import zipfile
from pathlib import Path

from brainroam.data.cohort import Cohort
from brainroam.data.cohort_file import load_cohort
from brainroam.data.readers.participants import Request
from brainroam.data.readers.series import check_archive, refusing
from brainroam.data.store import CohortStore, is_store
from brainroam.errors import UsageError

LOOKS_FOR = "a file or folder that brainroam wrote (Cohort.save, brainroam convert)"


def recognises(path: Path) -> bool:
    """Whether it is a store, or an archive with the members `Cohort.save` writes."""
    if path.is_dir():
        return is_store(path)
    if not path.is_file() or not zipfile.is_zipfile(path):
        return False
    check_archive(path)
    with zipfile.ZipFile(path) as archive:
        return {"header.npy", "data.npy"} <= set(archive.namelist())


def read(path: Path, request: Request) -> Cohort:
    """Read a saved cohort; of a store, only the people of the sites asked for."""
    if path.is_dir():
        store = CohortStore(path)
        whole = request.sites.names or request.sites.exclude
        cohort = store.cohort(store.rows(None if whole else request.sites.keep))
    else:
        check_archive(path)
        with refusing(path):  # a member may claim any size
            cohort = load_cohort(Cohort, path, mapped=request.spool is not None)
    cohort = request.sites.of(cohort)
    if request.roi_set not in (None, cohort.atlas.name):
        raise UsageError(f"{path} holds regions of {cohort.atlas.name!r}, not of {request.roi_set!r}")
    unlabelled = cohort.table["label"].isna().to_numpy()
    if request.require_label and request.target is None and unlabelled.any():
        cohort = cohort.exclude(unlabelled, ["no label"] * int(unlabelled.sum()))
    return cohort
