"""Labels of the people of a hospital as sums need them: 0 and 1, indicators of several classes (n, K), or a number.

Everything in the hospital that differs between these asks one object of this file; `Labels.of` makes it of an array.
"""

import numpy as np

from brainroam.core.targets import is_number


class Labels:
    """Two classes, which the other kinds differ from."""

    def __init__(self, y: np.ndarray) -> None:
        self.y = y

    @staticmethod
    def of(y: np.ndarray) -> "Labels":
        """The labels of an array.

        >>> [Labels.of(np.array(y)).counts.tolist() for y in ([0, 1, 1], [[1, 0], [0, 1]], [0.5, 2.5])]
        [[1, 2], [1, 1], [2]]
        """
        if y.ndim == 2:
            return ClassLabels(y)
        return NumberLabels(y) if is_number(y) else Labels(y)

    @property
    def classes(self) -> np.ndarray:
        """Indicators (n, q) of the classes that somebody has; of a number the number about its mean."""
        return np.column_stack([self.y == 0, self.y == 1]).astype(float)

    @property
    def rows(self) -> np.ndarray:
        """Weights (n, q) of the sums by class that round 2 tells."""
        return self.classes

    @property
    def counts(self) -> np.ndarray:
        """How many people of each class; of a number, how many."""
        return self.classes.sum(axis=0).astype(int)

    @property
    def codes(self) -> np.ndarray:
        """The class of each person; of a number everybody's is the same."""
        return self.y

    def groups(self, k: int) -> tuple[list[np.ndarray], int]:
        """Masks of the groups that share what is disclosed (each class, or everybody), and their minimum size."""
        return [column == 1 for column in self.classes.T], k

    def contrasts(self, present: np.ndarray) -> list[np.ndarray]:
        """c (n, M) of each edge: every class against the first, over those who have it; or the number."""
        with np.errstate(all="ignore"):
            means = [present * (mask[:, None] / (present & mask[:, None]).sum(axis=0)) for mask in self.groups(1)[0]]
        return [mean - means[0] for mean in means[1:]]

    def too_few(self, least: int) -> str:
        """Whom there are fewer of than a summary may tell about, in words; nobody: nothing."""
        for label, people in ((1, "cases"), (0, "controls")):
            if self.counts[label] < least:
                return f"{self.counts[label]} {people}, fewer than the {least} below which a summary tells too much"
        return ""


class ClassLabels(Labels):
    """Several classes; those that too few have were left out before."""

    @property
    def classes(self) -> np.ndarray:
        """Indicators of the classes that somebody has."""
        return self.y[:, self.y.any(axis=0)].astype(float)

    @property
    def rows(self) -> np.ndarray:
        """Also of classes that nobody here has."""
        return self.y.astype(float)

    @property
    def counts(self) -> np.ndarray:
        """Of all classes."""
        return self.y.sum(axis=0)

    @property
    def codes(self) -> np.ndarray:
        """The class of each person."""
        return self.y.argmax(axis=1)

    def too_few(self, least: int) -> str:
        """Nobody any more."""
        return ""


class NumberLabels(Labels):
    """A number, or the steps of an order."""

    @property
    def classes(self) -> np.ndarray:
        """The number about its mean."""
        return (self.y - self.y.mean())[:, None]

    @property
    def rows(self) -> np.ndarray:
        """Everybody, and the number about its mean."""
        return np.column_stack([np.ones(len(self.y)), self.y - self.y.mean()])

    @property
    def counts(self) -> np.ndarray:
        """How many people."""
        return np.array([len(self.y)])

    @property
    def codes(self) -> np.ndarray:
        """The same of everybody."""
        return np.zeros(len(self.y))

    def groups(self, k: int) -> tuple[list[np.ndarray], int]:
        """Everybody, twice as many as of a class."""
        return [np.ones(len(self.y), dtype=bool)], 2 * k

    def contrasts(self, present: np.ndarray) -> list[np.ndarray]:
        """The number about the mean of those who have the edge."""
        t = self.y[:, None]
        with np.errstate(all="ignore"):
            return [present * (t - (present * t).sum(axis=0) / present.sum(axis=0))]

    def too_few(self, least: int) -> str:
        """Fewer people than twice a class."""
        if len(self.y) >= 2 * least:
            return ""
        return f"{len(self.y)} people, fewer than the {2 * least} below which a summary of a number tells too much"
