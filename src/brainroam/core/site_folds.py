"""Site folds: people of training sites read on the pathways that other training sites gave.

Training sites stand in `GROUPS` groups of about the same number of people; few sites stand alone, and so do up to
`LINEAR_GROUPS` where no network is to be trained, which is what costs. A fold is named by the sites it leaves out, and
holds the pathways that the other sites gave. The network is trained on the people of each group g, read on the pathways
of the fold without g. To judge it at group g, it is trained on the people of each other group h on the pathways of the
fold without g and h, and read on g in the fold without g. The fold that leaves no site out is used for unseen sites.

An episode is some people on the pathways of one fold, as a network reads them. Its arrays are torch tensors; nothing
here imports torch before a network is trained, so that a linear reading can be made without it.
"""

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from brainroam.core.pathways import Pathways
from brainroam.core.profile import Profiles
from brainroam.core.scaffold import Scaffold, edges_of
from brainroam.core.site_statistics import SiteStatistics
from brainroam.data.folds import group_sites, other_sites
from brainroam.errors import EmptyScaffoldError
from brainroam.utils.optional import as_array, one_thread

if TYPE_CHECKING:
    from brainroam.core.gate import PathwayGraph

GROUPS = 4
LINEAR_GROUPS = 20  # where there are fifty tiny sites, holding out each alone costs more and tells no more
LeftOut = frozenset[str]
NOBODY: LeftOut = frozenset()


@dataclass(frozen=True)
class Episode:
    """Some people on one set of pathways: features (N, B, C), labels (B,) and the graph."""

    features: Any
    labels: Any
    graph: Any

    def __len__(self) -> int:
        return len(self.labels)

    def some(self, people: Any) -> "Episode":
        """Only these people, by position."""
        return Episode(self.features[:, people], self.labels[people], self.graph)

    def parts(self) -> "Iterator[Episode]":
        """Everybody in one part."""
        yield self


@dataclass(frozen=True)
class UnreadEpisode:
    """An episode whose features are computed when they are asked for, by position of the people."""

    labels: Any
    read: Callable[[np.ndarray], Episode]
    at_a_time: int = 32

    def __len__(self) -> int:
        return len(self.labels)

    def whole(self) -> Episode:
        """Read everybody."""
        return self.read(np.arange(len(self)))

    def some(self, people: Any) -> Episode:
        """Read these people."""
        return self.read(as_array(people))

    def parts(self) -> Iterator[Episode]:
        """Read everybody, a few at a time."""
        for start in range(0, len(self), self.at_a_time):
            yield self.read(np.arange(start, min(start + self.at_a_time, len(self))))


AnyEpisode: TypeAlias = Episode | UnreadEpisode


@one_thread()  # the same logits on any number of cores
def predict_logits(network: Any, episode: AnyEpisode) -> np.ndarray:
    """Logits (B,) of the people of an episode; labels are not used."""
    return np.concatenate([as_array(network.logits(part.features, part.graph)) for part in episode.parts()]).astype(
        float
    )


class SiteFolds:
    """All folds that leave out a group of sites, two groups, or none.

    Parameters
    ----------
    statistics : SiteStatistics
    thresholds : dict
        ``tau_percentile``, ``eta``, ``zeta``, ``sign``, ``bootstrap`` of the scaffold.
    residual : {"agnostic", "site"}
        Whether people are read in training by the frozen average deconfounder, as at inference, or by their own
        site's fit.
    orient, skip
        See `brainroam.core.site_statistics`.
    device : str, optional
        Where torch trains a network; None where none is trained, so that no pair of groups has to be left out.
    max_pathways : int, optional
        How many pathways a network reads, the strongest of its fold.
    standardise : bool
        Whether each channel of each pathway has unit spread over the training people.
    penalties : sequence of float, optional
        Of the linear reading; by default those that the statistics suggest.

    Attributes
    ----------
    groups : list of frozenset of str
        Of the sites with both classes.
    candidates : list of tuple of float
        Penalties of the linear reading to choose from, or to add up.
    shares : ndarray
        How much of each is in the reading; at first the first alone.
    """

    def __init__(
        self,
        statistics: SiteStatistics,
        thresholds: dict,
        residual: str = "agnostic",
        orient: bool = True,
        skip: str = "ridge",
        device: str | None = "cpu",
        max_pathways: int | None = None,
        standardise: bool = True,
        penalties: Sequence[float] | None = None,
    ) -> None:
        is_chosen = penalties is None and skip == "ridge"
        candidates = statistics.candidates if is_chosen else [penalties or statistics.penalties]
        self.candidates = [tuple(each) for each in candidates]
        self.shares = np.eye(len(self.candidates))[0]
        self.residual, self.orient, self.skip, self.device = residual, orient, skip, device
        self.max_pathways, self.standardise, self.sites = max_pathways, standardise, statistics.sites
        self.profiles: Profiles | None = None
        most = LINEAR_GROUPS if device is None else GROUPS
        self.groups = [frozenset(group) for group in group_sites(self.sites, statistics.site, most)]
        self._every_site = [str(site) for site in np.unique(statistics.site)]
        pairs = [one | other for one in self.groups for other in self.groups] if device is not None else []
        self._scaffolds = {NOBODY: statistics.scaffold(self._inside(NOBODY), **thresholds)}
        for left_out in dict.fromkeys([*self.groups, *pairs]):
            if len(set(self.sites) - left_out) >= 2:
                try:
                    self._scaffolds[left_out] = statistics.scaffold(self._inside(left_out), **thresholds)
                except EmptyScaffoldError:
                    continue  # too little agreement without these sites: nobody is read there
        self.statistics = statistics.ready_for(list(self._scaffolds.values()))
        self._pathways: MutableMapping[LeftOut, list[Pathways]] = statistics.features.fold_storage()
        self._trained: MutableMapping[LeftOut, tuple[Pathways, PathwayGraph]] = statistics.features.fold_storage()

    @property
    def size(self) -> int:
        """Pathways of the largest fold."""
        return max(map(len, self._scaffolds.values()))

    def scaffold(self, left_out: LeftOut = NOBODY) -> Scaffold:
        """The scaffold of one fold."""
        return self._scaffolds[left_out]

    def selected(self) -> bytes:
        """The edges of every fold, to be compared with those of other thresholds."""
        return b" ".join(scaffold.edges.tobytes() for scaffold in self._scaffolds.values())

    def held_out_groups(self) -> list[LeftOut]:
        """The groups without which the other sites have a scaffold."""
        return [group for group in self.groups if group in self._scaffolds]

    def needed_edges(self) -> np.ndarray:
        """Every edge that is in the scaffold of some fold, ascending."""
        return edges_of(self._scaffolds.values())

    def with_shares(self, shares: np.ndarray) -> "SiteFolds":
        """The same folds with so much of each candidate in the linear reading."""
        folds = copy(self)
        folds.shares = shares
        return folds

    def pathways(self, left_out: LeftOut = NOBODY) -> Pathways:
        """The pathways of one fold, with the chosen linear reading."""
        each = self.pathways_by_candidate(left_out)
        return replace(each[0], skip=np.tensordot(self.shares, [pathways.skip for pathways in each], 1))

    def pathways_by_candidate(self, left_out: LeftOut = NOBODY) -> list[Pathways]:
        """The pathways of one fold, with the linear reading by each candidate."""
        if left_out not in self._pathways:
            scaffold = self._scaffolds[left_out]
            self._pathways[left_out] = self._compute(left_out, scaffold, self.candidates, self.skip)
        return self._pathways[left_out]

    def _compute(
        self, left_out: LeftOut, scaffold: Scaffold, candidates: Sequence[Sequence[float]], skip: str
    ) -> list[Pathways]:
        inside = self._inside(left_out)
        found = self.statistics.pathways_by_candidate(inside, scaffold, candidates, self.profiles, self.orient, skip)
        return found if self.standardise else [pathways.unscaled() for pathways in found]

    def people(self, group: LeftOut) -> np.ndarray:
        """Positions of the people of a group."""
        return np.flatnonzero(np.isin(self.statistics.site, list(group)))

    def order(self, scores: np.ndarray) -> float | None:
        """How well scores order held-out people: mean AUC within sites, or r of a number; None where nobody was."""
        orders = self.statistics.coding.site_orders(self.statistics.y, self.statistics.site, scores)
        return float(np.mean(orders)) if orders else None

    def training(self, left_out: LeftOut = NOBODY) -> list[AnyEpisode]:
        """One episode per group that is not left out, each read in the fold without it."""
        return [
            self._episode(left_out | group, self.people(group), self.residual)
            for group in self.groups
            if not group & left_out and left_out | group in self._scaffolds
        ]

    def joint(self, left_out: LeftOut = NOBODY) -> list[AnyEpisode]:
        """One episode of everybody who is not left out, on the pathways that these same people gave."""
        return [self._episode(left_out, self.people(frozenset(self._inside(left_out))), self.residual)]

    def held_out(self, group: LeftOut) -> AnyEpisode:
        """The people of a group, read by a network in the fold without it as if never seen."""
        return self._episode(group, self.people(group), "agnostic")

    def nodes(self, people: np.ndarray, left_out: LeftOut = NOBODY) -> np.ndarray:
        """Node features (N, n, C) of some people on all pathways of a fold, read as at inference."""
        return self._features(self.pathways(left_out), people, "agnostic")

    def _episode(self, left_out: LeftOut, people: np.ndarray, residual: str) -> AnyEpisode:
        self._for_network(left_out)  # now, not in the middle of training
        read = partial(self._read_some, left_out, people, residual)
        return self.statistics.features.read_ahead(UnreadEpisode(self._labels(people), read))

    def _read_some(self, left_out: LeftOut, people: np.ndarray, residual: str, some: np.ndarray) -> Episode:
        """Some of these people, by position among them."""
        pathways, graph = self._for_network(left_out)
        features = pathways.without_nuisance(self._features(pathways, people[some], residual))
        return Episode(to_device(features, self.device), self._labels(people[some]), graph)

    def _features(self, pathways: Pathways, people: np.ndarray, residual: str) -> np.ndarray:
        """Node features (N, n, C), with the residuals of the frozen average deconfounder or of each site's own fit."""
        edges, statistics = pathways.scaffold.edges, self.statistics
        profiles = self.profiles.of(edges, people) if self.profiles else None
        if residual == "site":
            return pathways.standardise(statistics.residuals_of(people, edges), profiles)
        return pathways.nodes(statistics.values_of(people, edges), statistics.covariates.iloc[people], profiles)

    def _for_network(self, left_out: LeftOut) -> "tuple[Pathways, PathwayGraph]":
        """The pathways of a fold that a network reads, and its view of them, which several episodes share."""
        if left_out not in self._trained:
            from brainroam.core.gate import PathwayGraph

            scaffold = self._scaffolds[left_out]
            scaffold = scaffold.on(scaffold.strongest(self.max_pathways))
            (pathways,) = self._compute(left_out, scaffold, [self.statistics.penalties], skip="none")
            self._trained[left_out] = pathways, PathwayGraph.of(pathways.graph, self.device or "cpu")
        return self._trained[left_out]

    def _labels(self, people: np.ndarray) -> Any:
        return to_device(self.statistics.y[people], self.device)

    def _inside(self, left_out: LeftOut) -> list[str]:
        return other_sites(self._every_site, left_out)


def to_device(values: np.ndarray, device: str | None) -> Any:
    """Values in the single precision of training, on a device of torch."""
    import torch

    return torch.as_tensor(values, dtype=torch.float32, device=device)
