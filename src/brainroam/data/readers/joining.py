"""Several tables about the same people, joined by their ids."""

import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from brainroam.data.readers.tables import read_table
from brainroam.errors import ReaderError, listed

MIN_SHARED = 0.5
WHOLE = re.compile(r"^(-?\d+)\.0+$")  # as spreadsheets write a number


def join_tables(first: pd.DataFrame, subject: str, paths: Sequence[Path]) -> pd.DataFrame:
    """The first table with the columns of the others beside it; ``subject`` is the first table's column of ids."""
    for path in paths[1:]:
        other = read_table(path)
        ids = first[subject].map(same_id)
        name = id_column(other, set(ids), subject)
        if name is None:
            raise ReaderError(
                f"no column of {path} holds the ids of {paths[0]}, as {listed(first[subject], 3)}; "
                f"give it the column {subject!r}"
            )
        keys = other[name].map(same_id)
        twice = keys[keys.duplicated() & (keys != "")].unique()
        if len(twice):
            raise ReaderError(f"{path} lists {listed(twice)} more than once; keep one row each to join it by {name!r}")
        added = other.drop(columns=name).set_axis(keys, axis=0).reindex(ids).fillna("").set_axis(first.index, axis=0)
        for shared in added.columns.intersection(first.columns):
            differ = (first[shared] != added[shared]) & (first[shared] != "") & (added[shared] != "")
            if differ.any():
                raise ReaderError(
                    f"{paths[0]} and {path} disagree in {shared!r}, for {listed(first.loc[differ, subject])}; "
                    "correct one of them, or take the column out of one"
                )
            first[shared] = first[shared].where(first[shared] != "", added[shared])
        first = first.join(added.drop(columns=added.columns.intersection(first.columns)))
    return first


def same_id(text: str) -> str:
    """An id as tables share it: without ``sub-``, leading zeros or the decimals of a spreadsheet.

    >>> same_id("sub-007"), same_id("7.0")
    ('7', '7')
    """
    bare = WHOLE.sub(r"\1", text).removeprefix("sub-")
    return (bare.lstrip("0") or "0") if bare.isdecimal() else bare


def id_column(table: pd.DataFrame, ids: set[str], usual: str) -> str | None:
    """The column of a table that holds these ids: the one of the usual name, else the one that shares most of them."""
    shares = {str(name): len(ids.intersection(table[name].map(same_id))) / max(len(ids), 1) for name in table}
    if shares.get(usual, 0) > 0:
        return usual
    best = max(shares, key=lambda name: shares[name], default=None)
    return best if best is not None and shares[best] >= MIN_SHARED else None
