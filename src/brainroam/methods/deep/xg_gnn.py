"""XG-GNN: connectivity learned from series, trained by meta-learning over sites to explain alike at all of them.

    v_u = softmax(MLP(pool(conv conv conv s_u)))         each region alone; each frame standardised over regions before
    V = softmax(Q K^T / sqrt(8)) V' of v,  M = V V^T     learned connectivity; four heads side by side, width 8
    h = BN(MLP(M X)),  h <- BN(f(M h)),  h <- BN(MLP(M h)),  logit = MLP(flatten h)
    Delta_e = sigmoid( columnwise z-score of | mean M of controls - mean M of patients | )         at site e

The last batch norm is over the channels of each region, the others over regions and people. One iteration: the training
sites are split at random into inner and outer ones, ``per_site`` people of each drawn and read as a batch of their own.

    theta' = Adam step on sum_e 2 R_e of the inner sites
    theta <- Adam step from theta with the gradient at theta' of
             sum_e 2 R_e + 1e-4 sum_e H(Delta_e) + 0.01 sum_{e<e'} (1 - Dice(Delta_e, Delta_e'))         outer sites
    H(Delta) = - sum_u p_u log p_u,   p_u the geometric mean of row u
    Dice(a, b) = 2 sum a b / (sum a + sum b)

(first-order meta-learning; running statistics are those of the inner sites). Inputs and labels are mixed up within a
site, and the groups of Delta are weighted with the mixed labels. ``iterations`` of them make an epoch. Series: the
first 100 frames. With a single training site it is both inner and outer and the consistency is 0.

``as_released=True`` brings back what the released file does otherwise (qiuxinmei7/XG-GNN at a454b02): the consistency
takes a matrix with itself, 1 - sum a^2 / sum a of the later site of each pair; the values of the attention come from
the key layer; M X is the row sum of M times X; outputs pass a sigmoid before the cross-entropy; and the groups of Delta
are those before mixing. 8 channels in place of 32, for time.

Explanation: ``connectivity`` (n, P, P), each person's M, and ``importance`` (P, P), the mean Delta over training sites
(a running average over the iterations).
"""

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt
from torch import Tensor, nn
from torch.nn import functional as F

from brainroam.data.cohort import Cohort
from brainroam.errors import DataError
from brainroam.methods.base import CLASSES_TOO, MethodInfo
from brainroam.methods.deep.base import DeepMethod, People, Shape, mixed_up
from brainroam.methods.deep.graphs import connectivity_matrices, standardised_series
from brainroam.methods.deep.layers import Network, NodeNorm
from brainroam.methods.registry import register
from brainroam.utils.parameters import Share

MOST_FRAMES, LEAST_FRAMES = 100, 40  # three convolutions and a pooling must fit
WIDTH, HEADS, POOLED = 8, 4, 16


class RegionAttention(nn.Module):
    """softmax(Q K^T / sqrt(C)) V by heads, side by side: scaled by the whole width C, and without a map at the end."""

    def __init__(self, as_released: bool) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        if as_released:
            self.value = self.key

    def forward(self, h: Tensor) -> Tensor:
        """(B, P, WIDTH) to (B, P, WIDTH)."""
        query, key, value = (
            part(h).unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        return F.scaled_dot_product_attention(query, key, value, scale=WIDTH**-0.5).transpose(1, 2).flatten(2)


class TwoMaxima(nn.Module):
    """The largest values of two stretches of 16 steps, or of both halves of what is shorter."""

    def forward(self, h: Tensor) -> Tensor:
        """(B, C, T) to (B, C, 2)."""
        return F.max_pool1d(h, min(POOLED, h.shape[-1] // 2))


class LearnedConnectivity(nn.Module):
    """Series (B, T, P) to M (B, P, P)."""

    def __init__(self, channels: int, as_released: bool) -> None:
        super().__init__()
        self.series = nn.Sequential(
            nn.Conv1d(1, channels, 4, stride=2),
            nn.BatchNorm1d(channels),
            nn.Conv1d(channels, channels, 8),
            nn.BatchNorm1d(channels),
            nn.Conv1d(channels, channels // 2, 8),
            nn.BatchNorm1d(channels // 2),
            TwoMaxima(),
            nn.Flatten(),
            nn.Linear(channels, 32),
            nn.LeakyReLU(0.2),
            nn.Linear(32, WIDTH),
            nn.Softmax(-1),
        )
        self.attention = RegionAttention(as_released)

    def forward(self, series: Tensor) -> Tensor:
        """M."""
        frames = F.instance_norm(series)  # each over the regions
        each = self.series(frames.mT.flatten(0, 1)[:, None]).view(len(series), -1, WIDTH)
        v = self.attention(each)
        return v @ v.mT


class MetaNetwork(Network):
    """Learned connectivity, and a graph network on it with Pearson rows as features."""

    importance: Tensor

    def __init__(self, n_rois: int, channels: int, dropout: float, as_released: bool) -> None:
        super().__init__()
        self.as_released = as_released
        self.connect = LearnedConnectivity(channels, as_released)
        self.layers = nn.ModuleList(
            [
                nn.Sequential(_mlp(n_rois, n_rois, n_rois), NodeNorm(n_rois)),
                nn.Sequential(nn.Linear(n_rois, n_rois), nn.LeakyReLU(0.2), NodeNorm(n_rois)),
                nn.Sequential(_mlp(n_rois, 64, WIDTH), nn.LeakyReLU(0.2), nn.Dropout(dropout), nn.BatchNorm1d(n_rois)),
            ]
        )
        self.head = nn.Sequential(nn.Flatten(), _mlp(WIDTH * n_rois, 256, 32), nn.LeakyReLU(0.2), nn.Linear(32, 2))
        self.register_buffer("importance", torch.full((n_rois, n_rois), 0.5))

    def learn(self, series: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (B,) and M (B, P, P)."""
        m, h = self.connect(series), x
        for layer in self.layers:
            h = layer(m.sum(-1, keepdim=True) * h if self.as_released else m @ h)
        out = self.head(h)
        out = out.sigmoid() if self.as_released else out
        return out[:, 1] - out[:, 0], m

    def forward(self, series: Tensor, x: Tensor) -> Tensor:
        """One logit per person."""
        return self.learn(series, x)[0]

    def explain(self, series: Tensor, x: Tensor) -> dict[str, Tensor]:
        """Each person's learned connectivity."""
        return {"connectivity": self.connect(series)}


@dataclass(kw_only=True, eq=False)
class XGGNN(DeepMethod):
    """Explainable and generalisable GNN; see the module for the formula.

    Parameters
    ----------
    channels : int
        Of the convolutions along time.
    dropout : float
    per_site, iterations : int
        People drawn of each site; meta-iterations in an epoch.
    sparsity, consistency : float
        Weights of the two regularisers.
    as_released : bool
        Reproduce the released file, faults included.
    """

    epochs: NonNegativeInt = 20
    weight_decay: NonNegativeFloat = 1e-4
    channels: PositiveInt = 8
    dropout: Share = 0.5
    per_site: PositiveInt = 10
    iterations: PositiveInt = 4
    sparsity: NonNegativeFloat = 1e-4
    consistency: NonNegativeFloat = 0.01
    as_released: bool = False

    def inputs(self, cohort: Cohort) -> tuple[Tensor, ...]:
        """Series (n, T, P) and connectivity rows (n, P, P)."""
        return standardised_series(cohort, min(MOST_FRAMES, self.shape_.frames)), connectivity_matrices(cohort)

    def build(self, shape: Shape) -> MetaNetwork:
        """Learned connectivity and graph network."""
        if shape.frames < LEAST_FRAMES:
            raise DataError(f"xg-gnn needs series of at least {LEAST_FRAMES} frames; the shortest has {shape.frames}")
        return MetaNetwork(shape.rois, self.channels, self.dropout, self.as_released)

    def optimiser(self, network: Network) -> Any:
        """One Adam for the inner step and one for the outer."""
        return super().optimiser(network), super().optimiser(network)

    def train_epoch(self, network: Any, optimiser: Any, people: People, epoch: int) -> None:
        """Some meta-iterations."""
        inner_step, outer_step = optimiser
        for _ in range(self.iterations):
            inner, outer = self.draw(people)
            network.zero_grad()
            self.risk_and_differences(network, inner)[0].backward()
            before = copy.deepcopy(network.state_dict())
            inner_step.step()
            network.zero_grad()
            risk, deltas = self.risk_and_differences(network, outer)
            (risk + self.penalty(deltas)).backward()
            network.load_state_dict(before)
            outer_step.step()
            if deltas:
                network.importance.lerp_(torch.stack(deltas).detach().mean(0), 0.1)

    def draw(self, people: People) -> tuple[list[People], list[People]]:
        """A batch of each inner and of each outer site; the groups of Delta are the last of its inputs."""
        sites = people.site.unique()
        batches = [self._some_of(people, site) for site in sites[torch.randperm(len(sites))]]
        half = len(sites) // 2
        return batches[:half] or batches, batches[half:]

    def _some_of(self, people: People, site: Tensor) -> People:
        here = torch.nonzero(people.site == site).flatten()
        batch = people.take(here[torch.randperm(len(here))[: self.per_site]])
        mixed = mixed_up(batch)
        return mixed._replace(inputs=(*mixed.inputs, batch.y if self.as_released else mixed.y))

    def risk_and_differences(self, network: Any, batches: list[People]) -> tuple[Tensor, list[Tensor]]:
        """sum_e 2 R_e over the sites, each read as a batch of its own, and Delta of each site with both groups."""
        risk, deltas = torch.zeros(()), []
        for batch in batches:
            *inputs, group = batch.inputs
            logit, m = network.learn(*inputs)
            risk = risk + 2 * batch.error(logit)
            if 0 < group.sum() < len(group):
                deltas.append(group_difference(m, group))
        return risk, deltas

    def penalty(self, deltas: list[Tensor]) -> Tensor:
        """Both regularisers of the outer objective."""
        if not deltas:
            return torch.zeros(())
        delta = torch.stack(deltas)
        entropy = sum(row_entropy(each) for each in delta)
        return self.sparsity * entropy + self.consistency * disagreement(delta, with_itself=self.as_released)

    def explain(self, cohort: Cohort) -> dict[str, np.ndarray]:
        """Each person's learned connectivity, and the importance of each edge to the groups' difference."""
        return {**super().explain(cohort), "importance": self._fitted_network().importance.cpu().numpy()}


def group_difference(m: Tensor, y: Tensor) -> Tensor:
    """Delta (P, P) of people with these matrices and (soft) labels."""
    patients, controls = ((weight[:, None, None] * m).sum(0) / weight.sum() for weight in (y, 1 - y))
    difference = (controls - patients).abs()
    return ((difference - difference.mean(0)) / (difference.std(0) + 1e-8)).sigmoid()


def row_entropy(delta: Tensor) -> Tensor:
    """- sum_u p_u log p_u, with p_u the geometric mean of row u."""
    log_p = delta.clamp_min(1e-10).log().mean(1)
    return -(log_p.exp() * log_p).sum()


def disagreement(delta: Tensor, with_itself: bool = False) -> Tensor:
    """Sum of 1 - Dice over pairs of sites; 0 for a single site. ``with_itself`` is the released code's."""
    flat = delta.flatten(1)
    size = flat.sum(1)
    dice = 2 * flat @ flat.T / (size[:, None] + size)
    if with_itself:
        dice = dice.diagonal().expand_as(dice)
    first, second = torch.triu_indices(len(flat), len(flat), 1)
    return (1 - dice[first, second]).sum()


def _mlp(n_in: int, hidden: int, n_out: int) -> nn.Module:
    return nn.Sequential(nn.Linear(n_in, hidden), nn.LeakyReLU(0.2), nn.Linear(hidden, n_out))


register(
    MethodInfo(
        name="xg-gnn",
        make=XGGNN,
        summary="connectivity learned from series by meta-learning over sites",
        citation="Qiu et al. (2024) Towards GNNs with domain-generalizable explainability. MICCAI",
        grid={"consistency": (0.01, 0.1)},
        needs=("site",),
        released={"epochs": 500, "iterations": 10, "channels": 32},
        targets=CLASSES_TOO,
        one_against_rest=True,
    )
)
