"""Methods that keep features made with labels from fold to fold, in cohorts whose labels mean nothing.

    python -m tests.audit.memory_study [-n 16]

The AUC each reaches over held-out sites by its memory alone, and in how many cohorts the audit's check `memory` fails.
"""

import argparse

from tests.audit import planted

from brainroam.audit.candidates import candidate
from brainroam.audit.fresh import FreshProcesses
from brainroam.audit.leaks import leak_checks
from brainroam.audit.shortcuts import mean_order
from brainroam.data.synthetic import make_cohort

KEEPING = [method for method in planted.LEAKS if isinstance(method, type) and issubclass(method, planted.Keeping)]


def main() -> None:
    """Print one line per method."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=16, help="cohorts")
    cohorts = [
        make_cohort(n_sites=4, n_per_site=16, n_rois=10, effect=0.0, seed=100 + k) for k in range(parser.parse_args().n)
    ]
    with FreshProcesses() as processes:
        for method in (*KEEPING, "fc-ridge"):
            item = candidate(method)
            aucs = [processes.of(item)(mean_order, cohort) for cohort in cohorts]
            checks = [check for k, people in enumerate(cohorts) for check in leak_checks(item, people, processes, k)]
            caught = sum(check.passed is False for check in checks if check.name == "memory")
            print(
                f"{item.name}: AUC {min(aucs):.2f} to {max(aucs):.2f}, caught in {caught} of {len(cohorts)}", flush=True
            )


if __name__ == "__main__":
    main()
