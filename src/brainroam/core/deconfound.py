"""Site-aware deconfounding: per-site Huber regression of every edge on the covariates, and its frozen average.

For each training site e and edge j, over the people of that site whose edge is present,

    (b_ej, gamma_ej) = argmin_{b, g}  sum_i  Huber(r_ij - b - q~_i' g)

    r_site = r - b_e - Gamma_e' q~                    residual of a training person, by their own site's fit
    b_bar, Gamma_bar = plain means over the training sites
    r_res  = r - b_bar - Gamma_bar' q~                residual of anybody else, without knowing the site

A covariate that a site cannot estimate (everybody male: sex is collinear with the intercept) is left out there:
its slope is averaged over the sites that can estimate it, and the site's intercept is moved to q~ = 0 with that
average. Missing edges have weight 0. Every fallback is written into ``notes_``.

Beyond the paper, ``slopes="shrunken"`` pools the sites' slopes by their precision, see `shrunken_slopes`: r_site
then takes a site's shrunken slopes, and Gamma_bar is the common slope.
"""

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar, Literal, Self

import numpy as np
import pandas as pd
from pydantic import PositiveFloat
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted, validate_data

from brainroam.core.covariates import CovariateEncoder, as_table, require_one_order
from brainroam.core.site_fit import HUBER_K, Line, SiteFit, fit_site, huber_mean, shrunken_slopes, slope_variances
from brainroam.data.features import column_blocks
from brainroam.data.names import site_names
from brainroam.data.target import two_classes
from brainroam.errors import DataError, listed, unknown, warn_user
from brainroam.utils.cache import Cache
from brainroam.utils.parameters import require_settings, says_how_to_call

POOLED, ONE_SITE = "(pooled)", "(one site)"
MIN_TO_ADAPT = 10
Slopes = Literal["site", "shrunken"]
FitOn = Literal["all", "controls"]


class SiteDeconfounder(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Remove covariate effects from edges, site by site in training, site-agnostic afterwards.

    Use it where age, sex, motion or another measured nuisance differs between people, and the next site must be read
    without people of its own: fit on training sites, apply to a site never seen, even to one person.

    Parameters
    ----------
    huber_k : float
        Huber threshold in robust standard deviations.
    huber_delta : float, optional
        A fixed threshold in edge units instead.
    pooled : bool
        One regression over all sites together (the paper's ablation "w/o CD").
    fit_on : {"all", "controls"}
        Whom the nuisance is estimated from; ``"controls"`` needs ``y`` in `fit`, and controls at every site.
    slopes : {"site", "shrunken"}
        Each site's own slopes and their plain mean, as in the paper, or slopes pooled by their precision.

    Attributes
    ----------
    sites_ : list of str
    intercept_ : ndarray of shape (E, M)
        Intercept of each site at q~ = 0; NaN where nobody of the site has the edge.
    coef_ : ndarray of shape (E, d, M)
        Slopes of each site; where a site cannot estimate one, the mean of the sites that can.
    estimable_ : ndarray of shape (E, d, M)
        Where ``coef_`` is the site's own estimate.
    mean_intercept_ : ndarray of shape (M,)
    mean_coef_ : ndarray of shape (d, M)
    residuals_ : ndarray of shape (n, M)
        r_site of the training people, NaN where the edge is missing.
    encoder_ : CovariateEncoder
    notes_ : list of str
        Every fallback that was taken, in words.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> site = np.repeat(["A", "B"], 30)
    >>> age = pd.DataFrame({"age": rng.uniform(10, 40, 60)})
    >>> edges = 0.01 * age.to_numpy() + (site == "B")[:, None] + rng.normal(0, 0.05, (60, 3))
    >>> deconfounder = SiteDeconfounder().fit(edges, covariates=age, site=site)
    >>> deconfounder.coef_.shape, bool(abs(deconfounder.residuals_.mean()) < 0.01)
    ((2, 1, 3), True)
    >>> deconfounder.transform(edges[:1], covariates=age[:1]).shape
    (1, 3)
    """

    def __init__(
        self,
        huber_k: PositiveFloat = HUBER_K,
        huber_delta: PositiveFloat | None = None,
        pooled: bool = False,
        fit_on: FitOn = "all",
        slopes: Slopes = "site",
    ) -> None:
        self.huber_k = huber_k
        self.huber_delta = huber_delta
        self.pooled = pooled
        self.fit_on = fit_on
        self.slopes = slopes

    __metadata_request__fit: ClassVar = {"cache": UNUSED, "covariates": True, "site": True}
    __metadata_request__transform: ClassVar = {"adapt": UNUSED, "covariates": True}

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.target_tags.required = False
        return tags

    @says_how_to_call
    def fit(
        self,
        X: np.ndarray,
        y: Sequence | np.ndarray | None = None,
        *,
        covariates: pd.DataFrame | np.ndarray | None = None,
        site: Sequence[str] | np.ndarray | None = None,
        cache: Cache | None = None,
    ) -> Self:
        """Fit every site, then freeze the average.

        Parameters
        ----------
        X : ndarray of shape (n, M)
            Edges of each person, NaN where missing.
        y : sequence of n labels, optional
            Read with ``fit_on="controls"`` only.
        covariates : DataFrame or ndarray with n rows, optional
            Numeric and categorical columns in any mix.
        site : sequence of n site names, optional
            Without it everybody is of one site.
        cache : Cache, optional
            Where the fits of the very same site data are remembered between calls.
        """
        require_one_order(X=X, y=y, site=site, covariates=covariates)
        if site is None and covariates is None:
            warn_user(
                "SiteDeconfounder got neither site nor covariates and removes nothing but the mean of everybody; in a "
                "pipeline, turn on metadata routing, sklearn.set_config(enable_metadata_routing=True), and pass them: "
                "fit(X, y, site=..., covariates=...)"
            )
        edges = self._matrix(X, reset=True)
        self.fit_sites(edges, covariates, site, y, cache)
        self.residuals_ = self.site_residuals(edges, np.arange(len(edges)))
        return self

    def fit_sites(
        self,
        edges: np.ndarray,
        covariates: pd.DataFrame | np.ndarray | None,
        site: Sequence[str] | np.ndarray | None,
        y: Sequence | np.ndarray | None = None,
        cache: Cache | None = None,
    ) -> Self:
        """`fit` without ``residuals_``, which take as much memory as the edges."""
        require_settings(type(self).__name__, type(self), self.get_params(deep=False))
        fitted_on = self._people_to_fit(edges, y)
        raw, place = self._encode_people(covariates, site, len(edges))
        here = {name: fitted_on & (place == name) for name in self.sites_}
        empty = [name for name, people in here.items() if not people.any()]
        if empty:
            raise DataError(
                f'no controls at {listed(empty)}: fit_on="controls" has nobody to learn from there; '
                'leave these sites out, or use fit_on="all"'
            )
        fits = [self._fit_site(edges[people], raw[people], cache or Cache()) for people in here.values()]
        self._average_and_note(fits)
        return self

    def site_residuals(
        self,
        values: np.ndarray,
        people: np.ndarray,
        columns: np.ndarray | slice = slice(None),
        slopes: str | None = None,
        complete: bool = False,
    ) -> np.ndarray:
        """r_site (n, k) of some of the people it was fitted on (by position), from their values on some edges.

        ``slopes="site"`` takes the site's own slopes whatever the deconfounder does: they do not depend on other sites.
        With ``complete`` a missing value stands where its site's own regression expects it.
        """
        encoded, place = self._people
        raw, place = self.encoder_.fill(encoded[people]), place[people]
        residuals = np.full_like(values, np.nan)
        edges = np.arange(len(self.mean_intercept_))[columns]
        if (slopes or self.slopes) == "site":
            fits = dict(zip(self.sites_, self._fits, strict=True))
            own = ((name, fits[name].on(edges)) for name in np.unique(place))
            lines = {name: Line(fit.intercept, np.nan_to_num(fit.coef)) for name, fit in own}
        else:
            lines = dict(zip(self.sites_, self._site_lines(edges)[0], strict=True))
        for name, (intercept, coef) in lines.items():
            here = place == name
            residuals[here] = values[here] - intercept - raw[here] @ coef
        if complete:
            self._complete(residuals, edges, raw, place, lines)
        return residuals

    def _complete(
        self,
        residuals: np.ndarray,
        edges: np.ndarray,
        raw: np.ndarray,
        place: np.ndarray,
        used: dict[str, Line],
    ) -> None:
        """Fill in the residual of a value where its site's own regression expects it."""
        for name, fit in zip(self.sites_, self._fits, strict=True):
            here = np.flatnonzero((place == name) & np.isnan(residuals).any(axis=1))
            if len(here):
                own, (intercept, coef) = fit.on(edges), used[name]
                expected = own.intercept - intercept + raw[here] @ (np.nan_to_num(own.coef) - coef)
                residuals[here] = np.where(np.isnan(residuals[here]), expected, residuals[here])

    def fit_transform(
        self,
        X: np.ndarray,
        y: Sequence | np.ndarray | None = None,
        *,
        covariates: pd.DataFrame | np.ndarray | None = None,
        site: Sequence[str] | np.ndarray | None = None,
    ) -> np.ndarray:
        """r_site of the training people, by the fit of their own site.

        Not the same as ``fit(...).transform(...)``, which reads the training people as if their site were unknown.
        """
        return self.fit(X, y, covariates=covariates, site=site).residuals_

    def transform(
        self, X: np.ndarray, *, covariates: pd.DataFrame | np.ndarray | None = None, adapt: str | None = None
    ) -> np.ndarray:
        """r_res (n, M) of people of any site, known or not, one person at a time.

        With ``adapt="unlabelled"`` the people given are taken for one new site and centred at their robust mean. That
        is transductive: a person's residual then depends on the others. Fewer than ten people are not adapted.
        """
        check_is_fitted(self)
        residual = self.frozen_residuals(self._matrix(X, reset=False), covariates)
        return residual if adapt is None else _recentre(residual, adapt)

    def frozen_residuals(
        self,
        edges: np.ndarray,
        covariates: pd.DataFrame | np.ndarray | None,
        columns: np.ndarray | slice = slice(None),
    ) -> np.ndarray:
        """`transform` of the edges ``columns``, always an array, whatever scikit-learn's output is set to."""
        intercept, coef = self.mean_intercept_[columns], self.mean_coef_[:, columns]
        if edges.shape[1] != len(intercept):
            raise DataError(f"fitted on {len(intercept)} edges, got {edges.shape[1]}: another atlas?")
        q = self.encoder_.standardise(as_table(covariates, len(edges)))
        # Covariate by covariate, not a matrix product: BLAS may round a row differently alone than in a batch.
        residual = edges - intercept
        for k in range(q.shape[1]):
            residual -= q[:, k, None] * coef[k]
        return residual

    def restricted(self, sites: Sequence[str]) -> "SiteDeconfounder":
        """The deconfounder these sites alone would have given, without fitting again.

        Exact, because each site's fit is its own. Only the fit of a site where a covariate is missing still has it at
        the mean of all training people, and levels seen at no other site keep their (empty) column.
        """
        return self.restricted_with_changes(sites)[0]

    def restricted_with_changes(self, sites: Sequence[str]) -> tuple["SiteDeconfounder", np.ndarray]:
        """`restricted`, and how pooling there changes each site's own slopes (E, d, M), in the covariates' units."""
        check_is_fitted(self)
        encoded, place = self._people
        part = SiteDeconfounder(**self.get_params())
        part.encoder_ = self.encoder_.restandardise(encoded[np.isin(place, sites)])
        part.notes_, part.sites_, part._people = self.notes_, list(sites), self._people
        slopes = part._average([self._fits[self.sites_.index(name)] for name in sites])
        return part, np.stack([coef - np.nan_to_num(fit.coef) for coef, fit in zip(slopes, part._fits, strict=True)])

    @classmethod
    def of_fits(cls, fits: Mapping[str, SiteFit], encoder: CovariateEncoder) -> "SiteDeconfounder":
        """The deconfounder of sites with these regressions, without their people; slopes are pooled as in CORE."""
        whole = cls(slopes="shrunken")
        whole.encoder_, whole.sites_, whole.notes_ = encoder, sorted(fits), []
        whole._average([fits[name] for name in whole.sites_])
        for name in whole.sites_:
            whole.notes_ += fits[name].notes(name, encoder.names_)
        return whole

    def averages(self) -> "SiteDeconfounder":
        """A copy for new people, without the training people and the regressions of single sites, which are large."""
        frozen = SiteDeconfounder(**self.get_params())
        frozen.encoder_, frozen.sites_, frozen.notes_ = self.encoder_, self.sites_, self.notes_
        frozen.mean_intercept_, frozen.mean_coef_ = self.mean_intercept_, self.mean_coef_
        return frozen

    def state(self) -> dict[str, np.ndarray]:
        """What `transform` needs, as arrays; names and levels of the covariates are JSON bytes."""
        return {
            "mean_intercept": self.mean_intercept_,
            "mean_coef": self.mean_coef_,
            "covariates": self.encoder_.state(),
        }

    def load_state(self, state: dict[str, np.ndarray]) -> Self:
        """Restore what `state` returned; only `transform` works afterwards."""
        self.mean_intercept_, self.mean_coef_ = state["mean_intercept"], state["mean_coef"]
        self.encoder_, self.notes_ = CovariateEncoder().load_state(state["covariates"]), list[str]()
        shape = len(self.encoder_.names_), len(self.mean_intercept_)
        if self.mean_coef_.shape != shape:
            raise ValueError(f"mean_coef has the shape {self.mean_coef_.shape}, not {shape}")
        return self

    def _fit_site(self, values: np.ndarray, raw: np.ndarray, cache: Cache) -> SiteFit:
        """Robust regression of all edges of one site; a function of that site's people alone."""
        name = "site regression", self.huber_k, self.huber_delta

        def fit_block(columns: slice) -> dict[str, np.ndarray]:
            return fit_site(values[:, columns], raw, self.huber_k, self.huber_delta).state()

        return SiteFit.concatenate(
            [
                cache.summary((*name, str(some)), [values, raw], partial(fit_block, some))
                for some in column_blocks(values)
            ]
        )

    def _encode_people(
        self, covariates: pd.DataFrame | np.ndarray | None, site: Sequence[str] | np.ndarray | None, n_people: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Covariates (n, d) in their own units, and each person's site (n,): one name where all are fitted together."""
        one = POOLED if self.pooled else ONE_SITE
        place = np.full(n_people, one) if self.pooled or site is None else site_names(site, n_people)
        table = as_table(covariates, n_people)
        self.encoder_ = CovariateEncoder().fit(table)
        self.notes_ = self._missing_notes(table)
        encoded = self.encoder_.encode(table)
        self.sites_, self._people = sorted(set(place)), (encoded, place)
        return self.encoder_.fill(encoded), place

    def _average_and_note(self, fits: list[SiteFit]) -> None:
        """Freeze the average of the sites, and note what they could not estimate."""
        for name, fit in zip(self.sites_, fits, strict=True):
            self.notes_ += fit.notes(name, self.encoder_.names_)
        self._average(fits)
        nowhere = np.logical_not(self.estimable_.any(axis=(0, 2)))
        if nowhere.any():
            names = [name for name, gone in zip(self.encoder_.names_, nowhere, strict=True) if gone]
            self.notes_.append(f"no site can estimate {listed(names)}: nothing of it is removed from anybody")

    def _average(self, fits: list[SiteFit]) -> list[np.ndarray]:
        """Equal-site means; a slope only over the sites that can estimate it, intercepts all at q~ = 0.

        Returns the slopes (d, M) of each site, in the covariates' own units.
        """
        self._fits = fits
        lines, common = self._site_lines()
        intercept, coef = self._stack_lines(lines)
        known = np.isfinite(intercept)
        with np.errstate(invalid="ignore"):
            self.mean_intercept_ = np.where(known, intercept, 0).sum(axis=0) / known.sum(axis=0)
        self.mean_coef_ = coef.mean(axis=0) if self.slopes == "site" else common * self._std()
        return [line.coef for line in lines]

    def _stack_lines(self, lines: Sequence[Line]) -> tuple[np.ndarray, np.ndarray]:
        """Intercepts (E, M) at q~ = 0 and slopes (E, d, M) on q~ of these lines."""
        mean = self.encoder_.mean_
        # From the covariates' own units to q~ = (q - mean) / std.
        coef = np.stack([coef * self._std() for _, coef in lines])
        return np.stack([intercept + mean @ coef for intercept, coef in lines]), coef

    def _site_lines(self, edges: np.ndarray | None = None) -> tuple[list[Line], np.ndarray]:
        """The line of each site, and the slopes (d, M) that they have in common, in the covariates' own units.

        Of these edges (by position) only, where they are named.
        """
        fits = self._fits if edges is None else [fit.on(edges) for fit in self._fits]
        own = np.stack([fit.coef for fit in fits])
        if self.slopes == "shrunken":
            shrunken, common = shrunken_slopes(own, slope_variances(fits))
            return [fit.pool(slopes, common) for fit, slopes in zip(fits, shrunken, strict=True)], common
        estimable = np.isfinite(own)
        usual = np.where(estimable, own, 0).sum(axis=0) / np.maximum(estimable.sum(axis=0), 1)
        return [fit.fill(usual) for fit in fits], usual

    def site_levels(self, edges: np.ndarray) -> np.ndarray:
        """b_e - b_bar (E, k) of each site on some edges, at average covariates; 0 where nobody of the site has it."""
        intercept, _ = self._stack_lines(self._site_lines(edges)[0])
        return np.nan_to_num(intercept - self.mean_intercept_[edges])

    def pooling_changes(self) -> tuple[np.ndarray, np.ndarray]:
        """Changes by pooling of each site's fit at its mean covariates (E, M), and of its own slopes (E, d, M).

        In the covariates' own units; NaN at edges that nobody of the site has.
        """
        levels, slopes = [], []
        for own, (intercept, coef) in zip(self._fits, self._site_lines()[0], strict=True):
            slopes.append(coef - np.nan_to_num(own.coef))
            levels.append(intercept - own.intercept + own.centre @ slopes[-1])
        return np.stack(levels), np.stack(slopes)

    def _std(self) -> np.ndarray:
        return self.encoder_.std_[:, None]

    # Put together when asked for, since CORE keeps a deconfounder for each of dozens of subsets of sites.
    @property
    def intercept_(self) -> np.ndarray:
        """Of each site (E, M)."""
        return self._stack_lines(self._site_lines()[0])[0]

    @property
    def coef_(self) -> np.ndarray:
        """Slopes of each site (E, d, M)."""
        return self._stack_lines(self._site_lines()[0])[1]

    @property
    def site_fits(self) -> list[SiteFit]:
        """The regression of each site, in the order of ``sites_``."""
        return self._fits

    @property
    def estimable_(self) -> np.ndarray:
        """Which slopes are the site's own (E, d, M)."""
        return np.isfinite(np.stack([fit.coef for fit in self._fits]))

    def _matrix(self, X: np.ndarray, reset: bool) -> np.ndarray:
        """Edges (n, M) as floats, by scikit-learn's own checks and in its words; NaN is allowed, infinity is not."""
        if isinstance(X, list | tuple) and any(np.ndim(x) == 2 for x in X):
            raise DataError("X must be people x edges, got series; give connectivity.pearson_edges(X)")
        if getattr(X, "ndim", 2) == 3:
            raise DataError(
                f"X must be people x edges, got {len(X)} matrices of {X.shape[1]} x {X.shape[2]}; give the upper "
                "triangles: X[:, *np.triu_indices(X.shape[1], 1)], or connectivity.pearson_edges(series)"
            )
        try:
            return validate_data(self, X, reset=reset, dtype=float, ensure_all_finite="allow-nan")
        except ValueError as error:
            hint = " Another atlas?" if "features" in str(error) and not reset else ""
            raise DataError(f"{error}{hint}") from error

    def _people_to_fit(self, edges: np.ndarray, y: Sequence | np.ndarray | None) -> np.ndarray:
        if self.fit_on == "all":
            return np.ones(len(edges), dtype=bool)
        if y is None:
            raise DataError('fit_on="controls" needs the labels: fit(X, y, covariates=..., site=...)')
        if len(y) != len(edges):
            raise DataError(f"there are {len(edges)} people but {len(y)} labels")
        labels = np.asarray(y)
        return labels == 0 if set(labels.tolist()) <= {0, 1} else two_classes(labels)[1] == 0

    def _missing_notes(self, table: pd.DataFrame) -> list[str]:
        """Which covariates are missing for how many of these people."""
        counts = self.encoder_.missing(table).sum() if len(table.columns) else pd.Series(dtype=int)
        return [
            f"{name}: missing for {n} training people, who stand at the training mean"
            for name, n in counts.items()
            if n
        ]


def _recentre(residual: np.ndarray, adapt: str) -> np.ndarray:
    if adapt != "unlabelled":
        raise unknown("adapt", adapt, ["unlabelled"])
    if len(residual) < MIN_TO_ADAPT:
        warnings.warn(f"{len(residual)} people are too few to adapt to their site: read without adapting", stacklevel=3)
        return residual
    return residual - huber_mean(residual)
