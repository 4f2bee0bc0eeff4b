"""What a column of covariates is: numbers, a few levels, or nothing to be removed from anybody.

A text column with a level for nearly everybody would take a regression's every degree of freedom: no slope of the site
could then be estimated, age and sex included. So it is refused, with what it seems to be.
"""

import re
import warnings
from collections.abc import Iterable

import numpy as np
import pandas as pd

from brainroam.errors import DataError, listed

FEW, MOST = 3, 5  # levels that are always allowed, and that are at all
PEOPLE_PER_LEVEL = 10
UNKNOWN = {"", "na", "n/a", "nan", "null", "none", ".", "-", "?"}  # among numbers: not known
DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})")
ID = re.compile(r"(^|[^a-z])(id|guid|uuid)$|^(subject|participant)s?$", re.IGNORECASE)


def as_numbers(column: pd.Series) -> np.ndarray:
    """Numbers, also from text, NaN where unknown; a `ValueError` where something else stands.

    >>> as_numbers(pd.Series(["100.5", "n/a", " 97"])).tolist()
    [100.5, nan, 97.0]
    """
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "fiub":
        return column.to_numpy(dtype=float)
    if not pd.api.types.is_numeric_dtype(column):
        text = as_text(column)
        column = text.mask(text.str.lower().isin(UNKNOWN))
    return pd.to_numeric(column).to_numpy(dtype=float, na_value=np.nan)


def as_text(column: pd.Series) -> pd.Series:
    """Levels as text without surrounding white space; missing where there is none.

    >>> as_text(pd.Series([1.0, " GE"])).tolist()
    ['1', 'GE']
    """
    text = column.astype(object).map(
        lambda value: f"{value:g}" if isinstance(value, float) else str(value).strip(), na_action="ignore"
    )
    return text.mask(text == "")


def levels_of(column: pd.Series, name: str) -> list[str] | None:
    """The sorted levels of a category, None for numbers; an error for what cannot be a covariate.

    >>> levels_of(pd.Series(["GE", "Siemens", "GE"]), "scanner")
    ['GE', 'Siemens']
    >>> levels_of(pd.Series(["98", "104", "n/a"]), "iq") is None
    True
    """
    if ID.search(name):
        raise DataError(f"covariate {name!r} is an id, which says nothing about people never seen; leave it out")
    if pd.api.types.is_datetime64_any_dtype(column) or isinstance(column.dtype, pd.PeriodDtype):
        raise _date(name)
    if pd.api.types.is_numeric_dtype(column):
        return None
    text = as_text(column)
    known = text.dropna()
    if isinstance(column.dtype, pd.CategoricalDtype):  # codes that somebody said are no numbers
        return _not_too_many(known, len(column), name)
    if not known.empty and known.str.fullmatch(DATE).all():
        raise _date(name)
    try:
        as_numbers(text)
        return None
    except ValueError:
        return _few_levels(known, len(column), name)


def warn_of_the_site(table: pd.DataFrame, covariates: Iterable[str]) -> None:
    """A warning for each covariate that has one value within every site: the site's code, its scanner, its TR.

    Effects of covariates are estimated within sites, where such a column does not vary: nothing is removed with it.

    >>> table = pd.DataFrame({"site": ["A", "A", "B", "B"], "centre": [1, 1, 2, 2], "age": [20, 30, 25, 35]})
    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     warn_of_the_site(table, ["centre", "age"])
    >>> [str(warning.message)[:55] for warning in told]
    ["covariate 'centre' has one value for each site: it is t"]
    """
    for name in covariates:
        known = table[["site", name]].dropna()
        n_sites, n_values = known["site"].nunique(), known[name].nunique()
        pairs = len(known.drop_duplicates())
        if n_values < 2 or pairs > n_sites or known["site"].value_counts().min() < 2:
            continue
        what = "has one value for each site: it is the site" if n_values == n_sites else "is the same within every site"
        warnings.warn(
            f"covariate {name!r} {what}, so nothing can be removed with it, least of all at a new site; leave it out",
            stacklevel=3,
        )


def _few_levels(known: pd.Series, n_people: int, name: str) -> list[str]:
    """The levels of a text column; an error where there are too many of them to be a category."""
    numbers = pd.to_numeric(known, errors="coerce").notna()
    if numbers.mean() > 0.5:
        others = listed(sorted(known[~numbers].unique()))
        raise DataError(f"covariate {name!r} holds numbers, but also {others}; leave unknown values empty")
    if known.str.fullmatch(r"[-+]?\d+,\d+").mean() > 0.5:
        raise DataError(
            f"covariate {name!r} holds numbers with decimal commas, as {known.iloc[0]}; write decimal points"
        )
    return _not_too_many(known, n_people, name)


def _not_too_many(known: pd.Series, n_people: int, name: str) -> list[str]:
    levels = sorted(known.unique())
    if len(levels) > max(FEW, min(MOST, n_people // PEOPLE_PER_LEVEL)):
        raise DataError(
            f"covariate {name!r} has {len(levels)} levels for {n_people} people: {listed(levels)}; a category "
            f"may have {MOST} levels at most, and one for every {PEOPLE_PER_LEVEL} people. Give numbers, join rare "
            "levels, or leave it out"
        )
    return levels


def _date(name: str) -> DataError:
    return DataError(f"covariate {name!r} is a date; give a number instead, such as the age at that date, in years")
