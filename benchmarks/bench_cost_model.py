"""What the out-of-core scaffold costs: a model in people N, volumes T, regions P and sites E, fitted and then checked.

    python benchmarks/bench_cost_model.py [--check 1000,300,150,10] [--quick]

Processor seconds of the two passes are measured on a grid of small synthetic stores, with M = P (P - 1) / 2 edges:

    pass 1 = N (r T P + g T P^2 + w M)          read and check, correlate, write
    pass 2 = h N M + s E M                      robust regressions and means, per person and per site

The constants are fitted with relative weights, compared with a larger store that was not used for the fit, and carried
to a biobank. Disk is 8 N M bytes written and as many read; memory is what `--memory` says.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from bench_scale import make_store
from scipy.optimize import nnls
from threadpoolctl import threadpool_limits

from brainroam.core.connectivity import EdgeKind
from brainroam.core.deconfound import SiteDeconfounder
from brainroam.core.site_statistics import site_statistics
from brainroam.execution.out_of_core import StoredCohort, write_edges

GRID = [  # people, regions, volumes
    (150, 80, 100),
    (300, 80, 100),
    (150, 160, 100),
    (300, 160, 100),
    (150, 160, 300),
    (300, 120, 300),
    (600, 120, 100),
    (600, 60, 200),
    (150, 240, 120),
    (2000, 60, 100),
    (4000, 40, 60),
]
BIOBANK = (40_000, 360, 490, 22)
DISK = 500e6  # bytes per second of a shared file system, an assumption to change


def measure(n_people: int, n_rois: int, n_volumes: int) -> tuple[float, float]:
    """Processor seconds of pass 1 and pass 2, on one core."""
    with tempfile.TemporaryDirectory(prefix="bench-cost-") as scratch, threadpool_limits(1):
        store = make_store(Path(scratch) / "c.zarr", n_people, n_rois, n_volumes)
        cohort = StoredCohort(store, Path(scratch) / "work")
        start = time.process_time()
        write_edges(cohort, [EdgeKind("pearson")])
        middle = time.process_time()
        site_statistics(cohort, cohort.covariates(), SiteDeconfounder(slopes="shrunken"), contrast="mean")
        return middle - start, time.process_time() - middle


def terms(n: int, p: int, t: int, e: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """The terms of the model for both passes."""
    m = p * (p - 1) / 2
    return np.array([n * t * p, n * t * p**2, n * m]), np.array([n * m, e * m])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", type=lambda text: [int(x) for x in text.split(",")], default=[1200, 240, 200])
    parser.add_argument("--quick", action="store_true", help="a smaller grid")
    options = parser.parse_args()
    measure(40, 20, 40)  # imports and first calls do not count
    grid = GRID[:4] if options.quick else GRID
    seconds = np.array([measure(*point) for point in grid])
    for point, (one, two) in zip(grid, seconds, strict=True):
        print(f"N={point[0]:5d} P={point[1]:4d} T={point[2]:4d}: pass 1 {one:6.2f} s, pass 2 {two:6.2f} s", flush=True)
    constants = []
    for which in (0, 1):
        design = np.array([terms(*point)[which] for point in grid])
        constants.append(nnls(design / seconds[:, which, None], np.ones(len(grid)))[0])
    (r, g, w), (h, s) = constants
    print(f"r = {r:.2e}, g = {g:.2e}, w = {w:.2e}, h = {h:.2e}, s = {s:.2e} seconds per unit")
    n, p, t = options.check
    measured = measure(n, p, t)
    predicted = [float(x @ c) for x, c in zip(terms(n, p, t), constants, strict=True)]
    for name, a, b in zip(("pass 1", "pass 2"), measured, predicted, strict=True):
        print(f"check at N={n} P={p} T={t}, {name}: measured {a:.1f} s, predicted {b:.1f} s, {b / a - 1:+.0%}")
    n, p, t, e = BIOBANK
    m = p * (p - 1) // 2
    one, two = (float(x @ c) for x, c in zip(terms(n, p, t, e), constants, strict=True))
    disk = 8 * n * m
    print(f"biobank, N={n} P={p} T={t} E={e}: pass 1 {one:.0f} s, pass 2 {two:.0f} s, disk {disk / 1e9:.0f} GB")
    for workers in (1, 8, 64):
        computing, moving = (one + two) / workers, (2 * disk + 4 * n * t * p) / DISK
        print(
            f"{workers:3d} workers: {computing / 60:6.1f} min computing, {moving / 60:4.1f} min for the disk at "
            f"{DISK / 1e6:.0f} MB/s; the longer of the two at best"
        )


if __name__ == "__main__":
    main()
