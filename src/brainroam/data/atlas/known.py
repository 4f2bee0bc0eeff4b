"""Atlases known by name besides the two tables of `brainroam.data.atlas`, and which of them a header names.

``schaefer100`` ... ``schaefer1000`` (7 networks), ``schaefer100-17`` ... (17 networks)
    Schaefer et al. (Cerebral Cortex 2018), from the parcellation's own repository (MIT licence): names, networks and
    centroids in FSL's MNI152, in its own order. One table, ``schaefer.csv.gz``.
``power264``, ``dosenbach160``, ``seitzman300``
    Centres of spheres as nilearn ships them, in the order in which they were published (nilearn sorts the last two by
    network unless it is told not to).

Families of atlases whose tables are not shipped are told by the names of their regions: in a CIFTI header, a csv, a
label table.
Gordon 333 (alone or with the 19 subcortical structures of FreeSurfer), Glasser 360, Brainnetome 246, Destrieux 148 and
Desikan-Killiany 68. The names tell the networks (Gordon) or the lobes (Brainnetome, Desikan-Killiany). Centres of the
last two are known (`freesurfer`); of others they come from a table with x, y, z, which `brainroam atlas` makes of an
image.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np
import pandas as pd

from brainroam.data.atlas import SHIPPED, Atlas, load_atlas
from brainroam.data.atlas.freesurfer import centres_of

GORDON_NETWORKS = [
    "Default",
    "SMhand",
    "SMmouth",
    "Visual",
    "FrontoParietal",
    "Auditory",
    "None",
    "CinguloParietal",
    "RetrosplenialTemporal",
    "CinguloOperc",
    "VentralAttn",
    "Salience",
    "DorsalAttn",
]
SUBCORTICAL = re.compile(
    r"accumbens|amygdala|brain.?stem|caudate|cerebellum|diencephalon|ventraldc|hippocampus|pallidum|putamen|thalamus"
)
BRAINNETOME_LOBES = {
    **dict.fromkeys(["sfg", "mfg", "ifg", "org", "prg", "pcl"], "frontal"),
    **dict.fromkeys(["stg", "mtg", "itg", "fug", "phg", "psts"], "temporal"),
    **dict.fromkeys(["spl", "ipl", "pcun", "pog"], "parietal"),
    **dict.fromkeys(["ins", "cg"], "limbic"),
    **dict.fromkeys(["mvocc", "locc", "socg"], "occipital"),
    **dict.fromkeys(["amyg", "hipp", "bg", "str", "tha"], "subcortical"),
}
DESIKAN_LOBES = {
    **dict.fromkeys(
        [
            "superiorfrontal",
            "rostralmiddlefrontal",
            "caudalmiddlefrontal",
            "parsopercularis",
            "parstriangularis",
            "parsorbitalis",
            "lateralorbitofrontal",
            "medialorbitofrontal",
            "precentral",
            "paracentral",
            "frontalpole",
        ],
        "frontal",
    ),
    **dict.fromkeys(["superiorparietal", "inferiorparietal", "supramarginal", "postcentral", "precuneus"], "parietal"),
    **dict.fromkeys(
        [
            "superiortemporal",
            "middletemporal",
            "inferiortemporal",
            "bankssts",
            "fusiform",
            "transversetemporal",
            "entorhinal",
            "temporalpole",
            "parahippocampal",
        ],
        "temporal",
    ),
    **dict.fromkeys(["lateraloccipital", "lingual", "cuneus", "pericalcarine"], "occipital"),
    **dict.fromkeys(
        ["rostralanteriorcingulate", "caudalanteriorcingulate", "posteriorcingulate", "isthmuscingulate", "insula"],
        "limbic",
    ),
}
DESTRIEUX = re.compile(r"(g|s|g_and_s|lat_fis|pole)_.+")
SCHAEFER = "Schaefer et al. (2018) Cerebral Cortex 28:3095-3114"
SPHERES = {
    "power264": "Power et al. (2011) Neuron 72:665-678",
    "dosenbach160": "Dosenbach et al. (2010) Science 329:1358-1361",
    "seitzman300": "Seitzman et al. (2020) NeuroImage 206:116290",
}
SIZES = range(100, 1001, 100)
RADIUS = 5.0  # millimetres, as published
_SCHAEFER_NAME = re.compile(
    r"schaefer(?:2018)?[ _-]?(?:(?P<first>7|17)n(?:etworks)?[ _-]?)?(?P<size>\d+)(?:p(?:arcels)?)?"
    r"(?:[ _x-]?(?P<last>7|17)(?:n(?:etworks)?)?)?(?:order)?"
)
_OTHER_NAMES = {
    "aal116": "aal",
    **{alias: name for name in SPHERES for alias in (name, name.rstrip("0123456789"))},
}


@dataclass(frozen=True)
class Family:
    """One atlas: its name, its regions, whom to cite, and the part of the brain that a name tells (None: no member)."""

    name: str
    size: int
    citation: str
    part: Callable[[str], str | None]
    kind: str = ""  # what the parts are; empty where names tell none


def _gordon(label: str) -> str | None:
    match = re.search(r"(?:^|_)[lr]_([a-z]+)(?:_|$)", label)
    return {name.lower(): name for name in GORDON_NETWORKS}.get(match[1]) if match else None


def _glasser(label: str) -> str | None:
    return "cortex" if re.fullmatch(r"(?:[lr]|lh|rh)_.+_roi|(?:left|right)_[a-z0-9].*_roi", label) else None


def _brainnetome(label: str) -> str | None:
    match = re.fullmatch(r"([a-z]+)_[lr]_\d+_\d+", label)
    return BRAINNETOME_LOBES.get(match[1]) if match else None


def _destrieux(label: str) -> str | None:
    return "cortex" if DESTRIEUX.fullmatch(_without_side(label)) else None


def _desikan(label: str) -> str | None:
    return DESIKAN_LOBES.get(_without_side(label))


def _without_side(label: str) -> str:
    """A name of FreeSurfer without its hemisphere: ``ctx_lh_cuneus``, ``l_cuneus`` and ``cuneus_left`` are one."""
    bare = re.sub(r"^(?:ctx_)?(?:lh|rh|l|r|left|right)_|_(?:lh|rh|l|r|left|right)$", "", label)
    return bare.removeprefix("ctx_")


FAMILIES = (
    Family("gordon333", 333, "Gordon et al. (2016) Cerebral Cortex 26:288-303", _gordon, "network"),
    Family("glasser360", 360, "Glasser et al. (2016) Nature 536:171-178", _glasser),
    Family("brainnetome246", 246, "Fan et al. (2016) Cerebral Cortex 26:3508-3526", _brainnetome, "lobe"),
    Family("destrieux148", 148, "Destrieux et al. (2010) NeuroImage 53:1-15", _destrieux),
    Family("desikan68", 68, "Desikan et al. (2006) NeuroImage 31:968-980", _desikan, "lobe"),
)


def family_of(labels: Sequence[str]) -> Atlas | None:
    """The atlas that these names of regions belong to, in their order; None where it is none of these.

    Subcortical structures of FreeSurfer may stand beside the cortex.

    >>> sides = [f"{side}_{name}" for side in ("lh", "rh") for name in DESIKAN_LOBES]
    >>> atlas = family_of([*sides, "Left-Thalamus", "Right-Thalamus"])
    >>> atlas.name, atlas.networks[0], atlas.networks[-1]
    ('desikan68+2', 'frontal', 'subcortical')
    """
    plain = [re.sub(r"[^a-z0-9]+", "_", label.strip().lower()).strip("_") for label in labels]
    for family in FAMILIES:
        parts = [family.part(label) for label in plain]
        beside = [bool(part is None and SUBCORTICAL.search(label)) for part, label in zip(parts, plain, strict=True)]
        n_parts = sum(part is not None for part in parts)
        if n_parts == family.size and n_parts + sum(beside) == len(plain):
            name = family.name + (f"+{sum(beside)}" if any(beside) else "")
            networks = tuple(part or "subcortical" for part in parts) if family.kind else None
            centres = centres_of(labels)
            coords = centres if np.isfinite(centres).all() else None
            return Atlas(name, tuple(labels), coords, family.citation, networks)
    return None


def canonical(name: str) -> str | None:
    """Our name of an atlas, however it is spelled; None for one that is not known.

    >>> canonical("Schaefer2018_200Parcels_17Networks"), canonical("schaefer_100"), canonical("Power"), canonical("ho")
    ('schaefer200-17', 'schaefer100', 'power264', None)
    """
    name = name.lower()
    if name in SHIPPED:
        return name
    match = _SCHAEFER_NAME.fullmatch(name)
    if match and int(match["size"]) in SIZES:
        return f"schaefer{match['size']}" + ("-17" if "17" in (match["first"], match["last"]) else "")
    return _OTHER_NAMES.get(name)


def names() -> list[str]:
    """All names `load_atlas` knows.

    >>> len(names())
    25
    """
    return [*SHIPPED, *(f"schaefer{size}{networks}" for networks in ("", "-17") for size in SIZES), *SPHERES]


@cache
def atlas_by_name(name: str) -> Atlas:
    """The atlas of one of `names`.

    >>> atlas = atlas_by_name("schaefer100")
    >>> len(atlas), atlas.labels[0], atlas.networks[0]
    (100, '7Networks_LH_Vis_1', 'Vis')
    """
    return _spheres(name) if name in SPHERES else _schaefer(name)


def recognise_atlas(labels: Sequence[str]) -> Atlas | None:
    """The known atlas whose regions a header names, all of them in any order; the atlas comes back in that order.

    A part of AAL, such as its 90 regions without the cerebellum, is recognised too, and so are the atlases of
    `families`, without centres.

    >>> recognise_atlas(["LH_Vis_1", "ROI_2"]) is None
    True
    """
    wanted = [_plain(label) for label in labels]
    sizes = [len(wanted)] if len(wanted) in SIZES else []
    candidates = ["aal", *(f"schaefer{size}{networks}" for size in sizes for networks in ("", "-17"))]
    for name in candidates:
        atlas = load_atlas(name)
        place = {_plain(label): k for k, label in enumerate(atlas.labels)}
        if len(set(wanted)) == len(wanted) > 1 and set(wanted) <= set(place):
            return _in_order(atlas, [place[label] for label in wanted])
    return family_of(labels)


def _plain(label: str) -> str:
    """A label without what tools add to it or write otherwise."""
    return re.sub(r"[ .-]", "_", label.strip().lower()).removeprefix("7networks_").removeprefix("17networks_")


def _in_order(atlas: Atlas, order: list[int]) -> Atlas:
    if order == list(range(len(atlas))):
        return atlas
    networks = None if atlas.networks is None else tuple(atlas.networks[k] for k in order)
    coords = None if atlas.coords is None else atlas.coords[order]
    return Atlas(atlas.name, tuple(atlas.labels[k] for k in order), coords, atlas.citation, networks)


@cache
def _schaefer_table() -> pd.DataFrame:
    with resources.as_file(resources.files("brainroam.data.atlas") / "schaefer.csv.gz") as path:
        return pd.read_csv(path)


def _schaefer(name: str) -> Atlas:
    size, networks = int(name.removeprefix("schaefer").removesuffix("-17")), 17 if name.endswith("-17") else 7
    table = _schaefer_table()
    table = table[(table["regions"] == size) & (table["networks"] == networks)]
    labels = tuple(f"{networks}Networks_{label}" for label in table["name"])
    coords = _freeze(table[["x", "y", "z"]])
    return Atlas(name, labels, coords, SCHAEFER, tuple(label.split("_")[2] for label in labels))


def _spheres(name: str) -> Atlas:
    from nilearn import datasets

    if name == "power264":
        rois = datasets.fetch_coords_power_2011().rois
        return Atlas(name, tuple(f"Power_{k:03d}" for k in rois["roi"]), _freeze(rois[["x", "y", "z"]]), SPHERES[name])
    if name == "dosenbach160":
        fetched = datasets.fetch_coords_dosenbach_2010(ordered_regions=False)
        labels = tuple(map(str, fetched.labels))
    else:
        fetched = datasets.fetch_coords_seitzman_2018(ordered_regions=False)
        labels = tuple(f"Seitzman_{k + 1:03d}" for k in range(len(fetched.rois)))
    return Atlas(name, labels, _freeze(fetched.rois), SPHERES[name], tuple(map(str, fetched.networks)))


def _freeze(coords: pd.DataFrame) -> np.ndarray:
    array = coords.to_numpy(dtype=float)
    array.setflags(write=False)
    return array
