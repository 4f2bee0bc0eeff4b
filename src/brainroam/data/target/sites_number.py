"""How well a number is predicted at sites never seen: order, level and scale, and against a constant.

Three things may travel, or not. At each held-out site, with truth t and prediction p on the scale the target is learned
on (the logarithm where that is its transform), and both in the target's own units where it says so,

    order   r       correlation of p with t among the people of the site
    level   level   mean p - mean t, in units
    scale   scale   slope of t on p: 1 is right, less means too extreme; none where its standard error is above 1,
                    because the predictions at the site hardly differ
    error   mae     mean |p - t|, in units, beside that of a constant: the mean of the training people
            gain_se standard error of their difference; a site is clearly better than a constant, or worse, where the
                    difference is more than its quantile of 97.5 % (t) and 1 % of the constant's error
            r2      1 - sum (t - p)^2 / sum (t - mean t)^2        within the site: its own mean is known to nobody
            r2_constant                                           the same with the mean of the training people

The within-site figures come first: where sites differ in age, a model that only tells sites apart has a high
correlation over all and none within.

Means over sites have the weight min(n, 40), after `weights`: 20 of either class. By how much the level of the next site
is to be expected off, and whether the gain over a constant is sure, are asked of the plain model of `orders.Models`.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.stats import t as t_law

from brainroam.data.target.order import LEAST, correlations, is_constant
from brainroam.data.target.weights import FULL, mean_over_sites

if TYPE_CHECKING:
    from brainroam.data.target.number import Number
    from brainroam.data.target.orders import Models

METRICS = (
    "r",
    "level",
    "scale",
    "mae",
    "mae_constant",
    "gain_se",
    "r2",
    "r2_constant",
    "sd",
    "error_sd",
    "covered_80",
    "covered_90",
)
RULE = f"mean over sites, each weighted by its people, {2 * FULL} at most"
SMALL = 0.25  # of the spread within sites: a level error below this is called small
VISIBLE = 0.01  # share of a constant's error below which a gain is none, however sure it is
BORROWED = 4  # people whose variance a site borrows from all sites
UNSURE = 1.0  # standard error of a slope beyond which it is not told


def site_metrics(
    truth: np.ndarray, predicted: np.ndarray, constant: float, target: "Number", covered: dict[str, float] | None = None
) -> dict[str, float | int]:
    """Every metric of one held-out site.

    Parameters
    ----------
    truth, predicted : ndarray of shape (N,)
        In the target's own units.
    constant : float
        What a constant would say: the mean of the training people, in units.
    target : Target
    covered : dict, optional
        Shares of people inside their intervals, ``covered_80`` and ``covered_90``.

    Examples
    --------
    >>> from brainroam.data.target import Number
    >>> found = site_metrics(np.array([1.0, 2, 3, 4]), np.array([2.0, 3, 4, 5]), 2.0, Number("x"))
    >>> found["r"], found["level"], found["scale"], found["mae"], round(found["r2"], 2)
    (1.0, 1.0, 1.0, 1.0, 0.2)
    """
    t, p, c = target.forward(truth), target.forward(predicted), float(target.forward(np.array([constant]))[0])
    about = float(np.square(t - t.mean()).sum())
    squared = float(np.square(t - p).sum())
    order, unit = len(t) >= LEAST and about > 0, float(np.std(t))
    gain = np.abs(constant - truth) - np.abs(predicted - truth)
    return {
        "n": len(t),
        "r": float(correlations(t, p, unit)) if order else np.nan,
        "level": float(predicted.mean() - truth.mean()),
        "scale": _scale(t, p),
        "mae": float(np.abs(predicted - truth).mean()),
        "mae_constant": float(np.abs(constant - truth).mean()),
        "gain_se": float(gain.std(ddof=1) / np.sqrt(len(t))) if len(t) > 1 else np.nan,
        "r2": 1 - squared / about if about > 0 else np.nan,
        "r2_constant": 1 - squared / max(float(np.square(t - c).sum()), 1e-300),
        "sd": float(np.std(truth)),
        "error_sd": float(np.std(predicted - truth)),
        **{name: (covered or {}).get(name, np.nan) for name in ("covered_80", "covered_90")},
    }


def _scale(t: np.ndarray, p: np.ndarray) -> float:
    """Slope of t on p, NaN where it is too uncertain to say anything."""
    x, y = p - p.mean(), t - t.mean()
    spread = float(x @ x)
    if len(t) < 3 or is_constant(p, float(np.std(t))):
        return np.nan
    slope = float(x @ y) / spread
    error = np.sqrt(float(np.square(y - slope * x).sum()) / (len(t) - 2) / spread)
    return slope if error <= UNSURE else np.nan


def over_sites(sites: pd.DataFrame, models: "Models") -> dict[str, float]:
    """What held-out sites say of one method beside its order; a row of `site_metrics` each, seeds averaged.

    ``off`` is by how much the level of the next site is to be expected off (`level_off`). ``better`` and ``worse`` are
    the sites that are clearly so than a constant, ``gain_low`` the lower end of the 95 % interval of the mean gain over
    it, and ``spread`` the mean standard deviation of the target within sites.
    """
    n, r = sites["n"].to_numpy(dtype=float), sites["r"].to_numpy(dtype=float)
    judged, weight = np.isfinite(r) & (n > 3), weights_of(n)
    constant, error = (sites[name].to_numpy(dtype=float) for name in ("mae_constant", "mae"))
    gain, gain_se = constant - error, sites["gain_se"].to_numpy(dtype=float)
    gain_variance = variances_of_means(n, np.nan_to_num(n * (n - 1) * np.square(gain_se)))
    surely = np.maximum(t_law.ppf(0.975, np.maximum(n - 1, 1)) * gain_se, VISIBLE * constant)
    means = {
        name: mean_over_sites(sites[name].to_numpy(), weight) for name in ("mae", "mae_constant", "r2", "r2_constant")
    }
    return {
        "level": level_of_sites(sites, models).mean,
        "off": level_off(sites, models),
        "scale": float(sites["scale"].median()),
        **means,
        "better": int((gain > surely)[judged].sum()),
        "worse": int((gain < -surely)[judged].sum()),
        "gain_low": models.next_site(gain[judged], _above_zero(gain[judged], gain_variance[judged])).low,
        "spread": mean_over_sites(sites["sd"].to_numpy(), weight),
    }


def level_of_sites(sites: pd.DataFrame, models: "Models") -> Any:
    """The mean error of level over sites (``n``, ``level``, ``error_sd``) and what to expect at the next, in units."""
    return models.next_site(*_levels(sites))


def level_off(sites: pd.DataFrame, models: "Models") -> float:
    """By how much the level of the next site is to be expected off, in units: `next_size` of the level errors.

    With too few sites for that their root mean square, in which errors of opposite sign do not cancel.
    """
    off, squares = models.next_size(*_levels(sites)), np.square(sites["level"].to_numpy(dtype=float))
    return float(np.sqrt(mean_over_sites(squares, weights_of(sites["n"].to_numpy())))) if np.isnan(off) else off


def weights_of(n: np.ndarray) -> np.ndarray:
    """The weight of each site in a mean."""
    return np.minimum(n, 2 * FULL).astype(float)


def _levels(sites: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Level errors of sites and their sampling variances."""
    n, level = sites["n"].to_numpy(dtype=float), sites["level"].to_numpy(dtype=float)
    return level, _above_zero(level, variances_of_means(n, n * np.square(sites["error_sd"].to_numpy(dtype=float))))


def variances_of_means(n: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """Sampling variances of means of n people, from the sums of their squared distances from the mean.

    A few people tell their own variance badly, and one not at all: each site counts as if `BORROWED` more people had
    told that of all sites.

    >>> variances_of_means(np.array([1.0, 2.0, 41.0]), np.array([0.0, 0.0, 44.0])).round(2).tolist()
    [1.07, 0.43, 0.03]
    """
    freedom = np.maximum(n - 1, 0)
    of_all = squares.sum() / max(freedom.sum(), 1)
    return np.asarray((squares + BORROWED * of_all) / (freedom + BORROWED) / np.maximum(n, 1))


def _above_zero(values: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """Variances of values in units, some of which may be exact."""
    return np.maximum(variances, 1e-12 * max(float(np.square(values).max(initial=0)), 1e-12))
