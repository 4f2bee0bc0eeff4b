"""What is put under stress: commands on a tiny cohort, the state they must never leave, the result they must end in."""

import json
import re
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from tests.faults import launcher

from brainroam.data.cohort import Cohort
from brainroam.data.synthetic import make_cohort
from brainroam.utils.crate import CRATE

METHODS = "fc-ridge,log-ridge,majority"  # core is in the jobs that fit
TABLES = ("scores.csv", "predictions.csv")  # grow by a run at a time: complete rows of finished runs at any moment
SHRUNK = ["--set", "budget=3", "--set", "updates=4", "--tuning", "fast"]


@dataclass(frozen=True)
class Job:
    """A command, what it needs, and what it makes; ``older`` is what stands in the place of its result."""

    name: str
    arguments: tuple[str, ...]
    makes: str
    needs: tuple[str, ...] = ("cohort.npz",)
    older: str | None = None


JOBS = {
    job.name: job
    for job in (
        Job("fit", ("fit", "cohort.npz", "--out", "model", *SHRUNK), "model"),
        Job("fit again", ("fit", "cohort.npz", "--out", "model", *SHRUNK), "model", older="older-model"),
        Job("loso", ("loso", "cohort.npz", "--methods", METHODS, "--tuning", "fast", "--out", "RUNS"), "RUNS"),
        Job(
            "loso --jobs 2",
            ("loso", "cohort.npz", "--methods", METHODS, "--tuning", "fast", "--out", "RUNS", "--jobs", "2"),
            "RUNS",
        ),
        Job("convert", ("convert", "people", "--out", "cohort.zarr"), "cohort.zarr", ("people",)),
        Job("report", ("report", "RUNS", "--out", "report.html"), "report.html", ("RUNS",)),
        Job(
            "scaffold",
            ("scaffold", "cohort.zarr", "--out", "scaffold", "--memory", "1GB"),
            "scaffold",
            ("cohort.zarr",),
        ),
        Job("run", ("run", "study.yaml"), "results", ("cohort.npz", "study.yaml")),
    )
}


@dataclass
class Bench:
    """A folder with the inputs, the clean result of every job and how long it took."""

    root: Path
    clean: dict[str, dict[str, bytes]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    _n_places: int = 0

    @classmethod
    def set_up(cls, root: Path, names: list[str]) -> "Bench":
        """Make the inputs, and run every job once without any fault."""
        bench = cls(root)
        bench.store.mkdir(parents=True)
        cohort = make_cohort(n_sites=3, n_per_site=12, n_rois=10, seed=0)
        cohort.save(bench.store / "cohort.npz")
        _as_folder(cohort, bench.store / "people")
        (bench.store / "study.yaml").write_text("data: cohort.npz\nmethods: [fc-ridge, majority]\ntuning: fast\n")
        bench._make(
            "older-model", ("fit", "cohort.npz", "--out", "older-model", "--method", "fc-ridge", "--tuning", "fast")
        )
        bench._make("RUNS", JOBS["loso"].arguments)
        bench._make("cohort.zarr", JOBS["convert"].arguments)
        for name in names:
            place, began = bench.place(name), time.monotonic()
            code, words = launcher.run(JOBS[name].arguments, place)
            bench.seconds[name] = time.monotonic() - began
            if code:
                raise RuntimeError(f"{name} fails without any fault, exit code {code}:\n{words}")
            bench.clean[name] = state(place / JOBS[name].makes)
            shutil.rmtree(place)
        return bench

    @property
    def store(self) -> Path:
        """Where the inputs are kept."""
        return self.root / "inputs"

    def _make(self, makes: str, arguments: tuple[str, ...]) -> None:
        code, words = launcher.run(arguments, self.store)
        if code:
            raise RuntimeError(f"{makes} could not be made, exit code {code}:\n{words}")

    def place(self, name: str, root: Path | None = None) -> Path:
        """A fresh folder with what a job needs."""
        self._n_places += 1
        job, place = JOBS[name], (root or self.root / "places") / f"{self._n_places:04d}"
        place.mkdir(parents=True)
        for item in job.needs:
            copy(self.store / item, place / item)
        if job.older:
            copy(self.store / job.older, place / job.makes)
        return place

    def wrong(self, name: str, place: Path) -> list[str]:
        """What may not be there in the middle of a job: anything but parts of the clean result, each of them whole."""
        job, clean = JOBS[name], self.clean[name]
        found = state(place / job.makes)
        if job.older and found == state(self.store / job.older):
            return []
        lost = ["neither the old result nor the new one is there"] if job.older and not found else []
        return lost + [
            f"{file} is partial or strange" for file, content in found.items() if not _fits(file, content, clean)
        ]

    def differs(self, name: str, place: Path) -> list[str]:
        """In what the end result is not the clean one."""
        found, clean = state(place / JOBS[name].makes), self.clean[name]
        return [
            f"{file} {'is missing' if file not in found else 'differs' if file in clean else 'is too much'}"
            for file in sorted(found.keys() | clean.keys())
            if found.get(file) != clean.get(file)
        ]


def _as_folder(cohort: Cohort, folder: Path) -> None:
    """The cohort as users keep theirs: a table and a text file for each person."""
    folder.mkdir()
    columns = {"subject": "participant_id", "label": "diagnosis"}
    cohort.table.rename(columns=columns).to_csv(folder / "participants.csv", index=False)
    for subject, x in zip(cohort.table["subject"], cohort.series, strict=True):
        np.savetxt(folder / f"{subject}.csv", x, "%.6f", ",")


def copy(source: Path, target: Path) -> None:
    """Copy a file or a folder."""
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copyfile(source, target)


def state(path: Path) -> dict[str, bytes]:
    """Every file of a result by name, without unfinished files of a killed process and the times in run files."""
    if path.is_file():
        return {path.name: path.read_bytes()}
    files = [file for file in path.rglob("*") if file.is_file()]
    names = {file.relative_to(path): file for file in files}
    return {
        name.as_posix(): _content(file)
        for name, file in sorted(names.items())
        if not any(part.startswith(".") for part in name.parts) and name.parts[0] != "work"
    }


def finished(path: Path) -> dict[str, bytes]:
    """The run files of a folder, every byte of them."""
    return {file.name: file.read_bytes() for file in path.rglob("runs/*.json")}


def _content(file: Path) -> bytes:
    if file.name == CRATE:
        return re.sub(rb'"datePublished": "[^"]*"', b"", file.read_bytes())  # a study may cross midnight
    if file.parent.name != "runs" or file.suffix != ".json":
        return file.read_bytes()
    try:
        content = json.loads(file.read_bytes())
        del content["seconds"], content["date"], content["checksum"]  # a clock that runs backwards crosses midnight
    except (ValueError, KeyError, TypeError):
        return file.read_bytes()
    return json.dumps(content, sort_keys=True).encode()


def _fits(file: str, content: bytes, clean: dict[str, bytes]) -> bool:
    if file not in clean:
        return False
    if Path(file).name not in TABLES:
        return content == clean[file]
    lines, whole = content.splitlines(keepends=True), clean[file].splitlines(keepends=True)
    remaining = iter(whole)
    return lines[:1] == whole[:1] and all(line in remaining for line in lines)
