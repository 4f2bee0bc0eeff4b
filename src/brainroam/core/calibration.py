"""Decision threshold and probability, learned on scores of people whose site was held out.

    p(score) = 1 / (1 + exp(-slope (score - threshold)))

so that p >= 0.5 is the decision. The threshold is the midpoint of the class means, averaged over sites: it does not
move with the class balance of any site. The slope minimises the log loss given that threshold, with one virtual person
of each class one spread on the wrong side, which keeps it finite.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from brainroam.errors import DataError


@dataclass(frozen=True)
class Calibration:
    """A frozen threshold and slope; calling it turns scores into probabilities of the condition."""

    threshold: float
    slope: float

    def __call__(self, score: np.ndarray) -> np.ndarray:
        """Probability of the condition."""
        return 1 / (1 + np.exp(-np.clip(self.slope * (score - self.threshold), -50, 50)))


def calibrate(score: np.ndarray, y: np.ndarray, site: np.ndarray) -> Calibration:
    """Learn the threshold and the slope; people without a score (NaN) are left out.

    >>> calibrate(np.array([0.0, 1.0, 2.0, 3.0]), np.array([0, 0, 1, 1]), np.array(["A"] * 4)).threshold
    1.5
    """
    known = np.isfinite(score)
    score, y, site = score[known], np.asarray(y)[known], np.asarray(site)[known]
    classes = [(score[(site == name) & (y == 1)], score[(site == name) & (y == 0)]) for name in np.unique(site)]
    middles = [(cases.mean() + controls.mean()) / 2 for cases, controls in classes if len(cases) and len(controls)]
    if not middles:
        raise DataError("no held-out training site has both classes, so no threshold can be learned")
    return calibrate_counted(float(np.mean(middles)), float(np.std(score)), score, y, np.ones(len(score)))


def calibrate_counted(
    threshold: float, spread: float, score: np.ndarray, y: np.ndarray, count: np.ndarray
) -> Calibration:
    """Learn the slope given the threshold and the spread of all scores; each score stands for so many people."""
    spread = spread or 1.0
    margin = (2 * y - 1) * (score - threshold) / spread

    def loss(log_slope: float) -> float:
        slope = np.exp(log_slope)
        return float(count @ np.logaddexp(0, -slope * margin) + 2 * np.logaddexp(0, slope))

    best = minimize_scalar(loss, bounds=(-6, 4), method="bounded")
    return Calibration(threshold, float(np.exp(best.x)) / spread)
