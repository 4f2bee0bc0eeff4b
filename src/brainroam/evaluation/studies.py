"""The paper's studies as lists of configured methods: what each asks of `runner.evaluate`."""

from itertools import product
from typing import Any

from brainroam.data.cohort import Cohort
from brainroam.errors import unknown
from brainroam.evaluation.runner import Results, evaluate
from brainroam.evaluation.stats.families import ABLATION
from brainroam.methods.naming import full_name

SWEEPS: dict[str, list[dict[str, int]]] = {
    "budget": [{"budget": k} for k in (20, 40, 60, 80, 100, 120, 150, 200)],
    "window": [{"window": w, "stride": s} for w, s in product((20, 30, 40, 50, 60), (1, 5, 10, 15))],
}


def ablate(cohort: Cohort, **options: Any) -> Results:
    """CORE against itself with one part changed; options as for `evaluate`."""
    return evaluate(cohort, ABLATION, **options)


def sweep(cohort: Cohort, over: str, **options: Any) -> Results:
    """CORE over the gate budget K or over window and stride; options as for `evaluate`."""
    return evaluate(cohort, sweep_names(over), **options)


def sweep_names(over: str) -> list[str]:
    """The configurations of a sweep.

    >>> sweep_names("window")[:2]
    ['core[profiles=true,stride=1,window=20]', 'core[profiles=true,stride=5,window=20]']
    """
    if over not in SWEEPS:
        raise unknown("sweep", over, SWEEPS)
    also = {"profiles": True} if over == "window" else {}  # nothing else looks at windows
    return [full_name("core", point | also) for point in SWEEPS[over]]
