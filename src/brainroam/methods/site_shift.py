"""A new site's own level: how far a few of its people move the threshold there.

Scores of a site lie higher or lower than those of others, by scanner, protocol or population. With a mean score of n
people of the new site (its controls; or everybody, unlabelled), and c the mean over training sites of the same,

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

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t

STRICT, UNLABELLED, LABELLED, SCALE = "strict", "unlabelled", "labelled", "scale"
LEAST_SCALE = 0.1
ADAPTATIONS = (STRICT, "controls", UNLABELLED)
MIN_SITES = 3


def protocol_name(n_used: int, who: str = "controls") -> str:
    """The protocol that takes so many controls of the new site, or people with a known number.

    >>> protocol_name(20), protocol_name(0), protocol_name(5, LABELLED)
    ('controls-20', 'strict', 'labelled-5')
    """
    return f"{who}-{n_used}" if n_used else STRICT


@dataclass(frozen=True)
class SiteShift:
    """What training sites say of their levels.

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

    @classmethod
    def of_row(cls, row: Sequence[float]) -> "SiteShift":
        """From its fields in order, as they stand in a file."""
        centre, ratio, within, error, n_sites = map(float, row)
        return cls(centre, ratio, within, error, int(n_sites))

    def __call__(self, score: np.ndarray) -> float:
        """The shift of a site that these people are of; 0 for nobody.

        >>> SiteShift(centre=0.0, ratio=0.1)(np.full(10, 2.0))
        1.0
        """
        trust = len(score) * self.ratio
        return float(trust / (1 + trust) * (np.mean(score) - self.centre)) if len(score) else 0.0

    def is_far(self, score: np.ndarray, level: float = 0.99) -> bool:
        """Whether the mean score of these people of one site lies where a share ``level`` of sites does not.

        The mean of n people of a next site is t distributed about c, with E - 1 degrees of freedom and the variance
        between + within / n + error. False where fewer than three sites, or nobody, say anything.

        >>> levels = SiteShift(centre=0.0, ratio=0.1, within=1.0, error=0.02, n_sites=10)
        >>> levels.is_far(np.full(20, 0.5)), levels.is_far(np.full(20, 2.0))
        (False, True)
        """
        if self.n_sites < MIN_SITES or not len(score) or self.within <= 0:
            return False
        variance = self.within * (self.ratio + 1 / len(score)) + self.error
        return bool(abs(np.mean(score) - self.centre) > t.ppf((1 + level) / 2, self.n_sites - 1) * np.sqrt(variance))


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
    """What `learn_shift` gives, from each site's number of people, mean score and sum of squares about that mean."""
    centre = float(means.mean()) if len(means) else 0.0
    freedom = counts.sum() - len(counts)
    if len(counts) < MIN_SITES or freedom < 1:
        return SiteShift(centre, 0.0)
    within, scatter = float(sum(squares) / freedom), float(means.var(ddof=1))
    between = max(scatter - within * float((1 / counts).mean()), 0.0)
    return SiteShift(centre, between / within if within > 0 else 0.0, within, scatter / len(counts), len(counts))


def learn_scale(prediction: np.ndarray, t: np.ndarray, site: np.ndarray) -> SiteShift:
    """1 / k' as the ``ratio``, from predictions by fits without the person's site (NaN where there is none).

    The variance between slopes is that of moments (DerSimonian and Laird), as in `brainroam.core.slopes`.

    >>> rng = np.random.default_rng(0)
    >>> site, p = np.repeat(np.arange(400), 30), rng.normal(size=12000)
    >>> t = (1 + 0.5 * rng.normal(size=400))[site] * p + rng.normal(size=12000)
    >>> round(learn_scale(p, t, site).ratio, 1)  # 0.5 ** 2
    0.2
    """
    known = np.isfinite(prediction)
    parts = [(prediction[here], t[here]) for here in (known & (site == name) for name in np.unique(site[known]))]
    lines = [_line(p, truth) for p, truth in parts if len(p) > MIN_SITES - 1 and np.ptp(p) > 0]
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


def _line(p: np.ndarray, t: np.ndarray) -> tuple[float, float, float, int]:
    """Slope of t on p, sum of squares of p, of what is left of t, and its degrees of freedom."""
    x, y = p - p.mean(), t - t.mean()
    size = float(x @ x)
    slope = float(x @ y) / size
    return slope, size, float(np.square(y - slope * x).sum()), len(p) - 2


def mended(
    prediction: np.ndarray, known: np.ndarray, truth: np.ndarray, level: SiteShift, scale: SiteShift
) -> np.ndarray:
    """Predictions of people of a site, mended by those of others there (``known``) and what is true of these.

    >>> sure = SiteShift(0.0, 1e9), SiteShift(1.0, 1e9)
    >>> mended(np.array([0.0, 3.0]), np.arange(5.0), 10 + 2 * np.arange(5.0), *sure).round(3).tolist()
    [10.0, 16.0]
    """
    if not len(known):
        return prediction
    middle, steep = float(known.mean()), 1.0
    if len(known) > MIN_SITES - 1 and np.ptp(known) > 0:
        slope, size, _, _ = _line(known, truth)
        trust = size * scale.ratio
        steep = max(1 + trust / (1 + trust) * (slope - 1), LEAST_SCALE)
    return middle + level(truth - known) + steep * (prediction - middle)
