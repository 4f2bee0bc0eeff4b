"""Inside the hospital: read the people of one site, answer a round, write one file. No network is used."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from brainroam.core.connectivity import cohort_edges
from brainroam.core.covariates import CovariateEncoder
from brainroam.core.deconfound import SiteDeconfounder
from brainroam.core.site_summary import SiteProducts, SiteSummary, own_residuals
from brainroam.core.targets import is_number
from brainroam.data.cohort import Cohort
from brainroam.data.people import persons
from brainroam.data.target import ORDERED, Target
from brainroam.errors import CONTROL, DataError, SummaryError, UsageError, listed
from brainroam.execution.federation.disclosure import (
    DRAWN_IN,
    FEW_ON_EDGE,
    LEAST_COUNT,
    MIN_COUNT,
    drawn_in,
    recognisable,
    singled_out,
    tellable,
    told_covariates,
    told_number,
)
from brainroam.execution.federation.files import SUMMARY, Message, Settings, target_in_words
from brainroam.execution.federation.ledger import Ledger
from brainroam.execution.federation.protection import Protection
from brainroam.execution.federation.scores import class_summary, number_summary, score_summary
from brainroam.utils.model_files import part

MIN_PER_CLASS = 10  # of a number twice as many
FEW_OF_CLASS = "left out: {n} people, fewer than the {least} below which a summary tells too much about each of them"


@threadpool_limits.wrap(limits=1)  # the same bytes on any number of cores
def answer(
    cohort: Cohort,
    request: Message | None = None,
    name: str | None = None,
    settings: Settings | None = None,
    min_per_class: int = MIN_PER_CLASS,
    protection: Protection | None = None,
    rng: np.random.Generator | None = None,
    min_count: int = MIN_COUNT,
    ledger: Ledger | None = None,
) -> Message:
    """The summary with which a site answers a request; without one, its first summary.

    Parameters
    ----------
    cohort : Cohort
        The labelled people of one site; several scans of a person count once, by their mean.
    request : Message, optional
        What the pool asks for; its settings hold. It may name no other covariates than the cohort's own.
    name : str, optional
        What the site is called in the files; as in the data unless told.
    settings : Settings, optional
        Of a first summary.
    min_per_class : int
        A site with fewer cases or controls is refused; of several classes, the people of one with fewer are left out;
        for a number a site needs twice as many people.
    protection : Protection, optional
        Clip and add noise.
    rng : numpy Generator, optional
        Of the noise; that of the ledger, or fresh randomness of the system, unless told, since whoever knows the noise
        can take it away.
    min_count : int
        How many people at least share whatever is told, see `brainroam.execution.federation.disclosure`.
    ledger : Ledger, optional
        What the site has agreed to before and answered; the command line always keeps one.

    Examples
    --------
    >>> import brainroam
    >>> cohort = brainroam.make_cohort(n_sites=2, n_per_site=24, n_rois=8)
    >>> first = answer(cohort.select(["S01"]), name="Hospital A")
    >>> first.site, first.arrays["contrast"].shape
    ('Hospital A', (28,))
    """
    if cohort.blocks:
        raise UsageError(f"a summary is of one block, and these people have {listed(cohort.blocks)}; name one: --only")
    own, own_units = _one_site(cohort), cohort.own_units
    site = own if name is None else name
    _require_terms(site, min_count, protection, cohort)
    cohort, why = _without_small_classes(cohort, max(min_per_class, min_count))
    person, names = _persons(cohort, site), list(cohort.covariate_names)
    target = cohort.target if request is None else request.predicts
    _require_target(cohort.target, target, request)
    y, level = _labels(cohort, target, person)
    _require_enough(site, y, max(min_per_class, min_count))
    if target.is_number:
        y, level = _drawn_in(site, y, level, min_count, why, target.name)
    atlas = cohort.atlas.identity
    if request is not None:
        _require_asked(request, site, atlas, names, cohort.measure)
    settings = request.settings if request else settings or Settings()
    if ledger is not None:
        ledger.agree(cohort, request, settings, names, protection, min_count, min_per_class)
        rng = rng or ledger.noise(request)
    rng = np.random.default_rng() if rng is None else rng
    covariates = _numeric(cohort, names, site)
    raw = CovariateEncoder().fit(covariates).encoded(covariates)
    covariates = pd.DataFrame(mean_of_scans(raw, person), columns=covariates.columns)
    covariates_told, withheld = told_covariates(covariates, y, min_count)
    why |= withheld
    edges = cohort_edges(cohort, settings.kind, settings.shrinkage, settings.robust)
    people = People(mean_of_scans(edges, person), y, covariates_told, min_count, own_units, level)
    if request is None:
        arrays = _first(people, settings, protection, rng)
        n_edges = int(np.isnan(np.atleast_2d(arrays["contrast"])[0]).sum())
    elif request.round == 2:
        before = np.empty(0, dtype=int) if ledger is None else ledger.told_edges
        arrays = _products(request, people, before, protection, rng)
        n_edges = int(np.isnan(arrays["sums"][0]).sum())
    else:
        arrays, n_edges = _scores(request, site, people, protection, rng), 0
    if ledger is not None:
        ledger.record(request, len(y))
    if n_edges:
        why["edges"] = FEW_ON_EDGE.format(n=n_edges, k=min_count)
    return Message(
        what=SUMMARY,
        round=request.round if request else 1,
        settings=settings,
        atlas=atlas,
        covariates=names,
        arrays=arrays,
        site=site,
        request=request.request if request else "",
        protection=vars(protection).copy() if protection else {},
        min_count=min_count,
        withheld=why,
        measure=cohort.measure,
        target=target.described(),
    )


@dataclass(frozen=True, eq=False)
class People:
    """The people of a site: edges (n, M), labels, the covariates they may be told by, and how many are the fewest.

    Labels are 0 and 1, indicators of several classes (n, K), or a number about ``level``, its mean.
    """

    edges: np.ndarray
    y: np.ndarray
    covariates: pd.DataFrame
    min_count: int
    own_units: bool = False
    level: float = 0.0

    @property
    def counts(self) -> np.ndarray:
        """How many people of each class; of a number, how many."""
        if self.y.ndim == 2:
            return self.y.sum(axis=0)
        return np.array([len(self.y)]) if is_number(self.y) else np.array([(self.y == c).sum() for c in (0, 1)])

    def on(self, edges: np.ndarray | slice, huber_k: float) -> np.ndarray:
        """Their values on some edges, NaN where somebody would be singled out."""
        values = self.edges[:, edges]
        out = singled_out(values, self.covariates, self.y, huber_k, self.min_count)
        return np.where(out, np.nan, values)


def mean_of_scans(values: np.ndarray, person: np.ndarray) -> np.ndarray:
    """Means over the scans of each person (n, m), NaN where no scan has a value: people are counted, not scans.

    >>> mean_of_scans(np.array([[1.0, np.nan], [3.0, np.nan], [5.0, 2.0]]), np.array([0, 0, 1])).tolist()
    [[2.0, nan], [5.0, 2.0]]
    """
    if len(set(person.tolist())) == len(person):
        return values
    return pd.DataFrame(values).groupby(person).mean().to_numpy()


def reading_of(arrays: Mapping[str, np.ndarray], position: int) -> dict[str, np.ndarray]:
    """The reading that a third request holds for the site at this position."""
    return part(dict(arrays), str(position))


def read_scores(reading: Mapping[str, np.ndarray], edges: np.ndarray, covariates: pd.DataFrame) -> np.ndarray:
    """Scores of people by a reading: w' (r - b - Gamma' q~) on its edges; a missing edge says nothing."""
    encoder = CovariateEncoder.of_moments(list(covariates.columns), reading["covariate_mean"], reading["covariate_std"])
    learned = {name: reading[name] for name in ("mean_intercept", "mean_coef")}
    frozen = SiteDeconfounder().load_state({**learned, "covariates": encoder.state()})
    return np.nan_to_num(frozen.frozen_residuals(edges[:, reading["edges"]], covariates)) @ reading["weights"]


def _first(
    people: People, settings: Settings, protection: Protection | None, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    if protection is not None:
        return protection.summary(people.edges, people.y, rng).arrays()
    values = people.on(slice(None), settings.huber_k)
    how = settings.huber_k, settings.contrast, people.own_units
    summary = SiteSummary.of(values, people.y, people.covariates, *how)
    if summary.target is not None:
        summary = replace(summary, target=summary.target + np.array([people.level, 0.0]))
    return summary.arrays()


def _products(
    request: Message,
    people: People,
    before: np.ndarray,
    protection: Protection | None,
    rng: np.random.Generator,
) -> dict[str, np.ndarray]:
    """The second summary; edges told to requests before count among those that may show somebody."""
    asked, y, counts = request.arrays["edges"], people.y, people.counts
    if protection is not None:
        products = protection.products(asked, people.edges[:, asked], request.arrays["centre"], y, rng)
        return {"counts": counts, **vars(products)}
    may_tell = tellable(asked, request.arrays["priority"], before, len(y))
    union = np.union1d(asked[may_tell], before)
    values, huber_k = people.on(union, request.settings.huber_k), request.settings.huber_k
    residuals = own_residuals(values, people.covariates, huber_k)[1]
    lacking = np.isnan(values) & ~np.isnan(values).all(axis=0)
    shown = recognisable(np.nan_to_num(residuals), lacking, people.min_count)
    kept = np.full((len(y), len(asked)), np.nan)
    kept[:, may_tell] = np.where(shown, np.nan, values)[:, np.isin(union, asked[may_tell])]
    products = SiteProducts.of(asked, kept, y, people.covariates, huber_k)
    products.sums[:, np.isnan(kept).all(axis=0)] = np.nan
    return {"counts": counts, **vars(products)}


def _scores(
    request: Message, site: str, people: People, protection: Protection | None, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    reading, y = reading_of(request.arrays, request.sites.index(site)), people.y
    if not reading:
        raise SummaryError(f"without {site} the other sites agree on no edge: it cannot be held out, and sends nothing")
    score = read_scores(reading, people.edges, people.covariates)
    if y.ndim == 2:
        return class_summary(np.column_stack([drawn_in(column, people.min_count) for column in score.T]), y)
    score = drawn_in(score, people.min_count)
    if is_number(y):
        return number_summary(score, y + people.level)
    arrays: dict[str, Any] = score_summary(score, y, people.min_count)
    if protection is not None:
        auc, means = protection.scores(float(roc_auc_score(y, score)), score, y, rng)
        arrays |= {"auc": np.array(auc), "mean": means, "square": arrays["counts"].astype(float)}
        arrays |= {"bins": np.zeros((0, 3))}
    return arrays


def _without_small_classes(cohort: Cohort, least: int) -> tuple[Cohort, dict[str, str]]:
    """Without the people of those of several classes that too few have here, and which these are."""
    target = cohort.target
    if not target.is_classes:
        return cohort, {}
    code, person = cohort.targets.astype(int), persons(cohort.table).to_numpy()
    counts = {name: len(set(person[code == k])) for k, name in enumerate(target.classes)}
    few = {name: n for name, n in counts.items() if n < least}
    kept = ~np.isin(code, [target.classes.index(name) for name in few])
    why = {f"{target.name} {name}": FEW_OF_CLASS.format(n=n, least=least) for name, n in few.items() if n}
    if len(few) > len(target.classes) - 2:
        raise SummaryError(
            f"site {cohort.sites[0]}: fewer than two classes of {target.name} have the {least} people below which a "
            "summary tells too much about each of them: nothing was written"
        )
    table, names = cohort.table, [name for name in target.classes if name not in few]
    place = {float(target.classes.index(name)): float(k) for k, name in enumerate(names)}
    recoded = table.assign(label=table["label"].map(place))
    return cohort.predicting(replace(target, classes=tuple(names)), recoded).subset(kept), why


def _require_target(own: Target, asked: Target, request: Message | None) -> None:
    """Refuse an order of steps, which sites may number differently, and a request that predicts something else."""
    if own.kind == ORDERED:
        raise UsageError(
            "steps of an order are not pooled, since a site that lacks a step would number the others differently: "
            f"say --target {own.name}:number"
        )
    strange = set(own.classes) - set(asked.classes) if own.is_classes else set()
    if request is not None and (target_in_words(own) != target_in_words(asked) or strange):
        raise SummaryError(
            f"{request.path} asks for {target_in_words(asked)}{f' without {listed(strange)}' if strange else ''}; "
            f"these data have {target_in_words(own)}: give --target as in round 1, or refuse the request"
        )


def _labels(cohort: Cohort, target: Target, person: np.ndarray) -> tuple[np.ndarray, float]:
    """Labels of each person (0 and 1, indicators of the classes of this target, or a number about its mean), the mean.

    Somebody's number is the mean over their scans.
    """
    label = mean_of_scans(cohort.targets[:, None], person)[:, 0]
    if target.is_two_classes:
        return label.astype(int), 0.0
    if target.is_classes:
        place = [target.classes.index(name) for name in cohort.target.classes]
        return np.eye(len(target.classes), dtype=int)[np.array(place)[label.astype(int)]], 0.0
    return label - label.mean(), float(label.mean())


def _drawn_in(
    site: str, t: np.ndarray, level: float, k: int, why: dict[str, str], name: str
) -> tuple[np.ndarray, float]:
    """The number as it is told, and its mean."""
    drawn = told_number(t, k)
    if drawn is None:
        raise SummaryError(
            f"site {site}: fewer than {k} people differ in {name} from all others, and every slope would tell about "
            "them: nothing was written"
        )
    if not np.array_equal(drawn, t):
        why[name] = DRAWN_IN
    return drawn - drawn.mean(), level + float(drawn.mean())


def _persons(cohort: Cohort, site: str) -> np.ndarray:
    """Whose scan each row is, as numbers in the order of the rows."""
    person = pd.factorize(persons(cohort.table))[0]
    both = pd.Series(cohort.targets).groupby(person).nunique() > 1
    if both.any() and cohort.target.is_classes:
        raise DataError(f"site {site}: {int(both.sum())} people have scans of two classes; keep one kind of them")
    if both.any() and cohort.target.is_two_classes:
        raise DataError(
            f"site {site}: {int(both.sum())} people have scans as a case and as a control; keep one kind of them"
        )
    return person


def _one_site(cohort: Cohort) -> str:
    if len(cohort.sites) != 1:
        raise DataError(
            f"a summary is of one site; these data hold {len(cohort.sites)}: {listed(cohort.sites)}; "
            "name one with --sites"
        )
    return cohort.sites[0]


def _require_terms(site: str, min_count: int, protection: Protection | None, cohort: Cohort) -> None:
    target = cohort.target
    if CONTROL.search(site):
        raise SummaryError(f"a line end or another control character stands in the name of the site {site!r}")
    if min_count < LEAST_COUNT:
        raise UsageError(f"--min-count must be at least {LEAST_COUNT}, not {min_count}")
    if protection is not None and cohort.own_units:
        raise UsageError(
            "noise needs one length to which people are clipped, and columns have units of their own; leave --epsilon "
            "out, or give series or correlations"
        )
    if protection is not None and cohort.covariate_names:
        raise UsageError("noise protects no slopes of covariates: leave them out at all sites, with --covariates none")
    if protection is not None and not target.is_two_classes:
        raise UsageError(f"noise (--epsilon) is made for two classes, and {target.name} is: {target.kind}")


def _require_enough(site: str, y: np.ndarray, least: int) -> None:
    if y.ndim == 2:
        return  # small classes were left out
    if is_number(y):
        if len(y) < 2 * least:
            raise SummaryError(
                f"site {site} has {len(y)} people, fewer than the {2 * least} below which a summary of a number tells "
                "too much about each of them: nothing was written"
            )
        return
    for label, people in ((1, "cases"), (0, "controls")):
        count = int((y == label).sum())
        if count < least:
            raise SummaryError(
                f"site {site} has {count} {people}, fewer than the {least} below which a summary tells too much about "
                "each of them: nothing was written"
            )


def _require_asked(request: Message, site: str, atlas: dict[str, Any], covariates: list[str], measure: str) -> None:
    if site not in request.sites:
        raise SummaryError(
            f"{request.path} does not ask site {site}, which sent no first summary; it asks {listed(request.sites)}"
        )
    if atlas["labels_sha256"] != request.atlas["labels_sha256"]:
        raise SummaryError(
            f"{request.path} asks for the {request.atlas['n_regions']} regions of {request.atlas['name']!r}; these "
            f"data have the {atlas['n_regions']} of {atlas['name']!r}, by other names or in another order"
        )
    if request.measure != measure:
        raise SummaryError(f"{request.path} asks for edges of {request.measure}; these data are {measure}")
    if request.covariates != covariates:
        raise SummaryError(
            f"{request.path} asks for the covariates {listed(request.covariates) or 'none'}; site {site} uses "
            f"{listed(covariates) or 'none'}: give --covariates as in round 1, or refuse the request"
        )


def _numeric(cohort: Cohort, names: list[str], site: str) -> pd.DataFrame:
    """The covariates, which have to be numbers: sites do not know each other's categories."""
    table = cohort.covariates(names).reset_index(drop=True)
    encoder = CovariateEncoder().fit(table)
    if encoder.levels_:
        raise DataError(
            f"site {site}: {listed(encoder.levels_)} has words for values; sites do not know each other's words: make "
            "it a column of numbers, or leave it out with --covariates"
        )
    unknown = [name for name in names if encoder.missing(table)[name].all()]
    if unknown:
        raise DataError(f"site {site} knows {listed(unknown)} of nobody; leave it out at all sites, with --covariates")
    return table
