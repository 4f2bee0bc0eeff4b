"""Stages 1 and 2 of CORE over a store, within a stated memory: nothing of size people x edges is ever in memory.

Pass 1 takes batches of people: series -> edge values, written to disk. Pass 2 takes blocks of edges, everybody at once:
edge values -> site-wise residuals -> contrast of every site. Each edge's regression and contrast depend on that edge
alone, so a block gives what the whole would; the functions are those of the in-memory path. What needs all edges, the
threshold tau, needs only their contrasts (E, M), which are small.

Finished batches and blocks are kept, checked, until the result is written: a command that was killed goes on where it
stopped.
"""

import io
import shutil
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from brainroam import engine as engines
from brainroam.cohort import missing_rois
from brainroam.connectivity import edge_pairs, edges
from brainroam.covariates import CovariateEncoder
from brainroam.deconfound import SiteDeconfounder, fallback_notes
from brainroam.edge_matrix import EdgeMatrix
from brainroam.errors import BrainroamError, DataError, UsageError, listed
from brainroam.evaluation.progress import show_progress
from brainroam.files import atomic_write, write_text
from brainroam.persist import describe_atlas, save_model
from brainroam.scaffold import Scaffold, select_scaffold, site_contrasts, sites_with_both_classes
from brainroam.sealed import content_hash
from brainroam.store import CohortStore

THRESHOLDS = frozenset({"tau_percentile", "eta", "zeta"})
PROCESS_BYTES = 300e6  # Python with its libraries, measured; every process has its own
MOST_PEOPLE, MOST_EDGES = 128, 1024  # per task: more would not be faster, only later to resume
EDGE_COPIES = 2.5  # of a batch's edge values while they are computed
BLOCK_COPIES, SITE_COPIES = 3.5, 11.0  # of a block's values while it is worked on: of everybody's, of one site's


@dataclass(frozen=True)
class Stages:
    """What to compute: edge values, deconfounding and who takes part. Names as in `CoreClassifier`."""

    kind: str = "log"
    shrinkage: float = 0.7
    robust: bool = True
    covariates: tuple[str, ...] = ("age", "sex")
    huber_k: float = 1.345
    huber_delta: float | None = None
    deconfounding: str = "site"
    fit_on: str = "all"
    max_missing_rois: float = 0.2

    def deconfounder(self) -> SiteDeconfounder:
        """Not fitted yet."""
        return SiteDeconfounder(self.huber_k, self.huber_delta, self.deconfounding == "pooled", self.fit_on)


@dataclass(frozen=True)
class Plan:
    """One piece of work, small enough to be sent to every worker: the people, what to compute, and in which parts."""

    store: Path
    work: Path
    rows: tuple[int, ...]
    stages: Stages
    batch: int
    block: int
    kept: tuple[bool, ...] = field(default=())

    @property
    def matrix(self) -> EdgeMatrix:
        """Where the edge values are."""
        n_rois = _opened(self.store).n_rois
        return EdgeMatrix(self.work / "edges", len(self.rows), n_rois * (n_rois - 1) // 2, self.batch, self.block)

    @property
    def people(self) -> pd.DataFrame:
        """The table of those who take part."""
        table = _opened(self.store).table.iloc[list(self.rows)]
        return (table[list(self.kept)] if self.kept else table).reset_index(drop=True)

    def result(self, j: int) -> Path:
        """The file of what block j gave."""
        return self.work / "blocks" / f"{j:06d}.npz"


@dataclass(frozen=True, eq=False)
class StreamedEvidence:
    """What pass 2 leaves of the people: contrasts and the frozen deconfounder, edge by edge.

    Attributes
    ----------
    contrast : ndarray of shape (E, M)
    sites : list of str
        Those with both classes, in the order of ``contrast``.
    deconfounder : SiteDeconfounder
        Only `SiteDeconfounder.transform` works.
    people : DataFrame
        Who took part.
    excluded : DataFrame
        Who did not, and why.
    plan : Plan
    """

    contrast: np.ndarray
    sites: list[str]
    deconfounder: SiteDeconfounder
    people: pd.DataFrame
    excluded: pd.DataFrame
    plan: Plan

    def scaffold(self, tau_percentile: float = 80, eta: float = 0.75, zeta: float = 0.70) -> Scaffold:
        """The scaffold, as `brainroam.scaffold.extract_scaffold` gives it in memory."""
        return select_scaffold(self.contrast, self.sites, tau_percentile, eta, zeta)

    def columns(self, wanted: np.ndarray) -> np.ndarray:
        """Edge values of everybody who took part on some edges (ascending), gathered block by block."""
        matrix, kept = self.plan.matrix, np.array(self.plan.kept)
        values = np.empty((int(kept.sum()), len(wanted)))
        for j in np.unique(wanted // matrix.block):
            here = wanted // matrix.block == j
            values[:, here] = matrix.read(int(j))[kept][:, wanted[here] - j * matrix.block]
        return values

    def discard_work(self) -> None:
        """Delete what was kept for resuming."""
        shutil.rmtree(self.plan.work.parent, ignore_errors=True)


def stream_evidence(
    store: str | Path,
    out: str | Path,
    memory: float = 2e9,
    stages: Stages = Stages(),  # noqa: B008  immutable
    sites: Sequence[str] | None = None,
    jobs: int = 1,
    engine: "str | engines.Engine" = "local",
    progress: bool = False,
) -> StreamedEvidence:
    """Run both passes over the labelled people of a store.

    Parameters
    ----------
    store : path
        A chunked store, see `brainroam.store`.
    out : path
        A folder; what is finished is kept in ``out/work``.
    memory : float
        Bytes that all processes together may use.
    stages : Stages
    sites : sequence of str, optional
        Only these.
    jobs, engine
        See `brainroam.engine.map`.
    progress : bool
        Show how far it is on stderr.

    Examples
    --------
    >>> import brainroam, tempfile
    >>> from brainroam.store import write_store
    >>> folder, cohort = Path(tempfile.mkdtemp()), brainroam.make_cohort(n_sites=3, n_per_site=12, n_rois=10)
    >>> store = write_store(folder / "cohort.zarr", cohort.table, cohort.series)
    >>> evidence = stream_evidence(store, folder / "out")
    >>> evidence.contrast.shape
    (3, 45)
    """
    plan, excluded = _planned(CohortStore(store), Path(out), memory, stages, sites, jobs)
    matrix = plan.matrix
    _do(
        write_edges,
        [k for k in range(matrix.n_batches) if matrix.record(k) is None],
        plan, jobs, engine, f"edge values of {plan.batch} people", matrix.n_batches, progress,
    )  # fmt: skip
    plan, excluded = _without_signal(plan, excluded)
    people = plan.people
    sites_with_both_classes(people["label"].to_numpy(), people["site"].to_numpy().astype(str))
    _do(
        write_contrasts,
        [j for j in range(matrix.n_blocks) if _read(plan.result(j)) is None],
        plan, jobs, engine, f"contrasts of {plan.block} edges", matrix.n_blocks, progress,
    )  # fmt: skip
    return _joined(plan, excluded)


def save_scaffold(out: str | Path, evidence: StreamedEvidence, scaffold: Scaffold) -> Path:
    """Write ``scaffold.csv`` and the folder ``evidence`` with the arrays behind it; returns the table's path."""
    out, store = Path(out), _opened(evidence.plan.store)
    pairs, regions = edge_pairs(store.n_rois)[scaffold.edges], np.array(store.atlas.labels)
    columns = ("consensus", "sign_consistency", "stability")
    table = pd.DataFrame(
        {
            "edge": scaffold.edges,
            "region_1": regions[pairs[:, 0]],
            "region_2": regions[pairs[:, 1]],
            **{name: getattr(scaffold, name)[scaffold.edges] for name in columns},
        }
    )
    arrays = {name: getattr(scaffold, name) for name in ("edges", "contrast", *columns)}
    deconfounder = {f"deconfounder.{name}": value for name, value in evidence.deconfounder.state().items()}
    header = {
        "kind": "Scaffold",
        "manifest_hash": store.manifest_hash,
        "stages": asdict(evidence.plan.stages),
        "sites": evidence.sites,
        "n_people": len(evidence.people),
        "tau": scaffold.tau,
        "notes": evidence.deconfounder.notes_,
        "atlas": describe_atlas(store.atlas.name, store.atlas.labels),
    }
    save_model(out / "evidence", header, arrays | deconfounder)
    write_text(out / "excluded.csv", evidence.excluded.to_csv(index=False, lineterminator="\n"))
    path = write_text(out / "scaffold.csv", table.to_csv(index=False, lineterminator="\n"))
    evidence.discard_work()
    return path


def write_edges(plan: Plan, k: int) -> None:
    """Pass 1, batch k: series to edge values, and how many regions each person lacks."""
    matrix = plan.matrix
    series = list(_opened(plan.store).series(plan.rows[matrix.people(k)]))
    lacking = missing_rois(series).sum(axis=1)
    values = edges(series, plan.stages.kind, plan.stages.shrinkage, plan.stages.robust)
    matrix.write(k, values, {"lacking": lacking.tolist()})


def write_contrasts(plan: Plan, j: int) -> None:
    """Pass 2, block j: edge values to the contrast of every site and the frozen deconfounder."""
    values, people = plan.matrix.read(j), plan.people
    if not all(plan.kept):
        values = values[np.array(plan.kept)]
    y, site = people["label"].to_numpy(dtype=int), people["site"].to_numpy().astype(str)
    deconfounder = plan.stages.deconfounder().fit(values, people[list(plan.stages.covariates)], site, y)
    del values
    contrast = site_contrasts(deconfounder.residuals_, y, site, sites_with_both_classes(y, site))
    with atomic_write(plan.result(j)) as file:
        np.savez(
            file,
            contrast=contrast,
            mean_intercept=deconfounder.mean_intercept_,
            mean_coef=deconfounder.mean_coef_,
            lost=(~deconfounder.estimable_).sum(axis=2),
            nobody=np.isnan(deconfounder.intercept_).sum(axis=1),
        )


def describe_people(shared: tuple[Plan, np.ndarray, int, int], k: int) -> np.ndarray:
    """Volatility and flexibility of batch k on some edges only: (people, edges, 2)."""
    from brainroam.profile import temporal_descriptors

    plan, wanted, window, stride = shared
    store, rows = _opened(plan.store), np.array(plan.rows)[plan.matrix.people(k)]
    rows = rows[np.array(plan.kept)[plan.matrix.people(k)]]
    pairs = edge_pairs(store.n_rois)[wanted]
    subjects = store.table["subject"].iloc[rows]
    one_by_one = zip(store.series(rows.tolist()), subjects, strict=True)
    described = [temporal_descriptors([x], pairs, window, stride, [subject])[0] for x, subject in one_by_one]
    return np.stack(described) if described else np.empty((0, len(pairs), 2))


@lru_cache(maxsize=2)
def _opened(path: Path) -> CohortStore:
    """One process opens a store once."""
    return CohortStore(path)


def _planned(
    store: CohortStore, out: Path, memory: float, stages: Stages, sites: Sequence[str] | None, jobs: int
) -> tuple[Plan, pd.DataFrame]:
    """Who takes part, and parts small enough for the memory."""
    table = store.table
    for name in stages.covariates:
        if name not in table:
            raise DataError(f"the store has no covariate {name!r}; it has {listed(table.columns, 20)}")
    rows = store.rows(sites)
    labelled = table["label"].iloc[rows].notna().to_numpy()
    reasons = pd.DataFrame({"subject": table["subject"].iloc[rows[~labelled]], "reason": "no label"})
    rows = rows[labelled]
    if len(rows) == 0:
        raise DataError(f"nobody in {store.path} has a label")
    batch, block = _parts(store, rows, memory, stages, jobs)
    settings = [store.manifest_hash, rows.tolist(), repr(stages), batch, block]
    work = out.absolute() / "work" / content_hash(settings)[:16]
    plan = Plan(store.path.absolute(), work, tuple(rows.tolist()), stages, batch, block)
    return plan, pd.concat([store.excluded, reasons], ignore_index=True)


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


def _without_signal(plan: Plan, excluded: pd.DataFrame) -> tuple[Plan, pd.DataFrame]:
    """Leave out those who lack too many regions, as `Cohort.exclude_missing` does."""
    matrix, n_rois = plan.matrix, _opened(plan.store).n_rois
    records = [matrix.record(k) for k in range(matrix.n_batches)]
    lacking = np.concatenate([record["lacking"] for record in records if record is not None])
    limit = plan.stages.max_missing_rois
    over = lacking > limit * n_rois
    text = "{} of {} regions are constant or not finite (limit {:.0%})"
    reasons = [text.format(int(count), n_rois, limit) for count in lacking[over]]
    added = pd.DataFrame({"subject": plan.people["subject"][over], "reason": reasons})
    return replace(plan, kept=tuple((~over).tolist())), pd.concat([excluded, added], ignore_index=True)


def _do(
    function: Callable, todo: list[int], plan: Plan, jobs: int, engine: Any, what: str, total: int, progress: bool
) -> None:
    """Do all parts that are missing; the first that fails stops the work, what is finished is kept."""
    with show_progress(len(todo), progress) as advance:
        for part, outcome in engines.map(function, todo, plan, jobs, engine):
            if isinstance(outcome, engines.Failure):
                raise BrainroamError(f"{what}, part {part + 1} of {total}: {outcome.error}")
            advance(f"{what}, part {part + 1} of {total}")


def _read(path: Path) -> dict[str, np.ndarray] | None:
    """What a block gave, None where its file is not there or not whole; the archive has a checksum of each array."""
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def _joined(plan: Plan, excluded: pd.DataFrame) -> StreamedEvidence:
    """Put the blocks together."""
    parts = [_read(plan.result(j)) or {} for j in range(plan.matrix.n_blocks)]

    def joined(name: str) -> np.ndarray:
        return np.concatenate([part[name] for part in parts], axis=-1)

    people = plan.people
    y, site = people["label"].to_numpy(dtype=int), people["site"].to_numpy().astype(str)
    encoder = CovariateEncoder().fit(people[list(plan.stages.covariates)])
    deconfounder = plan.stages.deconfounder().load_state(
        {"mean_intercept": joined("mean_intercept"), "mean_coef": joined("mean_coef"), "covariates": encoder.state()}
    )
    lost, nobody = (sum(part[name] for part in parts) for name in ("lost", "nobody"))
    place = np.full(len(site), "(pooled)") if plan.stages.deconfounding == "pooled" else site
    deconfounder.notes_ = deconfounder.missing_notes(people[list(plan.stages.covariates)]) + [
        note
        for e, name in enumerate(sorted(set(place)))
        for note in fallback_notes(
            name, int((place == name).sum()), encoder.names_, lost[e], int(nobody[e]), plan.matrix.n_edges
        )
    ]
    return StreamedEvidence(joined("contrast"), sites_with_both_classes(y, site), deconfounder, people, excluded, plan)
