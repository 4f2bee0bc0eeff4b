"""Anatomy of regions: lobes, networks, and differences between the hemispheres.

AAL numbers its regions by lobe: the first digit of the code in ``aal.csv`` tells (2 frontal, 3 insula, 4 cingulate and
medial temporal, 5 occipital, 6 parietal, 7 deep grey matter, 8 temporal, 9 cerebellum). The insula is counted with the
limbic regions. Regions of another atlas take the lobe of the nearest AAL centroid, which is coarse at the borders.
An atlas that comes with networks of its own (Schaefer, Dosenbach, Seitzman) is summarised by those instead.

Let m(e) be the edge between the homologues (`Atlas.homologues`) of the regions of edge e. What differs between the
sides is

    a_e = x_e - x_m(e),   one of each pair e < m(e),

and an exchange of left and right turns its sign. Mean connectivity is nearly symmetric, so a correlation of whole
patterns hardly sees an exchange; that of a sees nothing else.
"""

from functools import cache
from importlib import resources
from typing import NamedTuple

import numpy as np
import pandas as pd

from brainroam.data.atlas import Atlas


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


LOBES = ("frontal", "parietal", "temporal", "occipital", "limbic", "subcortical", "cerebellum")
_BY_DIGIT = dict(zip("23456789", (0, 4, 4, 3, 1, 5, 2, 6), strict=True))


class Parts(NamedTuple):
    """The networks, or lobes, of the regions of an atlas.

    Attributes
    ----------
    kind : {"lobe", "network"}
    names : tuple of str
        All of them, in the order in which they are shown.
    of_region : list of str
        The part of every region.
    """

    kind: str
    names: tuple[str, ...]
    of_region: list[str]


def parts_of(atlas: Atlas) -> Parts | None:
    """The networks of an atlas that has some, else its lobes; None where neither is known.

    >>> from brainroam.data.atlas import load_atlas
    >>> parts_of(load_atlas("schaefer100")).names
    ('Vis', 'SomMot', 'DorsAttn', 'SalVentAttn', 'Limbic', 'Cont', 'Default')
    """
    if atlas.networks is not None:
        names = tuple(dict.fromkeys(atlas.networks))
        return Parts("lobe" if set(names) <= set(LOBES) else "network", names, list(atlas.networks))
    lobes = lobes_of(atlas)
    return None if lobes is None else Parts("lobe", LOBES, lobes)


def lobes_of(atlas: Atlas) -> list[str] | None:
    """The lobe of every region, by AAL name or else by the nearest AAL centroid; None where neither is known.

    >>> from brainroam.data.atlas import load_atlas
    >>> lobes_of(load_atlas("aal"))[0], lobes_of(load_atlas("cc200"))[0]
    ('frontal', 'occipital')
    """
    aal = _aal()
    if set(atlas.labels) <= set(aal["name"]):
        by_name = dict(zip(aal["name"], aal["lobe"], strict=True))
        return [by_name[label] for label in atlas.labels]
    if atlas.coords is None:
        return None
    centres = aal[["x", "y", "z"]].to_numpy()
    nearest = ((atlas.coords[:, None] - centres) ** 2).sum(axis=-1).argmin(axis=1)
    return aal["lobe"].iloc[nearest].tolist()


@cache
def _aal() -> pd.DataFrame:
    with resources.as_file(resources.files("brainroam.data.atlas") / "aal.csv") as path:
        table = pd.read_csv(path, dtype={"code": str})
    return table.assign(lobe=[LOBES[_BY_DIGIT[code[0]]] for code in table["code"]])
