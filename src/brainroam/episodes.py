"""Episodes: people of one training site read on the pathways that other training sites gave.

A *world* is the set of pathways known when some sites are left out. With training sites T, the network is trained on
the people of each site e in the world without e; to validate on site e it is trained on the people of each e' in the
world without e and e', and read on e in the world without e. The world without nobody reads the unseen site.
"""

from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np
import torch
from torch import Tensor

from brainroam.errors import EmptyScaffoldError
from brainroam.gate import PathwayGraph
from brainroam.pathways import Evidence, Pathways, Profiles
from brainroam.scaffold import Scaffold
from brainroam.training import Episode

World = frozenset[str]
EVERYBODY: World = frozenset()


class Worlds:
    """All worlds that leave out at most two of the training sites.

    Parameters
    ----------
    evidence : Evidence
    thresholds : dict
        ``tau_percentile``, ``eta``, ``zeta``, ``bootstrap`` of the scaffold.
    residual : {"agnostic", "site"}
        Whether people are read in training by the frozen average deconfounder, as at inference, or by their own
        site's fit.
    orient, skip
        See `brainroam.pathways`.
    """

    def __init__(
        self,
        evidence: Evidence,
        thresholds: dict,
        residual: str = "agnostic",
        orient: bool = True,
        skip: str = "ridge",
        device: str = "cpu",
    ) -> None:
        self.evidence, self.residual, self.orient, self.skip, self.device = evidence, residual, orient, skip, device
        self.sites = evidence.sites
        self.profiles: Profiles | None = None
        self._scaffolds: dict[World, Scaffold] = {EVERYBODY: evidence.scaffold(self._inside(EVERYBODY), **thresholds)}
        for left_out in self._left_out():
            try:
                self._scaffolds[left_out] = evidence.scaffold(self._inside(left_out), **thresholds)
            except EmptyScaffoldError:
                continue  # too little agreement without these sites: no episode is read there
        self._leads = {world: evidence.lead_scaffold(self._inside(world), **thresholds) for world in self._scaffolds}
        self._pathways: dict[World, Pathways] = {}

    def scaffold(self, left_out: World = EVERYBODY) -> Scaffold:
        """The scaffold of one world."""
        return self._scaffolds[left_out]

    def needed_edges(self) -> np.ndarray:
        """Every edge that is in the scaffold of some world, ascending."""
        return np.unique(np.concatenate([scaffold.edges for scaffold in self._scaffolds.values()]))

    def pathways(self, left_out: World = EVERYBODY) -> Pathways:
        """The pathways of one world."""
        if left_out not in self._pathways:
            self._pathways[left_out] = self.evidence.pathways(
                self._inside(left_out),
                self._scaffolds[left_out],
                self.profiles,
                self.orient,
                self.skip,
                self._leads[left_out],
            )
        return self._pathways[left_out]

    def training(self, left_out: World = EVERYBODY) -> list[Episode]:
        """One episode per site that is not left out, each read in the world without it."""
        return [
            self._episode(left_out | {site}, [site], self.residual)
            for site in self.sites
            if site not in left_out and left_out | {site} in self._scaffolds
        ]

    def joint(self, left_out: World = EVERYBODY) -> list[Episode]:
        """Everybody who is not left out, in one episode, on the pathways they themselves gave."""
        return [self._episode(left_out, self._inside(left_out), self.residual)]

    def held_out(self, sites: Sequence[str] | None = None) -> list[tuple[str, Episode]]:
        """Each site (or those named) that can be validated on, read in the world without it as if never seen."""
        worlds = [(site, frozenset({site})) for site in (self.sites if sites is None else sites)]
        return [(site, self._episode(world, [site], "agnostic")) for site, world in worlds if world in self._scaffolds]

    def _episode(self, left_out: World, sites: Sequence[str], residual: str) -> Episode:
        pathways, evidence = self.pathways(left_out), self.evidence
        people = np.isin(evidence.site, sites)
        profiles = self.profiles.of(pathways.scaffold.edges, people) if self.profiles else None
        if residual == "site":
            features = pathways.standardised(evidence.residuals[people][:, pathways.scaffold.edges], profiles)
        else:
            features = pathways.nodes(evidence.edges[people], evidence.covariates[people], profiles)
        return Episode(
            torch.as_tensor(features, device=self.device),
            torch.as_tensor(evidence.y[people], dtype=torch.float32, device=self.device),
            path_graph(pathways, self.device),
            self._beside(pathways, people, residual),
        )

    def _beside(self, pathways: Pathways, people: np.ndarray, residual: str) -> Tensor | float:
        """The lead-lag reading of these people."""
        lead, evidence = pathways.lead, self.evidence.lead
        if lead is None or evidence is None:
            return 0.0
        if residual == "site":
            read = lead.sum(evidence.residuals[people])
        else:
            read = lead.read(evidence.edges[people], evidence.covariates[people])
        return torch.as_tensor(read, dtype=torch.float32, device=self.device)

    def _left_out(self) -> Iterable[World]:
        """Sets of one and two sites without which at least two sites with both classes remain."""
        for size in (1, 2):
            if len(self.sites) - size >= 2:
                yield from (frozenset(pair) for pair in combinations(self.sites, size))

    def _inside(self, left_out: World) -> list[str]:
        return [str(site) for site in np.unique(self.evidence.site) if site not in left_out]


def path_graph(pathways: Pathways, device: str = "cpu") -> PathwayGraph:
    """The network's view of a set of pathways."""
    return PathwayGraph.from_arrays(pathways.graph.prior, pathways.graph.propagation, pathways.skip, device)
