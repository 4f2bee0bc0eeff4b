"""Stages 1 and 2 of CORE in two passes over a store."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from brainroam.core.deconfound import SiteDeconfounder
from brainroam.core.scaffold import Scaffold, select_scaffold, sites_with_both_classes
from brainroam.errors import BrainroamError
from brainroam.execution import engine as engines
from brainroam.execution.out_of_core.edge_matrix import EdgeMatrix
from brainroam.execution.out_of_core.passes import read_result, write_contrasts, write_edges
from brainroam.execution.out_of_core.plan import Plan, Stages, discard_work, make_plan, without_signal
from brainroam.execution.progress import show_progress
from brainroam.utils.csv_text import write_csv
from brainroam.utils.model_files import describe_atlas, save_model

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
        Without residuals.
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
        """The scaffold, as `brainroam.core.scaffold.extract_scaffold` gives it in memory."""
        return select_scaffold(self.contrast, self.sites, tau_percentile, eta, zeta)


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
        A chunked store, see `brainroam.data.store`.
    out : path
        A folder; what is finished is kept in ``out/work``.
    memory : float
        Bytes that all processes together may use.
    stages : Stages
    sites : sequence of str, optional
        Only these.
    jobs, engine
        See `brainroam.execution.engine.map`.
    progress : bool
        Show how far it is on stderr.

    Examples
    --------
    >>> import brainroam, tempfile
    >>> from brainroam.data.store import write_store
    >>> folder, cohort = Path(tempfile.mkdtemp()), brainroam.make_cohort(n_sites=3, n_per_site=12, n_rois=10)
    >>> store = write_store(folder / "cohort.zarr", cohort.table, cohort.series)
    >>> evidence = stream_evidence(store, folder / "out")
    >>> evidence.contrast.shape
    (3, 45)
    """
    plan, excluded = make_plan(Path(store), Path(out), memory, stages, sites, jobs)
    return carry_out(plan, excluded, Crew(jobs, engine, progress))


@dataclass(frozen=True)
class Crew:
    """Who does the parts of a pass: how many processes, where, and whether they show how far they are."""

    jobs: int = 1
    engine: "str | engines.Engine" = "local"
    progress: bool = False

    def do(self, function: Callable, todo: Sequence[int], shared: Any, what: str, total: int) -> dict[int, Any]:
        """Do all parts that are missing; the first that fails stops the work, what is finished is kept."""
        results = {}
        with show_progress(len(todo), self.progress) as advance:
            for part, outcome in engines.map(function, todo, shared, self.jobs, self.engine):
                if isinstance(outcome, engines.Failure):
                    raise BrainroamError(f"{what}, part {part + 1} of {total}: {outcome.error}")
                results[part] = outcome
                advance(f"{what}, part {part + 1} of {total}")
        return results

    def fill(self, matrix: EdgeMatrix, function: Callable, shared: Any, what: str) -> None:
        """Write all batches of a matrix that are missing."""
        todo = [k for k in range(matrix.n_batches) if matrix.record(k) is None]
        self.do(function, todo, shared, what, matrix.n_batches)


def carry_out(plan: Plan, excluded: pd.DataFrame, crew: Crew) -> StreamedEvidence:
    """Both passes of a plan, as far as they are not done yet."""
    matrix = plan.matrix
    crew.fill(matrix, write_edges, plan, "edge values")
    plan, excluded = without_signal(plan, excluded)
    y, site = _groups(plan)
    sites_with_both_classes(y, site)  # too few are refused before the long part
    blocks = [j for j in range(matrix.n_blocks) if read_result(plan.result(j)) is None]
    crew.do(write_contrasts, blocks, plan, "contrasts", matrix.n_blocks)
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
    write_csv(out / "excluded.csv", evidence.excluded)
    path = write_csv(out / "scaffold.csv", table)
    discard_work(plan.work.parent)
    return path


def _groups(plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    """Label and site of those who take part."""
    people = plan.people
    return people["label"].to_numpy(dtype=int), people["site"].to_numpy().astype(str)


def _joined(plan: Plan, excluded: pd.DataFrame) -> StreamedEvidence:
    """Put the blocks together."""
    parts = [read_result(plan.result(j)) or {} for j in range(plan.matrix.n_blocks)]
    people, (y, site) = plan.people, _groups(plan)
    contrast = np.concatenate([part["contrast"] for part in parts], axis=1)
    deconfounder = plan.stages.deconfounder().join(parts, people[list(plan.stages.covariates)], site)
    return StreamedEvidence(contrast, sites_with_both_classes(y, site), deconfounder, people, excluded, plan)
