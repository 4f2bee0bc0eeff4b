"""ABIDE I as the Preprocessed Connectomes Project distributes it, in either of the two layouts on people's disks.

::

    ABIDE_pcp/Phenotypic_V1_0b_preprocessed1.csv
    ABIDE_pcp/<pipeline>/<strategy>/<FILE_ID>_rois_<set>.1D                         nilearn
    <folder>/Outputs/<pipeline>/<strategy>/rois_<set>/<FILE_ID>_rois_<set>.1D       the project's own mirror

``<set>`` is aal (116 regions), cc200, cc400 (392 columns), ho (111), dosenbach160 (161), ez or tt. In the table,
``FILE_ID`` is ``no_filename`` for people without series; ``DX_GROUP`` is 1 = autism, 2 = control; ``SEX`` is 1 = male,
2 = female; -9999 is unknown. The site is ``SITE_ID``. TR is not in the table: the ten sites of the paper are known.

`fetch_abide` downloads it for people with a network, and says what to do by hand for people without one.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from brainroam.data.cohort import Cohort
from brainroam.data.readers.participants import Participants, Request, choose_roi_set
from brainroam.data.readers.series import read_series
from brainroam.data.readers.tables import column, nearest, read_table
from brainroam.data.readers.values import ONE_IS_MALE, ages, codes, labels, numbers, sexes
from brainroam.errors import BrainroamError, ReaderError, UsageError, unknown

PHENOTYPES = "Phenotypic_V1_0b*.csv"
LOOKS_FOR = f"{PHENOTYPES} near <pipeline>/<strategy>/*_rois_<set>.1D, with or without Outputs/ and rois_<set>/"
PIPELINES = ("cpac", "ccs", "dparsf", "niak")
STRATEGIES = ("filt_global", "filt_noglobal", "nofilt_global", "nofilt_noglobal")
SERIES = re.compile(r"(?P<file_id>.+)_rois_(?P<roi_set>[A-Za-z0-9]+)\.1D")
PASSED = {  # nilearn's quality_checked
    "qc_rater_1": ["OK"],
    "qc_anat_rater_2": ["OK", "maybe"],
    "qc_func_rater_2": ["OK", "maybe"],
    "qc_anat_rater_3": ["OK"],
    "qc_func_rater_3": ["OK"],
}
TR = {
    "CALTECH": 2.0,
    "KKI": 2.5,
    "MAX_MUN": 3.0,
    "OLIN": 1.5,
    "PITT": 1.5,
    "SBL": 2.2,
    "SDSU": 2.0,
    "STANFORD": 2.0,
    "TRINITY": 2.0,
    "YALE": 2.0,
}
URL = "https://s3.amazonaws.com/fcp-indi/data/Projects/ABIDE_Initiative"
TABLE = "Phenotypic_V1_0b_preprocessed1.csv"


def recognises(path: Path) -> bool:
    """Whether there are ROI series in one of the two layouts."""
    return bool(_variants(path))


def read(
    path: Path,
    request: Request,
    *,
    pipeline: str | None = None,
    strategy: str | None = None,
    quality_checked: bool = False,
    participants: str | Path | None = None,
) -> Cohort:
    """Read ABIDE.

    ``pipeline`` and ``strategy`` choose among several on disk; ``quality_checked`` leaves out people whom a rater did
    not pass, as nilearn does; ``participants`` is the phenotypic table when it is not near the series.
    """
    folder = _choose(path, pipeline, strategy)
    scans = [(match, file) for file in folder.rglob("*.1D") if (match := SERIES.fullmatch(file.name))]
    roi_set = choose_roi_set(request, (match["roi_set"] for match, _ in scans), folder)
    files = {match["file_id"]: file for match, file in scans if match["roi_set"] == roi_set}
    source = Path(participants) if participants else nearest(path, [PHENOTYPES, f"ABIDE_pcp/{PHENOTYPES}"], levels=4)
    if source is None or not source.is_file():
        raise ReaderError(
            f"{source or PHENOTYPES} is not near {path}; fetch it from the Preprocessed Connectomes Project "
            "and give its path with participants (--option participants=FILE)"
        )
    roster = _roster(source, request, quality_checked)
    roster.require_files(files, f"<FILE_ID>_rois_{roi_set}.1D in {folder}")
    return roster.cohort(lambda subject: read_series(files[subject]), roi_set)


def _variants(path: Path) -> dict[tuple[str, str], Path]:
    """The folders of series there are, by pipeline and strategy; ``path`` may also be one of them."""
    places = [path, path / "ABIDE_pcp", path / "Outputs", *path.resolve().parents[:3]]
    variants = {
        (pipeline, strategy): place / pipeline / strategy
        for place in places
        for pipeline in PIPELINES
        for strategy in STRATEGIES
        if any((place / pipeline / strategy).rglob("*_rois_*.1D"))
    }
    return {key: folder for key, folder in variants.items() if _is_related(folder, path)}


def _is_related(folder: Path, path: Path) -> bool:
    """Series count when they are below the path asked for, or when the path is the folder they are in."""
    folder, path = folder.resolve(), path.resolve()
    return folder.is_relative_to(path) or path.is_relative_to(folder)


def _choose(path: Path, pipeline: str | None, strategy: str | None) -> Path:
    variants = _variants(path)
    if not variants:
        raise ReaderError(f"{path} holds no ABIDE series; looked for {LOOKS_FOR}")
    fitting = [key for key in variants if pipeline in (None, key[0]) and strategy in (None, key[1])]
    if len(fitting) != 1:
        present = ", ".join("/".join(key) for key in sorted(variants))
        raise UsageError(f"{path} holds {present}; choose one of these with pipeline and strategy")
    return variants[fitting[0]]


def _roster(source: Path, request: Request, quality_checked: bool) -> Participants:
    raw = read_table(source)
    file_id, diagnosis = column(raw, "FILE_ID", source), column(raw, "DX_GROUP", source)
    has_file = file_id != "no_filename"
    number = codes(column(raw, "SUB_ID", source)).str.zfill(7)
    site = column(raw, "SITE_ID", source)
    table = pd.DataFrame(
        {
            "subject": file_id.where(has_file, number),
            "site": site,
            **labels(diagnosis, {"1": 1, "2": 0}),
            "age": ages(column(raw, "AGE_AT_SCAN", source), source),
            "sex": sexes(column(raw, "SEX", source), source, ONE_IS_MALE, "correct the table"),
            "mean_fd": numbers(column(raw, "func_mean_fd", source), source),
            "tr": site.map(TR).astype(float),
            "fiq": numbers(column(raw, "FIQ", source), source),
            "has_file": has_file,
            "passed": [True] * len(raw),
            **request.asked_columns(raw),
        }
    )
    for name, verdicts in PASSED.items() if quality_checked else ():
        table["passed"] &= column(raw, name, source).isin(verdicts)
    roster = Participants(table, request, source)
    roster.exclude(~roster.table["has_file"], "FILE_ID is no_filename: the project made no series")
    roster.exclude(~roster.table["passed"], "a rater did not pass the scan (quality_checked)")
    roster.table = roster.table.drop(columns=["has_file", "passed"])
    return roster


def fetch_abide(
    data_dir: str | Path,
    *,
    roi_sets: Sequence[str] = ("aal",),
    pipeline: str = "cpac",
    strategy: str = "filt_global",
    sites: Sequence[str] | None = None,
) -> Path:
    """Download ABIDE ROI series with nilearn's fetcher into ``data_dir/ABIDE_pcp`` and return that folder.

    Files that are there already are not fetched again. Nobody is left out for quality: choose that when loading.

    Examples
    --------
    >>> folder = fetch_abide("data", sites=["OLIN"])  # doctest: +SKIP
    >>> cohort = brainroam.load_cohort(folder)  # doctest: +SKIP
    """
    for kind, value, choices in (("pipeline", pipeline, PIPELINES), ("strategy", strategy, STRATEGIES)):
        if value not in choices:
            raise unknown(kind, value, choices)
    from nilearn.datasets import fetch_abide_pcp

    data_dir = Path(data_dir)
    chosen = {} if sites is None else {"SITE_ID": list(sites)}
    try:
        fetch_abide_pcp(
            data_dir=str(data_dir),
            pipeline=pipeline,
            band_pass_filtering=strategy.startswith("filt"),
            global_signal_regression=strategy.endswith("_global"),
            derivatives=[f"rois_{name}" for name in roi_sets],
            quality_checked=False,
            verbose=0,
            **chosen,
        )
    except KeyError as error:
        raise BrainroamError(f"ABIDE has no such ROI set: {error.args[0]}") from error
    except OSError as error:  # every network error of requests and urllib is one
        target = data_dir / "ABIDE_pcp"
        raise BrainroamError(
            f"ABIDE could not be fetched ({type(error).__name__}). By hand, from a machine with a network: "
            f"put {URL}/{TABLE} into {target}, and for each FILE_ID of that table "
            f"{URL}/Outputs/{pipeline}/{strategy}/rois_<set>/<FILE_ID>_rois_<set>.1D "
            f"into {target / pipeline / strategy}; then load {target}"
        ) from error
    return data_dir / "ABIDE_pcp"
