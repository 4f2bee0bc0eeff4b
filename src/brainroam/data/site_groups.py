"""A few sites together in the place of one, where holding out every site alone would cost too much."""

from collections.abc import Sequence

import numpy as np


def grouped(sites: Sequence[str], site: np.ndarray, most: int) -> list[list[str]]:
    """Each site alone; of more than ``most``, so many groups with about the same number of people.

    The largest site first, each into the group with the fewest people so far.

    >>> grouped(["A", "B", "C"], np.array(["A", "A", "A", "B", "C"]), most=2)
    [['A'], ['B', 'C']]
    """
    if len(sites) <= most:
        return [[name] for name in sites]
    groups: list[list[str]] = [[] for _ in range(most)]
    for name in sorted(sites, key=lambda name: (-int((site == name).sum()), name)):
        min(groups, key=lambda group: int(np.isin(site, group).sum())).append(name)
    return groups
