"""What a set of training sites says about pathways, frozen: steps 1 to 5 of CORE as one object.

`Evidence` is computed once from all training people: site-wise deconfounding and the contrast of every site. Any subset
of the sites then has its own deconfounder, scaffold and line graph at almost no cost, because each site's fit and
contrast depend on that site alone. The resulting `Pathways` turn any person into standardised node features:

    x_p  = o_p r_p / sd_p,   o_p = sgn(d_com_p)                         oriented static channel (o_p = 1: literal)
    x'_p = (log(s_p + eps) - mean_p) / sd_p,   likewise for f           volatility and flexibility

and carry the weights of a linear reading of the static channel, for the network's skip connection:

    w = argmin  sum_i (y_i - x_i' w)^2 + penalty |w|^2                  over the training people of those sites

Beyond the paper, lead-lag edges (how much one region runs ahead of another) can be read beside the pathways: the
reproducible ones among them, by the same thresholds, are further columns of x in that regression, scaled to a share of
its length, and their part of x' w is a number per person that is added to the network's logit. They are no nodes: the
graph stays the paper's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from brainroam.connectivity import edge_pairs, n_rois_of
from brainroam.deconfound import SiteDeconfounder
from brainroam.errors import EmptyScaffoldError, unknown
from brainroam.linegraph import LineGraph, line_graph
from brainroam.memo import Memo
from brainroam.profile import temporal_descriptors
from brainroam.scaffold import Scaffold, extract_scaffold, select_scaffold, site_contrasts, sites_with_both_classes

EPS = 1e-8
SKIPS = ("ridge", "sum", "none")
RIDGE_PENALTY = 30.0
LEAD_SHARE = 0.5  # squared length of the lead-lag columns, relative to the others' (chosen on inner sites of ABIDE)


@dataclass(frozen=True)
class Profiles:
    """log(s + eps), log(f + eps) of some people on some edges; NaN where a window count is too small."""

    edges: np.ndarray
    values: np.ndarray

    @classmethod
    def compute(
        cls,
        series: Sequence[np.ndarray],
        edges: np.ndarray,
        window: int | np.ndarray,
        stride: int | np.ndarray,
        subjects: Sequence[str] | None = None,
    ) -> "Profiles":
        """Describe these edges (ascending indices) for everybody."""
        pairs = edge_pairs(series[0].shape[1])[edges]
        return cls(edges, np.log(temporal_descriptors(series, pairs, window, stride, subjects) + EPS))

    def of(self, edges: np.ndarray, people: np.ndarray | slice = slice(None)) -> np.ndarray:
        """The values (n, len(edges), 2) of a subset of the edges."""
        return self.values[people][:, np.searchsorted(self.edges, edges)]


@dataclass(frozen=True, eq=False)
class LeadLag:
    """A frozen linear reading of lead-lag edges: the sum of weight times residual over ``edges``."""

    deconfounder: SiteDeconfounder
    edges: np.ndarray
    weights: np.ndarray

    def read(self, values: np.ndarray, covariates: pd.DataFrame, adapt: str | None = None) -> np.ndarray:
        """A number for each person, from their lead-lag edges (n, M)."""
        return self.sum(self.deconfounder.transform(values, covariates, adapt))

    def sum(self, residuals: np.ndarray) -> np.ndarray:
        """The same from residuals (n, M)."""
        return np.nan_to_num(residuals[:, self.edges]) @ self.weights


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
    skip : ndarray of shape (N,)
        Weights of the linear reading of the static channel.
    lead : LeadLag, optional
        What is read beside the pathways.
    """

    deconfounder: SiteDeconfounder
    scaffold: Scaffold
    graph: LineGraph
    orientation: np.ndarray
    centre: np.ndarray
    scale: np.ndarray
    skip: np.ndarray
    lead: LeadLag | None = None

    def nodes(
        self, edges: np.ndarray, covariates: pd.DataFrame, profiles: np.ndarray | None, adapt: str | None = None
    ) -> np.ndarray:
        """Node features (N, n, C) of anybody, by the frozen site-agnostic deconfounder."""
        residual = self.deconfounder.transform(edges, covariates, adapt)[:, self.scaffold.edges]
        return self.standardised(residual, profiles)

    def standardised(self, residual: np.ndarray, profiles: np.ndarray | None) -> np.ndarray:
        """Node features (N, n, C) from residuals (n, N) and log profiles (n, N, 2); the missing stand at the mean."""
        channels = [residual[..., None] * self.orientation[:, None]]
        if profiles is not None:
            channels.append(profiles)
        z = (np.concatenate(channels, axis=-1) - self.centre) / self.scale
        return np.nan_to_num(z, nan=0.0).transpose(1, 0, 2).astype(np.float32)


class Evidence:
    """Deconfounding and contrasts of every training site, from which any subset of sites is put together.

    Parameters
    ----------
    edges, y, site, covariates
        The training people.
    deconfounder : SiteDeconfounder
        Not fitted yet; a pooled one (the ablation "w/o CD") is fitted once, on all training people.

    Attributes
    ----------
    lead : Evidence or None
        The same for the lead-lag edges, where they are to be read too.
    """

    def __init__(
        self,
        edges: np.ndarray,
        y: np.ndarray,
        site: np.ndarray,
        covariates: pd.DataFrame,
        deconfounder: SiteDeconfounder,
        memo: Memo | None = None,
    ) -> None:
        self.edges, self.y, self.site, self.covariates = edges, y, site, covariates
        self.lead: Evidence | None = None
        self.deconfounder = deconfounder.fit(edges, covariates, site, y, memo)
        self.residuals = self.deconfounder.residuals_
        self.sites = sites_with_both_classes(y, site)
        self.contrast = site_contrasts(self.residuals, y, site, self.sites, memo)
        self.pairs = edge_pairs(n_rois_of(edges.shape[1]))

    def scaffold(
        self,
        sites: Sequence[str],
        tau_percentile: float,
        eta: float,
        zeta: float,
        bootstrap: str = "sites",
        seed: int = 0,
    ) -> Scaffold:
        """The scaffold these sites alone give."""
        if bootstrap != "sites":
            here = np.isin(self.site, sites)
            people = self.residuals[here], self.y[here], self.site[here]
            return extract_scaffold(*people, tau_percentile, eta, zeta, bootstrap, random_state=seed)
        rows = [row for row, name in enumerate(self.sites) if name in set(sites)]
        return select_scaffold(self.contrast[rows], [self.sites[row] for row in rows], tau_percentile, eta, zeta)

    def lead_scaffold(self, sites: Sequence[str], **thresholds: Any) -> Scaffold | None:
        """The reproducible lead-lag edges; None where there are none."""
        try:
            return self.lead.scaffold(sites, **thresholds) if self.lead else None
        except EmptyScaffoldError:
            return None

    def pathways(
        self,
        sites: Sequence[str],
        scaffold: Scaffold,
        profiles: Profiles | None,
        orient: bool = True,
        skip: str = "ridge",
        lead: Scaffold | None = None,
    ) -> Pathways:
        """Freeze what these sites know, on a scaffold they gave, with lead-lag edges beside it where given."""
        if skip not in SKIPS:
            raise unknown("skip", skip, SKIPS)
        here = np.isin(self.site, sites)
        orientation = scaffold.signs if orient else np.ones(len(scaffold))
        static = self.residuals[here][:, scaffold.edges] * orientation
        channels = static[..., None]
        if profiles is not None:
            channels = np.concatenate([channels, profiles.of(scaffold.edges, here)], axis=-1)
        centre, scale = _moments(channels)
        centre[:, 0] = 0  # r_site is centred site by site; a mean over people would only add noise
        columns, reading = np.nan_to_num(static / scale[:, 0]), None
        if self.lead is None or lead is None:
            weights = _skip_weights(columns, self.y[here], skip)
        else:
            ahead, spread = self.lead._beside(lead, here, len(scaffold))
            weights = _skip_weights(np.concatenate([columns, ahead], axis=1), self.y[here], skip)
            reading = LeadLag(self.lead._frozen(here), lead.edges, weights[len(scaffold) :] / spread)
        graph = line_graph(self.pairs[scaffold.edges], scaffold.consensus[scaffold.edges])
        return Pathways(
            self._frozen(here), scaffold, graph, orientation, centre, scale, weights[: len(scaffold)], reading
        )

    def _beside(self, scaffold: Scaffold, here: np.ndarray, n_pathways: int) -> tuple[np.ndarray, np.ndarray]:
        """Columns to be read beside so many pathways: oriented residuals divided by a spread, which is returned too."""
        residual = self.residuals[here][:, scaffold.edges]
        spread = scaffold.signs * _moments(residual[..., None])[1][:, 0]
        spread *= np.sqrt(len(scaffold) / (LEAD_SHARE * n_pathways))
        return np.nan_to_num(residual / spread), spread

    def _frozen(self, here: np.ndarray) -> SiteDeconfounder:
        """The deconfounder that knows the sites of these people only."""
        if self.deconfounder.pooled:
            return self.deconfounder
        return self.deconfounder.restricted(sorted(set(self.site[here])))


def _moments(channels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each node and channel over the people who have it."""
    known = np.isfinite(channels)
    count = np.maximum(known.sum(axis=0), 1)
    centre = np.where(known, channels, 0).sum(axis=0) / count
    scale = np.sqrt((np.where(known, channels - centre, 0) ** 2).sum(axis=0) / count)
    return centre, np.where(scale > EPS, scale, 1.0)


def _skip_weights(x: np.ndarray, y: np.ndarray, skip: str) -> np.ndarray:
    """Weights (N,) of the linear reading, scaled so that it has unit spread over the training people."""
    if skip == "none":
        return np.zeros(x.shape[1])
    weights = np.ones(x.shape[1]) if skip == "sum" else ridge_weights(x, 2.0 * y - 1, RIDGE_PENALTY)
    return weights / max(float(np.std(x @ weights)), EPS)


def ridge_weights(x: np.ndarray, target: np.ndarray, *penalties: float) -> np.ndarray:
    """Ridge coefficients, averaged over penalties, solved in the people's Gram matrix scaled to unit mean diagonal.

    A penalty then means the same for any number and scale of features.

    >>> x = np.random.default_rng(0).normal(size=(20, 50))
    >>> w = ridge_weights(x, x[:, 0], 1.0)
    >>> bool(w[0] == w.max())
    True
    """
    gram = x @ x.T
    size = max(float(np.trace(gram)) / len(gram), EPS)
    centred, identity = target - target.mean(), np.eye(len(gram))
    dual = np.mean([np.linalg.solve(gram / size + penalty * identity, centred) for penalty in penalties], axis=0)
    return x.T @ dual / size
