"""Do sites agree more than chance? `flipped_strengths` has the scaffold when the signs of whole sites are flipped:

    d'_e = s_e d_e,        s_e = +1 or -1 for each site e
    strength = mean of |d_com| over the selected edges, 0 where none is selected
    p = share of flips, the data's own signs among them, whose strength is at least that of the data

A flip keeps the size of every contrast and how the edges of a site go together; only what sites have in common is lost.
E sites have 2^(E-1) flips that differ, so p cannot be smaller than 1 / 2^(E-1). (Of a scaffold of one sign the flip of
all sites differs too; the first site keeps its sign all the same, and the flips of the others are still a group.)
"""

from collections.abc import Sequence
from itertools import product

import numpy as np

from brainroam.core.recipe import ETA, TAU_PERCENTILE, ZETA
from brainroam.core.scaffold import select_scaffold
from brainroam.errors import EmptyScaffoldError


def flipped_strengths(
    contrast: np.ndarray,
    sites: Sequence[str],
    tau_percentile: float = TAU_PERCENTILE,
    eta: float = ETA,
    zeta: float = ZETA,
    n_flips: int = 128,
    seed: int = 0,
    sign: str = "both",
) -> np.ndarray:
    """Strength of the scaffold of the contrasts (E, M), first as they are, then flipped: all flips, or ``n_flips``.

    Examples
    --------
    >>> contrast = np.random.default_rng(0).normal(size=(9, 400))
    >>> contrast[:, :40] += 2  # edges on which all sites agree
    >>> strengths = flipped_strengths(contrast, list("abcdefghi"))
    >>> float((strengths >= strengths[0]).mean())
    0.0078125
    """
    others = len(contrast) - 1
    if 2**others <= n_flips:
        signs = np.array(list(product([1.0, -1.0], repeat=others)))
    else:
        signs = np.random.default_rng(seed).choice([1.0, -1.0], (n_flips, others))
        signs[0] = 1
    whole = np.column_stack([np.ones(len(signs)), signs])[:, :, None]  # to flip all sites changes nothing
    return np.array([_strength(contrast * flip, sites, tau_percentile, eta, zeta, sign) for flip in whole])


def _strength(contrast: np.ndarray, sites: Sequence[str], tau: float, eta: float, zeta: float, sign: str) -> float:
    try:
        scaffold = select_scaffold(contrast, sites, tau, eta, zeta, every_edge=False, sign=sign)
    except EmptyScaffoldError:
        return 0.0
    return float(np.abs(scaffold.consensus[scaffold.edges]).mean())
