"""One block at all sites that have it: its scaffolds, its model, and what its scores are worth where nobody saw them.

Weights of several blocks (`brainroam.methods.blocks`) need the scores s_b of people by a model without their site.
Their sums over the people of a site follow from its two summaries, for a reading is linear in residuals and covariates:
with w the weights of a reading, r0 the residuals by the site's own slopes, q the covariates about the site's mean and V
what the reading's slopes have more than the site's own,

    s - mean s  =  w'(r0 - V'q) - mean        so  sum s^2, sum s t and sum t^2  are known of each block

and no further round is needed for them. What is not known is how scores of two blocks go together in a person, since
nothing is told of two blocks at once. They are taken to do so only through the target: r_ab = r_a r_b with r_b the
correlation of s_b with t within sites. For two blocks that err together this gives the weaker one too much.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from brainroam.core.pathways import Pathways
from brainroam.core.scaffold import Scaffold, edges_of
from brainroam.core.site_summary import SiteProducts, SummaryStatistics
from brainroam.data.folds import other_sites
from brainroam.data.target import Target
from brainroam.errors import EmptyScaffoldError
from brainroam.execution.federation.files import Message
from brainroam.execution.federation.kinds import Kind
from brainroam.execution.federation.model import reading
from brainroam.methods.blocks import Weighing, weigh_moments

LeftOut = frozenset[str]


class ScoreMoments(NamedTuple):
    """Of the people of some sites, read by models without their own site: sums about the means of each site.

    Of several classes, added up over them.
    """

    n_sites: float
    n_people: float
    squares: float  # sum s^2
    with_target: float  # sum s t
    target: float  # sum t^2


class PooledBlock:
    """The summaries of one block, by site.

    Parameters
    ----------
    first, second : mapping of str to Message
        First summaries of the sites that have the block, and the second ones that have come.
    thresholds : mapping
        Of the scaffold.
    target : Target
        With the classes of all sites.
    n_left_out : int
        For how many sites left out at once a model is needed: one, or two where blocks are to be weighted.
    """

    keys: Mapping[str, str] = {}  # of hospitals that answer under masks
    asked: Message

    def __init__(
        self,
        first: Mapping[str, Message],
        second: Mapping[str, Message],
        thresholds: Mapping[str, Any],
        target: Target,
        n_left_out: int = 1,
    ) -> None:
        self.sites, self.thresholds, self.target = sorted(first), thresholds, target
        self.like, self.n_left_out, self._firsts = first[self.sites[0]], n_left_out, first
        kind = Kind.of(target)
        self.summaries = {name: kind.summary(first[name]) for name in self.sites}
        self._second = {name: kind.products(message) for name, message in second.items() if name in first}
        self.statistics = self._statistics(None)
        self.whole = self.statistics.scaffold(self.sites, **thresholds)
        self._scaffolds: dict[LeftOut, Scaffold | None] = {frozenset(): self.whole}
        self._readings: dict[LeftOut, dict[str, np.ndarray] | None] = {}

    def _statistics(self, products: Mapping[str, SiteProducts] | None) -> SummaryStatistics:
        return SummaryStatistics(self.summaries, self.like.covariates, products, self.like.pairs, self.target)

    @cached_property
    def complete(self) -> SummaryStatistics:
        """The statistics of both rounds."""
        return self._statistics(self._second)

    def pathways(self) -> Pathways:
        """Of all sites."""
        return self.complete.pathways(self.sites, self.whole)

    def moved(self) -> dict[str, float]:
        """How far each site moves the model: without it against with it, as a share of the latter."""
        whole, found = self.pathways(), dict[str, float]()
        for name in self.sites:
            model = self.reading_without(frozenset({name}))
            if model is not None:
                there = np.isin(whole.scaffold.edges, model["edges"])
                unit, with_it = whole.scale[there, 0], reading(whole)["weights"][there]
                without = model["weights"][np.searchsorted(model["edges"], whole.scaffold.edges[there])]
                found[name] = share_moved(with_it, without, unit)
        return found

    def scaffolds(self, number: int) -> dict[LeftOut, Scaffold]:
        """Without every so many sites, where the others agree on any edge."""
        every = map(frozenset, combinations(self.sites, number))
        scaffolds = {left_out: self._scaffold(left_out) for left_out in every}
        return {left_out: scaffold for left_out, scaffold in scaffolds.items() if scaffold is not None}

    def _scaffold(self, left_out: LeftOut) -> Scaffold | None:
        if left_out not in self._scaffolds:
            try:
                others = other_sites(self.sites, left_out)
                self._scaffolds[left_out] = self.statistics.scaffold(others, **self.thresholds)
            except EmptyScaffoldError:
                self._scaffolds[left_out] = None
        return self._scaffolds[left_out]

    def waiting(self) -> list[str]:
        """The sites whose products are missing on some edges that are needed."""
        parts = [self.whole, *(s for n in range(1, self.n_left_out + 1) for s in self.scaffolds(n).values())]
        needed, sent = edges_of(parts), self._second
        return [name for name in self.sites if name not in sent or not np.isin(needed, sent[name].edges).all()]

    def request(self, least_sites: int) -> dict[str, np.ndarray]:
        """Edges of which products are needed; also once a site has withdrawn, so that others need not send again."""
        numbers = range(1, 1 + (2 if len(self.sites) > least_sites else self.n_left_out))
        edges = edges_of([self.whole, *(scaffold for n in numbers for scaffold in self.scaffolds(n).values())])
        centre = self.statistics.deconfounder.mean_intercept_[edges]
        return {"edges": edges, "centre": centre, "priority": np.abs(self.whole.consensus[edges])}

    def reading_without(self, left_out: LeftOut) -> dict[str, np.ndarray] | None:
        """The reading of the other sites; None where they agree on no edge, or their products are not known."""
        left_out = left_out & frozenset(self.sites)
        if left_out not in self._readings:
            self._readings[left_out] = self._reading_of(other_sites(self.sites, left_out), self._scaffold(left_out))
        return self._readings[left_out]

    def _reading_of(self, sites: Sequence[str], scaffold: Scaffold | None) -> dict[str, np.ndarray] | None:
        if scaffold is None or not all(np.isin(scaffold.edges, self._second[name].edges).all() for name in sites):
            return None
        return reading(self.complete.pathways(sites, scaffold))

    def moments(self, left_out: LeftOut) -> ScoreMoments:
        """Of the people of the other sites, each site read by a model without it."""
        sums = np.zeros(len(ScoreMoments._fields))
        for name in other_sites(self.sites, left_out):
            model = self.reading_without(left_out | {name})
            if model is not None:
                sums += [1, self.summaries[name].counts.sum(), *self._moments_at(name, model)]
        return ScoreMoments(*sums.tolist())

    def _moments_at(self, name: str, model: Mapping[str, np.ndarray]) -> np.ndarray:
        """sum s^2, sum s t, sum t^2 about the means of one site; of several classes summed over them."""
        edges, summary = model["edges"], self.complete.summaries[name]
        slopes = model["mean_coef"] / model["covariate_std"][:, None] - np.nan_to_num(summary.fit.coef[:, edges])
        gram, sums, _ = self.complete.products_by(name, edges, np.zeros(len(edges)), slopes)
        n = summary.counts.sum()
        if summary.target is not None:
            w, (total, with_target), square = model["weights"], sums, float(summary.target[1])
            return np.array([w @ gram @ w - (w @ total) ** 2 / n, w @ with_target, square])
        w = model["weights"].reshape(len(edges), -1)
        counts, of_class = summary.counts[-w.shape[1] :], sums[-w.shape[1] :]
        total = sums.sum(axis=0) @ w
        squares = np.einsum("ek,ef,fk->k", w, gram, w) - total**2 / n
        with_target = np.einsum("ke,ek->k", of_class, w) - counts / n * total
        return np.array([squares.sum(), with_target.sum(), (counts - counts**2 / n).sum()])


def share_moved(whole: np.ndarray, without: np.ndarray, unit: np.ndarray) -> float:
    """|whole - without| / |whole| of weights (N,) or (N, K) of edges in these units (N,)."""
    whole, without = (weights.reshape(len(unit), -1) * unit[:, None] for weights in (whole, without))
    return float(np.linalg.norm(whole - without) / max(float(np.linalg.norm(whole)), 1e-300))


def block_weights(blocks: Sequence[PooledBlock], left_out: LeftOut = frozenset()) -> Weighing:
    """Weights of the blocks by the sites that are not left out; equal shares where these cannot be held out."""
    sites, n, squares, with_target, target = np.array([block.moments(left_out) for block in blocks]).T
    if n.min() == 0 or squares.min() <= 0 or target.min() <= 0:
        return Weighing(np.ones(len(blocks)), np.zeros(len(blocks)))
    r, spread = with_target / np.sqrt(squares * target), float(np.sqrt(target.sum() / n.sum()))
    together = np.outer(r, r)
    np.fill_diagonal(together, 1.0)
    free = n - sites - len(blocks)
    return weigh_moments(together, r * spread, spread**2, 1, free, np.sqrt(squares / n))
