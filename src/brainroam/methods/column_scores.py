"""Columns of a table that are skewed, heavy-tailed or mostly zero, read by the place of a value among training people.

A ridge adds columns up, so a few huge values decide where a column is not about normal within sites. Such a column j is
read as the normal score of a value among all training people,

    g_j(x) = Phi^-1(F_j(x)),      F_j(x) = (#{x_i < x} + #{x_i <= x}) / 2 n,

which is the same for any unit or logarithm and puts ties, such as zeros, at the middle of their ranks. g_j is kept as
straight lines between `KNOTS` knots, each the mean of one part of the sorted training people (of `LEAST` at least, so
that no knot is somebody's value) and of their scores; beyond its ends it is constant. The means of sites are removed
afterwards, as of any column.

Which columns are read so is seen without labels, from the skewness s_j and the excess kurtosis k_j of what is left of a
column without its site means, over the N training people who have it:

    s_j^2 / 6 + k_j^2 / 24  >  BENT + CHANCE / N

N times the left side is the statistic of Jarque and Bera (1980), below `CHANCE` for 95 % of normal columns; `BENT` is
less than what a log-normal column has whose logarithm has a standard deviation of .2 (.08). So a shift of a site's
level makes no column skewed, and tables of thickness are read as before, but for their volumes of ventricles and
lesions. What this gains and costs is measured in docs/results/blocks.md.

Sums of powers add up over sites, and a column is sorted once for a study: all folds share both, and what a fold learns
depends on its training people alone.

References
----------
Jarque and Bera (1980), Efficient tests for normality, homoscedasticity and serial independence of regression
residuals, Economics Letters 6(3), 255-259.
"""

from functools import partial
from typing import Self

import numpy as np
from scipy.special import ndtri

from brainroam.core.connectivity import cohort_edges
from brainroam.data.cohort import Cohort
from brainroam.data.features import Features

BENT, CHANCE = 0.05, 6.0
KNOTS, LEAST = 256, 2  # parts of the sorted people, and people in each of them
COPIES = 3  # of a table in memory


class ColumnScores:
    """The transform g of every column, learned from training people.

    Attributes
    ----------
    skewed_ : ndarray of int
        Positions of the columns that are not read as they are.
    knots_, scores_ : ndarray of shape (KNOTS, number of skewed columns)
        g as pairs of a value and its score.
    """

    def fit(self, cohort: Cohort) -> Self:
        """Learn from these people which columns are skewed, and their distributions."""
        cohort.features.require_memory(COPIES * 8 * len(cohort) * cohort.n_features, "the columns of a table")
        whole, rows = cohort.origin
        cache, values = cohort.features.cache, np.asarray(cohort_edges(whole))
        site = cohort.table["site"].to_numpy().astype(str)
        people = [rows[site == name] for name in np.unique(site)]
        moments = [cache.summary("powers of columns", [here], partial(sums_of_powers, values[here])) for here in people]
        self.skewed_ = np.flatnonzero(are_skewed(np.sum(moments, axis=0)))
        order = cache.get("order of columns", [], lambda: np.argsort(values, axis=0, kind="stable").astype(np.int32))
        inside = np.zeros(len(values), dtype=bool)
        inside[rows] = True
        place = order[:, self.skewed_].T
        ordered = values[place[inside[place]].reshape(len(place), len(rows)), self.skewed_[:, None]]
        self.knots_, self.scores_ = np.moveaxis(curves(ordered), 0, -1)
        return self

    def transform(self, cohort: Cohort) -> Cohort:
        """The same people with scores in the place of values of skewed columns, person by person."""
        return cohort.measured_by(Features(self.rows_of(cohort))) if len(self.skewed_) else cohort

    def rows_of(self, cohort: Cohort) -> list[np.ndarray]:
        """The row of each person, by scores where columns are skewed."""
        values = np.array(cohort_edges(cohort))
        for j, knots, scores in zip(self.skewed_, self.knots_.T, self.scores_.T, strict=True):
            values[:, j] = np.interp(values[:, j], knots, scores)
        values.setflags(write=False)
        return list(values[:, None])

    def state(self) -> dict[str, np.ndarray]:
        """What was learned; nothing where no column is skewed."""
        learned = {"skewed": self.skewed_, "knots": self.knots_, "scores": self.scores_}
        return {f"columns.{name}": value for name, value in learned.items()} if len(self.skewed_) else {}

    def load_state(self, state: dict[str, np.ndarray]) -> Self:
        """Restore what `state` returned."""
        nothing = np.empty((KNOTS, 0))
        self.skewed_ = state.get("columns.skewed", np.empty(0, dtype=int))
        self.knots_, self.scores_ = (state.get(f"columns.{name}", nothing) for name in ("knots", "scores"))
        return self


def sums_of_powers(values: np.ndarray) -> np.ndarray:
    """How many people of a site (n, M) have each column, and sums of powers 2 to 4 about its mean there (4, M)."""
    count = np.isfinite(values).sum(axis=0)
    about = np.nan_to_num(values - np.nansum(values, axis=0) / np.maximum(count, 1))
    return np.stack([count, *((about**power).sum(axis=0) for power in (2, 3, 4))])


def are_skewed(moments: np.ndarray) -> np.ndarray:
    """Which columns (M,) are far from normal, from `sums_of_powers` of all sites.

    >>> x = np.random.default_rng(0).normal(size=(300, 2)) * [1, 0.5]; x[:, 1] = np.exp(x[:, 1])
    >>> are_skewed(sums_of_powers(x)).tolist()
    [False, True]
    """
    count, *sums = moments
    square, cube, fourth = (power / np.maximum(count, 1) for power in sums)
    square = np.where(square > 0, square, np.inf)  # a column that does not vary is not skewed
    skewness, kurtosis = cube / square**1.5, np.where(np.isfinite(square), fourth / square**2 - 3, 0)
    return skewness**2 / 6 + kurtosis**2 / 24 > BENT + CHANCE / np.maximum(count, 1)


def _normal_scores(ordered: np.ndarray) -> np.ndarray:
    """Normal scores of sorted values, ties at the middle of their ranks.

    >>> _normal_scores(np.array([0.0, 0.0, 5.0, 9.0])).round(2).tolist()
    [-0.67, -0.67, 0.32, 1.15]
    """
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    ends = np.append(first, len(ordered))
    return np.repeat(ndtri((ends[:-1] + ends[1:]) / (2 * len(ordered))), np.diff(ends))


def curves(ordered: np.ndarray) -> np.ndarray:
    """Knots and scores (M, 2, KNOTS) of g of each column, whose values (M, n) are sorted, NaN last.

    Of fewer people than all knots need the last is repeated.

    >>> knots, scores = curves(np.arange(8.0)[None])[0]
    >>> knots[:5].tolist(), scores[:4].round(2).tolist()
    ([0.5, 2.5, 4.5, 6.5, 6.5], [-1.21, -0.32, 0.32, 1.21])
    >>> curves(np.array([[0.0] * 6 + [1, 2]]))[0, 1, :4].round(2).tolist()  # zeros have one score
    [-0.32, -0.32, -0.32, 1.21]
    """
    starts, size = _parts(ordered.shape[1])
    means = np.add.reduceat(ordered, starts, axis=1) / size
    scores = np.add.reduceat(_normal_scores(np.arange(ordered.shape[1])), starts) / size
    both = np.stack([means, np.broadcast_to(scores, means.shape)], axis=1)
    both = np.pad(both, ((0, 0), (0, 0), (0, KNOTS - len(starts))), mode="edge")
    # One value in several parts, or unknown ones.
    for j in np.flatnonzero((means[:, 1:] <= means[:, :-1]).any(axis=1) | np.isnan(ordered[:, -1])):
        known = ordered[j, np.isfinite(ordered[j])]
        starts, size = _parts(len(known))
        of_column = [np.add.reduceat(x, starts) / size for x in (known, _normal_scores(known))]
        both[j] = np.pad(of_column, ((0, 0), (0, KNOTS - len(starts))), mode="edge")
    return both


def _parts(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Where the parts of n sorted people begin, and how many people are in each."""
    parts = max(min(KNOTS, n // LEAST), 1)
    starts = np.arange(parts) * n // parts
    return starts, np.diff(np.append(starts, n))


def by_scores(cohort: Cohort) -> tuple[ColumnScores, Cohort]:
    """The transform learned from a cohort, and its people by it; what is no table stays as it is.

    What is computed of transformed people is kept as long as the cohort, for the next who reads the same people.
    """
    if cohort.measure != "table":
        return ColumnScores().load_state({}), cohort
    place = np.unique(cohort.table["site"].to_numpy().astype(str), return_inverse=True)[1]

    def learn() -> tuple[ColumnScores, Features | None]:
        columns = ColumnScores().fit(cohort)
        return columns, columns.transform(cohort).features if len(columns.skewed_) else None

    columns, features = cohort.features.cache.get("columns by scores", [cohort.origin[1], place], learn)
    return columns, cohort if features is None else cohort.measured_by(features)
