"""How well a score orders the people of a held-out site, for each kind of target, and what sites say together.

    target          figure of a site     averaged over sites     weight of a site           P people count as h =
    two classes     AUC                  AUC                     the rarer class, to 20     P q (1 - q), a share q cases
    several (K)     macro AUC            macro AUC               the rarer classes, to 20   P (K - 1) / K^2, equal parts
    a number        r within the site    Fisher's z              people, to 40              P - 3

c / h is the sampling variance of the difference of two methods at a site: DeLong's for AUCs (of several classes, what
each person adds to the AUC of every class, added up before it is squared), that of Meng, Rosenthal and Rubin for
correlations. Differences of correlations are told in r, at the mean r of the two: dr = (1 - r^2) dz.

What sites say together is asked of `Models`, which `brainroam.evaluation.stats.verdict` is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np
import pandas as pd

from brainroam.data.target.figures import AREA, CORRELATION, Figure, two_digits
from brainroam.data.target.order import (
    LEAST,
    added_error,
    aucs,
    correlations,
    equivalent_sizes,
    macro_auc,
    macro_variances,
    order_gain,
    placements,
    shared_error,
)
from brainroam.data.target.weights import FULL, JUDGED, has_enough_people, mean_over_sites, site_weights
from brainroam.errors import listed

if TYPE_CHECKING:
    from brainroam.data.target.number import Number

LEAST_OF_A_CLASS = 2


class Gap(NamedTuple):
    """The difference of two methods at a site, its sampling variance, h of the people there, and the site's weight."""

    difference: float
    variance: float
    h: float
    weight: float


class Models(Protocol):
    """The two models of sites: of AUCs, whose variance follows from numbers of people, and of values on a plain scale.

    Both return a verdict: the mean, its interval, that of the next site, how much sites differ, and why limits lack.
    """

    def verdict(self, auc: Any, n_cases: Any, n_controls: Any) -> Any:
        """Of AUCs."""

    def next_site(self, values: Any, variances: Any) -> Any:
        """Of values with their sampling variances."""

    def next_size(self, values: Any, variances: Any) -> float:
        """How far the true value of the next site is from 0."""

    def site_intervals(self, auc: Any, n_cases: Any, n_controls: Any) -> tuple[np.ndarray, np.ndarray]:
        """95 % intervals of single sites."""


class Order:
    """What a kind of target says of a held-out site by the order of its people."""

    figure: ClassVar[Figure]
    rule: ClassVar[str]  # of the mean over sites
    needs: ClassVar[str]  # what a site needs to take part
    lacking: ClassVar[str]  # what a site without a figure is like
    word: ClassVar[str]  # what the figure is called in a sentence
    differ: ClassVar[str] = "two classes in it and two elsewhere"  # what it takes to hold a site out
    few: ClassVar[str]  # what a small site has
    nothing: ClassVar[str]  # why there is no figure, in two words
    mean_of: ClassVar[str]  # what a mean over so many sites is called
    called: ClassVar[str] = "AUC"  # the figure, in a sentence
    ends: ClassVar[tuple[str, str]] = ("low", "high")  # columns of the interval of the mean
    counted: tuple[str, ...]  # names of the columns of `counts`
    least: ClassVar[int] = LEAST_OF_A_CLASS  # how many of each group a smaller study keeps at least
    groups: str = ""  # how the people of a site are divided, for sentences
    model: ClassVar[str]  # of sites, for a methods text; ``{unit}`` is what was held out

    def usable(self, label: np.ndarray) -> bool:
        """Whether a site of these people takes part in a plan."""
        raise NotImplementedError

    def strata(self, label: np.ndarray) -> np.ndarray:
        """Codes of the groups of which a smaller study keeps a share each."""
        return label

    def among(self, label: np.ndarray) -> "Order":
        """For people divided into groups as these are."""
        return self

    def gap(self, label: np.ndarray, first: np.ndarray, second: np.ndarray) -> Gap:
        """Two methods at a site, on the scale that is averaged."""
        raise NotImplementedError

    def h(self, people: float) -> float:
        """The effective number h of so many people at a site."""
        raise NotImplementedError

    def value(self, label: np.ndarray, score: np.ndarray) -> float:
        """The figure of these people, NaN where they have none."""
        raise NotImplementedError

    def parts(self, label: np.ndarray, score: np.ndarray) -> tuple[float, ...]:
        """What else of these scores tells how uncertain the figure is."""
        return ()

    def counts(self, label: np.ndarray) -> np.ndarray:
        """How many people of each group there are."""
        raise NotImplementedError

    def weights(self, counts: np.ndarray) -> np.ndarray:
        """The weight of sites with these counts (E, groups); 0 of one that has no figure."""
        raise NotImplementedError

    def weights_of(self, sites: pd.DataFrame) -> np.ndarray:
        """The same of rows of what is measured of sites."""
        rows = sites.assign(n_controls=sites["n"] - sites["n_cases"]) if "n_cases" in sites else sites
        return self.weights(rows[list(self.counted)].to_numpy(dtype=float))

    def may_be_named(self, counts: np.ndarray) -> np.ndarray:
        """Which sites have enough people to be called the best or the worst."""
        raise NotImplementedError

    def judge(self, values: np.ndarray, counts: np.ndarray, parts: np.ndarray, models: Models) -> Any:
        """What sites say together: figures (E,), counts (E, groups) and `parts` (E, P) of each."""
        raise NotImplementedError

    def intervals(self, values: np.ndarray, counts: np.ndarray, models: Models) -> tuple[np.ndarray, np.ndarray]:
        """95 % interval of each site by itself."""
        raise NotImplementedError

    def at_site(self, label: np.ndarray, score: np.ndarray) -> tuple[float, float]:
        """Figure and weight of a site."""
        return self.value(label, score), float(self.weights(self.counts(label)[None])[0])

    def describe_size(self, row: Any) -> str:
        """By how much the better of two methods is ahead, of a row of pairs."""
        raise NotImplementedError

    def describe_lead(self, ahead: str, behind: str, row: Any, verb: str) -> str:
        """That one method beats, or is ahead of, another, and by how much."""
        return f"{ahead} {verb} {behind} by {self.describe_size(row)}"

    def describe_interval(self, low: float, high: float) -> str:
        """The interval of a difference, in words."""
        raise NotImplementedError

    def describe_added(self, row: Any, others: str) -> str:
        """What a block adds to others, in words."""
        raise NotImplementedError

    difference_in: ClassVar[str]  # the scale of differences, for the head of a table

    def form_difference(self, difference: float) -> str:
        """A difference as it stands in a table."""
        raise NotImplementedError

    def notes_on_small(self, sites: Sequence[str], counts: np.ndarray) -> list[str]:
        """What few people at some sites mean."""
        small = ~self.may_be_named(counts)
        if not small.any():
            return []
        weights = self.weights(counts)
        named = [f"{site} ({' + '.join(map(str, n))})" for site, n in zip(sites, counts[:, ::-1], strict=True)]
        few = listed(name for name, is_small in zip(named, small, strict=True) if is_small)
        return [
            f"{self.few} at {few}: {weights[small].sum() / max(weights.sum(), 1e-12):.0%} of the weight in the means, "
            "and never named as worst."
        ]


@dataclass(frozen=True)
class Areas(Order):
    """Cases and controls, of whom this share are cases: the AUC."""

    share: float = 0.5

    figure = AREA
    rule = f"mean over sites, each weighted by its people of the rarer class, {FULL} at most"
    needs = "two cases and two controls"
    lacking = "has the same label"
    word = "AUC"
    few = f"Fewer than {JUDGED} cases or controls"
    nothing = "one class only"
    mean_of = "mean AUC over {} held-out sites"
    ends = ("auc_low", "auc_high")
    counted = ("n_controls", "n_cases")
    model = (
        "binormal random-effects model: the variance of a {unit}'s AUC is taken at the candidate mean (score "
        "intervals, Newcombe), the differences between {unit}s from the confidence distribution of their standard "
        "deviation (Q-profile, Viechtbauer; Nagashima and others)"
    )

    @property
    def groups(self) -> str:  # type: ignore[override]
        """In words how many are cases."""
        return ", half of them cases" if abs(self.share - 0.5) < 0.05 else f", {self.share:.0%} of them cases"

    def usable(self, label: np.ndarray) -> bool:
        """Whether there are two people of each class."""
        return min((label == 0).sum(), (label == 1).sum()) >= LEAST_OF_A_CLASS

    def among(self, label: np.ndarray) -> Order:
        """With their share of cases."""
        return replace(self, share=float(np.mean(label)))

    def gap(self, label: np.ndarray, first: np.ndarray, second: np.ndarray) -> Gap:
        """With DeLong's variance."""
        m, n = int((label == 1).sum()), int((label == 0).sum())
        areas = aucs(label, np.stack([first, second]))
        variance = delong_variance(label, first, second)
        return Gap(areas[0] - areas[1], variance, m * n / (m + n), float(site_weights(m, n)))

    def h(self, people: float) -> float:
        """Of this share of cases."""
        return people * self.share * (1 - self.share)

    def value(self, label: np.ndarray, score: np.ndarray) -> float:
        """The AUC."""
        return float(aucs(label, score))

    def counts(self, label: np.ndarray) -> np.ndarray:
        """Controls and cases."""
        return np.array([(label == 0).sum(), (label == 1).sum()])

    def weights(self, counts: np.ndarray) -> np.ndarray:
        """By the rarer class."""
        return site_weights(*np.asarray(counts).T)

    def may_be_named(self, counts: np.ndarray) -> np.ndarray:
        """With five people of either class."""
        return has_enough_people(*np.asarray(counts).T)

    def judge(self, values: np.ndarray, counts: np.ndarray, parts: np.ndarray, models: Models) -> Any:
        """By the model of AUCs."""
        return models.verdict(values, counts[:, 1], counts[:, 0])

    def intervals(self, values: np.ndarray, counts: np.ndarray, models: Models) -> tuple[np.ndarray, np.ndarray]:
        """Score intervals."""
        return models.site_intervals(values, counts[:, 1], counts[:, 0])

    def describe_size(self, row: Any) -> str:
        """In AUC points."""
        return f"{100 * abs(row.difference):.1f} AUC points"

    def describe_lead(self, ahead: str, behind: str, row: Any, verb: str) -> str:
        """With the points between verb and method where that reads better."""
        size = self.describe_size(row)
        return f"{ahead} beats {behind} by {size}" if verb == "beats" else f"{ahead} is {size} ahead of {behind}"

    def describe_interval(self, low: float, high: float) -> str:
        """In AUC points."""
        return f"{100 * low:.1f} to {100 * high:.1f}"

    difference_in = "in AUC points"

    def form_difference(self, difference: float) -> str:
        """In AUC points."""
        return f"{100 * difference:.1f}"

    def describe_added(self, row: Any, others: str) -> str:
        """In AUC points."""
        size = self.describe_size(row)
        return f"takes {size} from {others}" if row.difference < 0 else f"adds {size} to {others}"


@dataclass(frozen=True)
class MacroAreas(Areas):
    """Several classes: the mean over them of the AUC against the rest; scores have a column for each.

    A site counts as one of m cases and m controls, `order.equivalent_sizes`.
    """

    classes: tuple[str, ...] = ()

    rule = f"mean over sites, each weighted by its people of the rarer classes, {FULL} at most"
    needs = "two people of two classes"
    lacking = "is of the same class"
    mean_of = "mean AUC of each class against the rest over {} held-out sites"
    word = "macro AUC"
    few = f"People of two classes who say less than {JUDGED} of each"
    ends = ("low", "high")
    groups = ", as many of each class"

    @property
    def counted(self) -> tuple[str, ...]:  # type: ignore[override]
        """A column for each class."""
        return tuple(f"n_{name}" for name in self.classes)

    @property
    def n_classes(self) -> int:
        """K."""
        return len(self.classes)

    def usable(self, label: np.ndarray) -> bool:
        """Whether two classes have two people each."""
        return int((self.counts(label) >= LEAST_OF_A_CLASS).sum()) >= 2

    def among(self, label: np.ndarray) -> Order:
        """As many people of each class."""
        return self

    def gap(self, label: np.ndarray, first: np.ndarray, second: np.ndarray) -> Gap:
        """With the variance of a mean over classes, in which people take part in every class."""
        areas, m = macro_auc(label, np.stack([first, second])), float(self._sizes(self.counts(label)[None])[0])
        added = []
        for k in np.unique(label.astype(int)):
            case = label == k
            of_two = (placements(case, score[:, k]) for score in (first, second))
            added.append(added_error(case, *(one - other for one, other in zip(*of_two, strict=True))))
        variance = float(np.square(np.mean(added, axis=0)).sum())
        return Gap(float(areas[0] - areas[1]), variance, m / 2, float(site_weights(m, m)))

    def h(self, people: float) -> float:
        """Of as many people of each class."""
        return people * (self.n_classes - 1) / self.n_classes**2

    def value(self, label: np.ndarray, score: np.ndarray) -> float:
        """Mean over the classes found there of the AUC against everybody else."""
        return float(macro_auc(label.astype(int), score))

    def parts(self, label: np.ndarray, score: np.ndarray) -> tuple[float, ...]:
        """Variance of the mean AUC of the classes, and the mean of their own."""
        return macro_variances(label.astype(int), score)

    def counts(self, label: np.ndarray) -> np.ndarray:
        """People of each class."""
        return np.bincount(label.astype(int), minlength=self.n_classes)

    def weights(self, counts: np.ndarray) -> np.ndarray:
        """By the rarer classes."""
        m = self._sizes(counts)
        return site_weights(m, m)

    def may_be_named(self, counts: np.ndarray) -> np.ndarray:
        """With as much as five people of either of two classes say."""
        return self._sizes(counts) >= JUDGED

    def judge(self, values: np.ndarray, counts: np.ndarray, parts: np.ndarray, models: Models) -> Any:
        """By the model of AUCs, with rho of these scores; the mean is that by the weights."""
        m = self._sizes(counts)
        measured = (m > 0) & np.isfinite(values)
        values, counts, m = values[measured], counts[measured], m[measured]
        people = equivalent_sizes(counts, shared_error(m, parts[measured], self.n_classes))
        return replace(models.verdict(values, people, people), mean=mean_over_sites(values, site_weights(m, m)))

    def intervals(self, values: np.ndarray, counts: np.ndarray, models: Models) -> tuple[np.ndarray, np.ndarray]:
        """Score intervals of sites with m cases and m controls."""
        m = self._sizes(counts)
        return models.site_intervals(values, m, m)

    @staticmethod
    def _sizes(counts: np.ndarray) -> np.ndarray:
        return equivalent_sizes(np.asarray(counts))


@dataclass(frozen=True)
class Correlation(Order):
    """A number: the correlation of prediction and target within a site, on the scale the target is learned on."""

    target: "Number"

    figure = CORRELATION
    rule = f"mean over sites, each weighted by its people, {2 * FULL} at most, on Fisher's z"
    needs = f"{LEAST} people who differ in the target"
    lacking = "has the same value, or fewer than four have one"
    word, differ = "correlation", "people who differ in it"
    few = f"Fewer than {2 * JUDGED} people"
    nothing = "nobody to order"
    mean_of = "mean correlation within {} held-out sites"
    called = "correlation"
    least = LEAST
    counted = ("n",)
    model = (
        "random-effects model of Fisher's z, whose sampling variance is 1 / (n - 3), with the differences between "
        "{unit}s from the confidence distribution of their standard deviation (Q-profile, Viechtbauer; Nagashima and "
        "others)"
    )

    def usable(self, label: np.ndarray) -> bool:
        """Whether there is a correlation."""
        return len(label) >= LEAST and np.ptp(label) > 0

    def strata(self, label: np.ndarray) -> np.ndarray:
        """Everybody alike."""
        return np.zeros(len(label), dtype=int)

    def gap(self, label: np.ndarray, first: np.ndarray, second: np.ndarray) -> Gap:
        """Of Fisher's z."""
        difference, variance = order_gain(self.target.forward(label), second, first)
        return Gap(difference, variance, self.h(len(label)), float(np.minimum(len(label) - 3, 2 * FULL)))

    def h(self, people: float) -> float:
        """Fisher's z has the variance 1 / (n - 3)."""
        return max(people - 3, 1e-9)

    def value(self, label: np.ndarray, score: np.ndarray) -> float:
        """Correlation of both on the scale the target is learned on."""
        t = self.target.forward(label)
        return float(correlations(t, score, float(np.std(t)))) if self.usable(label) else np.nan

    def counts(self, label: np.ndarray) -> np.ndarray:
        """Everybody."""
        return np.array([len(label)])

    def weights(self, counts: np.ndarray) -> np.ndarray:
        """What a z of so many people is worth."""
        return np.clip(np.asarray(counts)[:, 0] - 3, 0, 2 * FULL).astype(float)

    def may_be_named(self, counts: np.ndarray) -> np.ndarray:
        """With ten people."""
        return np.asarray(counts)[:, 0] >= 2 * JUDGED

    def judge(self, values: np.ndarray, counts: np.ndarray, parts: np.ndarray, models: Models) -> Any:
        """By the plain model on Fisher's z, turned back to correlations; ``tau`` stays on z."""
        n = counts[:, 0].astype(float)
        measured = np.isfinite(values) & (n > 3)
        found = models.next_site(self.figure.forward(values[measured]), 1 / (n[measured] - 3))
        if measured.any() and np.all(values[measured] == 0):
            nothing = "no intervals: the prediction is the same for everybody"
            return replace(found, mean=0.0, low=np.nan, high=np.nan, next_low=np.nan, next_high=np.nan, reason=nothing)
        turned = {
            name: float(np.tanh(getattr(found, name))) for name in ("mean", "low", "high", "next_low", "next_high")
        }
        return replace(found, **turned)

    def intervals(self, values: np.ndarray, counts: np.ndarray, models: Models) -> tuple[np.ndarray, np.ndarray]:
        """By Fisher's z; NaN with three people or fewer."""
        n = counts[:, 0].astype(float)
        with np.errstate(divide="ignore", invalid="ignore"):
            half = np.where(n > 3, 1.959964 / np.sqrt(np.where(n > 3, n - 3, 1)), np.nan)
        z = self.figure.forward(values)
        return np.tanh(z - half), np.tanh(z + half)

    def describe_size(self, row: Any) -> str:
        """Both correlations."""
        r, other = (row.mean_against, row.mean) if row.difference < 0 else (row.mean, row.mean_against)
        return f"r {two_digits(r)} against {two_digits(other)}"

    def describe_lead(self, ahead: str, behind: str, row: Any, verb: str) -> str:
        """With both correlations."""
        return f"{ahead} {verb} {behind}, {self.describe_size(row)},"

    def describe_interval(self, low: float, high: float) -> str:
        """Of the difference of Fisher's z."""
        return f"{low:.2f} to {high:.2f} of Fisher's z"

    difference_in = "of Fisher's z"

    def form_difference(self, difference: float) -> str:
        """Of Fisher's z."""
        return f"{difference:.2f}"

    def describe_added(self, row: Any, others: str) -> str:
        """Both correlations."""
        verb = "takes from" if row.difference < 0 else "adds to"
        r = f"r {two_digits(row.mean)} instead of {two_digits(row.mean_against)}"
        return f"{verb} the order that {others} give{'' if ' and ' in others else 's'}, {r},"


def delong_variance(label: np.ndarray, first: np.ndarray, second: np.ndarray) -> float:
    """Sampling variance of the difference of two AUCs of the same people.

    >>> y, x = np.repeat([1, 0], 4), np.array([4.0, 2, 6, 8, 1, 3, 5, 7])
    >>> delong_variance(y, x, x)
    0.0
    """
    gaps = [one - other for one, other in zip(placements(label, first), placements(label, second), strict=True)]
    return float(sum(gap.var(ddof=1) / len(gap) for gap in gaps))
