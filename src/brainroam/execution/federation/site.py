"""Inside the hospital: read the people of one site, answer a round, write one file. No network is used."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from brainroam.core.connectivity import cohort_edges, readable_kind
from brainroam.core.covariates import CovariateEncoder
from brainroam.core.deconfound import SiteDeconfounder
from brainroam.core.site_summary import SiteProducts, SiteSummary, own_residuals
from brainroam.data.cohort import Cohort
from brainroam.data.people import mean_of_scans, persons
from brainroam.data.target import Target
from brainroam.errors import CONTROL, DataError, SummaryError, UsageError, listed
from brainroam.execution.federation.disclosure import (
    FEW_ON_EDGE,
    LEAST_COUNT,
    MIN_COUNT,
    ON_EDGE_DRAWN_IN,
    disclosable_covariates,
    disclosable_edges,
    drawn_in,
    recognisable,
)
from brainroam.execution.federation.dominance import draw_in_columns
from brainroam.execution.federation.files import SUMMARY, Message, Settings, target_in_words
from brainroam.execution.federation.kinds import Kind
from brainroam.execution.federation.labels import Labels
from brainroam.execution.federation.ledger import Ledger
from brainroam.execution.federation.masked import masked_sums, masks_of, opened_reading
from brainroam.execution.federation.masking import public_of
from brainroam.execution.federation.people import (
    People,
    disclosable_people,
    numeric_covariates,
    persons_of,
)
from brainroam.execution.federation.protection import Protection
from brainroam.execution.federation.site_kinds import SiteKind
from brainroam.utils.model_files import part

MIN_PER_CLASS = 10  # of a number twice as many


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
    block: str | None = None,
    masked: bool = False,
    again: bool = False,
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
    block : str, optional
        Of several blocks, the only one that the site takes part with; of one measurement, what it is called elsewhere.
    masked : bool
        Tell the sums of round 2 under masks (`brainroam.execution.federation.masked`), and refuse requests in the open:
        of one measurement, without noise, and with a ledger, which keeps the key. The command line does unless told.
    again : bool
        Under masks, answer a request for sums over hospitals that differ by one from those of a request before.

    Examples
    --------
    >>> import brainroam
    >>> cohort = brainroam.make_cohort(n_sites=2, n_per_site=24, n_rois=8)
    >>> first = answer(cohort.select(["S01"]), name="Hospital A")
    >>> first.site, first.arrays["contrast"].shape
    ('Hospital A', (28,))
    """
    own = _one_site(cohort)
    site = own if name is None else name
    _require_terms(site, min_count, protection, cohort)
    terms = Terms(site, settings or Settings(), min_per_class, min_count, protection, masked, again)
    with nullcontext() if ledger is None else ledger.held():
        return _summary(cohort, request, terms, ledger, rng, block)


def _summary(
    cohort: Cohort,
    request: Message | None,
    terms: "Terms",
    ledger: Ledger | None,
    rng: np.random.Generator | None,
    block: str | None,
) -> Message:
    """The answer of all blocks, written down before it is given."""
    if block is None and not cohort.blocks:
        if request is not None and request.blocks:
            raise SummaryError(
                f"{request.path} asks for the blocks {listed(request.blocks)}, these data have one measurement; say "
                "which it is: --only NAME"
            )
        blocks = {"": _Block(cohort, request, terms, ledger, rng, may_mask=True)}
    else:
        blocks = _of_blocks(cohort, request, terms, ledger, block)
    last = request is not None and request.round == 3
    messages = {name: one.message({} if last else one.arrays()) for name, one in blocks.items()}
    arrays = _scores(request, terms, blocks) if request is not None and last else {}
    for one in blocks.values():
        one.record()
    first = next(iter(messages.values()))
    if "" in messages:
        return replace(first, arrays=arrays or first.arrays)
    return replace(first, arrays=arrays, withheld={}).of_parts(messages)


@dataclass(frozen=True)
class Terms:
    """The terms of a site, the same for all blocks."""

    site: str
    settings: Settings
    min_per_class: int
    min_count: int
    protection: Protection | None = None
    masked: bool = False
    again: bool = False

    @property
    def least(self) -> int:
        """The smallest number of people of a class."""
        return max(self.min_per_class, self.min_count)


class _Block:
    """The people of one measurement, ready to be summarised, and what the site answers about them."""

    def __init__(
        self,
        cohort: Cohort,
        request: Message | None,
        terms: Terms,
        ledger: Ledger | None,
        rng: np.random.Generator | None = None,
        untold: Mapping[str, str] | None = None,
        may_mask: bool = False,
    ) -> None:
        own_units, k = cohort.own_units, terms.min_count
        cohort, self.why = SiteKind.of(cohort.target).large_enough(cohort, terms.least)
        person, self.names = persons_of(cohort, terms.site), list(cohort.covariate_names)
        target = cohort.target if request is None else request.predicts
        _require_target(cohort.target, target, request)
        self.kind = SiteKind.of(target)
        y, level = self.kind.labels(cohort, person)
        _require_enough(terms.site, y, terms.least)
        y, level = self.kind.drawn_in(terms.site, y, level, k, self.why)
        self.atlas = cohort.atlas.identity
        if request is not None:
            _require_same_data(request, terms.site, self.atlas, self.names, cohort.measure)
        self.settings = request.settings if request else terms.settings
        if ledger is not None:
            ledger.agree(cohort, request, self.settings, self.names, terms.protection, k, terms.min_per_class)
            rng = rng or ledger.noise(request)
        self.is_masked = _agree_to_masks(request, terms, ledger, may_mask)
        self.rng = np.random.default_rng() if rng is None else rng
        covariates = numeric_covariates(cohort, self.names, terms.site)
        raw = CovariateEncoder().fit(covariates).encode(covariates)
        covariates = pd.DataFrame(mean_of_scans(raw, person), columns=covariates.columns)
        covariates[list(untold or ())] = np.nan
        disclosable, withheld = disclosable_covariates(covariates, y, k)
        self.why |= withheld | dict(untold or {})
        edges = cohort_edges(cohort, *readable_kind(self.settings.edge_kind, cohort.measure, own_units))
        edges, self.n_drawn = mean_of_scans(edges, person), 0
        if terms.protection is None:  # which clips people by itself
            edges, drawn = draw_in_columns(edges, disclosable, y, self.settings.huber_k, k)
            self.n_drawn = int(drawn.sum())
        self.people = People(edges, y, disclosable, k, own_units, level, target)
        #: Whose row each is, in the order of people.
        self.who = persons(cohort.table)[~pd.Series(person).duplicated().to_numpy()].tolist()
        self.request, self.terms, self.ledger, self.target = request, terms, ledger, target
        self.measure = cohort.measure

    def arrays(self) -> dict[str, np.ndarray]:
        """The first or the second summary; edges that it withholds are counted."""
        if self.request is None:
            arrays = _first(self.people, self.settings, self.terms.protection, self.rng)
            arrays |= self.kind.beside(self.people.y, self.people.level)
            n_edges = int(np.isnan(np.atleast_2d(arrays["contrast"])[0]).sum())
        elif self.is_masked:
            masked, n_edges = masked_sums(self.request, self.people, self.terms.site, self.private)
            arrays = {"counts": self.people.counts, "masked": masked}
        else:
            before = np.empty(0, dtype=int) if self.ledger is None else self.ledger.told_edges
            arrays = _products(self.request, self.people, before, self.terms.protection, self.rng)
            n_edges = int(np.isnan(arrays["sums"][0]).sum())
        why = [FEW_ON_EDGE.format(n=n_edges, k=self.terms.min_count)] * bool(n_edges)
        why += [ON_EDGE_DRAWN_IN.format(n=self.n_drawn)] * bool(self.n_drawn)
        if why:
            self.why["edges"] = "; ".join(why)
        return arrays

    def message(self, arrays: dict[str, np.ndarray]) -> Message:
        """What leaves the site."""
        protection, last = self.terms.protection, self.request is not None and self.request.round == 3
        return Message(
            what=SUMMARY,
            round=self.request.round if self.request else 1,
            settings=self.settings,
            atlas=self.atlas,
            covariates=self.names,
            arrays=arrays,
            site=self.terms.site,
            request=self._answers_to,
            keys={self.terms.site: public_of(self.private).hex()} if self.is_masked and not last else {},
            protection=vars(protection).copy() if protection else {},
            min_count=self.terms.min_count,
            withheld=self.why,
            measure=self.measure,
            target=self.kind.told,
        )

    @property
    def private(self) -> bytes:
        """The key of the site."""
        if self.ledger is None:
            raise SummaryError(f"{self.terms.site} has no record, and so no key to mask its sums with")
        return self.ledger.private

    @property
    def _answers_to(self) -> str:
        if self.request is None:
            return ""
        return self.request.identity if self.is_masked and self.request.round == 2 else self.request.request

    def reading(self) -> dict[str, np.ndarray]:
        """The reading that a third request asks for; under masks learned here."""
        request, site = self.request, self.terms.site
        if request is None:
            return {}
        reading = reading_of(request.arrays, request.sites.index(site))
        if not reading or not self.is_masked:
            return reading
        return opened_reading(reading, masks_of(request, site, self.private, request.sums))

    def record(self) -> None:
        """Write down what is about to be answered."""
        if self.ledger is not None:
            self.ledger.record(self.request, len(self.people.y))


def _of_blocks(
    cohort: Cohort, request: Message | None, terms: Terms, ledger: Ledger | None, block: str | None
) -> dict[str, _Block]:
    """The blocks that somebody of the site has and that are asked for, of those who may be told by them."""
    if terms.protection is not None:
        raise UsageError("noise (--epsilon) is made for one measurement; give the data without the other blocks")
    parts = request.parts if request else {}
    if request is not None and "" in parts:
        raise SummaryError(f"{request.path} asks for one measurement, these data have several; name its block: --only")
    cohort, untold, why = disclosable_people(cohort, terms.least, terms.min_count)
    blocks = {block: cohort} if block is not None and not cohort.blocks else cohort.blocks
    summarised = {}
    for name, one in blocks.items():
        have = cohort.has_block(name) if cohort.blocks else np.ones(len(cohort), dtype=bool)
        if block in (None, name) and have.any() and (request is None or name in parts):
            own = None if ledger is None else ledger.of_block(name)
            summarised[name] = _Block(one.subset(have), parts.get(name), terms, own, untold=untold)
            summarised[name].why |= why
    if not summarised:
        raise SummaryError(
            f"site {terms.site} has none of the blocks that are asked for: {listed(parts or [block])}; it has "
            f"{listed(blocks)}"
        )
    return summarised


def _agree_to_masks(request: Message | None, terms: Terms, ledger: Ledger | None, may_mask: bool) -> bool:
    """Whether this answer is under masks; refuse what was not agreed in round 1."""
    if request is not None and request.keys and ledger is None:
        raise SummaryError(f"{request.path} asks for sums under masks, and {terms.site} has no record with its key")
    if ledger is None:
        return False
    if request is None:
        masked = may_mask and terms.masked and terms.protection is None
        ledger.agree_to_masks(masked)
        return masked
    if request.keys and not ledger.is_masked:
        raise SummaryError(f"{request.path} asks for sums under masks, and {terms.site} sent no key in round 1")
    if ledger.is_masked and terms.masked and not request.keys:
        raise SummaryError(
            f"{request.path} asks for sums of {terms.site} alone, in the open; round 1 was for sums under masks, of "
            "which nobody sees a part. Nothing was written. If that is agreed, say: --plain"
        )
    if request.keys and request.round == 2:
        ledger.require_apart(request, terms.again)
    return bool(request.keys)


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
    summary = SiteSummary.of(values, people.y, people.covariates, *how, target=people.target)
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
    edges, y, counts = request.arrays["edges"], people.y, people.counts
    if protection is not None:
        products = protection.products(edges, people.edges[:, edges], request.arrays["centre"], y, rng)
        return {"counts": counts, **vars(products)}
    may_tell = disclosable_edges(edges, request.arrays["priority"], before, len(y))
    union = np.union1d(edges[may_tell], before)
    values, huber_k = people.on(union, request.settings.huber_k), request.settings.huber_k
    residuals = own_residuals(values, people.covariates, huber_k)[1]
    lacking = np.isnan(values) & ~np.isnan(values).all(axis=0)
    shown = recognisable(np.nan_to_num(residuals), lacking, people.min_count)
    disclosed = np.full((len(y), len(edges)), np.nan)
    disclosed[:, may_tell] = np.where(shown, np.nan, values)[:, np.isin(union, edges[may_tell])]
    products = SiteProducts.of(edges, disclosed, y, people.covariates, huber_k, people.target)
    products.sums[:, np.isnan(disclosed).all(axis=0)] = np.nan
    return {"counts": counts, **vars(products)}


def _scores(request: Message, terms: Terms, blocks: Mapping[str, _Block]) -> dict[str, np.ndarray]:
    """How the readings of all blocks, added, order the people of the site; a block that somebody lacks adds 0.

    Of several blocks also how they order the same people without each of them.
    """
    of_block: dict[str, dict[str, np.ndarray]] = {name: {} for name in blocks}
    labels: dict[str, Any] = {}
    moved: dict[str, np.ndarray] = {}
    for name, one in blocks.items():
        reading = one.reading()
        if reading:
            moved |= {"moved": reading["moved"]} if "moved" in reading else {}
            score = read_scores(reading, one.people.edges, one.people.covariates)
            of_block[name] = dict(zip(one.who, score, strict=True))
            for who, y in zip(one.who, one.people.y, strict=True):
                labels.setdefault(who, y + one.people.level)
    if not labels:
        raise SummaryError(
            f"without {terms.site} the other sites agree on no edge: it cannot be held out, and sends nothing"
        )
    nothing = np.zeros_like(next(own for scores in of_block.values() for own in scores.values()))
    each = np.array([[scores.get(who, nothing) for who in labels] for scores in of_block.values()])
    t, k, kind = np.array(list(labels.values())), terms.min_count, Kind.of(request.predicts)
    groups = Labels.of(t).groups(k)[0]
    score = _drawn_in(each.sum(axis=0), k, groups)
    arrays = kind.third(score, t, k) | moved
    if request.blocks:
        others = [_drawn_in(np.delete(each, b, axis=0).sum(axis=0), k, groups) for b in range(len(each))]
        arrays["without"] = np.array([kind.figure(kind.third(other, t, k)) for other in others])
    if terms.protection is not None:
        y, rng = t.astype(int), next(iter(blocks.values())).rng
        auc, means = terms.protection.scores(float(roc_auc_score(y, score)), score, y, rng)
        arrays |= {"auc": np.array(auc), "mean": means, "square": arrays["counts"].astype(float)}
        arrays |= {"bins": np.zeros((0, 3))}
    return arrays


def _drawn_in(score: np.ndarray, k: int, groups: Sequence[np.ndarray]) -> np.ndarray:
    """Scores (n,) or (n, K) none of which stands apart in its column."""
    columns = score.reshape(len(score), -1).T
    return np.column_stack([drawn_in(column, k, groups) for column in columns]).reshape(score.shape)


def _require_target(own: Target, asked: Target, request: Message | None) -> None:
    """Refuse steps that sites may number differently, and a request that predicts something else."""
    kind = SiteKind.of(own)
    kind.refuse_steps()
    strange = kind.strange_to(asked)
    if request is not None and (target_in_words(own) != target_in_words(asked) or strange):
        raise SummaryError(
            f"{request.path} asks for {target_in_words(asked)}{f' without {listed(strange)}' if strange else ''}; "
            f"these data have {target_in_words(own)}: give --target as in round 1, or refuse the request"
        )


def _one_site(cohort: Cohort) -> str:
    if len(cohort.sites) != 1:
        raise DataError(
            f"a summary is of one site; these data hold {len(cohort.sites)}: {listed(cohort.sites)}; "
            "name one with --sites"
        )
    return cohort.sites[0]


def _require_terms(site: str, min_count: int, protection: Protection | None, cohort: Cohort) -> None:
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
    if protection is not None:
        SiteKind.of(cohort.target).refuse_noise()


def _require_enough(site: str, y: np.ndarray, least: int) -> None:
    few = Labels.of(y).too_few(least)
    if few:
        raise SummaryError(f"site {site} has {few} about each of them: nothing was written")


def _require_same_data(request: Message, site: str, atlas: dict[str, Any], covariates: list[str], measure: str) -> None:
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
