"""People who belong together: the column ``group`` names a family, or a person with several scans.

Relatives, and two scans of one person, resemble each other. One of them in training and another held out is a leak, so
everybody of a group stays on one side of every split. People without a group stand alone.
"""

import warnings

import numpy as np
import pandas as pd

from brainroam.data.names import canonical
from brainroam.errors import listed

LARGE, MOST = 5, 0.2  # a group of more people than this, and of more than this share of everybody, is no family


def validated_groups(table: pd.DataFrame) -> pd.DataFrame:
    """The table with ``group`` as text, missing for people who stand alone.

    A column of that name that holds diagnoses or study arms instead, as many published tables do, would tear whole
    classes out of training: it is renamed to ``study_group``, with a warning.
    """
    group = table["group"].astype(object).where(table["group"].notna(), None)
    group = group.map(lambda name: None if name is None or not str(name).strip() else str(name).strip())
    counts = group.value_counts()
    n_people = int(counts.sum())
    if counts.empty or counts.iloc[0] <= max(LARGE, MOST * n_people):
        return table.assign(group=group)
    warnings.warn(
        f"the column 'group' has {len(counts)} values for {n_people} people "
        f"({listed(f'{name}: {n}' for name, n in counts.items())}); families and people with several scans are not "
        "that large, so it is taken for a diagnosis or study arm, called 'study_group', and nobody is kept together",
        stacklevel=4,
    )
    return table.rename(columns={"group": "study_group"})


def group_codes(table: pd.DataFrame) -> np.ndarray | None:
    """A number per person, the same for those who belong together; None where everybody stands alone.

    >>> group_codes(pd.DataFrame({"group": ["F1", None, "f1", None]})).tolist()
    [0, 1, 0, 2]
    """
    if "group" not in table:
        return None
    group = table["group"].to_numpy(dtype=object)
    keys = [(False, i) if pd.isna(name) else (True, canonical(name)) for i, name in enumerate(group)]
    codes = pd.factorize(pd.Series(keys, dtype=object))[0]
    return codes if len(set(codes.tolist())) < len(codes) else None


def without_relatives(train: np.ndarray, test: np.ndarray, codes: np.ndarray | None) -> np.ndarray:
    """The positions in ``train`` of people who belong to nobody in ``test``.

    >>> without_relatives(np.array([0, 1]), np.array([2, 3]), np.array([0, 1, 0, 2])).tolist()
    [1]
    """
    return train if codes is None else train[~np.isin(codes[train], codes[test])]


def left_out_note(n_people: int, why: str) -> str:
    """The note about people whom a group keeps out of training.

    >>> left_out_note(1, "a sibling is held out")
    '1 person left out of training: a sibling is held out'
    """
    return f"{n_people} {'person' if n_people == 1 else 'people'} left out of training: {why}"


def at_one_site(table: pd.DataFrame) -> np.ndarray:
    """Who to learn from so that no group spans two sites: of each group, the people of the site that has most of them.

    >>> table = pd.DataFrame({"site": list("AABB"), "group": ["F1", "F1", "F1", None]})
    >>> at_one_site(table).tolist()
    [True, True, False, True]
    """
    codes = group_codes(table)
    if codes is None:
        return np.ones(len(table), dtype=bool)
    site = table["site"].to_numpy()
    kept = np.ones(len(table), dtype=bool)
    for members in pd.Series(range(len(codes))).groupby(codes):
        rows = members[1].to_numpy()
        names, counts = np.unique(site[rows], return_counts=True)
        kept[rows] = site[rows] == names[counts.argmax()]
    return kept
