"""The law of a learning curve over sites and people, and how sure it is.

    probit AUC(N, n) = a + b g(N) + d g(n),      g(x) = (1 - x^-c) / c,      c = 1/4

for a model of N people of n sites, read at a new site; for c = 0, g is the logarithm. b is what people bring wherever
they are, and d what only other sites bring. d may be negative (sites that are too small cost more than they bring), but
at the present number of people per site more sites never lower the curve: b + d >= 0 at p people, and b >= 0. Fitted by
least squares on the probit of the mean AUC of each number of sites and share of people, weighted by the number of
draws; then a is set so that the curve passes through the AUC of leave-one-site-out, from where it is extended. For a
number the correlation within sites takes the place of the AUC and Fisher's z that of the probit (`figures.Figure`).

The exponent is given, not fitted: a few points over a short range cannot tell a steep curve that levels off soon from a
flat one that goes on, and whatever is fitted to them is then extended. On the probit scale a curve levels off as it
nears 1, wherever it begins. What else was tried, and how well each law foretold larger studies: docs/reliability.md,
docs/results/log.md.

Uncertainty: test sites are drawn with replacement, and their deviations widened by sqrt(2 k / (k - 1)), as k left-out
sites train one another (see `brainroam.evaluation.stats.verdict`); to each mean an error of its finite number of draws
is added. As nobody knows the exponent, each draw has its own, uniform between -1/3 and 1. The law is fitted to each.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import nnls
from scipy.special import exprel

from brainroam.data.target.figures import AREA, Change, Figure

N_BOOT = 400
TAILS = (0.025, 0.975)
EXPONENT, EXPONENTS = 0.25, (-1 / 3, 1.0)


@dataclass(frozen=True)
class Law:
    """A fitted learning curve.

    Attributes
    ----------
    coef : ndarray of shape (4,)
        a, the slope of g(n) at p people per site, the slope of what people alone bring, and c.
    drawn : ndarray of shape (n_boot, 4)
        The same of each bootstrap draw.
    people_per_site : float
        p, at present.
    n_sites : int
        Sites of the study; leave-one-site-out trains on one less.
    figure : Figure
        What the curve is of.
    """

    coef: np.ndarray
    drawn: np.ndarray
    people_per_site: float
    n_sites: int
    figure: Figure = AREA

    def expected(self, n_sites: float, people_per_site: float | None = None) -> float:
        """Expected figure at a new site of a model of so many sites."""
        return float(self._at(self.coef, n_sites, people_per_site))

    def interval(self, n_sites: float, people_per_site: float | None = None) -> tuple[float, float]:
        """95 % interval of that figure."""
        low, high = np.quantile(self._at(self.drawn, n_sites, people_per_site), TAILS)
        return float(low), float(high)

    def gain(
        self,
        n_sites: float,
        people_per_site: float | None = None,
        from_sites: float | None = None,
        from_people: float | None = None,
    ) -> Change:
        """Difference of two points of the curve; by default against the study as it is."""
        start = self.n_sites if from_sites is None else from_sites
        both = [
            self._at(coef, n_sites, people_per_site) - self._at(coef, start, from_people)
            for coef in (self.coef, self.drawn)
        ]
        low, high = np.quantile(both[1], TAILS)
        return Change(float(both[0]), float(low), float(high))

    def _at(self, coef: np.ndarray, n_sites: float, people_per_site: float | None) -> np.ndarray:
        people = self.people_per_site if people_per_site is None else people_per_site
        a, slope, of_people, exponent = coef.T
        columns = _columns(n_sites, people / self.people_per_site, exponent)
        return self.figure.curved(a + slope * columns[0] + of_people * columns[1])


def fit_law(
    table: pd.DataFrame,
    n_sites: int,
    seed: int = 0,
    n_boot: int = N_BOOT,
    weights: pd.Series | None = None,
    figure: Figure = AREA,
) -> Law:
    """Fit the law to measured draws.

    Parameters
    ----------
    table : DataFrame
        One row per draw and test site: ``n_sites``, ``share``, ``draw``, ``n_people`` (in training), ``site``, and the
        figure, ``auc`` or ``r``.
    n_sites : int
        Sites of the study.
    seed, n_boot : int
        Of the bootstrap.
    weights : Series, optional
        Weight of each test site by name (`metrics.site_weights`); by default they count alike.
    figure : Figure
        What the curve is of.
    """
    table = table.assign(value=figure.forward(table[figure.name].to_numpy(dtype=float)))
    whole = table[table["share"] == 1]
    people = float((whole["n_people"] / whole["n_sites"]).mean())
    cells = table.groupby(["n_sites", "share"])
    by_site = cells.apply(lambda cell: cell.groupby("site")["value"].mean(), include_groups=False)
    by_site = by_site if isinstance(by_site, pd.DataFrame) else by_site.unstack("site")
    n_draws = cells["draw"].nunique().to_numpy(dtype=float)
    total, number = cells["n_people"].mean().to_numpy(), by_site.index.get_level_values("n_sites").to_numpy(dtype=float)
    fuller, weight = total / (number * people), np.sqrt(n_draws / n_draws.mean())
    values = by_site.to_numpy()  # (cells, sites)
    of_sites = np.ones(values.shape[1]) if weights is None else weights[by_site.columns].to_numpy(dtype=float)
    mean = np.average(values, axis=1, weights=of_sites)
    error = _draw_errors(table, by_site, of_sites)
    rng, k = np.random.default_rng(seed), values.shape[1]
    widened = np.sqrt(2 * k / (k - 1))
    drawn = []
    for _ in range(n_boot):
        chosen = rng.integers(k, size=k)
        again = np.average(values[:, chosen], axis=1, weights=of_sites[chosen])
        noisy = mean + widened * (again - mean) + error * rng.normal(size=len(mean))
        drawn.append(_fit_coefficients(number, fuller, figure.straight(noisy), weight, rng.uniform(*EXPONENTS)))
    coef = _fit_coefficients(number, fuller, figure.straight(mean), weight, EXPONENT)
    return Law(coef, np.array(drawn), people, n_sites, figure)


def _draw_errors(table: pd.DataFrame, by_site: pd.DataFrame, weights: np.ndarray) -> np.ndarray:
    """Standard error of each cell's mean by its draws: how much they differ once the test sites are allowed for."""
    expected = by_site.stack().rename("expected").reset_index()
    rows = table.merge(expected, on=["n_sites", "share", "site"])
    weight = rows["site"].map(dict(zip(by_site.columns, weights, strict=True)))
    rows = rows.assign(off=weight * (rows["value"] - rows["expected"]), weight=weight)
    sums = rows.groupby(["n_sites", "share", "draw"])[["off", "weight"]].sum()
    per_draw = (sums["off"] / sums["weight"]).groupby(["n_sites", "share"])
    return (per_draw.std().fillna(0) / np.sqrt(per_draw.size())).reindex(by_site.index).to_numpy()


def _columns(n_sites: Any, share: Any, exponent: Any) -> tuple[Any, Any]:
    """g(n) and g(n share) - g(n): what more sites bring, and what sites that have this share of p people lack."""
    sites, people = (_g(np.asarray(x, dtype=float), exponent) for x in (n_sites, n_sites * share))
    return sites, people - sites


def _g(x: np.ndarray, exponent: Any) -> np.ndarray:
    """(1 - x^-c) / c, without the quotient of two small numbers near c = 0."""
    return np.log(x) * exprel(-exponent * np.log(x))


def _fit_coefficients(
    n_sites: np.ndarray, share: np.ndarray, z: np.ndarray, weight: np.ndarray, exponent: float
) -> np.ndarray:
    design = np.stack(_columns(n_sites, share, exponent), axis=-1)
    centre = np.average(design, axis=0, weights=weight**2), np.average(z, weights=weight**2)
    coef, _ = nnls((design - centre[0]) * weight[:, None], (z - centre[1]) * weight)
    last = np.argmax(n_sites * share)  # leave-one-site-out
    return np.array([z[last] - design[last] @ coef, *coef, exponent])
