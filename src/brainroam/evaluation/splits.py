"""Who is trained on and who is held out: named folds over the metadata table.

======  ==========================================================  ================================================
name    what is held out                                            what it says
======  ==========================================================  ================================================
loso    every site once                                             the next site
loio    every institution once, with all its sites                  the next institution
halves  a random half of the sites, then the other; repeatedly      the next site, for a model of half as many sites
cv      a random part of every site, stratified by site and label   new people at known sites
======  ==========================================================  ================================================
"""

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.model_selection import BaseCrossValidator, LeaveOneGroupOut

from brainroam.data.groups import group_codes, left_out_note, without_relatives
from brainroam.data.names import institutions_by_name, refuse_aliases, shared_institutions
from brainroam.errors import DataError, listed, unknown

UNITS = {"loso": "site", "loio": "institution", "halves": "site", "cv": "in-distribution fold"}
TITLES = {
    "loso": "leave-one-site-out",
    "loio": "leave-one-institution-out",
    "halves": "halves of the sites",
    "cv": "in-distribution folds",
}


class Fold(NamedTuple):
    """Positions of the people to train on and of the people held out, the name of what is held out, and a note."""

    name: str
    train: np.ndarray
    test: np.ndarray
    note: str = ""


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
        label, site = np.asarray(y), np.asarray(groups, dtype=str)
        if not 2 <= self.n_splits <= len(label):
            raise DataError(f"{len(label)} people cannot be split into {self.n_splits} folds; choose 2 or more, fewer")
        codes = group_codes(X) if isinstance(X, pd.DataFrame) else None
        for repeat in range(self.n_repeats):
            shuffle = np.random.default_rng([self.random_state, repeat]).random(len(label))
            order = np.lexsort((shuffle, site, label))
            if codes is not None:
                stratum = np.unique(np.stack([label.astype(str), site]), axis=1, return_inverse=True)[1]
                yield from _dealt(order, stratum.ravel(), codes, self.n_splits)
                continue
            for k in range(self.n_splits):
                yield np.sort(order[k :: self.n_splits])


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
        split = deck.split(table, _known(table, "label"), _known(table, "site"))
        for i, (train, test) in enumerate(split):
            yield Fold(f"repeat{i // n_splits + 1}-fold{i % n_splits + 1}", train, test)
        return
    if protocol == "halves":
        yield from _halves(table, n_repeats, random_state)
        return
    if protocol == "loio" and "institution" not in table:
        table = table.assign(institution=_by_name(table))
    groups = _known(table, UNITS[protocol]).astype(str)
    refuse_aliases(groups, UNITS[protocol])
    if len(np.unique(groups)) < 2:
        raise DataError(
            f"leaving one {UNITS[protocol]} out needs at least two, and everybody is at {str(groups[0])!r}; "
            "add people from elsewhere, or use in-distribution folds (cv)"
        )
    codes = group_codes(table)
    for train, test in LeaveOneGroupOut().split(table, groups=groups):
        yield _without_relatives(str(groups[test[0]]), train, test, codes)


def _by_name(table: pd.DataFrame) -> np.ndarray:
    """Institutions as the names of sites suggest, with a warning; an error where they suggest none."""
    site = _known(table, "site").astype(str)
    shared = shared_institutions(np.unique(site))
    if not shared:
        raise DataError(
            "the table has no column 'institution', and no two sites are named like one; add it, or choose another "
            f"protocol ({', '.join(UNITS)})"
        )
    each = listed(f"{name} ({', '.join(group)})" for name, group in shared.items())
    warnings.warn(f"no column 'institution': by the names of sites, {each} are one each", stacklevel=4)
    return pd.Series(site).map(institutions_by_name(np.unique(site))).to_numpy()


def _halves(table: pd.DataFrame, n_repeats: int, random_state: int) -> Iterator[Fold]:
    """Deal the sites into two halves A and B, those with both classes first; test on A what B taught, then the reverse.

    Both halves hold their share of sites with both classes, so that each can be learned from. Repeat r is the same
    whatever ``n_repeats``.
    """
    site, label = _known(table, "site").astype(str), _known(table, "label")
    refuse_aliases(site, "site")
    names, codes = np.unique(site), group_codes(table)
    one_class = np.array([len(np.unique(label[site == name])) < 2 for name in names])
    if (~one_class).sum() < 4:
        raise DataError(
            f"halves of the sites need at least four sites with both classes, and there are {(~one_class).sum()}; "
            "leave one site out at a time instead (loso)"
        )
    for repeat in range(n_repeats):
        shuffle = np.random.default_rng([random_state, repeat]).random(len(names))
        order = names[np.lexsort((shuffle, one_class))]
        for letter, half in (("A", order[::2]), ("B", order[1::2])):
            tested = np.isin(site, half)
            name = f"halves-{repeat + 1:02d}-{letter}"
            yield _without_relatives(name, np.flatnonzero(~tested), np.flatnonzero(tested), codes)


def _without_relatives(name: str, train: np.ndarray, test: np.ndarray, codes: np.ndarray | None) -> Fold:
    """A fold whose training people have no relative among the people held out; a note says how many that cost."""
    kept = without_relatives(train, test, codes)
    if not len(kept):
        raise DataError(
            f"everybody else is of a group that is also at {name}: no participants remain to train on; mend 'group'"
        )
    lost = len(train) - len(kept)
    note = left_out_note(lost, f"their group (family or person) is also at {name}, which is held out")
    return Fold(name, kept, test, note if lost else "")


def _dealt(order: np.ndarray, stratum: np.ndarray, codes: np.ndarray, n_splits: int) -> Iterator[np.ndarray]:
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


def _known(table: pd.DataFrame, name: str) -> np.ndarray:
    """A column that must be complete."""
    if name not in table:
        raise DataError(f"the table has no column {name!r}; add it, or choose another protocol ({', '.join(UNITS)})")
    missing = table[name].isna().to_numpy()
    if missing.any():
        people = table["subject"] if "subject" in table else pd.Series(table.index)
        raise DataError(f"the column {name!r} is empty for {listed(people.to_numpy()[missing])}; fill it in first")
    return table[name].to_numpy()
