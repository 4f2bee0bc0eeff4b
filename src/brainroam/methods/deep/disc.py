"""DisC: a masker splits each graph into a causal and a bias part; two networks learn from them, one on purpose biased.

    H = GCN(embed X),   m_uv = sigmoid(MLP[h_u, h_v]),   m_u = sigmoid(MLP h_u)
    z_c = mean_u GCN_c(m_u x_u, m_uv A),   z_b = mean_u GCN_b((1 - m_u) x_u, (1 - m_uv) A)
    min  W CE(C_c[z_c, sg z_b], y) + l_dis GCE(C_b[sg z_c, z_b], y)
       + l_swap ( W CE(C_c[z_c, sg z_b'], y) + l_dis GCE(C_b[sg z_c, z_b'], y') )      from swap_epoch on

sg stops the gradient; z_b', y' are those of another person of the batch. GCE = q p_y^q CE makes the bias network
follow what is easy; W = CE_b / (CE_b + CE_c) gives weight to the people it gets wrong. Sites are not used: a site
enters only as far as it is an easy shortcut. Score: C_c[z_c, z_b].

The released code defines its loss twice and the later one wins, so that W is one number for the whole batch; here it
is one per person, as in the paper. Its two Adams of one rate are one Adam. Width 64, three layers and rate 0.001 in
place of 146, four and 0.01.

Explanation: ``edges`` (n, P, P) and ``regions`` (n, P), the causal masks.
"""

from dataclasses import dataclass
from typing import Any

import torch
from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt
from torch import Tensor, nn

from brainroam.methods.base import CLASSES_TOO, MethodInfo
from brainroam.methods.deep.base import People, Shape, cross_entropy
from brainroam.methods.deep.graph_baselines import EdgeMethod
from brainroam.methods.deep.graphs import edge_matrix
from brainroam.methods.deep.layers import EdgeScorer, Head, Network, NodeNorm, with_loops
from brainroam.methods.registry import register


class ResidualGCN(nn.Module):
    """h <- h + ReLU(BN( W mean_{v in N(u) + u} A_uv h_v )), layer after layer, after a linear embedding."""

    def __init__(self, n_in: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.embed = nn.Linear(n_in, hidden)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(hidden, hidden), NodeNorm(hidden), nn.ReLU()) for _ in range(layers)
        )

    def forward(self, x: Tensor, adjacency: Tensor) -> Tensor:
        """Node embeddings (B, P, hidden)."""
        looped, h = with_loops(adjacency), self.embed(x)
        mean = looped / looped.sum(-1, keepdim=True)
        for layer in self.layers:
            h = h + layer(mean @ h)
        return h


class DisCNetwork(Network):
    """Masker, causal and bias network, and a head on both embeddings for each."""

    def __init__(self, n_rois: int, hidden: int, layers: int, edge_width: int) -> None:
        super().__init__()
        self.masker = ResidualGCN(n_rois, hidden, 2)
        half = edge_width // 2
        rest = nn.Sequential(nn.ReLU(), nn.Conv1d(edge_width, half, 1), nn.ReLU(), nn.Conv1d(half, 1, 1))
        self.edge = EdgeScorer(hidden, edge_width, rest)
        self.region = nn.Sequential(nn.Linear(hidden, half), nn.ReLU(), nn.Linear(half, 1))
        self.causal, self.bias = (ResidualGCN(n_rois, hidden, layers) for _ in range(2))
        self.causal_head, self.bias_head = Head(2 * hidden), Head(2 * hidden)

    def masks(self, x: Tensor, ends: Tensor, present: Tensor) -> tuple[Tensor, Tensor]:
        """m_uv (B, E) and m_u (B, P, 1)."""
        h = self.masker(x, edge_matrix(present, ends, x.shape[1]))
        return self.edge(h, ends).sigmoid(), self.region(h).sigmoid()

    def embed(self, x: Tensor, ends: Tensor, present: Tensor) -> tuple[Tensor, Tensor]:
        """z_c and z_b (B, hidden)."""
        edge, region = self.masks(x, ends, present)
        causal = self.causal(region * x, edge_matrix(present * edge, ends, x.shape[1]))
        bias = self.bias((1 - region) * x, edge_matrix(present * (1 - edge), ends, x.shape[1]))
        return causal.mean(1), bias.mean(1)

    def forward(self, x: Tensor, ends: Tensor, present: Tensor) -> Tensor:
        """One logit per person."""
        return self.causal_head(torch.cat(self.embed(x, ends, present), dim=1))

    def explain(self, x: Tensor, ends: Tensor, present: Tensor) -> dict[str, Tensor]:
        """The causal masks."""
        edge, region = self.masks(x, ends, present)
        return {"edges": edge_matrix(present * edge, ends, x.shape[1]), "regions": region.squeeze(-1)}


@dataclass(kw_only=True, eq=False)
class DisC(EdgeMethod):
    """Disentangled causal substructure; see the module for the formula.

    Parameters
    ----------
    q : float
        Of the generalised cross-entropy; 0 would make the bias network an ordinary one.
    bias_weight, swap_weight : float
        l_dis and l_swap.
    swap_epoch : int
        When the counterfactual terms begin.
    """

    epochs: NonNegativeInt = 20
    layers: PositiveInt = 3
    q: NonNegativeFloat = 0.7
    bias_weight: NonNegativeFloat = 1.0
    swap_weight: NonNegativeFloat = 10.0
    swap_epoch: NonNegativeInt = 10

    def build(self, shape: Shape) -> DisCNetwork:
        """Masker, two networks, two heads."""
        return DisCNetwork(shape.rois, self.hidden, self.layers, self.edge_width)

    def loss(self, network: Any, batch: People, epoch: int) -> Tensor:
        """Both networks on their own graphs and, later, on swapped bias embeddings."""
        causal, bias = network.embed(*batch.inputs)
        causal_logit = network.causal_head(torch.cat([causal, bias.detach()], dim=1))
        bias_logit = network.bias_head(torch.cat([causal.detach(), bias], dim=1))
        weight = difficulty(causal_logit, bias_logit, batch.y)
        loss = self._pair(causal_logit, bias_logit, batch.y, batch.y, weight)
        if epoch >= self.swap_epoch:
            other = torch.randperm(len(batch.y), device=bias.device)
            swapped_causal = network.causal_head(torch.cat([causal, bias[other].detach()], dim=1))
            swapped_bias = network.bias_head(torch.cat([causal.detach(), bias[other]], dim=1))
            loss = loss + self.swap_weight * self._pair(swapped_causal, swapped_bias, batch.y, batch.y[other], weight)
        return loss

    def _pair(self, causal_logit: Tensor, bias_logit: Tensor, y: Tensor, bias_y: Tensor, weight: Tensor) -> Tensor:
        causal = weight * cross_entropy(causal_logit, y, reduction="none")
        return (causal + self.bias_weight * generalised_cross_entropy(bias_logit, bias_y, self.q)).mean()


def generalised_cross_entropy(logit: Tensor, y: Tensor, q: float) -> Tensor:
    """q p_y^q CE per person, the weight without gradient: people who are easy already count more."""
    loss = cross_entropy(logit, y, reduction="none")
    return q * (-q * loss.detach()).exp() * loss


def difficulty(causal_logit: Tensor, bias_logit: Tensor, y: Tensor) -> Tensor:
    """W = CE_b / (CE_b + CE_c) per person, without gradient."""
    causal, bias = (cross_entropy(logit.detach(), y, reduction="none") for logit in (causal_logit, bias_logit))
    return bias / (bias + causal + 1e-8)


register(
    MethodInfo(
        name="disc",
        make=DisC,
        summary="causal and bias subgraphs, disentangled and swapped between people",
        citation="Fan et al. (2022) Debiasing GNNs via learning disentangled causal substructure. NeurIPS",
        grid={"swap_weight": (10.0, 1.0)},
        released={
            "epochs": 200,
            "learning_rate": 0.01,
            "batch_size": 256,
            "hidden": 146,
            "layers": 4,
            "edge_width": 146,
            "swap_epoch": 100,
        },
        targets=CLASSES_TOO,
        one_against_rest=True,
    )
)
