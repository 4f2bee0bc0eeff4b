"""Estimates, before a study begins, how long it will take and which method takes most of the time.

The time of a run, in seconds of one core, is

    t = (c min(1, m / 6670)^0.25 + a (n / 1000) (m / 6670)^b)  x  tuning  x  speed of this machine

with n people, m edges or columns, and a, b and c of the method (`COSTS`; how near it comes: docs/performance.md). c is
the training of a network, which reads a limited number of pathways, and fewer where there are few edges; a table has
none, and what is chosen on inner sites takes a tenth of c. For a number core chooses more there, and a is larger. The
first run of a method also computes what all of them share, for e (n / 1000) (m / 6670)^0.9 seconds. The speed is that
of one small matrix product against the machine of those measurements. Of methods that choose their settings themselves
only core is faster with ``fast``, and none slower with ``full``. Where the folder holds finished runs of the method,
their mean replaces all of it. Of others nothing is known before. When every method has been run twice, an estimate that
was far off is said once more (`Pace`).
"""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from brainroam.data.cohort import Cohort
from brainroam.errors import listed
from brainroam.evaluation.run_records import RunSpec, Task
from brainroam.methods.registry import parse_name
from brainroam.utils.optional import one_thread


class Cost(NamedTuple):
    """What a run of a method takes, in seconds where the costs were measured."""

    a: float  # with 1,000 people and 6,670 edges
    b: float = 0.0  # the power of the number of edges
    c: float = 0.0  # training of a network
    e: float = 0.0  # more at the first run, with 1,000 people and 6,670 edges
    of_a_number: float = 1.0  # how many times larger a is for a number


COSTS = {
    "ensemble": Cost(1.2, b=0.8, e=3.8),
    "core": Cost(1.7, b=1.0, c=10.0, e=4.5, of_a_number=2.3),
    "tangent-ridge": Cost(20.5, b=1.15),
    "fc-ridge": Cost(0.16, b=0.6, e=0.1),
    "log-ridge": Cost(0.22, b=0.6, e=0.4),
    "scaffold-ridge": Cost(0.6, b=1.0, e=1.3),
    "confounds": Cost(0.05),
    "majority": Cost(0.02),
}
TUNING = {"fast": 0.5, "default": 1.0, "full": 5.0}
PRODUCT_SECONDS = 0.015  # of the product of `machine_speed`, where the costs were measured
EXPENSIVE = "tangent-ridge"  # a reference that a study can do without
EXPENSIVE_SECONDS = 240.0  # seconds from which on it is left out where it takes more than all other methods together
FAR = 1.5  # how many times more or less it takes before an estimate is corrected
WORTH_SAYING = 10.0  # seconds below which nobody wants to know


@dataclass(frozen=True)
class Estimate:
    """Seconds of one core for each method whose time is known, and the names of the others."""

    seconds: Mapping[str, float]
    unknown: Sequence[str] = ()

    @property
    def total(self) -> float:
        """Seconds of one core of everything that is known."""
        return sum(self.seconds.values())

    def text(self, n_runs: int, jobs: int = 1) -> str:
        """In words; empty where it is not worth saying.

        >>> Estimate({"core": 100.0, "tangent-ridge": 500.0}).text(20)
        '20 runs, about 10 min; tangent-ridge takes about 8 min of it, a reference that a study can do without'
        """
        total = self.total / jobs
        parts = []
        if total >= WORTH_SAYING:
            dearest = max(self.seconds, key=lambda name: self.seconds[name])
            share = self.seconds[dearest] / jobs
            also = f"; {dearest} takes about {duration(share)} of it" if len(self.seconds) > 1 else ""
            if dearest == EXPENSIVE and self.seconds[dearest] >= max(EXPENSIVE_SECONDS, self.total / 2):
                also += ", a reference that a study can do without"
            parts.append(f"about {duration(total)}{also}")
        if self.unknown:
            parts.append(f"the time of {listed(self.unknown)} is not known before the first run")
        return f"{n_runs} runs, {'; '.join(parts)}" if parts else ""


def duration(seconds: float) -> str:
    """As people say it.

    >>> duration(12.3), duration(340), duration(9000)
    ('12 s', '6 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def estimate(
    tasks: Iterable[Task], cohort: Cohort, finished: Iterable[tuple[RunSpec, Mapping[str, Any]]] = ()
) -> Estimate:
    """The time of these runs on this machine, one after another; runs that are ``finished`` are the best evidence."""
    measured: dict[str, list[float]] = {}
    for spec, outcome in finished:
        if outcome.get("status") == "done":
            measured.setdefault(spec.name, []).append(float(outcome["seconds"]))
    seconds: dict[str, float] = {}
    unknown: dict[str, None] = {}
    for task in tasks:
        name = task.spec.name
        if name in measured:
            seconds[name] = seconds.get(name, 0.0) + float(np.mean(measured[name]))
        elif task.spec.method in COSTS:
            method, size = task.spec.method, (len(cohort), cohort.n_features)
            what = {"table": cohort.measure == "table", "number": cohort.target.is_number}
            if name not in seconds:
                seconds[name] = first_seconds(method, *size) * machine_speed()
            seconds[name] += reference_seconds(method, *size, **what) * _tuning_factor(task) * machine_speed()
        else:
            unknown[name] = None
    return Estimate(seconds, list(unknown))


class Pace:
    """An estimate that the first runs correct, once: by the second of each method, as the first also computes what all
    of them share."""

    def __init__(
        self, tasks: Sequence[Task], cohort: Cohort, finished: Iterable[tuple[RunSpec, Mapping[str, Any]]] = ()
    ) -> None:
        self.before = estimate(tasks, cohort, finished)
        self._tasks, self._cohort = tasks, cohort
        self._awaited = {name: min(n, 2) for name, n in Counter(task.spec.name for task in tasks).items()}
        self._timed: list[tuple[RunSpec, Mapping[str, Any]]] = []

    def after(self, spec: RunSpec, outcome: Mapping[str, Any], jobs: int = 1) -> str:
        """A corrected estimate in words, where the first one was far off; else nothing."""
        if not self._awaited[spec.name]:
            return ""
        self._awaited[spec.name] -= 1
        if not self._awaited[spec.name]:
            self._timed.append((spec, outcome))
        if any(self._awaited.values()):
            return ""
        now = estimate(self._tasks, self._cohort, self._timed)
        near = self.before.total / FAR < now.total < FAR * self.before.total
        text = now.text(len(self._tasks), jobs)
        return f"by the first runs: {text}" if text and (self.before.unknown or not near) else ""


def reference_seconds(method: str, n_people: int, n_edges: int, table: bool = False, number: bool = False) -> float:
    """The time of one run where the costs were measured.

    >>> round(reference_seconds("tangent-ridge", 182, 61776), 1)
    48.3
    >>> round(reference_seconds("core", 1034, 6670), 1), round(reference_seconds("core", 1035, 259, table=True), 1)
    (11.8, 1.1)
    """
    cost, size = COSTS[method], n_edges / 6670
    training = 0.1 * cost.c if table else cost.c * min(1.0, size) ** 0.25
    linear = cost.a * (n_people / 1000) * size**cost.b
    return training + (linear * cost.of_a_number if number else linear)


def first_seconds(method: str, n_people: int, n_edges: int) -> float:
    """The additional time of the first run where the costs were measured."""
    return COSTS[method].e * (n_people / 1000) * (n_edges / 6670) ** 0.9


def _tuning_factor(task: Task) -> float:
    if task.info.self_selecting and not (task.info.fast and task.spec.tuning == "fast"):
        return 1.0
    return TUNING[task.spec.tuning]


@cache
def machine_speed() -> float:
    """How much longer one core of this machine takes for a matrix product than where the costs were measured."""
    x = np.random.default_rng(0).normal(size=(400, 4000))
    with one_thread():
        _ = x @ x.T
        times = []
        for _ in range(3):
            start = time.process_time()
            _ = x @ x.T
            times.append(time.process_time() - start)
    return max(min(times), 1e-4) / PRODUCT_SECONDS


def without_expensive(methods: Sequence[str], cohort: Cohort, n_folds: int) -> tuple[list[str], str]:
    """Methods that nobody chose by name, without a reference that would take most of the time; and why, in words.

    It does not depend on the machine: the same data have the same methods everywhere.
    """
    names = [parse_name(name)[0] for name in methods]
    costs = {name: n_folds * reference_seconds(name, len(cohort), cohort.n_features) for name in names if name in COSTS}
    dear = costs.pop(EXPENSIVE, 0.0)
    if dear < EXPENSIVE_SECONDS or dear < sum(costs.values()):
        return list(methods), ""
    without = [name for name in methods if name != EXPENSIVE]
    others = duration(sum(costs.values()))
    return without, (
        f"{EXPENSIVE} is left out: about {duration(dear)} of one core for {len(cohort)} people and {cohort.n_rois} "
        f"regions, {others} for the other methods together; --methods {','.join(methods)} runs it"
    )
