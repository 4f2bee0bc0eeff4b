"""agmgc-proxy: our reconstruction of AGMGC from its abstract; we have read neither its text nor its code.

AGMGC (Noman et al., MICCAI 2025, paper 4507) infers graphs from series by a learner module, joins spline convolutions
with multi-graph convolutions, and adds a contrastive term, which is left out here. Put together as

    f_uc = s_u * k_c                                        filters k_c along time, the same for all regions
    h_u = W log power(f_u) + e_u                            e_u learned
    A_L = softmax_v sum_c b_c corr(f_uc, f_vc), v != u, symmetrised, the 12 largest of each row kept
    local:   h_u' = sum_k sum_v B_k(c_uv) h_v W_k / d_u + h_u W       two layers; c = A_L scaled to [0, 1], B_k hats
    global:  h' = sum_g alpha_g P_g h W_g                             g: learned, Pearson top 20 %, identity; two layers
    logit = MLP[ mean_u, max_u of local and global ]
    min  CE + 1e-3 ||A_L||_1 / P + 1e-3 tr(h^T L h) / P^2

with P_g the normalised graph, alpha a softmax, and the gradient of A_L straight through the cut. The learner compares
two regions frame by frame: of series that were first averaged over stretches of time, as our earlier reading did, no
product tells how they move together, and what was learned did not hold at unseen sites. Without e_u no layer could tell
one region from another, and a difference at one edge would drown in the mean. Series of the first T frames, T the
shortest in training; shorter ones are followed by zeros. Sites are not used.
**Nothing said about this proxy is a statement about AGMGC.** Its page names an open text and code
(papers.miccai.org/miccai-2025/0048-Paper4507.html, github.com/MNFuad/AGMGC); we could reach neither.

Explanation: ``graph`` (n, P, P), the learned A_L.
"""

from dataclasses import dataclass
from typing import Any

import torch
from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt
from torch import Tensor, nn
from torch.nn import functional as F

from brainroam.data.cohort import Cohort
from brainroam.methods.base import EVERY_TARGET, MethodInfo
from brainroam.methods.deep.base import DeepMethod, People, Shape
from brainroam.methods.deep.graphs import adjacency_matrices, standardised_series
from brainroam.methods.deep.layers import Head, Network, NodeNorm, propagation, straight_through
from brainroam.methods.registry import register
from brainroam.utils.parameters import Share

N_HATS = 5
SHARPNESS = 4.0  # of the softmax at the start: a correlation of one half weighs e^2 times one of none


class TemporalFilters(nn.Module):
    """Learned filters along time, the same for all regions, and what each region has of them.

    No activation follows: the product of two filtered series over time is then their correlation in that band.
    """

    def __init__(self, width: int, channels: int) -> None:
        super().__init__()
        self.filters = nn.Conv1d(1, channels, 7, padding=3, bias=False)
        self.power = nn.Linear(channels, width)

    def forward(self, series: Tensor) -> tuple[Tensor, Tensor]:
        """Series (B, T, P) to filtered series of unit power (B, P, channels, T) and their powers (B, P, width)."""
        each = series.mT.flatten(0, 1)[:, None]
        filtered = self.filters(each).unflatten(0, (len(series), series.shape[2]))
        power = filtered.square().mean(-1, keepdim=True) + 1e-3
        return filtered / power.sqrt(), self.power(power.squeeze(-1).log())


class SplineConv(nn.Module):
    """h_u' = sum_k sum_v B_k(c_uv) h_v W_k / d_u + h_u W over kept edges, B_k the linear hats over [0, 1]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.kernels, self.root = nn.Linear(N_HATS * width, width, bias=False), nn.Linear(width, width)

    def forward(self, h: Tensor, basis: Tensor) -> Tensor:
        """Convolve with basis (B, K, P, P), 0 where there is no edge."""
        degree = basis.sum((1, 3)).clamp_min(1)  # the hats at an edge sum to one
        messages = (basis @ h[:, None]).transpose(1, 2).flatten(2)
        return self.kernels(messages) / degree[..., None] + self.root(h)


class MultiGraphConv(nn.Module):
    """h' = sum_g alpha_g P_g h W_g with alpha a softmax of learned weights."""

    def __init__(self, width: int, graphs: int) -> None:
        super().__init__()
        self.weights, self.alpha = nn.Linear(width, graphs * width), nn.Parameter(torch.zeros(graphs))

    def forward(self, h: Tensor, graphs: list[Tensor]) -> Tensor:
        """Convolve over the given graphs and, last, the identity."""
        *parts, own = self.weights(h).chunk(len(self.alpha), dim=-1)
        *shares, rest = self.alpha.softmax(0)
        spread = [share * (graph @ part) for share, graph, part in zip(shares, graphs, parts, strict=True)]
        return torch.stack(spread).sum(0) + rest * own


class AdaptiveNetwork(Network):
    """Series to a learned graph, then a local and a global branch on it."""

    def __init__(self, n_rois: int, width: int, channels: int, neighbours: int, dropout: float) -> None:
        super().__init__()
        self.neighbours = neighbours
        self.temporal = TemporalFilters(width, channels)
        self.identity = nn.Parameter(torch.randn(n_rois, width))
        self.bands = nn.Parameter(torch.full((channels,), SHARPNESS / channels))
        self.local = nn.ModuleList(SplineConv(width) for _ in range(2))
        self.wide = nn.ModuleList(MultiGraphConv(width, 3) for _ in range(2))
        self.norms = nn.ModuleList(NodeNorm(width) for _ in range(4))
        self.head = nn.Sequential(nn.Linear(4 * width, 64), nn.ReLU(), nn.Dropout(dropout), Head(64))

    def graph(self, filtered: Tensor) -> Tensor:
        """A_L (B, P, P) from filtered series (B, P, channels, T)."""
        weighted = filtered * self.bands[:, None] / filtered.shape[-1]
        own = torch.eye(filtered.shape[1], dtype=torch.bool, device=filtered.device)
        attention = (weighted.flatten(2) @ filtered.flatten(2).mT).masked_fill(own, -torch.inf).softmax(-1)
        soft = (attention + attention.mT) / 2
        smallest = soft.topk(min(self.neighbours, soft.shape[1]), dim=-1).values[..., -1:]
        kept = (soft >= smallest) | (soft >= smallest.mT)
        return straight_through(soft * kept, soft)

    def learn(self, series: Tensor, pearson: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Logits (B,), learned graphs (B, P, P) and the regions they join (B, P, width)."""
        filtered, power = self.temporal(series)
        h = power + self.identity
        learned = self.graph(filtered)
        basis, graphs = hat_basis(learned), [propagation(learned), propagation(pearson)]
        near = far = h
        for k, (local, wide) in enumerate(zip(self.local, self.wide, strict=True)):
            near = F.relu(self.norms[2 * k](local(near, basis)))
            far = F.relu(self.norms[2 * k + 1](wide(far, graphs)))
        both = torch.cat([near, far], dim=-1)
        return self.head(torch.cat([both.mean(1), both.amax(1)], dim=-1)), learned, h

    def forward(self, series: Tensor, pearson: Tensor) -> Tensor:
        """One logit per person."""
        return self.learn(series, pearson)[0]

    def explain(self, series: Tensor, pearson: Tensor) -> dict[str, Tensor]:
        """The learned graph."""
        return {"graph": self.learn(series, pearson)[1]}


@dataclass(kw_only=True, eq=False)
class AGMGCProxy(DeepMethod):
    """Adaptive graph with local and global convolutions; see the module for the formula and for what it is not.

    Parameters
    ----------
    width, channels : int
        Of the regions' embedding, and how many filters along time.
    neighbours : int
        Edges kept for each region of the learned graph.
    dropout : float
    density : float
        Share of edges of the Pearson graph.
    sparsity, smoothness : float
        Weights of the two regularisers.
    """

    epochs: NonNegativeInt = 15
    batch_size: PositiveInt = 32
    width: PositiveInt = 32
    channels: PositiveInt = 8
    neighbours: PositiveInt = 12
    dropout: Share = 0.5
    density: Share = 0.2
    sparsity: NonNegativeFloat = 1e-3
    smoothness: NonNegativeFloat = 1e-3

    def inputs(self, cohort: Cohort) -> tuple[Tensor, ...]:
        """Series (n, T, P) and Pearson graphs (n, P, P)."""
        return standardised_series(cohort, self.shape_.frames), adjacency_matrices(cohort, self.density)

    def build(self, shape: Shape) -> AdaptiveNetwork:
        """Temporal filters, learned graph, two branches."""
        return AdaptiveNetwork(shape.rois, self.width, self.channels, self.neighbours, self.dropout)

    def loss(self, network: Any, batch: People, epoch: int) -> Tensor:
        """Cross-entropy, a sparse graph, and regions that resemble their neighbours."""
        logit, learned, h = network.learn(*batch.inputs)
        n_rois = h.shape[1]
        sparse = learned.sum((1, 2)).mean() / n_rois
        return batch.error(logit) + self.sparsity * sparse + self.smoothness * roughness(h, learned)


def hat_basis(graph: Tensor) -> Tensor:
    """B_k(c) (B, K, P, P) of kept edges, c the weights scaled to [0, 1]; the hats at an edge sum to one."""
    kept = graph > 0
    low = graph.masked_fill(~kept, torch.inf).amin((1, 2), keepdim=True)
    span = graph.amax((1, 2), keepdim=True) - low
    position = ((graph - low) / span.clamp_min(1e-8)).clamp(0, 1) * (N_HATS - 1)
    knots = torch.arange(N_HATS, dtype=graph.dtype, device=graph.device)[:, None, None]
    return (1 - (position[:, None] - knots).abs()).relu() * kept[:, None]


def roughness(h: Tensor, graph: Tensor) -> Tensor:
    """Mean over people of tr(h^T L h) / P^2 = sum_uv A_uv |h_u - h_v|^2 / (2 P^2), A symmetric."""
    own = (graph.sum(-1) * h.square().sum(-1)).sum(1)
    shared = (graph * (h @ h.mT)).sum((1, 2))
    return (own - shared).mean() / h.shape[1] ** 2


register(
    MethodInfo(
        name="agmgc-proxy",
        make=AGMGCProxy,
        summary="proxy, reconstructed from an abstract: graph learned from series, spline and multi-graph layers",
        citation="inferred from the abstract; stands in for Noman, Phan, Ombao & Ting (2025) AGMGC. MICCAI",
        grid={"neighbours": (12, 24)},
        targets=EVERY_TARGET,
        one_against_rest=True,
    )
)
