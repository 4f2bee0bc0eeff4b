"""Who is trained on and who is held out: named folds over the metadata table.

======  ==========================================================  ================================================
record  what is held out                                            what it says
======  ==========================================================  ================================================
loso    every site once                                             the next site
loio    every institution once, with all its sites                  a site of another institution
halves  a random half of the sites, then the other; repeatedly      the next site, for a model of half as many sites
cv      a random part of every site, stratified by site and label   new people at known sites
======  ==========================================================  ================================================
"""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import BaseCrossValidator, LeaveOneGroupOut
from sklearn.utils import check_consistent_length

from brainroam.data.folds import Fold, hold_out
from brainroam.data.names import institutions_by_name, refuse_aliases, shared_institutions
from brainroam.data.people import group_codes
from brainroam.errors import DataError, UsageError, listed, unknown

#: What is measured by itself: people of two sites of an institution were scanned otherwise, and are not compared.
UNITS = {"loso": "site", "loio": "site", "halves": "site", "cv": "in-distribution fold"}
HELD_OUT = {**UNITS, "loio": "institution"}  # what a fold is
SEVERAL_SITES = ("loio", "halves")  # protocols of which a fold may hold several sites, each measured by itself
TITLES = {
    "loso": "leave-one-site-out",
    "loio": "leave-one-institution-out",
    "halves": "halves of the sites",
    "cv": "in-distribution folds",
}
#: Protocols by the names people type; run records hold the short ones, which are understood as well.
PROTOCOLS = {"leave-one-site-out": "loso", "institutions": "loio", "halves": "halves", "folds": "cv"}


def protocol_of(name: str) -> str:
    """The name of a protocol as run records hold it.

    >>> protocol_of("leave-one-site-out"), protocol_of("cv")
    ('loso', 'cv')
    """
    if name not in PROTOCOLS and name not in UNITS:
        raise unknown("protocol", name, PROTOCOLS)
    return PROTOCOLS.get(name, name)


class SiteStratifiedKFold(BaseCrossValidator):
    """Repeated k-fold in which every fold holds its share of every site and class.

    People are sorted by label, then site, then at random, and dealt to the folds like cards. Within each label, and
    within each site x label stratum, the fold sizes therefore differ by at most one person, however small the stratum.
    Where ``X`` is a table with the column ``group`` (families, people with several scans), whole groups are dealt.

    Parameters
    ----------
    n_splits, n_repeats : int
        Folds per repeat, and how often the deck is reshuffled.
    random_state : int
        Seed of the shuffle; repeat r is the same whatever ``n_repeats``.

    Examples
    --------
    >>> site, y = np.repeat(["A", "B"], 6), np.tile([0, 1], 6)
    >>> folds = list(SiteStratifiedKFold(n_splits=3).split(np.zeros(12), y, groups=site))
    >>> [(sorted(site[test]), sorted(y[test].tolist())) for train, test in folds][0]
    ([np.str_('A'), np.str_('A'), np.str_('B'), np.str_('B')], [0, 0, 1, 1])
    """

    def __init__(self, n_splits: int = 5, n_repeats: int = 1, random_state: int = 0) -> None:
        self.n_splits = n_splits
        self.n_repeats = n_repeats
        self.random_state = random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Number of folds over all repeats."""
        return self.n_splits * self.n_repeats

    def _iter_test_indices(self, X: Any = None, y: Any = None, groups: Any = None) -> Iterator[np.ndarray]:
        if y is None:
            raise UsageError(
                "folds stratified by class need y: split(X, y, groups=site); without classes use GroupKFold"
            )
        label, site = np.asarray(y), np.asarray(groups, dtype=str)
        if not 2 <= self.n_splits <= len(label):
            raise DataError(f"{len(label)} people cannot be split into {self.n_splits} folds; choose 2 or more, fewer")
        codes = _group_codes(X)
        for repeat in range(self.n_repeats):
            shuffle = np.random.default_rng([self.random_state, repeat]).random(len(label))
            order = np.lexsort((shuffle, site, label))
            if codes is not None:
                stratum = np.unique(np.stack([label.astype(str), site]), axis=1, return_inverse=True)[1]
                yield from _deal_groups(order, stratum.ravel(), codes, self.n_splits)
                continue
            for k in range(self.n_splits):
                yield np.sort(order[k :: self.n_splits])


class LeaveOneSiteOut(LeaveOneGroupOut):
    """Every site is held out once: ``groups`` are the sites. What it measures is the next site.

    As scikit-learn's ``LeaveOneGroupOut``, with three leaks closed: one site under two spellings ("NYU", "nyu ") is
    refused, a missing site too, and where ``X`` is a table with the column ``group`` (families, people with several
    scans) whoever is related to somebody held out is left out of training.

    Examples
    --------
    >>> site = np.array(["A", "A", "B", "C"])
    >>> [test.tolist() for train, test in LeaveOneSiteOut().split(np.zeros((4, 1)), groups=site)]
    [[0, 1], [2], [3]]
    """

    unit = "site"

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Number of sites."""
        return len(np.unique(self._units(groups)))

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Positions of the people to train on and of those held out."""
        check_consistent_length(X, y, groups)
        for fold in self.folds(X, groups):
            yield fold.train, fold.test

    def folds(self, X: Any, groups: Any) -> Iterator[Fold]:
        """The folds by name."""
        units, codes = self._units(groups), _group_codes(X)
        if len(np.unique(units)) < 2:
            raise DataError(
                f"leaving one {self.unit} out needs at least two, and everybody is at {str(units[0])!r}; "
                "add people from elsewhere, or use in-distribution folds (cv)"
            )
        for unit in np.unique(units):
            yield _with_training(hold_out(units, [str(unit)], codes))

    def _units(self, groups: Any) -> np.ndarray:
        return _group_names(groups, self.unit)


class LeaveOneInstitutionOut(LeaveOneSiteOut):
    """Every institution is held out once, with all its scanners: ``groups`` are the institutions.

    Two scanners of one hospital are not two hospitals: what a model learns at ``UM_1`` helps at ``UM_2``. With
    ``by_name=True``, ``groups`` are sites, and those that are named like one institution are held out together.

    Examples
    --------
    >>> site = np.array(["UM_1", "UM_2", "NYU", "NYU"])
    >>> split = LeaveOneInstitutionOut(by_name=True).split(np.zeros((4, 1)), groups=site)
    >>> [test.tolist() for train, test in split]
    [[2, 3], [0, 1]]
    """

    unit = "institution"

    def __init__(self, by_name: bool = False) -> None:
        self.by_name = by_name

    def _units(self, groups: Any) -> np.ndarray:
        if not self.by_name:
            return super()._units(groups)
        site = _group_names(groups, "site")
        return pd.Series(site).map(institutions_by_name(np.unique(site))).to_numpy(dtype=str)


class SiteHalves(LeaveOneGroupOut):
    """A random half of the sites is held out, then the other half; repeatedly. ``groups`` are the sites.

    It measures the next site for a model of half as many sites, and its repeats show how much the choice of sites
    matters. Sites with both classes are dealt first, so that each half can be learned from; without ``y`` all sites are
    dealt alike. Repeat r is the same whatever ``n_repeats``; relatives as in `LeaveOneSiteOut`.

    Examples
    --------
    >>> site, y = np.repeat(["A", "B", "C", "D"], 2), np.tile([0, 1], 4)
    >>> [sorted(set(site[test].tolist())) for train, test in SiteHalves(n_repeats=1).split(y, y, groups=site)]
    [['B', 'D'], ['A', 'C']]
    """

    def __init__(self, n_repeats: int = 10, random_state: int = 0) -> None:
        self.n_repeats, self.random_state = n_repeats, random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Two for each repeat."""
        return 2 * self.n_repeats

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Positions of the people to train on and of those held out."""
        check_consistent_length(X, y, groups)
        for fold in self.folds(X, y, groups):
            yield fold.train, fold.test

    def folds(self, X: Any, y: Any, groups: Any) -> Iterator[Fold]:
        """The folds by name."""
        site, codes = _group_names(groups, "site"), _group_codes(X)
        names = np.unique(site)
        label = np.asarray(y)
        one_class = np.array([y is not None and len(np.unique(label[site == name])) < 2 for name in names])
        which = "" if y is None else " with both classes"
        if (~one_class).sum() < 4:
            raise DataError(
                f"halves of the sites need at least four sites{which}, and there are {(~one_class).sum()}; "
                "leave one site out at a time instead (loso)"
            )
        for repeat in range(self.n_repeats):
            shuffle = np.random.default_rng([self.random_state, repeat]).random(len(names))
            order = names[np.lexsort((shuffle, one_class))]
            for letter, half in (("A", order[::2]), ("B", order[1::2])):
                yield _with_training(hold_out(site, half, codes, f"halves-{repeat + 1:02d}-{letter}"))


def folds(
    table: pd.DataFrame, protocol: str, n_splits: int = 5, n_repeats: int = 1, random_state: int = 0
) -> Iterator[Fold]:
    """Yield the named folds of a protocol: ``loso``, ``loio``, ``halves`` or ``cv``.

    A held-out site where everybody has the same label keeps its fold: it has no AUC (see `metrics.auc`), but it has an
    accuracy, and leaving it out in silence would flatter the mean. People of one ``group`` (a family, or a person with
    several scans) are never on both sides: who is related to somebody held out is left out of training.

    Parameters
    ----------
    table : DataFrame
        The metadata with ``site``, ``label`` and, for ``loio``, ``institution``; ``group`` where some belong together.
    protocol : str
        Which people are held out, see the table above.
    n_splits : int
        Of ``cv`` only, see `SiteStratifiedKFold`.
    n_repeats, random_state : int
        Of ``cv`` and ``halves``: how often people or sites are split at random, and the seed of it.

    Examples
    --------
    >>> table = pd.DataFrame({"site": ["NYU1", "NYU2", "UM"], "institution": ["NYU", "NYU", "UM"], "label": [0, 1, 1]})
    >>> [(fold.name, fold.test.tolist()) for fold in folds(table, "loso")]
    [('NYU1', [0]), ('NYU2', [1]), ('UM', [2])]
    >>> [(fold.name, fold.test.tolist()) for fold in folds(table, "loio")]
    [('NYU', [0, 1]), ('UM', [2])]
    """
    if protocol not in UNITS:
        raise unknown("protocol", protocol, UNITS)
    if protocol == "cv":
        deck = SiteStratifiedKFold(n_splits, n_repeats, random_state)
        split = deck.split(table, _complete_column(table, "label"), _complete_column(table, "site"))
        for i, (train, test) in enumerate(split):
            yield Fold(train, test, f"repeat{i // n_splits + 1}-fold{i % n_splits + 1}")
        return
    if protocol == "halves":
        halves = SiteHalves(n_repeats, random_state)
        yield from halves.folds(table, _complete_column(table, "label"), _complete_column(table, "site"))
    elif protocol == "loso":
        yield from LeaveOneSiteOut().folds(table, _complete_column(table, "site"))
    elif "institution" in table:
        yield from LeaveOneInstitutionOut().folds(table, _complete_column(table, "institution"))
    else:
        _warn_of_shared_institutions(table)
        yield from LeaveOneInstitutionOut(by_name=True).folds(table, _complete_column(table, "site"))


def _warn_of_shared_institutions(table: pd.DataFrame) -> None:
    """Warn of institutions that the names of sites suggest; an error where they suggest none."""
    shared = shared_institutions(np.unique(_complete_column(table, "site").astype(str)))
    if not shared:
        raise DataError(
            "the table has no column 'institution', and no two sites are named like one; add it, or choose another "
            f"protocol ({', '.join(UNITS)})"
        )
    each = listed(f"{name} ({', '.join(group)})" for name, group in shared.items())
    warnings.warn(f"no column 'institution': by the names of sites, {each} are one each", stacklevel=4)


def _group_names(groups: Any, unit: str) -> np.ndarray:
    """The site or institution of everybody as text."""
    if groups is None:
        raise UsageError(
            f"give the {unit} of everybody: split(X, y, groups={unit}), or groups={unit} where scikit-learn splits"
        )
    values = np.asarray(groups, dtype=object)
    if pd.isna(values).any():
        raise DataError(f"the {unit} is missing for person {listed(np.flatnonzero(pd.isna(values)))}; give a name")
    refuse_aliases(values, unit)
    return values.astype(str)


def _group_codes(X: Any) -> np.ndarray | None:
    """Codes of groups (families), where X is a table that has them."""
    return group_codes(X) if isinstance(X, pd.DataFrame) else None


def _with_training(fold: Fold) -> Fold:
    """The fold; an error if nobody is left to train on."""
    if not len(fold.train):
        raise DataError(
            f"everybody else is of a group that is also at {fold.name}: no participants remain to train on; "
            "mend 'group'"
        )
    return fold


def _deal_groups(order: np.ndarray, stratum: np.ndarray, codes: np.ndarray, n_splits: int) -> Iterator[np.ndarray]:
    """Whole groups dealt to folds: the largest first, each to the fold with fewest of its strata, then of people."""
    members: dict[int, list[int]] = {}
    for person in order.tolist():
        members.setdefault(int(codes[person]), []).append(person)
    if len(members) < n_splits:
        raise DataError(f"{len(members)} groups of people cannot be split into {n_splits} folds; choose fewer folds")
    count, where = np.zeros((n_splits, int(stratum.max()) + 1)), np.empty(len(order), dtype=int)
    for people in sorted(members.values(), key=len, reverse=True):
        alike, everybody = count[:, stratum[people]].sum(axis=1), count.sum(axis=1)
        fold = int(np.lexsort((everybody, alike))[0])
        where[people] = fold
        np.add.at(count[fold], stratum[people], 1)
    for k in range(n_splits):
        yield np.flatnonzero(where == k)


def _complete_column(table: pd.DataFrame, name: str) -> np.ndarray:
    """The values of a column; an error if any is missing."""
    if name not in table:
        raise DataError(f"the table has no column {name!r}; add it, or choose another protocol ({', '.join(UNITS)})")
    missing = table[name].isna().to_numpy()
    if missing.any():
        people = table["subject"] if "subject" in table else pd.Series(table.index)
        raise DataError(f"the column {name!r} is empty for {listed(people.to_numpy()[missing])}; fill it in first")
    return table[name].to_numpy()
