"""What is decided about people and scans after reading and before any method: crop, exclusions, motion, covariates.

Everybody who is left out stands in ``cohort.excluded`` with the reason, and what was done to the series in
``cohort.prepared``. Each rule looks at one person at a time, so none of it can leak from a held-out site.
"""

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from brainroam.data.cohort import Cohort
from brainroam.data.columns import as_text, warn_of_the_condition, warn_of_the_site
from brainroam.data.exclusion import People, people_named
from brainroam.data.measurements import EMPTY, MIN_VOLUMES
from brainroam.data.people import RENAMED
from brainroam.data.readers.roles import USUAL
from brainroam.data.readers.values import is_empty
from brainroam.data.target import TWO_CLASSES
from brainroam.errors import DataError, UsageError, listed, unknown

NUMBER, CATEGORY = "number", "category"
KINDS = (NUMBER, CATEGORY)
LEAST_VOLUMES = 2
CUT = "every scan was cut to its first "


@dataclass(frozen=True)
class Preparation:
    """How a cohort is prepared.

    Attributes
    ----------
    crop : str or int, optional
        Keep the first volumes of every scan, as many as said (``150``) or as fit into a time (``"300s"``); a shorter
        scan is left out.
    exclude : path or sequence of str, optional
        Ids of people to leave out, or a file with one in each line, perhaps with a reason after a comma or tab; in a
        sequence, what is the path of a file stands for the ids in it.
    max_fd : float, optional
        Leave out who moved more than this (mean framewise displacement, mm), or is not known to have moved less.
    covariates : sequence of str or mapping of str to str, optional
        The columns that methods use as covariates, with their kind (``number`` or ``category``) where it is not seen.
    nuisance : sequence of str, optional
        The columns whose directions our methods take out of edges; needed in training only. By default ``mean_fd``.

    Examples
    --------
    >>> from brainroam.data.synthetic import make_cohort
    >>> cohort = Preparation(crop=100, exclude=["S01_0001"]).apply(make_cohort(n_sites=2, n_per_site=4))
    >>> sorted(set(cohort.table["n_timepoints"])), cohort.prepared
    ([100], ('every scan was cut to its first 100 volumes',))
    >>> cohort.excluded.to_numpy().tolist()
    [['S01_0001', 'on the list of people to exclude']]
    """

    crop: str | int | None = None
    exclude: People | None = None
    max_fd: float | None = None
    covariates: Sequence[str] | Mapping[str, str] | None = None
    nuisance: Sequence[str] | None = None

    def apply(self, cohort: Cohort) -> Cohort:
        """The cohort as every method sees it."""
        if self.exclude is not None:
            cohort = _without(cohort, self.exclude)
        cohort = _with_enough_volumes(cohort)
        if self.max_fd is not None:
            cohort = _within_motion(cohort, self.max_fd)
        if self.crop is not None:
            cohort = crop_series(cohort, self.crop)
        if self.covariates is not None:
            cohort = with_covariates(cohort, self.covariates)
        if self.nuisance is not None:
            cohort = with_nuisance(cohort, self.nuisance)
        return cohort


def crop_series(cohort: Cohort, crop: str | int) -> Cohort:
    """The first volumes of every scan; people whose scan is shorter are left out."""
    amount, in_seconds = parse_crop(crop)
    if cohort.measure != "series":
        raise UsageError(f"a crop cuts time series, but these are {cohort.measure}; leave --crop out")
    table = cohort.table
    wanted = np.full(len(cohort), amount)
    if in_seconds:
        wanted = np.floor(amount / table["tr"].to_numpy(dtype=float) + 1e-6)
    unknown_tr, length = np.isnan(wanted), table["n_timepoints"].to_numpy()
    short = ~unknown_tr & (length < wanted)
    what = f"{amount:g} seconds" if in_seconds else f"{amount:g} volumes"
    if unknown_tr.any():
        cohort = cohort.exclude(unknown_tr, [f"TR unknown: the scan cannot be cut to {what}"] * int(unknown_tr.sum()))
    if short.any():
        reasons = [f"a scan of {n} volumes, shorter than the crop of {what}" for n in length[short]]
        cohort = cohort.exclude(short[~unknown_tr], reasons)
    lengths = wanted[~unknown_tr & ~short].astype(int)
    if (lengths < LEAST_VOLUMES).any():
        raise UsageError(f"a crop of {what} leaves {lengths.min()} volumes; series need more")
    series = [x[:n] for x, n in zip(cohort.series, lengths, strict=True)]
    return cohort.with_series(series, f"{CUT}{what}")


def crop_of(prepared: Sequence[str]) -> str | None:
    """The crop among what was done to series.

    >>> crop_of(["every scan was cut to its first 150 volumes"]), crop_of(["band-pass"])
    ('150 volumes', None)
    """
    return next((step.removeprefix(CUT) for step in prepared if step.startswith(CUT)), None)


def cut_where_longer(cohort: Cohort, crop: str) -> Cohort:
    """Scans that are longer than a crop are cut to it; others, and those whose TR is not known, stay as they are."""
    amount, in_seconds = parse_crop(crop)
    tr = cohort.table["tr"].to_numpy(dtype=float)
    most = np.floor(amount / tr + 1e-6) if in_seconds else np.full(len(cohort), amount)
    most = np.where(np.isnan(most), np.inf, most)
    if cohort.on_disk:
        if (cohort.table["n_timepoints"] > most).any():
            raise UsageError(
                f"the model was trained on scans cut to {crop}; longer ones in a store cannot be cut within "
                f"--memory: make the store with: brainroam convert DATA --crop '{crop}' --out cohort.zarr"
            )
        return cohort.noting(f"{CUT}{crop}")
    series = [x[: int(n)] if n < len(x) else x for x, n in zip(cohort.series, most, strict=True)]
    return cohort.with_series(series, f"{CUT}{crop}")


def parse_crop(text: str | int) -> tuple[float, bool]:
    """Amount, and whether it is in seconds.

    >>> parse_crop("150"), parse_crop("300s"), parse_crop("5 min")
    ((150.0, False), (300.0, True), (300.0, True))
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(v|vol|volumes|s|sec|seconds|min|minutes)?\s*", str(text).lower())
    if match is None or float(match[1]) <= 0:
        raise UsageError(f"a crop is a number of volumes or a time, as 150 or 300s, not {text!r}")
    unit = (match[2] or "v")[0]
    if unit == "v" and not float(match[1]).is_integer():
        raise UsageError(f"a crop of {text!r} is no whole number of volumes; write 300s for seconds")
    return float(match[1]) * (60 if unit == "m" else 1), unit != "v"


def with_covariates(cohort: Cohort, covariates: Sequence[str] | Mapping[str, str]) -> Cohort:
    """The cohort with these columns as covariates, each as numbers or as categories.

    >>> from brainroam.data.synthetic import make_cohort
    >>> with_covariates(make_cohort(n_sites=2, n_per_site=4), ["age", "mean_fd"]).covariate_names
    ('age', 'mean_fd')
    """
    kinds = dict(covariates) if isinstance(covariates, Mapping) else dict.fromkeys(map(str, covariates), "")
    if "group" not in cohort.table and RENAMED in cohort.table:
        kinds = {RENAMED if name == "group" else name: kind for name, kind in kinds.items()}
    if cohort.target.name in kinds and cohort.target != TWO_CLASSES:
        warnings.warn(f"{cohort.target.name} is what is predicted, so it is no covariate of this study", stacklevel=2)
        kinds.pop(cohort.target.name)
    columns: dict[str, pd.Series] = {}
    for name, kind in kinds.items():
        if kind and kind not in KINDS:
            raise unknown(f"kind of the covariate {name!r}:", kind, KINDS)
        columns[name] = _column(cohort, name, kind)
    converted = pd.DataFrame(columns)
    prepared = (cohort.with_columns(converted) if columns else cohort).using(kinds)
    warn_of_the_condition(prepared.table, prepared.covariate_names, prepared.target)
    warn_of_the_site(prepared.table, prepared.covariate_names)
    return prepared


def with_nuisance(cohort: Cohort, names: Sequence[str]) -> Cohort:
    """The cohort with these columns as what our methods take out as directions; what is no covariate is no nuisance.

    >>> from brainroam.data.synthetic import make_cohort
    >>> prepared = with_nuisance(make_cohort(n_sites=2, n_per_site=4), ["mean_fd", "n_timepoints"])
    >>> prepared.nuisance_names, prepared.covariate_names
    (('mean_fd', 'n_timepoints'), ('age', 'sex'))
    """
    prepared = with_covariates(cohort, names)
    return prepared.using(cohort.covariate_names, prepared.covariate_names)


def kind_of(values: pd.Series) -> str:
    """``number`` or ``category``."""
    return NUMBER if pd.api.types.is_numeric_dtype(values) else CATEGORY


def _column(cohort: Cohort, name: str, kind: str) -> pd.Series:
    """A column as numbers or as levels, missing where it is empty; numbers wherever all of it are, unless told."""
    values = cohort.covariates([name])[name]
    if kind == CATEGORY:
        text = as_text(values)
        return text.mask(_unknown_level(text)).astype("category")
    if pd.api.types.is_numeric_dtype(values):
        return values
    text = values.astype(str).str.strip()
    missing = values.isna() | is_empty(text)
    parsed = pd.to_numeric(text.mask(missing), errors="coerce").astype(float)
    strange = parsed.isna() & ~missing
    if not strange.any():
        return parsed
    if kind == NUMBER:
        who = cohort.table.loc[strange, "subject"]
        raise DataError(f"covariate {name!r} is no number for {listed(who)}: {listed(text[strange].unique())}")
    return text.mask(values.isna() | _unknown_level(text)).astype(object)


def _unknown_level(text: pd.Series) -> pd.Series:
    """Which cells of a category hold nothing; ``none`` is a level there, as of medication."""
    return is_empty(text) & (text.str.lower() != "none")


def _without(cohort: Cohort, people: People) -> Cohort:
    """Leave these people out; who is on the list and nowhere in the data is warned about."""
    named = people_named(people, [*cohort.table["subject"], *cohort.excluded["subject"]])
    absent = [name for name in named.absent if name.lower() not in USUAL["subject"]]  # the heading of a list
    if absent:
        warnings.warn(f"no person in the data has the id {listed(absent)}, listed to be excluded", stacklevel=4)
    mask = cohort.table["subject"].isin(named.reasons).to_numpy()
    if not mask.any():
        return cohort
    return cohort.exclude(mask, [named.reasons[who] for who in cohort.table["subject"][mask]])


def _with_enough_volumes(cohort: Cohort) -> Cohort:
    """Without the people half of whose volumes had no signal."""
    table = cohort.table
    if EMPTY not in table:
        return cohort
    # Who would have kept fewer than MIN_VOLUMES still has all of them, and is left out as well.
    over = (table[EMPTY] > table["n_timepoints"] - MIN_VOLUMES).to_numpy()
    reasons = [f"{n} volumes without signal, half of the scan or more" for n in table.loc[over, EMPTY]]
    return cohort.exclude(over, reasons) if over.any() else cohort


def _within_motion(cohort: Cohort, max_fd: float) -> Cohort:
    moved = cohort.table["mean_fd"].to_numpy(dtype=float)
    if np.isnan(moved).all():
        raise DataError(
            "max_fd leaves out who moved much, but mean FD is not known for anybody; add a column 'mean_fd' (mm)"
        )
    mask = ~(moved <= max_fd)
    reasons = [f"mean FD {'unknown, limit' if np.isnan(x) else 'above'} {max_fd:g} mm" for x in moved[mask]]
    return cohort.exclude(mask, reasons) if mask.any() else cohort
