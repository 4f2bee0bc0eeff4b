"""GSAT: stochastic attention on edges under an information bottleneck.

    H = GIN(X, A)                                    one GIN, used twice
    s_uv = MLP[h_u, h_v],   p_uv = sigmoid(s_uv)
    a_uv = sigmoid(s_uv + logistic noise)            in training; a = p when scoring
    logit = w . mean_u GIN(X, a * A)_u + b
    min  CE + beta mean_uv [ a log(a/r) + (1 - a) log((1 - a)/(1 - r)) ],
         r = max(0.9 - 0.1 floor(epoch/interval), r_final)

The divergence is taken of the sampled attention, as released. Edges are undirected, so a_uv = a_vu by construction.
The edge MLP is 2H -> 32 -> 32 -> 1 (released: 2H -> 4H -> H -> 1); see `EdgeScorer` for how it is made cheap.

Explanation: ``edges`` (n, P, P), the probability p of each edge; 0 off the graph.
"""

from dataclasses import dataclass
from typing import Any

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt
from torch import Tensor, nn

from brainroam.methods.base import EVERY_TARGET, MethodInfo
from brainroam.methods.deep.base import People, Shape
from brainroam.methods.deep.graph_baselines import EdgeMethod
from brainroam.methods.deep.graphs import edge_matrix
from brainroam.methods.deep.layers import Head, Network, concrete
from brainroam.methods.registry import register
from brainroam.utils.parameters import Share


class AttentionNetwork(Network):
    """One encoder, run on the graph to weigh its edges and on the weighed graph to classify."""

    def __init__(self, encoder: nn.Module, scorer: nn.Module, hidden: int) -> None:
        super().__init__()
        self.encoder, self.scorer, self.head = encoder, scorer, Head(hidden)

    def edge_logits(self, x: Tensor, ends: Tensor, present: Tensor) -> Tensor:
        """s (B, E)."""
        return self.scorer(self.encoder(x, edge_matrix(present, ends, x.shape[1])), ends)

    def embed(self, x: Tensor, ends: Tensor, weight: Tensor) -> Tensor:
        """Mean node embedding (B, hidden) of the graph with these edge weights."""
        return self.encoder(x, edge_matrix(weight, ends, x.shape[1])).mean(1)

    def classify(self, x: Tensor, ends: Tensor, weight: Tensor) -> Tensor:
        """One logit per person from the graph with these edge weights."""
        return self.head(self.embed(x, ends, weight))

    def forward(self, x: Tensor, ends: Tensor, present: Tensor) -> Tensor:
        """One logit per person, every edge at its probability."""
        return self.classify(x, ends, present * self.edge_logits(x, ends, present).sigmoid())

    def explain(self, x: Tensor, ends: Tensor, present: Tensor) -> dict[str, Tensor]:
        """Edge probabilities."""
        probability = present * self.edge_logits(x, ends, present).sigmoid()
        return {"edges": edge_matrix(probability, ends, x.shape[1])}


@dataclass(kw_only=True, eq=False)
class GSAT(EdgeMethod):
    """Graph stochastic attention; see the module for the formula.

    Parameters
    ----------
    information : float
        beta.
    prior : float
        r_final.
    interval : int
        Epochs between two steps of r.
    """

    epochs: NonNegativeInt = 20
    information: NonNegativeFloat = 1.0
    prior: Share = 0.5
    interval: PositiveInt = 3

    def build(self, shape: Shape) -> AttentionNetwork:
        """Encoder, edge scorer and head."""
        return AttentionNetwork(*self.encoder_and_scorer(shape.rois), self.hidden)

    def loss(self, network: Any, batch: People, epoch: int) -> Tensor:
        """Cross-entropy on the sampled graph, and the divergence of the sample from the prior."""
        x, ends, present = batch.inputs
        sample = concrete(network.edge_logits(x, ends, present), training=True)
        logit = network.classify(x, ends, present * sample)
        return batch.error(logit) + self.information * information(sample, self.prior_at(epoch), present)

    def prior_at(self, epoch: int) -> float:
        """r."""
        return max(0.9 - 0.1 * (epoch // self.interval), self.prior)


def information(attention: Tensor, prior: float, present: Tensor) -> Tensor:
    """Mean divergence of Bernoulli(a) from Bernoulli(r) over the edges that are there."""
    a = attention.clamp(1e-6, 1 - 1e-6)
    divergence = a * (a / prior).log() + (1 - a) * ((1 - a) / (1 - prior)).log()
    return (present * divergence).sum() / present.sum()


register(
    MethodInfo(
        name="gsat",
        make=GSAT,
        summary="GIN on edges kept at random with learned probabilities",
        citation="Miao, Liu & Li (2022) Interpretable and generalizable graph learning via stochastic attention. ICML",
        grid={"prior": (0.5, 0.7)},
        released={"epochs": 200, "hidden": 100, "edge_width": 100, "interval": 20, "weight_decay": 0.0},
        targets=EVERY_TARGET,
        one_against_rest=True,
    )
)
