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

from dataclasses import dataclass

import numpy as np

STRICT, UNLABELLED = "strict", "unlabelled"
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
    """

    centre: float
    ratio: float

    def __call__(self, score: np.ndarray) -> float:
        """The shift of a site that these people are of; 0 for nobody.

        >>> SiteShift(centre=0.0, ratio=0.1)(np.full(10, 2.0))
        1.0
        """
        trust = len(score) * self.ratio
        return float(trust / (1 + trust) * (np.mean(score) - self.centre)) if len(score) else 0.0


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
    within = float(sum(squares) / freedom)
    between = float(means.var(ddof=1) - within * (1 / counts).mean())
    return SiteShift(centre, max(between, 0.0) / within if within > 0 else 0.0)
