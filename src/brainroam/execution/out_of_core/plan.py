"""What to compute out of core, for whom, and in parts of which size."""

import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
from pydantic import PositiveFloat

from brainroam.core.connectivity import edge_pairs, edges
from brainroam.core.deconfound import FitOn, SiteDeconfounder, Slopes
from brainroam.data.store import CohortStore
from brainroam.errors import DataError, ReaderError, UsageError, listed, unknown
from brainroam.execution.out_of_core.edge_matrix import EdgeMatrix
from brainroam.utils.files import content_hash

PROCESS_BYTES = 300e6  # Python with its libraries, measured; every process has its own
MOST_PEOPLE, MOST_EDGES = 128, 1024  # per task: more would not be faster, only later to resume
EDGE_COPIES = 2.5  # of a batch's edge values while they are computed
DIGITS = 16  # of the hash that is the name of a plan's folder
BLOCK_COPIES, SITE_COPIES = 3.5, 11.0  # of a block's values while it is worked on: of everybody's, of one site's


@dataclass(frozen=True)
class Stages:
    """Edge values, deconfounding and who takes part. Names as in `CoreClassifier`."""

    kind: str = "log"
    shrinkage: float = 0.7
    robust: bool = True
    covariates: Sequence[str] = ("age", "sex")
    huber_k: PositiveFloat = 1.345
    huber_delta: PositiveFloat | None = None
    deconfounding: str = "site"
    fit_on: FitOn = "all"
    max_missing_rois: float = 0.2
    slopes: Slopes = "shrunken"
    contrast: str = "mean"

    def __post_init__(self) -> None:
        if self.deconfounding not in ("site", "pooled"):
            raise unknown("deconfounding", self.deconfounding, ["site", "pooled"])

    def edge_values(self, series: Sequence[np.ndarray]) -> np.ndarray:
        """Edge values (n, M)."""
        return edges(series, self.kind, self.shrinkage, self.robust)

    def deconfounder(self) -> SiteDeconfounder:
        """Not fitted yet."""
        return SiteDeconfounder(
            self.huber_k, self.huber_delta, self.deconfounding == "pooled", self.fit_on, self.slopes
        )


@dataclass(frozen=True)
class Plan:
    """One piece of work, small enough to be sent to every worker.

    Attributes
    ----------
    path, manifest_hash
        The store, and what it must hold.
    work : Path
        Where finished parts are kept.
    rows : tuple of int
        The people, by their place in the store.
    stages : Stages
    batch, block : int
        People and edges in one part.
    kept : tuple of bool
        Who of them takes part in pass 2; everybody while nobody is known to lack regions.
    """

    path: Path
    manifest_hash: str
    work: Path
    rows: tuple[int, ...]
    stages: Stages
    batch: int
    block: int
    kept: tuple[bool, ...] = ()

    @property
    def store(self) -> CohortStore:
        """Opened once by each process."""
        return _opened(self.path, self.manifest_hash)

    @property
    def pairs(self) -> np.ndarray:
        """Region pairs of all edges."""
        return edge_pairs(self.store.n_rois)

    @property
    def matrix(self) -> EdgeMatrix:
        """Where the edge values are."""
        return EdgeMatrix(self.work / "edges", len(self.rows), len(self.pairs), self.batch, self.block)

    @property
    def people(self) -> pd.DataFrame:
        """The table of those who take part."""
        table = self.store.table.iloc[list(self.rows)]
        return (table[list(self.kept)] if self.kept else table).reset_index(drop=True)

    def result(self, j: int) -> Path:
        """The file of what block j gave."""
        return self.work / "blocks" / f"{j:06d}.npz"


@lru_cache(maxsize=1)
def _opened(path: Path, manifest_hash: str) -> CohortStore:
    store = CohortStore(path)
    if store.manifest_hash != manifest_hash:
        raise ReaderError(f"{path} has changed since the work began; start the command again")
    return store


def make_plan(
    path: Path, out: Path, memory: float, stages: Stages, sites: Sequence[str] | None, jobs: int
) -> tuple[Plan, pd.DataFrame]:
    """Who takes part, in parts small enough for the memory; and who is left out so far, and why."""
    store = CohortStore(path)
    table = store.table
    for name in stages.covariates:
        if name not in table:
            raise DataError(f"the store has no covariate {name!r}; it has {listed(table.columns, 20)}")
    rows = store.rows(sites)
    labelled = table["label"].iloc[rows].notna().to_numpy()
    left_out = pd.DataFrame({"subject": table["subject"].iloc[rows[~labelled]], "reason": "no label"})
    rows = rows[labelled]
    if len(rows) == 0:
        raise DataError(f"nobody in {store.path} has a label")
    plan = plan_for(store, rows, out / "work", memory, stages, jobs)
    return plan, pd.concat([store.excluded, left_out], ignore_index=True)


def plan_for(store: CohortStore, rows: np.ndarray, work: Path, memory: float, stages: Stages, jobs: int) -> Plan:
    """The plan for these people; the same settings find the same folder below ``work`` again."""
    batch, block = _parts(store, rows, memory, stages, jobs)
    settings = [store.manifest_hash, rows.tolist(), repr(stages), batch, block]
    folder = work.absolute() / content_hash(settings)[:DIGITS]
    return Plan(store.path.absolute(), store.manifest_hash, folder, tuple(rows.tolist()), stages, batch, block)


def discard_work(work: Path) -> None:
    """Delete what any plan keeps below ``work`` for resuming, and the folder itself unless something else is in it."""
    for folder in work.glob("[0-9a-f]" * DIGITS):
        shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        work.rmdir()


def without_signal(plan: Plan, excluded: pd.DataFrame) -> tuple[Plan, pd.DataFrame]:
    """Leave out those whom pass 1 found to lack too many regions, as `Cohort.exclude_missing` does."""
    matrix, n_rois, limit = plan.matrix, plan.store.n_rois, plan.stages.max_missing_rois
    lacking = np.concatenate([(matrix.record(k) or {})["lacking"] for k in range(matrix.n_batches)])
    over = lacking > limit * n_rois
    if over.all():
        raise DataError(f"everybody lacks more than {limit:.0%} of the regions")
    text = "{} of {} regions are constant or not finite (limit {:.0%})"
    reasons = [text.format(int(count), n_rois, limit) for count in lacking[over]]
    added = pd.DataFrame({"subject": plan.people["subject"][over], "reason": reasons})
    return replace(plan, kept=tuple((~over).tolist())), pd.concat([excluded, added], ignore_index=True)


def _parts(store: CohortStore, rows: np.ndarray, memory: float, stages: Stages, jobs: int) -> tuple[int, int]:
    """People in a batch and edges in a block, so that ``jobs`` processes and their parent stay within the memory."""
    n_edges = store.n_rois * (store.n_rois - 1) // 2
    people = store.table.iloc[rows]
    largest = len(rows) if stages.deconfounding == "pooled" else int(people["site"].value_counts().max())
    per_person = 8 * (EDGE_COPIES * n_edges + int(people["n_timepoints"].max()) * store.n_rois)
    per_edge = 8 * (BLOCK_COPIES * len(rows) + SITE_COPIES * largest)
    parent = PROCESS_BYTES if jobs > 1 else 0.0
    room = (memory - parent) / jobs - PROCESS_BYTES
    batch, block = int(room // per_person), int(room // per_edge)
    if batch < 1 or block < 1:
        needed = jobs * (PROCESS_BYTES + 8 * max(per_person, per_edge)) + parent
        raise UsageError(
            f"--memory {memory / 1e9:g}GB is too little for {len(rows)} people on {jobs} workers; "
            f"give at least {needed / 1e9:.1f}GB, or fewer jobs"
        )
    return min(batch, MOST_PEOPLE, len(rows)), min(block, MOST_EDGES, n_edges)
