"""How many people or sites tell two methods apart.

Both methods score the same people at each of k left-out sites. The difference of their AUCs at a site of m cases and n
controls has the variance

    tau^2 + c / h,       h = m n / (m + n),

c from DeLong's paired variances, tau^2 what differs between sites beyond that; mean and scatter of the sites measured
have the weights of `metrics.site_weights`. Of several classes and of a number `orders` says what stands for AUC, c, h
and the weights. Left-out sites correlate by 1 / (k - 1),
so they scatter by (k - 2) / (k - 1) of it, and their mean is tested by `paired.left_out_t`: with K sites of P people,
of whom as large a share q are cases as in these data (h = P q (1 - q)),

    se^2 = 2 (tau^2 + c / h) / K

and the power against a true difference comes from the noncentral t with K - 1 degrees of freedom.

References
----------
DeLong, DeLong and Clarke-Pearson (1988), Biometrics 44(3), 837-845.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from scipy.stats import nct, t

from brainroam.data.people import persons
from brainroam.data.target import TWO_CLASSES, Target
from brainroam.data.target.orders import Areas, Order
from brainroam.data.target.weights import MIN_WEIGHT, mean_over_sites, number_of_sites
from brainroam.errors import DataError

ALPHA, POWER = 0.05, 0.8
MOST_PEOPLE, MOST_SITES = 2000, 500
MIN_SITES = 5


@dataclass(frozen=True)
class Contrast:
    """What is known of the difference of two methods: its size, and what it scatters by."""

    method: str
    against: str
    n_sites: int
    difference: float
    tau2: float
    c: float
    order: Order = field(default_factory=Areas, repr=False)

    def power(self, n_sites: int, people_per_site: float, difference: float) -> float:
        """Chance that the difference is found at the 5 % level."""
        variance = self.tau2 + self.c / self.order.h(people_per_site)
        error = np.sqrt(2 * variance / n_sites)
        if error == 0:
            return 1.0
        critical, centre = t.ppf(1 - ALPHA / 2, n_sites - 1), difference / error
        chance = float(nct.sf(critical, n_sites - 1, centre) + nct.cdf(-critical, n_sites - 1, centre))
        return 1.0 if np.isnan(chance) else chance  # scipy gives up on differences of many standard errors

    def people_needed(self, difference: float) -> int | None:
        """People at each of these sites for a power of 80 %; None where no number up to 2,000 is enough."""
        return _smallest(lambda people: self.power(self.n_sites, people, difference), 4, MOST_PEOPLE)

    def sites_needed(self, difference: float, people_per_site: float) -> int | None:
        """Sites for a power of 80 %; None where no number up to 500 is enough."""
        return _smallest(lambda k: self.power(k, people_per_site, difference), 3, MOST_SITES)


def contrast(predictions: pd.DataFrame, methods: Sequence[str], target: Target = TWO_CLASSES) -> Contrast:
    """Measure the difference of the first two methods from predictions of left-out sites.

    Parameters
    ----------
    predictions : DataFrame
        ``method``, ``site``, ``seed``, ``subject``, ``label``, ``score`` (of several classes ``score_<class>``), of one
        protocol; scores are averaged over seeds and over the scans of a ``person``. A site with one person of a class
        counts for the difference, not for how much it scatters.
    methods : sequence of str
    target : Target
    """
    method, against = methods[:2]
    order, columns = target.order, target.score_columns
    rows = predictions[predictions["method"].isin([method, against])]
    rows = rows.assign(subject=persons(rows))
    wide = rows.pivot_table(index=["site", "subject", "label"], columns="method", values=columns).dropna()
    every, gaps, figures = [], [], []
    for _, here in wide.groupby("site"):
        label = here.index.get_level_values("label").to_numpy()
        both = [target.scores_of(here.xs(name, axis=1, level="method")) for name in (method, against)]
        (first, weight), (second, _) = (order.at_site(label, score) for score in both)
        averaged = order.figure.forward(np.array([first, second]))
        every.append((averaged[0] - averaged[1], weight))
        if order.usable(label):
            gaps.append(order.gap(label, *both))
            figures.append([first, second])
    if len(gaps) < MIN_SITES:
        raise DataError(
            f"{method} and {against} were both measured at {len(gaps)} sites with {order.needs}; "
            f"at least {MIN_SITES} are needed to say how much their difference scatters"
        )
    order = order.among(wide.index.get_level_values("label").to_numpy())
    difference, variances, sizes, weights = np.array(gaps).T
    k, mean = number_of_sites(weights), mean_over_sites(difference, weights)
    if k < MIN_WEIGHT:
        raise DataError(f"all but one or two of the {len(gaps)} sites have too few people to say how much they differ")
    scatter, sampling = (np.average(values, weights=weights) for values in ((difference - mean) ** 2, variances))
    tau2 = max(float(scatter * k / (k - 2) - sampling), 0.0)
    c = float(np.average(np.multiply(variances, sizes), weights=weights))
    # Told as a difference of figures, at the mean of both methods.
    unit = order.figure.slope(float(np.mean([order.figure.mean(one, weights) for one in np.array(figures).T])))
    difference_of_all = unit * mean_over_sites(*zip(*every, strict=True))
    return Contrast(method, against, len(gaps), difference_of_all, unit**2 * tau2, unit**2 * c, order)


def _smallest(power, least: int, most: int) -> int | None:
    """The smallest whole number that reaches the power, by halving: power grows with it."""
    if power(most) < POWER:
        return None
    low, high = least - 1, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power(middle) >= POWER else (middle, high)
    return high
