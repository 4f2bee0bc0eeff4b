"""The law of a learning curve over sites and people, and how sure it is.

A linear reader that has to estimate many weights from N people of n sites reads an effect d with error that falls with
both, so that on the probit scale (Raudys and Young 2004, for one site)

    AUC(N, n) = Phi(q^-1/2),      q = A + B / N + C / n

A is what no amount of data removes, B what people remove wherever they are, and C what only other sites remove. C may
be negative (sites that are too small cost more than they bring), but at the present number of people per site p more
sites never lower the curve: B / p + C >= 0. Fitted by least squares on the mean AUC of each number of sites and share
of people, weighted by the number of draws.

Uncertainty: test sites are drawn with replacement, and their deviations widened by sqrt(2 k / (k - 1)), as k left-out
sites train one another (see `brainroam.evaluation.stats.verdict`); to each mean an error of its finite number of draws
is added. The law is fitted again to each.

References
----------
Raudys and Young (2004), Results in statistical discriminant analysis: a review of the former Soviet Union literature,
Journal of Multivariate Analysis 89(1), 1-35.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from scipy.optimize import least_squares, lsq_linear
from scipy.special import ndtr, ndtri
from scipy.stats import norm

N_BOOT = 200
TAILS = (0.025, 0.975)
SMALLEST_Q, LARGEST_Q = 0.05, 1e4  # AUC 1 and 0.5, up to rounding


@dataclass(frozen=True)
class Law:
    """A fitted learning curve.

    Attributes
    ----------
    coef : ndarray of shape (3,)
        A, B / p + C, and B.
    drawn : ndarray of shape (n_boot, 3)
        The same of each bootstrap draw.
    people_per_site : float
        p, at present.
    n_sites : int
        Sites of the study; leave-one-site-out trains on one less.
    """

    coef: np.ndarray
    drawn: np.ndarray
    people_per_site: float
    n_sites: int

    def auc(self, n_sites: float, people_per_site: float | None = None) -> float:
        """Expected AUC at a new site of a model of so many sites."""
        return float(self._at(self.coef, n_sites, people_per_site))

    def interval(self, n_sites: float, people_per_site: float | None = None) -> tuple[float, float]:
        """95 % interval of that AUC."""
        low, high = np.quantile(self._at(self.drawn, n_sites, people_per_site), TAILS)
        return float(low), float(high)

    def gain(
        self,
        n_sites: float,
        people_per_site: float | None = None,
        from_sites: float | None = None,
        from_people: float | None = None,
    ) -> tuple[float, float, float]:
        """Difference of two points of the curve with its 95 % interval; by default against the study as it is."""
        start = self.n_sites if from_sites is None else from_sites
        both = [
            self._at(coef, n_sites, people_per_site) - self._at(coef, start, from_people)
            for coef in (self.coef, self.drawn)
        ]
        low, high = np.quantile(both[1], TAILS)
        return float(both[0]), float(low), float(high)

    @cached_property
    def ceiling(self) -> float:
        """AUC of endless sites and people."""
        return float(ndtr(np.clip(self.coef[0], SMALLEST_Q, LARGEST_Q) ** -0.5))

    def _at(self, coef: np.ndarray, n_sites: float, people_per_site: float | None) -> np.ndarray:
        people = self.people_per_site if people_per_site is None else people_per_site
        return _auc(_design(np.array(n_sites * people), np.array(n_sites), self.people_per_site), coef)


def fit_law(table: pd.DataFrame, n_sites: int, seed: int = 0, n_boot: int = N_BOOT) -> Law:
    """Fit the law to measured draws.

    Parameters
    ----------
    table : DataFrame
        One row per draw and test site: ``n_sites``, ``share``, ``draw``, ``n_people`` (in training), ``site``, ``auc``.
    n_sites : int
        Sites of the study.
    seed, n_boot : int
        Of the bootstrap.
    """
    whole = table[table["share"] == 1]
    people = float((whole["n_people"] / whole["n_sites"]).mean())
    cells = table.groupby(["n_sites", "share"])
    by_site = cells.apply(lambda cell: cell.groupby("site")["auc"].mean(), include_groups=False)
    by_site = by_site if isinstance(by_site, pd.DataFrame) else by_site.unstack("site")
    n_draws = cells["draw"].nunique().to_numpy(dtype=float)
    total, number = cells["n_people"].mean().to_numpy(), by_site.index.get_level_values("n_sites").to_numpy(dtype=float)
    design, weight = _design(total, number, people), np.sqrt(n_draws / n_draws.mean())
    aucs = by_site.to_numpy()  # (cells, sites)
    mean = aucs.mean(axis=1)
    error = _draw_errors(table, by_site)
    rng, k = np.random.default_rng(seed), aucs.shape[1]
    coef = _fitted(design, mean, weight)
    widened = np.sqrt(2 * k / (k - 1))
    drawn = []
    for _ in range(n_boot):
        again = aucs[:, rng.integers(k, size=k)].mean(axis=1)
        noisy = mean + widened * (again - mean) + error * rng.normal(size=len(mean))
        drawn.append(_fitted(design, noisy, weight, coef))
    return Law(coef, np.array(drawn), people, n_sites)


def _draw_errors(table: pd.DataFrame, by_site: pd.DataFrame) -> np.ndarray:
    """Standard error of each cell's mean by its draws: how much they differ once the test sites are allowed for."""
    expected = by_site.stack().rename("expected").reset_index()
    rows = table.merge(expected, on=["n_sites", "share", "site"])
    rows = rows.assign(off=rows["auc"] - rows["expected"])
    per_draw = rows.groupby(["n_sites", "share", "draw"])["off"].mean().groupby(["n_sites", "share"])
    return (per_draw.std().fillna(0) / np.sqrt(per_draw.size())).reindex(by_site.index).to_numpy()


def _design(n_people: np.ndarray, n_sites: np.ndarray, people_per_site: float) -> np.ndarray:
    """Columns of A, B / p + C and B, so that each is at least 0."""
    one = np.ones_like(n_sites, dtype=float)
    return np.stack([one, 1 / n_sites, 1 / n_people - 1 / (n_sites * people_per_site)], axis=-1)


def _auc(design: np.ndarray, coef: np.ndarray) -> np.ndarray:
    return ndtr(np.clip(coef @ design.T if coef.ndim > 1 else design @ coef, SMALLEST_Q, LARGEST_Q) ** -0.5)


def _fitted(design: np.ndarray, auc: np.ndarray, weight: np.ndarray, start: np.ndarray | None = None) -> np.ndarray:
    scale = 1 / np.abs(design).max(axis=0)  # of 1, 1 / n and a small difference: made alike for the solver
    if start is None:
        q = np.clip(ndtri(np.clip(auc, 0.51, 0.999)) ** -2, SMALLEST_Q, LARGEST_Q)
        steep = weight / q**1.5  # by how much q moves the AUC, about
        start = lsq_linear(design * scale * steep[:, None], q * steep, (0, np.inf)).x * scale
    scaled = design * scale

    def off(x: np.ndarray) -> np.ndarray:
        return weight * (_auc(scaled, x) - auc)

    def slope(x: np.ndarray) -> np.ndarray:
        q = np.clip(scaled @ x, SMALLEST_Q, LARGEST_Q)
        return (-0.5 * weight * norm.pdf(q**-0.5) * q**-1.5)[:, None] * scaled

    return least_squares(off, np.maximum(start / scale, 1e-6), slope, bounds=(0, np.inf), ftol=1e-6).x * scale
