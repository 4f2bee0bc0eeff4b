"""Measures of held-out sites, from which the next one is forecast, and shifts of a new site's level.

**Measures of a site**, each with its sampling variance. Both classes count alike, so that none moves with the share of
cases:

    balanced_acc   mean of sensitivity and specificity at the threshold
    level          mean probability of cases and that of controls, averaged, minus 1/2: positive where too many are
                   called cases; probabilities are those for a prevalence of 1/2
    brier          mean squared error of these probabilities

Each is the mean of two class means, so with s_1^2, s_0^2 the variances over the m cases and n controls,

    variance = (s_1^2 / m + s_0^2 / n) / 4

where shares of people called right are shrunk by one of each kind: no variance is zero because a site is small.

**A new site's own level**: how far a few of its people move the threshold there. Scores of a site lie higher or lower
than those of others, by scanner, protocol or population. With a mean score of n people of the new site (its
controls; or everybody, unlabelled), and c the mean over training sites of the same,

    shift = n / (n + k) (mean - c),      k = within / between

where within is the variance of those people's scores about their site's mean, and between the variance of the sites'
true means. So few people, or sites that hardly differ, leave the site at the training average. Everybody's score at the
site moves by the same shift: the threshold and the probabilities change, the order of its people does not.

c and k are learned on scores of training people whose site was held out. Nothing of the new site reaches them.

Of a number, a few people of the site whose number is known mend level and scale. With p their predictions and t the
truth,

    level  = n / (n + k) (mean (t - p) - c)
    scale  = 1 + S / (S + k') (b - 1),    b the slope of t on p, S = sum (p - mean p)^2, k' = residual / between
    mended = mean p + level + scale (p - mean p)

with k' the variance of t about the line of a site over the variance of the sites' true slopes. Scale is never below
`LEAST_SCALE`, so the order of people stays.

Protocols: ``strict`` takes nothing from the new site, ``controls-20`` took twenty of its controls (who are not scored),
``unlabelled`` took the scans of everybody who is scored, ``labelled-20`` the number of twenty of its people, who are
not predicted. ``unlabelled`` assumes a share of cases like that of the
training sites: where half of them are patients and the new site is a clinic, its shift is wrong.
"""

from collections.abc import Collection, Sequence
from dataclasses import astuple, dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import t

from brainroam.data.target.calibration import Calibration
from brainroam.data.target.order import auc
from brainroam.errors import UsageError

MEASURES = ("balanced_acc", "level", "brier")
INNER_SITES = ("site", "n_cases", "n_controls", "auc", *(f"{name}{end}" for name in MEASURES for end in ("", "_var")))


def site_measures(y: np.ndarray, score: np.ndarray, called: np.ndarray, half: np.ndarray) -> dict[str, float]:
    """AUC and `MEASURES` of one site, with ``<name>_var``; NaN where a class is absent.

    Parameters
    ----------
    y : ndarray of shape (n,)
        1 for cases, 0 for controls.
    score : ndarray of shape (n,)
    called : ndarray of shape (n,)
        1 for people who are called cases.
    half : ndarray of shape (n,)
        Probabilities for a prevalence of 1/2.

    Examples
    --------
    >>> found = site_measures(np.array([0, 0, 1, 1]), np.arange(4.0), np.array([0, 1, 1, 1]), np.full(4, 0.6))
    >>> found["auc"], found["balanced_acc"], round(found["level"], 2), round(found["brier"], 2)
    (1.0, 0.75, 0.1, 0.26)
    """
    right = np.asarray(called) == y
    of_people = {"balanced_acc": right.astype(float), "level": half - 0.5, "brier": (half - y) ** 2}
    measures = {"n_cases": int((y == 1).sum()), "n_controls": int((y == 0).sum()), "auc": auc(y, score)}
    for name, values in of_people.items():
        classes = [values[y == label] for label in (0, 1)]
        if min(map(len, classes)) == 0:
            measures |= {name: np.nan, f"{name}_var": np.nan}
            continue
        measures[name] = float(np.mean([part.mean() for part in classes]))
        measures[f"{name}_var"] = sum(_variance(part, name == "balanced_acc") / len(part) for part in classes) / 4
    return measures


def _variance(values: np.ndarray, shares: bool) -> float:
    """Variance of one person's value; with one person the largest that a value between 0 and 1 can have."""
    if shares:
        p = (values.sum() + 1) / (len(values) + 2)
        return float(p * (1 - p))
    return float(values.var(ddof=1)) if len(values) > 1 else 0.25


def inner_sites(score: np.ndarray, y: np.ndarray, site: np.ndarray, calibration: Calibration) -> pd.DataFrame:
    """`site_measures` of out-of-site scores at each inner site with both classes.

    The decision at a site uses the threshold of the *other* sites, since that is what a next site gets.
    """
    people = pd.DataFrame({"site": site, "y": y, "score": score}).dropna(subset="score")
    parts = [(name, here) for name, here in people.groupby("site") if here["y"].nunique() == 2]
    middles = np.array([here.groupby("y")["score"].mean().mean() for _, here in parts])
    rows = []
    for k, (name, here) in enumerate(parts):
        labels, scores = here["y"].to_numpy(), here["score"].to_numpy()
        threshold = np.delete(middles, k).mean() if len(parts) > 1 else calibration.threshold
        called, half = (scores >= threshold).astype(int), calibration(scores, 0.5)
        rows.append({"site": name, **site_measures(labels, scores, called, half)})
    return pd.DataFrame(rows, columns=list(INNER_SITES))


STRICT, CONTROLS, UNLABELLED, LABELLED, SCALE = "strict", "controls", "unlabelled", "labelled", "scale"
LEAST_SCALE = 0.1
NOTHING_TO_MEND = "the training sites do not show that levels or scales differ (three inner held-out sites are needed)"
MIN_SITES = 3
FAR = 0.995  # quantile beyond which, on either side, 1 % of sites lie


def protocol_name(n_used: int, who: str = CONTROLS) -> str:
    """The protocol that takes so many controls of the new site, or people with a known number.

    >>> protocol_name(20), protocol_name(0), protocol_name(5, LABELLED)
    ('controls-20', 'strict', 'labelled-5')
    """
    return f"{who}-{n_used}" if n_used else STRICT


def require_protocol(adapt: str, controls: Collection[str]) -> None:
    """Refuse ways to move the threshold of classes that do not exist, or two at once."""
    if adapt not in (STRICT, UNLABELLED):
        raise UsageError(f"adapt is {STRICT} or {UNLABELLED}, not {adapt!r}; controls are named one by one")
    if adapt == UNLABELLED and len(controls):
        raise UsageError("controls of the new site and adapt=unlabelled are two ways to move a threshold: choose one")


@dataclass(frozen=True)
class SiteShift:
    """The distribution of the levels of training sites.

    Attributes
    ----------
    centre : float
        c, the mean of the sites' means.
    ratio : float
        1 / k: between over within; 0 where the sites do not differ more than chance.
    within : float
        Variance of people's scores about their site's mean.
    error : float
        Variance of c.
    n_sites : int
        How many sites said so.
    """

    centre: float
    ratio: float
    within: float = 0.0
    error: float = 0.0
    n_sites: int = 0

    @property
    def row(self) -> tuple[float, ...]:
        """Its fields in order, for a file."""
        return astuple(self)

    @classmethod
    def of_row(cls, row: Sequence[float]) -> "SiteShift":
        """From its fields in order, as in a file."""
        centre, ratio, within, error, n_sites = map(float, row)
        return cls(centre, ratio, within, error, int(n_sites))

    def __call__(self, score: np.ndarray) -> float:
        """The shift of the site of these people; 0 without people.

        >>> SiteShift(centre=0.0, ratio=0.1)(np.full(10, 2.0))
        1.0
        """
        trust = len(score) * self.ratio
        return float(trust / (1 + trust) * (np.mean(score) - self.centre)) if len(score) else 0.0

    def is_far(self, score: np.ndarray) -> bool:
        """Whether the mean score of these people of one site lies where 99 % of sites do not.

        The mean of n people of a next site is t distributed about c, with E - 1 degrees of freedom and the variance
        between + within / n + error. False where fewer than three sites, or nobody, say anything.

        >>> levels = SiteShift(centre=0.0, ratio=0.1, within=1.0, error=0.02, n_sites=10)
        >>> levels.is_far(np.full(20, 0.5)), levels.is_far(np.full(20, 2.0))
        (False, True)
        """
        if self.n_sites < MIN_SITES or not len(score) or self.within <= 0:
            return False
        variance = self.within * (self.ratio + 1 / len(score)) + self.error
        return bool(abs(np.mean(score) - self.centre) > t.ppf(FAR, self.n_sites - 1) * np.sqrt(variance))


def learn_shift(score: np.ndarray, site: np.ndarray, who: np.ndarray) -> SiteShift:
    """Learn c and k from scores by fits without the person's site (NaN where there is none).

    Parameters
    ----------
    score : ndarray of shape (n,)
    site : ndarray of shape (n,)
    who : boolean ndarray of shape (n,)
        Whose scores count: controls, or everybody.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> site = np.repeat(np.arange(500), 20)
    >>> score = 0.5 * rng.normal(size=500)[site] + rng.normal(size=len(site))
    >>> round(1 / learn_shift(score, site, np.ones(len(site), dtype=bool)).ratio)  # 1 / 0.5 ** 2
    4
    """
    here = np.asarray(who) & np.isfinite(score)
    parts = [score[here & (site == name)] for name in np.unique(site[here])]
    means = np.array([part.mean() for part in parts])
    return shift_of_moments(
        np.array([len(part) for part in parts]), means, np.array([((part - part.mean()) ** 2).sum() for part in parts])
    )


def shift_of_moments(counts: np.ndarray, means: np.ndarray, squares: np.ndarray) -> SiteShift:
    """`learn_shift` from each site's number of people, mean score and sum of squares about that mean."""
    centre = float(means.mean()) if len(means) else 0.0
    freedom = counts.sum() - len(counts)
    if len(counts) < MIN_SITES or freedom < 1:
        return SiteShift(centre, 0.0)
    within, scatter = float(sum(squares) / freedom), float(means.var(ddof=1))
    between = max(scatter - within * float((1 / counts).mean()), 0.0)
    return SiteShift(centre, between / within if within > 0 else 0.0, within, scatter / len(counts), len(counts))


@dataclass(frozen=True)
class ClassShift:
    """A `SiteShift` for the score of each of several classes; calling it gives the shifts (K,) of a site."""

    of_class: tuple[SiteShift, ...]

    @property
    def row(self) -> list[tuple[float, ...]]:
        """Those of each class."""
        return [shift.row for shift in self.of_class]

    def __call__(self, score: np.ndarray) -> np.ndarray:
        """From the scores (n, K) of some people of the site."""
        return np.array([shift(column) for shift, column in zip(self.of_class, score.T, strict=True)])


def learn_class_shifts(score: np.ndarray, site: np.ndarray, who: np.ndarray) -> ClassShift:
    """`learn_shift` of each column of scores (n, K).

    >>> found = learn_class_shifts(np.zeros((4, 3)), np.array(["A", "A", "B", "B"]), np.ones(4, dtype=bool))
    >>> found(np.ones((2, 3))).tolist()
    [0.0, 0.0, 0.0]
    """
    return ClassShift(tuple(learn_shift(column, site, who) for column in score.T))


def learn_scale(prediction: np.ndarray, t: np.ndarray, site: np.ndarray) -> SiteShift:
    """1 / k' as the ``ratio``, from predictions by fits without the person's site (NaN where there is none).

    The variance between slopes is that of moments (DerSimonian and Laird), as in `brainroam.core.site_fit`.

    >>> rng = np.random.default_rng(0)
    >>> site, p = np.repeat(np.arange(400), 30), rng.normal(size=12000)
    >>> t = (1 + 0.5 * rng.normal(size=400))[site] * p + rng.normal(size=12000)
    >>> round(learn_scale(p, t, site).ratio, 1)  # 0.5 ** 2
    0.2
    """
    known = np.isfinite(prediction)
    parts = [(prediction[here], t[here]) for here in (known & (site == name) for name in np.unique(site[known]))]
    return scale_of_lines([_line(p, truth) for p, truth in parts if len(p) > MIN_SITES - 1 and np.ptp(p) > 0])


class SiteLine(NamedTuple):
    """The line of t on p at one site."""

    slope: float
    size: float  # sum of squares of p about its mean
    squares: float  # of what is left of t
    freedom: int


def scale_of_lines(lines: Sequence[SiteLine]) -> SiteShift:
    """`learn_scale` from the line of each site."""
    if len(lines) < MIN_SITES:
        return SiteShift(1.0, 0.0)
    slope, size, squares, freedom = np.array(lines).T
    residual = squares.sum() / freedom.sum()
    if residual <= 0:
        return SiteShift(1.0, 0.0)
    w = size / residual
    mean = w @ slope / w.sum()
    between = max((w @ (slope - mean) ** 2 - (len(w) - 1)) / (w.sum() - w @ w / w.sum()), 0.0)
    return SiteShift(1.0, float(between / residual), float(residual), 0.0, len(w))


def _line(p: np.ndarray, t: np.ndarray) -> SiteLine:
    x, y = p - p.mean(), t - t.mean()
    size = float(x @ x)
    slope = float(x @ y) / size
    return SiteLine(slope, size, float(np.square(y - slope * x).sum()), len(p) - 2)


def mend(
    prediction: np.ndarray, known: np.ndarray, truth: np.ndarray, level: SiteShift, scale: SiteShift
) -> np.ndarray:
    """Predictions at a site, corrected by predictions of others there (``known``) and their true numbers.

    >>> sure = SiteShift(0.0, 1e9), SiteShift(1.0, 1e9)
    >>> mend(np.array([0.0, 3.0]), np.arange(5.0), 10 + 2 * np.arange(5.0), *sure).round(3).tolist()
    [10.0, 16.0]
    """
    if not len(known):
        return prediction
    middle, steep = float(known.mean()), 1.0
    if len(known) > MIN_SITES - 1 and np.ptp(known) > 0:
        line = _line(known, truth)
        trust = line.size * scale.ratio
        steep = max(1 + trust / (1 + trust) * (line.slope - 1), LEAST_SCALE)
    return middle + level(truth - known) + steep * (prediction - middle)
