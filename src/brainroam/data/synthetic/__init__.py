"""A multi-site cohort in which everything is known: what travels between sites, and what does not.

Person i of site e, with label y, standardised age and sex q~ and individual expression z of the diagnostic pattern s,
has the population correlation matrix

    R_i = I + mat( b*_e + Gamma*_e' q~_i + y_i s* + z_i s ),      s* = effect x s,  z_i normal around 0

so b*_e, Gamma*_e and s* are exactly what a regression of the edges on covariates and label within the site estimates.
With K subtypes there are K patterns s_k, each the edges around one region. Everybody expresses each of them to an
individual degree z_ik, and a case has the effect in the pattern of one subtype only; s* = effect x mean of s_k.
With a trait t_i in (0, 1), which everybody shows in edges of its own, a case has the effect (1 - t_i) s_1 + t_i s_2.
How series with that correlation are drawn on scanners that differ, see `brainroam.data.synthetic.scans`.
"""

from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from brainroam.data.cohort import Cohort
from brainroam.data.synthetic.scans import SLOWING, SWING, VOLATILE_NOISE, Scanner, draw_scanner, draw_scans
from brainroam.data.synthetic.truth import Truth
from brainroam.errors import UsageError

__all__ = ["Truth", "make_cohort"]

COVARIATES = ("age", "sex")
N_NETWORKS = 5
NETWORK_CORRELATION = 0.25
EFFECT_SIZE = 0.08  # typical change of a diagnostic edge, at effect=1
INDIVIDUALITY = 0.6  # standard deviation of z; it caps the AUC that anybody can reach at about 0.88
SITE_SIZE, SLOPE_SIZE = 0.04, 0.045  # spread of intercepts and slopes, on the edges that have one
ARTEFACT_SIZE = 2.0  # an outlier's artefact, against a standard deviation of 1


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
    if not 1 <= subtypes <= n_rois // 4:
        raise UsageError(f"subtypes must be between 1 and a quarter of the regions ({n_rois // 4}), got {subtypes}")
    if trait and subtypes > 1:
        raise UsageError("either a trait or subtypes decide in which pathways a case differs; give one of them")
    if not 0 <= rhythm <= 1.1:
        raise UsageError(f"rhythm must be between 0 and 1.1, got {rhythm:g}")
    if not 0 < prevalence <= 0.8:
        raise UsageError(f"prevalence must be above 0 and at most 0.8, got {prevalence:g}")
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

    u, v = np.triu_indices(n_rois, 1)
    series: list[np.ndarray] = []
    shrinkage = np.empty(len(table))
    for e, scanner in enumerate(scanners):
        here = slice(e * n_per_site, (e + 1) * n_per_site)
        coupling = np.zeros((n_per_site, n_rois, n_rois))
        coupling[:, u, v] = intercept[e] + standardised[here] @ coef[e] + expression[here] @ patterns
        coupling[:, u, v] += np.outer(shown[here], of_everybody)
        coupling += coupling.transpose(0, 2, 1)
        with threadpool_limits(1):  # the same bytes on any number of cores, and no waiting for small products
            scans, shrinkage[here] = draw_scans(of_scans, coupling, scanner, volatile, swing[here], slowing[here])
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
        **_spoil(of_defects, series, table, defects),
    )
    return Cohort(series, table, truth=truth)


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


def _spoil(
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
