"""A new site's own level: how far a few of its people move the threshold there.

Scores of a site lie higher or lower than those of others, by scanner, protocol or population. With a mean score of n
people of the new site (its controls; or everybody, unlabelled), and c the mean over training sites of the same,

    shift = n / (n + k) (mean - c),      k = within / between

where within is the variance of those people's scores about their site's mean, and between the variance of the sites'
true means. So few people, or sites that hardly differ, leave the site at the training average. Everybody's score at the
site moves by the same shift: the threshold and the probabilities change, the order of its people does not.

c and k are learned on scores of training people whose site was held out. Nothing of the new site reaches them.

Protocols: ``strict`` takes nothing from the new site, ``controls-20`` took twenty of its controls (who are not scored),
``unlabelled`` took the scans of everybody who is scored. The last one assumes a share of cases like that of the
training sites: where half of them are patients and the new site is a clinic, its shift is wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t

STRICT, UNLABELLED, LABELLED = "strict", "unlabelled", "labelled"
ADAPTATIONS = (STRICT, "controls", UNLABELLED)
MIN_SITES = 3


def protocol_name(n_controls: int) -> str:
    """The protocol that takes so many controls of the new site.

    >>> protocol_name(20), protocol_name(0)
    ('controls-20', 'strict')
    """
    return f"controls-{n_controls}" if n_controls else STRICT


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
