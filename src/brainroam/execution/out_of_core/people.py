"""Training CORE on people who stay on disk.

A `StoredCohort` is a cohort without series. CORE asks it for evidence and profiles as it asks any cohort, and gets
them from disk: contrasts and regressions of all edges, which are small, and the values and log profiles of people on
the edges that are in the scaffold of some inner fold, a few people at a time.
"""

import pickle
import tempfile
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from brainroam.core.deconfound import SiteDeconfounder
from brainroam.core.pathways import Evidence, Profiles, evidence_of, positions, profiles_of
from brainroam.core.scaffold import Scaffold, edges_of
from brainroam.data.cohort import Cohort
from brainroam.data.store import CohortStore
from brainroam.errors import UsageError
from brainroam.execution import engine as engines
from brainroam.execution.out_of_core.edge_matrix import EdgeMatrix
from brainroam.execution.out_of_core.passes import signal_of, write_columns, write_profiles
from brainroam.execution.out_of_core.plan import Plan, Stages, plan_for
from brainroam.execution.out_of_core.stream import Crew, StreamedEvidence, carry_out
from brainroam.utils.cache import Cache
from brainroam.utils.files import content_hash

AT_A_TIME = 32  # people read together
# Measured: Python with torch; what a step of training holds of each number at a pathway; a line graph being built, for
# each pair of neighbours; contrasts and regressions of a site and edge, of both kinds.
TRAINING_BYTES, STEP_BYTES, NEIGHBOUR_BYTES, FIT_BYTES = 400e6, 80, 80, 160


@dataclass(frozen=True)
class Disk:
    """Where people are, where finished work is kept, how much memory there is and who works."""

    store: CohortStore
    work: Path
    memory: float
    crew: Crew


class StoredCohort(Cohort):
    """Labelled people of a store whose series stay there; made by `open_cohort`.

    It has everything of a `Cohort` but the series. CORE and its variants can be fitted on it.
    """

    def __init__(self, disk: Disk, rows: np.ndarray) -> None:
        self.disk, store = disk, disk.store
        self._series: tuple[Any, ...] = tuple(rows.tolist())  # people by their place in the store
        self._table = store.table.iloc[rows].reset_index(drop=True)
        self._atlas, self._excluded, self._truth, self._origin = store.atlas, store.excluded, None, None
        self._features = {"digest": np.array([store.digests[row] for row in rows])}
        self._cache = Cache()
        self._covariates, self._prepared = store.covariates, store.prepared

    @property
    def series(self) -> list[np.ndarray]:
        """An error: they are not in memory."""
        raise UsageError("this method reads everybody's series or edges at once; out of core, fit core or a variant")

    @property
    def n_rois(self) -> int:
        """Number of regions P."""
        return len(self.atlas)

    @property
    def rows(self) -> np.ndarray:
        """The people, by their place in the store."""
        return np.array(self._series)

    def plan(self, stages: Stages) -> Plan:
        """How to compute stages 1 and 2 of these people."""
        disk = self.disk
        return plan_for(disk.store, self.rows, disk.work, disk.memory, stages, disk.crew.jobs)

    def per_person(self, key: str, compute: Callable[[list[np.ndarray]], np.ndarray]) -> np.ndarray:
        """Regions without signal, and digests; whatever is larger is refused."""
        if key == "missing_rois" and key not in self._whole._features:
            self._whole._features[key] = self._whole._signal()
        elif key not in self._whole._features:
            self.series  # noqa: B018  says why not
        return super().per_person(key, compute)

    @property
    def _whole(self) -> "StoredCohort":
        return self._origin[0] if self._origin is not None else self  # type: ignore[return-value]

    def _signal(self) -> np.ndarray:
        plan, crew = self.plan(Stages()), self.disk.crew
        n = plan.matrix.n_batches
        parts = crew.do(signal_of, range(n), plan, "regions without signal", n)
        return np.concatenate([parts[k] for k in range(n)])

    def _with(self, positions: np.ndarray, excluded: pd.DataFrame) -> "StoredCohort":
        part = super()._with(positions, excluded)
        part.disk = self.disk  # type: ignore[attr-defined]
        return part  # type: ignore[return-value]


def open_cohort(
    store: str | Path,
    work: str | Path,
    memory: float = 2e9,
    sites: Sequence[str] | None = None,
    max_missing_rois: float = 0.2,
    jobs: int = 1,
    engine: "str | engines.Engine" = "local",
    progress: bool = False,
) -> StoredCohort:
    """The labelled people of a store, to be learned from out of core.

    Parameters
    ----------
    store : path
        A chunked store, see `brainroam.data.store`.
    work : path
        A folder for what is finished; `discard_work` empties it when the model is saved.
    memory : float
        Bytes that all processes together may use.
    sites, max_missing_rois
        Whom to leave out, as in `brainroam.load_cohort`.
    jobs, engine
        See `brainroam.execution.engine.map`; for everything up to the training, which is done here.
    progress : bool
        Show how far it is on stderr.

    Examples
    --------
    >>> import brainroam, tempfile
    >>> from brainroam.data.store import write_store
    >>> folder, made = Path(tempfile.mkdtemp()), brainroam.make_cohort(n_sites=3, n_per_site=12, n_rois=12)
    >>> cohort = open_cohort(write_store(folder / "cohort.zarr", made.table, made.series), folder / "work")
    >>> clf = brainroam.CoreClassifier(hidden=4, budget=2, max_epochs=1, tau_percentile=50)
    >>> clf.fit_cohort(cohort, cohort.covariates(["age", "sex"])).scaffold_.contrast.shape
    (3, 66)
    """
    opened = CohortStore(store)
    disk = Disk(opened, Path(work), memory, Crew(jobs, engine, progress))
    cohort: Cohort = StoredCohort(disk, opened.rows(sites))
    unlabelled = cohort.table["label"].isna().to_numpy()
    if unlabelled.any():
        cohort = cohort.exclude(unlabelled, ["no label"] * int(unlabelled.sum()))
    return cohort.exclude_missing(max_missing_rois)  # type: ignore[return-value]


class StoredEvidence(Evidence):
    """Evidence whose edge values and residuals are read from disk, on the edges of the scaffolds alone."""

    on_disk = True

    def __init__(self, found: StreamedEvidence, disk: Disk, covariates: pd.DataFrame) -> None:
        self._plan, self._disk, self.covariates = found.plan, disk, covariates
        self.y, self.site = found.people["label"].to_numpy(dtype=int), found.people["site"].to_numpy().astype(str)
        self.deconfounder, self.sites, self.contrast = found.deconfounder, found.sites, found.contrast
        self.pairs = found.plan.pairs
        self._edges: np.ndarray
        self._narrow: EdgeMatrix

    def gathered(self, scaffolds: Sequence[Scaffold]) -> "StoredEvidence":
        """The same with the columns of these scaffolds."""
        ready, plan, edges = copy(self), self._plan, edges_of(scaffolds)
        ready._edges, ready._narrow = edges, _narrow_matrix(plan, "columns", len(edges), edges)
        self._disk.crew.fill(ready._narrow, write_columns, (plan, edges, ready._narrow), "scaffold edges")
        return ready

    def require_memory(self, n_nodes: int, width: int) -> None:
        """Refuse more pathways than can be trained on within the memory."""
        n_people = len(self.y)
        solving = 8 * (n_people * n_nodes + 3 * min(n_people, n_nodes) ** 2)
        neighbours = 4 * n_nodes**2 / self._plan.store.n_rois
        training = STEP_BYTES * width * n_nodes + NEIGHBOUR_BYTES * neighbours
        needed = TRAINING_BYTES + FIT_BYTES * self.contrast.size + max(solving, training)
        if needed > self._disk.memory:
            raise UsageError(
                f"--memory {self._disk.memory / 1e9:g}GB is too little to train on {n_nodes} pathways of {n_people} "
                f"people; give at least {needed / 1e9:.1f}GB, or a higher tau_percentile"
            )

    def values_of(self, people: np.ndarray, edges: np.ndarray) -> np.ndarray:
        """Edge values of some people on some edges."""
        return self._narrow.rows(positions(people))[:, np.searchsorted(self._edges, edges)]

    def batches(self, people: np.ndarray) -> list[np.ndarray]:
        """These people, a few at a time."""
        places = positions(people)
        return [places[start : start + AT_A_TIME] for start in range(0, len(places), AT_A_TIME)]

    def shelf(self) -> dict:
        """A dictionary on disk."""
        return Shelf(self._plan.work)

    def _people_of(self, sites: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        raise UsageError("a bootstrap that resamples people needs memory for all of them; use bootstrap=sites")

    def kept(self, deconfounder: SiteDeconfounder) -> SiteDeconfounder:
        """Its averages only: the regressions of all sites would be kept for every fold."""
        frozen = SiteDeconfounder(**deconfounder.get_params()).load_state(deconfounder.state())
        frozen.notes_ = deconfounder.notes_
        return frozen


@dataclass(frozen=True)
class StoredProfiles(Profiles):
    """Log profiles that are read from disk."""

    values: EdgeMatrix  # type: ignore[assignment]

    def of(self, edges: np.ndarray, people: np.ndarray | slice = slice(None)) -> np.ndarray:
        """The values (n, len(edges), 2) of a subset of the edges."""
        places = np.arange(self.values.n_people)[people]
        return self.values.rows(places).reshape(len(places), -1, 2)[:, np.searchsorted(self.edges, edges)]


class Shelf(dict):
    """A dictionary whose values lie on disk, for this process alone.

    They are pickled, which nothing that comes from outside ever is: this process wrote them, in a folder that only its
    user may open.

    >>> shelf = Shelf(Path(tempfile.mkdtemp()))
    >>> shelf["world"] = [1, 2]
    >>> shelf["world"]
    [1, 2]
    """

    def __init__(self, folder: Path) -> None:
        self._folder = tempfile.TemporaryDirectory(dir=folder, prefix="shelf-")

    def __setitem__(self, key: Any, value: Any) -> None:
        path = Path(self._folder.name) / f"{len(self)}"
        path.write_bytes(pickle.dumps(value))
        super().__setitem__(key, path)

    def __getitem__(self, key: Any) -> Any:
        return pickle.loads(super().__getitem__(key).read_bytes())


@evidence_of.register
def _(
    cohort: StoredCohort,
    covariates: pd.DataFrame,
    deconfounder: SiteDeconfounder,
    kind: str = "pearson",
    shrinkage: float = 0.5,
    robust: bool = False,
    contrast: str = "huber",
) -> Evidence:
    stages = Stages(
        kind,
        shrinkage,
        robust,
        tuple(covariates.columns),
        deconfounder.huber_k,
        deconfounder.huber_delta,
        "pooled" if deconfounder.pooled else "site",
        deconfounder.fit_on,
        slopes=deconfounder.slopes,
        contrast=contrast,
        max_missing_rois=1.0,  # who lacks too many is left out already
    )
    return StoredEvidence(carry_out(cohort.plan(stages), cohort.excluded, cohort.disk.crew), cohort.disk, covariates)


@profiles_of.register
def _(
    cohort: StoredCohort, edges: np.ndarray, window: np.ndarray, stride: np.ndarray, stretch: int | None = None
) -> Profiles:
    plan = cohort.plan(Stages())
    narrow = _narrow_matrix(plan, "profiles", 2 * len(edges), edges, window, stride, np.array([stretch or 0]))
    cohort.disk.crew.fill(narrow, write_profiles, (plan, edges, window, stride, stretch, narrow), "profiles")
    return StoredProfiles(edges, narrow)


def _narrow_matrix(plan: Plan, name: str, width: int, *settings: np.ndarray) -> EdgeMatrix:
    """A matrix of few columns, all in one block, so that a person's are one piece; found again by its settings."""
    folder = plan.work / f"{name}-{content_hash([array.tolist() for array in settings])[:16]}"
    return EdgeMatrix(folder, len(plan.rows), width, plan.batch, max(width, 1))
