"""REST-meta-MDD, phase 1: ROI signals of DPARSF and one Excel table.

::

    REST-meta-MDD-Phase1-Sharing/REST-meta-MDD-PhenotypicData_*.xlsx       here or a folder above
    REST-meta-MDD-Phase1-Sharing/Results/ROISignals_FunImgARCWF/ROISignals_S1-1-0001.mat
    REST-meta-MDD-Phase1-Sharing/Results/ROISignals_FunImgARglobalCWF/...  the same with global signal regression

``S1-1-0001`` is site, group (1 = depression, 2 = control) and number; site and label need no table. The matrix
``ROISignals`` is time x 1568, 1833 or 2233: several ROI sets side by side (`SLICES`), of which the shorter files lack
the last. Sheets ``MDD`` and ``Controls`` give Sex (1 = male, 2 = female, 0 = unspecified) and Age (0 = unknown).
Site S4 holds the same people as S14 and is always left out.
"""

import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from brainroam.data.cohort import Cohort
from brainroam.data.readers.participants import NotInFile, Participants, Request
from brainroam.data.readers.series import read_mat
from brainroam.data.readers.tables import column, nearest, read_workbook
from brainroam.data.readers.text import Series
from brainroam.data.readers.values import FEMALE, MALE, MISSING, ages, sexes
from brainroam.errors import ReaderError, unknown

LOOKS_FOR = "[Results/]ROISignals_FunImgARCWF/ROISignals_S<site>-<1 or 2>-<number>.mat"
PHENOTYPES = "*PhenotypicData*.xlsx"
SUBJECT = re.compile(r"S(?P<site>\d+)-(?P<group>[12])-(?P<number>\d{4})")
SLICES = {
    "aal": slice(0, 116),
    "ho_cortical": slice(116, 212),
    "ho_subcortical": slice(212, 228),
    "cc200": slice(228, 428),
    "zalesky980": slice(428, 1408),
    "dosenbach160": slice(1408, 1568),
    "power264": slice(1569, 1833),
    "schaefer400": slice(1833, 2233),
}
WIDTHS = (1568, 1833, 2233)
SEX = {"1": MALE, "2": FEMALE, "0": MISSING}


def recognises(path: Path) -> bool:
    """Whether there is a folder of DPARSF ROI signals."""
    return any(_folder(path, gsr) for gsr in (False, True))


def read(path: Path, request: Request, *, gsr: bool = False, participants: str | Path | None = None) -> Cohort:
    """Read REST-meta-MDD.

    ``gsr`` takes the series with global signal regression; ``participants`` is the Excel table when it is not near
    the series. Without any table ages and sexes stay unknown.
    """
    folder = _folder(path, gsr)
    if folder is None:
        raise ReaderError(f"{path} holds no series with{'' if gsr else 'out'} global signal regression: {LOOKS_FOR}")
    roi_set = request.roi_set or "aal"
    if roi_set.lower() not in SLICES:
        raise unknown("atlas", roi_set, SLICES)
    files = {file.stem.removeprefix("ROISignals_"): file for file in sorted(folder.glob("ROISignals_*.mat"))}
    source = Path(participants) if participants else nearest(folder, [PHENOTYPES], levels=3)
    if source is None:
        warnings.warn(f"no {PHENOTYPES} near {folder}: ages and sexes are unknown", stacklevel=2)
        people = pd.DataFrame({"subject": [name for name in files if SUBJECT.fullmatch(name)]})
    else:
        people = _people(source, request)
    roster = _roster(people, set(files), request, source or folder)
    roster.require_files(files, f"ROISignals_<ID>.mat in {folder}")
    return roster.cohort(lambda subject: _read_slice(files[subject], roi_set.lower()), roi_set.lower())


def _folder(path: Path, gsr: bool) -> Path | None:
    """The folder of series: the path itself, or below it."""
    name = f"ROISignals_FunImgAR{'global' if gsr else ''}CWF"
    places = [path] if path.name == name else [path / name, path / "Results" / name]
    return next((place for place in places if any(map(_is_of_release, place.glob("ROISignals_S*.mat")))), None)


def _is_of_release(file: Path) -> bool:
    """Whether a file is named as in the release; DPABI itself names those of any study alike, but for the id."""
    return SUBJECT.fullmatch(file.stem.removeprefix("ROISignals_")) is not None


def _people(source: Path, request: Request) -> pd.DataFrame:
    sheets = read_workbook(source)
    absent = [name for name in ("MDD", "Controls") if name not in sheets]
    if absent:
        raise ReaderError(f"{source} has no sheet named {absent[0]!r} but {', '.join(sheets)}; is it the right table?")
    parts = [
        pd.DataFrame(
            {
                "subject": column(sheets[name], "ID", source),
                "age": ages(column(sheets[name], "Age", source), f"{source}, sheet {name}"),
                "sex": sexes(column(sheets[name], "Sex", source), source, SEX, "correct the table"),
                **request.asked_columns(sheets[name]),
            }
        )
        for name in ("MDD", "Controls")
    ]
    people = pd.concat(parts, ignore_index=True)
    return people[people["subject"] != ""]


def _roster(people: pd.DataFrame, on_disk: set[str], request: Request, source: Path) -> Participants:
    """Site and label come from the id; S4 goes first, whatever sites are asked for, so that it is always recorded."""
    parts = people["subject"].str.extract(f"^{SUBJECT.pattern}$")
    people = people.assign(
        site=("S" + parts["site"]).fillna(""),
        label=parts["group"].map({"1": 1.0, "2": 0.0}),
        unlabelled="the id is not of the form S<site>-<1 or 2>-<number>",
    )
    twins = {name for name in {*people["subject"], *on_disk} if name.startswith("S4-")}
    roster = Participants(people[~people["subject"].isin(twins)], request, source)
    roster.known |= twins
    roster.excluded += [(name, "site S4 holds the same people as S14") for name in sorted(twins)]
    return roster


def _read_slice(path: Path, roi_set: str) -> Series:
    signals = read_mat(path, "ROISignals")
    if signals.ndim != 2 or signals.shape[1] not in WIDTHS:
        raise ReaderError(f"{path} is of shape {signals.shape}; ROISignals have {', '.join(map(str, WIDTHS))} columns")
    columns = SLICES[roi_set]
    if columns.stop > signals.shape[1]:
        raise NotInFile(f"{path.name} has {signals.shape[1]} columns, which do not include {roi_set}")
    return Series(np.ascontiguousarray(signals[:, columns]))
