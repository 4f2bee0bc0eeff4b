"""The lobe or the network of each region, for summaries coarser than regions.

AAL numbers its regions by lobe: the first digit of the code in ``aal.csv`` tells (2 frontal, 3 insula, 4 cingulate and
medial temporal, 5 occipital, 6 parietal, 7 deep grey matter, 8 temporal, 9 cerebellum). The insula is counted with the
limbic regions. Regions of another atlas take the lobe of the nearest AAL centroid, which is coarse at the borders.
An atlas that comes with networks of its own (Schaefer, Dosenbach, Seitzman) is summarised by those instead.
"""

from functools import cache
from importlib import resources
from typing import NamedTuple

import pandas as pd

from brainroam.data.atlas import Atlas

LOBES = ("frontal", "parietal", "temporal", "occipital", "limbic", "subcortical", "cerebellum")
_BY_DIGIT = dict(zip("23456789", (0, 4, 4, 3, 1, 5, 2, 6), strict=True))


class Parts(NamedTuple):
    """What the regions of an atlas are counted by.

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
