"""Tangent space of a fold's training people against nilearn: processor time, and who is nearer to the true mean.

    python benchmarks/bench_tangent.py [ABIDE_pcp]

Both start from the series and return the edges of the training people (Ledoit-Wolf covariances, reference, logarithms).
The distance of a reference is the largest entry of the mean logarithm there, which is zero at the geometric mean.
"""

import argparse
import statistics
import warnings
from pathlib import Path

import numpy as np
from common import seconds, training_people
from nilearn.connectome import ConnectivityMeasure

from brainroam.core.connectivity import nilearn_order
from brainroam.core.tangent import TangentEdges, covariances, spectral

REPEATS = 3  # of each, in turn


def distance(matrices: np.ndarray, reference: np.ndarray) -> float:
    """Largest entry of the mean logarithm at a reference, by its definition."""
    whitening = spectral(reference, lambda w: 1 / np.sqrt(w))
    mean = sum(spectral(whitening @ c @ whitening, np.log) for c in matrices) / len(matrices)
    return float(np.abs(mean).max())


def bench_tangent(data: Path | None, atlas: str) -> None:
    """Print the ratio and both distances."""
    cohort = training_people(atlas, data)
    cohort = cohort.subset(np.flatnonzero(~cohort.missing_rois.any(axis=1)))
    series = cohort.series
    ours, theirs = TangentEdges(), ConnectivityMeasure(kind="tangent", vectorize=True, discard_diagonal=True)
    found, expected = [ours.fit_transform(series)], []  # first-use costs are nobody's
    mine, other = (
        statistics.median(times)
        for times in zip(
            *(
                (
                    seconds(lambda: found.append(ours.fit_transform(series))),
                    seconds(lambda: expected.append(theirs.fit_transform(series))),
                )
                for _ in range(REPEATS)
            ),
            strict=True,
        )
    )
    matrices = covariances(series)
    gap = np.abs(found[0] - expected[0][:, nilearn_order(cohort.n_rois)]).max()
    print(
        f"tangent {atlas}, {len(series)} people: {mine:.2f} s | nilearn {other:.2f} s | {other / mine:.1f}x; distance "
        f"from the mean {distance(matrices, ours.reference_):.0e} | nilearn {distance(matrices, theirs.mean_):.0e}; "
        f"edges differ by {gap:.0e}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", type=Path)
    options = parser.parse_args()
    warnings.filterwarnings("ignore", module="nilearn")  # its descent stops unconverged
    for atlas in ("aal", "cc200"):
        bench_tangent(options.data, atlas)


if __name__ == "__main__":
    main()
