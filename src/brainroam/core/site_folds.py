"""Site folds: people of one training site read on the pathways that other training sites gave.

A fold is named by the training sites it leaves out, and holds the pathways that the other training sites gave. The
network is trained on the people of each site e, read on the pathways of the fold without e. To validate on site e, it
is trained on the people of each other site e' on the pathways of the fold without e and e', and read on e in the fold
without e. The fold that leaves no site out is used for unseen sites.

Of more than `MOST_GROUPS` sites a few together stand for one in training: each fold needs pathways of its own, and
finding them for every pair of many sites would take longer than the training.
"""

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from brainroam.core.episodes import AnyEpisode, Episode, UnreadEpisode
from brainroam.core.linegraph import prior_gates
from brainroam.core.pathways import Evidence, Pathways, Profiles
from brainroam.core.scaffold import Scaffold, edges_of
from brainroam.data.site_groups import grouped
from brainroam.errors import EmptyScaffoldError

if TYPE_CHECKING:
    from brainroam.core.gate import PathwayGraph

MOST_GROUPS = 10
LeftOut = frozenset[str]
NOBODY: LeftOut = frozenset()


class SiteFolds:
    """All folds that leave out a site, a site and a group of sites, or none.

    Parameters
    ----------
    evidence : Evidence
    thresholds : dict
        ``tau_percentile``, ``eta``, ``zeta``, ``bootstrap`` of the scaffold.
    residual : {"agnostic", "site"}
        Whether people are read in training by the frozen average deconfounder, as at inference, or by their own
        site's fit.
    orient, skip
        See `brainroam.core.pathways`.
    device : str, optional
        Where torch keeps the episodes; None keeps them in numpy, for `LinearReading`.
    trained : sequence of str, optional
        The sites without which a network will be trained; by default each. `train_without` adds more.
    gates : callable, optional
        What a prior alone opens.

    Attributes
    ----------
    size : int
        Pathways of the largest fold.
    """

    def __init__(
        self,
        evidence: Evidence,
        thresholds: dict,
        residual: str = "agnostic",
        orient: bool = True,
        skip: str = "ridge",
        device: str | None = "cpu",
        trained: Sequence[str] | None = None,
        gates: Callable[[np.ndarray], np.ndarray] = prior_gates,
    ) -> None:
        self.gates = gates
        self.residual, self.orient, self.skip, self.device = residual, orient, skip, device
        self.evidence, self.sites, self._thresholds = evidence, evidence.sites, thresholds
        self.groups = [frozenset(group) for group in grouped(self.sites, evidence.site, MOST_GROUPS)]
        self.profiles: Profiles | None = None
        self._scaffolds: dict[LeftOut, Scaffold] = {NOBODY: evidence.scaffold(self._inside(NOBODY), **thresholds)}
        self._pathways: MutableMapping[LeftOut, Pathways] = evidence.shelf()
        self._graphs: MutableMapping[LeftOut, PathwayGraph | Pathways] = evidence.shelf()
        self.train_without(evidence.sites if trained is None else trained)

    def train_without(self, sites: Sequence[str]) -> None:
        """Find the scaffolds that training without each of these sites needs."""
        for left_out in self._left_out(sites):
            try:
                self._scaffolds[left_out] = self.evidence.scaffold(self._inside(left_out), **self._thresholds)
            except EmptyScaffoldError:
                continue  # too little agreement without these sites: no episode is read there
        self.size = max(map(len, self._scaffolds.values()))
        self.evidence = self.evidence.gathered(list(self._scaffolds.values()))

    def scaffold(self, left_out: LeftOut = NOBODY) -> Scaffold:
        """The scaffold of one fold."""
        return self._scaffolds[left_out]

    def can_hold_out(self, site: str) -> bool:
        """Whether the other sites have a scaffold."""
        return frozenset({site}) in self._scaffolds

    def needed_edges(self) -> np.ndarray:
        """Every edge that is in the scaffold of some fold, ascending."""
        return edges_of(self._scaffolds.values())

    def pathways(self, left_out: LeftOut = NOBODY) -> Pathways:
        """The pathways of one fold."""
        if left_out not in self._pathways:
            self._pathways[left_out] = self.evidence.pathways(
                self._inside(left_out),
                self._scaffolds[left_out],
                self.profiles,
                self.orient,
                self.skip,
                self.gates,
            )
        return self._pathways[left_out]

    def training(self, left_out: LeftOut = NOBODY) -> list[AnyEpisode]:
        """One episode per group of sites, as far as they are not left out, each read in the fold without it."""
        return [
            self._episode(left_out | group, sorted(group - left_out), self.residual)
            for group in self.groups
            if group - left_out and left_out | group in self._scaffolds
        ]

    def joint(self, left_out: LeftOut = NOBODY) -> list[AnyEpisode]:
        """Everybody who is not left out, in one episode, on the pathways they themselves gave."""
        return [self._episode(left_out, self._inside(left_out), self.residual)]

    def held_out(self, sites: Sequence[str] | None = None, static: bool = False) -> list[tuple[str, AnyEpisode]]:
        """Each site (or those named) that can be validated on, read in the fold without it as if never seen.

        ``static`` episodes have the static channel alone, in numpy: all that `LinearReading` looks at.
        """
        known = [site for site in (self.sites if sites is None else sites) if self.can_hold_out(site)]
        return [(site, self._episode(frozenset({site}), [site], "agnostic", static)) for site in known]

    def _episode(self, left_out: LeftOut, sites: Sequence[str], residual: str, static: bool = False) -> AnyEpisode:
        people = np.flatnonzero(np.isin(self.evidence.site, sites))
        if self.evidence.on_disk:
            self.pathways(left_out)  # now, not in the middle of training
            labels = self._labels(people, static)
            return UnreadEpisode(labels, lambda some: self._read(left_out, people[some], residual, static))
        return self._read(left_out, people, residual, static)

    def _read(self, left_out: LeftOut, people: np.ndarray, residual: str, static: bool = False) -> Episode:
        pathways, evidence = self.pathways(left_out), self.evidence
        edges = pathways.scaffold.edges
        profiles = self.profiles.of(edges, people) if self.profiles and not static else None
        if residual == "site":
            features = pathways.standardised(evidence.residuals_of(people, edges), profiles)
        else:
            covariates = evidence.covariates.iloc[people]
            features = pathways.nodes(evidence.values_of(people, edges), covariates, profiles)
        graph = pathways if static else self._graph(left_out)
        return Episode(placed(features, None if static else self.device), self._labels(people, static), graph)

    def _graph(self, left_out: LeftOut) -> "PathwayGraph | Pathways":
        """The network's view of a fold, which several episodes share."""
        if left_out not in self._graphs:
            self._graphs[left_out] = path_graph(self.pathways(left_out), self.device)
        return self._graphs[left_out]

    def _labels(self, people: np.ndarray, static: bool = False) -> Any:
        return placed(self.evidence.y[people].astype(np.float32), None if static else self.device)

    def _left_out(self, trained: Sequence[str]) -> Iterator[LeftOut]:
        """Each site alone, and each group alone and with a site to be trained without, where two sites remain.

        Only what is not known yet.
        """
        alone = [frozenset({site}) for site in self.sites]
        both = [frozenset({site}) | group for site in trained for group in self.groups]
        for left_out in dict.fromkeys([*alone, *self.groups, *both]):
            if left_out not in self._scaffolds and len(set(self.sites) - left_out) >= 2:
                yield left_out

    def _inside(self, left_out: LeftOut) -> list[str]:
        return [str(site) for site in np.unique(self.evidence.site) if site not in left_out]


def placed(values: np.ndarray, device: str | None) -> Any:
    """Values where a network reads them: on a device of torch; without one as they are."""
    if device is None:
        return values
    import torch

    return torch.as_tensor(values, device=device)


def path_graph(pathways: Pathways, device: str | None = "cpu") -> "PathwayGraph | Pathways":
    """The network's view of a set of pathways; `LinearReading` takes them as they are."""
    if device is None:
        return pathways
    from brainroam.core.gate import PathwayGraph

    return PathwayGraph.of(pathways.graph, pathways.skip, device)
