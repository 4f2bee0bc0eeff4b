"""GCN: graph-level classification with Kipf-Welling convolutions.

    H_0 = X,    H_l = dropout(ReLU(BN( D^-1/2 (A + I) D^-1/2 H_{l-1} W_l ))),    logit = w . mean_u H_L[u] + b

without ReLU in the last layer; X and A as in `brainroam.methods.deep.graphs`. Two layers of width 64, as in CORE's own
backbone. The graph is unweighted: negative correlations would make the degrees D meaningless. There is no explanation
of its own.

Deviations from the released benchmark code (GOOD, BrainOOD): the diagonal of X is 0, not 1; the strongest 20 % of
edges are taken by |r| (there: |r| above the 80th percentile of the signed values); AUC is never computed from rounded
predictions.
"""

from dataclasses import dataclass

from brainroam.methods.base import EVERY_TARGET, MethodInfo
from brainroam.methods.deep.graph_baselines import READOUTS, GraphMethod
from brainroam.methods.deep.layers import GCNConv, GraphEncoder, stack_layers
from brainroam.methods.registry import register


@dataclass(kw_only=True, eq=False)
class GCN(GraphMethod):
    """Graph convolutional network; see the module for the formula."""

    def encoder(self, n_in: int) -> GraphEncoder:
        """Kipf-Welling layers."""
        return stack_layers(GCNConv, n_in, self.hidden, self.layers, self.dropout)


register(
    MethodInfo(
        name="gcn",
        make=GCN,
        summary="graph convolutions on each person's strongest edges",
        citation="Kipf & Welling (2017) Semi-supervised classification with graph convolutional networks. ICLR",
        grid={"readout": READOUTS},
        released={"epochs": 200, "hidden": 100, "weight_decay": 0.0},
        targets=EVERY_TARGET,
        one_against_rest=True,
    )
)
