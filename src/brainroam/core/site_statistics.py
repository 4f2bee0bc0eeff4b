"""Statistics of training sites, computed once: scaffold and pathways of any subset of them follow at almost no cost.

`SiteStatistics` holds site-wise deconfounding and the contrast of every site of all training people. Each site's fit
and contrast depend on that site alone, so a subset of sites is a choice among them: `SiteStatistics.scaffold` selects
edges by the contrasts of the subset, `SiteStatistics.pathways` freezes what the subset knows on these edges, with a
linear reading (`brainroam.core.pathways`).

Of a number the right penalty of that reading may be ten times weaker than of another one, and of a table a thousand
times: each of several penalties is a candidate, all from one matrix. Held-out sites choose one for a number, and say
how far each is believed for a table (`brainroam.core.model`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from brainroam.core.connectivity import (
    PEARSON,
    EdgeKind,
    cohort_edges,
    edge_blocks,
    edge_pairs,
    n_rois_of,
)
from brainroam.core.deconfound import SiteDeconfounder
from brainroam.core.linegraph import EPS
from brainroam.core.pathways import SKIPS, Moments, Pathways, linear_weights, site_rows, spread_of
from brainroam.core.penalties import table_penalties
from brainroam.core.profile import Profiles
from brainroam.core.ridge import LARGE, Rows, without_directions
from brainroam.core.scaffold import (
    Scaffold,
    contrast_delta,
    edges_of,
    extract_scaffold,
    join_scaffolds,
    select_scaffold,
    site_contrasts,
    sites_with_contrast,
)
from brainroam.data.cohort import Cohort
from brainroam.data.features import ArrayColumns, Columns, Features, column_blocks
from brainroam.data.people import group_codes
from brainroam.data.target import TWO_CLASSES, Target
from brainroam.errors import EmptyScaffoldError, unknown

RIDGE_PENALTIES = (3.0, 10.0, 30.0)  # in units of the mean squared length of the people
COLUMN_PENALTIES = (1.0, 3.0, 10.0)  # where features have units of their own and nobody is held out to weigh penalties
NUMBER_PENALTIES = (1.0, 0.3, 3.0, 0.1, 10.0, 30.0)  # the first where no site can be held out
# Measured: what a step of training holds of each number at a pathway; a line graph being built, for each pair of
# neighbours; contrasts and regressions of a site and edge.
STEP_BYTES, NEIGHBOUR_BYTES, FIT_BYTES = 80, 80, 160


class _People(NamedTuple):
    """r_site (n, M) by the slopes of each site, labels and sites of some people."""

    residuals: np.ndarray
    y: np.ndarray
    site: np.ndarray


class SiteStatistics:
    """Deconfounding and contrasts of every training site, from which those of any subset of sites follow.

    Parameters
    ----------
    edges, y, site, covariates
        The training people; y is 0 and 1, a number, or of several classes their indicators (n, K).
    deconfounder : SiteDeconfounder
        Not fitted yet; a pooled one (the ablation "w/o CD") is fitted once, on all training people.
    features : Features, optional
        Where the edges come from: it holds the cache of sites' statistics, and says how much is read at a time and
        where what belongs to single folds is kept, in memory or on disk.
    contrast : {"huber", "mean"}
        Class means that a site's contrast is the difference of.
    group : ndarray, optional
        Who belongs together, for the hierarchical bootstrap.
    pairs : ndarray of int, shape (M, 2), optional
        The two regions of each feature; those of all edges by default.
    own_units : bool
        Features differ in their units, as the columns of a table do: contrasts are divided by the standard deviation of
        the residuals within those sites that give the scaffold, so that they can be compared.
    target : Target
        Of several classes, each is compared with the first where that is one of controls; else with all others.
    levels : dict of str to float, optional
        Of a number its mean at each site, in the unit of y, which is about them.
    nuisance : ndarray of shape (n, k), optional
        Variables whose directions are taken out of the pathways (`brainroam.core.nuisance`).

    Attributes
    ----------
    values : Columns
        Edge values, to be read by people and edges.
    parts : tuple of SiteStatistics
        Of several classes, the same for each contrast: labels 0 and 1 of those who take part.
    """

    _deconfounders: Mapping[tuple[str, ...], SiteDeconfounder] = {}  # by sites: scaffold and pathways ask in turn
    _profiled: tuple[Profiles, dict[str, Moments]] | None = None
    levels: Mapping[str, float] = {}
    spread: Mapping[str, np.ndarray] = {}  # of residuals within each site, where features have units of their own
    sites: list[str]
    contrast: np.ndarray
    features: Features
    values: Columns
    parts: "tuple[SiteStatistics, ...]" = ()
    takes_part: np.ndarray | None = None  # of a part: whose labels count; None is everybody

    def __init__(
        self,
        edges: np.ndarray,
        y: np.ndarray,
        site: np.ndarray,
        covariates: pd.DataFrame,
        deconfounder: SiteDeconfounder,
        features: Features | None = None,
        contrast: str = "huber",
        group: np.ndarray | None = None,
        pairs: np.ndarray | None = None,
        own_units: bool = False,
        target: Target = TWO_CLASSES,
        levels: Mapping[str, float] | None = None,
        nuisance: np.ndarray | None = None,
    ) -> None:
        self.levels = levels or {}
        self.nuisance = np.zeros((len(y), 0)) if nuisance is None else nuisance
        self.features = features or Features([])
        self.group, self.values = group, ArrayColumns(edges)
        self.huber_delta = contrast_delta(contrast)
        self.edges, self.y, self.site, self.covariates = edges, y, site, covariates
        self.coding = target.coding
        if deconfounder.fit_on == "controls":
            target.require_controls('fit_on="controls"')
        cases = self.coding.cases(y)
        self.deconfounder = deconfounder.fit_sites(edges, covariates, site, cases, self.features.cache)
        if own_units:
            self.spread = {name: self._residual_spread(name) for name in _names(site)}
        self.pairs = edge_pairs(n_rois_of(edges.shape[1])) if pairs is None else pairs
        self.parts = tuple(self._contrasts_of_classes(target.has_controls))
        if self.parts:
            self.sites = sorted({name for part in self.parts for name in part.sites})
            self.contrast = np.concatenate([part.contrast for part in self.parts])
        else:
            self._contrast_sites()

    def _contrast_sites(self) -> None:
        """The sites that have a contrast of labels 0 and 1 or of a number, and d_e (E, M) of each."""
        who = slice(None) if self.takes_part is None else self.takes_part
        self.sites = sites_with_contrast(self.y[who], self.site[who], self.coding)
        self.contrast = np.concatenate([self._contrast_of(name) for name in self.sites])

    def _residual_spread(self, site: str) -> np.ndarray:
        """Standard deviation (M,) of r_site by the site's own slopes, a block of edges at a time."""
        blocks = edge_blocks(self.edges.shape[1])
        return np.concatenate([spread_of(self._people_of([site], some).residuals) for some in blocks])

    def _contrasts_of_classes(self, against_first: bool) -> "Iterator[SiteStatistics]":
        """One contrast for each class that has one at two sites or more: against the first class, or all others."""
        n_contrasts, empty = 0, None
        for y, takes_part in self.coding.parts(self.y, against_first):
            part = copy(self)
            part.y, part.takes_part, part.coding, part.parts = y, takes_part, TWO_CLASSES.coding, ()
            try:
                part._contrast_sites()
            except EmptyScaffoldError as error:  # too few sites have both: nothing reproducible can be said of it
                empty = error
                continue
            n_contrasts += 1
            yield part
        if not n_contrasts and empty is not None:
            raise empty

    def _contrast_of(self, site: str) -> np.ndarray:
        """d_e (1, M) of one site by its own slopes, computed once for the same people and the same regression."""
        fitted, here = self.deconfounder, self._positions_at([site])
        fit = fitted.site_fits[0 if fitted.pooled else fitted.sites_.index(site)]
        follows_from = [self.edges[here], self.raw_covariates[here], self.y[here], fit.intercept, fit.coef]

        def contrast_of(columns: slice) -> np.ndarray:
            people = self._people_of([site], columns)
            return site_contrasts(people.residuals, people.y, people.site, [site], self.huber_delta, self.coding)

        summary = self.features.cache.summary
        blocks = [
            summary(("site contrast", self.huber_delta, str(some)), follows_from, partial(contrast_of, some))
            for some in column_blocks(self.edges)
        ]
        return np.concatenate(blocks, axis=1)

    def scaffold(
        self,
        sites: Sequence[str],
        tau_percentile: float,
        eta: float,
        zeta: float,
        bootstrap: str = "sites",
        seed: int = 0,
        sign: str = "both",
    ) -> Scaffold:
        """The scaffold these sites alone give; that of an inner fold without the evidence for every edge."""
        if self.parts:
            return join_scaffolds(self._scaffolds_of_classes(sites, tau_percentile, eta, zeta, bootstrap, seed, sign))
        if bootstrap == "sites":
            rows = [row for row, name in enumerate(self.sites) if name in set(sites)]
            contrast = (self.contrast[rows] + self._pooling(sites, rows)) / self._unit(sites)
            names, whole = [self.sites[row] for row in rows], len(rows) == len(self.sites)
            scaffold = select_scaffold(contrast, names, tau_percentile, eta, zeta, every_edge=whole, sign=sign)
        else:
            people = self._people_of(sites)
            scaffold = extract_scaffold(
                people.residuals / self._unit(sites),
                people.y,
                people.site,
                tau_percentile,
                eta,
                zeta,
                bootstrap,
                random_state=seed,
                huber_delta=self.huber_delta,
                group=None if self.group is None else self.group[self._positions_at(sites)],
                coding=self.coding,
                sign=sign,
            )
        if len(scaffold.sites) == len(self.sites):
            return scaffold
        nothing = np.empty(0)
        return replace(scaffold, contrast=nothing, sign_consistency=nothing, stability=nothing)

    def _scaffolds_of_classes(self, sites: Sequence[str], *settings: Any) -> list[Scaffold]:
        """The scaffold of each contrast that two of these sites have; an error where all are empty."""
        scaffolds: list[Scaffold] = []
        empty = EmptyScaffoldError("no class is found with those it is compared with at two of these sites")
        for part in self.parts:
            try:
                if len(set(part.sites) & set(sites)) >= 2:
                    scaffolds.append(part.scaffold(sites, *settings))
            except EmptyScaffoldError as error:
                empty = error
        if not scaffolds:
            raise empty
        return scaffolds

    def _pooling(self, sites: Sequence[str], rows: Sequence[int]) -> np.ndarray | float:
        """What pooling the slopes of these sites changes in the contrasts, which were taken by each site's own slopes.

        A slope that changes by c moves the difference of the class means by -c times the classes' gap in the covariate.
        """
        if self.deconfounder.slopes == "site" or self.deconfounder.pooled:
            return 0.0
        deconfounder, changes = self._deconfounder_with_changes(_names(sites))
        self._keep_deconfounder(deconfounder)
        names = [self.sites[row] for row in rows]
        change = dict(zip(deconfounder.sites_, changes, strict=True))
        return np.stack([-self.covariate_gaps[name] @ change[name] for name in names])

    def _unit(self, sites: Sequence[str]) -> np.ndarray | float:
        """What contrasts (M,) are divided by: the root of the mean squared spread within these sites, by their people.

        1 where features have one unit.
        """
        if not self.spread:
            return 1.0
        names = _names(sites)
        spreads = np.stack([self.spread[name] for name in names])
        n_people = np.array([self.n_people[name] for name in names])[:, None] * np.isfinite(spreads)
        unit = np.sqrt((n_people * np.nan_to_num(spreads) ** 2).sum(axis=0) / np.maximum(n_people.sum(axis=0), 1))
        return np.where(unit > 0, unit, 1.0)

    @property
    def penalties(self) -> tuple[float, ...]:
        """Usual penalties of the linear reading."""
        return COLUMN_PENALTIES if self.spread else RIDGE_PENALTIES

    @property
    def candidates(self) -> list[tuple[float, ...]]:
        """Penalties of the linear reading that held-out sites choose from, or weigh."""
        if self.levels:
            return [(penalty,) for penalty in NUMBER_PENALTIES]
        if self.spread:
            return [(penalty,) for penalty in table_penalties(len(self.y), self.edges.shape[1])]
        return [self.penalties]

    @cached_property
    def n_people(self) -> dict[str, int]:
        """How many people each site has."""
        names, counts = np.unique(self.site, return_counts=True)
        return dict(zip(names.tolist(), counts.tolist(), strict=True))

    def _deconfounder_with_changes(self, sites: Sequence[str]) -> tuple[SiteDeconfounder, np.ndarray]:
        return self.deconfounder.restricted_with_changes(sites)

    @cached_property
    def raw_covariates(self) -> np.ndarray:
        """Covariates (n, d) of everybody in their own units."""
        return self.deconfounder.encoder_.impute(self.covariates)

    @cached_property
    def covariate_gaps(self) -> dict[str, np.ndarray]:
        """Mean covariates (d,) of the cases of each site minus those of its controls, or slopes on a number."""
        here = {name: self._positions_at([name]) for name in self.sites}
        return {name: self.coding.covariate_gap(self.raw_covariates[who], self.y[who]) for name, who in here.items()}

    def ready_for(self, scaffolds: Sequence[Scaffold]) -> "SiteStatistics":
        """The same statistics, ready to read people on the edges of these scaffolds again and again."""
        ready = copy(self)
        ready.values = self.features.columns(self.edges, edges_of(scaffolds))
        return ready

    def require_memory(self, n_nodes: int, n_trained: int, width: int) -> None:
        """Refuse what cannot be fitted: so many pathways, and a network on some with so many numbers at each."""
        n_people = len(self.y)
        products = min(n_people, n_nodes) if self.levels else min(n_people, n_nodes, LARGE)
        solving = 8 * (n_people * n_nodes + 3 * products**2)
        neighbours = 4 * n_trained**2 / (self.pairs.max() + 1)
        training = STEP_BYTES * width * n_trained + NEIGHBOUR_BYTES * neighbours
        what = f"training on {n_nodes} pathways of {n_people} people (or give a higher tau_percentile)"
        self.features.require_memory(FIT_BYTES * self.contrast.size + max(solving, training), what)

    def values_of(self, people: np.ndarray, edges: np.ndarray) -> np.ndarray:
        """Edge values of some people (a mask or positions) on some edges."""
        return self.values.read(positions(people), edges)

    def residuals_of(
        self,
        people: np.ndarray,
        edges: np.ndarray,
        deconfounder: SiteDeconfounder | None = None,
        complete: bool = False,
    ) -> np.ndarray:
        """r_site of some people on some edges; computed when asked for, since of all edges they are large."""
        fitted, values = deconfounder or self.deconfounder, self.values_of(people, edges)
        return fitted.site_residuals(values, positions(people), edges, complete=complete)

    def pathways(self, sites: Sequence[str], scaffold: Scaffold) -> Pathways:
        """The pathways of these sites on a scaffold of theirs, with the linear reading by the usual penalties."""
        return self.pathways_by_candidate(sites, scaffold, [self.penalties])[0]

    def pathways_by_candidate(
        self,
        sites: Sequence[str],
        scaffold: Scaffold,
        candidates: Sequence[Sequence[float]],
        profiles: Profiles | None = None,
        orient: bool = True,
        skip: str = "ridge",
    ) -> list[Pathways]:
        """`pathways` with the linear reading by each of several choices of penalties, at little more cost than one."""
        if skip not in SKIPS:
            raise unknown("skip", skip, SKIPS)
        deconfounder = self.deconfounder_at(sites)
        orientation = scaffold.signs if orient else np.ones(len(scaffold))
        people = np.flatnonzero(np.isin(self.site, sites))
        static, spread = self._static_channel(people, scaffold, deconfounder, orientation)
        directions = static.T @ self.nuisance[people]
        if directions.any():
            static = without_directions(static, directions)
        rows = None
        if self.levels and not deconfounder.pooled:
            level = deconfounder.site_levels(scaffold.edges) * orientation / spread
            rows = self.level_rows(without_directions(level, directions), deconfounder.sites_)
        if skip == "sum":
            self.coding.require_direction('skip="sum"')
        weights = linear_weights(static, self.coding.for_ridge(self.y[people]), skip, candidates, rows)
        # r_site is centred site by site; a mean over people would only add noise
        centre, scale = np.zeros((len(scaffold), 1)), spread[:, None]
        if profiles is not None:
            moments = self._profile_moments(profiles, sites).on(np.searchsorted(profiles.edges, scaffold.edges))
            centre, scale = np.hstack([centre, moments.mean]), np.hstack([scale, moments.scale])
        averages = deconfounder.averages()
        return [Pathways(averages, scaffold, orientation, centre, scale, each, directions) for each in weights]

    def _static_channel(
        self, people: np.ndarray, scaffold: Scaffold, deconfounder: SiteDeconfounder, orientation: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """x (n, N) of these training people without site means, and its deviation (N,), by which it was divided.

        A robust intercept lies beside the mean of its site, on every edge by another amount. What is left of that
        would hide combinations of edges that hardly vary, which weak penalties read: of tables of tiny sites it cost
        10 points of AUC. So the ridge has an intercept for each site. An edge that nobody of a site has is 0 there.
        """

        def read(people: np.ndarray) -> np.ndarray:
            # A missing edge stands at its site's own fit: then products over people add up over sites (site_summary).
            return self.residuals_of(people, scaffold.edges, deconfounder, complete=True) * orientation

        static = _read_batches(read, self.features.batches(people), len(scaffold))
        squares, count = np.zeros(len(scaffold)), np.zeros(len(scaffold))
        for name in np.unique(self.site[people]):
            here = self.site[people] == name
            mean = static[here].mean(axis=0)
            static[here] = values = np.nan_to_num(static[here] - mean)
            squares += np.einsum("ij,ij->j", values, values)
            count += here.sum() * np.isfinite(mean)
        spread = np.sqrt(squares / np.maximum(count, 1))
        spread = np.where(spread > EPS, spread, 1.0)
        static /= spread
        return static, spread

    def level_rows(self, level: np.ndarray, sites: Sequence[str]) -> Rows:
        """`site_rows` of sites with these levels (E, N) on the pathways."""
        target = np.array([self.levels[name] for name in sites])
        return site_rows(level, target, np.array([self.n_people[name] for name in sites]))

    def _profile_moments(self, profiles: Profiles, sites: Sequence[str]) -> Moments:
        """Moments of the profiles of the people of some sites, put together from those of each site."""
        if self._profiled is None or self._profiled[0] is not profiles:
            self._profiled = profiles, {}
        moments = self._profiled[1]
        for name in sites:
            if name not in moments:
                read = partial(profiles.of, profiles.edges)
                moments[name] = Moments.of(map(read, self.features.batches(np.flatnonzero(self.site == name))))
        return Moments.combine([moments[name] for name in sites])

    def _people_of(self, sites: Sequence[str], columns: slice = slice(None)) -> _People:
        """The people of some sites whose labels count, on some edges."""
        here = self._positions_at(sites)
        residuals = self.deconfounder.site_residuals(self.edges[here, columns], here, columns, slopes="site")
        return _People(residuals, self.y[here], self.site[here])

    def _positions_at(self, sites: Sequence[str]) -> np.ndarray:
        """Positions of the people of some sites whose labels count."""
        inside = np.isin(self.site, sites)
        return np.flatnonzero(inside if self.takes_part is None else inside & self.takes_part)

    def deconfounder_at(self, sites: Sequence[str]) -> SiteDeconfounder:
        """The deconfounder fitted on these sites alone."""
        if self.deconfounder.pooled:
            return self.deconfounder
        names = _names(sites)
        if tuple(names) not in self._deconfounders:
            self._keep_deconfounder(self.deconfounder.restricted(names))
        return self._deconfounders[tuple(names)]

    def _keep_deconfounder(self, deconfounder: SiteDeconfounder) -> None:
        self._deconfounders = self.features.with_fold(self._deconfounders, tuple(deconfounder.sites_), deconfounder)


def site_statistics(
    cohort: Cohort,
    covariates: pd.DataFrame,
    deconfounder: SiteDeconfounder,
    kind: EdgeKind = PEARSON,
    contrast: str = "huber",
    nuisance: np.ndarray | None = None,
) -> SiteStatistics:
    """The statistics of labelled people on edges of one kind; what was computed for one person or site is shared."""
    y, levels = cohort.target.code(cohort.targets, cohort.table["site"].to_numpy())
    return SiteStatistics(
        cohort_edges(cohort, *kind),
        y,
        cohort.table["site"].to_numpy().astype(str),
        covariates,
        deconfounder,
        cohort.features,
        contrast,
        group=group_codes(cohort.table),
        pairs=cohort.atlas.pairs,
        own_units=cohort.own_units,
        target=cohort.target,
        levels=levels,
        nuisance=nuisance,
    )


def _names(sites: Iterable[str]) -> list[str]:
    return sorted(set(map(str, sites)))


def positions(people: np.ndarray) -> np.ndarray:
    """People given as a mask or by position, by position."""
    return np.flatnonzero(people) if people.dtype == bool else people


def _read_batches(read: Callable[[np.ndarray], np.ndarray], batches: list[np.ndarray], width: int) -> np.ndarray:
    """What is read of people, batch after batch (n, width).

    Several batches are filled into one array: put side by side afterwards they would take the memory twice.
    """
    if len(batches) == 1:
        return read(batches[0])
    values, start = np.empty((sum(map(len, batches)), width)), 0
    for people in batches:
        values[start : start + len(people)] = read(people)
        start += len(people)
    return values
