"""GIN: the GCN shell with sums over neighbours and an MLP; also the encoder of IRM, CORAL, GSAT and others here.

    h_u' = MLP( h_u + sum_v A_uv h_v ),    MLP: in -> 2H -> BN -> ReLU -> H

then batch normalisation, ReLU (not after the last layer) and dropout; mean over regions; linear head. The sum over
about 23 neighbours is large: the batch normalisation inside the MLP and after it keeps it in bounds.

The benchmark's variants are not reproduced: its residual connection needs as many channels as regions, and the
"virtual node" of its vGIN is, with two layers, only a learned bias, which batch normalisation has already.
"""

from dataclasses import dataclass

from brainroam.methods.base import EVERY_TARGET, MethodInfo
from brainroam.methods.deep.graph_baselines import READOUTS, GraphMethod
from brainroam.methods.deep.layers import GINConv, GraphEncoder, stack_layers
from brainroam.methods.registry import register


@dataclass(kw_only=True, eq=False)
class GIN(GraphMethod):
    """Graph isomorphism network; see the module for the formula."""

    def encoder(self, n_in: int) -> GraphEncoder:
        """Sum-and-MLP layers."""
        return stack_layers(GINConv, n_in, self.hidden, self.layers, self.dropout)


register(
    MethodInfo(
        name="gin",
        make=GIN,
        summary="sums over neighbours and MLPs on each person's strongest edges",
        citation="Xu et al. (2019) How powerful are graph neural networks? ICLR",
        grid={"readout": READOUTS},
        released={"epochs": 200, "hidden": 100, "weight_decay": 0.0},
        targets=EVERY_TARGET,
        one_against_rest=True,
    )
)
