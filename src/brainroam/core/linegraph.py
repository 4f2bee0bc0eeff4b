"""Line graph of the scaffold: its nodes, the pathways, are scaffold edges, joined where two edges share a region.

    a     = |d_com| on S                     mu0 = (a - mean a) / (std a + eps)
    A_pq  = exp(-|mu0_p - mu0_q| / (max mu0 - min mu0 + eps))        for p != q that share a region, else 0
    A^    = A + I,   D = diag(A^ 1),         A~  = D^-1/2 A^ D^-1/2

Two distinct edges share at most one region, so the graph is a disjoint sum of cliques, one per region: it is built
from the incidence lists in time proportional to its non-zeros, and neither A nor A~ is kept as a matrix.

`Pathways` are steps 1 to 5 of CORE as some training sites gave them, frozen. They turn any person into standardised
node features,

    x_p  = o_p r_p / sd_p,   o_p = sgn(d_com_p)                         oriented static channel (o_p = 1: literal)
    x'_p = (log(s_p + eps) - mean_p) / sd_p,   likewise for f           volatility and flexibility

and carry the weights w of a linear reading of the static channel (`brainroam.core.site_statistics`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd
from scipy import sparse

from brainroam.core.connectivity import edge_pairs, n_rois_of
from brainroam.core.deconfound import SiteDeconfounder
from brainroam.core.scaffold import Scaffold

EPS = 1e-8


@dataclass(frozen=True, eq=False)
class LineGraph:
    """Prior and propagation over scaffold edges.

    Attributes
    ----------
    prior : ndarray of shape (M_S,)
        mu0, the standardised size of the consensus contrast.
    cliques : list of ndarray
        The scaffold edges that end at each region, for regions where some do.
    root : ndarray of shape (M_S,)
        The diagonal of D^-1/2.
    """

    prior: np.ndarray
    cliques: list[np.ndarray]
    root: np.ndarray

    def __len__(self) -> int:
        return len(self.prior)

    def weights(self, p: np.ndarray, q: np.ndarray) -> np.ndarray:
        """A~_pq of scaffold edges that share a region, or are the same."""
        return _similarity(self.prior, p, q) * self.root[p] * self.root[q]

    @property
    def propagation(self) -> sparse.csr_array:
        """A~ (M_S, M_S), symmetric, eigenvalues in (-1, 1]; put together when asked for, since it can be large."""
        p = np.concatenate([np.repeat(clique, len(clique)) for clique in self.cliques])
        q = np.concatenate([np.tile(clique, len(clique)) for clique in self.cliques])
        neighbours, everyone = p != q, np.arange(len(self))
        p, q = np.concatenate([p[neighbours], everyone]), np.concatenate([q[neighbours], everyone])
        return sparse.csr_array((self.weights(p, q), (p, q)), shape=(len(self), len(self)))


def line_graph(pairs: np.ndarray, consensus: np.ndarray) -> LineGraph:
    """Build the line graph of the scaffold edges.

    Parameters
    ----------
    pairs : ndarray of int, shape (M_S, 2)
        The two regions of each scaffold edge.
    consensus : ndarray of shape (M_S,)
        d_com of each scaffold edge.

    Examples
    --------
    >>> graph = line_graph(np.array([[0, 1], [1, 2], [3, 4]]), np.array([0.1, -0.2, 0.3]))
    >>> (graph.propagation.toarray() > 0).astype(int).tolist()
    [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    """
    size = np.abs(np.asarray(consensus, dtype=float))
    prior = (size - size.mean()) / (size.std() + EPS)
    cliques = _cliques(np.asarray(pairs))
    degree = np.ones(len(prior))
    for clique in cliques:
        degree[clique] += _similarity(prior, clique[:, None], clique).sum(axis=1) - 1  # not to itself
    return LineGraph(prior, cliques, 1 / np.sqrt(degree))


def _similarity(prior: np.ndarray, p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """A^_pq of edges that share a region, or are the same."""
    return np.exp(-np.abs(prior[p] - prior[q]) / (np.ptp(prior) + EPS))


def _cliques(pairs: np.ndarray) -> list[np.ndarray]:
    """The edges at each region."""
    region = pairs.T.reshape(-1)
    edge = np.tile(np.arange(len(pairs)), 2)
    order = np.argsort(region, kind="stable")
    return np.split(edge[order], np.flatnonzero(np.diff(region[order])) + 1)


@dataclass(frozen=True, eq=False)
class Pathways:
    """Frozen steps 1 to 5, applied to one person at a time.

    Attributes
    ----------
    deconfounder : SiteDeconfounder
    scaffold : Scaffold
    orientation : ndarray of shape (N,)
        sgn(d_com), or ones for the literal reading.
    centre, scale : ndarray of shape (N, C)
        Of the C channels over the training people.
    skip : ndarray of shape (N,) or (N, K)
        Weights of the linear reading of the static channel; of K classes one column each.
    """

    deconfounder: SiteDeconfounder
    scaffold: Scaffold
    orientation: np.ndarray
    centre: np.ndarray
    scale: np.ndarray
    skip: np.ndarray

    @cached_property
    def graph(self) -> LineGraph:
        """The line graph, which a network asks for."""
        edges, consensus = self.scaffold.edges, self.scaffold.consensus
        return line_graph(edge_pairs(n_rois_of(len(consensus)))[edges], consensus[edges])

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

    def on(self, nodes: np.ndarray) -> "Pathways":
        """Only these pathways, by position."""
        if len(nodes) == len(self.scaffold):
            return self
        return replace(
            self,
            scaffold=self.scaffold.on(nodes),
            orientation=self.orientation[nodes],
            centre=self.centre[nodes],
            scale=self.scale[nodes],
            skip=self.skip[nodes],
        )


@dataclass(frozen=True)
class Moments:
    """Number, mean and squares about the mean of values over the people who have them.

    Of the people of parts k with counts n_k, means m_k and squares about the mean q_k,

        m = sum_k n_k m_k / n,        q = sum_k q_k + n_k (m_k - m)^2,        n = sum_k n_k

    so the moments of any choice of sites follow from those of each site.

    >>> x = np.array([[1.0], [2.0], [np.nan], [6.0]])
    >>> whole = Moments.of([x[:1], x[1:]])
    >>> whole.count.tolist(), whole.mean.tolist(), whole.squares.tolist()
    ([3], [3.0], [14.0])
    """

    count: np.ndarray
    mean: np.ndarray
    squares: np.ndarray

    @classmethod
    def of(cls, batches: Iterable[np.ndarray]) -> "Moments":
        """Of people (n, ...) in batches."""
        return cls.combine([cls._of_some(x) for x in batches])

    @classmethod
    def _of_some(cls, x: np.ndarray) -> "Moments":
        present = np.isfinite(x)
        if present.all():  # several times faster
            mean = x.sum(axis=0) / max(len(x), 1)
            return cls(np.full(x.shape[1:], len(x)), mean, ((x - mean) ** 2).sum(axis=0))
        count = present.sum(axis=0)
        mean = np.sum(x, axis=0, where=present) / np.maximum(count, 1)
        return cls(count, mean, np.sum((x - mean) ** 2, axis=0, where=present))

    @classmethod
    def combine(cls, parts: Sequence["Moments"]) -> "Moments":
        """Of the people of several parts together."""
        if len(parts) == 1:
            return parts[0]
        count = np.sum([part.count for part in parts], axis=0)
        mean = sum(part.count * part.mean for part in parts) / np.maximum(count, 1)
        squares = sum(part.squares + part.count * (part.mean - mean) ** 2 for part in parts)
        return cls(count, mean, squares)

    def on(self, columns: np.ndarray) -> "Moments":
        """Of some of the values."""
        return Moments(self.count[columns], self.mean[columns], self.squares[columns])

    @property
    def scale(self) -> np.ndarray:
        """Standard deviation; 1 where there is none."""
        scale = np.sqrt(self.squares / np.maximum(self.count, 1))
        return np.where(scale > EPS, scale, 1.0)
