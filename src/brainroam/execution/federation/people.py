"""The people of a hospital as they are summarised: each once, with labels and covariates in numbers.

Of several blocks each is summarised like a study of its own, of the people who have it. What two blocks tell of the
same columns (counts, covariates, the number that is predicted) then differs by the people who have one of them only, so
whoever subtracts learns about these alone. A group of people with the same blocks is therefore held to the rules of a
site:

1.  each class of it has as many people as a site needs; else they are left out of all blocks
2.  a covariate that could not be told of the group alone is dropped in all blocks; extreme values are drawn in
3.  so are extreme values of a number; where nobody of the group differs then, the group is left out

Where everybody has every block there is one group, and nothing more is withheld than of one block.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from brainroam.core.covariates import CovariateEncoder
from brainroam.data.cohort import Cohort
from brainroam.data.people import persons
from brainroam.data.target import TWO_CLASSES, Target
from brainroam.errors import DataError, listed
from brainroam.execution.federation.disclosure import (
    disclosable_covariates,
    singled_out,
)
from brainroam.execution.federation.labels import Labels
from brainroam.execution.federation.site_kinds import SiteKind

FEW_ALIKE = "left out: {who}, fewer than {least} of a class who have the same blocks, or nobody of them differs"
OTHERS = "people with other blocks than the rest"
NOT_OF_ALL = "dropped: those who lack a block could be told by it"


@dataclass(frozen=True, eq=False)
class People:
    """The people of a site: edges (n, M), labels, the covariates they may be told by, and how many are the fewest.

    Labels are 0 and 1, indicators of several classes (n, K), or a number or step about ``level``, its mean.
    """

    edges: np.ndarray
    y: np.ndarray
    covariates: pd.DataFrame
    min_count: int
    own_units: bool = False
    level: float = 0.0
    target: Target = TWO_CLASSES

    @property
    def counts(self) -> np.ndarray:
        """How many people of each class; of a number, how many."""
        return Labels.of(self.y).counts

    def on(self, edges: np.ndarray | slice, huber_k: float) -> np.ndarray:
        """Their values on some edges, NaN where somebody would be singled out."""
        values = self.edges[:, edges]
        out = singled_out(values, self.covariates, self.y, huber_k, self.min_count)
        return np.where(out, np.nan, values)


def persons_of(cohort: Cohort, site: str) -> np.ndarray:
    """Whose scan each row is, as numbers in the order of the rows."""
    person = pd.factorize(persons(cohort.table))[0]
    different = pd.Series(cohort.targets).groupby(person).nunique() > 1
    SiteKind.of(cohort.target).refuse_two_of_one(site, int(different.sum()))
    return person


def numeric_covariates(cohort: Cohort, names: list[str], site: str) -> pd.DataFrame:
    """The covariates, which have to be numbers: sites do not know each other's categories."""
    table = cohort.covariates(names).reset_index(drop=True)
    encoder = CovariateEncoder().fit(table)
    if encoder.levels_:
        raise DataError(
            f"site {site}: {listed(encoder.levels_)} has words for values; sites do not know each other's words: make "
            "it a column of numbers, or leave it out with --covariates"
        )
    unknown = [name for name in names if encoder.missing(table)[name].all()]
    if unknown:
        raise DataError(f"site {site} knows {listed(unknown)} of nobody; leave it out at all sites, with --covariates")
    return table


class Disclosable(NamedTuple):
    """The people who may be told of; covariates that may not, and why; who was left out, and why."""

    cohort: Cohort
    withheld: dict[str, str]
    left_out: dict[str, str]


def disclosable_people(cohort: Cohort, least: int, k: int) -> Disclosable:
    """Apply the three rules above to each group of people with the same blocks."""
    if not cohort.blocks:
        return Disclosable(cohort, {}, {})
    group = _groups(cohort)
    included, table = np.zeros(len(cohort), dtype=bool), cohort.table[["label", *cohort.covariate_names]].copy()
    untold: dict[str, str] = {}
    alone = len(set(group)) == 1
    for name in dict.fromkeys(group):
        here = np.flatnonzero(group == name)
        here = here if alone else here[SiteKind.of(cohort.target).in_large_classes(cohort.subset(here), least)]
        if not len(here) or name == _NOTHING:
            continue
        if not alone:
            drawn, why = _draw_in_group(cohort.subset(here), k)
            if drawn is None:
                continue
            untold |= {column: NOT_OF_ALL for column, reason in why.items() if reason.startswith("dropped")}
            table.iloc[here] = drawn
        included[here] = True
    if not included.any():
        raise DataError(
            f"site {cohort.sites[0]}: {FEW_ALIKE.format(who='everybody', least=least)}: nothing was written"
        )
    drawn_in = cohort if alone else cohort.with_columns(table)
    left_out = {} if included.all() else {"people": FEW_ALIKE.format(who=OTHERS, least=least)}
    return Disclosable(drawn_in.subset(included), untold, left_out)


_NOTHING = ""


def _groups(cohort: Cohort) -> np.ndarray:
    """The blocks that each person has, as text, the same for all scans of somebody."""
    has = pd.DataFrame({name: cohort.has_block(name) for name in cohort.blocks})
    of_person = has.groupby(persons(cohort.table).to_numpy()).transform("any")
    return np.array(["+".join(name for name in has if row[name]) for _, row in of_person.iterrows()])


def _draw_in_group(group: Cohort, k: int) -> tuple[pd.DataFrame | None, dict[str, str]]:
    """Labels and covariates of a group, drawn in as if it were a site; None where a number tells too much."""
    person, names = pd.factorize(persons(group.table))[0], list(group.covariate_names)
    labels = pd.Series(group.table["label"].to_numpy(dtype=float)).groupby(person).mean()
    found = SiteKind.of(group.target).of_group(labels, k)
    if found is None:
        return None, {}
    y, labels = found
    table = group.covariates(names).reset_index(drop=True)
    encoder = CovariateEncoder().fit(table)
    if encoder.levels_:  # refused later, in words
        return group.table[["label", *names]], {}
    means = pd.DataFrame(encoder.encode(table), columns=names).groupby(person).mean()
    disclosable, why = disclosable_covariates(means, y, k)
    disclosable = disclosable.where(disclosable.notna(), means)  # what is dropped is so in all blocks
    rows = disclosable.iloc[person].reset_index(drop=True)
    rows.insert(0, "label", labels.iloc[person].to_numpy())
    return rows, why
