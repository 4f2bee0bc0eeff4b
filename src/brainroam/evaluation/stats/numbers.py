"""How well a number is predicted at sites never seen: order, level and scale, and against a constant.

Three things may travel, or not. At each held-out site, with truth t and prediction p on the scale the target is learned
on (the logarithm where that is its transform), and both in the target's own units where it says so,

    order   r       correlation of p with t among the people of the site
    level   level   mean p - mean t, in units
    scale   scale   slope of t on p: 1 is right, less means too extreme; none where its standard error is above 1,
                    because the predictions at the site hardly differ
    error   mae     mean |p - t|, in units, beside that of a constant: the mean of the training people
            gain_se standard error of their difference; a site is clearly better than a constant, or worse, where the
                    difference is more than its quantile of 97.5 % (t) and 1 % of the constant's error
            r2      1 - sum (t - p)^2 / sum (t - mean t)^2        within the site: its own mean is known to nobody
            r2_constant                                           the same with the mean of the training people

The within-site figures come first: where sites differ in age, a model that only tells sites apart has a high
correlation over all and none within.

The mean order, its interval and what to expect at the next site are those of `verdict.next_site` on Fisher's z, of
variance 1 / (n - 3), turned back by tanh; the level has the same model in units. Other means over sites have the weight
min(n, 40), after `metrics.RULE`: 20 of either class. Methods are compared by their differences of z at the same sites
(`paired.compare_pairs`).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import ndtri
from scipy.stats import t as t_law

from brainroam.data.target import Target
from brainroam.data.target.order import LEAST, correlations, is_constant
from brainroam.evaluation.splits import UNITS
from brainroam.evaluation.stats import metrics
from brainroam.evaluation.stats.families import check_reference
from brainroam.evaluation.stats.metrics import FULL, mean_over_sites
from brainroam.evaluation.stats.paired import compare_pairs
from brainroam.evaluation.stats.target_comparison import (
    LeftOut,
    TargetComparison,
    compare_families,
    describe_blocks_added,
    describe_order_added,
    describe_pair,
    notes_on_institutions,
)
from brainroam.evaluation.stats.verdict import Verdict, next_site, next_size

METRICS = (
    "r",
    "level",
    "scale",
    "mae",
    "mae_constant",
    "gain_se",
    "r2",
    "r2_constant",
    "sd",
    "error_sd",
    "covered_80",
    "covered_90",
)
RULE = f"mean over sites, each weighted by its people, {2 * FULL} at most"
SMALL = 0.25  # of the spread within sites: a level error below this is called small
VISIBLE = 0.01  # share of a constant's error below which a gain is none, however sure it is
BORROWED = 4  # people whose variance a site borrows from all sites
UNSURE = 1.0  # standard error of a slope beyond which it is not told
EDGE = 0.9999  # correlations are held this far from 1 before Fisher's z is taken


def site_metrics(
    truth: np.ndarray, predicted: np.ndarray, constant: float, target: Target, covered: dict[str, float] | None = None
) -> dict[str, float | int]:
    """Every metric of one held-out site.

    Parameters
    ----------
    truth, predicted : ndarray of shape (N,)
        In the target's own units.
    constant : float
        What a constant would say: the mean of the training people, in units.
    target : Target
    covered : dict, optional
        Shares of people inside their intervals, ``covered_80`` and ``covered_90``.

    Examples
    --------
    >>> found = site_metrics(np.array([1.0, 2, 3, 4]), np.array([2.0, 3, 4, 5]), 2.0, Target.of_kind("x", "number"))
    >>> found["r"], found["level"], found["scale"], found["mae"], round(found["r2"], 2)
    (1.0, 1.0, 1.0, 1.0, 0.2)
    """
    t, p, c = target.forward(truth), target.forward(predicted), float(target.forward(np.array([constant]))[0])
    about = float(np.square(t - t.mean()).sum())
    squared = float(np.square(t - p).sum())
    order, unit = len(t) >= LEAST and about > 0, float(np.std(t))
    gain = np.abs(constant - truth) - np.abs(predicted - truth)
    return {
        "n": len(t),
        "r": float(correlations(t, p, unit)) if order else np.nan,
        "level": float(predicted.mean() - truth.mean()),
        "scale": _scale(t, p),
        "mae": float(np.abs(predicted - truth).mean()),
        "mae_constant": float(np.abs(constant - truth).mean()),
        "gain_se": float(gain.std(ddof=1) / np.sqrt(len(t))) if len(t) > 1 else np.nan,
        "r2": 1 - squared / about if about > 0 else np.nan,
        "r2_constant": 1 - squared / max(float(np.square(t - c).sum()), 1e-300),
        "sd": float(np.std(truth)),
        "error_sd": float(np.std(predicted - truth)),
        **{name: (covered or {}).get(name, np.nan) for name in ("covered_80", "covered_90")},
    }


def _scale(t: np.ndarray, p: np.ndarray) -> float:
    """Slope of t on p, NaN where it is too uncertain to say anything."""
    x, y = p - p.mean(), t - t.mean()
    spread = float(x @ x)
    if len(t) < 3 or is_constant(p, float(np.std(t))):
        return np.nan
    slope = float(x @ y) / spread
    error = np.sqrt(float(np.square(y - slope * x).sum()) / (len(t) - 2) / spread)
    return slope if error <= UNSURE else np.nan


@dataclass(frozen=True)
class NumberVerdict:
    """What held-out sites say of one method: order with its interval and next site, level, scale, and a constant.

    ``off`` is by how much the level of the next site is to be expected off (`level_off`). ``better`` and ``worse`` are
    the sites that are clearly so than a constant, and ``gain_low`` is the lower end of the 95 % interval of the mean
    gain over it (`verdict.next_site`).
    """

    n_sites: int
    r: float
    low: float
    high: float
    next_low: float
    next_high: float
    tau: float
    level: float
    off: float
    scale: float
    mae: float
    mae_constant: float
    r2: float
    r2_constant: float
    better: int
    worse: int
    gain_low: float
    spread: float
    reason: str = ""

    def sentence(self, target: Target) -> str:
        """One plain verdict on order, level and against a constant.

        >>> NumberVerdict(20, .48, .4, .55, .2, .7, .1, 0, 4.0, 1, 3.0, 5.0, .1, .3, 14, 1, 0.9, 6.0).sentence(
        ...     Target.of_kind("age", "number"))
        'Order travels (r .48 within sites, next site .20 to .70); level does not travel: expect to be off by 4 (age); \
better than a constant (mean error 3 against 5; clearly in 14 of 20 sites, clearly worse in 1).'
        """
        r = two_digits(self.r)
        if np.isnan(self.next_low):
            order = f"Order: r {r} within sites; {self.reason}"
        elif self.next_low > 0:
            span = f"{two_digits(self.next_low)} to {two_digits(self.next_high)}"
            order = f"Order travels (r {r} within sites, next site {span})"
        elif self.low > 0:
            order = (
                f"Order travels on average (r {r} within sites, {two_digits(self.low)} to {two_digits(self.high)}) but "
                f"not to every site (next {two_digits(self.next_low)} to {two_digits(self.next_high)})"
            )
        else:
            span = f"{two_digits(self.low)} to {two_digits(self.high)}"
            order = f"Order cannot be told from none (r {r} within sites, {span})"
        small = self.off <= SMALL * self.spread
        # The level of a constant may be right everywhere: it says something of predictions that order people.
        level = "level does not travel" if not small else "level travels" if self.next_low > 0 else "level"
        level += f": expect to be off by {amount(self.off, 2)} ({target.name})"
        sure = self.gain_low > 0 if np.isfinite(self.gain_low) else self.better > self.n_sites / 2
        better = "better than a constant" if sure else "not surely better than a constant"
        if self.mae > (1 - VISIBLE) * self.mae_constant:
            sure, better = False, "no better than a constant"
        errors = f"mean error {amount(self.mae)} against {amount(self.mae_constant)}"
        sites = (
            f"clearly {'better ' * (not sure)}in {self.better} of {self.n_sites} sites, clearly worse in {self.worse}"
        )
        return f"{order}; {level}; {better} ({errors}; {sites})."


def two_digits(value: float) -> str:
    """A correlation, a slope or R2 as it is written: .48, -.05, -10.07.

    >>> two_digits(0.482), two_digits(-0.05), two_digits(-10.07)
    ('.48', '-.05', '-10.07')
    """
    return "-" if np.isnan(value) else re.sub(r"^(-?)0\.", r"\1.", f"{value:.2f}")


def amount(value: float, digits: int = 3, sign: bool = False) -> str:
    """A value in the units of the target with so many significant digits, never as a power of ten.

    >>> amount(0.04931), amount(4.0), amount(65012.0, 2), amount(0.57, sign=True)
    ('0.0493', '4', '65000', '+0.57')
    """
    return np.format_float_positional(value, digits, unique=False, fractional=False, trim="-", sign=sign)


def weights_of(n: np.ndarray) -> np.ndarray:
    """The weight of each site in a mean."""
    return np.minimum(n, 2 * FULL).astype(float)


def fisher_z(r: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Fisher's z of correlations of n people each, and its variance; NaN with three people or fewer.

    >>> fisher_z(np.array([0.0, 1.0]), np.array([7, 2]))
    (array([ 0., nan]), array([0.25,  nan]))
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = np.where(n > 3, 1 / (n - 3), np.nan)
    return np.where(n > 3, np.arctanh(np.clip(r, -EDGE, EDGE)), np.nan), variance


def order_intervals(r: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """95 % interval of the correlation of each site alone, by Fisher's z; NaN with three people or fewer.

    >>> [float(end[0].round(2)) for end in order_intervals(np.array([0.5]), np.array([28]))]
    [0.16, 0.74]
    """
    z, variance = fisher_z(np.asarray(r, dtype=float), np.asarray(n, dtype=float))
    half = ndtri(0.975) * np.sqrt(variance)
    return np.tanh(z - half), np.tanh(z + half)


def order_of_sites(sites: pd.DataFrame) -> Verdict:
    """The mean of Fisher's z over sites (``n``, ``r``) and what to expect at the next; tanh gives correlations."""
    n, r = sites["n"].to_numpy(dtype=float), sites["r"].to_numpy(dtype=float)
    return next_site(*fisher_z(r, n))


def level_of_sites(sites: pd.DataFrame) -> Verdict:
    """The mean error of level over sites (``n``, ``level``, ``error_sd``) and what to expect at the next, in units."""
    return next_site(*_levels(sites))


def level_off(sites: pd.DataFrame) -> float:
    """By how much the level of the next site is to be expected off, in units: `verdict.next_size` of the level errors.

    With too few sites for that their root mean square, in which errors of opposite sign do not cancel.
    """
    off, squares = next_size(*_levels(sites)), np.square(sites["level"].to_numpy(dtype=float))
    return float(np.sqrt(mean_over_sites(squares, weights_of(sites["n"].to_numpy())))) if np.isnan(off) else off


def _levels(sites: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Level errors of sites and their sampling variances."""
    n, level = sites["n"].to_numpy(dtype=float), sites["level"].to_numpy(dtype=float)
    return level, _above_zero(level, variances_of_means(n, n * np.square(sites["error_sd"].to_numpy(dtype=float))))


def variances_of_means(n: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """Sampling variances of means of n people, from the sums of their squared distances from the mean.

    A few people tell their own variance badly, and one not at all: each site counts as if `BORROWED` more people had
    told that of all sites.

    >>> variances_of_means(np.array([1.0, 2.0, 41.0]), np.array([0.0, 0.0, 44.0])).round(2).tolist()
    [1.07, 0.43, 0.03]
    """
    freedom = np.maximum(n - 1, 0)
    of_all = squares.sum() / max(freedom.sum(), 1)
    return np.asarray((squares + BORROWED * of_all) / (freedom + BORROWED) / np.maximum(n, 1))


def _above_zero(values: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """Variances of values in units, some of which may be exact."""
    return np.maximum(variances, 1e-12 * max(float(np.square(values).max(initial=0)), 1e-12))


def verdict(sites: pd.DataFrame) -> NumberVerdict:
    """Judge one method by its metrics at held-out sites, one row each, seeds averaged."""
    n, r = sites["n"].to_numpy(dtype=float), sites["r"].to_numpy(dtype=float)
    order = order_of_sites(sites)
    judged = np.isfinite(r) & (n > 3)
    weight = weights_of(n)
    constant, error = (sites[name].to_numpy(dtype=float) for name in ("mae_constant", "mae"))
    gain, gain_se = constant - error, sites["gain_se"].to_numpy(dtype=float)
    gain_variance = variances_of_means(n, np.nan_to_num(n * (n - 1) * np.square(gain_se)))
    surely = np.maximum(t_law.ppf(0.975, np.maximum(n - 1, 1)) * gain_se, VISIBLE * constant)
    one_value = bool(judged.any() and np.all(r[judged] == 0))
    nothing = "no intervals: the prediction is the same for everybody" if one_value else ""
    ends = [np.nan] * 4 if one_value else np.tanh([order.low, order.high, order.next_low, order.next_high]).tolist()
    low, high, next_low, next_high = ends
    return NumberVerdict(
        n_sites=order.n_sites,
        r=float(np.tanh(order.mean)),
        low=low,
        high=high,
        next_low=next_low,
        next_high=next_high,
        tau=order.tau,
        level=level_of_sites(sites).mean,
        off=level_off(sites),
        scale=float(sites["scale"].median()),
        mae=mean_over_sites(sites["mae"].to_numpy(), weight),
        mae_constant=mean_over_sites(constant, weight),
        r2=mean_over_sites(sites["r2"].to_numpy(), weight),
        r2_constant=mean_over_sites(sites["r2_constant"].to_numpy(), weight),
        better=int((gain > surely)[judged].sum()),
        worse=int((gain < -surely)[judged].sum()),
        gain_low=next_site(gain[judged], _above_zero(gain[judged], gain_variance[judged])).low,
        spread=mean_over_sites(sites["sd"].to_numpy(), weight),
        reason=nothing or order.reason,
    )


def average_seeds(scores: pd.DataFrame) -> pd.DataFrame:
    """As `metrics.average_seeds`, of the metrics of a number."""
    return metrics.average_seeds(scores, METRICS)


class NumberComparison(TargetComparison):
    """The result of `compare_numbers`: ``table`` has the fields of `NumberVerdict`, best order first.

    The ``difference`` of a pair is that of Fisher's z; the rest is as in `TargetComparison`.
    """

    PRINTED = ("r", "next_low", "next_high", "off", "mae", "mae_constant")
    IN_NOTEBOOKS = ("r", "low", "high", "next_low", "next_high", "off", "mae")


def compare_numbers(
    scores: pd.DataFrame,
    predictions: pd.DataFrame,
    target: Target,
    reference: str | None = None,
    all_pairs: bool = False,
) -> NumberComparison:
    """Compare methods that predict a number, from their metrics at the same held-out sites.

    ``predictions`` tell which sites share an institution.

    Examples
    --------
    >>> rows = [("good", "loso", f"S{k}", 0, 40, .5 + .02 * k) for k in range(6)]
    >>> rows += [("poor", "loso", f"S{k}", 0, 40, .1 + .04 * (k % 2)) for k in range(6)]
    >>> scores = pd.DataFrame(rows, columns=["method", "protocol", "site", "seed", "n", "r"])
    >>> scores = scores.assign(level=0.1, sd=1.0, error_sd=1.0, scale=1.0, mae=1.0, mae_constant=1.2, gain_se=0.1)
    >>> scores = scores.assign(r2=0.1, r2_constant=0.2)
    >>> print(compare_numbers(scores, scores, Target.of_kind("x", "number")).sentences[0])
    good orders people better than poor (r .55 against .12 over 6 sites; won 6 of 6; p < 0.001)
    """
    sites = average_seeds(scores)
    check_reference(sites["method"].unique(), reference, all_pairs)
    rows = []
    for (protocol, method), here in sites.groupby(["protocol", "method"]):
        judged = verdict(here)
        rows.append({"protocol": protocol, "method": method, **vars(judged), "verdict": judged.sentence(target)})
    compared = compare_families(sites, rows, "r", _pairs, reference, all_pairs)
    notes = [f"r, differences and errors: within held-out sites; mae: {RULE}", *compared.notes]
    notes += notes_on_institutions(predictions)
    sentences = describe_blocks_added(scores, sites, _pairs, describe_block_order)
    sentences += [_sentence(row, UNITS[str(row.protocol)]) for row in compared.paired.itertuples()]
    return NumberComparison(target, compared.table, compared.paired, sentences, notes, compared.families)


def _pairs(sites: pd.DataFrame, pairs: Sequence[tuple[str, str]]) -> pd.DataFrame:
    """Differences of Fisher's z of these pairs at sites of more than three people, corrected together."""
    return compare_orders(
        sites.pivot(index="site", columns="method", values="r"), sites.groupby("site")["n"].first(), pairs
    )


def compare_orders(r: pd.DataFrame, n: pd.Series, pairs: Sequence[tuple[str, str]]) -> pd.DataFrame:
    """`paired.compare_pairs` of Fisher's z of correlations, a row per site and a column per method; n people each."""
    z = r.apply(lambda of_method: fisher_z(of_method.to_numpy(), n.to_numpy())[0])
    weights = pd.Series(weights_of(n.to_numpy() - 3), index=n.index)  # what a z of so many people is worth
    differences = compare_pairs(z, weights, pairs)

    def r_of(method: str, other: str) -> float:
        both = z[[method, other]].dropna()
        return float(np.tanh(next_site(both[method], 1 / (n[both.index] - 3)).mean))

    pairs_of = list(zip(differences["method"], differences["against"], strict=True))
    return differences.assign(r=[r_of(a, b) for a, b in pairs_of], r_against=[r_of(b, a) for a, b in pairs_of])


def _sentence(row, unit: str) -> str:
    r, other = (row.r_against, row.r) if row.difference < 0 else (row.r, row.r_against)
    return describe_pair(row, unit, "orders people better than", f"r {two_digits(r)} against {two_digits(other)}")


def describe_block_order(row, part: LeftOut, unit: str) -> str:
    """What a block adds, of a row of `compare_orders`."""
    return describe_order_added(row, part, unit, two_digits(row.r), two_digits(row.r_against))
