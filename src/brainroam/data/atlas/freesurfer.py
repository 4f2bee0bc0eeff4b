"""Regions of FreeSurfer columns: region, side and centre, from the name of a column.

Centres of the 68 regions of Desikan et al. (2006) and of 15 deep structures of aseg are in ``desikan.csv``: means over
the voxels of a label image in MNI space, rounded to millimetres (`scripts/desikan_centres.py` names source and
licence). Regions of Destrieux, ventricles and the cerebellum have none here.
"""

import re
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import NamedTuple

import numpy as np
import pandas as pd

SIDES = {"lh": "left", "rh": "right", "l": "left", "r": "right", "left": "left", "right": "right"}
#: How ENIGMA's tables call deep structures, after L or R.
SHORT = {
    **{"thal": "thalamus", "caud": "caudate", "put": "putamen", "pal": "pallidum"},
    **{"hippo": "hippocampus", "amyg": "amygdala", "accumb": "accumbens"},
}
DEEP = {*SHORT.values(), "ventraldc", "brainstem"}
NO_MEASURE = {"ctx", "aparc", "aseg", "proper", "area", ""}  # words of names that measure nothing: Accumbens-area


class Place(NamedTuple):
    """A region on one side of the brain, and what a column measures of it.

    Where no word tells, that is the volume of a deep structure, as in aseg, and just a "measure" of the cortex.
    """

    side: str
    region: str
    measure: str


def place_of(column: str) -> Place | None:
    """The region that a column of a table is about; None where its name tells none that has a centre.

    >>> place_of("lh_bankssts_thickness"), place_of("Right-Thalamus-Proper").region, place_of("L_cuneus_surfavg").side
    (Place(side='left', region='bankssts', measure='thickness'), 'thalamus', 'left')
    >>> place_of("lh_MeanThickness_thickness"), place_of("lh_G_precuneus_thickness"), place_of("Lhippo").region
    (None, None, 'hippocampus')
    >>> place_of("ctx_lh_cuneus").measure, place_of("thickness.left.cuneus").measure, place_of("Lhippo").measure
    ('measure', 'thickness', 'volume')
    """
    words = [word for word in re.split(r"[^A-Za-z0-9]+", column) if word]
    if len(words) == 1 and (found := re.fullmatch(r"([LR])([a-z]+)", words[0])) and found[2] in SHORT:
        words = [found[1], SHORT[found[2]]]
    lower = [word.lower() for word in words]
    if {"g", "s"} & set(lower):  # gyri and sulci of Destrieux: other borders under some of the same names
        return None
    side = next((SIDES[word] for word in lower if word in SIDES), "")
    others = [word for word in lower if word not in SIDES]
    if others[:2] == ["brain", "stem"]:
        others = ["brainstem", *others[2:]]
    at = next((k for k, word in enumerate(others) if (side, word) in _centres()), None)
    if at is None:
        return None
    rest = [word for k, word in enumerate(others) if k != at and word not in NO_MEASURE]
    if "area" in others and others[at] != "accumbens":
        rest.append("area")
    return Place(side, others[at], " ".join(rest) or ("volume" if others[at] in DEEP else "measure"))


def centres_of(columns: Sequence[str]) -> np.ndarray:
    """Centres (n, 3) in MNI millimetres of the regions that columns are about; NaN where none is known.

    >>> centres_of(["rh_insula_area", "eTIV"]).tolist()
    [[36.0, 1.0, -1.0], [nan, nan, nan]]
    """
    places = [place_of(column) for column in columns]
    unknown = np.full(3, np.nan)
    return np.array([unknown if place is None else _centres()[place.side, place.region] for place in places])


@cache
def _centres() -> dict[tuple[str, str], np.ndarray]:
    with resources.as_file(resources.files("brainroam.data.atlas") / "desikan.csv") as path:
        table = pd.read_csv(path, keep_default_na=False)
    points = table[["x", "y", "z"]].to_numpy(dtype=float)
    return dict(zip(zip(table["side"], table["name"], strict=True), points, strict=True))
