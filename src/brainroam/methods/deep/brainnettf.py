"""BrainNetTF: a Transformer over regions with an orthonormal clustering readout.

    h = X                                     region u is a token, its correlations the features; no graph, no position
    h <- LN(h + Attention(h)),  h <- LN(h + W_2 ReLU(W_1 h))                                  two layers, four heads
    z = MLP(flatten h),   S_uk = softmax_k (z_u . c_k)^2 / ||c_k||,   pooled = S^T z          c_1, ..., c_K orthonormal
    logit = MLP(flatten LeakyReLU(W pooled))

Trained on mixtures of two people (mixup, Beta(1, 1)) with their labels mixed alike. The centres are frozen. The rate
falls from ``learning_rate`` to a tenth along a cosine of ``schedule_epochs``, whatever ``epochs`` is.

Released code: the first centre is not normalised (here all are); the last epoch is saved although every epoch is tested
(here validation chooses). The feed-forward layer has 128 channels here, 1,024 there: it is where the time goes. Where P
is not a multiple of the heads, zero features are appended; where P < K, K = P.

Explanation: ``attention`` (n, P, P), averaged over heads and layers, and ``clusters`` (n, P, K).
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt
from torch import Tensor, nn
from torch.nn import functional as F

from brainroam.data.cohort import Cohort
from brainroam.methods.base import EVERY_TARGET, MethodInfo
from brainroam.methods.deep.base import DeepMethod, People, Shape, mixed_up
from brainroam.methods.deep.graphs import connectivity_matrices
from brainroam.methods.deep.layers import Head, Network, SelfAttention
from brainroam.methods.registry import register
from brainroam.utils.parameters import Share


class TransformerLayer(nn.Module):
    """Attention and feed-forward, each added to its input and normalised afterwards."""

    def __init__(self, width: int, heads: int, feedforward: int, dropout: float) -> None:
        super().__init__()
        self.attention = SelfAttention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, feedforward), nn.ReLU(), nn.Linear(feedforward, width))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.dropout = nn.Dropout(dropout)

    def forward(self, h: Tensor) -> Tensor:
        """(B, P, width) to (B, P, width)."""
        h = self.norms[0](h + self.dropout(self.attention(h)))
        return self.norms[1](h + self.dropout(self.mlp(h)))


class ClusterReadout(nn.Module):
    """Soft assignment of re-encoded regions to frozen orthonormal centres."""

    centres: Tensor

    def __init__(self, n_rois: int, width: int, clusters: int) -> None:
        super().__init__()
        self.encode = nn.Sequential(
            nn.Flatten(),
            nn.Linear(n_rois * width, 32),
            nn.LeakyReLU(),
            nn.Linear(32, 32),
            nn.LeakyReLU(),
            nn.Linear(32, n_rois * width),
            nn.Unflatten(1, (n_rois, width)),
        )
        self.register_buffer("centres", nn.init.orthogonal_(torch.empty(clusters, width)))

    def assignment(self, z: Tensor) -> Tensor:
        """S (B, P, K); the norm of every centre is one."""
        return (z @ self.centres.T).square().softmax(-1)

    def forward(self, h: Tensor) -> Tensor:
        """(B, P, width) to (B, K, width)."""
        z = self.encode(h)
        return self.assignment(z).mT @ z


class BrainTransformer(Network):
    """Two Transformer layers, the readout, and an MLP on the clusters."""

    def __init__(self, n_rois: int, heads: int, feedforward: int, clusters: int, dropout: float) -> None:
        super().__init__()
        self.padding = -n_rois % heads
        width, clusters = n_rois + self.padding, min(clusters, n_rois)
        self.layers = nn.ModuleList(TransformerLayer(width, heads, feedforward, dropout) for _ in range(2))
        self.readout = ClusterReadout(n_rois, width, clusters)
        self.head = nn.Sequential(
            nn.Linear(width, 8),
            nn.LeakyReLU(),
            nn.Flatten(),
            nn.Linear(8 * clusters, 256),
            nn.LeakyReLU(),
            nn.Linear(256, 32),
            nn.LeakyReLU(),
            Head(32),
        )

    def forward(self, x: Tensor) -> Tensor:
        """One logit per person."""
        h = F.pad(x, (0, self.padding))
        for layer in self.layers:
            h = layer(h)
        return self.head(self.readout(h))

    def explain(self, x: Tensor) -> dict[str, Tensor]:
        """Mean attention, and the cluster of each region."""
        layer: Any
        h, maps = F.pad(x, (0, self.padding)), []
        for layer in self.layers:
            maps.append(layer.attention.weights(h))
            h = layer(h)
        clusters = self.readout.assignment(self.readout.encode(h))
        return {"attention": torch.stack(maps).mean(0), "clusters": clusters}


@dataclass(kw_only=True, eq=False)
class BrainNetTF(DeepMethod):
    """Brain network transformer; see the module for the formula.

    Parameters
    ----------
    heads, feedforward, clusters : int
        ``feedforward`` is the width inside a layer, ``clusters`` the K.
    dropout : float
    schedule_epochs : int
        When the learning rate has fallen to a tenth.
    """

    epochs: NonNegativeInt = 20
    learning_rate: NonNegativeFloat = 3e-4
    weight_decay: NonNegativeFloat = 1e-4
    batch_size: PositiveInt = 16
    heads: PositiveInt = 4
    feedforward: PositiveInt = 128
    clusters: PositiveInt = 100
    dropout: Share = 0.1
    schedule_epochs: NonNegativeInt = 20

    def inputs(self, cohort: Cohort) -> tuple[Tensor, ...]:
        """Connectivity rows (n, P, P)."""
        return (connectivity_matrices(cohort),)

    def build(self, shape: Shape) -> BrainTransformer:
        """Layers, readout and MLP."""
        return BrainTransformer(shape.rois, self.heads, self.feedforward, self.clusters, self.dropout)

    def train_epoch(self, network: Any, optimiser: Any, people: People, epoch: int) -> None:
        """One pass over the training people, at this epoch's rate."""
        done = min(1.0, epoch / self.schedule_epochs)
        for group in optimiser.param_groups:
            group["lr"] = self.learning_rate * (0.1 + 0.9 * (1 + math.cos(math.pi * done)) / 2)
        super().train_epoch(network, optimiser, people, epoch)

    def loss(self, network: Any, batch: People, epoch: int) -> Tensor:
        """Cross-entropy on mixtures of people."""
        return super().loss(network, mixed_up(batch), epoch)


register(
    MethodInfo(
        name="brainnettf",
        make=BrainNetTF,
        summary="Transformer over regions with an orthonormal clustering readout",
        citation="Kan et al. (2022) Brain network transformer. NeurIPS",
        grid={"learning_rate": (3e-4, 1e-4)},
        released={"epochs": 200, "schedule_epochs": 200, "learning_rate": 1e-4, "feedforward": 1024},
        targets=EVERY_TARGET,
        one_against_rest=True,
    )
)
