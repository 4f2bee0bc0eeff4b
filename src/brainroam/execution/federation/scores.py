"""The third summary: how a model that never saw a site orders the people of that site, in a few numbers.

The AUC, mean and spread of the scores of each class, and bins of at least k people of one class with their mean score.
No score of a single person is among them.

The threshold of a model is the midpoint of the class means, averaged over sites (`brainroam.core.calibration`), and
follows exactly. Probabilities are learned with half of a bin's people above and half below its mean score, as far as
the spread of the class that lies within bins says: close to those of a fit in one place, but not the same.
"""

from collections.abc import Sequence

import numpy as np
from scipy.special import logit
from sklearn.metrics import roc_auc_score

from brainroam.core.calibration import LEAST_SLOPE, Calibration, calibrate
from brainroam.methods.site_shift import UNLABELLED, SiteShift, shift_of_moments

MOST_BINS = 8


def score_summary(score: np.ndarray, y: np.ndarray, per_bin: int) -> dict[str, np.ndarray]:
    """The arrays of a third summary.

    >>> found = score_summary(np.arange(20.0), np.repeat([0, 1], 10), 5)
    >>> float(found["auc"]), found["bins"].tolist()
    (1.0, [[0.0, 5.0, 2.0], [0.0, 5.0, 7.0], [1.0, 5.0, 12.0], [1.0, 5.0, 17.0]])
    """
    classes = [score[y == label] for label in (0, 1)]
    return {
        "counts": np.array([len(part) for part in classes]),
        "auc": np.array(roc_auc_score(y, score)),
        "mean": np.array([part.mean() for part in classes]),
        "square": np.array([((part - part.mean()) ** 2).sum() for part in classes]),
        "bins": np.array(
            [(label, len(some), some.mean()) for label in (0, 1) for some in _bins(classes[label], per_bin)]
        ),
    }


def calibration_of(summaries: Sequence[dict[str, np.ndarray]]) -> Calibration:
    """Decision and probability from the third summaries of all sites; without bins (noise), from the class means."""
    counts, means = (np.stack([s[name] for s in summaries]) for name in ("counts", "mean"))
    prevalence = float(counts[:, 1].sum() / counts.sum())
    halves = [_halved(s) for s in summaries]
    bins = np.concatenate(halves)
    if not len(bins):
        slope = max(float(np.diff(means, axis=1).mean()), LEAST_SLOPE)  # scores have unit spread
        return Calibration(float(means.mean()), slope, float(logit(prevalence)), prevalence)
    site = np.repeat(np.arange(len(halves)), [len(half) for half in halves])
    return calibrate(bins[:, 2], bins[:, 0], site, bins[:, 1], prevalence)


def shifts_of(summaries: Sequence[dict[str, np.ndarray]]) -> dict[str, SiteShift]:
    """How far controls, or all people, of a new site move its threshold, see `brainroam.methods.site_shift`."""
    counts, means, squares = (np.stack([s[name] for s in summaries]) for name in ("counts", "mean", "square"))
    everybody = counts.sum(axis=1)
    mean = (counts * means).sum(axis=1) / everybody
    square = squares.sum(axis=1) + (counts * (means - mean[:, None]) ** 2).sum(axis=1)
    return {
        "controls": shift_of_moments(counts[:, 0], means[:, 0], squares[:, 0]),
        UNLABELLED: shift_of_moments(everybody, mean, square),
    }


def _halved(summary: dict[str, np.ndarray]) -> np.ndarray:
    """Bins (class, count, score) in two halves, one spread within bins above and below the mean of each."""
    bins, halves = summary["bins"], []
    for label in (0, 1):
        own = bins[bins[:, 0] == label]
        between = own[:, 1] @ (own[:, 2] - summary["mean"][label]) ** 2
        within = np.sqrt(max(summary["square"][label] - between, 0) / summary["counts"][label])
        halves += [own * [1, 0.5, 1] + [0, 0, side * within] for side in (-1, 1)]
    return np.concatenate(halves)


def _bins(score: np.ndarray, per_bin: int) -> list[np.ndarray]:
    """Neighbouring scores in bins of about equal size, none of fewer people than this."""
    return np.array_split(np.sort(score), min(max(len(score) // per_bin, 1), MOST_BINS))
