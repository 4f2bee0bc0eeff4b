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

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from brainroam.core.covariates import CovariateEncoder
from brainroam.core.targets import is_number
from brainroam.data.cohort import Cohort
from brainroam.data.people import persons
from brainroam.data.target import ORDERED, Target
from brainroam.errors import DataError, SummaryError, listed
from brainroam.execution.federation.disclosure import (
    DRAWN_IN,
    STEPS_JOINED,
    disclosable_covariates,
    disclosable_number,
    disclosable_steps,
    singled_out,
)

FEW_OF_CLASS = "left out: fewer than the {least} people below which a summary tells too much about each of them"
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

    @property
    def counts(self) -> np.ndarray:
        """How many people of each class; of a number, how many."""
        if self.y.ndim == 2:
            return self.y.sum(axis=0)
        return np.array([len(self.y)]) if is_number(self.y) else np.array([(self.y == c).sum() for c in (0, 1)])

    @property
    def steps(self) -> np.ndarray:
        """The steps (K, 2) of an order that somebody has, and how many people each."""
        return np.column_stack(np.unique(np.rint(self.y + self.level), return_counts=True)).astype(float)

    def on(self, edges: np.ndarray | slice, huber_k: float) -> np.ndarray:
        """Their values on some edges, NaN where somebody would be singled out."""
        values = self.edges[:, edges]
        out = singled_out(values, self.covariates, self.y, huber_k, self.min_count)
        return np.where(out, np.nan, values)


def mean_of_scans(values: np.ndarray, person: np.ndarray) -> np.ndarray:
    """Means over the scans of each person (n, m), NaN where no scan has a value: people are counted, not scans.

    >>> mean_of_scans(np.array([[1.0, np.nan], [3.0, np.nan], [5.0, 2.0]]), np.array([0, 0, 1])).tolist()
    [[2.0, nan], [5.0, 2.0]]
    """
    if len(set(person.tolist())) == len(person):
        return values
    return pd.DataFrame(values).groupby(person).mean().to_numpy()


def without_small_classes(cohort: Cohort, least: int) -> tuple[Cohort, dict[str, str]]:
    """Without the people of those of several classes that too few have here, and which these are."""
    target = cohort.target
    if not target.is_classes:
        return cohort, {}
    code, person = cohort.targets.astype(int), persons(cohort.table).to_numpy()
    counts = {name: len(set(person[code == k])) for k, name in enumerate(target.classes)}
    few = {name: n for name, n in counts.items() if n < least}
    included = ~np.isin(code, [target.classes.index(name) for name in few])
    why = {f"{target.name} {name}": FEW_OF_CLASS.format(least=least) for name, n in few.items() if n}
    if len(few) > len(target.classes) - 2:
        raise SummaryError(
            f"site {cohort.sites[0]}: fewer than two classes of {target.name} have the {least} people below which a "
            "summary tells too much about each of them: nothing was written"
        )
    table, names = cohort.table, [name for name in target.classes if name not in few]
    place = {float(target.classes.index(name)): float(k) for k, name in enumerate(names)}
    recoded = table.assign(label=table["label"].map(place))
    return cohort.predicting(replace(target, classes=tuple(names)), recoded).subset(included), why


def labels_of(cohort: Cohort, target: Target, person: np.ndarray) -> tuple[np.ndarray, float]:
    """Labels of each person (0 and 1, indicators of the classes of this target, or a number about its mean), the mean.

    Somebody's number is the mean over their scans. A step of an order is the number that names it, since codes depend
    on which steps a site has.
    """
    label = mean_of_scans(cohort.targets[:, None], person)[:, 0]
    if target.is_two_classes:
        return label.astype(int), 0.0
    if target.is_classes:
        place = [target.classes.index(name) for name in cohort.target.classes]
        return np.eye(len(target.classes), dtype=int)[np.array(place)[label.astype(int)]], 0.0
    if target.kind == ORDERED:
        label = np.array(cohort.target.classes, dtype=float)[np.rint(label).astype(int)]
    return label - label.mean(), float(label.mean())


def draw_in_number(
    site: str, t: np.ndarray, level: float, k: int, why: dict[str, str], target: Target
) -> tuple[np.ndarray, float]:
    """The number, or step of an order, as it is told, and its mean."""
    drawn = _draw_in(t, k, target)
    if drawn is None:
        raise SummaryError(
            f"site {site}: fewer than {k} people differ in {target.name} from all others, and every slope would tell "
            "about them: nothing was written"
        )
    if not np.array_equal(drawn, t):
        why[target.name] = STEPS_JOINED.format(k=k) if target.kind == ORDERED else DRAWN_IN
    return drawn - drawn.mean(), level + float(drawn.mean())


def _draw_in(t: np.ndarray, k: int, target: Target) -> np.ndarray | None:
    return disclosable_steps(t, k) if target.kind == ORDERED else disclosable_number(t, k)


def persons_of(cohort: Cohort, site: str) -> np.ndarray:
    """Whose scan each row is, as numbers in the order of the rows."""
    person = pd.factorize(persons(cohort.table))[0]
    both = pd.Series(cohort.targets).groupby(person).nunique() > 1
    if both.any() and cohort.target.is_classes:
        raise DataError(f"site {site}: {int(both.sum())} people have scans of two classes; keep one kind of them")
    if both.any() and cohort.target.is_two_classes:
        raise DataError(
            f"site {site}: {int(both.sum())} people have scans as a case and as a control; keep one kind of them"
        )
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
        here = here[_in_large_classes(cohort.subset(here), least)] if not alone else here
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


def _in_large_classes(group: Cohort, least: int) -> np.ndarray:
    """Positions of the people whose class has enough people in this group; of a number twice as many are needed."""
    person, y = persons(group.table), group.targets
    if group.target.is_number:
        return np.arange(len(group)) if person.nunique() >= 2 * least else np.empty(0, dtype=int)
    count = person.groupby(y).transform("nunique")
    return np.flatnonzero((count >= least).to_numpy())


def _draw_in_group(group: Cohort, k: int) -> tuple[pd.DataFrame | None, dict[str, str]]:
    """Labels and covariates of a group, drawn in as if it were a site; None where a number tells too much."""
    person, names = pd.factorize(persons(group.table))[0], list(group.covariate_names)
    labels = pd.Series(group.table["label"].to_numpy(dtype=float)).groupby(person).mean()
    if group.target.is_number:
        forward = group.target.forward(labels.to_numpy())
        drawn = _draw_in(np.rint(forward) if group.target.kind == ORDERED else forward, k, group.target)
        if drawn is None:
            return None, {}
        y, labels = drawn - drawn.mean(), pd.Series(group.target.inverse(drawn))
    elif group.target.is_classes:
        y = np.eye(len(group.target.classes), dtype=int)[labels.astype(int)]
    else:
        y = labels.to_numpy().astype(int)
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
