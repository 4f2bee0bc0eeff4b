"""`People`: the table of a cohort. Who they are, at which site, what is predicted of them, and who was left out.

A table passes one gate (`validated_table`) before anything else sees it.
"""

from collections.abc import Iterable
from functools import cached_property

import numpy as np
import pandas as pd

from brainroam.data.columns import of_the_condition
from brainroam.data.groups import people_and_scans, people_of, persons, validated_groups, validated_persons
from brainroam.data.names import refuse_aliases
from brainroam.data.target import TWO_CLASSES, Target
from brainroam.errors import CONTROL, DataError, UsageError, counted, listed, unknown

COLUMNS = ("subject", "site", "label", "age", "sex", "mean_fd", "tr", "n_timepoints")
NUMERIC = ("label", "age", "sex", "mean_fd", "tr")
LARGEST = 1e15  # no measurement of a person is larger, and squares of such numbers still are numbers
COVARIATES = ("age", "sex")  # what methods use unless a study says otherwise
NO_COVARIATES = {
    "label": "it is what is predicted, and nobody knows it at a new site",
    "subject": "every person has another id",
    "site": "sites are handled by their names, and a new site has no effect of its own to remove",
    "person": "every person has another name",
    "group": "it says who must not be split, and new people belong to new families",
}


class People:
    """What a cohort knows of people besides their measurements; see `brainroam.data.cohort.Cohort`."""

    _table: pd.DataFrame
    _excluded: pd.DataFrame
    _target: Target
    _covariates: tuple[str, ...]
    labels_hidden = False  # whether these are people to be scored, see `Cohort.without_labels`

    def __len__(self) -> int:
        return len(self._table)

    @property
    def table(self) -> pd.DataFrame:
        """A copy of the metadata, one row per scan: per person, unless somebody has several (`people`)."""
        return self._table.copy()

    @property
    def people(self) -> pd.DataFrame:
        """The metadata with one row per site and person, see `brainroam.data.groups.people_of`."""
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
        if not self.target.is_two_classes:
            self.target.refuse_classes("this")
            raise DataError(f"this needs two classes, and the target {self.target.name!r} is: {self.target.kind}")
        return self._known_labels.astype(int)

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
        """Columns from which the diagnosis can be told."""
        names = [name for name in self._table if name not in NO_COVARIATES]
        return list(of_the_condition(self._table, names, self.target))


def validated_table(table: pd.DataFrame, n_series: int, target: Target = TWO_CLASSES) -> pd.DataFrame:
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
        if table[name].isna().any():
            raise DataError(f"the column {name!r} is empty in row(s) {listed(np.flatnonzero(table[name].isna()))}")
        table[name] = table[name].astype(str)
        unprintable = table[name].str.contains(CONTROL)
        if unprintable.any():
            raise DataError(
                f"control characters stand in the column {name!r}: {listed(table.loc[unprintable, name].unique())}; "
                "no name needs them: take them out"
            )
    twice = table.loc[table["subject"].duplicated(), "subject"].unique()
    if len(twice):
        raise DataError(
            f"the same subject id stands more than once: {listed(twice)}; every person needs an id of their own "
            "(name a person with several scans in the column 'person', and each scan in 'subject')"
        )
    refuse_aliases(table["site"], "site")
    for name in NUMERIC:
        table[name] = _numbers(table, name)
    strange = ~(table["label"].isin(range(len(target.classes))) | table["label"].isna())
    if strange.any() and target.is_two_classes:
        people = listed(table.loc[strange, "subject"])
        raise DataError(
            f"labels must be 1 (condition) or 0 (control); {people} have "
            f"{listed(table.loc[strange, 'label'].unique())}; "
            "to predict a number or several classes, name the column as the target"
        )
    if strange.any() and target.classes:
        raise DataError(f"labels must be codes of the {len(target.classes)} classes of {target.name!r}")
    if target.classes and not table["label"].isna().any():
        table["label"] = table["label"].astype(int)
    if "institution" in table:
        named = table["institution"].astype(object).where(table["institution"].notna(), "").astype(str).str.strip()
        table["institution"] = named.where(named != "", table["site"])
    if "person" in table:
        table = validated_persons(table)
    if "group" in table:
        table = validated_groups(table)
    return table[[*COLUMNS[:-1], *(name for name in table.columns if name not in COLUMNS)]]


def _numbers(table: pd.DataFrame, name: str) -> pd.Series:
    """A numeric column, NaN where unknown; an error for text and for what no measurement can be."""
    try:
        values = pd.to_numeric(table[name]).astype(float) if name in table else pd.Series(np.nan, table.index)
    except (ValueError, TypeError) as error:
        raise DataError(f"the column {name!r} must be numeric: {error}") from error
    absurd = values.abs() > LARGEST
    if absurd.any():
        people = zip(table.loc[absurd, "subject"], values[absurd], strict=True)
        each = listed(f"{subject} ({value:g})" for subject, value in people)
        raise DataError(
            f"the column {name!r} holds numbers too large to be measurements: {each}; leave unknown values empty"
        )
    return values
