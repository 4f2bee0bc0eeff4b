"""Reading ABIDE's text files: brainroam against a numpy.loadtxt loop, both on the same files in one run.

    python benchmarks/bench_reading.py [ABIDE_pcp]

Without an argument the real cohort beside the project is unpacked into the temporary folder first.
"""

import time
from pathlib import Path

import numpy as np
from common import abide_root

from brainroam.data.readers.series import read_series


def bench_reading(root: Path, repeats: int = 7, n_files: int = 100) -> float:
    """Print and return the median over repeats of how many times faster brainroam reads; the values must be equal."""
    files = sorted(root.glob("cpac/filt_global/*_rois_aal.1D"))
    files = files[:: max(1, len(files) // n_files)]
    for file in files:
        np.testing.assert_array_equal(read_series(file).values, np.loadtxt(file))
    ratios = [_seconds(np.loadtxt, files) / _seconds(read_series, files) for _ in range(repeats)]
    ratio = float(np.median(ratios))
    print(
        f"reading {len(files)} ABIDE .1D files: {ratio:.1f}x a numpy.loadtxt loop "
        f"(processor time, median of {repeats}; {min(ratios):.1f} to {max(ratios):.1f}; values equal)"
    )
    return ratio


def _seconds(read, files: list[Path]) -> float:
    """Processor time of a loop that keeps what it reads, as loading a cohort does."""
    start = time.process_time()
    kept = [read(file) for file in files]
    seconds = time.process_time() - start
    assert len(kept) == len(files)
    return seconds


def main() -> None:
    root = abide_root()
    if root is None:
        print("# no ABIDE here: nothing to read")
        return
    bench_reading(root)


if __name__ == "__main__":
    main()
