"""Covariates as numbers: pooled training standardisation, categorical levels, and what was missing.

    q~ = (q - mean) / std        over the pooled *training* people; a missing value becomes the training mean, q~ = 0.

A numeric column is one q~, also where its numbers arrive as text; a categorical column with levels l_1 < ... < l_K is
K - 1 indicator columns, each standardised alike. A level never seen in training counts as missing. Which values were
missing can be asked with `CovariateEncoder.missing`. What cannot be a covariate (a date, an id, a text with many
levels) is refused: `brainroam.data.columns` says which.
"""

import json
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from brainroam.data.columns import as_numbers, as_text, levels_of
from brainroam.data.people import LARGEST
from brainroam.errors import DataError, counted
from brainroam.utils.optional import as_pandas


def as_table(covariates: pd.DataFrame | np.ndarray | Mapping[str, Sequence] | None, n_people: int) -> pd.DataFrame:
    """Covariates as a table with one row per person; an array's columns are named q1, q2, ..., None has no columns.

    >>> as_table(["age", "sex"], 40)
    Traceback (most recent call last):
    brainroam.errors.DataError: there are 40 people but 2 rows of covariates; give their values, not the names of ...
    """
    if covariates is None:
        return pd.DataFrame(index=range(n_people))
    covariates = as_pandas(covariates)
    if isinstance(covariates, Mapping):
        covariates = pd.DataFrame(covariates)
    if isinstance(covariates, pd.Series) and covariates.name is not None:
        covariates = covariates.to_frame()
    if isinstance(covariates, pd.DataFrame):
        table = covariates.reset_index(drop=True).rename(columns=str)
    else:
        array = np.asarray(covariates)
        array = array.reshape(-1, 1) if array.ndim < 2 else array
        table = pd.DataFrame(array, columns=[f"q{k + 1}" for k in range(array.shape[1])])
    if len(table) != n_people:
        names = isinstance(covariates, str | list | tuple) and table.map(lambda cell: isinstance(cell, str)).all(
            axis=None
        )
        remedy = "their values, not the names of columns: table[['age', 'sex']]" if names else "one row for each person"
        raise DataError(f"there are {n_people} people but {len(table)} rows of covariates; give {remedy}")
    return table


def require_one_order(**given: Any) -> None:
    """An error where two of these are of the same people by their pandas index, but in different orders.

    Indices are compared where they name the same rows, or where some but not all are the same; a fresh 0, 1, 2, ...
    beside other names says nothing.

    >>> sex = pd.Series([0, 1, 1], index=["a", "b", "c"])
    >>> require_one_order(y=sex, site=pd.Series(["A", "B", "B"], index=["c", "b", "a"]))
    Traceback (most recent call last):
    brainroam.errors.DataError: y and site name the same people in different orders (row 0 is a in y, c in site); ...
    """
    frames = {name: as_pandas(values) for name, values in given.items()}
    indexed = {name: x.index for name, x in frames.items() if isinstance(x, pd.Series | pd.DataFrame)}
    names = list(indexed)
    for a, b in ((a, b) for k, a in enumerate(names) for b in names[k + 1 :]):
        first, second = indexed[a], indexed[b]
        if len(first) != len(second) or first.equals(second) or not (first.is_unique and second.is_unique):
            continue
        shared = first.isin(second)
        fresh = any(index.equals(pd.RangeIndex(len(index))) for index in (first, second))
        if shared.all():
            what = "name the same people in different orders"
        elif shared.any() and not fresh:
            what = f"name different people: {counted(int(shared.sum()), 'is', 'are')} in both"
        else:
            continue
        row = int(np.flatnonzero(np.asarray(first) != np.asarray(second))[0])
        raise DataError(
            f"{a} and {b} {what} (row {row} is {first[row]} in {a}, {second[row]} in {b}); rows are read by their "
            f"position, as in scikit-learn: put them in one order, {b}.loc[{a}.index], or give {b}.to_numpy() where "
            "the order is right"
        )


class CovariateEncoder(TransformerMixin, BaseEstimator):
    """Turn a covariate table into standardised columns.

    Attributes
    ----------
    columns_ : list of str
        The covariates learned from.
    names_ : list of str
        The encoded columns, e.g. ``["age", "scanner=GE"]``.
    mean_, std_ : ndarray of shape (d,)
        Of the pooled training people; the std of a column that does not vary is set to 1.

    Examples
    --------
    >>> train = pd.DataFrame({"age": [10.0, 20.0, 30.0], "scanner": ["A", "B", "B"]})
    >>> encoder = CovariateEncoder().fit(train)
    >>> new = pd.DataFrame({"age": [20.0, None], "scanner": ["C", "B"]})
    >>> encoder.transform(new).round(2).tolist()
    [[0.0, 0.0], [0.0, 0.71]]
    >>> encoder.missing(new).to_numpy().tolist()
    [[False, True], [True, False]]
    """

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags

    def fit(self, X: pd.DataFrame | np.ndarray, y: object = None) -> Self:
        """Learn levels, means and standard deviations of the columns of a table; those of an array are q1, q2, ..."""
        covariates = self._table(X, reset=True)
        self.columns_ = [str(name) for name in covariates.columns]
        of_column = {name: levels_of(covariates[name], name) for name in self.columns_}
        self.levels_ = {name: levels for name, levels in of_column.items() if levels is not None}
        self.names_ = [f"{name}={level}" if level else name for name, level in self._column_levels()]
        return self._learn_scale(self.encode(covariates))

    @classmethod
    def of_moments(cls, names: Sequence[str], mean: np.ndarray, std: np.ndarray) -> "CovariateEncoder":
        """The encoder of numeric columns with these means and standard deviations.

        >>> CovariateEncoder.of_moments(["age"], np.array([20.0]), np.array([5.0])).transform(
        ...     pd.DataFrame({"age": [25.0, None]})).tolist()
        [[1.0], [0.0]]
        """
        learned = cls()
        learned.columns_, learned.levels_, learned.names_ = list(names), {}, list(names)
        learned.mean_, learned.std_ = mean, _nonzero(std, mean)
        return learned

    def restandardise(self, encoded: np.ndarray) -> "CovariateEncoder":
        """The same columns and levels, with the means and standard deviations of people who were encoded."""
        return copy(self)._learn_scale(encoded)

    def transform(self, X: pd.DataFrame | np.ndarray) -> np.ndarray:
        """Standardised columns (n, d), 0 where missing."""
        check_is_fitted(self)
        return self.standardise(self._table(X, reset=False))

    def get_feature_names_out(self, input_features: object = None) -> np.ndarray:
        """The encoded columns."""
        check_is_fitted(self)
        return np.array(self.names_, dtype=object)

    def standardise(self, covariates: pd.DataFrame) -> np.ndarray:
        """`transform` of a table, always an array, whatever scikit-learn's output is set to."""
        return (self.impute(covariates) - self.mean_) / self.std_

    def impute(self, covariates: pd.DataFrame) -> np.ndarray:
        """The columns (n, d) in their own units, the training mean where missing."""
        return self.fill(self.encode(covariates))

    def fill(self, encoded: np.ndarray) -> np.ndarray:
        """Encoded columns, with the training mean where missing."""
        return np.where(np.isfinite(encoded), encoded, self.mean_)

    def missing(self, covariates: pd.DataFrame) -> pd.DataFrame:
        """Which covariate of which person was missing, or of a level never seen, and stands at the training mean."""
        self._require(covariates)
        flags = {}
        for name in self.columns_:
            if name in self.levels_:
                flags[name] = ~as_text(covariates[name]).isin(self.levels_[name]).to_numpy()
            else:
                flags[name] = ~np.isfinite(_numeric(covariates[name], name))
        return pd.DataFrame(flags, index=covariates.index)

    def state(self) -> np.ndarray:
        """What was learned, as JSON bytes."""
        learned = {
            "columns": self.columns_,
            "levels": self.levels_,
            "mean": self.mean_.tolist(),
            "std": self.std_.tolist(),
        }
        return np.frombuffer(json.dumps(learned).encode(), dtype=np.uint8)

    def load_state(self, state: np.ndarray) -> Self:
        """Restore what `state` returned."""
        learned = json.loads(state.tobytes())
        self.columns_, self.levels_ = learned["columns"], learned["levels"]
        self.names_ = [f"{name}={level}" if level else name for name, level in self._column_levels()]
        self.mean_, self.std_ = np.array(learned["mean"]), np.array(learned["std"])
        return self

    def _table(self, X: pd.DataFrame | np.ndarray, reset: bool) -> pd.DataFrame:
        """Covariates as a table; the order of a table's columns, and further ones, do not matter after `fit`."""
        try:
            if not isinstance(X, pd.DataFrame):
                array = validate_data(self, X, reset=reset, dtype=None, ensure_all_finite="allow-nan")
                return as_table(array, len(array))
            table = X.rename(columns=str)
            return validate_data(self, table, skip_check_array=True) if reset else table
        except ValueError as error:
            raise DataError(str(error)) from error

    def _learn_scale(self, raw: np.ndarray) -> Self:
        if np.isinf(raw).any():
            raise DataError(f"covariates must be finite or missing; infinite in {self._where(np.isinf(raw))}")
        if (absurd := np.abs(raw) > LARGEST).any():
            raise DataError(
                f"numbers above {LARGEST:g} cannot be measurements: {self._where(absurd)}; leave unknown ones empty"
            )
        known = np.isfinite(raw)
        count = np.maximum(known.sum(axis=0), 1)
        self.mean_ = np.where(known, raw, 0).sum(axis=0) / count
        std = np.sqrt((np.where(known, raw - self.mean_, 0) ** 2).sum(axis=0) / count)
        self.std_ = _nonzero(std, self.mean_)
        return self

    def _column_levels(self) -> list[tuple[str, str]]:
        """(column, level) of every encoded column; the first level is the reference and has none."""
        pairs: list[tuple[str, str]] = []
        for name in self.columns_:
            pairs += [(name, level) for level in self.levels_[name][1:]] if name in self.levels_ else [(name, "")]
        return pairs

    def encode(self, covariates: pd.DataFrame) -> np.ndarray:
        """The columns (n, d) in their own units, NaN where missing."""
        self._require(covariates)
        raw = np.empty((len(covariates), len(self.names_)))
        for k, (name, level) in enumerate(self._column_levels()):
            if level:
                text = as_text(covariates[name])
                raw[:, k] = np.where(text.isin(self.levels_[name]), text == level, np.nan)
            else:
                raw[:, k] = _numeric(covariates[name], name)
        return raw

    def _require(self, covariates: pd.DataFrame) -> None:
        absent = [name for name in self.columns_ if name not in covariates]
        if absent:
            raise DataError(
                f"the covariate(s) {', '.join(absent)} used in training are absent; give the column(s), "
                "with missing values where unknown (they then stand at the training mean); scikit-learn's own scorers "
                "cannot pass them on, brainroam.SiteScorer('roc_auc', 'balanced_accuracy', 'average_precision' or "
                "'neg_brier_score') can"
            )

    def _where(self, flags: np.ndarray) -> str:
        return ", ".join(name for name, bad in zip(self.names_, flags.T, strict=True) if bad.any())


def _nonzero(std: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Standard deviations, 1 for a column that does not vary."""
    return np.where(std > 1e-12 * np.maximum(1, np.abs(mean)), std, 1.0)


def _numeric(column: pd.Series, name: str) -> np.ndarray:
    try:
        return as_numbers(column)
    except (ValueError, TypeError) as error:
        raise DataError(f"covariate {name!r} was numeric in training but is not here: {error}") from error
