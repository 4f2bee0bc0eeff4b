"""CORE from summaries of sites: arrays that a hospital can send instead of its people, and the model they give.

A site's first summary holds its counts, the moments of its covariates, its regression of every edge (b_e, Gamma_e and
the variance of Gamma_e) and its contrast d_e by its own slopes. Deconfounder and scaffold of any set of sites follow.
Columns of a table are edges here, each in units of its own: of these the summary also holds the spread within the site.

The linear reading needs products of residuals, and these depend on the slopes that the sites pool. With r0 the
residual by the site's own slopes (0 where an edge is missing), q the covariates minus the site's mean and u, V what
pooling adds to the site's level and slopes (`SiteDeconfounder.pooling_changes`),

    r        = r0 - u - V'q
    sum rr'  = sum r0 r0' - D'A - A'D + D'B D,       D = (u; V),  A = (sum r0; sum q r0'),  B = diag(n, sum qq')
    sum_c r  = sum_c r0 - n_c u - V' sum_c q         for the cases and the controls c

so the second summary is sum r0 r0', sum q r0' and the two sums of r0 on the edges asked for. Everything adds up over
sites, and leaving a site out is leaving its summary out. The ridge of `core.site_statistics` follows from the sums.
Where edges outnumber people, sum r0 r0' = F'F is kept as its principal components F: fewer numbers that say the same.

Several classes have a sum each, and differences of their means of r0 from that of the first class in the place of the
contrast, from which the contrast of any two, or of one and the rest, follows. A number t, about its mean at the site,
has the slope of r0 on t for the contrast and sum r0, sum t r0 for the sums:

    sum t r  = sum t r0 - V' sum t q                  sum t q: the slope of q on t times sum t^2
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from brainroam.core.connectivity import edge_pairs, n_rois_of
from brainroam.core.covariates import CovariateEncoder
from brainroam.core.deconfound import SiteDeconfounder
from brainroam.core.pathways import Pathways, spread_of
from brainroam.core.profile import Profiles
from brainroam.core.scaffold import Scaffold, contrast_delta, robust
from brainroam.core.site_fit import SiteFit, leverage_of, scatter_of
from brainroam.core.site_statistics import SiteStatistics
from brainroam.core.site_sums import Sums, ridge_of_sums
from brainroam.data.features import Features
from brainroam.data.target import TWO_CLASSES, Target
from brainroam.errors import DataError, EmptyScaffoldError, listed
from brainroam.utils.model_files import part


@dataclass(frozen=True, eq=False)
class SiteSummary:
    """The first summary of one site; M edges, d covariates, controls before cases.

    Attributes
    ----------
    counts : ndarray of int, shape (2,)
        Of K classes (K,), of a number (1,).
    covariate_mean : ndarray of shape (2, d)
        Of the controls and of the cases, in the covariates' own units; NaN for a covariate that is not known at the
        site, whose people then stand at the mean of the others. Of K classes (K, d); of a number the mean of everybody,
        and the slope on the number.
    covariate_scatter : ndarray of shape (d, d)
        sum q q' of everybody, q about the site's mean.
    fit : SiteFit
    contrast : ndarray of shape (M,)
        Of K classes their means minus that of the first class of the site (K, M), NaN for a class that nobody has.
    spread : ndarray of shape (M,), optional
        Standard deviation of the residuals, where features have units of their own.
    target : ndarray of shape (2,), optional
        Of a number its mean and the sum of squares about it.
    """

    counts: np.ndarray
    covariate_mean: np.ndarray
    covariate_scatter: np.ndarray
    fit: SiteFit
    contrast: np.ndarray
    spread: np.ndarray | None = None
    target: np.ndarray | None = None

    @classmethod
    def of(
        cls,
        edges: np.ndarray,
        y: np.ndarray,
        covariates: pd.DataFrame,
        huber_k: float,
        contrast: str,
        own_units: bool = False,
        target: Target = TWO_CLASSES,
    ) -> "SiteSummary":
        """Summarise the people of one site: edges (n, M), labels, covariates; a missing covariate stands at its mean.

        Labels are 0 and 1, a number about its mean, or of several classes their indicators (n, K).

        >>> rng = np.random.default_rng(0)
        >>> ages = pd.DataFrame({"age": rng.uniform(10, 40, 30)})
        >>> summary = SiteSummary.of(rng.normal(size=(30, 3)), np.tile([0, 1], 15), ages, 1.345, "mean")
        >>> summary.counts.tolist(), summary.contrast.shape
        ([15, 15], (3,))
        """
        deconfounder, residuals = own_residuals(edges, covariates, huber_k)
        raw = deconfounder.encoder_.impute(covariates)
        is_known = np.isfinite(deconfounder.encoder_.encode(covariates)).any(axis=0)
        by_target = target.coding.summary(y, raw, residuals, *robust(contrast_delta(contrast)))
        return cls(
            by_target.counts,
            np.where(is_known, by_target.covariate_mean, np.nan),
            scatter_of(raw),
            deconfounder.site_fits[0],
            by_target.contrast,
            spread_of(residuals) if own_units else None,
            by_target.target,
        )

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything, by name."""
        fit = {f"fit.{name}": value for name, value in self.fit.state().items() if name != "leverage"}
        moments = {"covariate_mean": self.covariate_mean, "covariate_scatter": self.covariate_scatter}
        spread = {} if self.spread is None else {"spread": self.spread}
        number = {} if self.target is None else {"target": self.target}
        return {"counts": self.counts, **moments, **fit, "contrast": self.contrast, **spread, **number}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> "SiteSummary":
        """What `arrays` returned."""
        own = ("counts", "covariate_mean", "covariate_scatter", "contrast")
        leverage = leverage_of(arrays["covariate_scatter"])
        fit = SiteFit.concatenate([part(arrays, "fit") | {"leverage": leverage}])
        spread, target = arrays.get("spread"), arrays.get("target")
        return cls(fit=fit, spread=spread, target=target, **{name: arrays[name] for name in own})

    @property
    def mean(self) -> np.ndarray:
        """Mean covariates (d,) of everybody."""
        return self.counts @ self.covariate_mean[: len(self.counts)] / self.counts.sum()

    @property
    def has_covariate(self) -> np.ndarray:
        """Which covariates (d,) are known at the site."""
        return np.isfinite(self.covariate_mean).all(axis=0)

    def fill_covariates(self, mean: np.ndarray) -> "SiteSummary":
        """The same, with its people at this mean (d,) of the covariates that are not known at the site."""
        instead = np.zeros_like(self.covariate_mean)  # slopes on a number, which stand after the means
        instead[: len(self.counts)] = mean
        where = np.where(self.has_covariate, self.covariate_mean, instead)
        return replace(self, covariate_mean=where, fit=self.fit.with_constants(~self.has_covariate, mean))

    def for_classes(self, names: Sequence[str], classes: Sequence[str]) -> "SiteSummary":
        """The same, of several classes with these names at the site, among all that there are."""
        counts, means, contrast = (
            _expand_rows(values, names, classes, nothing)
            for values, nothing in ((self.counts, 0), (self.covariate_mean, 0.0), (self.contrast, np.nan))
        )
        means[counts == 0] = self.mean
        return replace(self, counts=counts, covariate_mean=means, contrast=contrast)

    @property
    def sums_of_ones_and_covariates(self) -> np.ndarray:
        """Sums (q, 1 + d) of 1 and of the covariates about their mean over each class; of a number also times it."""
        if self.target is not None:
            ones, times = np.array([self.counts[0], 0.0]), self.target[1] * self.covariate_mean[1]
            return np.column_stack([ones, np.stack([np.zeros_like(times), times])])
        return np.column_stack([self.counts, self.counts[:, None] * (self.covariate_mean - self.mean)])


@dataclass(frozen=True, eq=False)
class SiteProducts:
    """The second summary of one site, on N edges.

    Attributes
    ----------
    edges : ndarray of int, shape (N,)
        Ascending.
    factor : ndarray of shape (k, N)
        F with F'F = sum r0 r0', its principal components times their singular values, largest first.
    with_covariates : ndarray of shape (d, N)
        sum q r0'.
    sums : ndarray of shape (2, N)
        sum r0 of the controls and of the cases; NaN at an edge that nobody of the site has, where all else is 0. Of K
        classes (K, N), of a number sum r0 and sum t r0.
    """

    edges: np.ndarray
    factor: np.ndarray
    with_covariates: np.ndarray
    sums: np.ndarray

    @classmethod
    def of(
        cls,
        edges: np.ndarray,
        values: np.ndarray,
        y: np.ndarray,
        covariates: pd.DataFrame,
        huber_k: float,
        target: Target = TWO_CLASSES,
    ) -> "SiteProducts":
        """Summarise the people of one site: their values (n, N) on these edges, labels and covariates."""
        deconfounder, residuals = own_residuals(values, covariates, huber_k)
        r0, raw = np.nan_to_num(residuals), deconfounder.encoder_.impute(covariates)
        sums = target.coding.sums(y, r0)
        _, singular, components = np.linalg.svd(r0, full_matrices=False)
        return cls(edges, singular[:, None] * components, (raw - raw.mean(axis=0)).T @ r0, sums)

    @property
    def products(self) -> np.ndarray:
        """sum r0 r0' (N, N)."""
        return self.factor.T @ self.factor

    def on(self, edges: np.ndarray) -> "SiteProducts":
        """The same on some of the edges."""
        at = np.searchsorted(self.edges, edges)
        if not np.array_equal(self.edges[np.minimum(at, len(self.edges) - 1)], edges):
            raise DataError("the second summary lacks edges that the scaffold needs")
        return SiteProducts(edges, self.factor[:, at], self.with_covariates[:, at], self.sums[:, at])

    def for_classes(self, names: Sequence[str], classes: Sequence[str]) -> "SiteProducts":
        """The same, of several classes with these names at the site, among all that there are."""
        sums = _expand_rows(self.sums, names, classes, 0.0)
        return replace(self, sums=np.where(np.isnan(self.sums).any(axis=0), np.nan, sums))


class SummaryStatistics(SiteStatistics):
    """`SiteStatistics` from the summaries of sites, without their people.

    Parameters
    ----------
    summaries : dict of str to SiteSummary
        By site.
    covariates : sequence of str
        Their names.
    products : dict of str to SiteProducts, optional
        Needed for `pathways`.
    pairs : ndarray of int, shape (M, 2), optional
        The two regions of each feature; those of all edges by default.
    target : Target
        Of several classes, each is compared with the first where that is one of controls; else with all others.
    """

    def __init__(
        self,
        summaries: Mapping[str, SiteSummary],
        covariates: Sequence[str],
        products: Mapping[str, SiteProducts] | None = None,
        pairs: np.ndarray | None = None,
        target: Target = TWO_CLASSES,
    ) -> None:
        self.coding = target.coding
        self._has_covariate = {name: summary.has_covariate for name, summary in summaries.items()}
        self._names, self._products, self.features = list(covariates), products or {}, Features([])
        self.sites = sorted(summaries)
        if len(self.sites) < 2:
            raise EmptyScaffoldError(f"a cross-site scaffold needs two sites at least; there is {listed(self.sites)}")
        self.summaries = summaries
        mean = self._moments(self.sites)[0]
        self.summaries = {name: summary.fill_covariates(mean) for name, summary in summaries.items()}
        contrast = np.stack([summaries[name].contrast for name in self.sites])
        self.spread = {name: each.spread for name, each in summaries.items() if each.spread is not None}
        self.pairs = edge_pairs(n_rois_of(contrast.shape[-1])) if pairs is None else pairs
        self.deconfounder = self._deconfounder_of(self.sites)
        self.parts = tuple(self._class_contrasts(target)) if target.score_shape else ()
        if self.parts:
            self.sites = sorted({name for one in self.parts for name in one.sites})
            self.contrast = np.concatenate([one.contrast for one in self.parts])
        else:
            self.contrast = contrast * self._target_spread
        means = {name: float(each.target[0]) for name, each in summaries.items() if each.target is not None}
        self.levels = {name: mean / self._target_spread for name, mean in means.items()}

    @property
    def _target_spread(self) -> float:
        """Standard deviation of a number within sites, which is its unit in a fit in one place; 1 of classes."""
        targets = [(each.target[1], each.counts[0]) for each in self.summaries.values() if each.target is not None]
        if not targets:
            return 1.0
        squares, people = np.array(targets).sum(axis=0)
        return float(np.sqrt(squares / people))

    def _class_contrasts(self, target: Target) -> "Iterator[SummaryStatistics]":
        """One contrast for each class that has one at two sites or more: against the first class, or all others."""
        n_contrasts, n_classes, against_controls = 0, len(target.classes), target.has_controls
        for k in range(int(against_controls), n_classes):
            one = copy(self)
            one.coding, one.parts = TWO_CLASSES.coding, ()
            weights: dict[str, np.ndarray] = {}
            for name in self.sites:
                counts = self.summaries[name].counts.astype(float)
                others = np.zeros(n_classes)
                if against_controls:
                    others[0] = counts[0]
                else:
                    others, others[k] = counts.copy(), 0.0
                if counts[k] and others.sum():
                    weights[name] = np.eye(n_classes)[k] - others / others.sum()
            if len(weights) >= 2:
                one._classes_in, one.sites = weights, sorted(weights)
                means = {name: self.summaries[name].contrast for name in one.sites}
                one.contrast = np.stack([_weighted_sum(weights[name], means[name]) for name in one.sites])
                n_contrasts += 1
                yield one
        if not n_contrasts:
            raise EmptyScaffoldError("no class is found with those it is compared with at two of these sites")

    _classes_in: Mapping[str, np.ndarray] = {}  # of a part: by site, the weights (K,) of the classes in its contrast

    def deconfounder_at(self, sites: Sequence[str]) -> SiteDeconfounder:
        """The deconfounder of these sites alone."""
        names = tuple(sorted(set(map(str, sites))))
        if names not in self._deconfounders:
            self._deconfounders = {names: self._deconfounder_of(names)}  # of the last fold only: they are large
        return self._deconfounders[names]

    def _deconfounder_with_changes(self, sites: Sequence[str]) -> tuple[SiteDeconfounder, np.ndarray]:
        deconfounder = self.deconfounder_at(sites)
        return deconfounder, deconfounder.pooling_changes()[1]

    @property
    def n_people(self) -> dict[str, int]:
        """How many people each site has."""
        return {name: int(summary.counts.sum()) for name, summary in self.summaries.items()}

    @property
    def covariate_gaps(self) -> dict[str, np.ndarray]:
        """Mean covariates (d,) of the cases of each site minus those of its controls, or slopes on a number."""
        if self._classes_in:
            return {name: c @ self.summaries[name].covariate_mean for name, c in self._classes_in.items()}
        spread = self._target_spread
        return {name: spread * self.coding.gap_of_means(each.covariate_mean) for name, each in self.summaries.items()}

    def pathways_by_candidate(
        self,
        sites: Sequence[str],
        scaffold: Scaffold,
        candidates: Sequence[Sequence[float]],
        profiles: Profiles | None = None,
        orient: bool = True,
        skip: str = "ridge",
    ) -> list[Pathways]:
        """As `SiteStatistics.pathways_by_candidate`, always with the ridge and without profiles."""
        deconfounder = self.deconfounder_at(sites)
        levels, slopes = (change[..., scaffold.edges] for change in deconfounder.pooling_changes())
        parts = [
            self.products_by(name, scaffold.edges, level, slope)
            for name, level, slope in zip(deconfounder.sites_, levels, slopes, strict=True)
        ]
        return self.pathways_of_sums(
            sites, scaffold, Sums(*(np.sum(each, axis=0) for each in zip(*parts, strict=True))), candidates
        )

    def pathways_of_sums(
        self, sites: Sequence[str], scaffold: Scaffold, sums: Sums, candidates: Sequence[Sequence[float]]
    ) -> list[Pathways]:
        """The same of the sums of `products_by` over these sites."""
        deconfounder, centre = self.deconfounder_at(sites), np.zeros((len(scaffold), 1))
        scale, weights = ridge_of_sums(sums, scaffold.signs, candidates, **self.beside_sums(sites, scaffold.edges))
        frozen = deconfounder, scaffold, scaffold.signs, centre, scale[:, None]
        return [Pathways(*frozen, each, directions=np.zeros((len(scaffold), 0))) for each in weights]

    def beside_sums(self, sites: Sequence[str], edges: np.ndarray) -> dict[str, Any]:
        """What `ridge_of_sums` needs of these sites besides sums of products; first summaries tell it."""
        deconfounder = self.deconfounder_at(sites)
        counts = np.sum([self.summaries[name].counts for name in deconfounder.sites_], axis=0)
        if not self.levels:
            return {"counts": counts}
        rows = self.level_rows(deconfounder.site_levels(edges), deconfounder.sites_)
        return {"counts": counts, "target_unit": self._target_spread, "rows": rows}

    def products_by(self, name: str, edges: np.ndarray, level: np.ndarray, slopes: np.ndarray) -> Sums:
        """Sums of one site.

        ``level`` (N,) and ``slopes`` (d, N) are what other slopes add to the site's own.
        """
        first, second = self.summaries[name], self._products[name].on(edges)
        n, here = first.counts, np.isfinite(level) & np.isfinite(second.sums).all(axis=0)
        change = np.vstack([np.where(here, level, 0), np.where(here, slopes, 0)])
        inside = np.zeros((len(change), len(change)))
        inside[0, 0], inside[1:, 1:] = n.sum(), first.covariate_scatter
        own = np.where(here, second.sums, 0)
        everybody = self.coding.total(own)
        mixed = change.T @ np.vstack([everybody, second.with_covariates])
        gram = second.products - mixed - mixed.T + change.T @ inside @ change
        sums = own - first.sums_of_ones_and_covariates @ change
        total, share = self.coding.total(sums), self.coding.shares(n)
        return Sums(gram - np.outer(total, total) / n.sum(), sums - np.outer(share, total), n.sum() * here)

    def _deconfounder_of(self, names: Sequence[str]) -> SiteDeconfounder:
        encoder = CovariateEncoder.of_moments(self._names, *self._moments(names))
        return SiteDeconfounder.of_fits({name: self.summaries[name].fit for name in names}, encoder)

    def _moments(self, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation (d,) of each covariate over the people of the sites where it is known."""
        summaries = [self.summaries[name] for name in names]
        n = np.stack([self.summaries[name].counts.sum() * self._has_covariate[name] for name in names])
        total, means = np.maximum(n.sum(axis=0), 1), np.nan_to_num([summary.mean for summary in summaries])
        mean = (n * means).sum(axis=0) / total
        scatter = sum(np.diag(summary.covariate_scatter) for summary in summaries)
        square = scatter + (n * (means - mean) ** 2).sum(axis=0)
        return mean, np.sqrt(square / total)


def own_residuals(edges: np.ndarray, covariates: pd.DataFrame, huber_k: float) -> tuple[SiteDeconfounder, np.ndarray]:
    """The regression of the people of one site, and their residuals."""
    deconfounder = SiteDeconfounder(huber_k).fit_sites(edges, covariates, None)
    return deconfounder, deconfounder.site_residuals(edges, np.arange(len(edges)))


def _expand_rows(values: np.ndarray, names: Sequence[str], classes: Sequence[str], nothing: float) -> np.ndarray:
    """Rows by class at a site as rows by class of all; ``nothing`` for a class that the site does not have."""
    rows = np.full((len(classes), *values.shape[1:]), nothing, dtype=values.dtype)
    rows[[list(classes).index(name) for name in names]] = values
    return rows


def _weighted_sum(weights: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Weighted sum over the classes that take part, NaN where one of them is."""
    return weights[weights != 0] @ means[weights != 0]
