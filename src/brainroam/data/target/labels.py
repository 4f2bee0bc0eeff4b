"""Labels of people as classes: which of two is the condition, which of several are controls.

Which of two labels is the condition is guessed only where it is certain: guessing wrong turns every score around.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from brainroam.data.names import CONTROL_WORDS, canonical, plain
from brainroam.errors import DataError, listed, warn_user

MOST_CLASSES = 20


def is_control(label: object) -> bool:
    """Whether a label is one of the usual words for controls, in any case and in the languages of `names`.

    >>> [is_control(word) for word in ("TD", "healthy control", "Kontrolle", "témoin", "健康对照", "ASD", 2)]
    [True, True, True, True, True, False, False]
    """
    return plain("".join(canonical(label))) in CONTROL_WORDS


def two_classes(y: Sequence | np.ndarray, positive: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """The two classes of y, controls first, and y as 0 and 1.

    The condition is ``positive`` if given; 1 of 0/1, -1/1 and false/true; or what stands against a usual word for
    controls. Anything else (1/2 has both meanings: DX_GROUP of ABIDE is 1 for autism) is refused.

    >>> two_classes(["TD", "ASD"], positive="ASD")[1].tolist()
    [0, 1]
    >>> two_classes([1, 2, 2])
    Traceback (most recent call last):
    brainroam.errors.DataError: y holds 1 and 2, and which is the condition cannot be known; say positive=1 ...
    """
    labels = np.asarray(y)
    if labels.ndim != 1:
        raise DataError(f"y must be one label per person, got shape {labels.shape}")
    missing = np.flatnonzero(pd.isna(labels))
    if len(missing):
        raise DataError(f"y is missing for person {listed(missing)}; leave people without a label out")
    classes = np.array(sorted(pd.unique(labels), key=lambda label: (str(type(label)), label)))
    if len(classes) != 2:
        raise DataError(f"y must have two classes, controls and cases; found {len(classes)}: {listed(classes)}")
    condition = classes == positive if positive is not None else _condition(classes)
    if condition.sum() != 1:
        a, b = classes.tolist()
        known = (
            f"positive={positive!r} is not in y" if positive is not None else "which is the condition cannot be known"
        )
        raise DataError(
            f"y holds {a} and {b}, and {known}; say positive={a!r} or positive={b!r} in fit, or give 1 for the "
            "condition and 0 for controls"
        )
    if condition[0]:
        classes = classes[::-1]
        if positive is None:
            warn_user(
                f"{classes[1]} is taken for the condition and {classes[0]} for controls. scikit-learn's own scorers "
                "sort labels and would turn the AUC around: give 1 and 0, or use brainroam.SiteScorer"
            )
    return classes, (labels == classes[1]).astype(int)


def several_classes(y: Sequence | np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Three or more classes of y, controls first and then in order, and the code of each person; None of fewer.

    >>> classes, codes = several_classes(["SCZ", "HC", "MDD", "HC"])
    >>> classes.tolist(), codes.tolist()
    (['HC', 'MDD', 'SCZ'], [2, 0, 1, 0])
    """
    labels = np.asarray(y)
    if labels.ndim != 1 or pd.isna(labels).any() or len(pd.unique(labels)) < 3:
        return None  # `two_classes` says what is wrong
    classes = sorted(pd.unique(labels), key=lambda label: (not is_control(label), str(type(label)), label))
    if len(classes) > MOST_CLASSES:
        raise DataError(
            f"y has {len(classes)} different values: for a number, as age, use brainroam.SiteRegressor; up to "
            f"{MOST_CLASSES} classes can be told apart"
        )
    code = {label: k for k, label in enumerate(classes)}
    return np.array(classes), np.array([code[label] for label in labels])


def _condition(classes: np.ndarray) -> np.ndarray:
    """Which of two labels is the condition: one true value where it is certain."""
    numbers = pd.to_numeric(pd.Series(classes), errors="coerce").to_numpy(dtype=float)
    if set(numbers.tolist()) in ({0.0, 1.0}, {-1.0, 1.0}):
        return numbers == 1
    controls = np.array([is_control(label) for label in classes])
    return ~controls if controls.sum() == 1 else np.zeros(2, dtype=bool)


def stratified_fifths(
    code: np.ndarray, codes: np.ndarray | None, seed: int, n_classes: int, counted: str
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Stratified fifths, fewer where a class is small; ``codes`` say who belongs together, ``counted`` who there is."""
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold  # slow to import

    people = codes if codes is not None else np.arange(len(code))
    smaller = min(len(set(people[code == label])) for label in range(n_classes))
    if smaller < 2:
        raise DataError(
            f"the training sites hold {counted}; training needs at least two people of each class who are not of one "
            "group: leave the others out, or join classes"
        )
    kind = StratifiedKFold if codes is None else StratifiedGroupKFold
    for train, held_out in kind(min(5, smaller), shuffle=True, random_state=seed).split(code, code, codes):
        if len(set(code[held_out])) >= 2:  # large groups may leave a fold with one class, which has no AUC
            yield train, held_out
