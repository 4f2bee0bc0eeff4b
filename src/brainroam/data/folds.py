"""Who trains and who is held out: the one `Fold` of the package, and the one function that holds out sites.

Evaluation, tuning, audit and planning hold out sites through `hold_out`; what knows sites only by their summaries
(`brainroam.core.site_folds`, federation) through `other_sites`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from brainroam.data.people import left_out_note, without_relatives


@dataclass(frozen=True, eq=False)
class Fold:
    """People to train on and people held out, by position; it unpacks into these two.

    Attributes
    ----------
    train, test : ndarray of int
    name : str
        Of what is held out: a site, an institution, a part.
    note : str
        Who was left out of training, and why.
    """

    train: np.ndarray
    test: np.ndarray
    name: str = ""
    note: str = ""

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter((self.train, self.test))


Folds: TypeAlias = Sequence[Fold | tuple[np.ndarray, np.ndarray]]


def hold_out(
    site: np.ndarray,
    left_out: Sequence[str] | np.ndarray,
    codes: np.ndarray | None = None,
    name: str | None = None,
    among: Sequence[str] | None = None,
) -> Fold:
    """The fold that holds out everybody of some sites and trains on everybody else.

    Parameters
    ----------
    site : ndarray of str
        The site (or institution) of everybody.
    left_out : sequence of str
        Sites to hold out.
    codes : ndarray of int, optional
        Who belongs together (`brainroam.data.people.group_codes`): whoever is related to somebody held out does not
        train, and a note says how many these are.
    name : str, optional
        Of the fold; by default that of the sites.
    among : sequence of str, optional
        Sites whose people may train; by default all.

    Examples
    --------
    >>> fold = hold_out(np.array(["A", "B", "B", "C"]), ["B"], codes=np.array([0, 1, 0, 2]))
    >>> fold.train.tolist(), fold.test.tolist(), fold.note
    ([3], [1, 2], '1 person left out of training: their group (family or person) is also at B, which is held out')
    """
    name = ", ".join(left_out) if name is None else name
    inside = np.isin(site, left_out)
    test, others = np.flatnonzero(inside), ~inside
    everybody = np.flatnonzero(others if among is None else others & np.isin(site, among))
    train = without_relatives(everybody, test, codes)
    lost = len(everybody) - len(train)
    note = left_out_note(lost, f"their group (family or person) is also at {name}, which is held out") if lost else ""
    return Fold(train, test, name, note)


def other_sites(sites: Iterable[str], left_out: Iterable[str]) -> list[str]:
    """The sites that train where some are left out, in their order.

    >>> other_sites(["A", "B", "C"], {"B"})
    ['A', 'C']
    """
    gone = set(left_out)
    return [name for name in sites if name not in gone]


def training_sites(site: np.ndarray, folds: Folds) -> list[list[str]] | None:
    """The training sites of each fold, where every fold leaves whole sites out and trains on everybody else; else None.

    >>> training_sites(np.array(["A", "A", "B"]), [(np.array([2]), np.array([0, 1]))])
    [['B']]
    >>> training_sites(np.array(["A", "A", "B"]), [(np.array([1, 2]), np.array([0]))]) is None
    True
    """
    by_fold = [sorted(set(site.tolist()) - set(site[held_out].tolist())) for _, held_out in folds]
    whole = all(np.isin(site, sites).sum() == len(train) for sites, (train, _) in zip(by_fold, folds, strict=True))
    return by_fold if whole else None


def group_sites(sites: Sequence[str], site: np.ndarray, most: int) -> list[list[str]]:
    """Each site alone; of more than ``most``, so many groups with about the same number of people.

    The largest site first, of equal ones that which is named first, each into the group with the fewest people so far:
    a few sites together stand for one where holding out every site alone would cost too much.

    >>> group_sites(["A", "B", "C"], np.array(["A", "A", "A", "B", "C"]), most=2)
    [['A'], ['B', 'C']]
    """
    if len(sites) <= most:
        return [[name] for name in sites]
    groups: list[list[str]] = [[] for _ in range(most)]
    for name in sorted(sites, key=lambda name: -int((site == name).sum())):
        min(groups, key=lambda group: int(np.isin(site, group).sum())).append(name)
    return groups
