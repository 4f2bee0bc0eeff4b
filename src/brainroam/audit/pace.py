"""How long an audit takes: before it begins, and again by the first runs of each method.

The leak checks of a method take about as long as `RUNS_OF_LEAKS` runs of one fold in a fresh process, each permutation
of the labels as a third of a run for each site. Before the audit a run takes what `brainroam.evaluation.duration` says;
once the check `FIRST`, which is one run, is done, as long as that.
"""

import time
from collections.abc import Sequence

from brainroam.audit.candidates import Candidate, MethodCandidate
from brainroam.audit.leaks import usable_sites
from brainroam.data.cohort import Cohort
from brainroam.errors import listed
from brainroam.evaluation.duration import (
    COSTS,
    WORTH_SAYING,
    duration,
    first_seconds,
    machine_speed,
    reference_seconds,
)
from brainroam.execution.progress import Advance
from brainroam.methods.registry import is_ours

RUNS_OF_LEAKS = 19
FIRST, LEFT = "names", 15  # runs after that check
QUICK = 1 / 3  # of a run, without tuning


def expected(candidates: Sequence[Candidate], cohort: Cohort, permutations: int) -> str:
    """What the audit will take, in words; empty where that is not worth saying.

    >>> import brainroam
    >>> from brainroam.audit.candidates import candidate
    >>> expected([candidate("fc-ridge")], brainroam.make_cohort(n_sites=3, n_per_site=8, n_rois=8), 19)
    ''
    """
    n_runs = RUNS_OF_LEAKS + _runs_of_permutations(cohort, permutations)
    seconds, unknown = dict[str, float](), list[str]()
    size = len(cohort), cohort.n_features
    what = {"table": cohort.measure == "table", "number": cohort.target.is_number}
    for item in candidates:
        method = item.info.name if isinstance(item, MethodCandidate) and is_ours(item.info) else ""
        if method in COSTS:
            once = reference_seconds(method, *size, **what) + first_seconds(method, *size)
            seconds[item.name] = n_runs * once * machine_speed()
        else:
            unknown.append(item.name)
    if (total := sum(seconds.values())) < WORTH_SAYING:
        return ""
    each = listed(f"{name} {duration(taken)}" for name, taken in seconds.items()) if len(seconds) > 1 else ""
    also = f"; the time of {listed(unknown)} is not known before the first run" if unknown else ""
    return f"the audit takes about {duration(total)}" + (f" ({each})" if each else "") + also


def _runs_of_permutations(cohort: Cohort, permutations: int) -> float:
    return QUICK * (permutations + 1) * len(usable_sites(cohort)) if permutations else 0.0


class Pace:
    """Says once, after the first runs of a method, how long the rest of it will take."""

    def __init__(self, name: str, cohort: Cohort, permutations: int, advance: Advance) -> None:
        self._name, self._advance = name, advance
        self._left = LEFT + _runs_of_permutations(cohort, permutations)
        self._before = time.monotonic()

    def after(self, check: str) -> None:
        """Called after each leak check."""
        now = time.monotonic()
        if check == FIRST and (seconds := self._left * (now - self._before)) >= WORTH_SAYING:
            self._advance.say(f"{self._name}: about {duration(seconds)} more by its first runs")
        self._before = now
