"""Copies of a cohort in which names, labels or data of some people are changed.

Each function gives a cohort of its own, with nothing remembered of the one it was made from.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd

from brainroam.data.cohort import Cohort

NUDGE = 1e-3  # of the spread of a measurement: far below what a second scan of a person differs by
STRANGE = {"age": 99.0, "sex": 1.0, "mean_fd": 9.0, "tr": 0.5}  # what other columns get is made from their values


def with_new_names(cohort: Cohort, seed: int, draw: int) -> Cohort:
    """Everybody under a new id, another one in each draw, and sites under new names, the same in all draws.

    The order of the sites' names stays: methods take sites in that order. Nothing may follow the order of ids.

    >>> from brainroam.data.synthetic import make_cohort
    >>> cohort = make_cohort(n_sites=2, n_per_site=4, n_rois=8)
    >>> with_new_names(cohort, 0, 1).sites, with_new_names(cohort, 0, 1).table["subject"][0]
    (['place-1-5534', 'place-2-9053'], 'person-59254397')
    """
    table, names = cohort.table, np.random.default_rng([seed, 3])
    width = len(str(len(cohort.sites)))
    new = {site: f"place-{k:0{width}d}-{names.integers(1000, 9999)}" for k, site in enumerate(cohort.sites, 1)}
    ids = np.random.default_rng([seed, 4, draw]).choice(10**8, len(table), replace=False)
    table["subject"] = [f"person-{number:08d}" for number in ids]
    table["site"] = table["site"].map(new)
    return cohort.made_of(cohort.series, table)


def with_spoilt_labels(
    cohort: Cohort, people: np.ndarray, spoil: Callable[[np.ndarray], np.ndarray] | None = None
) -> Cohort:
    """These people have other labels: those of `Target.spoiled`, or of ``spoil``, which is given everybody's."""
    table = cohort.table
    label = (spoil or cohort.target.spoiled)(table["label"].to_numpy())
    table.loc[people, "label"] = label[people]
    return cohort.made_of(cohort.series, table)


def with_corrupted_data(cohort: Cohort, people: np.ndarray, seed: int) -> Cohort:
    """These people have series of noise, the other label, and strange values in every column, the site included.

    Of several blocks all are noise: a score may come from any of them.
    """
    if cohort.blocks:
        return _in_every_block(cohort, lambda block, k: with_corrupted_data(block, people, seed + k))
    rng = np.random.default_rng([seed, 2])
    series, table = cohort.series, with_spoilt_labels(cohort, people).table
    for i in people:
        noise = 10 * rng.normal(size=series[i].shape) ** 3
        series[i] = noise + noise.T if cohort.measure == "matrices" else noise
    for name in table.columns.drop(["subject", "label", "n_timepoints"]):
        table[name] = _with_strange(table[name], people, STRANGE.get(str(name)))
    return cohort.made_of(series, table)


def with_small_noise(cohort: Cohort, people: np.ndarray, seed: int) -> Cohort:
    """What was measured of these people, moved by noise of a thousandth of its spread: the same for all purposes.

    The spread is that of a region over time, of the entries of a matrix, or of a column over people.
    """
    if cohort.blocks:
        return _in_every_block(cohort, lambda block, k: with_small_noise(block, people, seed + k))
    rng, series = np.random.default_rng([seed, 5]), cohort.series
    columns = np.nanstd(np.concatenate(series), axis=0) if cohort.measure == "table" else None
    for i in people:
        noise = NUDGE * rng.normal(size=series[i].shape)
        if columns is not None:
            series[i] = series[i] + noise * columns
        elif cohort.measure == "matrices":
            series[i] = (
                series[i] + np.triu(noise, 1) * np.nanstd(series[i]) + np.triu(noise, 1).T * np.nanstd(series[i])
            )
        else:
            series[i] = series[i] + noise * series[i].std(axis=0)
    return cohort.made_of(series, cohort.table)


def _in_every_block(cohort: Cohort, change: Callable[[Cohort, int], Cohort]) -> Cohort:
    """The cohort with each of its blocks changed."""
    changed, *others = (change(block, k) for k, block in enumerate(cohort.blocks.values()))
    for name, other in zip(list(cohort.blocks)[1:], others, strict=True):
        changed = changed.with_block(name, other)
    return changed


def of_other_lengths(cohort: Cohort, people: np.ndarray) -> Cohort:
    """These people were scanned for shorter than anybody, every second of them for longer."""
    series = cohort.series
    if cohort.measure != "series":
        return cohort.made_of(series, cohort.table)
    shortest, longest = min(map(len, series)), max(map(len, series))
    for k, i in enumerate(people):
        length = longest + 1 if k % 2 else max(shortest - 1, 2)
        # The scan again and again, a little louder all the time: exact copies of volumes would be dropped.
        series[i] = np.resize(series[i], (length, cohort.n_rois)) * np.linspace(1, 1.1, length)[:, None]
    return cohort.made_of(series, cohort.table)


def without_regions(cohort: Cohort, people: np.ndarray) -> Cohort:
    """Each of these people lacks one region that everybody had, as long as there are such regions."""
    series, present = cohort.series, np.flatnonzero(~cohort.missing_rois.any(axis=0))
    # Never most of them: a procedure that drops what anybody lacks must have some left.
    for region, i in zip(present[: len(present) // 4 + 1], people, strict=False):
        series[i] = series[i].copy()
        series[i][:, region] = 0.0 if cohort.measure == "series" else np.nan
        if cohort.measure == "matrices":
            series[i][region] = np.nan
    return cohort.made_of(series, cohort.table)


def _with_strange(column: pd.Series, people: np.ndarray, value: float | None) -> pd.Series:
    """The column with values for these people that nobody else has."""
    if value is None and pd.api.types.is_bool_dtype(column):
        return column.where(~column.index.isin(people), ~column)
    if value is None and pd.api.types.is_numeric_dtype(column):
        value = 10 * float(column.abs().max() if column.notna().any() else 1) + 1
        column = column.astype(float)
    column = column.copy()
    if value is None:
        column[people[::2]], column[people[1::2]] = "0 elsewhere", "~elsewhere"  # before and after all other words
    else:
        column[people] = value
    return column
