"""Stages 1 and 2 of CORE over a store, within a stated memory: nothing of size people x edges is ever in memory.

Pass 1 takes batches of people: series -> edge values, written to disk. Pass 2 takes blocks of edges, everybody at once:
edge values -> site-wise residuals -> contrast of every site. Each edge's regression and contrast depend on that edge
alone, so a block gives what the whole would; the functions are those of the in-memory path. What needs all edges, the
threshold tau, needs only their contrasts (E, M), which are small.

Finished batches and blocks are kept, checked, until the result is written: a command that was killed goes on where it
stopped.
"""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from brainroam import engine as engines
from brainroam.covariates import CovariateEncoder
from brainroam.deconfound import POOLED, SiteDeconfounder, fallback_notes
from brainroam.errors import BrainroamError
from brainroam.evaluation.progress import show_progress
from brainroam.files import write_text
from brainroam.outofcore.passes import read_result, write_contrasts, write_edges
from brainroam.outofcore.plan import Plan, Stages, make_plan, without_signal
from brainroam.persist import describe_atlas, save_model
from brainroam.scaffold import Scaffold, select_scaffold, sites_with_both_classes

__all__ = ["THRESHOLDS", "Stages", "StreamedEvidence", "save_scaffold", "stream_evidence"]

THRESHOLDS = frozenset({"tau_percentile", "eta", "zeta"})


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
    plan, excluded = make_plan(Path(store), Path(out), memory, stages, sites, jobs)
    matrix = plan.matrix
    batches = [k for k in range(matrix.n_batches) if matrix.record(k) is None]
    _do(write_edges, batches, plan, jobs, engine, "edge values", matrix.n_batches, progress)
    plan, excluded = without_signal(plan, excluded)
    y, site = _groups(plan)
    sites_with_both_classes(y, site)  # too few are refused before the long part
    blocks = [j for j in range(matrix.n_blocks) if read_result(plan.result(j)) is None]
    _do(write_contrasts, blocks, plan, jobs, engine, "contrasts", matrix.n_blocks, progress)
    return _joined(plan, excluded)


def save_scaffold(out: str | Path, evidence: StreamedEvidence, scaffold: Scaffold) -> Path:
    """Write ``scaffold.csv``, ``excluded.csv`` and the arrays in a folder ``evidence``; returns the table's path."""
    out, plan, store = Path(out), evidence.plan, evidence.plan.store
    pairs, regions = plan.pairs[scaffold.edges], np.array(store.atlas.labels)
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
        "stages": asdict(plan.stages),
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


def _do(
    function: Callable, todo: list[int], plan: Plan, jobs: int, engine: Any, what: str, total: int, progress: bool
) -> None:
    """Do all parts that are missing; the first that fails stops the work, what is finished is kept."""
    with show_progress(len(todo), progress) as advance:
        for part, outcome in engines.map(function, todo, plan, jobs, engine):
            if isinstance(outcome, engines.Failure):
                raise BrainroamError(f"{what}, part {part + 1} of {total}: {outcome.error}")
            advance(f"{what}, part {part + 1} of {total}")


def _groups(plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    """Label and site of those who take part."""
    people = plan.people
    return people["label"].to_numpy(dtype=int), people["site"].to_numpy().astype(str)


def _joined(plan: Plan, excluded: pd.DataFrame) -> StreamedEvidence:
    """Put the blocks together."""
    parts = [read_result(plan.result(j)) or {} for j in range(plan.matrix.n_blocks)]

    def joined(name: str) -> np.ndarray:
        return np.concatenate([part[name] for part in parts], axis=-1)

    people, (y, site) = plan.people, _groups(plan)
    covariates = people[list(plan.stages.covariates)]
    encoder = CovariateEncoder().fit(covariates)
    deconfounder = plan.stages.deconfounder().load_state(
        {"mean_intercept": joined("mean_intercept"), "mean_coef": joined("mean_coef"), "covariates": encoder.state()}
    )
    lost, nobody = (np.sum([part[name] for part in parts], axis=0) for name in ("lost", "nobody"))
    place = np.full(len(site), POOLED) if deconfounder.pooled else site
    deconfounder.notes_ = deconfounder.missing_notes(covariates)
    for e, name in enumerate(sorted(set(place))):
        n_people = int((place == name).sum())
        deconfounder.notes_ += fallback_notes(
            name, n_people, encoder.names_, lost[e], int(nobody[e]), plan.matrix.n_edges
        )
    return StreamedEvidence(joined("contrast"), sites_with_both_classes(y, site), deconfounder, people, excluded, plan)
