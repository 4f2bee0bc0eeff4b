"""Who is one person, and who belongs together: the columns ``person`` and ``group``.

A row is a scan. ``person`` names whose it is, where somebody has several; ``group`` names a family. Relatives, and two
scans of one person, resemble each other. One of them in training and another held out is a leak, so everybody of a
group stays on one side of every split, and the scans of a person are of one group. Whoever has neither stands alone.

Relatives are counted one by one. Scans of one person are one measurement: wherever people are counted, permuted or
tested, a person stands once, with the mean of the scans (`people_of`).
"""

import warnings
from collections.abc import Sequence

import numpy as np
import pandas as pd

from brainroam.data.names import canonical
from brainroam.data.target import Target
from brainroam.errors import counted, listed

LARGE, MOST = 5, 0.2  # a group of more people than this, and of more than this share of everybody, is no family


def validated_persons(table: pd.DataFrame) -> pd.DataFrame:
    """The table with ``person`` as text, one's own id where empty, and the scans of a person in one ``group``.

    >>> table = pd.DataFrame({"subject": ["a1", "a2", "b"], "person": ["a", "a", None], "group": ["F", None, None]})
    >>> validated_persons(table)[["person", "group"]].to_numpy().tolist()
    [['a', 'F'], ['a', 'F'], ['b', None]]
    """
    person = persons(table)
    families = table["group"] if "group" in table else pd.Series(None, table.index, dtype=object)
    of_person = families.groupby(person).transform("first")
    several = person.map(person.value_counts()) > 1
    group = of_person.where(of_person.notna(), person.where(several, None))
    return table.assign(person=person, group=group.astype(object).where(group.notna(), None))


def persons(table: pd.DataFrame) -> pd.Series:
    """Whose scan each row is: ``person``, or the row's own ``subject`` (or number) where that is not said."""
    subject = table["subject"].astype(str) if "subject" in table else pd.Series(table.index.astype(str), table.index)
    if "person" not in table:
        return subject
    named = table["person"].astype(object).where(table["person"].notna(), "").astype(str).str.strip()
    return named.where(named != "", subject)


def people_of(table: pd.DataFrame, by: Sequence[str] = ("site",)) -> pd.DataFrame:
    """One row per person instead of one per scan: numbers are means over the scans, the rest is that of the first.

    ``subject`` becomes the name of the person. A person counts once for each value of ``by``, and once for each label
    where scans differ in it.

    >>> scans = pd.DataFrame({"subject": ["a1", "a2", "b"], "person": ["a", "a", "b"], "site": "A", "label": [1, 1, 0],
    ...     "score": [1.0, 3.0, 0.0]})
    >>> people_of(scans)[["subject", "label", "score"]].to_numpy().tolist()
    [['a', 1, 2.0], ['b', 0, 0.0]]
    """
    if "person" not in table or (persons(table) == table["subject"].astype(str)).all():
        return table
    keys = [*by, "subject", "label"]
    rest = [name for name in table if name not in keys]
    how = {name: "mean" if pd.api.types.is_numeric_dtype(table[name]) else "first" for name in rest}
    groups = table.assign(subject=persons(table)).groupby(keys, sort=False, dropna=False, observed=True)
    return groups.agg(how).reset_index()[list(table)]


def people_by_site(table: pd.DataFrame, target: Target) -> pd.DataFrame:
    """How many people each site has, and of which kind; columns that nobody filled in are left out."""
    sites = people_of(table).groupby("site")
    classes = {
        "cases": sites["label"].apply(lambda y: int((y == 1).sum())),
        "controls": sites["label"].apply(lambda y: int((y == 0).sum())),
    }
    columns = {
        "people": sites.size(),
        **(classes if target.is_two_classes else {target.name: sites["label"].mean()}),
        "age": sites["age"].mean(),
        "share male": sites["sex"].mean(),
        "mean FD": sites["mean_fd"].mean(),
        "volumes": sites["n_timepoints"].median(),
    }
    return pd.DataFrame(columns).dropna(axis=1, how="all").reset_index()


def people_and_scans(table: pd.DataFrame) -> str:
    """How many people, and how many scans where these are more.

    >>> people_and_scans(pd.DataFrame({"subject": ["a1", "a2", "b"], "person": ["a", "a", "b"]}))
    '2 people, 3 scans'
    """
    n = persons(table).nunique()
    return counted(n, "person", "people") + (f", {len(table)} scans" if n < len(table) else "")


def validated_groups(table: pd.DataFrame) -> pd.DataFrame:
    """The table with ``group`` as text, missing for people who stand alone.

    A column of that name that holds diagnoses or study arms instead, as many published tables do, would tear whole
    classes out of training: it is renamed to ``study_group``, with a warning.
    """
    group = table["group"].astype(object).where(table["group"].notna(), None)
    group = group.map(lambda name: None if name is None or not str(name).strip() else str(name).strip())
    counts = persons(table).groupby(group).nunique().sort_values(ascending=False)  # six scans are one person
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
