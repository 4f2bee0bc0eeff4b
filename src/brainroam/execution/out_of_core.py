"""Cohorts larger than memory: everybody's edges on disk, summaries of sites in memory.

`brainroam.data.stored_cohort.StoredCohort` is used like any cohort, and edges are read in blocks by the same code
(`brainroam.core.site_edges`, `brainroam.core.site_statistics`). Here is what all processes do first, writing the edges,
a batch of people after the other; and `brainroam scaffold`, stages 1 and 2 of CORE alone.
"""

import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from pydantic import NonNegativeFloat, PositiveFloat

from brainroam.core.connectivity import OF_MATRICES, EdgeKind, edge_name, features
from brainroam.core.deconfound import FitOn, SiteDeconfounder, Slopes
from brainroam.core.scaffold import Scaffold
from brainroam.core.site_statistics import SiteStatistics, site_statistics
from brainroam.data.cohort import Cohort
from brainroam.data.stored_cohort import StoredCohort, StoredFeatures
from brainroam.errors import BrainroamError
from brainroam.execution import engine as engines
from brainroam.execution.progress import View, show_progress
from brainroam.utils.files import write_csv
from brainroam.utils.model_files import save_model
from brainroam.utils.parameters import Percentile


def write_edges(
    cohort: Cohort,
    kinds: Sequence[EdgeKind],
    jobs: int = 1,
    engine: "str | engines.Engine" = "local",
    progress: bool | View = False,
) -> None:
    """Write the edges of these kinds of everybody, as far as they are not written yet.

    Parameters
    ----------
    cohort : Cohort
        Of several blocks, those that are on disk are written; of a table there is nothing to write.
    kinds : sequence of EdgeKind
        Matrices have some of them only.
    jobs, engine
        See `brainroam.execution.engine.map`.
    progress : bool or callable
        See `brainroam.execution.progress.show_progress`.
    """
    for block in (cohort.blocks or {"": cohort}).values():
        if not isinstance(block.features, StoredFeatures):
            continue
        how = [(kind, block.measure) for kind in kinds if block.measure == "series" or kind.kind in OF_MATRICES]
        todo = [
            (*one, k) for one in how for k in block.features.create_array(edge_name(one[0]), _computing(*one)).missing()
        ]
        with show_progress(len(todo), progress) as advance:
            for (kind, _, k), outcome in engines.map(_write, todo, block.features, jobs, engine):
                if isinstance(outcome, engines.Failure):
                    raise BrainroamError(f"{kind.kind} edges, batch {k + 1}: {outcome.error}")
                advance(f"{kind.kind} edges, batch {k + 1}")


def discard_work(work: Path) -> None:
    """Delete what cohorts keep below ``work``, and the folder itself unless something else is in it."""
    for folder in work.glob("[0-9a-f]" * 16):
        shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        work.rmdir()


def _write(stored: StoredFeatures, task: tuple[EdgeKind, str, int]) -> None:
    kind, measure, k = task
    stored.write(stored.create_array(edge_name(kind), _computing(kind, measure)), k, _computing(kind, measure))


def _computing(kind: EdgeKind, measure: str) -> Callable:
    return partial(features, measure=measure, kind=kind)


@dataclass(frozen=True)
class Settings:
    """Edge values, deconfounding and thresholds. Names as in `Recipe`."""

    kind: str = "log"
    shrinkage: NonNegativeFloat = 0.7
    robust: bool = True
    covariates: Sequence[str] | None = None
    huber_k: PositiveFloat = 1.345
    huber_delta: PositiveFloat | None = None
    deconfounding: Literal["site", "pooled"] = "site"
    fit_on: FitOn = "all"
    slopes: Slopes = "shrunken"
    contrast: str = "mean"
    tau_percentile: Percentile = 80
    eta: NonNegativeFloat = 0.75
    zeta: NonNegativeFloat = 0.70
    sign: Literal["both", "positive", "negative"] = "both"


def find_scaffold(
    cohort: StoredCohort,
    settings: Settings = Settings(),
    jobs: int = 1,
    engine: "str | engines.Engine" = "local",
    progress: bool = False,
) -> tuple[SiteStatistics, Scaffold]:
    """The statistics of all sites, and the scaffold they agree on.

    >>> import brainroam, tempfile
    >>> from brainroam.data.store import write_store
    >>> folder, made = Path(tempfile.mkdtemp()), brainroam.make_cohort(n_sites=3, n_per_site=12, n_rois=10)
    >>> cohort = StoredCohort(write_store(folder / "cohort.zarr", made.table, made.series), folder / "work")
    >>> find_scaffold(cohort)[1].contrast.shape
    (3, 45)
    """
    kind, covariates = EdgeKind(settings.kind, settings.shrinkage, settings.robust), settings.covariates
    write_edges(cohort, [kind], jobs, engine, progress)
    deconfounder = SiteDeconfounder(
        settings.huber_k, settings.huber_delta, settings.deconfounding == "pooled", settings.fit_on, settings.slopes
    )
    statistics = site_statistics(cohort, cohort.covariates(covariates), deconfounder, kind, settings.contrast)
    thresholds = {name: getattr(settings, name) for name in ("tau_percentile", "eta", "zeta", "sign")}
    return statistics, statistics.scaffold(cohort.sites, **thresholds)


def save_scaffold(
    out: Path, cohort: StoredCohort, statistics: SiteStatistics, scaffold: Scaffold, settings: Settings
) -> Path:
    """Write ``scaffold.csv``, ``excluded.csv`` and the arrays in a folder ``evidence``; returns the table's path."""
    pairs, regions = statistics.pairs[scaffold.edges], np.array(cohort.atlas.labels)
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
    deconfounder = {f"deconfounder.{name}": value for name, value in statistics.deconfounder.state().items()}
    header = {
        "kind": "Scaffold",
        "manifest_hash": cohort.manifest_hash,
        "settings": asdict(settings),
        "sites": statistics.sites,
        "n_people": len(cohort),
        "tau": scaffold.tau,
        "notes": statistics.deconfounder.notes_,
        "atlas": cohort.atlas.identity,
    }
    save_model(out / "evidence", header, arrays | deconfounder)
    write_csv(out / "excluded.csv", cohort.excluded)
    return write_csv(out / "scaffold.csv", table)
