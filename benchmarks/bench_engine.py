"""Two Dask workers against one, on a grid of runs that only computes.

    python benchmarks/bench_engine.py [--repeats 3]

Both clusters are started, and the cohort is read by every worker, before the clock starts: what is compared is the
work. The load of the machine is printed, because a machine with other work on its cores cannot be twice as fast.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from brainroam import make_cohort
from brainroam.execution import engine
from brainroam.execution.dask_engine import SETTINGS, Dask, extra


def correlate(cohort, task: int) -> float:
    """About a second of computing on one core."""
    rng = np.random.default_rng(task)
    start, total = time.process_time(), 0.0
    while time.process_time() - start < 0.8:
        total += float(np.linalg.eigvalsh(np.corrcoef(rng.normal(size=(120, 200)).T))[0])
    return total


def seconds(workers: int, n_tasks: int) -> float:
    distributed = extra("dask", "distributed")
    cohort = make_cohort(n_sites=3, n_per_site=20, n_rois=20)
    with (
        extra("dask", "dask").config.set(SETTINGS),
        tempfile.TemporaryDirectory() as folder,
        distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=":0", silence_logs="CRITICAL"
        ) as cluster,
    ):
        dask = Dask(scheduler=cluster.scheduler_address, folder=Path(folder))
        list(engine.map(correlate, range(workers), cohort, workers, dask))
        start = time.perf_counter()
        list(engine.map(correlate, range(n_tasks), cohort, workers, dask))
        return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tasks", type=int, default=12)
    options = parser.parse_args()
    ratios = []
    for _ in range(options.repeats):
        one, two = seconds(1, options.tasks), seconds(2, options.tasks)
        ratios.append(one / two)
        load = os.getloadavg()[0]
        print(
            f"1 worker {one:.1f} s, 2 workers {two:.1f} s: {one / two:.2f}x (load {load:.1f} on {os.cpu_count()} cores)"
        )
    print(f"two Dask workers are {np.median(ratios):.2f}x as fast as one (median of {options.repeats})")


if __name__ == "__main__":
    main()
