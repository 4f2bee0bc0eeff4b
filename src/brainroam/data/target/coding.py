"""A target as it is fitted: what people's values are coded as, and what of a fit depends on the kind of target.

Labels of two classes are 0 and 1 (n,), several classes indicators (n, K), a number is taken without its means at the
sites, over its spread within them (n,): what differs between sites moves nothing. Wherever a target is compared within
a site, two classes have the difference of their means and a number has a slope,

    d = slope of r on t        which with t = 0 and 1 is the difference of the class means

and several classes have a comparison of labels 0 and 1 for each of them. Robust means, slopes and losses are handed in
by those who fit.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np

from brainroam.data.target.labels import two_classes
from brainroam.data.target.order import (
    added_error,
    auc,
    macro_auc,
    mean_order,
    order_gain,
    placements,
    sites_with_numbers,
    sites_with_scores,
)
from brainroam.errors import UsageError

EPS = 1e-12
LEAST = 2  # cases and controls of a site, so that its placements have a variance
READ_WHOLE = 2000  # edges up to which a network may read every pathway

Means = Callable[[np.ndarray], np.ndarray]  # of people (n, M), each feature
Slopes = Callable[[np.ndarray, np.ndarray], np.ndarray]  # of people (n, M) on t (n,)


class Gain(NamedTuple):
    """Gain of one score over another at a site, its sampling variance, and the weight of the site."""

    gain: float
    variance: float
    weight: int


class Summary(NamedTuple):
    """What of a site's summary depends on the target (`brainroam.core.site_summary`)."""

    counts: np.ndarray
    covariate_mean: np.ndarray
    contrast: np.ndarray
    target: np.ndarray | None = None


class Part(NamedTuple):
    """One comparison of several: labels 0 and 1, and whose count."""

    y: np.ndarray
    takes_part: np.ndarray | None


class Coding(ABC):
    """One kind of target as it is fitted."""

    measure: ClassVar[str]  # what `site_orders` are called: auc, or r
    widespread: ClassVar[bool] = False  # it goes with edges everywhere, so that a scaffold keeps all of them
    expected: ClassVar[tuple[float, float]]  # mu0 and tau of a network's gain, before any evidence

    @abstractmethod
    def columns(self, values: np.ndarray, n_classes: int) -> np.ndarray:
        """Values of people as columns: labels 0 and 1, indicators, or the number as it is."""

    @abstractmethod
    def for_ridge(self, y: np.ndarray) -> np.ndarray:
        """The target of a ridge, from `columns` or from what is within sites."""

    @abstractmethod
    def linear_model(self) -> Any:
        """scikit-learn's linear model of it."""

    @abstractmethod
    def boosted_trees(self) -> Any:
        """scikit-learn's class of boosted trees of it."""

    @abstractmethod
    def standardised(self, y: np.ndarray) -> np.ndarray:
        """`for_ridge`; a number over its spread among all these people."""

    def labels(self, y: np.ndarray) -> np.ndarray:
        """What people are given by users, as `columns`."""
        return y

    @abstractmethod
    def require_classes(self, what: str) -> None:
        """Refuse what is made for classes, where there are none."""

    @abstractmethod
    def needs(self, name: str) -> str:
        """What a site needs for a contrast of the target of this name, in words."""

    @abstractmethod
    def comparable(self, y: np.ndarray, site: np.ndarray) -> list[str]:
        """The sites that have a contrast, sorted."""

    @abstractmethod
    def contrast(self, residuals: np.ndarray, y: np.ndarray, means: Means, slopes: Slopes) -> np.ndarray:
        """d (M,) of the people of one site."""

    @abstractmethod
    def covariate_gap(self, raw: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The same of their covariates (d,), by plain means and least squares."""

    @abstractmethod
    def gap_of_means(self, means: np.ndarray) -> np.ndarray:
        """The same from `Summary.covariate_mean`."""

    @abstractmethod
    def pooled(self, values: np.ndarray, present: np.ndarray, y: np.ndarray) -> np.ndarray:
        """p d (M,) of the people of one site: their contrast, times `precision`."""

    @abstractmethod
    def precision(self, y: np.ndarray) -> float:
        """p of the people of one site."""

    def parts(self, y: np.ndarray, against_first: bool) -> Iterator[Part]:
        """Each class against the first one, or all others; nothing where one contrast says all."""
        yield from ()

    def cases(self, y: np.ndarray) -> np.ndarray:
        """Who is no control, as 1."""
        return y

    @abstractmethod
    def require_direction(self, what: str) -> None:
        """Refuse what adds up all that points to one condition, where there is no such direction."""

    def class_counts(self, y: np.ndarray, site: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How many people of each site are of a class, and how many are not (E, K)."""
        in_class = y.reshape(len(y), -1) > 0
        m = np.array([in_class[site == name].sum(axis=0) for name in np.unique(site)])
        n = np.array([(~in_class[site == name]).sum(axis=0) for name in np.unique(site)])
        return m, n

    @abstractmethod
    def loss(self, functional: Any) -> Callable[[Any, Any], Any]:
        """The loss of a network, one of the functions of `torch.nn.functional`, of scores and y."""

    @abstractmethod
    def site_orders(self, y: np.ndarray, site: np.ndarray, score: np.ndarray) -> list[float]:
        """How well a score orders the people who have one, at each site that tells; of a number over all sites."""

    @abstractmethod
    def gains(self, old: np.ndarray, new: np.ndarray, y: np.ndarray, site: np.ndarray) -> list[Gain]:
        """The gain in the order of people from an old to a new score, at each site that tells."""

    def expectation(self, n_edges: int) -> tuple[float, float]:
        """mu and tau of a network's gain on so many edges, before any evidence."""
        mu, tau = self.expected
        return mu * min(1.0, READ_WHOLE / n_edges), tau

    def counted(self, gain: np.ndarray, error: np.ndarray, shrunken: np.ndarray) -> np.ndarray:
        """The shrunken gains that count."""
        return shrunken

    @abstractmethod
    def counts(self, y: np.ndarray) -> np.ndarray:
        """How many people of each class; of a number how many."""

    @abstractmethod
    def summary(self, y: np.ndarray, raw: np.ndarray, residuals: np.ndarray, means: Means, slopes: Slopes) -> Summary:
        """What a site of these people says, from their covariates (n, d) and residuals (n, M)."""

    @abstractmethod
    def sums(self, y: np.ndarray, r: np.ndarray) -> np.ndarray:
        """Sums of r over the people of each class (q, N); of a number sum r and sum t r."""

    def total(self, sums: np.ndarray) -> np.ndarray:
        """Sum of r (N,) over everybody, from `sums`."""
        return sums.sum(axis=0)

    def shares(self, counts: np.ndarray) -> np.ndarray:
        """What of each row of `sums` a constant makes, as a share of the people."""
        return counts / counts.sum()


class TwoCoded(Coding):
    """Labels 0 and 1."""

    measure, expected = "auc", (0.03, 0.02)

    def columns(self, values: np.ndarray, n_classes: int) -> np.ndarray:
        """As they are."""
        return values.astype(int)

    def for_ridge(self, y: np.ndarray) -> np.ndarray:
        """-1 and 1."""
        return 2.0 * y - 1

    def standardised(self, y: np.ndarray) -> np.ndarray:
        """-1 and 1."""
        return 2.0 * y - 1

    def linear_model(self) -> Any:
        """Logistic regression."""
        from sklearn.linear_model import LogisticRegression  # slow to import

        return LogisticRegression()

    def boosted_trees(self) -> Any:
        """Of a probability."""
        from sklearn.ensemble import HistGradientBoostingClassifier

        return HistGradientBoostingClassifier

    def labels(self, y: np.ndarray) -> np.ndarray:
        """0 and 1, also from -1 and 1 or from words.

        >>> TwoCoded().labels(np.array([-1, 1, 1])).tolist()
        [0, 1, 1]
        """
        return y if np.isin(y, (0, 1)).all() else two_classes(y)[1]

    def require_classes(self, what: str) -> None:
        """There are two."""

    def require_direction(self, what: str) -> None:
        """From controls to cases."""

    def needs(self, name: str) -> str:
        """Cases and controls."""
        return "both classes"

    def comparable(self, y: np.ndarray, site: np.ndarray) -> list[str]:
        """Sites with both classes."""
        return [name for name in sorted(set(site)) if len(set(y[site == name])) == 2]

    def contrast(self, residuals: np.ndarray, y: np.ndarray, means: Means, slopes: Slopes) -> np.ndarray:
        """Difference of the means of cases and controls."""
        return means(residuals[y == 1]) - means(residuals[y == 0])

    def covariate_gap(self, raw: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Difference of the means of cases and controls."""
        return raw[y == 1].mean(axis=0) - raw[y == 0].mean(axis=0)

    def gap_of_means(self, means: np.ndarray) -> np.ndarray:
        """Cases minus controls."""
        return means[1] - means[0]

    def pooled(self, values: np.ndarray, present: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Difference of the means over those who have the edge."""
        mean = [values[y == c].sum(axis=0) / np.maximum(present[y == c].sum(axis=0), 1) for c in (1, 0)]
        return self.precision(y) * (mean[0] - mean[1])

    def precision(self, y: np.ndarray) -> float:
        """m n / (m + n)."""
        return float((y == 1).sum() * (y != 1).sum() / len(y))

    def loss(self, functional: Any) -> Callable[[Any, Any], Any]:
        """Cross-entropy of a probability."""
        return functional.binary_cross_entropy_with_logits

    def site_orders(self, y: np.ndarray, site: np.ndarray, score: np.ndarray) -> list[float]:
        """The AUC at each site with both classes.

        >>> TwoCoded().site_orders(np.array([0, 1, 0, 1]), np.array(["A", "A", "B", "B"]), np.array([1.0, 2, 2, 1]))
        [1.0, 0.0]
        """
        return [auc(y[here], score[here]) for here in sites_with_scores(y, site, score)]

    def gains(self, old: np.ndarray, new: np.ndarray, y: np.ndarray, site: np.ndarray) -> list[Gain]:
        """In concordance, weighted by a site's pairs of a case and a control."""
        gains = []
        for here in sites_with_scores(y, site, old + new, LEAST):
            both = (placements(y[here], score[here]) for score in (new, old))
            of_cases, of_controls = (after - before for after, before in zip(*both, strict=True))
            variance = sum(np.var(change, ddof=1) / len(change) for change in (of_cases, of_controls))
            gains.append(Gain(of_cases.mean(), variance, len(of_cases) * len(of_controls)))
        return gains

    def summary(self, y: np.ndarray, raw: np.ndarray, residuals: np.ndarray, means: Means, slopes: Slopes) -> Summary:
        """Counts, mean covariates of controls and cases, and the contrast."""
        of_classes = np.stack([raw[y == label].mean(axis=0) for label in (0, 1)])
        return Summary(self.counts(y), of_classes, self.contrast(residuals, y, means, slopes))

    def counts(self, y: np.ndarray) -> np.ndarray:
        """Controls and cases."""
        return np.array([(y == label).sum() for label in (0, 1)])

    def sums(self, y: np.ndarray, r: np.ndarray) -> np.ndarray:
        """Of the controls and of the cases."""
        return np.stack([r[y == label].sum(axis=0) for label in (0, 1)])


class ClassesCoded(TwoCoded):
    """Indicators (n, K)."""

    def columns(self, values: np.ndarray, n_classes: int) -> np.ndarray:
        """1 for the people of a class, 0 for the others."""
        return np.eye(n_classes, dtype=int)[values.astype(int)]

    def parts(self, y: np.ndarray, against_first: bool) -> Iterator[Part]:
        """Each class against the first, or all others."""
        for k in range(int(against_first), y.shape[1]):
            yield Part(y[:, k], (y[:, 0] + y[:, k] > 0) if against_first else None)

    def needs(self, name: str) -> str:
        """Two of them."""
        return "two classes to compare"

    def cases(self, y: np.ndarray) -> np.ndarray:
        """All but the people of the first class."""
        return 1 - y[:, 0]

    def require_direction(self, what: str) -> None:
        """There is none."""
        raise UsageError(f'{what} adds up what points to one condition; use skip="ridge" for several classes')

    def loss(self, functional: Any) -> Callable[[Any, Any], Any]:
        """Cross-entropy."""
        return functional.cross_entropy

    def site_orders(self, y: np.ndarray, site: np.ndarray, score: np.ndarray) -> list[float]:
        """The mean AUC of the classes at each site with two of them."""
        code, known = y.argmax(axis=1), np.isfinite(score).all(axis=1)
        people = [np.flatnonzero(known & (site == name)) for name in np.unique(site[known])]
        return [float(macro_auc(code[here], score[here])) for here in people if len(set(code[here])) > 1]

    def gains(self, old: np.ndarray, new: np.ndarray, y: np.ndarray, site: np.ndarray) -> list[Gain]:
        """The mean over classes of the gain in concordance, each against the rest.

        A person takes part in the AUC of every class, so the variance is that of what a person adds to all of them.
        """
        gains = []
        known = np.isfinite(old + new).all(axis=1)
        for name in np.unique(site[known]):
            here = np.flatnonzero(known & (site == name))
            added, of_classes, counted = np.zeros(len(here)), [], 0
            for k, case in enumerate(y[here].T == 1):
                if min(case.sum(), (~case).sum()) < LEAST:
                    continue
                both = (placements(case, scores[here, k]) for scores in (new, old))
                of_cases, of_others = (after - before for after, before in zip(*both, strict=True))
                of_classes.append(of_cases.mean())
                added += added_error(case, of_cases, of_others)
                counted += len(of_cases) * len(of_others)
            if of_classes:
                variance = float(np.square(added / len(of_classes)).sum())
                gains.append(Gain(float(np.mean(of_classes)), variance, counted))
        return gains

    def summary(self, y: np.ndarray, raw: np.ndarray, residuals: np.ndarray, means: Means, slopes: Slopes) -> Summary:
        """Counts and mean covariates of each class, and its means minus those of the first class that is there."""
        counts, masks = self.counts(y), [column == 1 for column in y.T]
        of_classes = np.stack([raw[mask if mask.any() else slice(None)].mean(axis=0) for mask in masks])
        nobody = np.full(residuals.shape[1], np.nan)
        contrasts = np.stack([means(residuals[mask]) if mask.any() else nobody for mask in masks])
        return Summary(counts, of_classes, contrasts - contrasts[np.flatnonzero(counts)[0]])

    def counts(self, y: np.ndarray) -> np.ndarray:
        """Of each class."""
        return y.sum(axis=0)

    def sums(self, y: np.ndarray, r: np.ndarray) -> np.ndarray:
        """Of each class."""
        return y.T.astype(float) @ r


class NumberCoded(Coding):
    """A number, within sites."""

    measure, widespread, expected = "r", True, (0.0, 0.04)  # of Fisher's z

    def columns(self, values: np.ndarray, n_classes: int) -> np.ndarray:
        """As it is."""
        return values

    def for_ridge(self, y: np.ndarray) -> np.ndarray:
        """As it is."""
        return y

    def standardised(self, y: np.ndarray) -> np.ndarray:
        """About its mean, over its standard deviation."""
        return (y - y.mean()) / max(float(y.std()), EPS)

    def linear_model(self) -> Any:
        """Ridge regression."""
        from sklearn.linear_model import Ridge  # slow to import

        return Ridge()

    def boosted_trees(self) -> Any:
        """Of a number."""
        from sklearn.ensemble import HistGradientBoostingRegressor

        return HistGradientBoostingRegressor

    def require_classes(self, what: str) -> None:
        """There are none."""
        raise UsageError(f"{what}; a number has none")

    def require_direction(self, what: str) -> None:
        """From less to more."""

    def needs(self, name: str) -> str:
        """Different numbers."""
        return f"people who differ in {name}"

    def comparable(self, y: np.ndarray, site: np.ndarray) -> list[str]:
        """Sites with people enough for a correlation, who differ."""
        return [str(site[here[0]]) for here in sites_with_numbers(y, site)]

    def contrast(self, residuals: np.ndarray, y: np.ndarray, means: Means, slopes: Slopes) -> np.ndarray:
        """Slopes on the number."""
        return slopes(residuals, y)

    def covariate_gap(self, raw: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Least-squares slopes on the number."""
        centred = y - y.mean()
        return centred @ raw / max(float(centred @ centred), EPS)

    def gap_of_means(self, means: np.ndarray) -> np.ndarray:
        """The slopes."""
        return means[1]

    def pooled(self, values: np.ndarray, present: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Products with the number about its mean."""
        return (y - y.mean()) @ values

    def precision(self, y: np.ndarray) -> float:
        """Sum of squares about the mean."""
        return float(np.square(y - y.mean()).sum())

    def class_counts(self, y: np.ndarray, site: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A number has no classes to count."""
        return np.empty((0, 0), dtype=int), np.empty((0, 0), dtype=int)

    def loss(self, functional: Any) -> Callable[[Any, Any], Any]:
        """The squared error."""
        return functional.mse_loss

    def site_orders(self, y: np.ndarray, site: np.ndarray, score: np.ndarray) -> list[float]:
        """One value for all sites, `mean_order`; nothing where nobody has a score."""
        known = np.isfinite(score)
        return [float(mean_order(y[known], site[known], score[known]))] if known.any() else []

    def gains(self, old: np.ndarray, new: np.ndarray, y: np.ndarray, site: np.ndarray) -> list[Gain]:
        """In Fisher's z of the correlation within a site."""
        sites = sites_with_numbers(y, site, old + new)
        return [Gain(*order_gain(y[here], old[here], new[here]), len(here) - 3) for here in sites]

    def expectation(self, n_edges: int) -> tuple[float, float]:
        """None is expected."""
        return self.expected

    def counted(self, gain: np.ndarray, error: np.ndarray, shrunken: np.ndarray) -> np.ndarray:
        """Those that exceed their standard error."""
        return np.where(gain > error, shrunken, 0.0)

    def summary(self, y: np.ndarray, raw: np.ndarray, residuals: np.ndarray, means: Means, slopes: Slopes) -> Summary:
        """The count, mean covariates and their slopes, the slopes of features, and mean and squares of the number."""
        t = y - y.mean()
        of_people = np.stack([raw.mean(axis=0), self.covariate_gap(raw, t)])
        return Summary(self.counts(y), of_people, slopes(residuals, t), np.array([y.mean(), t @ t]))

    def counts(self, y: np.ndarray) -> np.ndarray:
        """Everybody."""
        return np.array([len(y)])

    def sums(self, y: np.ndarray, r: np.ndarray) -> np.ndarray:
        """sum r and sum t r."""
        return np.stack([r.sum(axis=0), (y - y.mean()) @ r])

    def total(self, sums: np.ndarray) -> np.ndarray:
        """The first row."""
        return sums[0]

    def shares(self, counts: np.ndarray) -> np.ndarray:
        """t is about its mean: a constant makes nothing of sum t r."""
        return np.array([1.0, 0.0])
