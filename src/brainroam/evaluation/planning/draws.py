"""Smaller studies drawn from a study: fewer sites, or fewer people at each site.

A draw trains on n of the E sites and scores everybody at the E - n others. The sites are shuffled and left out in
consecutive blocks, so that a round of draws tests every site at least once; n = E - 1 is leave-one-site-out. A share
below 1 keeps that share of each training site's people of each class; of a number, of its people. The held-out people
are always complete, so that a site is measured on the same people by every draw.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from brainroam.data.folds import hold_out
from brainroam.data.people import group_codes, people_of, persons
from brainroam.data.target import TWO_CLASSES, Target
from brainroam.errors import DataError

MIN_SITES = 6
FEWEST_TRAINING_SITES = 2
N_SIZES = 6
SHARES = (0.5, 0.25)


class Draw(NamedTuple):
    """Positions of the people to train on and of those to score, for ``n_sites`` sites and a share of their people."""

    n_sites: int
    share: float
    number: int
    train: np.ndarray
    test: np.ndarray


def usable_sites(table: pd.DataFrame, target: Target = TWO_CLASSES) -> list[str]:
    """Sites that can be measured, of two classes those with two people of each; too few of them are refused."""
    order = target.order
    label = people_of(table).groupby("site")["label"]
    sites = [str(name) for name, here in label if order.usable(here.to_numpy())]
    if len(sites) < MIN_SITES:
        raise DataError(
            f"a learning curve over sites needs at least {MIN_SITES} sites with {order.needs} each, and "
            f"there are {len(sites)}; with fewer, every curve through the points would do"
        )
    return sites


def sizes(n_sites: int) -> list[int]:
    """Numbers of training sites, evenly spaced on a logarithmic scale.

    >>> sizes(20), sizes(6)
    ([2, 3, 5, 8, 12, 19], [2, 3, 4, 5])
    """
    spaced = np.geomspace(FEWEST_TRAINING_SITES, n_sites - 1, N_SIZES)
    return sorted({int(n) for n in np.round(spaced)})


def draws(table: pd.DataFrame, n_draws: int, seed: int, target: Target = TWO_CLASSES) -> Iterator[Draw]:
    """All draws of a plan: every number of sites, and at the middle and largest number every share of people.

    Parameters
    ----------
    table : DataFrame
        ``site``, ``label`` and, where people belong together, ``group``.
    n_draws : int
        Draws for each number of sites and share, rounded up to whole rounds.
    seed : int
    target : Target
    """
    order, sites = target.order, usable_sites(table, target)
    numbers = sizes(len(sites))
    cells = [(n, 1.0) for n in numbers]
    cells += [(n, share) for n in (numbers[-2], numbers[-1]) for share in SHARES]
    place, stratum = table["site"].to_numpy().astype(str), order.strata(table["label"].to_numpy())
    person = persons(table).to_numpy()
    codes = group_codes(table)
    for cell, (n, share) in enumerate(cells):
        rng = np.random.default_rng([seed, cell])
        wanted = 1 if (n, share) == (numbers[-1], 1.0) else n_draws  # leave-one-site-out has one round only
        for number, left_out in enumerate(_left_out(sites, n, wanted, rng)):
            fold = hold_out(place, left_out, codes, among=sites)
            train = _share_of(fold.train, place, stratum, person, share, order.least, rng)
            yield Draw(n, share, number, train, fold.test)


def _left_out(sites: Sequence[str], n: int, wanted: int, rng: np.random.Generator) -> Iterator[list[str]]:
    """Blocks of E - n sites to leave out, in whole rounds; the last block of a round is filled from its start."""
    size, done = len(sites) - n, 0
    while done < wanted:
        order = [str(name) for name in rng.permutation(sites)]
        for start in range(0, len(sites), size):
            yield (order + order)[start : start + size]
            done += 1


def _share_of(
    train: np.ndarray,
    place: np.ndarray,
    stratum: np.ndarray,
    person: np.ndarray,
    share: float,
    least: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """A share of each class of each site, at least so many people of each, with all their scans."""
    if share == 1:
        return train
    parts = []
    for name in np.unique(place[train]):
        for code in np.unique(stratum):
            scans = train[(place[train] == name) & (stratum[train] == code)]
            people = pd.unique(person[scans])
            count = min(max(round(share * len(people)), least), len(people))
            parts.append(scans[np.isin(person[scans], rng.choice(people, count, replace=False))])
    return np.sort(np.concatenate(parts))
