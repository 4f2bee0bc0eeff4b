"""Regions of FreeSurfer columns: region, side and centre, from the name of a column.

Centres of the 68 regions of Desikan et al. (2006) and of 15 deep structures of aseg are in ``desikan.csv``, those of
the 148 of Destrieux et al. (2010) in ``destrieux.csv``: means over the voxels of label images in MNI space, rounded to
millimetres (`scripts/freesurfer_centres.py` names the sources). Ventricles and the cerebellum have none here.
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
#: How ABCD's tables shorten regions of Desikan (cdk) and deep structures (scs), before lh or rh.
ABCD = {
    **{"cdacate": "caudalanteriorcingulate", "rracate": "rostralanteriorcingulate", "ptcate": "posteriorcingulate"},
    **{"ihcate": "isthmuscingulate", "cdmdfr": "caudalmiddlefrontal", "rrmdfr": "rostralmiddlefrontal"},
    **{"sufr": "superiorfrontal", "lobfr": "lateralorbitofrontal", "mobfr": "medialorbitofrontal"},
    **{"parsopc": "parsopercularis", "parsobis": "parsorbitalis", "parstgris": "parstriangularis"},
    **{"frpole": "frontalpole", "precn": "precentral", "postcn": "postcentral", "paracn": "paracentral"},
    **{"supl": "superiorparietal", "ifpl": "inferiorparietal", "sm": "supramarginal", "pc": "precuneus"},
    **{"sutm": "superiortemporal", "mdtm": "middletemporal", "iftm": "inferiortemporal"},
    **{"tmpole": "temporalpole", "trvtm": "transversetemporal", "ehinal": "entorhinal", "parahpal": "parahippocampal"},
    **{"locc": "lateraloccipital", "pericc": "pericalcarine"},
    **{"tp": "thalamus", "hpus": "hippocampus", "aa": "accumbens"},
}
GYRI_AND_SULCI = {"g", "s", "fis", "pole"}  # words of Destrieux's names
DEEP = {*SHORT.values(), "ventraldc", "brainstem"}
NO_MEASURE = {
    "ctx",
    "aparc",
    "aseg",
    "proper",
    "area",
    "smri",
    "cdk",
    "scs",
    "",
}  # words of names that measure nothing: Accumbens-area


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
    >>> place_of("lh_MeanThickness_thickness"), place_of("lh_G&S_paracentral_area").region, place_of("Lhippo").region
    (None, 'g and s paracentral', 'hippocampus')
    >>> place_of("smri_thick_cdk_cdacaterh"), place_of("smri_vol_scs_aal").region
    (Place(side='right', region='caudalanteriorcingulate', measure='thick'), 'accumbens')
    >>> place_of("ctx_lh_cuneus").measure, place_of("thickness.left.cuneus").measure, place_of("Lhippo").measure
    ('measure', 'thickness', 'volume')
    """
    words = [word for word in re.split(r"[^A-Za-z0-9]+", column.replace("&", "_and_")) if word]
    if len(words) == 1 and (found := re.fullmatch(r"([LR])([a-z]+)", words[0])) and found[2] in SHORT:
        words = [found[1], SHORT[found[2]]]
    elif {"cdk", "scs"} & set(words) and (found := re.fullmatch(r"(.+?)([lr])h?", words[-1])):
        words = [*words[:-1], found[2], ABCD.get(found[1], found[1])]
    lower = [word.lower() for word in words]
    side = next((SIDES[word] for word in lower if word in SIDES), "")
    others = [word for word in lower if word not in SIDES]
    if GYRI_AND_SULCI & set(lower):  # other borders than Desikan's, under some of the same names
        return _place_of_destrieux(side, [word for word in others if word not in NO_MEASURE - {"area"}])
    if others[:2] == ["brain", "stem"]:
        others = ["brainstem", *others[2:]]
    at = next((k for k, word in enumerate(others) if (side, word) in _centres()), None)
    if at is None:
        return None
    rest = [word for k, word in enumerate(others) if k != at and word not in NO_MEASURE]
    if "area" in others and others[at] != "accumbens":
        rest.append("area")
    return Place(side, others[at], " ".join(rest) or ("volume" if others[at] in DEEP else "measure"))


def _place_of_destrieux(side: str, words: list[str]) -> Place | None:
    """The region whose name the words begin with, the longest one; what follows is the measure."""
    for n_words in range(len(words), 0, -1):
        region = " ".join(words[:n_words])
        if (side, region) in _centres():
            return Place(side, region, " ".join(words[n_words:]) or "measure")
    return None


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
    """Centre of each region, by side and name; names of several words in lower case, with spaces."""
    folder = resources.files("brainroam.data.atlas")
    tables = []
    for name in ("desikan.csv", "destrieux.csv"):
        with resources.as_file(folder / name) as path:
            tables.append(pd.read_csv(path, keep_default_na=False))
    table = pd.concat(tables)
    names = table["name"].str.lower().str.replace(r"[^a-z0-9]+", " ", regex=True)
    return dict(zip(zip(table["side"], names, strict=True), table[["x", "y", "z"]].to_numpy(dtype=float), strict=True))
