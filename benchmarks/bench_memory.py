"""Peak memory of CORE's fit at 400 regions (79,800 edges) and 1,000 people: an atlas finer than any in use here.

    python benchmarks/bench_memory.py [people] [regions]

The people are synthetic; one epoch is trained, since more take time and no memory.
"""

import resource
import sys
import time

from brainroam import make_cohort
from brainroam.methods.core import Core


def peak_gigabytes() -> float:
    """The most this process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**30 if sys.platform == "darwin" else 2**20)


if __name__ == "__main__":
    n_people, n_rois = (int(sys.argv[k]) if len(sys.argv) > k else default for k, default in ((1, 1000), (2, 400)))
    cohort = make_cohort(n_sites=10, n_per_site=n_people // 10, n_rois=n_rois)
    print(f"{len(cohort)} people, {n_rois} regions: {peak_gigabytes():.2f} GB before the fit", flush=True)
    start = time.process_time()
    Core(epochs=1).fit(cohort)
    print(f"peak {peak_gigabytes():.2f} GB, {time.process_time() - start:.0f} s of processor time", flush=True)
