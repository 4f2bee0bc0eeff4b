"""Clipping and noise: summaries that promise something about every single person (differential privacy).

Two sites that differ in one person send summaries that can hardly be told apart: with probability at least 1 - delta
no observation is more than exp(epsilon) times likelier under one than under the other. Each person's vector of edges is
cut to a length that does not depend on the data (root mean square over edges at most ``clip``), so that one person can
move a sum by 2 C, and Gaussian noise of the smallest sufficient size is added:

    delta = Phi(D / (2 s) - epsilon s / D) - exp(epsilon) Phi(-D / (2 s) - epsilon s / D)

for a statistic that one person can move by D (Balle and Wang 2018). The budget is that of one file; over three rounds
epsilons and deltas add up. Numbers of people are not protected. Slopes of covariates are not sent: robust regressions
have no such bound. So all sites leave covariates out (``--covariates none``).

References
----------
Balle and Wang (2018), Improving the Gaussian mechanism for differential privacy, ICML, PMLR 80, 394-403.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from brainroam.core.site_fit import SiteFit
from brainroam.core.site_summary import SiteProducts, SiteSummary
from brainroam.errors import UsageError

SCORE_CLIP = 4.0  # scores have unit spread over the training people


@dataclass(frozen=True)
class Protection:
    """A budget for one file.

    Parameters
    ----------
    epsilon, delta : float
    clip : float
        Root mean square over edges beyond which a person's values are scaled down. The default leaves nearly everybody
        of ABIDE as they are (log edges of AAL, about the mean of all sites).
    """

    epsilon: float
    delta: float = 1e-5
    clip: float = 0.1

    def __post_init__(self) -> None:
        if not (0 < self.epsilon < np.inf and 0 < self.delta < 1 and 0 < self.clip < np.inf):
            raise UsageError("a budget needs epsilon and clip above 0, and delta between 0 and 1")

    def summary(self, edges: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> SiteSummary:
        """The first summary: noisy means of the cases and of the controls, who are different people."""
        values, length = self._clip(edges)
        counts = np.array([(y == label).sum() for label in (0, 1)])
        means = np.stack(
            [
                values[y == label].mean(axis=0) + self._noise(2 * length / n, edges.shape[1], rng)
                for label, n in enumerate(counts)
            ]
        )
        fit, nothing = SiteFit(edges.shape[1], 0, len(y)), np.zeros((2, 0))
        fit.intercept = counts @ means / len(y)
        return SiteSummary(counts, nothing, np.zeros((0, 0)), fit, means[1] - means[0])

    def products(
        self, edges: np.ndarray, values: np.ndarray, centre: np.ndarray, y: np.ndarray, rng: np.random.Generator
    ) -> SiteProducts:
        """The second: noisy sums and products about a centre that all sites gave, half of the budget each.

        The site's mean is taken out of the products after the noise, which discloses nothing more.
        """
        half, (known, length) = Protection(self.epsilon / 2, self.delta / 2, self.clip), self._clip(values - centre)
        size, n = len(edges), len(y)
        sums = np.stack([known[y == label].sum(axis=0) + half._noise(2 * length, size, rng) for label in (0, 1)])
        # One person moves the products by at most sqrt(2) C^2; off the diagonal each number stands twice in that norm.
        noise = np.triu(half._noise(np.sqrt(2) * length**2, (size, size), rng))
        products = known.T @ known + noise + np.triu(noise, 1).T
        mean = sums.sum(axis=0) / n
        counts = np.array([[(y == label).sum()] for label in (0, 1)])
        values, vectors = np.linalg.eigh(products - n * np.outer(mean, mean))
        positive = values > 0  # noise gives products directions that no residuals have
        factor = np.sqrt(values[positive])[:, None] * vectors[:, positive].T
        return SiteProducts(edges, factor, np.zeros((0, size)), sums - counts * mean)

    def scores(
        self, auc: float, score: np.ndarray, y: np.ndarray, rng: np.random.Generator
    ) -> tuple[float, np.ndarray]:
        """The third: noisy AUC, which one person can move by one over the smaller class, and noisy mean scores."""
        half = Protection(self.epsilon / 2, self.delta / 2, self.clip)
        counts = [int((y == label).sum()) for label in (0, 1)]
        noisy = auc + float(half._noise(1 / min(counts), 1, rng)[0])
        short = np.clip(score, -SCORE_CLIP, SCORE_CLIP)
        means = [short[y == c].mean() + half._noise(2 * SCORE_CLIP / counts[c], 1, rng)[0] for c in (0, 1)]
        return float(np.clip(noisy, 0, 1)), np.array(means)

    def _clip(self, values: np.ndarray) -> tuple[np.ndarray, float]:
        """Values of at most this length (0 where missing), and the length."""
        finite, most = np.nan_to_num(values), self.clip * np.sqrt(values.shape[1])
        length = np.linalg.norm(finite, axis=1, keepdims=True)
        return finite * np.minimum(1, most / np.maximum(length, 1e-300)), float(most)

    def _noise(self, moved_by: float, shape: int | tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        return rng.normal(0, moved_by * noise_multiplier(self.epsilon, self.delta), shape)


def noise_multiplier(epsilon: float, delta: float) -> float:
    """The smallest s / D of the equation above.

    >>> round(noise_multiplier(1.0, 1e-5), 2), round(noise_multiplier(8.0, 1e-5), 2)
    (3.73, 0.6)
    """

    def excess(log_ratio: float) -> float:
        ratio = np.exp(log_ratio)
        upper, lower = 1 / (2 * ratio) - epsilon * ratio, -1 / (2 * ratio) - epsilon * ratio
        return float(ndtr(upper) - np.exp(epsilon + log_ndtr(lower)) - delta)

    return float(np.exp(brentq(excess, -25, 20)))
