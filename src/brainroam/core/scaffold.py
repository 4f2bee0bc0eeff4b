"""Cross-site scaffold: the edges whose patient-control contrast is reproducible across sites.

    d_e     = HuberMean(r_site | cases of site e) - HuberMean(r_site | controls of site e)
    d_com   = median of d_e over the sites, edge by edge
    kappa_j = share of sites with sgn(d_ej) = sgn(d_com_j)                       sgn(0) = 0
    pi_j    = probability that a bootstrap over sites keeps the sign of the consensus
    S       = { j : |d_com_j| > tau,  kappa_j >= eta,  pi_j >= zeta }            tau = a percentile of |d_com|

**Sign.** That is the letter of the paper, with edges of both signs. Its table and figures of edges show only positive
ones, stronger in patients: d_com_j > tau in the place of |d_com_j| > tau (``sign="positive"``), with the same tau. A
network whose nodes share all weights and whose readout is their mean learns from edges of one sign. Of both, edges
that are stronger and edges that are weaker in patients cancel, unless each is multiplied by its sign (``orient``).

**Closed form.** A bootstrap draws E sites with replacement; the ranks of the drawn contrasts are uniform, whatever the
values. So the joint law of the two middle ranks (a, b) is one E x E table that depends on E alone, and

    pi_j = sum_{a <= b} P(a, b) [ sgn(d_(a)j + d_(b)j) = sgn(d_com_j) ]

exactly: the limit of infinitely many bootstraps, for odd and even E, with zeros and ties. For odd E and non-zero d it
is P(Binomial(E, kappa_j) > E/2): pi then says nothing that kappa did not. `hierarchical_stability` resamples people
within site and class too, families and people with several scans as a whole; that pi also measures sampling noise.

**Several classes.** Each class has its contrast c against the controls, or against all others where there are none, and
a scaffold S_c of its own with a threshold tau_c. `join_scaffolds` keeps an edge if any contrast does:

    S = union of S_c,      d_com_j = d_com_cj / tau_c

with c, of the contrasts that keep edge j, the one with the largest |d_com_cj| / tau_c; kappa_j and pi_j are its own.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
import pandas as pd
from scipy.special import comb
from scipy.stats import binom, norm

from brainroam.core.recipe import ETA, TAU_PERCENTILE, ZETA
from brainroam.core.site_fit import huber_mean, huber_regression
from brainroam.core.targets import slopes
from brainroam.data.names import site_names
from brainroam.data.target import TWO_CLASSES
from brainroam.data.target.coding import Coding, Means, Slopes
from brainroam.errors import EmptyScaffoldError, unknown
from brainroam.utils.html import html_summary
from brainroam.utils.parameters import Percentile, require_settings

CONTRASTS = ("mean", "huber")
SIGNS = ("both", "positive", "negative")
USUAL_CONTRAST = 1 / 3  # of an edge, in standard deviations of people; few differ by more


@dataclass(frozen=True, eq=False)
class Scaffold:
    """The selected edges and the evidence for every edge.

    Attributes
    ----------
    edges : ndarray of int, shape (M_S,)
        Indices of the selected edges in ``triu`` order, ascending.
    contrast : ndarray of shape (E, M)
        d_e of each site in ``sites``; without rows in a model that was loaded, see `CoreModel.state`.
    consensus, sign_consistency, stability : ndarray of shape (M,)
        d_com, kappa and pi.
    tau : float
        The threshold on \\|d_com\\| that the percentile gave.
    sites : tuple of str
        The sites with both classes, which alone have a contrast.
    """

    edges: np.ndarray
    contrast: np.ndarray
    consensus: np.ndarray
    sign_consistency: np.ndarray
    stability: np.ndarray
    tau: float
    sites: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.edges)

    def _repr_html_(self) -> str:
        """For notebooks: the largest pathways."""
        order = self.edges[np.argsort(-np.abs(self.consensus[self.edges]), kind="stable")][:10]
        columns = {"edge": order, "d_com": self.consensus[order]}
        columns |= {"kappa": self.sign_consistency[order], "pi": self.stability[order]}
        title = f"Scaffold: {len(self)} of {len(self.consensus)} edges agreed on by {len(self.sites)} sites"
        return html_summary(title, pd.DataFrame(columns))

    def strongest(self, limit: int | None) -> np.ndarray:
        """Positions of the ``limit`` edges with the largest consensus contrast, in their order; None is all."""
        strength = np.abs(self.consensus[self.edges])
        return np.sort(np.argsort(-strength, kind="stable")[:limit])

    def on(self, nodes: np.ndarray) -> "Scaffold":
        """Only these of the selected edges, by position."""
        return replace(self, edges=self.edges[nodes])

    @property
    def signs(self) -> np.ndarray:
        """sgn(d_com) of the selected edges."""
        return np.sign(self.consensus[self.edges])


def expected_agreement(y: np.ndarray, site: np.ndarray, coding: Coding = TWO_CLASSES.coding) -> float:
    """Chance that a true contrast has its sign at a site, mean over the sites with both classes.

    Of m cases and n controls their means differ by d +- sqrt(1/m + 1/n) standard deviations, so that is
    Phi(d sqrt(m n / (m + n))), here with d = `USUAL_CONTRAST`. Where it is below eta, no edge can be expected to pass.
    Of several classes (indicators (n, K)) each is compared with all others; a number has no classes to count, and 1.

    >>> y, site = np.tile([0, 1], 40), np.repeat(list("AB"), 40)
    >>> round(expected_agreement(y, site), 2), round(expected_agreement(y[:12], site[34:46]), 2)
    (0.85, 0.66)
    """
    m, n = coding.class_counts(y, site)
    both = (m > 0) & (n > 0)
    m, n = m[both], n[both]
    return float(norm.cdf(USUAL_CONTRAST * np.sqrt(m * n / (m + n))).mean()) if both.any() else 1.0


def are_too_small(y: np.ndarray, site: np.ndarray, coding: Coding = TWO_CLASSES.coding) -> bool:
    """Whether sites are so small that no edge can be expected to pass eta.

    >>> [are_too_small(np.tile([0, 1], 2 * k), np.repeat(["A", "B"], 2 * k)) for k in (4, 10)]
    [True, False]
    """
    return expected_agreement(y, site, coding) < ETA


def edges_of(scaffolds: Iterable[Scaffold]) -> np.ndarray:
    """Every edge that is in some scaffold, ascending."""
    edges = [scaffold.edges for scaffold in scaffolds]
    return np.unique(np.concatenate(edges)) if edges else np.empty(0, dtype=int)


def extract_scaffold(
    residuals: np.ndarray,
    y: np.ndarray,
    site: np.ndarray,
    tau_percentile: float = TAU_PERCENTILE,
    eta: float = ETA,
    zeta: float = ZETA,
    bootstrap: str = "sites",
    n_boot: int = 1000,
    random_state: int = 0,
    huber_delta: float | None = None,
    group: np.ndarray | None = None,
    coding: Coding = TWO_CLASSES.coding,
    sign: str = "both",
) -> Scaffold:
    """Select the scaffold from the site-wise residuals of labelled training people.

    Parameters
    ----------
    residuals : ndarray of shape (n, M)
        r_site; NaN where an edge is missing.
    y : ndarray of n labels
        0 or 1, or two labels of which one is certain to be the condition; with the ``coding`` of a number, numbers.
    site : ndarray of n site names
    tau_percentile, eta, zeta : float
        Thresholds on \\|d_com\\| (as a percentile over edges), kappa and pi.
    bootstrap : {"sites", "hierarchical"}
        Resample sites (exact, ``n_boot`` and ``random_state`` are not used), or sites and people.
    n_boot : int
        Resamples of the hierarchical bootstrap.
    huber_delta : float, optional
        A fixed threshold of the robust means, in edge units; by default 1.345 robust standard deviations.
    group : ndarray of n codes, optional
        Who belongs together (`brainroam.data.people.group_codes`): the hierarchical bootstrap draws them as one.
    coding : Coding
        Of the target, by default of two classes: ``brainroam.data.target.Number("age").coding``.
    sign : {"both", "positive", "negative"}
        Edges that are stronger in cases (positive), weaker, or both.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y, site = np.tile([0, 1], 30), np.repeat(["A", "B", "C"], 20)
    >>> residuals = rng.normal(0, 0.1, (60, 10)); residuals[y == 1, 4] += 0.5
    >>> extract_scaffold(residuals, y, site, tau_percentile=89).edges.tolist()
    [4]
    >>> 4 in extract_scaffold(residuals, y, site, 50, eta=0, sign="negative").edges
    False
    """
    if bootstrap not in ("sites", "hierarchical"):
        raise unknown("bootstrap", bootstrap, ["sites", "hierarchical"])
    y, site = coding.labels(np.asarray(y)), site_names(site, len(residuals))
    sites = sites_with_contrast(y, site, coding)
    contrast = site_contrasts(residuals, y, site, sites, huber_delta, coding)
    stability = None
    if bootstrap == "hierarchical":
        coding.require_classes('bootstrap="hierarchical" resamples people within classes, bootstrap="sites" does not')
        classes = list(_groups(y, site, sites))
        people = [(residuals[cases], residuals[controls]) for cases, controls in classes]
        codes = None if group is None else [(group[cases], group[controls]) for cases, controls in classes]
        stability = hierarchical_stability(
            people, median_over_sites(contrast), n_boot, random_state, huber_delta, codes
        )
    return select_scaffold(contrast, sites, tau_percentile, eta, zeta, stability, sign=sign)


def sites_with_contrast(y: np.ndarray, site: np.ndarray, coding: Coding = TWO_CLASSES.coding) -> list[str]:
    """Sites that have a contrast, sorted; an error when fewer than two do."""
    sites = coding.comparable(y, site)
    if len(sites) < 2:
        names = ", ".join(sites) or "none"
        raise EmptyScaffoldError(
            f"a cross-site scaffold needs at least two sites with both cases and controls; found {len(sites)} ({names})"
        )
    return sites


def contrast_delta(contrast: str) -> float | None:
    """The Huber threshold of the class means of a contrast: the paper's robust means, or plain ones."""
    if contrast not in CONTRASTS:
        raise unknown("contrast", contrast, CONTRASTS)
    return None if contrast == "huber" else np.inf


def site_contrasts(
    residuals: np.ndarray,
    y: np.ndarray,
    site: np.ndarray,
    sites: Sequence[str],
    huber_delta: float | None = None,
    coding: Coding = TWO_CLASSES.coding,
) -> np.ndarray:
    """d_e of every site (E, M): difference of the robust means of cases and controls, or the slope on a number."""
    at = robust(huber_delta)
    return np.stack([coding.contrast(residuals[here], y[here], *at) for here in (site == name for name in sites)])


def robust(huber_delta: float | None) -> tuple[Means, Slopes]:
    """Robust means and slopes with this threshold, as `Coding` asks for them."""
    return partial(huber_mean, delta=huber_delta), partial(slopes, huber_delta=huber_delta)


def select_scaffold(
    contrast: np.ndarray,
    sites: Sequence[str],
    tau_percentile: Percentile = TAU_PERCENTILE,
    eta: float = ETA,
    zeta: float = ZETA,
    stability: np.ndarray | None = None,
    every_edge: bool = True,
    sign: str = "both",
) -> Scaffold:
    """Consensus, consistency, stability and thresholds from the site contrasts (E, M) alone.

    A scaffold of fewer sites needs only their rows of ``contrast``: this makes episodes and inner validation cheap.
    Without ``every_edge`` kappa and pi are those of the edges that pass the thresholds before, and NaN elsewhere.
    """
    require_settings("scaffold", select_scaffold, {"tau_percentile": tau_percentile})
    if sign not in SIGNS:
        raise unknown("sign", sign, SIGNS)
    consensus = median_over_sites(contrast)
    present = np.isfinite(consensus)
    if not present.any():
        raise EmptyScaffoldError("no edge is present at any site with both classes")
    size = np.where(present, np.abs(consensus), 0)
    tau = float(np.percentile(size[present], tau_percentile))
    size = {"both": size, "positive": consensus, "negative": -consensus}[sign]
    large = size > tau
    if every_edge:
        kappa = sign_consistency(contrast, consensus)
        pi = site_stability(contrast, consensus) if stability is None else stability
    else:
        kappa, pi = np.full((2, len(size)), np.nan)
        kappa[large] = sign_consistency(contrast[:, large], consensus[large])
        consistent = large & (kappa >= eta)
        if stability is None:
            pi[consistent] = site_stability(contrast[:, consistent], consensus[consistent])
        else:
            pi[consistent] = stability[consistent]
    chosen = large & (kappa >= eta) & (pi >= zeta)
    if not chosen.any() and not every_edge:  # only then the others count: what would have been enough is said
        return select_scaffold(contrast, sites, tau_percentile, eta, zeta, stability, sign=sign)
    if not chosen.any():
        thresholds = {"tau_percentile": tau_percentile, "eta": eta, "zeta": zeta}
        raise EmptyScaffoldError(_why_empty(size[present], kappa[present], pi[present], tau, thresholds, sign))
    return Scaffold(np.flatnonzero(chosen), contrast, consensus, kappa, pi, tau, tuple(sites))


def join_scaffolds(parts: Sequence[Scaffold]) -> Scaffold:
    """One scaffold of several contrasts, see above; where no contrast keeps an edge, the strongest of all stands.

    >>> rng = np.random.default_rng(0)
    >>> parts = [select_scaffold(rng.normal(size=(3, 20)), ["A", "B", "C"], eta=0.6) for _ in range(2)]
    >>> bool(set(join_scaffolds(parts).edges) == {*parts[0].edges, *parts[1].edges})
    True
    """
    in_units = np.stack([np.nan_to_num(part.consensus) / max(part.tau, 1e-12) for part in parts])
    edges = edges_of(parts)
    selects = np.stack([np.isin(np.arange(in_units.shape[1]), part.edges) for part in parts])
    strongest = np.where(selects.any(axis=0) & ~selects, -1.0, np.abs(in_units)).argmax(axis=0)
    column = np.arange(in_units.shape[1])
    sites = tuple(sorted({name for part in parts for name in part.sites}))
    whole = all(len(part.stability) for part in parts)
    contrast = np.full((len(sites), len(column)), np.nan) if whole else np.empty(0)
    for c, part in enumerate(parts):
        for row, name in enumerate(part.sites if whole else ()):
            here = strongest == c
            contrast[sites.index(name), here] = part.contrast[row, here] / max(part.tau, 1e-12)

    def of_strongest(values: Sequence[np.ndarray]) -> np.ndarray:
        return np.stack(values)[strongest, column] if whole else np.empty(0)

    kappa, pi = (of_strongest([getattr(part, name) for part in parts]) for name in ("sign_consistency", "stability"))
    return Scaffold(edges, contrast, in_units[strongest, column], kappa, pi, 1.0, sites)


def median_over_sites(contrast: np.ndarray) -> np.ndarray:
    """d_com (M,): median over the sites that have the edge; NaN where none has."""
    ordered = np.sort(contrast, axis=0)  # NaN last
    if len(contrast) and not np.isnan(ordered[-1]).any():
        return 0.5 * (ordered[(len(contrast) - 1) // 2] + ordered[len(contrast) // 2])
    count = np.isfinite(contrast).sum(axis=0)
    column = np.arange(contrast.shape[1])
    low, high = (
        ordered[np.maximum(count - 1, 0) // 2, column],
        ordered[np.minimum(count // 2, len(contrast) - 1), column],
    )
    return 0.5 * (low + high)


def sign_consistency(contrast: np.ndarray, consensus: np.ndarray) -> np.ndarray:
    """kappa (M,): share of the sites that have the edge whose contrast has the sign of the consensus."""
    present = np.isfinite(contrast)
    agrees = (np.sign(contrast) == np.sign(consensus)) & present
    return agrees.sum(axis=0) / np.maximum(present.sum(axis=0), 1)


def distinct_thresholds(n_sites: int, grid: Sequence[float]) -> list[float]:
    """The points of an eta grid that differ in effect: kappa only takes the values k / E.

    >>> distinct_thresholds(9, [0.7, 0.75, 0.8, 0.85, 0.9])
    [0.7, 0.8, 0.9]
    """
    # The small term forgives grid points that equal k / E only up to rounding.
    needed = {int(np.ceil(eta * n_sites - 1e-9)): eta for eta in sorted(grid, reverse=True)}
    return sorted(needed.values())


def _groups(y: np.ndarray, site: np.ndarray, sites: Sequence[str]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for name in sites:
        yield (site == name) & (y == 1), (site == name) & (y == 0)


def _why_empty(
    size: np.ndarray, kappa: np.ndarray, pi: np.ndarray, tau: float, thresholds: dict[str, float], sign: str
) -> str:
    """Name the threshold that emptied the scaffold and the nearest settings that would not.

    ``size`` is |d_com|, or d_com with the sign that is asked for.
    """
    if size.max() <= 0 and sign != "both":
        return f'the scaffold is empty: no edge has a {sign} consensus contrast; sign="both" takes those that there are'
    passes = {"tau_percentile": size > tau, "eta": kappa >= thresholds["eta"], "zeta": pi >= thresholds["zeta"]}
    left_after = np.logical_and.accumulate([np.ones(len(size), dtype=bool), *passes.values()])
    step = int(left_after[1:].any(axis=1).argmin())
    culprit, left = list(passes)[step], left_after[step]
    n_left, setting = int(left.sum()), f"{culprit}={thresholds[culprit]:g}"
    admits = dict[str, float]()
    if culprit == "tau_percentile":
        left = size == size.max()
        if left.all():
            return f"the scaffold is empty: all {n_left} edges have the same contrast, so none stands out"
        # Where tau reaches the largest contrast; any percentile below admits it.
        admits["tau_percentile"] = 100 * (np.abs(size) < size.max()).sum() / (n_left - 1) - 1e-3
    shortfall = np.maximum(thresholds["eta"] - kappa, 0) + np.maximum(thresholds["zeta"] - pi, 0)
    nearest = np.flatnonzero(left)[shortfall[left].argmin()]
    admits |= {"eta": kappa[nearest], "zeta": pi[nearest]}
    remedy = ", ".join(f"{name}={_below(value)}" for name, value in admits.items() if value < thresholds[name])
    return f"the scaffold is empty: none of {n_left} edges passes {setting}; {remedy} would keep at least one"


def _below(value: float) -> str:
    """Three digits, rounded down, so that the setting shown really admits the value."""
    return f"{np.floor(1000 * value) / 1000:g}"


def site_stability(contrast: np.ndarray, consensus: np.ndarray) -> np.ndarray:
    """pi (M,) of the bootstrap over sites, exactly (see the closed form above)."""
    ordered = np.sort(contrast, axis=0)  # NaN last: an edge missing at some sites is bootstrapped over the others
    count = np.isfinite(contrast).sum(axis=0)
    pi = np.zeros(contrast.shape[1])
    for n_sites in np.unique(count[count > 0]):
        columns = count == n_sites
        values, sign = ordered[:n_sites, columns], np.sign(consensus[columns])
        agreement = np.zeros(values.shape[1])
        for (low, high), probability in _middle_ranks(int(n_sites)):
            agreement += probability * (np.sign(values[low] + values[high]) == sign)
        pi[columns] = agreement
    return pi


def hierarchical_stability(
    groups: Sequence[tuple[np.ndarray, np.ndarray]],
    consensus: np.ndarray,
    n_boot: int = 1000,
    random_state: int = 0,
    huber_delta: float | None = None,
    codes: Sequence[tuple[np.ndarray, np.ndarray]] | None = None,
) -> np.ndarray:
    """pi (M,) when sites and, within site and class, people are resampled.

    ``groups`` holds, per site, the residuals of its cases (n1, M) and of its controls (n0, M), and ``codes`` who of
    them belong together and are drawn as one. The robustness weights are those of the full sample, so each resample is
    a weighted mean: one matrix product.
    """
    rng = np.random.default_rng(random_state)
    weighted = [(_weigh(cases, huber_delta), _weigh(controls, huber_delta)) for cases, controls in groups]
    drawn_as = codes or [(np.arange(len(cases)), np.arange(len(controls))) for cases, controls in groups]
    n_sites, n_agreeing = len(groups), np.zeros(len(consensus))
    for block in _blocks(n_boot, 50):
        drawn = rng.integers(n_sites, size=(block, n_sites))
        contrast = np.full((block, n_sites, len(consensus)), np.nan)
        for e, classes in enumerate(weighted):
            boot, slot = np.nonzero(drawn == e)
            parts = zip(classes, drawn_as[e], strict=True)
            high, low = (_resample_means(*part, code, len(boot), rng) for part, code in parts)
            contrast[boot, slot] = high - low
        n_agreeing += (np.sign(np.nanmedian(contrast, axis=1)) == np.sign(consensus)).sum(axis=0)
    return n_agreeing / n_boot


@lru_cache
def _middle_ranks(n_sites: int) -> tuple[tuple[tuple[int, int], float], ...]:
    """Law of the two middle ranks (0-based; equal for odd E) of E draws with replacement from E ordered values."""
    share = np.arange(n_sites + 1) / n_sites
    half = n_sites // 2
    if n_sites % 2:
        return tuple(((a, a), float(p)) for a, p in enumerate(np.diff(binom.sf(half, n_sites, share))))
    # Exactly half of the draws at or below rank a (with one at a) and half at or above rank b > a (with one at b).
    below = np.diff(share**half)
    above = below[::-1]
    lower_middle = np.diff(binom.sf(half - 1, n_sites, share))
    ways, law = comb(n_sites, half), []
    for a in range(n_sites):
        pairs = {b: float(ways * below[a] * above[b]) for b in range(a + 1, n_sites)}
        law.append(((a, a), float(lower_middle[a]) - sum(pairs.values())))
        law += [((a, b), p) for b, p in pairs.items()]
    return tuple(law)


def _weigh(values: np.ndarray, huber_delta: float | None) -> tuple[np.ndarray, np.ndarray]:
    """Robustness weights and weighted values of one class at one site; 0 where missing."""
    weights = huber_regression(np.ones((len(values), 1)), values, delta=huber_delta)[1]
    return weights, weights * np.nan_to_num(values)


def _resample_means(
    weights: np.ndarray, weighted: np.ndarray, code: np.ndarray, n: int, rng: np.random.Generator
) -> np.ndarray:
    groups, member = np.unique(code, return_inverse=True)
    drawn = rng.multinomial(len(groups), np.full(len(groups), 1 / len(groups)), size=n).astype(float)
    counts = drawn[:, member]
    with np.errstate(invalid="ignore", divide="ignore"):
        return (counts @ weighted) / (counts @ weights)


def _blocks(total: int, size: int) -> Iterator[int]:
    for start in range(0, total, size):
        yield min(size, total - start)
