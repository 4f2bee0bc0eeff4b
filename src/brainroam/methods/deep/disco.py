"""DiSCO: a sparse mixture of experts, each with a causal subgraph of its own.

    Z = GIN(X, A)                                           one selector for all experts
    m_k = [ sigmoid((MLP_k[z_u, z_v] + logistic noise)/0.1) > 1/2 ]     forwards; backwards the sigmoid
    l_k = head_k( mean_u GIN_k(n_k X, m_k A)_u )            n_k = 1 for regions with a kept edge, else 0
    g = entmax_1.38 over k of MLP(features of l_k, m_k),    logit = sum_k g_k l_k

    min  mean sum_k g_k CE_k + 5 sum_k mean(g_k) mean (kept_k - rho)^2 + [ mean |corr(m_j, m_k)| - 0.1 ]_+
       + 0.1 ( KL(g || softmax(-CE/0.75)) + 0.5 balance )
    balance = KL(uniform || mean g) + 0.2 mean entropy(g) + 0.2 KL(uniform || mean g^5/sum g^5)

The features of an expert use no label: largest probability, margin, entropy, energy, agreement with the others, shares
of regions and edges kept. They are standardised over people and experts in training, and with the training statistics
afterwards. The gate is uniform during the first ``warmup_epochs``.

The public code (jhsun20/MoEGraph, very likely the authors') draws noise when scoring too; here a mask is then its
probability. Its region and edge counts are totals of the batch, the same for every expert; here they are shares of
each graph. Left out are two features it never uses, and one that compares predictions with a weakly changed graph: it
runs every expert twice and, under dropout, shows mostly dropout. Four experts of two layers, width 32, on 10 % of the
edges (released: eight, three, 300).

Explanation: ``edges`` (n, P, P), sum_k g_k m_k, and ``gate`` (n, K).
"""

from dataclasses import dataclass
from typing import Any

import torch
from pydantic import NonNegativeInt, PositiveInt
from torch import Tensor, nn
from torch.nn import functional as F

from brainroam.methods.base import CLASSES_TOO, MethodInfo
from brainroam.methods.deep.base import People, Shape
from brainroam.methods.deep.graph_baselines import EdgeMethod
from brainroam.methods.deep.graphs import edge_matrix
from brainroam.methods.deep.layers import (
    EdgeScorer,
    GINConv,
    Network,
    NodeNorm,
    concrete,
    stack_layers,
    straight_through,
)
from brainroam.methods.registry import register
from brainroam.utils.parameters import Share

ALPHA = 1.38  # between softmax (1) and sparsemax (2)
TEMPERATURE = 0.1
TEACHER_TEMPERATURE = 0.75


class Expert(nn.Module):
    """An edge mask and a classifier on the masked graph."""

    def __init__(self, n_rois: int, hidden: int, layers: int, dropout: float, edge_width: int) -> None:
        super().__init__()
        self.scorer = EdgeScorer(hidden, edge_width, nn.Sequential(nn.ReLU(), nn.Conv1d(edge_width, 1, 1)))
        self.encoder = stack_layers(GINConv, n_rois, hidden, layers, dropout)
        self.head = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 2))

    def forward(self, x: Tensor, z: Tensor, ends: Tensor, present: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Two logits (B, 2), edge mask (B, E) and region mask (B, P)."""
        soft = concrete(self.scorer(z, ends), self.training, TEMPERATURE)
        edges = present * (straight_through((soft > 0.5).to(soft), soft) if self.training else soft)
        adjacency = edge_matrix(edges, ends, x.shape[1])
        regions = adjacency.amax(-1)
        return self.head(self.encoder(regions[..., None] * x, adjacency).mean(1)), edges, regions


class Mixture(Network):
    """Selector, experts and gate."""

    gated: Tensor

    def __init__(self, n_rois: int, hidden: int, layers: int, dropout: float, edge_width: int, experts: int) -> None:
        super().__init__()
        self.selector = stack_layers(GINConv, n_rois, hidden, layers, dropout)
        self.experts = nn.ModuleList(Expert(n_rois, hidden, layers, dropout, edge_width) for _ in range(experts))
        self.standardise = NodeNorm(7, affine=False)
        self.gate = nn.Sequential(nn.Linear(7, 64), nn.ReLU(), nn.Linear(64, 1))
        self.register_buffer("gated", torch.zeros(()))

    def consult(self, x: Tensor, ends: Tensor, present: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Logits (B, K, 2), edge masks (B, K, E), region masks (B, K, P) and gate (B, K)."""
        z = self.selector(x, edge_matrix(present, ends, x.shape[1]))
        opinions = [expert(x, z, ends, present) for expert in self.experts]
        logits, edges, regions = (torch.stack(part, dim=1) for part in zip(*opinions, strict=True))
        seen = gate_features(logits, edges.sum(-1) / present.sum(-1, keepdim=True), regions.mean(-1)).detach()
        return logits, edges, regions, entmax(self.gate(self.standardise(seen)).squeeze(-1))

    def mix(self, gate: Tensor) -> Tensor:
        """The gate, or equal weights during the warm-up."""
        return self.gated * gate + (1 - self.gated) / gate.shape[1]

    def forward(self, x: Tensor, ends: Tensor, present: Tensor) -> Tensor:
        """One logit per person."""
        logits, _, _, gate = self.consult(x, ends, present)
        return (self.mix(gate) * (logits[..., 1] - logits[..., 0])).sum(1)

    def explain(self, x: Tensor, ends: Tensor, present: Tensor) -> dict[str, Tensor]:
        """What the experts keep, as far as they are heard."""
        _, edges, _, gate = self.consult(x, ends, present)
        mixed = self.mix(gate)
        return {"edges": edge_matrix((mixed[..., None] * edges).sum(1), ends, x.shape[1]), "gate": mixed}


@dataclass(kw_only=True, eq=False)
class DiSCO(EdgeMethod):
    """Diverse and sparse mixture of causal subgraphs; see the module for the formula.

    Parameters
    ----------
    experts : int
    keep : float
        rho, the share of edges an expert should keep.
    warmup_epochs : int
    """

    epochs: NonNegativeInt = 20
    hidden: PositiveInt = 32
    density: Share = 0.1
    experts: PositiveInt = 4
    keep: Share = 0.75
    warmup_epochs: NonNegativeInt = 5

    def build(self, shape: Shape) -> Mixture:
        """Selector, experts and gate."""
        return Mixture(shape.rois, self.hidden, self.layers, self.dropout, self.edge_width, self.experts)

    def loss(self, network: Any, batch: People, epoch: int) -> Tensor:
        """Experts' cross-entropies as the gate weighs them, and the four regularisers."""
        network.gated.fill_(float(epoch >= self.warmup_epochs))
        present = batch.inputs[2]
        logits, edges, regions, gate = network.consult(*batch.inputs)
        target = batch.y.long()[:, None].expand(gate.shape)
        losses = F.cross_entropy(logits.mT, target, reduction="none")
        weight = network.mix(gate)
        kept = edges.sum(-1) / present.sum(-1, keepdim=True)
        sparsity = (weight.mean(0) * (kept - self.keep).square().mean(0)).sum()
        diversity = (overlap(edges) + overlap(regions)) / 2
        teacher = (-losses.detach() / TEACHER_TEMPERATURE).softmax(-1)
        gating = divergence(gate, teacher).mean() + 0.5 * balance(gate)
        return (weight * losses).sum(1).mean() + 5 * sparsity + diversity + 0.1 * gating


def gate_features(logits: Tensor, kept_edges: Tensor, kept_regions: Tensor) -> Tensor:
    """The seven label-free features (B, K, 7) of each expert."""
    p = logits.softmax(-1)
    entropy = torch.special.entr(p).sum(-1)
    agreement = (p @ p.mT).sum(-1) - p.square().sum(-1)
    others = max(1, p.shape[1] - 1)
    margin = (p[..., 1] - p[..., 0]).abs()
    features = [p.amax(-1), margin, entropy, -logits.logsumexp(-1), agreement / others, kept_edges, kept_regions]
    return torch.stack(features, dim=-1)


def overlap(masks: Tensor) -> Tensor:
    """Mean over people of [ mean_{j != k} |corr(m_j, m_k)| - 0.1 ]_+; a mask that is all ones correlates with none."""
    centred = masks - masks.mean(-1, keepdim=True)
    unit = centred / (centred.square().sum(-1, keepdim=True) + 1e-6).sqrt()
    n_masks = masks.shape[1]
    off_diagonal = (unit @ unit.mT).abs() * (1 - torch.eye(n_masks, dtype=masks.dtype, device=masks.device))
    return (off_diagonal.sum((1, 2)) / max(1, n_masks * (n_masks - 1)) - 0.1).relu().mean()


def divergence(p: Tensor, q: Tensor) -> Tensor:
    """KL(p || q) over the last axis; p may hold zeros."""
    return (torch.xlogy(p, p.clamp_min(1e-8)) - p * q.clamp_min(1e-8).log()).sum(-1)


def balance(gate: Tensor) -> Tensor:
    """Everybody is heard in the whole batch, few for each person."""
    uniform = torch.full_like(gate[0], 1 / gate.shape[1])
    sharp = gate.clamp_min(1e-8) ** 5
    sharp = sharp / sharp.sum(-1, keepdim=True)
    entropy = -divergence(gate, torch.ones_like(gate)).mean()
    return divergence(uniform, gate.mean(0)) + 0.2 * entropy + 0.2 * divergence(uniform, sharp.mean(0))


class _Entmax(torch.autograd.Function):
    @staticmethod
    def forward(context, score):
        z = (ALPHA - 1) * score
        top = z.amax(-1, keepdim=True)
        low, high = top - 1, top - score.shape[-1] ** (1 - ALPHA)  # p sums to at least one at low, at most one at high
        for _ in range(50):
            middle = (low + high) / 2
            above = _power(z - middle).sum(-1, keepdim=True) >= 1
            low, high = torch.where(above, middle, low), torch.where(above, high, middle)
        p = _power(z - low)
        p = p / p.sum(-1, keepdim=True)
        context.save_for_backward(p)
        return p

    @staticmethod
    def backward(context, gradient):
        (p,) = context.saved_tensors
        s = torch.where(p > 0, p ** (2 - ALPHA), 0)
        return s * (gradient - (s * gradient).sum(-1, keepdim=True) / s.sum(-1, keepdim=True))


def _power(z: Tensor) -> Tensor:
    return z.clamp_min(0) ** (1 / (ALPHA - 1))


def entmax(score: Tensor) -> Tensor:
    """p = [(alpha - 1) score - tau]_+^(1/(alpha - 1)) with the tau at which p sums to one, found by bisection.

    >>> entmax(torch.tensor([[3.0, 0.0, -3.0]]))[0].round(decimals=2).tolist()
    [1.0, 0.0, 0.0]
    """
    return _Entmax.apply(score)


register(
    MethodInfo(
        name="disco",
        make=DiSCO,
        summary="sparse mixture of experts over causal subgraphs",
        citation="Sun et al. (2026) Diverse and sparse mixture-of-experts for causal subgraph-based OOD. ICLR",
        grid={"keep": (0.75, 0.85)},
        released={
            "epochs": 50,
            "weight_decay": 1e-4,
            "hidden": 300,
            "layers": 3,
            "edge_width": 300,
            "experts": 8,
            "warmup_epochs": 10,
        },
        targets=CLASSES_TOO,
        one_against_rest=True,
    )
)
