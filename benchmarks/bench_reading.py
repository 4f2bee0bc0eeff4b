"""Reading: ABIDE's text files against numpy.loadtxt, and parcellated CIFTI files against nibabel, each in one run.

    python benchmarks/bench_reading.py [ABIDE_pcp] [--files 960]

Values, and the names and TR of CIFTI files, must be equal before anything is timed. The CIFTI files are made with
nibabel: 352 parcels over a surface of 32,492 vertices a side and 31,870 voxels, as HCP's pipelines write them; eight
differ in length, provenance and values, and the others are links to them. nibabel reads the eight, scaled up.
"""

import argparse
import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import nibabel as nib
import numpy as np
from common import abide_root, race, seconds
from nibabel import cifti2

from brainroam.data.readers.series import read_series

N_PARCELS, N_CORTICAL, N_DISTINCT = 352, 333, 8
SIDES = ("CIFTI_STRUCTURE_CORTEX_LEFT", "CIFTI_STRUCTURE_CORTEX_RIGHT")


def bench_text(root: Path, repeats: int = 7, n_files: int = 100) -> float:
    """Print and return the median over repeats of how many times faster brainroam reads; the values must be equal."""
    files = sorted(root.glob("cpac/filt_global/*_rois_aal.1D"))
    files = files[:: max(1, len(files) // n_files)]
    for file in files:
        np.testing.assert_array_equal(read_series(file).values, np.loadtxt(file))
    ratios = [seconds(_loop(np.loadtxt, files)) / seconds(_loop(read_series, files)) for _ in range(repeats)]
    ratio = statistics.median(ratios)
    print(
        f"reading {len(files)} ABIDE .1D files: {ratio:.1f}x a numpy.loadtxt loop "
        f"(processor time, median of {repeats}; {min(ratios):.1f} to {max(ratios):.1f}; values equal)",
        flush=True,
    )
    return ratio


def bench_parcellated(folder: Path, n_files: int) -> None:
    """Parcellated series of a whole study."""
    distinct = [_write(folder / f"{k}.ptseries.nii", k) for k in range(N_DISTINCT)]
    for file in distinct:
        ours, (values, names, tr) = read_series(file), by_nibabel(file)
        np.testing.assert_array_equal(ours.values, values)
        assert (ours.names, ours.tr) == (names, tr)
    files = [folder / f"sub-{k}.ptseries.nii" for k in range(n_files)]
    for k, file in enumerate(files):
        file.symlink_to(distinct[k % N_DISTINCT])
    race(
        f"reading {n_files} ptseries.nii",
        _loop(read_series, files),
        {"nibabel": _loop(by_nibabel, distinct)},
        repeats=1,
        share=N_DISTINCT / n_files,
    )


def by_nibabel(path: Path) -> tuple[np.ndarray, tuple[str, ...], float]:
    """Values, names and TR as nibabel gives them."""
    image = nib.load(path)
    time, parcels = (image.header.get_axis(i) for i in range(2))
    return np.asarray(image.dataobj, dtype=float), tuple(map(str, parcels.name)), float(time.step)


def _loop(read: Callable, files: Sequence[Path]) -> Callable[[], list]:
    """A loop that keeps what it reads, as loading a cohort does."""
    return lambda: [read(file) for file in files]


def _write(path: Path, k: int) -> Path:
    rng = np.random.default_rng(0)  # the same parcels in every file
    voxels = np.argwhere(np.ones((91, 109, 91), bool))[rng.permutation(91 * 109 * 91)[:31870]]
    cortical = [{SIDES[i % 2]: np.sort(rng.choice(32492, 178, replace=False))} for i in range(N_CORTICAL)]
    deep = [voxels[i :: N_PARCELS - N_CORTICAL] for i in range(N_PARCELS - N_CORTICAL)]
    parcels = cifti2.ParcelsAxis(
        [f"P{i}" for i in range(N_PARCELS)],
        [np.empty((0, 3), int)] * N_CORTICAL + deep,
        cortical + [{}] * len(deep),
        affine=np.eye(4),
        volume_shape=(91, 109, 91),
        nvertices=dict.fromkeys(SIDES, 32492),
    )
    header = cifti2.Cifti2Header.from_axes((cifti2.SeriesAxis(0, 0.8, 370 + k), parcels))
    header.matrix.metadata = cifti2.Cifti2MetaData({"Provenance": "x" * 500 + str(k)})
    values = np.random.default_rng(k).normal(size=(370 + k, N_PARCELS)).astype("f4")
    nib.save(cifti2.Cifti2Image(values, header), path)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", type=Path)
    parser.add_argument("--files", type=int, default=960)
    options = parser.parse_args()
    root = abide_root(options.data)
    if root is None:
        print("# no ABIDE here: no text is read", flush=True)
    else:
        bench_text(root)
    with tempfile.TemporaryDirectory(prefix="bench-reading-") as folder:
        bench_parcellated(Path(folder), options.files)


if __name__ == "__main__":
    main()
