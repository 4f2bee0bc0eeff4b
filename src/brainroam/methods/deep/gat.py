"""GAT: the GCN shell with attention in place of fixed weights.

    a_uv = softmax_v LeakyReLU_0.2( l . W h_u + r . W h_v ),    h_u' = sum_v a_uv W h_v,    v in N(u) + {u}

Layer one has ``heads`` heads side by side, then ELU; layer two has one head of width ``hidden``. Mean over regions,
linear head. Attention looks at features, not at edge weights, as in the paper.

Explanation: ``attention`` (n, P, P), averaged over layers, heads and both directions of an edge; 0 off the graph.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from pydantic import NonNegativeInt, PositiveInt
from torch import Tensor, nn

from brainroam.methods.base import EVERY_TARGET, MethodInfo
from brainroam.methods.deep.graph_baselines import READOUTS, GraphMethod
from brainroam.methods.deep.layers import GATConv, GraphClassifier, GraphEncoder
from brainroam.methods.registry import register


class GATClassifier(GraphClassifier):
    """The shared shell, with its attention on show."""

    def explain(self, x: Tensor, adjacency: Tensor) -> dict[str, Tensor]:
        """Mean attention of each edge."""
        block: Any
        maps, h = [], x
        for block in self.encoder.blocks:
            maps.append(block.convolution.attention(h, adjacency).mean(1))
            h = block(h, adjacency)
        attention = torch.stack(maps).mean(0)
        return {"attention": adjacency * (attention + attention.mT) / 2}


@dataclass(kw_only=True, eq=False)
class GAT(GraphMethod):
    """Graph attention network; see the module for the formula.

    Parameters
    ----------
    heads, head_width : int
        Of the first layer.
    """

    epochs: NonNegativeInt = 30
    heads: PositiveInt = 4
    head_width: PositiveInt = 32

    classifier: ClassVar[type[GraphClassifier]] = GATClassifier

    def encoder(self, n_in: int) -> GraphEncoder:
        """Several narrow heads, then one."""
        wide = self.heads * self.head_width
        convolutions = [GATConv(n_in, wide, self.heads), GATConv(wide, self.hidden, 1)]
        return GraphEncoder(convolutions, [wide, self.hidden], self.dropout, nn.ELU)


register(
    MethodInfo(
        name="gat",
        make=GAT,
        summary="attention over each person's strongest edges",
        citation="Velickovic et al. (2018) Graph attention networks. ICLR",
        grid={"readout": READOUTS},
        released={"epochs": 200, "hidden": 100, "heads": 1, "head_width": 100, "weight_decay": 0.0},
        targets=EVERY_TARGET,
        one_against_rest=True,
    )
)
