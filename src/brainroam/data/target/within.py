"""Values about the means of their sites."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

EPS = 1e-12


def means_at_sites(values: np.ndarray, site: np.ndarray) -> dict[str, float]:
    """The mean of a number at each site."""
    return {str(name): float(values[site == name].mean()) for name in np.unique(site)}


def within_sites(values: np.ndarray, site: np.ndarray) -> np.ndarray:
    """Values (n,) or (n, ...) without the means of their sites, taken over those who have a value.

    >>> within_sites(np.array([1.0, 3.0, 10.0, np.nan]), np.array(["A", "A", "B", "B"])).tolist()
    [-1.0, 1.0, 0.0, nan]
    """
    table = pd.DataFrame(np.reshape(values, (len(values), np.size(values) // max(len(values), 1))))
    return (table - table.groupby(np.asarray(site)).transform("mean")).to_numpy().reshape(np.shape(values))


class Coded(NamedTuple):
    """People's values as they are fitted; of a number its means at the sites, in the unit of y, which is about them."""

    y: np.ndarray
    levels: Mapping[str, float]


def coded_number(values: np.ndarray, site: Sequence[str] | np.ndarray) -> Coded:
    """A number (n,) without the means of the sites, over its spread within them, and these means in the same unit.

    >>> y, levels = coded_number(np.array([1.0, 3.0, 10.0, 12.0]), np.array(["A", "A", "B", "B"]))
    >>> y.tolist(), levels
    ([-1.0, 1.0, -1.0, 1.0], {'A': 2.0, 'B': 11.0})
    """
    t, site = np.array(values, dtype=float), np.asarray(site).astype(str)
    means = means_at_sites(t, site)
    for name, mean in means.items():
        t[site == name] -= mean
    unit = max(float(t.std()), EPS)
    return Coded(t / unit, {name: mean / unit for name, mean in means.items()})
