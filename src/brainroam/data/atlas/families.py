"""Atlases whose tables are not shipped, told by the names of their regions: in a CIFTI header, a csv, a label table.

Gordon 333 (alone or with the 19 subcortical structures of FreeSurfer), Glasser 360, Brainnetome 246, Destrieux 148 and
Desikan-Killiany 68. The names tell the networks (Gordon) or the lobes (Brainnetome, Desikan-Killiany); centres come
from a table with x, y, z, which `brainroam atlas` makes of a label image.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from brainroam.data.atlas import Atlas

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


@dataclass(frozen=True)
class Family:
    """One atlas: its name, its regions, whom to cite, and the part of the brain that a name tells (None: no member)."""

    name: str
    size: int
    citation: str
    part: Callable[[str], str | None]
    kind: str = ""  # what the parts are; empty where names tell none


def _gordon(label: str) -> str | None:
    found = re.search(r"(?:^|_)[lr]_([a-z]+)(?:_|$)", label)
    return {name.lower(): name for name in GORDON_NETWORKS}.get(found[1]) if found else None


def _glasser(label: str) -> str | None:
    return "cortex" if re.fullmatch(r"(?:[lr]|lh|rh)_.+_roi|(?:left|right)_[a-z0-9].*_roi", label) else None


def _brainnetome(label: str) -> str | None:
    found = re.fullmatch(r"([a-z]+)_[lr]_\d+_\d+", label)
    return BRAINNETOME_LOBES.get(found[1]) if found else None


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
            return Atlas(name, tuple(labels), None, family.citation, networks)
    return None
