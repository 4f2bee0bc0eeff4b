"""How many edges a scaffold would hold if sites did not agree: the signs of whole sites flipped at random.

    d'_e = s_e d_e,        s_e = +1 or -1 with equal chance for each site e

A flip keeps the size of every contrast and how the edges of a site go together. What sites have in common is lost, so
the edges that are still selected agree by chance.
"""

from collections.abc import Sequence

import numpy as np

from brainroam.core.scaffold import select_scaffold
from brainroam.errors import EmptyScaffoldError


def sign_flip_sizes(
    contrast: np.ndarray,
    sites: Sequence[str],
    tau_percentile: float = 80,
    eta: float = 0.75,
    zeta: float = 0.70,
    n_flips: int = 100,
    seed: int = 0,
) -> np.ndarray:
    """Edges selected under each flip (n_flips,), from the contrasts (E, M) of the sites.

    Examples
    --------
    >>> contrast = np.random.default_rng(0).normal(size=(9, 400))
    >>> contrast[:, :40] += 2  # edges on which all sites agree
    >>> len(select_scaffold(contrast, list("abcdefghi"))), int(sign_flip_sizes(contrast, list("abcdefghi")).mean())
    (55, 28)
    """
    rng, sizes = np.random.default_rng(seed), []
    for signs in rng.choice([-1.0, 1.0], (n_flips, len(contrast), 1)):
        try:
            sizes.append(len(select_scaffold(contrast * signs, sites, tau_percentile, eta, zeta)))
        except EmptyScaffoldError:
            sizes.append(0)
    return np.array(sizes)
