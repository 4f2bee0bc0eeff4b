"""The shells of the graph baselines: a whole graph goes in, or one whose edges a method weighs itself.

`SiteBalanced` is mixed into methods that compare sites within a batch.
"""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from pydantic import NonNegativeInt, PositiveInt
from torch import Tensor

from brainroam.data.cohort import Cohort
from brainroam.errors import unknown
from brainroam.methods.deep.base import DeepMethod, People, Shape, site_balanced_batches
from brainroam.methods.deep.graphs import adjacency_matrices, connectivity_matrices, strongest_edges
from brainroam.methods.deep.layers import (
    EdgeScorer,
    GINConv,
    GraphClassifier,
    GraphEncoder,
    attention_scorer,
    stack_layers,
)
from brainroam.utils.parameters import Share

READOUTS = ("mean", "concat")


@dataclass(kw_only=True, eq=False)
class ConvolutionMethod(DeepMethod):
    """What both shells are sized by.

    Parameters
    ----------
    hidden, layers : int
        Width and number of convolutions.
    dropout : float
    density : float
        Share of edges in a person's graph, by absolute correlation.
    """

    hidden: PositiveInt = 64
    layers: PositiveInt = 2
    dropout: Share = 0.5
    density: Share = 0.2


@dataclass(kw_only=True, eq=False)
class GraphMethod(ConvolutionMethod):
    """Connectivity rows and an unweighted graph go through a stack of convolutions, a readout and a linear head.

    Parameters
    ----------
    readout : {"mean", "concat"}
        Average the regions, or put them side by side, which keeps who is who.
    """

    readout: str = "mean"

    classifier: ClassVar[type[GraphClassifier]] = GraphClassifier

    def inputs(self, cohort: Cohort) -> tuple[Tensor, ...]:
        """Connectivity rows (n, P, P) and adjacencies (n, P, P)."""
        return connectivity_matrices(cohort), adjacency_matrices(cohort, self.density)

    def build(self, shape: Shape) -> GraphClassifier:
        """Encoder, readout and head."""
        if self.readout not in READOUTS:
            raise unknown("readout", self.readout, READOUTS)
        return self.classifier(self.encoder(shape.rois), self.hidden, shape.rois, self.readout)

    @abstractmethod
    def encoder(self, n_in: int) -> GraphEncoder:
        """Node embeddings (B, P, hidden) from features and graph."""


@dataclass(kw_only=True, eq=False)
class EdgeMethod(ConvolutionMethod):
    """Connectivity rows and a list of edges go to a network that decides which of the edges matter.

    Parameters
    ----------
    edge_width : int
        Width of the edge scorer; it dominates the cost.
    """

    edge_width: PositiveInt = 32

    def inputs(self, cohort: Cohort) -> tuple[Tensor, ...]:
        """Connectivity rows (n, P, P), edges (n, E, 2) and whether each is there (n, E)."""
        return connectivity_matrices(cohort), *strongest_edges(cohort, self.density)

    def encoder_and_scorer(self, n_rois: int) -> tuple[GraphEncoder, EdgeScorer]:
        """A GIN, and GSAT's edge MLP on its embeddings."""
        encoder = stack_layers(GINConv, n_rois, self.hidden, self.layers, self.dropout)
        return encoder, attention_scorer(self.hidden, self.edge_width, self.dropout)


@dataclass(kw_only=True, eq=False)
class SiteBalanced:
    """Batches with as many people of every site, the classes of a site spread evenly over them.

    Parameters
    ----------
    per_site : int
        People of each site in a batch; with 0 batches are drawn at random, as the released code of GOOD does.
    """

    per_site: NonNegativeInt = 8

    def batches(self, people: People) -> Iterator[Tensor]:
        """Positions of the people in each mini-batch of an epoch."""
        if self.per_site:
            yield from site_balanced_batches(people.site, people.y, self.per_site)
        else:
            yield from super().batches(people)  # type: ignore[misc]  # of the method it is mixed into


def by_site(values: Tensor, site: Tensor) -> list[Tensor]:
    """The rows of each site present."""
    return [values[site == e] for e in site.unique()]


def site_risks(logit: Tensor, batch: People) -> Tensor:
    """The error R_e at each site present."""
    loss = batch.error(logit, reduction="none")
    return torch.stack([here.mean() for here in by_site(loss, batch.site)])
