"""What an epoch of each method costs: processor seconds, and by how much the process grew at its peak.

Each method runs in a process of its own on one core. An epoch is the difference between a long and a short fit, so that
what happens once does not count. CORE trains one network for each group of training sites that it holds out and one
for everybody: an epoch is one pass of one of them.
"""

import multiprocessing
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

from brainroam.data.cohort import Cohort
from brainroam.utils.optional import extra


class Cost(NamedTuple):
    """Of one method: trained parameters, processor seconds an epoch, and megabytes at the peak."""

    method: str
    parameters: int
    seconds: float
    megabytes: float


def costs(cohort: Cohort, methods: Sequence[str], epochs: int = 1) -> Iterator[Cost]:
    """Measure methods that are trained in epochs, one after the other, on the people of all sites but the largest."""
    largest = cohort.table["site"].value_counts().idxmax()
    training = cohort.select([site for site in cohort.sites if site != largest])
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="brainroam-cost-") as folder:
        file = Path(folder) / "training.npz"
        training.save(file)
        with ProcessPoolExecutor(1, mp_context=spawn, max_tasks_per_child=1) as pool:
            for name in methods:
                yield pool.submit(measure, name, file, epochs).result()


def measure(name: str, data: Path, epochs: int) -> Cost:
    """The cost of one method on a saved cohort; meant for a fresh process."""
    torch = extra("torch", "torch")

    from brainroam.core.site_folds import GROUPS
    from brainroam.methods.registry import method_info

    torch.set_num_threads(1)
    cohort, info = Cohort.load(data), method_info(name)
    networks, settings = (1 + min(GROUPS, len(cohort.sites)), {"skip": "none"}) if info.self_selecting else (1, {})
    before = _peak_megabytes()
    info.make(epochs=1, **settings).fit(cohort)  # features of the cohort are computed here, once
    short, _ = _timed(info.make(epochs=1, **settings), cohort)
    long, model = _timed(info.make(epochs=1 + epochs, **settings), cohort)
    network = model.core_.reading_.network if info.self_selecting else model.network_
    parameters = sum(weights.numel() for weights in network.parameters())
    return Cost(name, parameters, (long - short) / epochs / networks, _peak_megabytes() - before)


def _timed(model, cohort: Cohort):
    start = time.process_time()
    model.fit(cohort)
    return time.process_time() - start, model


def _peak_megabytes() -> float:
    """The most that this process has held; Linux's getrusage would give that of the process it was started from."""
    status = Path("/proc/self/status")
    if status.is_file():
        return int(status.read_text().partition("VmHWM:")[2].split()[0]) / 2**10
    import resource

    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, kilobytes elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20
