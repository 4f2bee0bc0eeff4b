"""ADHD-200 time courses of the Athena pipeline.

::

    ADHD200_AAL_TCs_filtfix/<Site>/<7-digit id>/sfnwmrda<id>_session_1_rest_1_aal_TCs.1D    band-pass filtered
    ADHD200_AAL_TCs_filtfix/<Site>/<7-digit id>/snwmrda<id>_session_1_rest_1_aal_TCs.1D     not filtered
    ADHD200_AAL_TCs_filtfix/templates/                                                      no site
    adhd200_preprocessed_phenotypics.tsv                                                    here or above

The table's ``ScanDir ID`` lacks leading zeros; ``DX`` is 0 = control, 1 to 3 = ADHD, ``pending`` = withheld;
``Gender`` is 1 = male, 0 = female; ``QC_Athena`` is 1 = passed; -999 is unknown. The site is the folder, which is finer
than the table's code (Peking_1 to Peking_3). Of several sessions and runs the first counts, unless
``sessions`` and ``runs`` say otherwise. The cc200 files hold 190
columns, not 200, and are named ``adhd200_cc200`` so that nobody takes them for ABIDE's.
"""

import re
from collections import defaultdict
from pathlib import Path

import pandas as pd

from brainroam.data.atlas import SHIPPED
from brainroam.data.cohort import Cohort
from brainroam.data.readers.participants import Participants, Request, choose_roi_set
from brainroam.data.readers.repeats import Chosen, Repeats, Scan, choose, read_and_join, rows_of_scans
from brainroam.data.readers.series import read_series
from brainroam.data.readers.tables import column, nearest, read_table
from brainroam.data.readers.values import ages, codes, labels, sexes
from brainroam.errors import ReaderError

PHENOTYPES = "adhd200_preprocessed_phenotypics.tsv"
LOOKS_FOR = f"<Site>/<id>/sfnwmrda<id>_session_1_rest_1_<set>_TCs.1D and {PHENOTYPES}"
SERIES = re.compile(
    r"(?P<kind>sfn|sn)wmrda(?P<id>\d{7})_session_(?P<session>\d+)_rest_(?P<rest>\d+)_(?P<roi_set>\w+)_TCs\.1D"
)

FIRST_SCAN = Repeats(runs="first")
SITES = {
    "1": "Peking",
    "2": "Brown",
    "3": "KKI",
    "4": "NeuroIMAGE",
    "5": "NYU",
    "6": "OHSU",
    "7": "Pittsburgh",
    "8": "WashU",
}


def recognises(path: Path) -> bool:
    """Whether there are Athena time courses, one folder per site and person."""
    return any(SERIES.fullmatch(file.name) for file in path.glob("*/*/*_TCs.1D"))


def read(
    path: Path,
    request: Request,
    *,
    filtered: bool = True,
    quality_checked: bool = False,
    participants: str | Path | None = None,
    repeats: Repeats = FIRST_SCAN,
) -> Cohort:
    """Read ADHD-200.

    ``filtered`` takes the band-pass filtered series; ``quality_checked`` leaves out people whom the pipeline's raters
    did not pass; ``participants`` is the phenotypic table when it is neither in the folder nor above it.
    """
    source = Path(participants) if participants else nearest(path, [PHENOTYPES])
    if source is None or not source.is_file():
        raise ReaderError(f"{source or PHENOTYPES} is not at {path} or above; give it with participants")
    kind = "sfn" if filtered else "sn"
    scans = [
        (match, file)
        for file in path.glob("*/*/*_TCs.1D")
        if (match := SERIES.fullmatch(file.name)) and match["kind"] == kind
    ]
    roi_set = choose_roi_set(request, (match["roi_set"] for match, _ in scans), path)
    scans_of: dict[str, list[Scan]] = defaultdict(list)
    for match, file in scans:
        if match["roi_set"] == roi_set:
            scans_of[match["id"]].append(Scan(file, match["session"], match["rest"]))
    chosen = choose(scans_of, repeats)
    roster = _roster(source, chosen, request, quality_checked)
    roster.require_files(chosen.first_files, f"{kind}wmrda<id>_session_*_rest_*_{roi_set}_TCs.1D below {path}")
    name = f"adhd200_{roi_set}" if roi_set in SHIPPED and roi_set != "aal" else roi_set
    return roster.cohort(lambda subject: read_and_join(chosen.files[subject], read_series), name)


def _roster(source: Path, chosen: Chosen, request: Request, quality_checked: bool) -> Participants:
    raw = read_table(source)
    subject = codes(column(raw, "ScanDir ID", source)).str.zfill(7)
    folders = {chosen.person[name]: file.parent.parent.name for name, file in chosen.first_files.items()}
    table = pd.DataFrame(
        {
            "subject": subject,
            "site": subject.map(folders).fillna(codes(column(raw, "Site", source)).map(SITES)).fillna(""),
            **labels(column(raw, "DX", source), {"0": 0, "1": 1, "2": 1, "3": 1}),
            "age": ages(column(raw, "Age", source), source),
            "sex": sexes(column(raw, "Gender", source), source, {"1": 1, "0": 0}, "correct the table"),
            "passed": codes(column(raw, "QC_Athena", source)) == "1" if quality_checked else True,
            **request.asked_columns(raw),
        }
    )
    roster = Participants(rows_of_scans(table, chosen), request, source)
    roster.exclude(~roster.table["passed"], "QC_Athena is not 1 (quality_checked)")
    roster.table = roster.table.drop(columns="passed")
    return roster
