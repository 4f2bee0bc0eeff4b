"""Labels spoilt on purpose: what an audit gives people in the place of what is true of them.

If labels of training people are turned round, what is learned from them turns round too, and so do scores; what stays
of a score was known from elsewhere.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Turning(NamedTuple):
    """How labels in training are turned round for the people of one site, and what of their scores turns with it.

    Attributes
    ----------
    spoil : callable
        From labels to others.
    margin : callable
        From the scores of the site to those that turn round, of the people whom it is about.
    label : ndarray
        What is true of these people.
    swapped : str
        The classes that change places; empty where all labels are turned.
    """

    spoil: Callable[[np.ndarray], np.ndarray]
    margin: Callable[[np.ndarray], np.ndarray]
    label: np.ndarray
    swapped: str = ""


def mirrored(values: np.ndarray) -> np.ndarray:
    """Values mirrored between the smallest and the largest that is known.

    >>> mirrored(np.array([0, 1, 1])).tolist(), mirrored(np.array([10.0, 12.0, 20.0])).tolist()
    ([1, 0, 0], [20.0, 18.0, 10.0])
    """
    known = values[~np.isnan(values)]
    return known.min() + known.max() - values


def swapping(label: np.ndarray, classes: tuple[str, ...], kept: int) -> Turning | None:
    """The two commonest classes of these people change places, the first ``kept`` classes never; None of one class.

    >>> found = swapping(np.array([0, 1, 1, 2]), ("HC", "MDD", "SCZ"), kept=1)
    >>> found.spoil(np.array([0, 1, 2])).tolist(), found.label.tolist(), found.swapped
    ([0, 2, 1], [1.0, 1.0, 0.0], 'MDD and SCZ')
    """
    codes, counts = np.unique(label.astype(int), return_counts=True)
    pair = [code for code in codes[np.argsort(-counts, kind="stable")].tolist() if code >= kept][:2]
    if len(pair) < 2:
        return None
    who, (one, other) = np.isin(label, pair), pair

    def swap(labels: np.ndarray) -> np.ndarray:
        return np.select([labels == one, labels == other], [other, one], labels)

    def margin(scores: np.ndarray) -> np.ndarray:
        return scores[who, one] - scores[who, other]

    return Turning(swap, margin, (label[who] == one).astype(float), f"{classes[one]} and {classes[other]}")
