"""Rules about time courses, which connectivity does not show: numbers that are no signal, steps, filters.

All of it in one pass over the series (`measure`). With z the regions that vary, standardised over the T volumes, and
means over regions:

    far        max |x - median| / (0.74 IQR) of a region: a code for "missing" (-9999), or a spike that decides edges
    step       max_t of the share of variance between volumes before and after t, where that exceeds the share of a
               parabola: two sessions joined without demeaning are a step, drift is not
    transient  median |z| over regions of the first volumes, against that of the median volume: T1 not yet in balance
    power_k    log of the share of power in band k of `BANDS` (cycles per volume): who was filtered in time

Limits are about twice the largest value of the 1,035 people of ABIDE with AAL and CC200: far 20, step .04 (.15 for
unfiltered scans, which drift), transient 2.3.
"""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import pandas as pd

from brainroam.data.check.labels import association, p_text
from brainroam.data.check.report import Finding
from brainroam.data.cohort import Cohort
from brainroam.data.measurements import EMPTY
from brainroam.data.people import people_of
from brainroam.errors import listed

WEAK = 0.05  # spread of a region over time, against the person's median region
MAX_FAR, MIN_TIES = 40.0, 2
MIN_STEP, MARGIN = 0.15, 5  # a step closer to the ends than so many volumes is none
FIRST, MAX_TRANSIENT = 3, 5.0
BANDS = (0.05, 0.1, 0.2, 0.35, 0.5)  # upper ends
POWERS = [f"power_{k}" for k in range(len(BANDS))]
MIN_TIME = 20  # volumes below which steps and spectra are not looked at
MAX_P = 0.01  # divided by the number of comparisons
MIN_D_COHORT, MIN_D_SITE = 0.5, 1.0  # the largest of ABIDE are 0.2 and 0.8
APART = np.log(10)  # of a site's highest band from the nearest other site; sites of ABIDE are within a factor of 2


def measure(cohort: Cohort) -> pd.DataFrame:
    """One row of the measures above for each person, with ``weak``, the number of regions that hardly vary.

    >>> from brainroam.data.synthetic import make_cohort
    >>> bool((measure(make_cohort(n_sites=2, n_per_site=4))["far"] < MAX_FAR).all())
    True
    """
    rows = [_measures(x[:, ~gone]) for x, gone in zip(cohort.series, cohort.missing_rois, strict=True)]
    return pd.DataFrame(rows, columns=["weak", "far", "value", "step", "place", "transient", *POWERS])


def _measures(x: np.ndarray) -> list[float]:
    y = np.ascontiguousarray(x.T)  # (regions, T)
    n = y.shape[1]
    if len(y) < 2 or n < MIN_TIME:
        return [0, 0.0, np.nan, 0.0, 0, 0.0, *[np.nan] * len(BANDS)]
    quarters = np.partition(y, (n // 4, n // 2, 3 * n // 4), axis=1)[:, [n // 4, n // 2, 3 * n // 4]]
    z = y - y.mean(axis=1, keepdims=True)
    spread = np.sqrt((z**2).mean(axis=1))
    z /= spread[:, None]
    far, value = _farthest(y, quarters)
    step, place = _step(z)
    size = np.median(np.abs(z), axis=0)
    transient = float(size[:FIRST].max() / max(np.median(size), 1e-12))
    power = (np.abs(np.fft.rfft(z, axis=1)) ** 2).mean(axis=0)[1:]
    band = np.searchsorted(BANDS, np.arange(1, len(power) + 1) / n - 1e-9)
    shares = np.log(np.bincount(band, power, len(BANDS))[: len(BANDS)] / power.sum() + 1e-9)
    return [int((spread < WEAK * np.median(spread)).sum()), far, value, step, place, transient, *shares]


def _farthest(y: np.ndarray, quarters: np.ndarray) -> tuple[float, float]:
    """How far the farthest number lies from its region's median in robust standard deviations, and that number.

    A lowest or highest number of the whole series that occurs several times and is farther from all others than these
    are from each other is a code however often it stands there.
    """
    low, high = y.min(axis=1), y.max(axis=1)
    for code, nearest, width in (
        (low.min(), lambda rest: rest.min(), high.max()),
        (high.max(), lambda rest: rest.max(), low.min()),
    ):
        if (low == code).sum() + (high == code).sum() >= MIN_TIES or (y == code).sum() >= MIN_TIES:
            rest = y[y != code]
            if len(rest) and abs(nearest(rest) - code) > abs(width - nearest(rest)):
                return np.inf, float(code)
    middle, spread = quarters[:, 1], (quarters[:, 2] - quarters[:, 0]) / 1.349
    gap = np.maximum(high - middle, middle - low)
    with np.errstate(divide="ignore"):
        distance = gap / spread
    k = int(distance.argmax())
    return float(distance[k]), float(high[k] if high[k] - middle[k] > middle[k] - low[k] else low[k])


def _step(z: np.ndarray) -> tuple[float, int]:
    """Share of variance that a step explains, and after which volume; 0 where a parabola explains as much."""
    n = z.shape[1]
    before = np.arange(1, n)
    share = (np.cumsum(z, axis=1)[:, :-1] ** 2).mean(axis=0) / (before * (n - before))
    inside = share[MARGIN - 1 : n - MARGIN]
    place = int(inside.argmax()) + MARGIN
    smooth = ((z @ _parabola(n)) ** 2).sum(axis=1).mean() / n
    best = float(inside.max())
    return (best, place) if best > smooth else (0.0, place)


@lru_cache(maxsize=64)
def _parabola(n: int) -> np.ndarray:
    """Orthonormal line and parabola over n volumes, without their mean."""
    return np.linalg.qr(np.vander(np.linspace(-1, 1, n), 3, increasing=True))[0][:, 1:]


def empty_volumes(cohort: Cohort) -> Iterator[Finding]:
    """Volumes that were dropped because they carry no signal, by class and site."""
    table = cohort.table
    if EMPTY not in table or not table[EMPTY].any():
        return
    share = table[EMPTY] / (table[EMPTY] + table["n_timepoints"])
    means = {name: share[table["label"] == code].mean() for code, name in cohort.target.words_of_codes.items()}
    by_class = ", ".join(f"{mean:.1%} in {name}" for name, mean in means.items() if np.isfinite(mean))
    by_site = share.groupby(table["site"]).mean().sort_values(ascending=False, kind="stable")
    sites = listed(f"{site} ({mean:.1%})" for site, mean in by_site[by_site > 0].items())
    who = tuple(table.loc[table[EMPTY] > 0, "subject"])
    message = (
        f"{share.mean():.1%} of the volumes have no signal (equal in all regions, or copies) and were dropped: "
        f"{f'{by_class}; ' * bool(by_class)}by site: {sites}"
    )
    remedy = "padding or scrubbing: give scans without it; a person who lost half of the volumes is left out"
    yield Finding("warning", "empty-volumes", message, remedy, subjects=who)
    people = people_of(table.assign(share=share))
    within = people["share"] - people.groupby("site")["share"].transform("mean")
    d, p, size = association(within.to_numpy(), people["label"].to_numpy(dtype=float), cohort.target)
    if p < MAX_P:
        which = "more" if d > 0 else "fewer"
        message = cohort.target.worded(
            f"{which} volumes of cases than of controls have no signal: {by_class}, {p_text(p)}",
            f"volumes without signal go with {cohort.target.name}: {size}, {p_text(p)}",
        )
        remedy = "what is left differs in length and motion: cut all scans alike (--crop), use motion as a covariate"
        yield Finding("warning", "label-by-empty", message, remedy)


def far_values(cohort: Cohort, course: pd.DataFrame) -> Iterator[Finding]:
    """Numbers far from all others of their region."""
    if (far := (course["far"] > MAX_FAR) & ~(course["transient"] > MAX_TRANSIENT)).any():
        who = cohort.table.loc[far.to_numpy(), "subject"]
        each = listed(f"{s} ({value:.6g})" for s, value in zip(who, course.loc[far, "value"], strict=True))
        message = (
            f"single numbers lie far from all others of their series in {_share(far)}: {each}{_classes(cohort, far)}"
        )
        remedy = (
            "a code for 'missing', or a spike, decides the edges of its region: correct them or leave these people out"
        )
        yield Finding("warning", "far-values", message, remedy, None, tuple(who))


def steps(cohort: Cohort, course: pd.DataFrame) -> Iterator[Finding]:
    """Series whose level changes at once in many regions."""
    if (step := (course["step"] > MIN_STEP) & ~(course["transient"] > MAX_TRANSIENT)).any():
        who = cohort.table.loc[step.to_numpy(), "subject"]
        each = listed(f"{s} (after volume {place:g})" for s, place in zip(who, course.loc[step, "place"], strict=True))
        message = f"the level of the regions jumps once in {_share(step)}: {each}{_classes(cohort, step)}"
        remedy = "two sessions joined, or a jump of the head: standardise each part by region before joining"
        yield Finding("warning", "step", message, remedy, None, tuple(who))


def transients(cohort: Cohort, course: pd.DataFrame) -> Iterator[Finding]:
    """First volumes that are unlike all later ones."""
    if (early := course["transient"] > MAX_TRANSIENT).any():
        who = cohort.table.loc[early.to_numpy(), "subject"]
        message = (
            f"the first volumes are unlike all later ones in {_share(early)}: {listed(who)}{_classes(cohort, early)}"
        )
        remedy = "magnetisation not yet in balance: remove the first volumes of every scan"
        yield Finding("warning", "transient", message, remedy, None, tuple(who))


def spectra(cohort: Cohort, course: pd.DataFrame) -> Iterator[Finding]:
    """Frequencies whose power goes with the target, and sites that were filtered otherwise than all others."""
    table = people_of(pd.concat([cohort.table, course[POWERS]], axis=1))
    power = table[POWERS].to_numpy()
    label, site = table["label"].to_numpy(dtype=float), table["site"].to_numpy()
    sites = [name for name in np.unique(site) if np.isfinite(power[site == name]).all(axis=1).sum() > 1]
    means = np.array([np.nanmean(power[site == name], axis=0) for name in sites])
    if not sites:
        return
    remedy = "a model can learn the preprocessing instead of the condition: filter all scans alike"
    within = power - means[np.minimum(np.searchsorted(sites, site), len(sites) - 1)]
    within[~np.isin(site, sites)] = np.nan
    limit = MAX_P / (len(BANDS) * (len(sites) + 1))
    parts = [(None, np.isin(site, sites), MIN_D_COHORT), *((name, site == name, MIN_D_SITE) for name in sites)]
    for name, here, least in parts:
        associations = [association(values[here], label[here], cohort.target) for values in within.T]
        k = int(np.argmax([abs(d) if p < limit else 0 for d, p, _ in associations]))
        d, p, size = associations[k]
        if p < limit and abs(d) >= least:
            which = "more" if d > 0 else "less"
            message = cohort.target.worded(
                f"series of cases have {which} power {_band(k)} than those of controls: {size}, {p_text(p)}",
                f"the power of series {_band(k)} goes with {cohort.target.name}: {size}, {p_text(p)}",
            )
            yield Finding("warning", "label-by-spectrum", message, remedy, name)
    top = means[:, -1]
    for k, name in enumerate(sites if len(sites) > 2 else []):
        gap = top[k] - np.delete(top, k)
        if np.abs(gap).min() > APART and (np.sign(gap) == np.sign(gap[0])).all():
            ratio = np.exp(np.abs(gap).min())
            which = "more" if gap[0] > 0 else "less"
            message = f"{ratio:.0f} times {which} power {_band(len(BANDS) - 1)} than at any other site"
            yield Finding("warning", "site-spectrum", message, "filter the scans of all sites alike", str(name))


def _band(k: int) -> str:
    return f"between {(0, *BANDS)[k]:g} and {BANDS[k]:g} cycles per volume"


def _share(mask: pd.Series) -> str:
    return f"{int(mask.sum())} of {len(mask)} people"


def _classes(cohort: Cohort, mask: pd.Series) -> str:
    """Counts of these people by class, and their sites, in words."""
    part = cohort.table[mask.to_numpy()]
    sites = part["site"].value_counts()
    where = listed(f"{site} ({n})" for site, n in sites.items())
    counts = [f"{int((part['label'] == code).sum())} {name}" for code, name in cohort.target.words_of_codes.items()]
    return f"; {' and '.join(counts)}, at {where}" if counts else f"; at {where}"
