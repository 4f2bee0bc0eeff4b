"""The whole study: CORE with every site held out in turn, as a user types it, on two cores.

    python benchmarks/bench_study.py [ABIDE_pcp]

Wall clock and processor time of the command, and the most that all its processes held together: what they share counts
once (PSS of /proc/PID/smaps_rollup, looked at four times a second), so it is known on Linux only.
"""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import abide_root, tree_megabytes

from brainroam import make_cohort

PROGRAM = [sys.executable, "-c", "from brainroam.cli import main; main()", "loso"]
OPTIONS = ["--methods", "core", "--budget", "default", "--jobs", "2", "--quiet"]


def data(scratch: Path) -> list[str]:
    """What to read: ABIDE, or as many synthetic people where it is absent."""
    root = abide_root()
    if root is not None:
        return [str(root), "--atlas", "aal", "--max-missing-rois", "1"]
    print("# no ABIDE here, synthetic stand-in of 430 people, 116 regions", flush=True)
    make_cohort(n_sites=10, n_per_site=43, n_rois=116).save(scratch / "cohort.npz")
    return [str(scratch / "cohort.npz")]


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        command = [*PROGRAM, *data(scratch), *OPTIONS, "--out", str(scratch / "runs")]
        start, peak = time.perf_counter(), 0.0
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            while process.poll() is None:
                peak = max(peak, tree_megabytes(process.pid))
                time.sleep(0.25)
        if process.returncode:
            raise SystemExit(f"the study failed with {process.returncode}")
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(
            f"core, every site held out, --jobs 2: {time.perf_counter() - start:.1f} s on the wall clock, "
            f"{used.ru_utime + used.ru_stime:.1f} s of processor time, peak {peak:.0f} MB in all processes",
            flush=True,
        )


if __name__ == "__main__":
    main()
