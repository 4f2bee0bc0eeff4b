"""Statistics and profiles of a cohort, in memory or on disk: `site_statistics` and `profiles_of` see which.

Of people who stay on disk, regressions and contrasts of all edges are small and in memory. The values and log profiles
of people on the edges that are in the scaffold of some inner fold are written person by person, and read a few people
at a time.
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

from brainroam.core.connectivity import cohort_edges
from brainroam.core.deconfound import SiteDeconfounder
from brainroam.core.pathways import SiteStatistics, positions
from brainroam.core.profile import Profiles, shared_profiles
from brainroam.core.ridge import LARGE
from brainroam.core.scaffold import Scaffold, edges_of
from brainroam.core.targets import site_target
from brainroam.data import stored_cohort
from brainroam.data.cohort import Cohort
from brainroam.data.groups import group_codes
from brainroam.data.stored_cohort import StoredArray, StoredCohort

AT_A_TIME = 128  # people read together; each time the slopes of their sites are pooled again
# Measured: what a step of training holds of each number at a pathway; a line graph being built, for each pair of
# neighbours; contrasts and regressions of a site and edge.
STEP_BYTES, NEIGHBOUR_BYTES, FIT_BYTES = 80, 80, 160


class StoredStatistics(SiteStatistics):
    """SiteStatistics whose people are read from disk, in training on the edges of the scaffolds alone."""

    on_disk = True

    def __init__(
        self, cohort: StoredCohort, edges: StoredArray, covariates: pd.DataFrame, deconfounder: SiteDeconfounder,
        contrast: str,
    ) -> None:  # fmt: skip
        self._cohort = cohort
        self._narrow: tuple[np.ndarray, Scratch] | None = None
        site = cohort.table["site"].to_numpy().astype(str)
        group = group_codes(cohort.table)
        y = site_target(cohort)
        super().__init__(
            edges, y, site, covariates, deconfounder, cohort.features.cache, contrast, group,  # type: ignore[arg-type]
            against_controls=cohort.target.has_controls,
        )  # fmt: skip

    def gathered(self, scaffolds: Sequence[Scaffold]) -> "StoredStatistics":
        """The same with the columns of these scaffolds, person by person."""
        ready, wanted = copy(self), edges_of(scaffolds)
        ready._narrow = wanted, Scratch(self._cohort, len(wanted), lambda people: self.edges[np.ix_(people, wanted)])
        return ready

    def require_memory(self, n_nodes: int, n_trained: int, width: int) -> None:
        """Refuse more pathways than can be fitted within the memory."""
        n_people = len(self.y)
        solving = 8 * (n_people * n_nodes + 3 * min(n_people, n_nodes, LARGE) ** 2)
        neighbours = 4 * n_nodes**2 / self._cohort.n_rois
        training = STEP_BYTES * width * n_trained + NEIGHBOUR_BYTES * neighbours
        what = f"training on {n_nodes} pathways of {n_people} people (or give a higher tau_percentile)"
        self._cohort.features.require_memory(FIT_BYTES * self.contrast.size + max(solving, training), what)

    def values_of(self, people: np.ndarray, edges: np.ndarray) -> np.ndarray:
        """Edge values of some people on some edges."""
        if self._narrow is None:
            return self.edges[np.ix_(positions(people), edges)]
        known, scratch = self._narrow
        return scratch.read(positions(people), np.searchsorted(known, edges))

    def batches(self, people: np.ndarray) -> list[np.ndarray]:
        """These people, a few at a time."""
        places = positions(people)
        return [places[start : start + AT_A_TIME] for start in range(0, len(places), AT_A_TIME)]

    def fold_storage(self) -> dict:
        """A dictionary on disk."""
        return FoldStorage(self._cohort.features.folder)

    def kept(self, deconfounder: SiteDeconfounder) -> SiteDeconfounder:
        """Its averages only: the regressions of all sites would be kept for every fold."""
        frozen = SiteDeconfounder(**deconfounder.get_params()).load_state(deconfounder.state())
        frozen.notes_ = deconfounder.notes_
        return frozen


class Scratch:
    """Columns of the people of a cohort in a file, a person in one piece, for as long as this object lives.

    People are read in any order again and again, by this process alone: a plain file does that ten times as fast as
    chunks of Zarr, whose checksums and shared writing nobody needs here.
    """

    def __init__(self, cohort: StoredCohort, width: int, read: Callable[[np.ndarray], np.ndarray]) -> None:
        self._folder = tempfile.TemporaryDirectory(dir=cohort.features.folder, prefix="scratch-")
        self._path, self._width = Path(self._folder.name) / "columns", width
        with self._path.open("wb") as file:
            for start in range(0, len(cohort), stored_cohort.BATCH):
                people = np.arange(start, min(start + stored_cohort.BATCH, len(cohort)))
                read(people).astype(float).tofile(file)

    def read(self, people: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Some columns of some people."""
        found = np.empty((len(people), len(columns)))
        with self._path.open("rb") as file:
            for row, person in zip(found, people.tolist(), strict=True):
                file.seek(8 * self._width * person)
                row[:] = np.fromfile(file, float, self._width)[columns]
        return found


@dataclass(frozen=True)
class StoredProfiles(Profiles):
    """Log profiles that are read from disk."""

    values: Scratch  # type: ignore[assignment]
    n_people: int

    def of(self, edges: np.ndarray, people: np.ndarray | slice = slice(None)) -> np.ndarray:
        """The values (n, len(edges), 2) of a subset of the edges."""
        places = np.arange(self.n_people)[people]
        columns = np.searchsorted(self.edges, edges)
        both = np.stack([2 * columns, 2 * columns + 1], axis=1).ravel()
        return self.values.read(places, both).reshape(len(places), -1, 2)


class FoldStorage(dict):
    """A dictionary whose values lie on disk, for this process alone.

    They are pickled, which nothing that comes from outside ever is: this process wrote them, in a folder that only its
    user may open.

    >>> fold_storage = FoldStorage(Path(tempfile.mkdtemp()))
    >>> fold_storage["fold"] = [1, 2]
    >>> fold_storage["fold"]
    [1, 2]
    """

    def __init__(self, folder: Path) -> None:
        self._folder = tempfile.TemporaryDirectory(dir=folder, prefix="fold_storage-")

    def __setitem__(self, key: Any, value: Any) -> None:
        path = Path(self._folder.name) / f"{len(self)}"
        path.write_bytes(pickle.dumps(value))
        super().__setitem__(key, path)

    def __getitem__(self, key: Any) -> Any:
        return pickle.loads(super().__getitem__(key).read_bytes())


def site_statistics(
    cohort: Cohort,
    covariates: pd.DataFrame,
    deconfounder: SiteDeconfounder,
    kind: str = "pearson",
    shrinkage: float = 0.5,
    robust: bool = False,
    contrast: str = "huber",
) -> SiteStatistics:
    """The evidence of labelled people on edges of one kind; what was computed for one person or site is shared."""
    edges: Any = cohort_edges(cohort, kind, shrinkage, robust)
    if isinstance(cohort, StoredCohort):
        return StoredStatistics(cohort, edges, covariates, deconfounder, contrast)
    site, group = cohort.table["site"].to_numpy().astype(str), group_codes(cohort.table)
    of_features = group, cohort.feature_pairs, cohort.own_units, cohort.target.has_controls
    return SiteStatistics(
        edges, site_target(cohort), site, covariates, deconfounder, cohort.features.cache, contrast, *of_features
    )


def profiles_of(
    cohort: Cohort, edges: np.ndarray, window: np.ndarray, stride: np.ndarray, stretch: int | None = None
) -> Profiles:
    """Log profiles of the people of a cohort on some edges."""
    if not isinstance(cohort, StoredCohort):
        return shared_profiles(cohort, edges, window, stride, stretch)
    subjects = cohort.table["subject"].tolist()
    if len(cohort) <= stored_cohort.BATCH:  # such as are read at once
        return Profiles.compute(list(cohort.series), edges, window, stride, subjects, stretch)

    def read(people: np.ndarray) -> np.ndarray:
        """One person at a time: windows of all edges of many would be large."""
        found = [
            Profiles.compute([cohort.series[i]], edges, window[i], stride[i], [subjects[i]], stretch).values.ravel()
            for i in people.tolist()
        ]
        return np.stack(found)

    return StoredProfiles(edges, Scratch(cohort, 2 * len(edges), read), len(cohort))
