"""FC-HGNN: a graph network on each brain, then one on the population, where people of like age are linked.

Brain, with z the Fisher transform of r, weights |z| where |z| > 0.65 and features z:

    h = GCN_left on the left hemisphere, GCN_right on the right (P -> 32 -> 20), merged, then a GCN on the whole
    regions: score_u = tanh(GCN h)_u, the best 90 % kept, H = score * h          (SAGPool)
    clusters: S = softmax(Cheb_3 H), P/2 clusters;  embedding = flatten(H + S S^T H)        (DiffPool, fused)

Population, four layers, one attention for each kind of neighbour (same sex, other sex), c = 0.8, 0.2 at the start:

    g_i' = LeakyReLU(BN( sum_k c_k [ W_k g_i + sum_{j in N_k(i)} softmax_j(q_k g_i . k_k g_j / sqrt 20) V_k g_j ] ))
    logit = w . [g^1, g^2, g^3, g^4] + b

The published graph links people of one site, so that somebody of a new site has no neighbour at all. Here two people
are linked when their ages differ by less than two years, and sex gives the kind of link; site and label are not used.
Training people are linked among each other; a new person is linked to training people only, never to another new one.
Without age there is no link and the person stands alone; without sex the link has no kind and is left out.

Released code: the best epoch is chosen on the test fold; links are stored one way, so that the order of people matters;
ChebConv is called with indices relabelled by the pooling; kept regions are flattened in order of score, which loses who
is who. Here validation chooses, links go both ways, and a region that is left out is a zero in its place. Regions of
neither hemisphere (vermis, or an atlas without names and coordinates) belong to both. Training is full-batch.

Explanation: ``regions`` (n, P), the pooling scores.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from pydantic import NonNegativeFloat, PositiveInt
from torch import Tensor, nn
from torch.nn import functional as F

from brainroam.data.atlas import Atlas
from brainroam.data.cohort import Cohort
from brainroam.methods.base import CLASSES_TOO, MethodInfo
from brainroam.methods.deep.base import CHUNK, DeepMethod, People, Shape
from brainroam.methods.deep.graphs import connectivity_matrices
from brainroam.methods.deep.layers import GCNConv, Head, Network
from brainroam.methods.registry import register
from brainroam.utils.parameters import Share

EDGE_THRESHOLD = 0.65
KEPT_REGIONS = 0.9
AGE_GAP = 2.0  # years
WIDTH = 20


class BrainEncoder(nn.Module):
    """One person's regions to an embedding (P * 20)."""

    def __init__(self, n_rois: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.n_kept = max(1, round(KEPT_REGIONS * n_rois))
        self.sides = nn.ModuleList(
            nn.ModuleList([GCNConv(n_rois, hidden), GCNConv(hidden, WIDTH)]) for _ in ("left", "right")
        )
        self.whole, self.score = GCNConv(WIDTH, WIDTH), GCNConv(WIDTH, 1)
        self.assign = nn.Linear(3 * WIDTH, max(1, n_rois // 2))
        self.dropout = nn.Dropout(dropout)

    def pool_regions(self, z: Tensor, hemispheres: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Regions (B, P, 20) times their scores, the scores (B, P, 1), 0 where left out, and the graph (B, P, P)."""
        adjacency = z.abs() * (z.abs() > EDGE_THRESHOLD)
        h = sum(self._side(k, z, adjacency, hemispheres[..., k, None]) for k in range(2))
        h = self.dropout(F.leaky_relu(self.whole(h / hemispheres.sum(-1, keepdim=True), adjacency)))
        score = self.score(h, adjacency).tanh()
        least = score.topk(self.n_kept, dim=1).values[:, -1:]
        score = score * (score >= least)
        return score * h, score, adjacency

    def _side(self, k: int, z: Tensor, adjacency: Tensor, member: Tensor) -> Tensor:
        within = adjacency * member * member.mT
        layers: Any = self.sides[k]
        first, second = layers
        h = self.dropout(F.leaky_relu(first(z, within)))
        return member * self.dropout(F.leaky_relu(second(h, within)))

    def forward(self, z: Tensor, hemispheres: Tensor) -> Tensor:
        """Embeddings (B, P * 20)."""
        h, score, adjacency = self.pool_regions(z, hemispheres)
        kept = (score != 0).to(h)
        clusters = self.assign(chebyshev(h, adjacency * kept * kept.mT)).softmax(-1) * kept
        return (h + clusters @ (clusters.mT @ h)).flatten(1)


class PopulationLayer(nn.Module):
    """Attention over the neighbours of each kind, mixed with learned shares."""

    def __init__(self, n_in: int) -> None:
        super().__init__()
        self.own, self.query, self.key, self.value = (nn.Linear(n_in, 2 * WIDTH) for _ in range(4))
        self.share = nn.Parameter(torch.tensor([0.8, 0.2]).log())
        self.norm = nn.BatchNorm1d(WIDTH, momentum=0.5)  # one step an epoch: slow averages would lag behind

    def forward(self, g: Tensor, links: Tensor) -> Tensor:
        """(N, n_in) to (N, 20); links (2, N, n): who listens to whom among the first n people."""
        known = g[: links.shape[-1]]
        own, query = self.own(g), self._kinds(self.query(g))
        key, value = self._kinds(self.key(known)), self._kinds(self.value(known))
        logit = (query @ key.mT / WIDTH**0.5).masked_fill(~links, torch.finfo(g.dtype).min)
        heard = (logit.softmax(-1) * links) @ value  # nothing for those without neighbours
        mixed = (self.share.softmax(0)[:, None, None] * (self._kinds(own) + heard)).sum(0)
        return F.leaky_relu(self.norm(mixed))

    def _kinds(self, h: Tensor) -> Tensor:
        return h.unflatten(-1, (2, WIDTH)).transpose(0, 1)


class PopulationNetwork(Network):
    """Brain encoder and population layers; remembers the training people, to whom new people are linked."""

    known: Tensor
    known_sex: Tensor
    known_age: Tensor

    def __init__(self, n_rois: int, n_people: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.brain = BrainEncoder(n_rois, hidden, dropout)
        self.layers = nn.ModuleList(PopulationLayer(size) for size in (n_rois * WIDTH, WIDTH, WIDTH, WIDTH))
        self.head = Head(4 * WIDTH)
        self.register_buffer("known", torch.zeros(n_people, n_rois * WIDTH))
        self.register_buffer("known_sex", torch.zeros(n_people))
        self.register_buffer("known_age", torch.zeros(n_people))

    def remember(self, z: Tensor, hemispheres: Tensor, sex: Tensor, age: Tensor) -> None:
        """Keep what new people need of the training people."""
        with torch.no_grad():
            parts = zip(z.split(CHUNK), hemispheres.split(CHUNK), strict=True)
            self.known.copy_(torch.cat([self.brain(*part) for part in parts]))
        self.known_sex.copy_(sex)
        self.known_age.copy_(age)

    def forward(self, z: Tensor, hemispheres: Tensor, sex: Tensor, age: Tensor) -> Tensor:
        """One logit per person; in training they are each other's neighbours, else the remembered people are."""
        g = self.brain(z, hemispheres)
        if self.training:
            return self._classify(g, population_links(sex, age, len(g)))
        everybody = (torch.cat(pair) for pair in ((self.known, g), (self.known_sex, sex), (self.known_age, age)))
        g, sex, age = everybody
        return self._classify(g, population_links(sex, age, len(self.known)))[len(self.known) :]

    def _classify(self, g: Tensor, links: Tensor) -> Tensor:
        states = []
        for layer in self.layers:
            g = layer(g, links)
            states.append(g)
        return self.head(torch.cat(states, dim=-1))

    def explain(self, z: Tensor, hemispheres: Tensor, sex: Tensor, age: Tensor) -> dict[str, Tensor]:
        """Pooling scores; 0 for regions left out."""
        return {"regions": self.brain.pool_regions(z, hemispheres)[1].squeeze(-1)}


@dataclass(kw_only=True, eq=False)
class FCHGNN(DeepMethod):
    """Brain and population graph; see the module for the formula and for how an unseen site is linked.

    Parameters
    ----------
    hidden : int
        Width of the first layer on each hemisphere.
    dropout : float
    """

    learning_rate: NonNegativeFloat = 0.01
    weight_decay: NonNegativeFloat = 5e-5
    hidden: PositiveInt = 32
    dropout: Share = 0.3

    def inputs(self, cohort: Cohort) -> tuple[Tensor, ...]:
        """Fisher z (n, P, P), hemispheres (n, P, 2), sex (n,) as +1, -1 or 0 and age (n,), infinite where missing."""
        z = connectivity_matrices(cohort).clamp(-0.999999, 0.999999).atanh()
        sides = torch.from_numpy(hemispheres(cohort.atlas)).expand(len(cohort), -1, -1)
        table = cohort.table
        sex = torch.tensor((2 * table["sex"] - 1).fillna(0).to_numpy(np.float32))
        age = torch.tensor(table["age"].fillna(np.inf).to_numpy(np.float32))
        return z, sides, sex, age

    def build(self, shape: Shape) -> PopulationNetwork:
        """Brain encoder and population layers."""
        return PopulationNetwork(shape.rois, shape.people, self.hidden, self.dropout)

    def missing_covariates(self, cohort: Cohort) -> pd.DataFrame:
        """Whose age or sex is unknown; nothing stands in for it, they have fewer neighbours or none."""
        return cohort.table[["age", "sex"]].isna()

    def batches(self, people: People) -> Iterator[Tensor]:
        """Everybody at once."""
        yield torch.arange(len(people.y))

    def set_up(self, network: Any, people: People) -> None:
        """Remember the training people."""
        network.eval().remember(*people.inputs)


def population_links(sex: Tensor, age: Tensor, n_known: int) -> Tensor:
    """Links (2, N, n) of N people to the first n, if of like age: of the same, of the other sex; none to oneself."""
    close = (age[:, None] - age[:n_known]).abs() < AGE_GAP
    product = sex[:, None] * sex[:n_known]
    links = close & torch.stack([product == 1, product == -1])
    return links & ~torch.eye(len(age), n_known, dtype=torch.bool, device=age.device)


def chebyshev(h: Tensor, adjacency: Tensor) -> Tensor:
    """[T_0 h, T_1 h, T_2 h] with T_1 = -D^-1/2 A D^-1/2 (the scaled Laplacian for a largest eigenvalue of 2)."""
    degree = adjacency.sum(-1)
    scale = torch.where(degree > 0, degree.clamp_min(1e-8).rsqrt(), 0)
    laplacian = -scale[..., :, None] * adjacency * scale[..., None, :]
    once = laplacian @ h
    return torch.cat([h, once, 2 * laplacian @ once - h], dim=-1)


def hemispheres(atlas: Atlas) -> np.ndarray:
    """Membership (P, 2) in the left and the right hemisphere: by name (_L, _R), else by coordinate, else both."""
    x = np.zeros(len(atlas)) if atlas.coords is None else atlas.coords[:, 0]
    named = np.array([label.endswith("_R") * 1 - label.endswith("_L") * 1 for label in atlas.labels])
    side = np.where(named.any(), named, np.sign(x))
    return np.stack([side <= 0, side >= 0], axis=1).astype(np.float32)


register(
    MethodInfo(
        name="fc-hgnn",
        make=FCHGNN,
        summary="brain graphs by hemisphere, then a population graph of like age and sex",
        citation="Gu et al. (2025) FC-HGNN: a heterogeneous GNN based on brain connectivity. Information Fusion 113",
        grid={"learning_rate": (0.01, 0.003)},
        needs=("covariates",),
        covariate_use="linked",
        keeps_people=True,
        released={"epochs": 400, "hidden": 64},
        targets=CLASSES_TOO,
        one_against_rest=True,
    )
)
