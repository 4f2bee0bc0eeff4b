"""The same region of the other hemisphere, and what an exchange of the hemispheres does to edges.

Regions are paired by their names where these tell the side (``Precentral_L``, ``Left-Amygdala``, ``lh.cuneus``,
``LH_Vis_1``), else by their centres: each other's nearest after x -> -x, at most `FARTHEST` mm apart.

Let m(e) be the edge between the homologues of the regions of edge e. What differs between the sides is

    a_e = x_e - x_m(e),   one of each pair e < m(e),

and an exchange of left and right turns its sign. Mean connectivity is nearly symmetric, so a correlation of whole
patterns hardly sees an exchange; that of a sees nothing else.
"""

import re

import numpy as np

from brainroam.data.atlas import Atlas

FARTHEST = 12.0  # mm; the 79 pairs of CC200 are 5 mm apart in the median and 11 at most
MIN_SHARE = 0.5  # of regions that have to have a homologue
SIDE = re.compile(r"(?<![a-z])(left|right|lh|rh|l|r)(?![a-z])", re.IGNORECASE)
OTHER = {"left": "right", "right": "left", "lh": "rh", "rh": "lh", "l": "r", "r": "l"}


def homologues(atlas: Atlas) -> np.ndarray | None:
    """For each region the position of its homologue, or its own; None where most regions have none.

    >>> homologues(Atlas("mine", ("Cuneus_L", "Cuneus_R", "lh.insula", "rh.insula", "Vermis"))).tolist()
    [1, 0, 3, 2, 4]
    >>> homologues(Atlas("mine", ("a", "b", "c"))) is None
    True
    """
    for pairs in (_by_name(atlas), _by_place(atlas)):
        if pairs is not None and (pairs != np.arange(len(pairs))).mean() >= MIN_SHARE:
            return pairs
    return None


def mirrored_edges(pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions e and m(e) among the edges u < v, one of each pair.

    >>> e, m = mirrored_edges(np.array([1, 0, 3, 2]))
    >>> e.tolist(), m.tolist()  # edges 01, 02, 03, 12, 13, 23
    ([1, 2], [4, 3])
    """
    n = len(pairs)
    u, v = np.triu_indices(n, 1)
    position = np.zeros((n, n), dtype=int)
    position[u, v] = position[v, u] = np.arange(len(u))
    mirror = position[pairs[u], pairs[v]]
    first = np.flatnonzero(mirror > np.arange(len(u)))
    return first, mirror[first]


def sidedness(edges: np.ndarray, centre: np.ndarray, mirrored: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Cosine of each person's a with that of a centre, over what both have: below 0 when the sides are exchanged.

    >>> e = np.array([[3.0, 1.0], [1.0, 3.0]])
    >>> sidedness(e, np.array([0.5, 0.1]), (np.array([0]), np.array([1]))).tolist()
    [1.0, -1.0]
    """
    one, other = mirrored
    a, b = edges[:, one] - edges[:, other], centre[one] - centre[other]
    known = np.isfinite(a) & np.isfinite(b)
    a, b = np.where(known, a, 0), np.where(known, b, 0)
    with np.errstate(invalid="ignore"):
        return (a * b).sum(axis=1) / np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))


def _by_name(atlas: Atlas) -> np.ndarray:
    place = {label.lower(): k for k, label in enumerate(atlas.labels)}
    return np.array([place.get(_exchanged(label), k) for k, label in enumerate(atlas.labels)])


def _exchanged(label: str) -> str:
    """The name with the other side, in small letters.

    >>> _exchanged("7Networks_LH_Vis_1"), _exchanged("ctx-rh-insula"), _exchanged("Vermis_8")
    ('7networks_rh_vis_1', 'ctx-lh-insula', 'vermis_8')
    """
    return SIDE.sub(lambda side: OTHER[side[0]], label.lower())


def _by_place(atlas: Atlas) -> np.ndarray | None:
    if atlas.coords is None:
        return None
    coords = np.asarray(atlas.coords, dtype=float)
    gap = np.linalg.norm(coords[:, None] - coords * [-1, 1, 1], axis=2)
    gap = np.where(np.isfinite(gap), gap, np.inf)
    nearest, own = gap.argmin(axis=1), np.arange(len(coords))
    return np.where((nearest[nearest] == own) & (gap[own, nearest] <= FARTHEST), nearest, own)
