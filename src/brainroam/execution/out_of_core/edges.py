"""The edges of a cohort on disk: written once, a batch of people after the other, by all workers."""

import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from brainroam.core.connectivity import EdgeKind, edge_name, edges
from brainroam.data.stored_cohort import StoredCohort, StoredFeatures
from brainroam.errors import BrainroamError
from brainroam.execution import engine as engines
from brainroam.execution.progress import View, show_progress


def write_edges(
    cohort: StoredCohort,
    kinds: Sequence[EdgeKind],
    jobs: int = 1,
    engine: "str | engines.Engine" = "local",
    progress: bool | View = False,
) -> None:
    """Write the edges of these kinds of everybody, as far as they are not written yet.

    Parameters
    ----------
    cohort : StoredCohort
    kinds : sequence of EdgeKind
    jobs, engine
        See `brainroam.execution.engine.map`.
    progress : bool or callable
        See `brainroam.execution.progress.show_progress`.
    """
    features = cohort.features
    todo = [(kind, k) for kind in kinds for k in features.stored(edge_name(kind), _computing(kind)).missing()]
    with show_progress(len(todo), progress) as advance:
        for (kind, k), outcome in engines.map(_write, todo, features, jobs, engine):
            if isinstance(outcome, engines.Failure):
                raise BrainroamError(f"{kind.kind} edges, batch {k + 1}: {outcome.error}")
            advance(f"{kind.kind} edges, batch {k + 1}")


def discard_work(work: Path) -> None:
    """Delete what cohorts keep below ``work``, and the folder itself unless something else is in it."""
    for folder in work.glob("[0-9a-f]" * 16):
        shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        work.rmdir()


def _write(features: StoredFeatures, task: tuple[EdgeKind, int]) -> None:
    kind, k = task
    features.write(features.stored(edge_name(kind), _computing(kind)), k, _computing(kind))


def _computing(kind: EdgeKind) -> Callable:
    return partial(edges, **kind._asdict())
