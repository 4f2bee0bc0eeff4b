"""BIDS derivatives with parcellated series: XCP-D, giga_connectome, and whatever writes alike.

::

    xcp_d/sub-01/[ses-1/]func/sub-01[_ses-1]_task-rest[_run-1]_space-<S>_seg-<set>_stat-mean_timeseries.tsv
    xcp_d/sub-01/[ses-1/]func/..._timeseries.json           RepetitionTime; giga_connectome: SamplingFrequency
    xcp_d/sub-01/[ses-1/]func/sub-01[_ses-1]_task-rest[_run-1]_motion.tsv    framewise_displacement, in mm
    raw/participants.tsv                                    of the raw dataset: here, above, or ``participants``

The header names the parcels. A parcel that is not covered is a column of ``n/a`` and becomes NaN. Volumes with much
motion may already be gone, so lengths differ. ``.ptseries.nii`` files are read where there is no text twin.
`brainroam.data.readers.repeats` tells which files of a person are taken.

File names are chains of entities: the regions are under ``seg`` or, in older and the newest releases of XCP-D, under
``atlas``.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from brainroam.data.atlas.known import canonical
from brainroam.data.cohort import Cohort
from brainroam.data.extract.settings import describe_extraction
from brainroam.data.names import bare_id, unpadded
from brainroam.data.readers.participants import Participants, Request, choose_roi_set
from brainroam.data.readers.participants_table import USUAL_COLUMNS, Columns, find_participants, read_participants
from brainroam.data.readers.repeats import USUAL_REPEATS, Repeats, Scan, choose, read_and_join, rows_of_scans
from brainroam.data.readers.series import PARCELLATED, read_series
from brainroam.data.readers.tables import read_table
from brainroam.data.readers.text import Series
from brainroam.errors import ReaderError, UsageError, counted, listed, unknown

ENDINGS = ("_timeseries.tsv", PARCELLATED)
WHERE = ("sub-*/func", "sub-*/ses-*/func")
PARTS = ("run", "dir", "acq")  # what a concatenation of runs no longer has
REPEATED = ("sub", "ses", *PARTS)  # in these the files of one study may differ
OF_REGIONS = ("seg", "atlas")
SHORT = {"session": "ses"}
ABSENT, ANY = "none", "any"
LOOKS_FOR = "sub-*/[ses-*/]func/*_{seg,atlas}-<set>_*timeseries.tsv or .ptseries.nii, here or in derivatives/*"


@dataclass(frozen=True)
class Selection:
    """Which series of a person to take: the value of each entity in the file names.

    ``none`` takes files without it, ``any`` takes all. Without a value that is the only ``task`` there is, or rest; any
    ``session``, ``run`` and ``dir``, among which `Repeats` chooses; any ``acq`` (acquisition) where all have one TR;
    and of others the only value there is: ``space``, ``desc``, ``ce``, ``chunk``, ``cohort``, ``den``, ``echo``,
    ``feature``, ``hemi``, ``label``, ``mod``, ``model``, ``part``, ``proc``, ``rec``, ``reg``, ``res``, ``scale``,
    ``split``, ``stat``.
    """

    task: str | None = None
    session: str | None = None
    run: str | None = None
    space: str | None = None
    desc: str | None = None
    acq: str | None = None
    ce: str | None = None
    chunk: str | None = None
    cohort: str | None = None
    den: str | None = None
    dir: str | None = None
    echo: str | None = None
    feature: str | None = None
    hemi: str | None = None
    label: str | None = None
    mod: str | None = None
    model: str | None = None
    part: str | None = None
    proc: str | None = None
    rec: str | None = None
    reg: str | None = None
    res: str | None = None
    scale: str | None = None
    split: str | None = None
    stat: str | None = None


ANY_SERIES = Selection()


def entities(path: Path) -> dict[str, str]:
    """The entities in a file name.

    >>> entities(Path("sub-01_task-rest_seg-AAL_timeseries.tsv"))
    {'sub': '01', 'task': 'rest', 'seg': 'AAL'}
    """
    stem = re.sub(r"(\.ptseries\.nii|\.tsv|\.json)$", "", path.name)  # values may hold dots: desc-denoiseScrubbing.5
    return dict(part.split("-", 1) for part in stem.split("_") if "-" in part)


def roi_set_of(path: Path) -> str | None:
    """The name of the regions; None when the file is no parcellated series (confounds, motion)."""
    parts = entities(path)
    return parts.get("seg") or parts.get("atlas")


def parcellated_files(root: Path) -> list[Path]:
    """All parcellated series below a derivatives folder."""
    return sorted(
        path for where in WHERE for path in root.glob(f"{where}/*") if path.name.endswith(ENDINGS) and roi_set_of(path)
    )


def find_series(
    paths: Iterable[Path], selection: Selection, request: Request, root: Path
) -> tuple[dict[str, list[Scan]], str]:
    """The scans of each person (by ``sub-`` id), and the name of the ROI set.

    Of twins that differ only in file type the text file is taken. An error where people, or files of one person, were
    processed in different ways: whatever is learned then may be the processing.
    """
    paths = list(paths)
    roi_set = choose_roi_set(request, (str(roi_set_of(path)) for path in paths), root)
    paths = [path for path in paths if roi_set_of(path) == roi_set]
    tasks = {entities(path).get("task", "") for path in paths}
    if selection.task is None and len(tasks) > 1 and "rest" in tasks:
        selection = replace(selection, task="rest")
    for option, value in vars(selection).items():
        paths = _select_entity(paths, SHORT.get(option, option), value)
    paths = _without_twins(paths)
    free = [SHORT.get(option, option) for option, value in vars(selection).items() if value == ANY]
    _require_one_variant(paths, (*REPEATED, *OF_REGIONS, *free))
    people: dict[str, list[Path]] = defaultdict(list)
    for path in paths:
        people[f"sub-{entities(path)['sub']}"].append(path)
    return {subject: _scans(files, subject) for subject, files in people.items()}, roi_set


def _select_entity(paths: list[Path], entity: str, value: str | None) -> list[Path]:
    if value in (None, ANY):
        return paths
    wanted = str(value).removeprefix(f"{entity}-")
    present = sorted({entities(path).get(entity, ABSENT) for path in paths})
    if wanted not in present:
        raise unknown({"ses": "session"}.get(entity, entity), wanted, present)
    return [path for path in paths if entities(path).get(entity, ABSENT) == wanted]


def _without_twins(paths: list[Path]) -> list[Path]:
    """The files but for those that a text file of the same name, apart from the density of a surface, stands for."""

    def name(path: Path) -> frozenset[tuple[str, str]]:
        return frozenset((key, value) for key, value in entities(path).items() if key != "den")

    texts = {name(path) for path in paths if path.name.endswith(".tsv")}
    return [path for path in paths if path.name.endswith(".tsv") or name(path) not in texts]


def _require_one_variant(paths: list[Path], free: Sequence[str]) -> None:
    """Refuse series that differ in other entities than those that are ``free``, over people or in one person."""
    made = [{entity: value for entity, value in entities(path).items() if entity not in free} for path in paths]
    values = {entity: {one.get(entity, ABSENT) for one in made} for one in made for entity in one}
    differing = sorted(entity for entity, present in values.items() if len(present) > 1)
    if not differing:
        return
    people: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for path, one in zip(paths, made, strict=True):
        people[tuple(one.get(entity, ABSENT) for entity in differing)].add(entities(path)["sub"])
    variants = [
        f"{'_'.join(f'{entity}-{value}' for entity, value in zip(differing, variant, strict=True))} "
        f"({counted(len(who), 'person', 'people')})"
        for variant, who in sorted(people.items(), key=lambda item: (-len(item[1]), item[0]))
    ]
    options = [entity for entity in differing if entity in vars(ANY_SERIES)]
    remedy = (
        f"choose one for everybody: {' '.join(f'--option {entity}=NAME' for entity in options)}"
        if options
        else "keep the files of one kind in the folder"
    )
    raise UsageError(
        f"the series are of {len(variants)} kinds, and people who were processed differently must not be compared: "
        f"{listed(variants, 8)}; {remedy}"
    )


def _scans(files: list[Path], subject: str) -> list[Scan]:
    """The scans of a person; an error where one was processed in several ways, or acquisitions differ in their TR."""
    trs = acquisitions(files)
    if len(set(trs.values())) > 1:
        each = listed(f"{name} (TR {tr:g} s)" for name, tr in trs.items())
        raise UsageError(
            f"subject {subject} has series of several acquisitions with different TRs, {each}; "
            "choose one with acq (--option acq=NAME)"
        )
    scans: dict[tuple[str, str], Scan] = {}
    for file in sorted(files, key=lambda file: file.name):
        parts = entities(file)
        run = "_".join(parts[part] for part in PARTS if part in parts)
        scan = Scan(file, parts.get("ses", ""), run)
        if (other := scans.setdefault((scan.session, run), scan)) is not scan:
            raise UsageError(
                f"{subject} has two series of one scan, {other.path.name} and {file.name}; "
                "choose one by its entities (--option ENTITY=VALUE)"
            )
    return list(scans.values())


def acquisitions(files: Sequence[Path]) -> dict[str, float]:
    """The TR of each acquisition among these files, of the first whose sidecar tells it."""
    trs: dict[str, float] = {}
    named = len({entities(file).get("acq") for file in files}) > 1
    for file in files if named else ():
        name = entities(file).get("acq", "")
        if name not in trs and not np.isnan(tr := sidecar_tr(file)):
            trs[name] = tr
    return trs


def sidecar_tr(path: Path) -> float:
    """TR from the JSON file beside a series: one with the same entities, or fewer of them; NaN without any."""
    own = entities(path).items()
    for sidecar in sorted(path.parent.glob("*_timeseries.json"), key=lambda file: -len(entities(file))):
        if entities(sidecar).items() <= own:
            try:
                content = json.loads(sidecar.read_text(encoding="utf-8"))
                if "RepetitionTime" in content:
                    return float(content["RepetitionTime"])
                return 1 / float(content["SamplingFrequency"])
            except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError, RecursionError):
                continue
    return float("nan")


def mean_displacement(paths: Sequence[Path]) -> float:
    """Mean framewise displacement of scans, from the motion files of XCP-D beside them; NaN where one has none.

    A motion file belongs to a series whose entities it shares; to joined runs belong the motion files of all of them.
    """
    means = []
    for path in paths:
        own = entities(path)
        values = [
            pd.to_numeric(table["framewise_displacement"], errors="coerce")
            for file in sorted(path.parent.glob("*_motion.tsv"))
            if all(own.get(key, value) == value for key, value in entities(file).items() if key != "desc")
            and entities(file).get("desc") != "filtered"
            and "framewise_displacement" in (table := read_table(file))
        ]
        means.append(pd.concat(values).mean() if values else float("nan"))
    return float(np.mean(means)) if means else float("nan")


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
    scans, roi_set = find_series(parcellated_files(roots[0]), selection, request, roots[0])
    described = roots[0] / f"atlas-{roi_set}_dseg.tsv"  # as `brainroam extract` writes it
    if request.atlas is None and canonical(roi_set) is None and described.is_file():
        request = replace(request, atlas=described)
    sources = find_participants(roots[0], participants, levels=3)
    table = read_participants(sources, columns, request.require_label, target=request.target)
    on_disk = {unpadded(name): name for name in scans}
    table["subject"] = [name and on_disk.get(unpadded(name), f"sub-{bare_id(name)}") for name in table["subject"]]
    chosen = choose(scans, repeats)
    rows = rows_of_scans(table, chosen)
    roster = Participants(rows, request, sources[0])
    roster.require_files(chosen.first_files, f"a series of {roi_set} below {roots[0]}")
    if "mean_fd" not in rows:
        read = {name: paths for name, paths in chosen.files.items() if name not in roster.unmeasured}
        roster.table["mean_fd"] = [mean_displacement(read.get(name, ())) for name in roster.table["subject"]]
    cohort = roster.cohort(lambda subject: read_and_join(chosen.files[subject], read_with_tr), roi_set)
    made = describe_extraction(roots[0])
    return cohort if made is None else cohort.noting(made)


def read_with_tr(path: Path) -> Series:
    """A series with the TR of its own header, else of its sidecar."""
    series = read_series(path)
    return replace(series, tr=sidecar_tr(path)) if np.isnan(series.tr) else series


def _roots(path: Path) -> list[Path]:
    places = [path, *sorted(path.glob("derivatives/*"))]
    return [place for place in places if parcellated_files(place)]
