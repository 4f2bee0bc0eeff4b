"""The two shells of the graph baselines: a whole graph goes in, or a graph whose edges a method weighs itself."""

from abc import abstractmethod
from dataclasses import dataclass

from torch import Tensor, nn

from brainroam.baselines.deep import DeepMethod, Shape
from brainroam.baselines.graphs import adjacency_matrices, connectivity_matrices, strongest_edges
from brainroam.baselines.layers import GraphClassifier
from brainroam.cohort import Cohort
from brainroam.errors import unknown

READOUTS = ("mean", "concat")


@dataclass(kw_only=True, eq=False)
class GraphMethod(DeepMethod):
    """Connectivity rows and an unweighted graph go through a stack of convolutions, a readout and a linear head.

    Parameters
    ----------
    hidden, layers : int
        Width and number of convolutions.
    dropout : float
    density : float
        Share of edges kept, by absolute correlation.
    readout : {"mean", "concat"}
        Average the regions, or put them side by side, which keeps who is who.
    """

    hidden: int = 64
    layers: int = 2
    dropout: float = 0.5
    density: float = 0.2
    readout: str = "mean"

    def inputs(self, cohort: Cohort) -> tuple[Tensor, ...]:
        """Connectivity rows (n, P, P) and adjacencies (n, P, P)."""
        return connectivity_matrices(cohort), adjacency_matrices(cohort, self.density)

    def build(self, shape: Shape) -> GraphClassifier:
        """Encoder, readout and head."""
        if self.readout not in READOUTS:
            raise unknown("readout", self.readout, READOUTS)
        return GraphClassifier(self.encoder(shape.rois), self.hidden, shape.rois, self.readout)

    @abstractmethod
    def encoder(self, n_in: int) -> nn.Module:
        """Node embeddings (B, P, hidden) from features and graph."""


@dataclass(kw_only=True, eq=False)
class EdgeMethod(DeepMethod):
    """Connectivity rows and a list of edges go to a network that decides which of the edges matter.

    Parameters
    ----------
    hidden, layers : int
        Width and number of convolutions.
    dropout : float
    density : float
        Share of edges offered, by absolute correlation.
    edge_width : int
        Width of the edge scorer; it dominates the cost.
    """

    hidden: int = 64
    layers: int = 2
    dropout: float = 0.5
    density: float = 0.2
    edge_width: int = 64

    def inputs(self, cohort: Cohort) -> tuple[Tensor, ...]:
        """Connectivity rows (n, P, P), edges (n, E, 2) and whether each is there (n, E)."""
        return connectivity_matrices(cohort), *strongest_edges(cohort, self.density)
