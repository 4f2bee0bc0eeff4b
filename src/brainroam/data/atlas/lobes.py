"""The lobe of each region, for summaries coarser than regions.

AAL numbers its regions by lobe: the first digit of the code in ``aal.csv`` tells (2 frontal, 3 insula, 4 cingulate and
medial temporal, 5 occipital, 6 parietal, 7 deep grey matter, 8 temporal, 9 cerebellum). The insula is counted with the
limbic regions. Regions of another atlas take the lobe of the nearest AAL centroid, which is coarse at the borders.
"""

from functools import cache
from importlib import resources

import pandas as pd

from brainroam.data.atlas import Atlas

LOBES = ("frontal", "parietal", "temporal", "occipital", "limbic", "subcortical", "cerebellum")
_BY_DIGIT = dict(zip("23456789", (0, 4, 4, 3, 1, 5, 2, 6), strict=True))


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
