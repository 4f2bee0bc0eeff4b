"""File names of BIDS derivatives, and which of a person's series to take.

``sub-01_ses-1_task-rest_run-1_space-MNI_seg-4S156Parcels_stat-mean_timeseries.tsv`` is a chain of entities and a
suffix. The regions are under ``seg`` or, in older and the newest releases of XCP-D, under ``atlas``.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from brainroam.data.readers.participants import Request, choose_roi_set
from brainroam.data.readers.repeats import Scan
from brainroam.data.readers.series import PARCELLATED
from brainroam.errors import UsageError, listed, unknown

ENDINGS = ("_timeseries.tsv", PARCELLATED)
WHERE = ("sub-*/func", "sub-*/ses-*/func")
PARTS = ("run", "dir", "acq")  # what a concatenation of runs no longer has


@dataclass(frozen=True)
class Selection:
    """Which series of a person to take.

    None means the only ``task`` there is, or rest; any ``session`` and ``run``, among which `Repeats` chooses; and the
    only ``space`` and ``desc`` there are.
    """

    task: str | None = None
    session: str | None = None
    run: str | None = None
    space: str | None = None
    desc: str | None = None


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
    found = entities(path)
    return found.get("seg") or found.get("atlas")


def parcellated_files(root: Path) -> list[Path]:
    """All parcellated series below a derivatives folder."""
    return sorted(
        path for where in WHERE for path in root.glob(f"{where}/*") if path.name.endswith(ENDINGS) and roi_set_of(path)
    )


def find_series(
    paths: Iterable[Path], selection: Selection, request: Request, root: Path
) -> tuple[dict[str, list[Scan]], str]:
    """The scans of each person (by ``sub-`` id), and the name of the ROI set.

    Of twins that differ only in file type the text file is taken.
    """
    paths = list(paths)
    roi_set = choose_roi_set(request, (str(roi_set_of(path)) for path in paths), root)
    paths = [path for path in paths if roi_set_of(path) == roi_set]
    tasks = {entities(path).get("task", "") for path in paths}
    task = selection.task or ("rest" if "rest" in tasks and len(tasks) > 1 else None)
    asked = {"task": task, "ses": selection.session, "run": selection.run, "desc": selection.desc}
    for entity, value in {**asked, "space": selection.space}.items():
        paths = _filtered(paths, entity, value)
    people: dict[str, list[Path]] = defaultdict(list)
    for path in paths:
        people[f"sub-{entities(path)['sub']}"].append(path)
    return {subject: _scans(files, subject) for subject, files in people.items()}, roi_set


def _filtered(paths: list[Path], entity: str, value: str | None) -> list[Path]:
    if value is None:
        return paths
    wanted = str(value).removeprefix(f"{entity}-")
    present = sorted({entities(path).get(entity, "") for path in paths} - {""})
    if wanted not in present:
        raise unknown({"ses": "session"}.get(entity, entity), wanted, present)
    return [path for path in paths if entities(path).get(entity) == wanted]


def _scans(files: list[Path], subject: str) -> list[Scan]:
    """The scans of a person; an error when the files differ in more than session, run and file type."""
    for entity in ("task", "space", "desc"):
        values = sorted({entities(file).get(entity, "none") for file in files})
        if len(values) > 1:
            raise UsageError(
                f"subject {subject} has series of several kinds, {entity} {listed(values)}; "
                f"choose one with {entity} (--option {entity}=NAME)"
            )
    scans: dict[tuple[str, str], Scan] = {}
    for file in sorted(files, key=lambda file: (not file.name.endswith(".tsv"), file.name)):
        found = entities(file)
        run = "_".join(found[part] for part in PARTS if part in found)
        scans.setdefault((found.get("ses", ""), run), Scan(file, found.get("ses", ""), run))
    return list(scans.values())


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
