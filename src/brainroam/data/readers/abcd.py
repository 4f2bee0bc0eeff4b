"""ABCD (NDA, controlled access): tables of release 4.0 or 5.x and parcellated series of the ABCC collection.

::

    abcd_lt01.txt, abcd_ksad01.txt, acspsw03.txt                     4.0: tabs, quotes, a second row of descriptions
    core/abcd-general/abcd_y_lt.csv, core/mental-health/mh_p_ksads_ss.csv, abcd_p_demo.csv            5.x: plain CSV
    derivatives/abcd-hcp-pipeline/sub-NDARINV<id>/ses-baselineYear1Arm1/func/
        sub-..._task-rest_bold_atlas-<set>_desc-filtered_timeseries.ptseries.nii, or wherever ``template`` says

Only the baseline visit counts (``baseline_year_1_arm_1``). Age is given in months. ``rel_family_id``
becomes ``group``: siblings and twins are never split between training and test.

The label is ADHD by the parents' KSADS: 1 when ``ksads_14_853_p`` (present) is 1; 0 only when 853, 854 (past), 855
(partial remission) and 856 (unspecified) are all 0. 555, 888 and blank mean "not asked", so such people, and those
with ADHD only in the past, have no label.
"""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from brainroam.data.cohort import Cohort
from brainroam.data.readers.bids import Selection, find_series, parcellated_files, read_with_tr
from brainroam.data.readers.locate import USUAL_FILES, Files
from brainroam.data.readers.participants import Participants, Request
from brainroam.data.readers.repeats import Repeats, choose, read_and_join
from brainroam.data.readers.tables import column, read_table
from brainroam.data.readers.text import Series
from brainroam.data.readers.values import MISSING, ONE_IS_MALE, codes, numbers, sexes
from brainroam.errors import ReaderError, in_shell, listed

TRACKING = ("abcd_lt01.txt", "abcd_y_lt.csv")
INTERVIEW = ("abcd_ksad01.txt", "mh_p_ksads_ss.csv")
FAMILY = ("acspsw03.txt", "abcd_y_lt.csv")
SEX = {"abcd_lt01.txt": "sex", "abcd_p_demo.csv": "demo_sex_v2", "gish_p_gi.csv": "demo_sex_v2"}
SEX_CODES = {**ONE_IS_MALE, "3": MISSING, "4": MISSING}  # intersex
LOOKS_FOR = f"{' or '.join(TRACKING)} and {' or '.join(INTERVIEW)}, here, one folder below, or in core/*"
BASELINE = "baseline_year_1_arm_1"
BASELINE_SERIES = Selection(session="baselineYear1Arm1")
KSADS = ["ksads_14_853_p", "ksads_14_854_p", "ksads_14_855_p", "ksads_14_856_p"]


def recognises(path: Path) -> bool:
    """Whether the tracking table of a release is there, with the interview or series; else these are tables alone."""
    return _find(path, TRACKING) is not None and (_find(path, INTERVIEW) is not None or bool(_all_series(path)))


def read(
    path: Path,
    request: Request,
    *,
    participants: str | Path | None = None,
    selection: Selection = BASELINE_SERIES,
    volumes: int | None = None,
    runs: str = "concatenate",
    files: Files = USUAL_FILES,
) -> Cohort:
    """Read ABCD.

    ``participants`` is the folder of tables when it is not ``path``; ``volumes`` keeps only the first so many (one run
    has 383; the collection's files hold all runs in a row); ``runs`` is ``concatenate`` or ``first``.
    """
    repeats = Repeats(runs=runs)
    roster = _roster(Path(participants) if participants else path, request)
    if files.template is not None:
        scans, roi_set, sought, read_one = files.find(path, roster.known), None, files.search_words, files.read
    else:
        if not (series := _all_series(path)):
            raise ReaderError(
                f"{path} holds no parcellated series; say where with template (--option template=...); tables of "
                f"measures are found by brainroam init {in_shell(path)} --reader folder"
            )
        scans, roi_set = find_series(series, selection, request, path)
        sought, read_one = f"a series of {roi_set} below {path}", read_with_tr
    chosen = choose(scans, repeats)
    roster.require_files(chosen.first_files, sought)

    def first_volumes(subject: str) -> Series:
        series = read_and_join(chosen.files[subject], read_one)
        return replace(series, values=series.values[:volumes])

    made_by_user = files.template is not None and files.transpose is None
    return roster.cohort(first_volumes, roi_set, hint=sought, check_axes=made_by_user)


def _all_series(path: Path) -> list[Path]:
    return [file for root in (path, *sorted(path.glob("derivatives/*"))) for file in parcellated_files(root)]


def _roster(folder: Path, request: Request) -> Participants:
    source, tracking = _baseline(folder, TRACKING)
    interview_source, interview = _baseline(folder, INTERVIEW)
    table = pd.DataFrame(
        {
            "subject": tracking.index,
            "site": column(tracking, "site_id_l", source),
            "age": numbers(column(tracking, "interview_age", source), source) / 12,
            "sex": _sex(folder).reindex(tracking.index),
            **request.asked_columns(tracking),
        }
    )
    answers = pd.DataFrame({name: codes(column(interview, name, interview_source)) for name in KSADS})
    table = table.join(_label(answers).reindex(tracking.index))
    table["unlabelled"] = table["unlabelled"].fillna(f"no baseline row in {interview_source.name}")
    if _find(folder, FAMILY) is not None:
        family_source, families = _baseline(folder, FAMILY)
        table["group"] = column(families, "rel_family_id", family_source).reindex(tracking.index)
    else:
        warnings.warn(f"no {' or '.join(FAMILY)} in {folder}: siblings cannot be kept together", stacklevel=2)
    return Participants(table.reset_index(drop=True), request, source)


def _label(answers: pd.DataFrame) -> pd.DataFrame:
    """The rule of the module's first lines."""
    rows = ["/".join(cell or "blank" for cell in row) for row in answers.to_numpy()]
    meaning = pd.Series(rows, answers.index, dtype=str)
    none_ever = (answers == "0").all(axis=1)
    label = none_ever.map({True: 0.0, False: float("nan")}).mask(answers[KSADS[0]] == "1", 1.0)
    return pd.DataFrame({"label": label, "unlabelled": "KSADS ADHD (present/past/remission/unspecified) is " + meaning})


def _sex(folder: Path) -> pd.Series:
    """Release 4.0 writes M and F in every table, 5.x codes in one of its own."""
    for name, variable in SEX.items():
        if _find(folder, [name]) is not None:
            source, table = _baseline(folder, [name])
            return sexes(column(table, variable, source), source, SEX_CODES, "correct the table")
    return pd.Series(dtype=float)


def _baseline(folder: Path, names: Sequence[str]) -> tuple[Path, pd.DataFrame]:
    """A table's baseline rows by BIDS id; the row of descriptions has no such visit and goes by itself."""
    source = _find(folder, names)
    if source is None:
        raise ReaderError(f"{' or '.join(names)} is not in {folder}; give the folder of tables with participants")
    table = read_table(source)
    table = table[column(table, "eventname", source) == BASELINE]
    index = "sub-" + column(table, "src_subject_id", source).str.replace("_", "")
    twice = index[index.duplicated()].unique()
    if len(twice):
        raise ReaderError(f"{source} lists {listed(twice)} more than once at baseline; keep one row each")
    return source, table.set_index(index)


def _find(folder: Path, names: Sequence[str]) -> Path | None:
    places = ("", "*/", "core/*/", "*/core/*/")
    return next((path for name in names for place in places for path in sorted(folder.glob(place + name))), None)
