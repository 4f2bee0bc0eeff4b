"""The images of an fMRIPrep folder to read, each with mask, confounds and TR."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from brainroam.data.readers.bids import entities
from brainroam.data.readers.series import refusing
from brainroam.errors import ReaderError, UsageError, listed, unknown

ENDING = "_desc-preproc_bold.nii.gz"
WHERE = ("sub-*/func", "sub-*/ses-*/func")
STANDARD_SPACES = ("MNI152NLin2009cAsym", "MNI152NLin6Asym")
LAST = ("desc", "seg", "stat")  # of a file's own, not of the run


@dataclass(frozen=True)
class BoldRun:
    """One preprocessed image of one person, as fMRIPrep names it."""

    bold: Path

    @property
    def subject(self) -> str:
        """The id, with ``sub-``."""
        return f"sub-{entities(self.bold)['sub']}"

    @property
    def stem(self) -> str:
        """The entities of the run: ``sub-01_task-rest_run-1_space-MNI152NLin2009cAsym``."""
        return self.bold.name.removesuffix(ENDING)

    @property
    def mask(self) -> Path | None:
        """The brain mask beside the image."""
        path = self.bold.with_name(f"{self.stem}_desc-brain_mask.nii.gz")
        return path if path.is_file() else None

    @property
    def confounds(self) -> Path:
        """The table of confounds; it has no space."""
        shared = {key: value for key, value in entities(self.bold).items() if key not in ("space", "res", *LAST)}
        stem = "_".join(f"{key}-{value}" for key, value in shared.items())
        for ending in ("desc-confounds_timeseries.tsv", "desc-confounds_regressors.tsv"):
            if (path := self.bold.with_name(f"{stem}_{ending}")).is_file():
                return path
        raise ReaderError(f"{self.bold} has no {stem}_desc-confounds_timeseries.tsv beside it; run fMRIPrep again")

    @cached_property
    def mean_fd(self) -> float:
        """Mean framewise displacement in millimetres, over the volumes that have one."""
        with refusing(self.confounds):
            table = pd.read_csv(self.confounds, sep="\t", na_values="n/a")
            return float(table["framewise_displacement"].mean()) if "framewise_displacement" in table else float("nan")

    def tr(self, header_tr: float) -> float:
        """Seconds between volumes: of the sidecar, else of the image's header."""
        sidecar = self.bold.with_name(self.bold.name.removesuffix(".nii.gz") + ".json")
        if sidecar.is_file():
            with refusing(sidecar):
                content = json.loads(sidecar.read_text(encoding="utf-8"))
            if "RepetitionTime" in content:
                return float(content["RepetitionTime"])
        if not 0 < header_tr < 60:
            raise ReaderError(f"{self.bold}: TR is neither in {sidecar.name} nor in the header; write RepetitionTime")
        return header_tr


def find_runs(root: Path, task: str | None = None, space: str | None = None) -> list[BoldRun]:
    """All runs of one task in one standard space, below a BIDS or an fMRIPrep folder.

    Without ``task`` it is the only one there is, or rest; without ``space`` MNI152NLin2009cAsym, or the only MNI space.
    """
    if not root.is_dir():
        raise ReaderError(f"{root} is not a folder; give the one fMRIPrep wrote, or the BIDS folder above it")
    places = [root, *sorted(root.glob("derivatives/*"))]
    images = {place: sorted(f for w in WHERE for f in place.glob(f"{w}/*{ENDING}")) for place in places}
    images = {place: files for place, files in images.items() if files}
    if not images:
        raise ReaderError(
            f"{root} holds no preprocessed volumes; looked for sub-*/[ses-*/]func/*{ENDING}, here and in derivatives/*"
        )
    if len(images) > 1:
        raise UsageError(f"{root} holds volumes in {listed(images)}; give one of these as the folder")
    files = _of(next(iter(images.values())), "task", task, _usual_task)
    files = _of(files, "space", space, _usual_space)
    resolutions = {entities(file).get("res", "") for file in files}
    if len(resolutions) > 1:
        raise UsageError(f"{root} holds several resolutions ({listed(sorted(resolutions))}); keep one of them")
    return [BoldRun(file) for file in files]


def _of(files: list[Path], entity: str, asked: str | None, usual: Callable[[list[str]], str]) -> list[Path]:
    present = sorted({entities(file).get(entity, "") for file in files})
    wanted = usual(present) if asked is None else asked
    if wanted not in present:
        raise unknown(entity, wanted, present)
    return [file for file in files if entities(file).get(entity, "") == wanted]


def _usual_task(present: list[str]) -> str:
    if len(present) > 1 and "rest" not in present:
        raise UsageError(f"there are several tasks; choose one with --task: {', '.join(present)}")
    return present[0] if len(present) == 1 else "rest"


def _usual_space(present: list[str]) -> str:
    standard = [space for space in STANDARD_SPACES if space in present]
    others = [space for space in present if space.startswith("MNI")]
    if standard or len(others) == 1:
        return (standard or others)[0]
    raise UsageError(
        f"atlases are in MNI space and the volumes are in {listed(present)}; choose a space with --space, "
        "or run fMRIPrep with --output-spaces MNI152NLin2009cAsym"
    )
