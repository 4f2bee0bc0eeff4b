"""BrainOOD: a feature mask, sampled edges, a reconstruction, and edges that mean the same for everybody.

    F = sigmoid(E E^T),   x <- x * F                       one mask for all people; dropout 0.2 in training
    H = GIN(x, A),   s_uv = MLP[h_u, h_v],   a_uv = sigmoid(s_uv + logistic noise)
    logit = mean over draws of  w . mean_u GIN(x, m A)_u + b,    m ~ Bernoulli(a), gradient straight through
    min  CE + 0.5 mean (tanh(Z Z^T) * F - x)^2 + 0.1 mean_uv std_i s_uv + 0.01 mean_u entropy(softmax F_u) + l_info KL

with Z = two high-pass layers MLP((I - D^-1 A) h) on H and KL the information of `gsat`, whose weight is 0 in the
published ABIDE setting.

Released code: its high-pass layer, h - [(1 + eps) h + sum_v h_v] with eps = 0, is minus the sum of the neighbours; here
it is the difference from their mean. Its alignment counts an edge somebody lacks as a logit of 0; here the deviation is
over the people who have the edge. It draws masks when scoring; here the edges then have their probabilities. It rounds
predictions before computing the AUC. Its width must be P because of a residual connection, which is left out. Two
draws instead of five: each costs a pass through the encoder.

Explanation: ``edges`` (n, P, P), the probability of each edge, and ``features`` (P, P), the mask F.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from pydantic import NonNegativeFloat, PositiveInt
from torch import Tensor, nn

from brainroam.data.cohort import Cohort
from brainroam.methods.base import EVERY_TARGET, MethodInfo
from brainroam.methods.deep.base import People, Shape
from brainroam.methods.deep.graphs import edge_matrix
from brainroam.methods.deep.gsat import GSAT, AttentionNetwork, information
from brainroam.methods.deep.layers import GINConv, concrete, straight_through
from brainroam.methods.registry import register
from brainroam.utils.parameters import Share


class BrainOODNetwork(AttentionNetwork):
    """GSAT's network behind a feature mask, with a decoder."""

    def __init__(self, encoder: nn.Module, scorer: nn.Module, hidden: int, n_rois: int) -> None:
        super().__init__(encoder, scorer, hidden)
        self.selector = nn.Parameter(torch.randn(n_rois, n_rois) / n_rois**0.5)
        self.high_pass = nn.ModuleList(GINConv(hidden, hidden) for _ in range(2))
        self.mask_dropout = nn.Dropout(0.2)

    def feature_mask(self) -> Tensor:
        """F (P, P)."""
        return self.mask_dropout((self.selector @ self.selector.T).sigmoid())

    def reconstruct(self, h: Tensor, adjacency: Tensor) -> Tensor:
        """tanh(Z Z^T): a GIN layer on the adjacency -D^-1 A is the high-pass layer."""
        against = -adjacency / adjacency.sum(-1, keepdim=True).clamp_min(1)
        for layer in self.high_pass:
            h = layer(h, against)
        return (h @ h.mT).tanh()

    def forward(self, x: Tensor, ends: Tensor, present: Tensor) -> Tensor:
        """One logit per person, every edge at its probability."""
        return super().forward(x * self.feature_mask(), ends, present)

    def explain(self, x: Tensor, ends: Tensor, present: Tensor) -> dict[str, Tensor]:
        """Edge probabilities."""
        return super().explain(x * self.feature_mask(), ends, present)


@dataclass(kw_only=True, eq=False)
class BrainOOD(GSAT):
    """Feature selector and sampled structure; see the module for the formula.

    Parameters
    ----------
    draws : int
        Graphs sampled for each person in a training step.
    alignment, reconstruction, entropy, information : float
        Weights of the four terms.
    """

    learning_rate: NonNegativeFloat = 2e-3
    weight_decay: NonNegativeFloat = 0.0
    prior: Share = 0.7
    draws: PositiveInt = 2
    information: NonNegativeFloat = 0.0
    alignment: NonNegativeFloat = 0.1
    reconstruction: NonNegativeFloat = 0.5
    entropy: NonNegativeFloat = 0.01

    def build(self, shape: Shape) -> BrainOODNetwork:
        """GSAT's parts, feature selector and decoder."""
        return BrainOODNetwork(*self.encoder_and_scorer(shape.rois), self.hidden, shape.rois)

    def loss(self, network: Any, batch: People, epoch: int) -> Tensor:
        """Cross-entropy of the draws' mean logit, and the four terms."""
        x, ends, present = batch.inputs
        mask = network.feature_mask()
        x, adjacency = x * mask, edge_matrix(present, ends, x.shape[1])
        h = network.encoder(x, adjacency)
        edge_logit = network.scorer(h, ends)
        attention = concrete(edge_logit, training=True)
        samples = [straight_through(torch.bernoulli(attention.detach()), attention) for _ in range(self.draws)]
        logit = torch.stack([network.classify(x, ends, present * sample) for sample in samples]).mean(0)
        return (
            batch.error(logit)
            + self.information * information(attention, self.prior_at(epoch), present)
            + self.alignment * misalignment(edge_matrix(edge_logit * present, ends, x.shape[1]), adjacency)
            + self.reconstruction * (network.reconstruct(h, adjacency) * mask - x).square().mean()
            + self.entropy * torch.special.entr(mask.softmax(-1)).sum(-1).mean()
        )

    def explain(self, cohort: Cohort) -> dict[str, np.ndarray]:
        """Edge probabilities of each person, and the feature mask of all."""
        with torch.no_grad():
            mask = self._fitted_network().eval().feature_mask()
        return {**super().explain(cohort), "features": mask.cpu().numpy()}


def misalignment(logit: Tensor, adjacency: Tensor) -> Tensor:
    """Mean over edges of the standard deviation of their logits over the people who have them (at least two)."""
    count = adjacency.sum(0)
    mean = logit.sum(0) / count.clamp_min(1)
    variance = (adjacency * (logit - mean)).square().sum(0) / (count - 1).clamp_min(1)
    shared = count > 1
    return (variance[shared] + 1e-8).sqrt().mean()


register(
    MethodInfo(
        name="brainood",
        make=BrainOOD,
        summary="feature mask and sampled edges with reconstruction and alignment",
        citation="Xu et al. (2025) BrainOOD: out-of-distribution generalizable brain network analysis. ICLR",
        grid={"reconstruction": (0.5, 10.0)},
        released={"epochs": 50, "hidden": 100, "edge_width": 100, "draws": 5, "interval": 20},
        targets=EVERY_TARGET,
        one_against_rest=True,
    )
)
