"""DeCI: each region's series alone, taken apart into drifts and cycles; no connectivity, no site.

    h_u = W s_u + b                                        s_u the standardised series of T frames, W shared
    drift_u = f_u * h_u                                    causal filter along the embedding, one for each region
    cycle_u = LN(MLP(e_u) + e_u),   e_u = LN(V (gate_u * r_u) + r_u),   r_u = h_u - drift_u,   gate_u = sigmoid(MLP r_u)
    h_u <- r_u - cycle_u                                   block after block
    logit = sum over all drifts and cycles of  w . mean_u component_u + b,      min (sigmoid(logit) - y)^2

f starts as the running average. Series of 180 frames and more have two blocks, others one; of 240 and more no dropout,
as in the scripts of the authors (Levi-Ackman/DeCI, e14dfdf). T is that of the shortest training series; longer are cut,
shorter ones followed by zeros. Because no term joins two regions, a difference in correlation alone is invisible to
this method.

Released code: predictions (B, 1) and labels (B,) broadcast to B x B, which pulls everybody to the mean label; gradients
are never zeroed; the epoch is the best one on the test fold. None of that is done here.

Explanation: ``regions`` (n, P): each region's share of the logit, which they sum to but for the biases.
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
from brainroam.methods.deep.graphs import standardised_series
from brainroam.methods.deep.layers import Head, Network
from brainroam.methods.registry import register
from brainroam.utils.parameters import Share

TWO_BLOCKS, NO_DROPOUT = 180, 240  # frames, in the authors' scripts


class Drift(nn.Module):
    """y_u[i] = sum_{j <= i} f_u[i - j] h_u[j] + c_u: a causal filter of full length for each region."""

    def __init__(self, n_rois: int, width: int) -> None:
        super().__init__()
        self.filters = nn.Parameter(torch.full((n_rois, width), 1 / width))
        self.offset = nn.Parameter(torch.zeros(n_rois, 1))

    def forward(self, h: Tensor) -> Tensor:
        """(B, P, width) to (B, P, width), as one matrix for each region."""
        width = h.shape[-1]
        # Row i reads f[i], f[i - 1], ..., f[0] and then zeros: windows over the reversed filter and its padding.
        toeplitz = F.pad(self.filters.flip(-1), (0, width - 1)).unfold(-1, width, 1).flip(-2)
        return torch.einsum("bpj,pij->bpi", h, toeplitz) + self.offset


class Cycle(nn.Module):
    """LN(MLP(e) + e), e = LN(V (gate * r) + r), with gate = sigmoid(MLP r)."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.gate, self.mlp = _mlp(width, dropout), _mlp(width, dropout)
        self.mix = nn.Linear(width, width)
        self.first_norm, self.second_norm = (nn.LayerNorm(width, eps=1e-6) for _ in range(2))

    def forward(self, r: Tensor) -> Tensor:
        """(B, P, width) to (B, P, width)."""
        e = self.first_norm(self.mix(self.gate(r).sigmoid() * r) + r)
        return self.second_norm(self.mlp(e) + e)


class DeCINetwork(Network):
    """Embedding, blocks of drift and cycle, one linear head for each component."""

    def __init__(self, n_rois: int, n_frames: int, width: int, n_blocks: int, dropout: float) -> None:
        super().__init__()
        self.embed = nn.Linear(n_frames, width)
        self.drifts = nn.ModuleList(Drift(n_rois, width) for _ in range(n_blocks))
        self.cycles = nn.ModuleList(Cycle(width, dropout) for _ in range(n_blocks))
        self.heads = nn.ModuleList(Head(width) for _ in range(2 * n_blocks))
        self.dropout = nn.Dropout(dropout)

    def components(self, series: Tensor) -> list[Tensor]:
        """All drifts and cycles (B, P, width)."""
        h, parts = self.embed(series.mT), []
        for drift, cycle in zip(self.drifts, self.cycles, strict=True):
            slow = self.dropout(drift(h))
            fast = cycle(h - slow)
            parts += [slow, fast]
            h = h - slow - fast
        return parts

    def forward(self, series: Tensor) -> Tensor:
        """One logit per person from series (B, T, P)."""
        parts = zip(self.heads, self.components(series), strict=True)
        return torch.stack([head(part.mean(1)) for head, part in parts]).sum(0)

    def explain(self, series: Tensor) -> dict[str, Tensor]:
        """Each head on each region, before the mean."""
        parts: Any = zip(self.heads, self.components(series), strict=True)
        shares = [F.linear(part, head.weight).squeeze(-1) for head, part in parts]
        return {"regions": torch.stack(shares).sum(0) / series.shape[2]}


def _mlp(width: int, dropout: float) -> nn.Module:
    return nn.Sequential(nn.Linear(width, 2 * width), nn.Dropout(dropout), nn.GELU(), nn.Linear(2 * width, width))


@dataclass(kw_only=True, eq=False)
class DeCI(DeepMethod):
    """Drift and cycle decomposition; see the module for the formula.

    Parameters
    ----------
    width : int
        Of the embedding.
    n_blocks : int, optional
        Of drift and cycle; by default two where series have 180 frames or more.
    dropout : float, optional
        By default 0.2, and none where series have 240 frames or more.
    """

    epochs: NonNegativeInt = 30
    weight_decay: NonNegativeFloat = 0.0
    batch_size: PositiveInt = 16
    width: PositiveInt = 64
    n_blocks: PositiveInt | None = None
    dropout: Share | None = None

    def inputs(self, cohort: Cohort) -> tuple[Tensor, ...]:
        """Series (n, T, P)."""
        return (standardised_series(cohort, self.shape_.frames),)

    def build(self, shape: Shape) -> DeCINetwork:
        """Embedding, blocks and heads."""
        n_blocks = self.n_blocks or (2 if shape.frames >= TWO_BLOCKS else 1)
        usual = 0.0 if shape.frames >= NO_DROPOUT else 0.2
        dropout = usual if self.dropout is None else self.dropout
        return DeCINetwork(shape.rois, shape.frames, self.width, n_blocks, dropout)

    def loss(self, network: Any, batch: People, epoch: int) -> Tensor:
        """Mean squared error of the probability, or of the number."""
        if batch.number:
            return super().loss(network, batch, epoch)
        return F.mse_loss(network(*batch.inputs).sigmoid(), batch.y)


register(
    MethodInfo(
        name="deci",
        make=DeCI,
        summary="drift and cycle components of each region's series alone",
        citation="Yu et al. (2026) Moving beyond functional connectivity. IEEE TMI, arXiv:2602.08262",
        grid={"n_blocks": (1, 2)},
        released={"epochs": 50},
        targets=EVERY_TARGET,
        one_against_rest=True,
    )
)
