"""The faults. Each is a generator of `Trial`: what was done to which job, and what was wrong afterwards."""

import ctypes
import os
import random
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults import launcher
from tests.faults.bench import JOBS, METHODS, Bench, finished
from tests.faults.launcher import run, said, start, strike


@dataclass
class Trial:
    """One fault injected into one job; it was survived when nothing is wrong."""

    fault: str
    job: str
    detail: str
    wrong: list[str] = field(default_factory=list)
    hit: bool = True  # False when the job had ended before the fault could reach it


def kills(bench: Bench, names: list[str], count: int, seed: int) -> Iterator[Trial]:
    """kill -9 after a random share of the job's time, sometimes twice before it may finish."""
    rng, hits, tries = random.Random(seed), 0, 0
    while hits < count and tries < 3 * count:
        name = names[tries % len(names)]
        tries += 1
        place = bench.place(name)
        for _ in range(1 + (rng.random() < 0.3)):
            after = rng.random() * bench.seconds[name]
            trial = _struck(bench, name, place, after, signal.SIGKILL)
            hits += trial.hit
            yield trial
        shutil.rmtree(place)


def interrupts(bench: Bench, names: list[str], count: int, seed: int) -> Iterator[Trial]:
    """Ctrl-C after a random share of the job's time: one line, exit code 130, no traceback."""
    rng = random.Random(seed)
    for i in range(count):
        name = names[i % len(names)]
        place = bench.place(name)
        yield _struck(bench, name, place, rng.random() * bench.seconds[name], signal.SIGINT)
        shutil.rmtree(place)


def _struck(bench: Bench, name: str, place: Path, after: float, number: int) -> Trial:
    job = JOBS[name]
    before = finished(place / job.makes)
    pid = start(job.arguments, place)
    code = strike(pid, after, number)
    trial = Trial("kill -9" if number == signal.SIGKILL else "Ctrl-C", name, f"after {after:.2f} s")
    if code == -signal.SIGKILL and launcher.orphans(pid):
        trial.wrong.append("worker processes live on")
    trial.hit = code != 0 or number != signal.SIGKILL
    if number == signal.SIGINT and code not in (0, 130):
        trial.wrong.append(f"exit code {code}: {_last(said(place))}")
    if number == signal.SIGINT and "Traceback" in said(place):
        trial.wrong.append("a traceback")
    trial.wrong += bench.wrong(name, place) + _lost(before, place / job.makes)
    trial.wrong += completed(bench, name, place)
    return trial


def changes(bench: Bench, names: list[str], seed: int, count: int | None) -> Iterator[Trial]:
    """kill -9 just before each change of the file system, in random order; ``count`` is how many, None for all."""
    points = [(name, number) for name in names for number in range(1, _n_changes(bench, name) + 1)]
    random.Random(seed).shuffle(points)
    for name, number in points[:count]:
        place = bench.place(name)
        code, _ = run(JOBS[name].arguments, place, launcher.die_at_change(number))
        trial = Trial("kill -9 at a change", name, f"before change {number}", hit=code == -signal.SIGKILL)
        trial.wrong += bench.wrong(name, place) + completed(bench, name, place)
        yield trial
        shutil.rmtree(place)


def _n_changes(bench: Bench, name: str) -> int:
    """How often a job changes the file system."""
    place = bench.place(name)
    run(JOBS[name].arguments, place, launcher.count_changes)
    n = len((place / ".changes").read_bytes())
    shutil.rmtree(place)
    return n


def full_disks(bench: Bench, names: list[str], seed: int, count: int) -> Iterator[Trial]:
    """A disk with too little room; the same command once there is more."""
    rng = random.Random(seed)
    for name in names:
        size = sum(len(content) for content in bench.clean[name].values())
        for _ in range(count):
            room = int(size * rng.uniform(0.05, 1.2)) + 4096
            with small_disk(bench.root / "disk") as disk:
                place = bench.place(name, disk.path)
                disk.leave(room)
                code, words = run(JOBS[name].arguments, place, disk.before)
                trial = Trial("disk full", name, f"{room} bytes left, {disk.how}", hit=code != 0)
                trial.wrong += refusal(code, words) if code else []
                trial.wrong += bench.wrong(name, place)
                disk.grow()
                trial.wrong += completed(bench, name, place)
            yield trial


def read_only(bench: Bench, names: list[str]) -> Iterator[Trial]:
    """A place where nothing can be written; then one where it can."""
    for name in names:
        with small_disk(bench.root / "disk") as disk:
            place = bench.place(name, disk.path)
            if not disk.lock(place):
                continue
            code, words = run(JOBS[name].arguments, place)
            disk.unlock(place)
            trial = Trial("read-only output", name, disk.how)
            trial.wrong += refusal(code, words) + bench.wrong(name, place) + completed(bench, name, place)
        yield trial


def backwards(bench: Bench, names: list[str]) -> Iterator[Trial]:
    """A clock that runs backwards, files from the future; killed in the middle, and again."""
    for name in names:
        place = bench.place(name)
        for file in place.rglob("*"):
            os.utime(file, (4e9, 4e9))
        strike(start(JOBS[name].arguments, place, launcher.clock_backwards), 0.6 * bench.seconds[name])
        for file in place.rglob("*"):
            os.utime(file, (4e9, 4e9))
        trial = Trial("clock backwards", name, "an hour at every look, files of the year 2096")
        trial.wrong += completed(bench, name, place, launcher.clock_backwards)
        yield trial
        shutil.rmtree(place)


def two_writers(bench: Bench, count: int, seed: int) -> Iterator[Trial]:
    """Two processes on one folder of runs: the same command, then halves of it; the last killed one is made good."""
    rng = random.Random(seed)
    for i in range(count):
        name, place = "loso", bench.place("loso")
        command = list(JOBS[name].arguments)
        halves = (
            [command, command]
            if i % 2 == 0
            else [_with_methods(command, slice(0, 1)), _with_methods(command, slice(1, 3))]
        )
        first = start(halves[0], place)
        second = start(halves[1], place)
        trial = Trial("two writers", name, "the same command" if i % 2 == 0 else "other methods each")
        if i % 4 == 2:
            strike(first, rng.random() * bench.seconds[name])
            trial.detail += ", one killed"
        codes = [launcher.finish(pid) for pid in ([second] if i % 4 == 2 else [first, second])]
        if any(codes):
            trial.wrong.append(f"exit codes {codes}: {_last(said(place))}")
        if i % 2 == 1:  # nobody was killed and each did its half: the tables must be complete already
            tables = ("scores.csv", "predictions.csv")
            found = {table: (place / "RUNS" / table).read_bytes() for table in tables}
            trial.wrong += [f"{t} lacks rows" for t in tables if found[t] != bench.clean[name][t]]
            shutil.rmtree(place / "RUNS" / "plans")  # two commands were planned here, one in the clean run
        trial.wrong += completed(bench, name, place)
        yield trial
        shutil.rmtree(place)


def _with_methods(command: list[str], which: slice) -> list[str]:
    i = command.index("--methods") + 1
    return [*command[:i], ",".join(METHODS.split(",")[which]), *command[i + 1 :]]


def completed(bench: Bench, name: str, place: Path, before: object = None) -> list[str]:
    """A second start must end in the clean result, and do nothing again that was finished."""
    job = JOBS[name]
    if name == "convert" and (place / job.makes).exists():
        return bench.differs(name, place)  # finished: convert never replaces a store
    kept = finished(place / job.makes)
    code, words = run(job.arguments, place, before)
    if code:
        return [f"the second start fails, exit code {code}: {_last(words)}"]
    return _lost(kept, place / job.makes) + bench.differs(name, place)


def _lost(before: dict[str, bytes], path: Path) -> list[str]:
    after = finished(path)
    return [f"the finished run {name} was lost or done again" for name in before if after.get(name) != before[name]]


def refusal(code: int, words: str) -> list[str]:
    """A fault must end in exit code 1 and a sentence."""
    said_so = "error:" in words and "Traceback" not in words
    return [] if code == 1 and said_so else [f"exit code {code} instead of an error for people: {_last(words)}"]


def _last(words: str) -> str:
    return (words.strip().splitlines() or ["(nothing said)"])[-1][:200]


class Disk:
    """A small file system of its own where we may mount one; elsewhere limits that act alike."""

    def __init__(self, path: Path) -> None:
        self.path, self._limit = path, 0
        path.mkdir(parents=True, exist_ok=True)
        self.mounted = _mount(path, 0, "size=64m")
        self.how = "tmpfs" if self.mounted else "limits of the process"

    def leave(self, room: int) -> None:
        """Leave so many bytes, by filling the rest."""
        self._limit = room
        if self.mounted:
            free = os.statvfs(self.path)
            filler = max(free.f_bavail * free.f_bsize - room, 0)
            (self.path / ".filler").write_bytes(bytes(filler))

    def before(self) -> None:
        """Set up the child."""
        if not self.mounted:
            launcher.small_files(self._limit // 4)()

    def grow(self) -> None:
        """Make room again."""
        (self.path / ".filler").unlink(missing_ok=True)

    def lock(self, place: Path) -> bool:
        """Allow no more writing."""
        if self.mounted:
            return _mount(self.path, MS_REMOUNT | MS_RDONLY, "")
        for folder in (place, *(p for p in place.rglob("*") if p.is_dir())):
            folder.chmod(0o555)
        return os.getuid() != 0  # whom nothing is forbidden

    def unlock(self, place: Path) -> None:
        """Allow it again."""
        if self.mounted:
            _mount(self.path, MS_REMOUNT, "")
        for folder in (place, *(p for p in place.rglob("*") if p.is_dir())):
            folder.chmod(0o755)

    def close(self) -> None:
        """Take it away."""
        if self.mounted:
            _libc.umount2(str(self.path).encode(), 2)
        shutil.rmtree(self.path, ignore_errors=True)


_libc = ctypes.CDLL(None, use_errno=True)
MS_RDONLY, MS_REMOUNT = 1, 32


def _mount(path: Path, flags: int, options: str) -> bool:
    with suppress(AttributeError):
        return _libc.mount(b"tmpfs", str(path).encode(), b"tmpfs", ctypes.c_ulong(flags), options.encode()) == 0
    return False


@contextmanager
def small_disk(path: Path) -> Iterator[Disk]:
    """A disk that is gone afterwards."""
    disk = Disk(path)
    try:
        yield disk
    finally:
        disk.close()
