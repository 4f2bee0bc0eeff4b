"""Time per epoch and peak memory of every deep baseline beside CORE, on the same people in one run.

    PYTHONPATH=. python benchmarks/bench_baselines.py [DATA] [--methods gcn,gat] [--epochs 3]

DATA is a cohort file or any folder a reader knows, of which the largest site is left out as in a leave-one-site-out
fold; without it, synthetic people of about that size. Each method runs in a process of its own on one core. Seconds are
processor time; an epoch is the difference between a long and a short fit, so that what happens once does not count.
CORE trains one network for each inner site and one for everybody: an epoch is one pass of one of them. Memory is what
the process grew by at its peak. Ratios are to the first method listed, CORE.
"""

import argparse
from pathlib import Path

from reproduction.cost import costs

from brainroam import Cohort, load_cohort, make_cohort


def people(data: Path | None) -> Cohort:
    """Ten sites; the largest is left out of the training."""
    if data is None:
        return make_cohort(n_sites=10, n_per_site=43, n_rois=116)
    return Cohort.load(data) if data.suffix == ".npz" else load_cohort(data, atlas="aal")


def deep_methods() -> list[str]:
    """CORE, and every method trained by the shared loop."""
    from brainroam.methods.deep.base import DeepMethod
    from brainroam.methods.registry import method_info, method_names

    makes = {name: method_info(name).make for name in method_names()}
    deep = [name for name, make in makes.items() if isinstance(make, type) and issubclass(make, DeepMethod)]
    return ["core", *deep]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", type=Path)
    parser.add_argument("--methods", type=lambda text: text.split(","), default=None)
    parser.add_argument("--epochs", type=int, default=3)
    options = parser.parse_args()
    print(f"{'method':12} {'parameters':>10} {'s/epoch':>8} {'ratio':>6} {'MB':>6} {'ratio':>6}")
    reference = None
    for cost in costs(people(options.data), options.methods or deep_methods(), options.epochs):
        reference = reference or cost
        ratios = cost.seconds / reference.seconds, cost.megabytes / reference.megabytes
        print(
            f"{cost.method:12} {cost.parameters:10d} {cost.seconds:8.2f} {ratios[0]:6.1f} "
            f"{cost.megabytes:6.0f} {ratios[1]:6.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
