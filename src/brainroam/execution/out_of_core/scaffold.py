"""The scaffold alone, of a cohort on disk: stages 1 and 2 of CORE."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from pydantic import NonNegativeFloat, PositiveFloat

from brainroam.core.connectivity import EdgeKind
from brainroam.core.deconfound import FitOn, SiteDeconfounder, Slopes
from brainroam.core.on_disk import site_statistics
from brainroam.core.pathways import SiteStatistics
from brainroam.core.scaffold import Scaffold
from brainroam.data.stored_cohort import StoredCohort
from brainroam.execution import engine as engines
from brainroam.execution.out_of_core.edges import write_edges
from brainroam.utils.files import write_csv
from brainroam.utils.model_files import describe_atlas, save_model
from brainroam.utils.parameters import Percentile


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


def find_scaffold(
    cohort: StoredCohort,
    settings: Settings = Settings(),
    jobs: int = 1,
    engine: "str | engines.Engine" = "local",
    progress: bool = False,
) -> tuple[SiteStatistics, Scaffold]:
    """The evidence of all sites, and the scaffold they agree on.

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
    evidence = site_statistics(cohort, cohort.covariates(covariates), deconfounder, *kind, settings.contrast)
    return evidence, evidence.scaffold(cohort.sites, settings.tau_percentile, settings.eta, settings.zeta)


def save_scaffold(
    out: Path, cohort: StoredCohort, evidence: SiteStatistics, scaffold: Scaffold, settings: Settings
) -> Path:
    """Write ``scaffold.csv``, ``excluded.csv`` and the arrays in a folder ``evidence``; returns the table's path."""
    pairs, regions = evidence.pairs[scaffold.edges], np.array(cohort.atlas.labels)
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
        "manifest_hash": cohort.manifest_hash,
        "settings": asdict(settings),
        "sites": evidence.sites,
        "n_people": len(cohort),
        "tau": scaffold.tau,
        "notes": evidence.deconfounder.notes_,
        "atlas": describe_atlas(cohort.atlas.name, cohort.atlas.labels),
    }
    save_model(out / "evidence", header, arrays | deconfounder)
    write_csv(out / "excluded.csv", cohort.excluded)
    return write_csv(out / "scaffold.csv", table)
