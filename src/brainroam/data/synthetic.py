"""Synthetic multi-site cohorts with known effects, site differences and defects.

Person i of site e, with label y, standardised age and sex q~ and individual expression z of the diagnostic pattern s,
has the population correlation matrix

    R_i = I + mat( b*_e + Gamma*_e' q~_i + y_i s* + z_i s ),      s* = effect x s,  z_i normal around 0

so b*_e, Gamma*_e and s* are exactly what a regression of the edges on covariates and label within the site estimates.
With K subtypes there are K patterns s_k, each the edges around one region. Everybody expresses each of them to an
individual degree z_ik, and a case has the effect in the pattern of one subtype only; s* = effect x mean of s_k.
With a trait t_i in (0, 1), which everybody shows in edges of its own, a case has the effect (1 - t_i) s_1 + t_i s_2.

**Series** with that correlation are drawn on scanners that differ.
The expected covariance of the series is R although a share nu of the variance is white noise w_t and the rest follows
an AR(1) process a_t with the scanner's phi:

    x_t = chol(R - nu I) a_t + nu^1/2 w_t.

Where that root does not exist, R is shrunk towards the identity, which scales all its edges alike.

phi may differ between people: it sets how slowly their regions move and leaves R, and so every edge, as it is.

In the two regions of a volatile edge the noise is coupled by a correlation that swings slowly around zero: the strength
over the whole scan does not change, only its fluctuation.
"""

from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.signal import lfilter
from threadpoolctl import threadpool_limits

from brainroam.data.cohort import Cohort
from brainroam.errors import UsageError

__all__ = ["Truth", "make_cohort"]

COVARIATES = ("age", "sex")
N_NETWORKS = 5
NETWORK_CORRELATION = 0.25
EFFECT_SIZE = 0.08  # typical change of a diagnostic edge, at effect=1
INDIVIDUALITY = 0.6  # standard deviation of z; it caps the AUC that anybody can reach at about 0.88
SITE_SIZE, SLOPE_SIZE = 0.04, 0.045  # spread of intercepts and slopes, on the edges that have one
ARTEFACT_SIZE = 2.0  # an outlier's artefact, against a standard deviation of 1
REPETITION_TIMES = (1.5, 2.0, 2.2, 2.5, 3.0)
VOLATILE_NOISE = 0.3  # share of variance that swings, in the regions of volatile edges
SWING = 0.3, 0.6  # amplitude of the swing in controls, and what cases have more at volatility=1
SWING_PERIOD = 100  # volumes, long against a window of 30
SLOWING = 0.3  # by how much the phi of cases is larger than that of controls, at rhythm=1
EIGENVALUE_FLOOR = 0.02
BURN_IN = 30


class Scanner(NamedTuple):
    """Properties of a site's scanner, the same for everybody scanned there."""

    autocorrelation: float
    noise: float
    n_volumes: int
    tr: float


@dataclass(frozen=True)
class Truth:
    """What `make_cohort` planted. Arrays are read-only; edges stand in ``numpy.triu_indices(P, 1)`` order.

    Attributes
    ----------
    sites : tuple of str
        Site names, in the order of every array with a site axis.
    covariates : tuple of str
        Names of the d covariates, in the order of the slopes.
    covariate_mean, covariate_std : ndarray of shape (d,)
        What the covariates were standardised with: everybody, before values were made missing.
    effect : ndarray of shape (M,)
        s*: difference in correlation between cases and controls, zero on most edges.
    subtypes : dict of str to int
        The subtype of each case.
    patterns : ndarray of shape (K, M)
        What a case of each subtype, or at either end of the trait, has more than controls; their mean is `effect`.
    trait : dict of str to float
        t of each person; empty without a trait.
    trait_pattern : ndarray of shape (M,)
        Change in correlation per standard deviation of the trait, in cases and controls.
    volatility : ndarray of shape (M,)
        Difference in the amplitude of the swinging correlation between cases and controls, zero on most edges.
    rhythm : float
        By how much the autocorrelation of every region is larger in cases than in controls.
    intercept : ndarray of shape (E, M)
        b*: expected correlation of a control with mean covariates.
    coef : ndarray of shape (E, d, M)
        Gamma*: change in correlation per standard deviation of a covariate.
    autocorrelation, noise : ndarray of shape (E,)
        The scanners: phi and nu.
    shortcut : ndarray of shape (E,)
        By how many standard deviations cases are older than controls at each site.
    shrinkage : dict of str to float
        People whose edges are all ``1 - shrinkage`` times what the arrays above say.
    all_male_sites : tuple of str
        Where nobody is female by design.
    outliers : tuple of str
        People whose scan is swamped by one artefact in all regions.
    constant_rois : dict of str to tuple of int
        People with regions without signal, and which.
    missing_covariates : dict of str to str
        People with an empty covariate, and which.
    """

    sites: tuple[str, ...]
    covariates: tuple[str, ...]
    covariate_mean: np.ndarray
    covariate_std: np.ndarray
    effect: np.ndarray
    subtypes: dict[str, int]
    patterns: np.ndarray
    trait: dict[str, float]
    trait_pattern: np.ndarray
    volatility: np.ndarray
    rhythm: float
    intercept: np.ndarray
    coef: np.ndarray
    autocorrelation: np.ndarray
    noise: np.ndarray
    shortcut: np.ndarray
    shrinkage: dict[str, float]
    all_male_sites: tuple[str, ...]
    outliers: tuple[str, ...]
    constant_rois: dict[str, tuple[int, ...]]
    missing_covariates: dict[str, str]

    def __post_init__(self) -> None:
        for one in fields(self):
            if isinstance(value := getattr(self, one.name), np.ndarray):
                value.setflags(write=False)

    @property
    def effect_edges(self) -> np.ndarray:
        """Indices of the edges whose strength differs between cases and controls."""
        return np.flatnonzero(self.effect)

    @property
    def effect_signs(self) -> np.ndarray:
        """+1 where cases are stronger, -1 where they are weaker, in the order of `effect_edges`."""
        return np.sign(self.effect[self.effect_edges])

    @property
    def volatility_edges(self) -> np.ndarray:
        """Indices of the edges that fluctuate more in cases; half of them are effect edges as well."""
        return np.flatnonzero(self.volatility)


def make_cohort(
    n_sites: int = 6,
    n_per_site: int = 40,
    n_rois: int = 40,
    seed: int = 0,
    *,
    effect: float = 1.0,
    volatility: float = 1.0,
    rhythm: float = 0.0,
    subtypes: int = 1,
    trait: float = 0.0,
    shortcut: float = 0.0,
    prevalence: float = 0.5,
    all_male_sites: int = 0,
    outliers: int = 0,
    constant_rois: int = 0,
    missing_covariates: int = 0,
) -> Cohort:
    """Make a cohort of several sites with known effects, known nuisance and, when asked for, known defects.

    The same arguments give the same bytes; defects are added to an otherwise unchanged cohort.

    Parameters
    ----------
    n_sites, n_per_site, n_rois : int
        Sites, people at each and regions.
    seed : int
        Everything random follows from it.
    effect, volatility : float
        Size of the diagnostic difference in strength and in fluctuation; 0 plants none. At 1 an unseen site is
        predicted with an AUC of about 0.85 from the strength.
    rhythm : float
        How much more slowly all regions of cases move, for methods that look at each region alone: at 1 their
        autocorrelation is larger by 0.3, at most 1.1. No correlation between regions differs by it.
    subtypes : int
        How many kinds of cases there are, with as many cases of each. Each kind has pathways of its own, around a
        region of its own; with 1, all cases share edges all over the brain.
    trait : float
        How strongly everybody shows a trait that decides which pathways a case differs in: at one end of it in those
        of one subtype, at the other end in those of a second, and between the ends partly in both. 0 is no trait; not
        together with ``subtypes``.
    shortcut : float
        Cases are this many standard deviations of age older than controls at every site but the last, where they are
        as much younger. Age changes edges at all sites, so a model that takes age for diagnosis falls at the last.
    prevalence : float
        Share of cases; that of each site is drawn between 0.8 and 1.2 times it.
    all_male_sites : int
        How many sites (the first ones) have men only.
    outliers, constant_rois, missing_covariates : int
        How many people, anywhere, have an artefact in all regions, one to three regions without signal, or an empty
        age or sex; nobody has two defects.

    Returns
    -------
    Cohort
        Its ``truth`` is a `Truth`.

    Examples
    --------
    >>> cohort = make_cohort(n_sites=3, n_per_site=10, n_rois=12, seed=1)
    >>> cohort
    Cohort(30 people, 3 sites, 17 with the condition, 12 regions of 'custom')
    >>> cohort.truth.effect_edges.size, cohort.truth.coef.shape
    (12, (3, 2, 66))
    """
    defects = (outliers, constant_rois, missing_covariates)
    for name, value, least in (("n_sites", n_sites, 2), ("n_per_site", n_per_site, 4), ("n_rois", n_rois, 8)):
        if value < least:
            raise UsageError(f"{name} must be at least {least}, got {value}")
    _require_effects(n_rois, subtypes, trait, rhythm, prevalence)
    if not 0 <= all_male_sites <= n_sites or min(defects) < 0 or sum(defects) > n_sites * n_per_site:
        raise UsageError("all_male_sites and the people with defects must be between none and all of the cohort")
    # One stream for each step: asking for more of one thing leaves the others as they were.
    of_edges, of_people, of_scans, of_defects, of_subtypes, of_trait = map(
        np.random.default_rng, np.random.SeedSequence(seed).spawn(6)
    )
    pattern, volatile = _diagnostic_edges(of_edges, n_rois)
    kinds = 2 if trait else subtypes
    patterns = pattern[None] if kinds == 1 else _stars(of_subtypes, pattern, n_rois, kinds)
    intercept, coef = _nuisance(of_edges, n_sites, n_rois)
    scanners = [draw_scanner(of_scans) for _ in range(n_sites)]
    age_gap = np.append(np.full(n_sites - 1, shortcut), -shortcut)
    table = _people(of_people, scanners, n_per_site, age_gap, all_male_sites, prevalence)
    label, covariates = table["label"].to_numpy(), table[list(COVARIATES)].to_numpy()
    mean, std = covariates.mean(axis=0), covariates.std(axis=0)
    standardised = (covariates - mean) / np.where(std > 0, std, 1)

    subtype, degree = of_subtypes.permutation(len(table)) % subtypes, of_trait.uniform(size=len(table))
    belongs = np.stack([1 - degree, degree], axis=1) if trait else subtype[:, None] == np.arange(kinds)
    expression = effect * label[:, None] * belongs + INDIVIDUALITY * of_people.normal(size=(len(table), kinds))
    shown = trait * np.sqrt(12) * (degree - 0.5)  # of unit spread at trait=1
    of_everybody = _stars(of_trait, pattern, n_rois, 1)[0]
    swing = np.minimum(SWING[0] + SWING[1] * volatility * label, 1)
    slowing = SLOWING * rhythm * label

    series: list[np.ndarray] = []
    shrinkage = np.empty(len(table))
    for e, scanner in enumerate(scanners):
        here = slice(e * n_per_site, (e + 1) * n_per_site)
        edges = intercept[e] + standardised[here] @ coef[e] + expression[here] @ patterns
        edges += np.outer(shown[here], of_everybody)
        with threadpool_limits(1):  # the same bytes on any number of cores, and no waiting for small products
            scans, shrinkage[here] = draw_scans(
                of_scans, _symmetric(edges, n_rois), scanner, volatile, swing[here], slowing[here]
            )
        series += scans

    sites, subjects = table["site"].unique(), table["subject"]
    fluctuation = np.zeros(len(pattern))
    fluctuation[_edge_index(volatile, n_rois)] = VOLATILE_NOISE * np.ptp(swing)
    truth = Truth(
        sites=tuple(sites),
        covariates=COVARIATES,
        covariate_mean=mean,
        covariate_std=std,
        effect=effect * patterns.mean(axis=0),
        subtypes={subjects[i]: int(subtype[i]) for i in np.flatnonzero(label)},
        patterns=effect * patterns,
        trait=dict(zip(subjects, degree.tolist(), strict=True)) if trait else {},
        trait_pattern=trait * of_everybody,
        volatility=fluctuation,
        rhythm=SLOWING * rhythm,
        intercept=intercept,
        coef=coef,
        autocorrelation=np.array([scanner.autocorrelation for scanner in scanners]),
        noise=np.array([scanner.noise for scanner in scanners]),
        shortcut=age_gap,
        shrinkage={subjects[i]: float(shrinkage[i]) for i in np.flatnonzero(shrinkage)},
        all_male_sites=tuple(sites[:all_male_sites]),
        **_plant_defects(of_defects, series, table, defects),
    )
    return Cohort(series, table, truth=truth)


def _require_effects(n_rois: int, subtypes: int, trait: float, rhythm: float, prevalence: float) -> None:
    """Refuse effects that cannot be planted."""
    if not 1 <= subtypes <= n_rois // 4:
        raise UsageError(f"subtypes must be between 1 and a quarter of the regions ({n_rois // 4}), got {subtypes}")
    if trait and subtypes > 1:
        raise UsageError("either a trait or subtypes decide in which pathways a case differs; give one of them")
    if not 0 <= rhythm <= 1.1:
        raise UsageError(f"rhythm must be between 0 and 1.1, got {rhythm:g}")
    if not 0 < prevalence <= 0.8:
        raise UsageError(f"prevalence must be above 0 and at most 0.8, got {prevalence:g}")


def _symmetric(edges: np.ndarray, n_rois: int) -> np.ndarray:
    """Symmetric matrices (n, P, P) of edge values (n, M), with zeros on the diagonal."""
    u, v = np.triu_indices(n_rois, 1)
    matrices = np.zeros((len(edges), n_rois, n_rois))
    matrices[:, u, v] = matrices[:, v, u] = edges
    return matrices


def _edge_index(pairs: np.ndarray, n_rois: int) -> np.ndarray:
    """Positions of region pairs u < v in ``numpy.triu_indices(P, 1)``."""
    u, v = pairs.T
    return u * (2 * n_rois - u - 1) // 2 + v - u - 1


def _diagnostic_edges(rng: np.random.Generator, n_rois: int) -> tuple[np.ndarray, np.ndarray]:
    """The pattern s (M,) with P edges of either sign, and the volatile region pairs (P // 4, 2)."""
    # Volatile edges share no region, so that each has the noise of its two regions to itself.
    volatile = np.sort(rng.permutation(n_rois)[: n_rois // 4 * 2].reshape(-1, 2), axis=1)
    fluctuating = _edge_index(volatile, n_rois)
    both = fluctuating[: len(volatile) // 2]
    pattern = np.zeros(n_rois * (n_rois - 1) // 2)
    others = np.setdiff1d(np.arange(len(pattern)), fluctuating)
    chosen = np.append(both, rng.choice(others, n_rois - len(both), replace=False))
    pattern[chosen] = EFFECT_SIZE * rng.choice([-1, 1], n_rois) * rng.uniform(0.7, 1.3, n_rois)
    return pattern, volatile


def _stars(rng: np.random.Generator, pattern: np.ndarray, n_rois: int, subtypes: int) -> np.ndarray:
    """The sizes of the diagnostic edges, dealt out to edges around one region for each subtype: (subtypes, M)."""
    sizes = np.array_split(rng.permutation(pattern[pattern != 0]), subtypes)
    patterns = np.zeros((subtypes, len(pattern)))
    for hub, values, star in zip(rng.permutation(n_rois), sizes, patterns, strict=False):
        ends = rng.choice(np.delete(np.arange(n_rois), hub), min(len(values), n_rois - 1), replace=False)
        pairs = np.sort(np.column_stack([np.full(len(ends), hub), ends]), axis=1)
        star[_edge_index(pairs, n_rois)] = values[: len(ends)]
    return patterns


def _nuisance(rng: np.random.Generator, n_sites: int, n_rois: int) -> tuple[np.ndarray, np.ndarray]:
    """Intercepts (E, M) around one network structure and slopes (E, d, M) around shared slopes."""
    u, v = np.triu_indices(n_rois, 1)
    network = np.arange(n_rois) * N_NETWORKS // n_rois
    structure = NETWORK_CORRELATION * (network[u] == network[v])

    def patterns(count: int, edges_per_roi: int, size: float) -> np.ndarray:
        # A fixed number of edges for each region keeps R positive definite however many regions there are.
        values = rng.normal(scale=size, size=(count, len(u)))
        return values * (rng.random((count, len(u))) < edges_per_roi / (n_rois - 1))

    intercept = structure + patterns(n_sites, 6, SITE_SIZE)
    own = patterns(n_sites * len(COVARIATES), 4, SLOPE_SIZE / 2).reshape(n_sites, len(COVARIATES), -1)
    return intercept, patterns(len(COVARIATES), 4, SLOPE_SIZE) + own


def _people(
    rng: np.random.Generator,
    scanners: list[Scanner],
    n_per_site: int,
    age_gap: np.ndarray,
    all_male_sites: int,
    prevalence: float,
) -> pd.DataFrame:
    """One row for each person, site after site."""
    tables = []
    for e, scanner in enumerate(scanners):
        label = rng.permutation(n_per_site) < round(n_per_site * rng.uniform(0.8 * prevalence, 1.2 * prevalence))
        age = rng.normal(25, 2) + 4 * (rng.normal(size=n_per_site) + age_gap[e] * (label - 0.5))
        male = rng.random(n_per_site) < rng.uniform(0.5, 0.85)
        tables.append(
            pd.DataFrame(
                {
                    "subject": [f"S{e + 1:02d}_{k + 1:04d}" for k in range(n_per_site)],
                    "site": f"S{e + 1:02d}",
                    "label": label.astype(int),
                    "age": age,
                    "sex": 1.0 if e < all_male_sites else male.astype(float),
                    "mean_fd": rng.lognormal(-2, 0.4, n_per_site),
                    "tr": scanner.tr,
                }
            )
        )
    return pd.concat(tables, ignore_index=True)


def _plant_defects(
    rng: np.random.Generator, series: list[np.ndarray], table: pd.DataFrame, counts: tuple[int, int, int]
) -> dict[str, Any]:
    """Plant the defects in place, each in people of its own; returns them as fields of `Truth`."""
    subjects = table["subject"].tolist()
    swamped, dead, unknown = np.split(rng.permutation(len(subjects)), np.cumsum(counts))[:3]
    constant_rois, missing_covariates = {}, {}
    for i in swamped:
        series[i] += ARTEFACT_SIZE * rng.normal(size=(len(series[i]), 1))
    for i in dead:
        rois = np.sort(rng.choice(series[i].shape[1], rng.integers(1, 4), replace=False))
        series[i][:, rois] = 0.0
        constant_rois[subjects[i]] = tuple(rois.tolist())
    for i in unknown:
        missing_covariates[subjects[i]] = str(rng.choice(COVARIATES))
        table.loc[i, missing_covariates[subjects[i]]] = np.nan
    return {
        "outliers": tuple(subjects[i] for i in swamped),
        "constant_rois": constant_rois,
        "missing_covariates": missing_covariates,
    }


def draw_scanner(rng: np.random.Generator) -> Scanner:
    """A plausible scanner."""
    n_volumes, tr = int(rng.integers(120, 200)), float(rng.choice(REPETITION_TIMES))
    return Scanner(rng.uniform(0.3, 0.6), rng.uniform(0.1, 0.25), n_volumes, tr)


def draw_scans(
    rng: np.random.Generator,
    coupling: np.ndarray,
    scanner: Scanner,
    volatile: np.ndarray,
    swing: np.ndarray,
    slowing: np.ndarray,
) -> tuple[list[np.ndarray], np.ndarray]:
    """Series of the people of one site.

    Parameters
    ----------
    rng : Generator
    coupling : ndarray of shape (n, P, P)
        R - I of each person.
    scanner : Scanner
    volatile : ndarray of shape (k, 2)
        Region pairs of the volatile edges; no region stands in two of them.
    swing : ndarray of shape (n,)
        Amplitude of each person's swing, at most 1.
    slowing : ndarray of shape (n,)
        What is added to the scanner's phi for each person.

    Returns
    -------
    series : list of ndarray of shape (T, P)
    shrinkage : ndarray of shape (n,)
        The t of (1 - t) R + t I, 0 for people whose R could stay as it is.
    """
    noise = np.full(coupling.shape[1], scanner.noise)
    noise[volatile] = VOLATILE_NOISE
    # With D = diag(1 - noise - floor): (1 - t) C + D >= 0 exactly when (1 - t) lambda_min(D^-1/2 C D^-1/2) >= -1.
    room = np.sqrt(1 - noise - EIGENVALUE_FLOOR)
    share = np.minimum(1, -1 / np.linalg.eigvalsh(coupling / np.outer(room, room))[:, 0])
    roots = np.linalg.cholesky(coupling * share[:, None, None] + np.diag(1 - noise))
    phi, series = scanner.autocorrelation + slowing, []
    for i, root in enumerate(roots):
        smooth = _smooth(rng, phi[i], scanner.n_volumes, len(noise))
        series.append(smooth @ root.T + np.sqrt(noise) * _white(rng, scanner, len(noise), volatile, swing[i]))
    return series, 1 - share


def _smooth(rng: np.random.Generator, phi: float, n_volumes: int, n_rois: int) -> np.ndarray:
    """AR(1) processes of unit variance, one for each region."""
    innovation = rng.normal(scale=np.sqrt(1 - phi**2), size=(BURN_IN + n_volumes, n_rois))
    return lfilter([1.0], [1.0, -phi], innovation, axis=0)[BURN_IN:]


def _white(rng: np.random.Generator, scanner: Scanner, n_rois: int, volatile: np.ndarray, swing: float) -> np.ndarray:
    """White noise of unit variance, coupled in volatile pairs by a correlation with mean zero over the scan."""
    white = rng.normal(size=(scanner.n_volumes, n_rois))
    cycles = max(1, round(scanner.n_volumes / SWING_PERIOD))  # whole ones, or the mean would not be zero
    time = np.arange(scanner.n_volumes)[:, None] / scanner.n_volumes
    correlation = swing * np.sin(2 * np.pi * (cycles * time + rng.random(len(volatile))))
    first, second = volatile.T
    white[:, second] = correlation * white[:, first] + np.sqrt(1 - correlation**2) * white[:, second]
    return white
