"""A column of times or of volume numbers is no region: it is recognised, left out, and said."""

from dataclasses import replace

import numpy as np

from brainroam.data.readers.text import Series

TIME_NAMES = {"time", "times", "timepoint", "time_point", "tr", "trs", "volume", "volumes", "vol", "frame", "frames"}
TIME_NAMES |= {"seconds", "sec", "onset", "scan", "row"}
MIN_VOLUMES = 10  # fewer values may go up evenly by chance
MAX_UNEVEN = 0.02  # of a step: times are often rounded


def without_time(series: Series) -> Series:
    """Leave out a first column that is named like time, or goes up by the same step in every row, as no signal does.

    >>> x = np.random.default_rng(0).normal(size=(20, 3))
    >>> x[:, 0] = 2.5 * np.arange(20)
    >>> found = without_time(Series(x))
    >>> found.values.shape, found.notes
    ((20, 2), ('the first column goes up evenly: a time or index, not a region; it was left out',))
    """
    values, names = series.values, series.names
    if values.ndim != 2 or values.shape[1] < 3:
        return series
    if names is not None and names[0].strip().lower().replace(" ", "_") in TIME_NAMES:
        why = f"the first column is named {names[0]!r}"
    elif _goes_up_evenly(values[:, 0]) and not _goes_up_evenly(values[:, 1]):
        why = "the first column goes up evenly"
    else:
        return series
    note = f"{why}: a time or index, not a region; it was left out"
    return replace(series, values=values[:, 1:], names=names and names[1:], notes=(*series.notes, note))


def _goes_up_evenly(column: np.ndarray) -> bool:
    steps = np.diff(column)
    if len(column) < MIN_VOLUMES or not np.isfinite(steps).all():
        return False
    step = float(np.median(steps))
    return step > 0 and float(np.abs(steps - step).max()) <= MAX_UNEVEN * step
