"""Pathways, frozen: what some training sites gave in steps 1 to 5 of CORE, applied to one person at a time.

They turn any person into standardised node features:

    x_p  = o_p r_p / sd_p,   o_p = sgn(d_com_p)                         oriented static channel (o_p = 1: literal)
    x'_p = (log(s_p + eps) - mean_p) / sd_p,   likewise for f           volatility and flexibility

and carry the weights w of a linear reading of the static channel (`brainroam.core.site_statistics`).
"""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from brainroam.core.connectivity import edge_pairs, n_rois_of
from brainroam.core.deconfound import SiteDeconfounder
from brainroam.core.linegraph import LineGraph, line_graph
from brainroam.core.scaffold import Scaffold


@dataclass(frozen=True, eq=False)
class Pathways:
    """Frozen steps 1 to 5, applied to one person at a time.

    Attributes
    ----------
    deconfounder : SiteDeconfounder
    scaffold : Scaffold
    graph : LineGraph
    orientation : ndarray of shape (N,)
        sgn(d_com), or ones for the literal reading.
    centre, scale : ndarray of shape (N, C)
        Of the C channels over the training people.
    skip : ndarray of shape (N,) or (N, K)
        Weights of the linear reading of the static channel; of K classes one column each.
    """

    deconfounder: SiteDeconfounder
    scaffold: Scaffold
    graph: LineGraph
    orientation: np.ndarray
    centre: np.ndarray
    scale: np.ndarray
    skip: np.ndarray

    def state(self) -> dict[str, np.ndarray]:
        """What a saved model keeps of them, as arrays; the rest follows from these."""
        scaffold = self.scaffold
        return {
            **{f"deconfounder.{name}": value for name, value in self.deconfounder.state().items()},
            "scaffold.edges": scaffold.edges,
            "scaffold.consensus": scaffold.consensus,
            "scaffold.sign_consistency": scaffold.sign_consistency,
            "scaffold.stability": scaffold.stability,
            "pathways.centre": self.centre,
            "pathways.scale": self.scale,
            "pathways.skip": self.skip,
        }

    def nodes(self, values: np.ndarray, covariates: pd.DataFrame, profiles: np.ndarray | None) -> np.ndarray:
        """Node features (N, n, C) of anybody from their values on the scaffold, by the site-agnostic deconfounder."""
        residual = self.deconfounder.frozen_residuals(values, covariates, columns=self.scaffold.edges)
        return self.standardised(residual, profiles)

    def standardised(self, residual: np.ndarray, profiles: np.ndarray | None) -> np.ndarray:
        """Node features (N, n, C) from residuals (n, N) and log profiles (n, N, 2); the missing stand at the mean.

        Without profiles the static channel alone.
        """
        channels = [residual[..., None] * self.orientation[:, None]]
        if profiles is not None:
            channels.append(profiles)
        values = np.concatenate(channels, axis=-1)
        z = (values - self.centre[:, : values.shape[-1]]) / self.scale[:, : values.shape[-1]]
        return np.nan_to_num(z, nan=0.0).transpose(1, 0, 2)

    def contributions(self, h0: np.ndarray) -> np.ndarray:
        """How much each pathway moves the linear reading of each person (N, B), or (N, B, K); they add up to it."""
        if self.skip.ndim == 2:
            return self.skip[:, None] * h0[..., :1]
        return self.skip[:, None] * h0[..., 0]

    def strongest(self, limit: int | None) -> np.ndarray:
        """Positions of the ``limit`` pathways with the largest consensus contrast, in their order; None is all."""
        strength = np.abs(self.scaffold.consensus[self.scaffold.edges])
        return np.sort(np.argsort(-strength, kind="stable")[:limit])

    def on(self, nodes: np.ndarray) -> "Pathways":
        """Only these pathways, by position, with the line graph of their own."""
        if len(nodes) == len(self.scaffold):
            return self
        scaffold = replace(self.scaffold, edges=self.scaffold.edges[nodes])
        pairs = edge_pairs(n_rois_of(len(scaffold.consensus)))[scaffold.edges]
        return replace(
            self,
            scaffold=scaffold,
            graph=line_graph(pairs, scaffold.consensus[scaffold.edges]),
            orientation=self.orientation[nodes],
            centre=self.centre[nodes],
            scale=self.scale[nodes],
            skip=self.skip[nodes],
        )
