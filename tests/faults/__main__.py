"""``python -m tests.faults``: break brainroam in every way we can think of, on purpose, and see whether it recovers.

Nothing finished may be lost, nothing partial accepted, a second start must complete, and the end result must be the
clean run's bytes. What is random follows from ``--seed``; what a kill after some seconds hits, also from the machine.
"""

import argparse
import itertools
import json
import os
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.faults import damage, faults, launcher
from tests.faults.bench import JOBS, Bench


def campaign(bench: Bench, n_kills: int, seed: int, quick: bool) -> dict[str, Iterator[faults.Trial]]:
    """All faults by name; kills at every single change of the file system come last, until the time is up."""
    names = list(bench.clean)
    alone = [name for name in names if "--jobs" not in name]
    some = alone[1:3] if quick else alone
    return {
        "kills": faults.kills(bench, alone * 3 + names, n_kills, seed),  # starting workers takes long
        "changes": faults.changes(bench, alone, seed, 4 if quick else 20),
        "runs": damage.runs(bench, 5 if quick else 20, seed),
        "models": damage.models(bench, 2 if quick else 8, seed),
        "stores": damage.stores(bench, 2 if quick else 8, seed),
        "disk-full": faults.full_disks(bench, some, seed, 1 if quick else 2),
        "read-only": faults.read_only(bench, some),
        "clock": faults.backwards(bench, some),
        "two-writers": faults.two_writers(bench, 2 if quick else 8, seed),
        "ctrl-c": faults.interrupts(bench, names, len(some) if quick else 3 * len(names), seed),
        "all-changes": iter(()) if quick else faults.changes(bench, alone, seed, None),
    }


def show(trials: list[faults.Trial]) -> None:
    """A table by fault and job, and every violation in words."""
    rows: dict[tuple[str, str], list[faults.Trial]] = defaultdict(list)
    for trial in trials:
        rows[trial.fault, trial.job].append(trial)
    print(f"{'fault':<22}{'job':<16}{'tried':>7}{'reached':>9}{'survived':>10}")
    for (fault, job), group in sorted(rows.items()):
        survived = sum(not trial.wrong for trial in group)
        print(f"{fault:<22}{job:<16}{len(group):>7}{sum(t.hit for t in group):>9}{survived:>10}")
    for trial in trials:
        for words in trial.wrong:
            print(f"VIOLATION: {trial.fault}, {trial.job}, {trial.detail}: {words}")


def main() -> int:
    """Parse, run, print; exit code 1 when anything was not survived."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=50, help="random kills that reach a living process")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=60, help="stop after so many minutes, whatever was done")
    parser.add_argument("--quick", action="store_true", help="each fault once")
    parser.add_argument("--jobs", default=",".join(JOBS), help="which commands")
    parser.add_argument("--only", help="only these faults: kills,ctrl-c,two-writers,...")
    parser.add_argument("--out", type=Path, help="the outcome as JSON")
    chosen = parser.parse_args()
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    began, trials = time.monotonic(), []
    with tempfile.TemporaryDirectory(prefix="brainroam-faults-") as root:
        launcher.warm_up()
        bench = Bench.set_up(Path(root), chosen.jobs.split(","))
        parts = campaign(bench, chosen.kills, chosen.seed, chosen.quick)
        wanted = chosen.only.split(",") if chosen.only else parts
        for trial in itertools.chain.from_iterable(parts[name] for name in wanted):
            trials.append(trial)
            if chosen.out:
                chosen.out.write_text(json.dumps([vars(trial) for trial in trials], indent=1) + "\n")
            if trial.wrong:
                print(f"{trial.fault}, {trial.job}, {trial.detail}: {'; '.join(trial.wrong)}", file=sys.stderr)
            if time.monotonic() - began > 60 * chosen.minutes:
                print("time is up", file=sys.stderr)
                break
    shutil.rmtree(launcher.LOGS, ignore_errors=True)
    show(trials)
    n_bad = sum(bool(trial.wrong) for trial in trials)
    n_kills = sum(trial.hit and trial.fault.startswith("kill") for trial in trials)
    seconds = time.monotonic() - began
    print(f"{len(trials)} trials, {n_kills} kills reached a process, {n_bad} not survived, {seconds:.0f} s")
    return int(n_bad > 0)


if __name__ == "__main__":
    sys.exit(main())
