"""The third summary: how a model that never saw a site orders the people of that site, in a few numbers.

The AUC, mean and spread of the scores of each class, and bins of at least k people of one class with their mean score.
No score of a single person is among them.

Of a number: means, sums of squares and product of score and number, from which correlation, calibration, levels and
scales follow exactly. Of several classes: the AUC of each, and means and products of the scores of each class; the AUCs
are exact, and the calibration is that of made-up people with these means and products.

Of several blocks, the AUC or correlation of the same people's scores without each block stands beside that of all.

The threshold of a model is the midpoint of the class means, averaged over sites (`data/target/calibration.py`), and
follows exactly. Probabilities are learned with half of a bin's people above and half below its mean score, as far as
the spread of the class that lies within bins says: close to those of a fit in one place, but not the same.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.special import logit
from sklearn.metrics import roc_auc_score

from brainroam.data.target import Target
from brainroam.data.target.calibration import (
    LEAST_SLOPE,
    Calibration,
    ClassCalibration,
    NumberCalibration,
    calibrate,
    calibrate_classes,
)
from brainroam.data.target.order import class_aucs, macro_variances
from brainroam.data.target.shifts import (
    LABELLED,
    SCALE,
    UNLABELLED,
    ClassShift,
    SiteLine,
    SiteShift,
    scale_of_lines,
    shift_of_moments,
)

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
    halves = [_half_bins(s) for s in summaries]
    bins = np.concatenate(halves)
    if not len(bins):
        slope = max(float(np.diff(means, axis=1).mean()), LEAST_SLOPE)  # scores have unit spread
        return Calibration(float(means.mean()), slope, float(logit(prevalence)), prevalence)
    site = np.repeat(np.arange(len(halves)), [len(half) for half in halves])
    return calibrate(bins[:, 2], bins[:, 0], site, bins[:, 1], prevalence)


def shifts_of(summaries: Sequence[dict[str, np.ndarray]]) -> dict[str, SiteShift]:
    """How far controls, or all people, of a new site move its threshold, see `brainroam.data.target.shifts`."""
    counts, means, squares = (np.stack([s[name] for s in summaries]) for name in ("counts", "mean", "square"))
    everybody = counts.sum(axis=1)
    mean = (counts * means).sum(axis=1) / everybody
    square = squares.sum(axis=1) + (counts * (means - mean[:, None]) ** 2).sum(axis=1)
    return {
        "controls": shift_of_moments(counts[:, 0], means[:, 0], squares[:, 0]),
        UNLABELLED: shift_of_moments(everybody, mean, square),
    }


def number_summary(score: np.ndarray, t: np.ndarray) -> dict[str, np.ndarray]:
    """The arrays of a third summary of a number.

    >>> found = number_summary(np.array([0.0, 1, 2]), np.array([1.0, 3, 5]))
    >>> found["mean"].tolist(), found["moments"].tolist()
    ([1.0, 3.0], [[2.0, 4.0], [4.0, 8.0]])
    """
    both = np.stack([score, t])
    centred = both - both.mean(axis=1, keepdims=True)
    return {"counts": np.array([len(t)]), "mean": both.mean(axis=1), "moments": centred @ centred.T}


def order_of(summary: Mapping[str, np.ndarray]) -> float:
    """The correlation within a site."""
    (ss, st), (_, tt) = summary["moments"]
    return float(st / np.sqrt(ss * tt)) if ss > 0 and tt > 0 else 0.0


def calibration_of_numbers(summaries: Sequence[Mapping[str, np.ndarray]]) -> NumberCalibration:
    """What `calibrate_number` gives of the people of all sites."""
    n = np.array([int(s["counts"][0]) for s in summaries], dtype=float)
    means = np.stack([s["mean"] for s in summaries])
    centre = n @ means / n.sum()
    moments = sum(s["moments"] for s in summaries) + (n[:, None] * (means - centre)).T @ (means - centre)
    (ss, st), (_, tt) = moments
    if not ss > 0:
        return NumberCalibration(float(centre[1]), 0.0, float(centre[1]))
    slope = max(float(st / ss), LEAST_SLOPE * float(np.sqrt(tt / ss)))
    return NumberCalibration(float(centre[1] - slope * centre[0]), slope, float(centre[1]))


def shifts_of_numbers(summaries: Sequence[Mapping[str, np.ndarray]], line: NumberCalibration) -> dict[str, SiteShift]:
    """How far people with a known number move level and scale of a new site, see `brainroam.data.target.shifts`."""
    b, levels, lines = line.slope, [], []
    for s in summaries:
        (ss, st), (_, tt) = s["moments"]
        n = int(s["counts"][0])
        levels.append((n, s["mean"][1] - line.intercept - b * s["mean"][0], tt - 2 * b * st + b**2 * ss))
        if ss > 0 and b > 0:
            lines.append(SiteLine(float(st / (b * ss)), float(b**2 * ss), float(tt - st**2 / ss), n - 2))
    return {LABELLED: shift_of_moments(*np.array(levels).T), SCALE: scale_of_lines(lines)}


def class_summary(score: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    """The arrays of a third summary of several classes: scores (n, K) and indicators (n, K); AUC 0.5 of absent ones."""
    code, counts = y.argmax(axis=1), y.sum(axis=0)
    parts = [score[code == k] if count else np.zeros((1, y.shape[1])) for k, count in enumerate(counts)]
    means = np.stack([part.mean(axis=0) for part in parts])
    return {
        "counts": counts,
        "auc": np.nan_to_num(class_aucs(code, score), nan=0.5),
        "auc_variance": np.array(macro_variances(code, score)),
        "mean": means,
        "scatter": np.stack([(part - mean).T @ (part - mean) for part, mean in zip(parts, means, strict=True)]),
    }


def calibration_of_classes(summaries: Sequence[Mapping[str, np.ndarray]]) -> ClassCalibration:
    """Decision and probabilities from made-up people who have the means and products of those of each site and class.

    >>> rng = np.random.default_rng(0)
    >>> y = np.eye(3, dtype=int)[np.tile([0, 1, 2], 40)]
    >>> sites = [class_summary(y + rng.normal(size=y.shape), y) for _ in range(6)]
    >>> bool((calibration_of_classes(sites).slope > 0.5).all())
    True
    """
    rng, scores, codes, sites = np.random.default_rng(0), [], [], []
    for place, s in enumerate(summaries):
        for k, n in enumerate(s["counts"].tolist()):
            if n:
                scores.append(s["mean"][k] + _draw_with_covariance(n, s["scatter"][k] / n, rng))
                codes += [k] * n
                sites += [place] * n
    return calibrate_classes(np.concatenate(scores), np.array(codes), np.array(sites))


def shifts_of_classes(summaries: Sequence[Mapping[str, np.ndarray]], target: Target) -> dict[str, ClassShift]:
    """How far controls, or all people, of a new site move its scores, see `brainroam.data.target.shifts`."""
    counts, means = (np.stack([s[name] for s in summaries]) for name in ("counts", "mean"))
    squares = np.stack([np.diagonal(s["scatter"], axis1=1, axis2=2) for s in summaries])  # (sites, classes, scores)
    everybody = counts.sum(axis=1)
    mean = (counts[:, :, None] * means).sum(axis=1) / everybody[:, None]
    square = squares.sum(axis=1) + (counts[:, :, None] * (means - mean[:, None]) ** 2).sum(axis=1)
    some = counts[:, 0] > 0
    parts = {
        "controls": (counts[some, 0], means[some, 0], squares[some, 0]),
        UNLABELLED: (everybody, mean, square),
    }
    return {
        name: ClassShift(tuple(shift_of_moments(n, m, s) for m, s in zip(means.T, squares.T, strict=True)))
        for name, (n, means, squares) in parts.items()
        if name in target.readout.knows(target)
    }


def _draw_with_covariance(n: int, covariance: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Rows (n, K) of mean 0 and, where there are enough of them, exactly this covariance."""
    values, vectors = np.linalg.eigh(covariance)
    size = len(values)
    drawn = rng.normal(size=(n, size))
    drawn -= drawn.mean(axis=0)
    if n > size + 1:
        u, _, v = np.linalg.svd(drawn, full_matrices=False)
        drawn = np.sqrt(n) * u @ v
    return drawn * np.sqrt(np.maximum(values, 0)) @ vectors.T


def _half_bins(summary: dict[str, np.ndarray]) -> np.ndarray:
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
