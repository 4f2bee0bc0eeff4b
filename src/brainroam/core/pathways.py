"""Pathways: what a model reads of a person on the edges of the scaffold, and the linear reading of it.

`Pathways` are steps 1 to 5 of CORE as some training sites gave them, frozen. They turn any person into standardised
node features,

    x_p  = o_p r_p / sd_p,   o_p = sgn(d_com_p)                         oriented static channel (o_p = 1: literal)
    x'_p = (log(s_p + eps) - mean_p) / sd_p,   likewise for f           volatility and flexibility

and carry the weights w of a linear reading of the static channel x,

    w = mean over penalties of  argmin  sum_i (y_i - c_e - x_i' w)^2 + penalty |w|^2      over the people i of sites e

scaled so that it has unit spread over them. With an intercept for each site, what a site's robust fit leaves of its
mean does not count.

Of a number more is known: sites differ in it, often by more than people of one site do, and what goes with it between
sites tells its order within them too. With l_e = (b_e - b_bar) / s the level of site e on the pathways and t_e its mean
target, both without their mean over sites by k_e, sites are random effects,

    + sum_e k_e (t_e - l_e' w)^2,        k_e = 1 / (1 / n_e + 1 / SITE_PEOPLE)

which is what t = c + x' w + u_e + error says of n_e people, with the variance of u_e a share 1 / SITE_PEOPLE of that of
the error: a site has one more row, which counts as at most SITE_PEOPLE people.

A nuisance variable c, such as head motion, varies among the people of one site and class. The direction of the pathways
that moves with it is taken out of everybody,

    x  ->  x - D (D'D)^-1 D'x,        D = sum_i x_i c_i'  over the training people, c without means of site and class

so that no pathway covaries with c in training, and nothing of it is needed of a new person. The weights w are of that
x, so they are orthogonal to D themselves: w'x is the same before and after. The network reads x without D.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from brainroam.core.connectivity import edge_pairs, n_rois_of
from brainroam.core.deconfound import SiteDeconfounder
from brainroam.core.linegraph import EPS, LineGraph, line_graph
from brainroam.core.ridge import Rows, ridge_candidates, without_directions
from brainroam.core.scaffold import Scaffold

SKIPS = ("ridge", "sum", "none")
SITE_PEOPLE = 10  # what `edge_ridge.SITE_EFFECT` is at a penalty of 1


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
    directions : ndarray of shape (N, k)
        D: how the static channel moves with each nuisance variable, with no column where none is known.
    """

    deconfounder: SiteDeconfounder
    scaffold: Scaffold
    orientation: np.ndarray
    centre: np.ndarray
    scale: np.ndarray
    skip: np.ndarray
    directions: np.ndarray

    @cached_property
    def graph(self) -> LineGraph:
        """The line graph, which a network asks for."""
        edges, consensus = self.scaffold.edges, self.scaffold.consensus
        return line_graph(edge_pairs(n_rois_of(len(consensus)))[edges], consensus[edges])

    def state(self) -> dict[str, np.ndarray]:
        """The arrays of a saved model; the rest follows from these."""
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
            "pathways.directions": self.directions,
        }

    def unscaled(self) -> "Pathways":
        """The same with the channels as they are; the linear reading keeps its scores."""
        scale = self.scale[:, 0].reshape(-1, *(1 for _ in self.skip.shape[1:]))
        nothing, one = np.zeros_like(self.centre), np.ones_like(self.scale)
        directions = self.directions * self.scale[:, :1]
        return replace(self, centre=nothing, scale=one, skip=self.skip / scale, directions=directions)

    def nodes(self, values: np.ndarray, covariates: pd.DataFrame, profiles: np.ndarray | None) -> np.ndarray:
        """Node features (N, n, C) of anybody from their values on the scaffold, by the site-agnostic deconfounder."""
        residual = self.deconfounder.frozen_residuals(values, covariates, columns=self.scaffold.edges)
        return self.standardise(residual, profiles)

    def standardise(self, residual: np.ndarray, profiles: np.ndarray | None) -> np.ndarray:
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
        static = h0[..., 0].reshape(*h0.shape[:2], *(1 for _ in self.skip.shape[1:]))
        return self.skip[:, None] * static

    def without_nuisance(self, h0: np.ndarray) -> np.ndarray:
        """Node features (N, n, C) without the directions that nuisance variables move."""
        if not self.directions.any():
            return h0
        projected = h0.copy()
        projected[..., 0] = without_directions(h0[..., 0].T, self.directions).T
        return projected

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
            directions=self.directions[nodes],
        )


def linear_weights(
    x: np.ndarray,
    t: np.ndarray,
    skip: str,
    candidates: Sequence[Sequence[float]],
    rows: Rows | None = None,
) -> list[np.ndarray]:
    """Weights (N,), or (N, K), of the linear reading by each candidate, with unit spread over the training people.

    ``t`` (n,) or (n, K) is what a ridge is fitted to (`Coding.for_ridge`); ``skip`` is "ridge", "sum" (all weights are
    equal) or "none" (there is no linear reading); ``rows`` are `site_rows`.
    """
    if skip == "none":
        return [np.zeros((x.shape[1], *t.shape[1:]))]
    weights = [np.ones(x.shape[1])] if skip == "sum" else ridge_candidates(x, t, candidates, rows)
    return [each / max(float(np.std(x @ each)), EPS) for each in weights]


def site_rows(level: np.ndarray, target: np.ndarray, n_people: np.ndarray) -> Rows:
    """Rows sqrt(k_e) l_e (E, N) with targets sqrt(k_e) t_e (E,) of the sites, without their mean by k_e.

    >>> rows = site_rows(np.array([[0.0], [1.0]]), np.array([3.0, 5.0]), np.array([10, 10]))
    >>> (rows.features.T @ rows.features).round(6).tolist()  # as 5 people each, about their mean
    [[2.5]]
    >>> (rows.features.T @ rows.target).round(6).tolist()
    [5.0]
    """
    counted = 1 / (1 / n_people + 1 / SITE_PEOPLE)
    share, root = counted / counted.sum(), np.sqrt(counted)
    return Rows(root[:, None] * (level - share @ level), root * (target - share @ target))


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


def require_shapes(state: dict[str, np.ndarray], n_edges: int, n_sites: int, channels: int) -> None:
    """Refuse arrays whose shapes do not match: some would be broadcast, others fail in the middle of a prediction."""
    every, nodes = (n_edges,), (state["scaffold.edges"].size,)
    shapes = {
        "choice": (5,),
        "scaffold.edges": nodes,
        "scaffold.contrast": (n_sites, *every),
        **dict.fromkeys(("scaffold.consensus", "scaffold.sign_consistency", "scaffold.stability"), every),
        **dict.fromkeys(("pathways.centre", "pathways.scale"), (*nodes, channels)),
        "pathways.skip": (*nodes, *state["pathways.skip"].shape[1:2]),
        "pathways.directions": (*nodes, *state["pathways.directions"].shape[1:]),
        "deconfounder.mean_intercept": every,
    }
    for name, shape in shapes.items():
        if name in state and state[name].shape != shape:
            raise ValueError(f"{name} has the shape {state[name].shape}, not {shape}")


def spread_of(residuals: np.ndarray) -> np.ndarray:
    """Standard deviation (M,) of each feature over the people of a site who have it; NaN where nobody has.

    >>> spread_of(np.array([[1.0, np.nan], [3.0, np.nan]])).tolist()
    [1.0, nan]
    """
    moments = Moments.of([residuals])
    return np.sqrt(np.where(moments.count > 0, moments.squares / np.maximum(moments.count, 1), np.nan))
