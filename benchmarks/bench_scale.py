"""Static connectivity, deconfounding and scaffold of cohorts larger than memory: time, memory and disk against people.

    python benchmarks/bench_scale.py [--people 500,1000,2000,4000] [--rois 360] [--volumes 120] [--memory 2GB]
                                     [--jobs 1] [--engine local] [--kind pearson] [--work DIR] [--kill]

For each number of people a synthetic store of ten sites is written in a stream, then `brainroam scaffold` runs on it as
a user would type it, and the memory of all its processes together is looked at five times a second. Seconds
are processor time, so that what else runs on the machine does not count; wall time stands beside them. The exponent is
that of seconds against people, 1 where twice the people take twice the time. With --kill the largest is also killed
half-way and started again.
"""

import argparse
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from common import tree_megabytes

from brainroam.data.store import write_store

N_SITES = 10
N_NETWORKS = 12


def make_store(path: Path, n_people: int, n_rois: int, n_volumes: int, seed: int = 0) -> Path:
    """People of ten sites with networks, site effects, age effects and a diagnostic pattern, drawn one at a time."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, n_people)
    site = np.arange(n_people) % N_SITES
    age = rng.normal(40, 10, n_people)
    table = pd.DataFrame(
        {
            "subject": [f"P{i:06d}" for i in range(n_people)],
            "site": [f"S{e:02d}" for e in site],
            "label": label,
            "age": age,
            "sex": rng.integers(0, 2, n_people).astype(float),
        }
    )
    shared = rng.normal(0, 0.35, (N_NETWORKS, n_rois))
    own = rng.normal(0, 0.15, (N_SITES, N_NETWORKS, n_rois))
    of_age, of_label = rng.normal(0, 0.08, (2, N_NETWORKS, n_rois))

    def people() -> Iterator[np.ndarray]:
        for i in range(n_people):
            draw = np.random.default_rng([seed, i])
            loading = shared + own[site[i]] + (age[i] - 40) / 10 * of_age + label[i] * of_label
            signal_part = draw.normal(size=(n_volumes, N_NETWORKS)) @ loading
            yield (signal_part + draw.normal(size=(n_volumes, n_rois))).astype(np.float32)

    return write_store(path, table, people())


def scaffold(store: Path, out: Path, options: argparse.Namespace, kill_after: int | None = None) -> dict:
    """Run the command; its processor and wall seconds, peak memory and largest use of disk."""
    code = "from brainroam.cli import main; main()"
    command = [sys.executable, "-c", code, "scaffold", str(store), "--out", str(out), "--memory", options.memory]
    command += ["--set", f"kind={options.kind}", "--set", "robust=false", "--jobs", str(options.jobs)]
    command += ["--engine", options.engine]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    peak = disk = 0.0
    while process.poll() is None:
        peak = max(peak, tree_megabytes(process.pid))
        blocks = list((out / "work").glob("*/blocks/*.npz"))
        if kill_after is not None and len(blocks) >= kill_after:
            process.send_signal(signal.SIGKILL)
        disk = max(disk, sum(f.stat().st_size for f in (out / "work").glob("*/edges/*.edges")) / 1e9)
        time.sleep(0.2)
    errors = process.stderr.read().decode() if process.stderr else ""
    if process.returncode and kill_after is None:
        raise SystemExit(errors)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    parts = [line for line in errors.splitlines() if "part" in line]
    return {
        "cpu": seconds, "wall": time.perf_counter() - start, "peak_mb": peak, "disk_gb": disk, "parts": len(parts)
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=lambda text: [int(n) for n in text.split(",")], default=[100, 200, 400])
    parser.add_argument("--rois", type=int, default=100)
    parser.add_argument("--volumes", type=int, default=120)
    parser.add_argument("--memory", default="2GB")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--engine", default="local")
    parser.add_argument("--kind", default="pearson")
    parser.add_argument("--work", type=Path, default=None)
    parser.add_argument("--kill", action="store_true")
    options = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="bench-scale-", dir=options.work))
    edges = options.rois * (options.rois - 1) // 2
    print(f"{edges} edges, {options.volumes} volumes, {options.jobs} worker(s), limit {options.memory}", flush=True)
    print(f"{'people':>7} {'cpu s':>8} {'wall s':>8} {'peak MB':>8} {'disk GB':>8} {'parts':>6}", flush=True)
    rows = []
    try:
        for n in options.people:
            store = make_store(scratch / f"{n}.zarr", n, options.rois, options.volumes)
            cost = scaffold(store, scratch / f"out-{n}", options)
            rows.append({"people": n, **cost})
            print(
                f"{n:7d} {cost['cpu']:8.1f} {cost['wall']:8.1f} {cost['peak_mb']:8.0f} {cost['disk_gb']:8.2f} "
                f"{cost['parts']:6d}",
                flush=True,
            )
        if options.kill:
            blocks = -(-edges // 1024)
            killed = scaffold(store, scratch / "torn", options, kill_after=blocks // 2)
            again = scaffold(store, scratch / "torn", options)
            same = (scratch / "torn" / "scaffold.csv").read_bytes() == (
                scratch / f"out-{n}" / "scaffold.csv"
            ).read_bytes()
            print(
                f"killed after {killed['parts']} of {cost['parts']} parts, went on with {again['parts']}; "
                f"scaffold.csv {'equal' if same else 'DIFFERENT'}",
                flush=True,
            )
        if len(rows) > 1:
            exponent = np.polyfit(np.log([r["people"] for r in rows]), np.log([r["cpu"] for r in rows]), 1)[0]
            print(f"exponent of seconds against people: {exponent:.2f}", flush=True)
        print(json.dumps(rows), flush=True)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
