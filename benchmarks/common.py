"""What the benchmarks share: the people, the clock, and the line that is printed."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from brainroam import Cohort, load_cohort, make_cohort

SHORT = 0.1  # seconds
REAL = Path(__file__).resolve().parents[2] / "shared" / "data" / "abide10"


@cache
def abide_root(given: Path | None = None) -> Path | None:
    """The real ABIDE tree: the folder given, or the one beside the project, unpacked once."""
    if given is not None:
        return given
    if not (REAL / "unpack").is_file():
        return None
    target = Path(tempfile.gettempdir()) / "brainroam-benchmarks"
    if not target.is_dir():
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            subprocess.run([sys.executable, REAL / "unpack", scratch], check=True, capture_output=True)
            os.rename(scratch, target)
            os.mkdir(scratch)
    return target / "ABIDE_pcp"


@cache
def people(atlas: str = "aal", root: Path | None = None) -> Cohort:
    """The 435 people of ten ABIDE sites, or synthetic people of the same number where ABIDE is absent; says which."""
    root = abide_root(root)
    if root is not None:
        cohort = load_cohort(root, atlas=atlas, max_missing_rois=1)
        print(f"# {atlas}: real ABIDE, {len(cohort)} people, {cohort.n_rois} regions", flush=True)
        return cohort
    n_rois = {"aal": 116, "cc200": 200}[atlas]
    print(f"# {atlas}: no ABIDE here, synthetic stand-in of 430 people, {n_rois} regions", flush=True)
    return make_cohort(n_sites=10, n_per_site=43, n_rois=n_rois)


def training_people(atlas: str = "aal", root: Path | None = None) -> Cohort:
    """A leave-one-site-out training set: all sites but the largest."""
    cohort = people(atlas, root)
    largest = cohort.table["site"].value_counts().idxmax()
    return cohort.select([site for site in cohort.sites if site != largest])


def seconds(call: Callable[[], object]) -> float:
    """Processor time of one call on one core: what else runs on the machine then counts little.

    A short call is repeated, as `timeit` does: alone it would measure what the competitor before it left in the caches.
    """
    with threadpool_limits(1):
        start, calls, spent = time.process_time(), 0, 0.0
        while spent < SHORT:
            call()
            calls, spent = calls + 1, time.process_time() - start
        return spent / calls


def race(stage: str, ours: Callable, others: dict[str, Callable], repeats: int = 5, share: float = 1.0) -> float:
    """Ours and each competitor in turn, ``repeats`` times; print medians of the seconds and of the ratios.

    ``share`` is the part of the work that the competitors do, for those too slow to do all of it.
    """
    ours()  # caches and first-use costs are nobody's
    mine, theirs = [], {name: [] for name in others}
    for _ in range(repeats):
        mine.append(seconds(ours))
        for name, call in others.items():
            theirs[name].append(seconds(call) / share)
    for name, times in theirs.items():
        ratios = [theirs_once / ours_once for theirs_once, ours_once in zip(times, mine, strict=True)]
        print(
            f"{stage:34} {statistics.median(mine):9.4f} s | {name:34} {statistics.median(times):9.4f} s "
            f"| {statistics.median(ratios):7.1f}x  ({min(ratios):.1f} to {max(ratios):.1f})",
            flush=True,
        )
    return statistics.median(mine)


def growth(stage: str, what: str, sizes: Sequence[float], calls: Sequence[Callable], repeats: int = 3) -> float:
    """Print and return the exponent b of cost ~ size^b, fitted to the medians on a log-log line."""
    for call in calls:
        call()
    cost = [statistics.median(seconds(call) for _ in range(repeats)) for call in calls]
    exponent = float(np.polyfit(np.log(sizes), np.log(cost), 1)[0])
    points = ", ".join(f"{size:g}: {second:.4f} s" for size, second in zip(sizes, cost, strict=True))
    print(f"{stage:34} grows with {what} to the power {exponent:.2f}   ({points})", flush=True)
    return exponent


class Cost(NamedTuple):
    """What a command took: seconds on the clock and of processor time, and its peak memory."""

    wall: float
    processor: float
    megabytes: float

    def __str__(self) -> str:
        return f"{self.wall:8.1f} s, {self.processor:8.1f} s of processor time, peak {self.megabytes:6.0f} MB"


def command_cost(
    arguments: Sequence[str], source: Path | None = None, kill_when: Callable[[], bool] | None = None
) -> Cost:
    """Run `brainroam` as typed, of the checkout whose ``src`` is ``source`` if given; stop where it fails.

    With ``kill_when`` it is killed as soon as that says so.
    """
    program = [sys.executable, "-c", "from brainroam.cli import main; main()", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    if source is not None:
        environment["PYTHONPATH"] = str(source.resolve())
    start, peak, used = time.perf_counter(), 0.0, dict[int, float]()
    with subprocess.Popen(program, stdout=subprocess.DEVNULL, env=environment) as process:
        while process.poll() is None:
            tree = processes_of(process.pid)
            used |= tree
            peak = max(peak, megabytes_of(tree))
            if kill_when is not None and kill_when():
                process.kill()
            time.sleep(0.2)
    wall = time.perf_counter() - start
    if process.returncode and kill_when is None:
        raise SystemExit(f"brainroam {' '.join(arguments)} failed with {process.returncode}")
    return Cost(wall, sum(used.values()), peak)


def processes_of(root: int) -> dict[int, float]:
    """A process and all below it, on Linux, with the processor seconds each has used so far.

    Looked at while they run: workers are not children of the command but of a server, whose time is nobody's.
    """
    children, seconds = dict[int, list[int]](), dict[int, float]()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it may have just ended
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            children.setdefault(int(fields[1]), []).append(int(folder.name))
            seconds[int(folder.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    tree = [root]
    for process in tree:
        tree += children.get(process, [])
    return {process: seconds[process] for process in tree if process in seconds}


def megabytes_of(processes: Iterable[int]) -> float:
    """Memory of some processes; a page that several of them map counts once (PSS)."""
    kilobytes = 0
    for process in processes:
        with suppress(OSError):
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
            kilobytes += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return kilobytes / 2**10
