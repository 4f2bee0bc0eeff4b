"""``python -m tests.fuzz``: give every reader bad input, by the thousand.

Allowed are success and errors of our own. Not allowed: any other exception, more than 10 s of computing, more than 2 GB
above what the process has at the beginning, or a file made outside the input's folder. A failing input is kept.
"""

import argparse
import json
import logging
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.targets import TARGETS, Target

from brainroam.errors import BrainroamError

SECONDS, MEMORY = 10, 2_000_000_000


class Hang(BaseException):
    """Not an Exception, so that no reader takes it for an error of a parser."""


@dataclass
class Outcome:
    """What became of the inputs of a target."""

    target: str
    read: int = 0
    refused: int = 0
    faults: Counter = field(default_factory=Counter)
    slowest: float = 0.0
    seconds: float = 0.0

    @property
    def tried(self) -> int:
        """All inputs."""
        return self.read + self.refused + sum(self.faults.values())


def fuzz(target: Target, n_inputs: int, seed: int, root: Path, keep: Path | None, until: float) -> Outcome:
    """Spoil one file at a time, read, and put it right again."""
    home = root / target.name
    home.mkdir()
    data = home / "data"
    target.build(data)
    before, files = _listing(home), {file: file.read_bytes() for file in sorted(data.rglob("*")) if file.is_file()}
    outcome, began = Outcome(target.name), time.monotonic()
    os.chdir(home)
    for i in range(n_inputs):
        if time.monotonic() > until:
            break
        rng = random.Random(f"{target.name} {seed} {i}")
        file = rng.choice(sorted(files))
        target.spoil(file, rng)
        spoilt = {path: path.read_bytes() for path in files if path.is_file()}
        start = time.process_time()
        fault = _attempt(target, data, rng, outcome)
        outcome.slowest = max(outcome.slowest, time.process_time() - start)
        if not fault and (made := _listing(home) - before):
            fault = f"made {sorted(made)[0]}"
            for name in made:
                (home / name).unlink(missing_ok=True)
        if fault:
            outcome.faults[fault] += 1
            if keep and outcome.faults[fault] == 1:
                _keep(keep / f"{target.name}-{i}", data, fault)
        for path, content in files.items():
            if spoilt.get(path) != content:
                path.write_bytes(content)
    outcome.seconds = time.monotonic() - began
    return outcome


def _attempt(target: Target, data: Path, rng: random.Random, outcome: Outcome) -> str:
    """Read once; gives the fault, if it is one."""
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        target.read(data, rng)
        outcome.read += 1
    except BrainroamError as error:
        if not target.trusted and any(isinstance(cause, MemoryError) for cause in _causes(error)):
            return "asks for more than 2 GB"
        str(error)
        outcome.refused += 1
    except Hang:
        return f"more than {SECONDS} s"
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)
        ours = next((f for f in reversed(place) if "brainroam" in f.filename), place[-1])
        return f"{type(error).__name__} from {Path(ours.filename).name}:{ours.name}: {str(error)[:80]!r}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return ""


def _causes(error: BaseException | None) -> list[BaseException]:
    found = []
    while error is not None:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


def _listing(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*")}


def _keep(folder: Path, data: Path, fault: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(data, folder)
    (folder / "FAULT.txt").write_text(fault + "\n")


def limited() -> None:
    """Bound memory and time of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    def hang(*_: object) -> None:
        raise Hang

    signal.signal(signal.SIGPROF, hang)


def main() -> int:
    """Parse, fuzz, print; exit code 1 when there was a fault."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.split("\n")[0])
    parser.add_argument("--inputs", type=int, default=20_000, help="per target")
    parser.add_argument("--reader", action="append", choices=TARGETS, help="only this target; may be repeated")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=600, help="stop after so many, each target after its share")
    parser.add_argument("--keep", type=Path, help="a folder for inputs that cause faults")
    parser.add_argument("--out", type=Path, help="the outcome as JSON")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable()
    keep = chosen.keep.absolute() if chosen.keep else None
    out, outcomes = chosen.out and chosen.out.absolute(), []
    names, began = chosen.reader or list(TARGETS), time.monotonic()
    print(f"{'target':<15}{'tried':>8}{'read':>8}{'refused':>9}{'faults':>8}{'slowest':>9}", flush=True)
    with tempfile.TemporaryDirectory(prefix="brainroam-fuzz-") as root:
        limited()
        for i, name in enumerate(names, start=1):
            until = began + 60 * chosen.minutes * i / len(names)
            outcome = fuzz(TARGETS[name], chosen.inputs, chosen.seed, Path(root), keep, until)
            outcomes.append(outcome)
            n_faults = sum(outcome.faults.values())
            counts = f"{outcome.tried:>8}{outcome.read:>8}{outcome.refused:>9}{n_faults:>8}{outcome.slowest:>8.2f}s"
            print(f"{name:<15}{counts}", flush=True)
            for fault, count in outcome.faults.most_common():
                print(f"  {count} x {fault}", flush=True)
            if out:
                out.write_text(json.dumps([vars(o) for o in outcomes], indent=1) + "\n")
        os.chdir("/")
    return int(any(outcome.faults for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
