"""The edges that the runs of a study share: computed once, on all cores, and kept on disk until the study is done."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from brainroam.core.connectivity import EdgeKind, edge_name, features
from brainroam.data.cohort import Cohort
from brainroam.data.features import FeatureFolder
from brainroam.errors import BrainroamError
from brainroam.execution import engine as engines
from brainroam.execution.out_of_core import write_edges
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
    """Let processes share the series and edges of a cohort; what an interrupted study has computed is found again.

    The edges of a cohort on disk are written there.

    With one job there is nobody to share with, and workers of a cluster read the cohort from its store and compute
    their own. The files go when all runs are done.
    """
    if any(block.on_disk for block in (cohort.blocks or {"": cohort}).values()):
        write_edges(cohort, kinds, jobs, engine, progress)
        yield
        return
    if jobs == 1 or not engines.is_local(engine):
        yield
        return
    whole, _ = cohort.origin
    place = folder / FOLDER / whole.manifest_hash[:16]
    with whole.features.kept_in(place):
        for kind in kinds:
            if not whole.has_per_person(edge_name(kind)):
                _compute(whole, kind, FeatureFolder(place), 1 if is_small(whole) else jobs, engine)
        yield
    shutil.rmtree(folder / FOLDER, ignore_errors=True)


def is_small(cohort: Cohort) -> bool:
    """Whether starting another process takes longer than the work it would do on this cohort.

    >>> import brainroam
    >>> is_small(brainroam.make_cohort(n_sites=2, n_per_site=8, n_rois=8))
    True
    """
    return len(cohort) * cohort.n_features < FEW


def _compute(cohort: Cohort, kind: EdgeKind, folder: FeatureFolder, jobs: int, engine: str | engines.Engine) -> None:
    """Let all processes fill in the edges of some people each."""
    shape = len(cohort), cohort.n_features
    with folder.filling(edge_name(kind), shape) as file:
        tasks = [(kind, file, start) for start in range(0, len(cohort), PEOPLE_AT_A_TIME)]
        for _, outcome in engines.map(_some, tasks, cohort, jobs, engine):
            if isinstance(outcome, engines.Failure):
                raise BrainroamError(f"the {kind.kind} edges could not be computed: {outcome.error}")


def _some(cohort: Cohort, task: tuple[EdgeKind, Path, int]) -> None:
    kind, file, start = task
    people = slice(start, start + PEOPLE_AT_A_TIME)
    np.load(file, mmap_mode="r+")[people] = features(cohort.series[people], cohort.measure, kind)
