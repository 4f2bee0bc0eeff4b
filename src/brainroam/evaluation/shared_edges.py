"""The edges that the runs of a study share: computed once, on all cores, and kept on disk until the study is done."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from brainroam.core.connectivity import EdgeKind, edges, keep_edges
from brainroam.data.cohort import Cohort
from brainroam.errors import BrainroamError
from brainroam.execution import engine as engines
from brainroam.execution.out_of_core import StoredCohort, write_edges
from brainroam.execution.progress import View

FOLDER = "shared"
PEOPLE_AT_A_TIME = 32
FEW = 1_000_000  # edge values: read and computed before a process could start


@contextmanager
def shared_edges(
    cohort: Cohort,
    kinds: Sequence[EdgeKind],
    folder: Path,
    jobs: int,
    engine: str | engines.Engine,
    progress: bool | View = False,
) -> Iterator[None]:
    """Let processes share the edges of a cohort; what an interrupted study has computed is found again.

    The edges of a cohort on disk are written there.

    With one job there is nobody to share with, and workers of a cluster read the cohort from its store and compute
    their own. The files go when all runs are done.
    """
    if isinstance(cohort, StoredCohort):
        write_edges(cohort, kinds, jobs, engine, progress)
        yield
        return
    if jobs == 1 or engine != "local" or not kinds:
        yield
        return
    whole, _ = cohort.origin
    with whole.features_in(folder / FOLDER / whole.manifest_hash[:16]):
        missing = [kind for kind in kinds if not keep_edges(whole, kind)]
        for kind, values in _computed(whole, missing, jobs, engine):
            keep_edges(whole, kind, values)
        yield
    shutil.rmtree(folder / FOLDER, ignore_errors=True)


def is_small(cohort: Cohort) -> bool:
    """Whether starting another process takes longer than the work it would do on this cohort.

    >>> import brainroam
    >>> is_small(brainroam.make_cohort(n_sites=2, n_per_site=8, n_rois=8))
    True
    """
    return len(cohort) * cohort.n_rois**2 / 2 < FEW


def _computed(
    cohort: Cohort, kinds: Sequence[EdgeKind], jobs: int, engine: str | engines.Engine
) -> Iterator[tuple[EdgeKind, np.ndarray]]:
    """Each kind of edges as soon as everybody has them."""
    starts = range(0, len(cohort), PEOPLE_AT_A_TIME)
    parts: dict[EdgeKind, dict[int, np.ndarray]] = {kind: {} for kind in kinds}
    tasks = [(kind, start) for kind in kinds for start in starts]
    for (kind, start), part in engines.map(_some, tasks, cohort, 1 if is_small(cohort) else jobs, engine):
        if isinstance(part, engines.Failure):
            raise BrainroamError(f"the {kind.kind} edges could not be computed: {part.error}")
        parts[kind][start] = part
        if len(parts[kind]) == len(starts):
            found = parts.pop(kind)
            yield kind, np.concatenate([found[start] for start in starts])


def _some(cohort: Cohort, task: tuple[EdgeKind, int]) -> np.ndarray:
    kind, start = task
    return edges(cohort.series[start : start + PEOPLE_AT_A_TIME], *kind)
