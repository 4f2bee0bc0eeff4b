"""What the columns of a table look like, who lacks them, and whether one of them tells all that the table tells."""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from brainroam.data.check.report import Finding
from brainroam.data.cohort import Cohort
from brainroam.data.readers.clinical import LACKS, LEVEL
from brainroam.data.target.orders import Order
from brainroam.errors import counted, listed

SKEWED, FLOOR = 1.0, 0.3  # skewness within sites; share of people who have the lowest value of a column
FEW_VALUES = 6
KINDS = ("few values", "at the floor", "skewed", "about symmetric")
SAID = {
    "few values": "hold few different values",
    "at the floor": f"have {FLOOR:.0%} of the people or more at their lowest value",
    "skewed": "are skewed (skewness beyond 1 within sites)",
}
BINS = np.linspace(-4, 4, 33)  # of a histogram, in standard deviations within sites
APART = 0.2  # by which the shares of zeros of two sites differ, from which on it is said
KNOWN, UNKNOWN = 0.2, 0.8  # shares of a site's people who lack a column: it is known there, or not
HARDLY = 0.02  # share of a site's people who have a zero
UNLIKELY = 1e-4  # that classes of the same site lack a column so differently
LEAST, MOST = 5, 2000  # columns among which one may stand out
GROUPS = 5  # of sites that are held out
GOLD, NEARLY = 0.2, 0.04  # 2 AUC - 1, or r: of one column at least; of all columns more than of one at most
PENALTY = 3.0  # in units of the mean squared length of a row


def column_groups(cohort: Cohort) -> list[dict[str, Any]]:
    """The columns of a table by what they look like, each group with a histogram of its values within sites.

    Values are in units of the standard deviation of their column, without the means of sites; the bins are `BINS`, of
    which the last ones hold all beyond.

    >>> people = pd.DataFrame({"subject": list("abcdef"), "site": ["A"] * 6, "label": [0.0, 1.0] * 3})
    >>> rows = [np.array([[k % 2, 0.1 * k, 2.0**k]]) for k in range(6)]
    >>> [(group["kind"], group["columns"]) for group in column_groups(Cohort(rows, people, measure="table"))]
    [('few values', ['column_001']), ('about symmetric', ['column_002']), ('skewed', ['column_003'])]
    """
    values, site = np.concatenate(cohort.series), cohort.table["site"].to_numpy()
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # columns that nobody has
        frame = pd.DataFrame(values)
        within = (frame - frame.groupby(site).transform("mean")).to_numpy()
        skewness = np.abs(stats.skew(within, axis=0, nan_policy="omit"))
        floor = (values == np.nanmin(values, axis=0)).mean(axis=0)
        coarse = np.array([len(np.unique(x[np.isfinite(x)])) < FEW_VALUES for x in values.T])
        scaled = np.clip(within / np.nanstd(within, axis=0), BINS[0], BINS[-1])
    kinds = np.select([coarse, floor >= FLOOR, skewness > SKEWED], KINDS[:3], KINDS[3])
    groups = []
    for kind in (KINDS[0], KINDS[3], KINDS[2], KINDS[1]):
        those = kinds == kind
        if those.any():
            counts = np.histogram(scaled[:, those][np.isfinite(scaled[:, those])], BINS)[0]
            names = [name for name, here in zip(cohort.atlas.labels, those, strict=True) if here]
            shares = (counts / max(counts.sum(), 1)).round(4).tolist()
            groups.append({"kind": str(kind), "columns": names, "histogram": shares})
    return groups


def describe_columns(cohort: Cohort) -> Iterator[Finding]:
    """How many columns are coarse, skewed, or mostly at their floor, and the share of zeros by site."""
    parts = [f"{len(g['columns'])} {SAID[g['kind']]}" for g in column_groups(cohort) if g["kind"] in SAID]
    values, site = np.concatenate(cohort.series), cohort.table["site"].to_numpy()
    zero = (values == 0).mean()
    by_site = pd.Series((values == 0).mean(axis=1)).groupby(site).mean().sort_values()
    if zero >= FLOOR:
        ends = f"{by_site.iloc[0]:.0%} at {by_site.index[0]} to {by_site.iloc[-1]:.0%} at {by_site.index[-1]}"
        parts.append(f"{zero:.0%} of all cells are zero" + (f" ({ends})" if np.ptp(by_site) > APART else ""))
    if parts:
        message = f"of {counted(cohort.n_rois, 'column', 'columns')} {', '.join(parts)}"
        remedy = "nothing: skewed columns are read by the normal scores of their values among training people"
        yield Finding("note", "columns", message, remedy)


def missing_columns(cohort: Cohort) -> Iterator[Finding]:
    """Columns that whole sites lack, and columns that one class lacks more often than the other at the same site."""
    names = np.array(cohort.atlas.labels, dtype=object)
    own = np.array([not name.endswith(LACKS) for name in names])
    absent, site = np.isnan(np.concatenate(cohort.series)), cohort.table["site"].to_numpy()
    share = pd.DataFrame(absent).groupby(site).mean().to_numpy()
    by_site = own & (share >= UNKNOWN).any(axis=0) & (share <= KNOWN).any(axis=0)
    remedy = "what is not known is filled in within training; a column that says who lacks it may tell the site instead"
    if by_site.any():
        message = f"{_sources(names[by_site])} {'is' if by_site.sum() == 1 else 'are'} known at some sites only"
        yield Finding("note", "known-at-sites", message, remedy)
    for label in cohort.target.diagnoses(cohort.table["label"]):
        by_class = own & (_differ_by_class(absent, label.to_numpy(), site) < UNLIKELY)
        if by_class.any():
            message = f"cases and controls of the same site differ in who lacks {_sources(names[by_class])}"
            yield Finding("warning", "known-by-class", message, f"find out why: {remedy}")


def zero_at_sites(cohort: Cohort) -> Iterator[Finding]:
    """Columns that are 0 for nearly everybody at a site, and hardly ever elsewhere."""
    site, names = cohort.table["site"].to_numpy(), np.array(cohort.atlas.labels, dtype=object)
    share = pd.DataFrame(np.concatenate(cohort.series) == 0).groupby(site).mean()
    for name, row in share.iterrows():
        others = share.drop(index=name)
        columns = (row >= UNKNOWN).to_numpy() & (others <= HARDLY).all(axis=0).to_numpy()
        if len(others) and columns.any():
            message = (
                f"{_sources(names[columns])} {'is' if columns.sum() == 1 else 'are'} 0 for nearly everybody here, "
            )
            remedy = "leave the cells empty if zero means missing"
            yield Finding("warning", "zero-at-site", f"{message}and hardly ever at other sites", remedy, str(name))


def _sources(names: np.ndarray) -> str:
    """Columns, those of words once."""
    return listed(dict.fromkeys(name.rpartition(LEVEL)[0] or name for name in names))


def _differ_by_class(absent: np.ndarray, label: np.ndarray, site: np.ndarray) -> np.ndarray:
    """P (M,) of Cochran, Mantel and Haenszel: that classes lack columns alike within sites.

    >>> label, site = np.tile([0.0, 1.0], 40), np.repeat(["A", "B"], 40)
    >>> absent = np.column_stack([label == 1, np.tile([True, False, False, True], 20)])
    >>> (_differ_by_class(absent, label, site) < 1e-4).tolist()
    [True, False]
    """
    gap, variance = np.zeros(absent.shape[1]), np.zeros(absent.shape[1])
    for name in np.unique(site):
        here, cases = absent[site == name], label[site == name] == 1
        n, n_cases, gone = len(here), cases.sum(), here.sum(axis=0)
        gap += here[cases].sum(axis=0) - n_cases * gone / n
        variance += n_cases * (n - n_cases) * gone * (n - gone) / (n**2 * max(n - 1, 1))
    z = np.divide(gap, np.sqrt(variance), out=np.zeros_like(gap), where=variance > 0)
    return 2 * stats.norm.sf(np.abs(z))


def golden_column(cohort: Cohort) -> Iterator[Finding]:
    """A column that alone tells held-out people apart nearly as well as all columns together.

    Groups of sites are held out in turn. The column is the one that goes with the target best at the other sites; all
    columns are read by a ridge; both on ranks, without the means of sites.
    """
    target, table = cohort.target, cohort.table
    known = table["label"].notna().to_numpy()
    sites = np.unique(table["site"][known].to_numpy())
    if target.is_classes or not LEAST <= cohort.n_rois <= MOST or len(sites) < 3:
        return
    site = table["site"][known].to_numpy()
    values = pd.DataFrame(np.concatenate(cohort.series)[known])
    label, t = table["label"][known].to_numpy(dtype=float), table["label"][known].rank()
    x = (values.rank() - values.rank().groupby(site).transform("mean")).fillna(0.0).to_numpy()
    t = (t - t.groupby(site).transform("mean")).to_numpy()
    x = x / np.maximum(x.std(axis=0), 1e-12)
    group = np.searchsorted(sites, site) % min(GROUPS, len(sites))
    one, every, chosen = np.zeros(len(t)), np.zeros(len(t)), set[int]()
    for number in np.unique(group):
        train, held_out = group != number, group == number
        contrast = x[train].T @ t[train]
        best = int(np.argmax(np.abs(contrast)))
        chosen.add(best)
        one[held_out] = np.sign(contrast[best]) * x[held_out, best]
        every[held_out] = x[held_out] @ _ridge(x[train], t[train])
    figure = target.order.figure
    means = [_order(score, label, site, target.order) for score in (one, every)]
    alone, together = ((mean - figure.chance) / (1 - figure.chance) for mean in means)
    if len(chosen) == 1 and alone >= GOLD and alone >= together - NEARLY:
        name = cohort.atlas.labels[best]
        message = f"{name} alone orders people of held-out sites as well as all {cohort.n_rois} columns together, or "
        message += f"nearly ({figure.head} {means[0]:.2f}, all {means[1]:.2f})"
        remedy = "it is either the finding or a leak: find out what it measures, and when; then run once without it"
        yield Finding("warning", "golden-column", message, remedy)


def _ridge(x: np.ndarray, t: np.ndarray) -> np.ndarray:
    few = x.shape[1] < len(x)
    gram = x.T @ x if few else x @ x.T
    gram.flat[:: len(gram) + 1] += PENALTY * np.trace(gram) / len(x)
    return np.linalg.solve(gram, x.T @ t) if few else x.T @ np.linalg.solve(gram, t)


def _order(score: np.ndarray, label: np.ndarray, site: np.ndarray, order: Order) -> float:
    """Mean of the figure over sites, by their people; chance where no site has one."""
    values, weights = [], []
    for name in np.unique(site):
        here = site == name
        if np.ptp(label[here]) > 0 and np.isfinite(value := order.value(label[here], score[here])):
            values.append(value)
            weights.append(int(here.sum()))
    return float(np.average(values, weights=weights)) if values else order.figure.chance
