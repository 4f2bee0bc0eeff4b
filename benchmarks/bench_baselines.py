"""Time per epoch and peak memory of every deep baseline beside CORE, on the same people in one run.

    python benchmarks/bench_baselines.py [DATA] [--methods gcn,gat] [--epochs 3]

DATA is a cohort file or any folder a reader knows, of which the largest site is left out as in a leave-one-site-out
fold; without it, synthetic people of about that size. Each method runs in a process of its own on one core. Seconds are
processor time; an epoch is the difference between a long and a short fit, so that what happens once does not count.
CORE trains one network for each inner site and one for everybody: an epoch is one pass of one of them. Memory is what
the process grew by at its peak. Ratios are to the first method listed, CORE.
"""

import argparse
import multiprocessing
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

from brainroam import Cohort, load_cohort, make_cohort


class Cost(NamedTuple):
    name: str
    parameters: int
    seconds: float
    megabytes: float


def training_people(data: Path | None) -> Cohort:
    """A leave-one-site-out training set."""
    if data is None:
        return make_cohort(n_sites=9, n_per_site=43, n_rois=116)
    cohort = Cohort.load(data) if data.suffix == ".npz" else load_cohort(data, atlas="aal")
    largest = cohort.table["site"].value_counts().idxmax()
    return cohort.select([site for site in cohort.sites if site != largest])


def measure(name: str, data: Path | None, epochs: int) -> Cost:
    """The cost of one method, in a fresh process."""
    import torch

    from brainroam.methods.registry import method_info
    from brainroam.methods.tuning import inner_folds

    torch.set_num_threads(1)
    cohort, info = training_people(data), method_info(name)
    networks = 1 + len(list(inner_folds(cohort, "full", 0))) if info.self_selecting else 1
    before = _peak_megabytes()
    info.make(epochs=1).fit(cohort)  # features of the cohort are computed here, once
    short, _ = _timed(info.make(epochs=1), cohort)
    long, model = _timed(info.make(epochs=1 + epochs), cohort)
    parameters = sum(p.numel() for p in getattr(model, "classifier_", model).network_.parameters())
    return Cost(name, parameters, (long - short) / epochs / networks, _peak_megabytes() - before)


def _timed(model, cohort: Cohort):
    start = time.process_time()
    model.fit(cohort)
    return time.process_time() - start, model


def _peak_megabytes() -> float:
    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, kilobytes elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


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
    spawn, reference = multiprocessing.get_context("spawn"), None
    with ProcessPoolExecutor(1, mp_context=spawn, max_tasks_per_child=1) as pool:
        for name in options.methods or deep_methods():
            cost = pool.submit(measure, name, options.data, options.epochs).result()
            reference = reference or cost
            ratios = cost.seconds / reference.seconds, cost.megabytes / reference.megabytes
            print(
                f"{cost.name:12} {cost.parameters:10d} {cost.seconds:8.2f} {ratios[0]:6.1f} "
                f"{cost.megabytes:6.0f} {ratios[1]:6.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
