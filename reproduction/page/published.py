"""The numbers the paper prints, from one file; they are never mixed with ours.

``published.csv`` has a row per number: ``table`` (as numbered in the paper), ``dataset``, ``item`` (a system, a site or
an edge), ``measure``, ``value`` and, where the paper gives one, ``sd``. Figures are pictures without numbers, so of
them only what the text says is here, as `CLAIMS`.
"""

from functools import cache
from pathlib import Path

import pandas as pd
from scipy.stats import t

FILE = Path(__file__).with_name("published.csv")
OUT_OF_DISTRIBUTION, COHORTS, IN_DISTRIBUTION, EDGES, SECONDS, MEMORY = 1, 2, 7, 8, 9, 10

#: What the paper says of figures whose numbers it does not print.
CLAIMS = {
    "ablation": "each part lowers AUC and ACC when it is taken away (Figures 4a and 4b; 6a and 6b for SRPBS and ABCD)",
    "k": "K = 80 is best on ABIDE, REST-meta-MDD and SRPBS, the largest K on ABCD (Figures 4c, 6c and 6d)",
    "windows": "W = 30 with stride 5 is best; longer windows and strides are generally worse (Figures 4d, 6e and 6f)",
    "embedding": "CORE separates patients and controls better than BrainOOD (Figure 3)",
}


@cache
def published(table: int, dataset: str | None) -> pd.DataFrame:
    """The numbers of one table for one dataset: ``item``, ``measure``, ``value``, ``sd``; empty for other data.

    >>> rows = published(1, "abide").set_index(["item", "measure"])["value"]
    >>> float(rows["CORE", "auc"]), float(rows["BrainOOD", "acc"])
    (65.53, 59.66)
    """
    rows = _numbers()
    return rows[(rows["table"] == table) & (rows["dataset"] == (dataset or ""))].reset_index(drop=True)


def wide(table: int, dataset: str | None) -> pd.DataFrame:
    """The same with a row per item and columns ``MEASURE`` and ``MEASURE_sd``, in the paper's order."""
    rows = published(table, dataset)
    if rows.empty:
        return pd.DataFrame()
    values = rows.pivot(index="item", columns="measure", values="value")
    spreads = rows.pivot(index="item", columns="measure", values="sd").add_suffix("_sd")
    return values.join(spreads).loc[rows["item"].drop_duplicates()]


def difference(
    ours: float, low: float, high: float, theirs: float, sd: float, n_sites: int
) -> tuple[float, float, float]:
    """Ours minus published, with a 95 % interval by squaring and adding both uncertainties (Newcombe's MOVER).

    Theirs is a mean over ``n_sites`` sites with standard deviation ``sd``. The people are mostly the same, but the
    paper prints no result by site, so the two cannot be paired: the interval is wider than one of a paired difference.

    >>> [round(x, 1) for x in difference(70, 62, 77, 65, 7, 10)]
    [5, -4.4, 13.6]
    """
    half = float(t.ppf(0.975, n_sites - 1)) * sd / n_sites**0.5
    gap = ours - theirs
    return gap, gap - ((ours - low) ** 2 + half**2) ** 0.5, gap + ((high - ours) ** 2 + half**2) ** 0.5


@cache
def _numbers() -> pd.DataFrame:
    return pd.read_csv(FILE)
