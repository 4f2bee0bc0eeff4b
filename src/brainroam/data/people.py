"""`People`: the table of a cohort. Who they are, at which site, what is predicted of them, and who was left out.

A table passes one gate (`validate_table`) before anything else sees it.

A row is a scan. The column ``person`` names whose it is, where somebody has several; ``group`` names a family.
Relatives, and two scans of one person, resemble each other. One of them in training and another held out is a leak, so
everybody of a group stays on one side of every split, and the scans of a person are of one group. Whoever has neither
stands alone.

Relatives are counted one by one. Scans of one person are one measurement: wherever people are counted, permuted or
tested, a person stands once, with the mean of the scans (`people_of`).
"""

import hashlib
import json
import warnings
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
import pandas as pd

from brainroam.data.columns import of_the_condition
from brainroam.data.names import canonical, refuse_aliases
from brainroam.data.target import TWO_CLASSES, Target
from brainroam.errors import CONTROL, DataError, UsageError, counted, listed, unknown

COLUMNS = ("subject", "site", "label", "age", "sex", "mean_fd", "tr", "n_timepoints")
NUMERIC = ("label", "age", "sex", "mean_fd", "tr")
LARGEST = 1e15  # no measurement of a person is larger, and squares of such numbers still are numbers
COVARIATES = ("age", "sex")  # what methods use unless a study says otherwise
NUISANCE = ("mean_fd",)  # what our methods take out as directions unless a study says otherwise
RENAMED = "study_group"  # what a column 'group' is called that holds diagnoses or study arms
LARGE, MOST = 5, 0.2  # a group of more people than this, and of more than this share of everybody, is no family
NO_COVARIATES = {
    "label": "it is what is predicted, and nobody knows it at a new site",
    "subject": "every person has another id",
    "site": "sites are handled by their names, and a new site has no effect of its own to remove",
    "person": "every person has another name",
    "group": "it says who must not be split, and new people belong to new families",
}


class People:
    """The part of a cohort besides the measurements; see `brainroam.data.cohort.Cohort`."""

    _table: pd.DataFrame
    _excluded: pd.DataFrame
    _target: Target
    _covariates: tuple[str, ...]
    _nuisance: tuple[str, ...] = NUISANCE
    labels_hidden = False  # whether these are people to be scored, see `Cohort.without_labels`

    def __len__(self) -> int:
        return len(self._table)

    @property
    def table(self) -> pd.DataFrame:
        """A copy of the metadata, one row per scan: per person, unless somebody has several (`people`)."""
        return self._table.copy()

    @property
    def people(self) -> pd.DataFrame:
        """The metadata with one row per site and person, see `people_of`."""
        return people_of(self._table).copy()

    @property
    def n_people(self) -> int:
        """How many people there are; ``len(cohort)`` counts scans."""
        return int(persons(self._table).nunique())

    @property
    def counted(self) -> str:
        """The number of people, and of scans where these are more: "181 people, 200 scans"."""
        return people_and_scans(self._table)

    @property
    def excluded(self) -> pd.DataFrame:
        """A copy of who was left out and why."""
        return self._excluded.copy()

    @property
    def sites(self) -> list[str]:
        """The site names, sorted."""
        return sorted(self._table["site"].unique())

    @property
    def target(self) -> Target:
        """What is predicted, see `brainroam.data.target`."""
        return self._target

    @property
    def target_counted(self) -> str:
        """The target in a few words: "40 with the condition", "age 7 to 64", "DSM_IV_TR of 4 classes"."""
        return self.target.counted(people_of(self._table, ())["label"])

    @property
    def labels(self) -> np.ndarray:
        """0/1 labels as integers; an error when some are unknown or hidden (`without_labels`), or no two classes."""
        return self.target.binary(self._known_labels)

    @property
    def targets(self) -> np.ndarray:
        """What is learned, as floats: 0 and 1, codes of classes, or a number on the scale of its transform."""
        return self.target.forward(self._known_labels)

    @property
    def _known_labels(self) -> np.ndarray:
        if self.labels_hidden:
            raise DataError(
                f"labels of held-out people are not available while scoring ({counted(len(self), 'person', 'people')} "
                f"of {listed(self.sites)}): a score must not depend on them; use labels of training people, in fit"
            )
        unlabelled = self._table["label"].isna()
        if unlabelled.any():
            people = listed(self._table.loc[unlabelled, "subject"])
            have_none = counted(int(unlabelled.sum()), "person has", "people have")
            raise DataError(f"{have_none} no label: {people}; training and scoring need one")
        return self._table["label"].to_numpy(dtype=float)

    @property
    def covariate_names(self) -> tuple[str, ...]:
        """The columns that methods use as covariates, unless they are told others."""
        return self._covariates

    @property
    def nuisance_names(self) -> tuple[str, ...]:
        """The columns whose directions our methods take out, unless they are told others."""
        return self._nuisance

    def covariates(self, names: Iterable[str] | None = None) -> pd.DataFrame:
        """These columns of the table, or `covariate_names`; an error for one that does not exist."""
        names = list(self._covariates if names is None else names)
        for name in names:
            if name not in self._table:
                raise unknown("covariate", name, [name for name in self._table if name not in NO_COVARIATES])
            if name in NO_COVARIATES:
                raise UsageError(f"{name!r} cannot be a covariate: {NO_COVARIATES[name]}; name others")
            if name == self.target.name and self.target != TWO_CLASSES:
                raise UsageError(f"{name!r} cannot be a covariate: it is the target; name others")
        return self._table[names].copy()

    @cached_property
    def _telling(self) -> list[str]:
        """Columns that reveal the diagnosis."""
        names = [name for name in self._table if name not in NO_COVARIATES]
        return list(of_the_condition(self._table, names, self.target))


def validate_table(table: pd.DataFrame, n_series: int, target: Target = TWO_CLASSES) -> pd.DataFrame:
    """A clean copy: text ids and sites, numeric covariates, known labels only, columns in the promised order."""
    absent = [name for name in ("subject", "site", "label") if name not in table]
    if absent:
        raise DataError(
            f"the table lacks the column(s) {', '.join(absent)}; it has {', '.join(map(str, table.columns))}"
        )
    if len(table) != n_series:
        raise DataError(f"the table has {len(table)} rows but there are {n_series} series")
    if n_series == 0:
        raise DataError("the cohort has no people")
    table = table.reset_index(drop=True).copy()
    for name in ("subject", "site"):
        table[name] = _names(table, name)
    twice = table.loc[table["subject"].duplicated(), "subject"].unique()
    if len(twice):
        raise DataError(
            f"the same subject id stands more than once: {listed(twice)}; every person needs an id of their own "
            "(name a person with several scans in the column 'person', and each scan in 'subject')"
        )
    refuse_aliases(table["site"], "site")
    for name in NUMERIC:
        table[name] = _numbers(table, name)
    _require_labels(table, target)
    if target.classes and not table["label"].isna().any():
        table["label"] = table["label"].astype(int)
    if "institution" in table:
        named = table["institution"].astype(object).where(table["institution"].notna(), "").astype(str).str.strip()
        table["institution"] = named.where(named != "", table["site"])
    if "person" in table:
        table = validate_persons(table)
    if "group" in table:
        table = validate_groups(table)
    return table[[*COLUMNS[:-1], *(name for name in table.columns if name not in COLUMNS)]]


def _names(table: pd.DataFrame, name: str) -> pd.Series:
    """A column of ids or sites as text; an error where one is missing or cannot be printed."""
    if table[name].isna().any():
        raise DataError(f"the column {name!r} is empty in row(s) {listed(np.flatnonzero(table[name].isna()))}")
    names = table[name].astype(str)
    unprintable = names.str.contains(CONTROL)
    if unprintable.any():
        raise DataError(
            f"control characters stand in the column {name!r}: {listed(names[unprintable].unique())}; "
            "no name needs them: take them out"
        )
    return names


def _require_labels(table: pd.DataFrame, target: Target) -> None:
    """Refuse labels that are no codes of the target's classes."""
    strange = ~(table["label"].isin(range(len(target.classes))) | table["label"].isna())
    if strange.any() and target.classes:
        people, values = listed(table.loc[strange, "subject"]), listed(table.loc[strange, "label"].unique())
        of_cases = (
            f"labels must be 1 (condition) or 0 (control); {people} have {values}; "
            "to predict a number or several classes, name the column as the target"
        )
        raise DataError(
            target.worded(of_cases, f"labels must be codes of the {len(target.classes)} classes of {target.name!r}")
        )


def _numbers(table: pd.DataFrame, name: str) -> pd.Series:
    """A numeric column, NaN where unknown; an error for text and for what no measurement can be."""
    try:
        values = pd.to_numeric(table[name]).astype(float) if name in table else pd.Series(np.nan, table.index)
    except (ValueError, TypeError) as error:
        raise DataError(f"the column {name!r} must be numeric: {error}; give numbers, missing where unknown") from error
    absurd = values.abs() > LARGEST
    if absurd.any():
        people = zip(table.loc[absurd, "subject"], values[absurd], strict=True)
        each = listed(f"{subject} ({value:g})" for subject, value in people)
        raise DataError(
            f"the column {name!r} holds numbers too large to be measurements: {each}; leave unknown values empty"
        )
    return values


def validate_persons(table: pd.DataFrame) -> pd.DataFrame:
    """The table with ``person`` as text, one's own id where empty, and the scans of a person in one ``group``.

    >>> table = pd.DataFrame({"subject": ["a1", "a2", "b"], "person": ["a", "a", None], "group": ["F", None, None]})
    >>> validate_persons(table)[["person", "group"]].to_numpy().tolist()
    [['a', 'F'], ['a', 'F'], ['b', None]]
    """
    person = persons(table)
    families = table["group"] if "group" in table else pd.Series(None, table.index, dtype=object)
    of_person = families.groupby(person).transform("first")
    several = person.map(person.value_counts()) > 1
    group = of_person.where(of_person.notna(), person.where(several, None))
    return table.assign(person=person, group=group.astype(object).where(group.notna(), None))


def persons(table: pd.DataFrame) -> pd.Series:
    """The person of each row: ``person``, or the row's own ``subject`` (or number) where that is missing."""
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


def shares_of_people(table: pd.DataFrame) -> np.ndarray:
    """How many people each scan stands for: 1, or a share of one where a person has several.

    >>> shares_of_people(pd.DataFrame({"subject": ["a1", "a2", "b"], "person": ["a", "a", "b"]})).tolist()
    [0.5, 0.5, 1.0]
    """
    person = persons(table)
    return (1 / person.map(person.value_counts())).to_numpy()


def mean_of_scans(values: np.ndarray, person: np.ndarray) -> np.ndarray:
    """Means over the scans of each person, NaN where no scan has a value: people are counted, not scans.

    >>> mean_of_scans(np.array([[1.0, np.nan], [3.0, np.nan], [5.0, 2.0]]), np.array([0, 0, 1])).tolist()
    [[2.0, nan], [5.0, 2.0]]
    """
    if len(set(person.tolist())) == len(person):
        return values
    means = pd.DataFrame(np.reshape(values, (len(values), -1))).groupby(person).mean().to_numpy()
    return means.reshape(len(means), *values.shape[1:])


def people_by_site(table: pd.DataFrame, target: Target) -> pd.DataFrame:
    """How many people each site has, and of which kind; columns that nobody filled in are left out."""
    sites = people_of(table).groupby("site")
    columns = {
        "people": sites.size(),
        **target.site_columns(sites["label"]),
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


def validate_groups(table: pd.DataFrame) -> pd.DataFrame:
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
    return table.rename(columns={"group": RENAMED})


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
    """Mask of people such that no group spans two sites: of each group, those of the site that has most of them.

    >>> table = pd.DataFrame({"site": list("AABB"), "group": ["F1", "F1", "F1", None]})
    >>> at_one_site(table).tolist()
    [True, True, False, True]
    """
    codes = group_codes(table)
    if codes is None:
        return np.ones(len(table), dtype=bool)
    site = table["site"].to_numpy()
    chosen = np.ones(len(table), dtype=bool)
    for members in pd.Series(range(len(codes))).groupby(codes):
        rows = members[1].to_numpy()
        names, counts = np.unique(site[rows], return_counts=True)
        chosen[rows] = site[rows] == names[counts.argmax()]
    return chosen


def manifest_hash(table: pd.DataFrame, digests: Sequence[str]) -> str:
    """SHA-256 over subject ids, labels, sites and the digests of their series, in any order."""
    rows = zip(table["subject"], table["label"], table["site"], digests, strict=True)
    people = sorted([subject, _plain(label), site, d] for subject, label, site, d in rows)
    return hashlib.sha256(json.dumps(people).encode()).hexdigest()


def _plain(label: float) -> float | int | None:
    """A label as JSON has it: whole numbers without a point."""
    return None if pd.isna(label) else int(label) if float(label).is_integer() else float(label)
