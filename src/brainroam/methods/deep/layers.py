"""Layers the deep baselines share, in dense batched form: everybody has the same P regions.

Shapes: B people, P regions, H channels, E edges u < v of each person's graph. A convolution maps node features
(B, P, H) and an adjacency (B, P, P), binary or weighted, to new node features.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Network(nn.Module):
    """A network that maps its inputs to one logit per person."""

    def explain(self, *inputs: Any, **named: Any) -> dict[str, Tensor]:
        """What the paper shows as explanation, one row per person; empty where it shows none."""
        return {}


class NodeNorm(nn.BatchNorm1d):
    """Batch normalisation of each channel over people and regions."""

    def forward(self, h: Tensor) -> Tensor:
        """(..., H) to (..., H)."""
        return super().forward(h.flatten(0, -2)).view(h.shape)


# Convolutions ------------------------------------------------------------------------------------------------------


def with_loops(adjacency: Tensor) -> Tensor:
    """A + I."""
    return adjacency + torch.eye(adjacency.shape[-1], dtype=adjacency.dtype, device=adjacency.device)


def propagation(adjacency: Tensor) -> Tensor:
    """D^-1/2 (A + I) D^-1/2 with D the degrees of A + I."""
    looped = with_loops(adjacency)
    scale = looped.sum(-1).rsqrt()
    return scale[..., :, None] * looped * scale[..., None, :]


class GCNConv(nn.Module):
    """H' = D^-1/2 (A + I) D^-1/2 H W + b (Kipf & Welling 2017); A must not be negative."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.linear = nn.Linear(n_in, n_out)

    def forward(self, h: Tensor, adjacency: Tensor) -> Tensor:
        """Convolve."""
        return propagation(adjacency) @ F.linear(h, self.linear.weight) + self.linear.bias


class GINConv(nn.Module):
    """h_u' = MLP((1 + eps) h_u + sum_v A_uv h_v), eps = 0, MLP: in -> 2 out -> BN -> ReLU -> out (Xu et al. 2019)."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.mlp = nn.Sequential(
            nn.Linear(n_in, 2 * n_out), NodeNorm(2 * n_out), nn.ReLU(), nn.Linear(2 * n_out, n_out)
        )

    def forward(self, h: Tensor, adjacency: Tensor) -> Tensor:
        """Convolve."""
        return self.mlp(torch.baddbmm(h, adjacency, h))


class GATConv(nn.Module):
    """h_u' = ||_k sum_v a^k_uv W^k h_v, a^k_uv = softmax_v LeakyReLU_0.2(l^k . W^k h_u + r^k . W^k h_v).

    v runs over the neighbours of u and u itself, k over the heads (Velickovic et al. 2018).
    """

    def __init__(self, n_in: int, n_out: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.linear = nn.Linear(n_in, n_out, bias=False)
        self.bias = nn.Parameter(torch.zeros(n_out))
        self.left, self.right = (
            nn.Parameter(nn.init.xavier_uniform_(torch.empty(heads, n_out // heads))) for _ in range(2)
        )

    def forward(self, h: Tensor, adjacency: Tensor) -> Tensor:
        """Convolve over the edges where the adjacency is not zero."""
        values = self._values(h)
        return (self._attention(values, adjacency) @ values).transpose(1, 2).flatten(2) + self.bias

    def attention(self, h: Tensor, adjacency: Tensor) -> Tensor:
        """The weights a (B, heads, P, P); each row sums to one."""
        return self._attention(self._values(h), adjacency)

    def _values(self, h: Tensor) -> Tensor:
        return self.linear(h).unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def _attention(self, values: Tensor, adjacency: Tensor) -> Tensor:
        to_u, from_v = ((values * side[:, None]).sum(-1) for side in (self.left, self.right))
        logit = F.leaky_relu(to_u[..., :, None] + from_v[..., None, :], 0.2)
        return logit.masked_fill(with_loops(adjacency)[:, None] == 0, -torch.inf).softmax(-1)


class Block(nn.Module):
    """A convolution, then batch normalisation, activation and dropout."""

    def __init__(self, convolution: nn.Module, width: int, activation: nn.Module, dropout: float) -> None:
        super().__init__()
        self.convolution = convolution
        self.after = nn.Sequential(NodeNorm(width), activation, nn.Dropout(dropout))

    def forward(self, h: Tensor, adjacency: Tensor) -> Tensor:
        """(B, P, H) to (B, P, width)."""
        return self.after(self.convolution(h, adjacency))


class GraphEncoder(nn.Module):
    """Blocks one after the other; the last has no activation."""

    def __init__(
        self, convolutions: Sequence[nn.Module], widths: Sequence[int], dropout: float, activation: type = nn.ReLU
    ) -> None:
        super().__init__()
        activations = [activation() for _ in widths[1:]] + [nn.Identity()]
        self.blocks = nn.ModuleList(
            Block(*parts, dropout) for parts in zip(convolutions, widths, activations, strict=True)
        )

    def forward(self, h: Tensor, adjacency: Tensor) -> Tensor:
        """Node embeddings (B, P, H)."""
        for block in self.blocks:
            h = block(h, adjacency)
        return h


def stack_layers(convolution: type, n_in: int, hidden: int, layers: int, dropout: float) -> GraphEncoder:
    """An encoder of equal layers: ``convolution(n_in, n_out)`` as often as there are layers."""
    sources = [n_in] + [hidden] * (layers - 1)
    return GraphEncoder([convolution(source, hidden) for source in sources], [hidden] * layers, dropout)


class GraphClassifier(Network):
    """Encoder, readout over regions (mean, or all of them side by side), linear head."""

    def __init__(self, encoder: GraphEncoder, hidden: int, n_rois: int, readout: str) -> None:
        super().__init__()
        self.encoder = encoder
        self.pool = Mean() if readout == "mean" else nn.Flatten()
        self.head = Head(hidden if readout == "mean" else hidden * n_rois)

    def embed(self, x: Tensor, adjacency: Tensor) -> Tensor:
        """What the head sees of each person."""
        return self.pool(self.encoder(x, adjacency))

    def forward(self, x: Tensor, adjacency: Tensor) -> Tensor:
        """One logit per person."""
        return self.head(self.embed(x, adjacency))


class Mean(nn.Module):
    """Mean over regions."""

    def forward(self, h: Tensor) -> Tensor:
        """(B, P, H) to (B, H)."""
        return h.mean(1)


class Head(nn.Linear):
    """A linear map to one logit."""

    def __init__(self, n_in: int) -> None:
        super().__init__(n_in, 1)

    def forward(self, z: Tensor) -> Tensor:
        """(..., H) to (...)."""
        return super().forward(z).squeeze(-1)


# Edges -------------------------------------------------------------------------------------------------------------


class EdgeScorer(nn.Module):
    """s_uv = rest(W_a h_u + W_b h_v + b): an MLP on [h_u, h_v] whose first layer is computed once per region.

    ``rest`` maps (B, width, E) to (B, 1, E). Edges are undirected and stand as u < v. The atlas orders the regions
    alike for everybody, so the order of the two halves is no accident of storage, and one score serves both directions.
    """

    def __init__(self, n_in: int, width: int, rest: nn.Module) -> None:
        super().__init__()
        self.halves, self.rest = nn.Linear(n_in, 2 * width), rest

    def forward(self, h: Tensor, ends: Tensor) -> Tensor:
        """Scores (B, E) of the edges (B, E, 2) from node embeddings (B, P, H)."""
        first_row = torch.arange(len(h), device=h.device)[:, None] * h.shape[1]
        from_u, from_v = (
            half.flatten(0, 1).index_select(0, (first_row + end).flatten()).view(*end.shape, -1)
            for half, end in zip(self.halves(h).chunk(2, dim=-1), ends.unbind(-1), strict=True)
        )
        return self.rest((from_u + from_v).mT).squeeze(1)


def attention_scorer(hidden: int, width: int, dropout: float) -> EdgeScorer:
    """The edge MLP of GSAT, 2H -> width -> width -> 1, each layer normalised over the edges of a person.

    Dropout takes whole channels of a person: drawing it for every edge would cost more than the rest of the scorer.
    """

    def activation() -> list[nn.Module]:
        return [nn.InstanceNorm1d(width), nn.ReLU(), nn.Dropout1d(dropout)]

    rest = nn.Sequential(*activation(), nn.Conv1d(width, width, 1), *activation(), nn.Conv1d(width, 1, 1))
    return EdgeScorer(hidden, width, rest)


def concrete(logit: Tensor, training: bool, temperature: float = 1.0) -> Tensor:
    """sigmoid((logit + logistic noise) / temperature) in training; afterwards the probability sigmoid(logit)."""
    if not training:
        return logit.sigmoid()
    uniform = torch.rand_like(logit).clamp(1e-6, 1 - 1e-6)
    return ((logit + uniform.logit()) / temperature).sigmoid()


def straight_through(hard: Tensor, soft: Tensor) -> Tensor:
    """The value of ``hard`` with the gradient of ``soft``."""
    return (hard - soft).detach() + soft


class _Reversal(torch.autograd.Function):
    @staticmethod
    def forward(context, z):
        return z.view_as(z)

    @staticmethod
    def backward(context, gradient):
        return -gradient


def reverse_gradient(z: Tensor) -> Tensor:
    """The identity forwards, minus one backwards: what is learned below works against the loss above."""
    return _Reversal.apply(z)


# Attention over regions --------------------------------------------------------------------------------------------


class SelfAttention(nn.Module):
    """Multi-head attention over regions: softmax(Q K^T / sqrt(d)) V, heads side by side, then a linear map."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, h: Tensor) -> Tensor:
        """(B, P, H) to (B, P, H)."""
        query, key, value = (self._split(part(h)) for part in (self.query, self.key, self.value))
        return self.out(F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2))

    def weights(self, h: Tensor) -> Tensor:
        """Attention (B, P, P), averaged over heads."""
        query, key = self._split(self.query(h)), self._split(self.key(h))
        return (query @ key.mT / query.shape[-1] ** 0.5).softmax(-1).mean(1)

    def _split(self, h: Tensor) -> Tensor:
        return h.unflatten(-1, (self.heads, -1)).transpose(1, 2)
