"""ROI names, MNI coordinates and networks: the common atlases by name, any other from a user's own file.

Two atlases are recognised by the number of regions or the layout of the data (names and centres of mass only, no image
data); `brainroam.data.atlas.known` has more:

``aal``
    116 regions of Automated Anatomical Labeling (Tzourio-Mazoyer et al., NeuroImage 2002). Centroids of the 1 mm
    volume in Debian's ``mricron-data``; the codes equal the headers of the ABIDE ``rois_aal.1D`` files.
``cc200``
    200 regions of the Craddock et al. (Human Brain Mapping 2012) parcellation as distributed by the Preprocessed
    Connectomes Project; centroids of its ``CC200.nii.gz``. The regions carry no anatomical names.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd

from brainroam.errors import DataError, UsageError

CITATIONS = {
    "aal": "Tzourio-Mazoyer et al. (2002) NeuroImage 15:273-289",
    "cc200": "Craddock et al. (2012) Human Brain Mapping 33:1914-1928",
}
SHIPPED = {"aal": 116, "cc200": 200}
#: Columns of the tables that atlases are distributed with, and what they are here.
ALSO_CALLED = {"label": "name", "ParcelID": "name", "network_label": "network", "Community": "network"}

FARTHEST = 12.0  # mm; the 79 pairs of CC200 are 5 mm apart in the median and 11 at most
MIN_SHARE = 0.5  # of regions that have to have a homologue
SIDE = re.compile(r"(?<![a-z])(left|right|lh|rh|l|r)(?![a-z])", re.IGNORECASE)
OTHER = {"left": "right", "right": "left", "lh": "rh", "rh": "lh", "l": "r", "r": "l"}


@dataclass(frozen=True, eq=False)
class Atlas:
    """The regions of a parcellation, in the column order of the series.

    Attributes
    ----------
    name : str
        ``"aal"``, ``"schaefer200"``, ..., the stem of a user's table, or ``"custom"``.
    labels : tuple of str
        One name per region.
    coords : ndarray of shape (P, 3) or None
        MNI coordinates in millimetres, when known.
    citation : str
        What to cite when the atlas is used.
    networks : tuple of str or None
        The functional network of each region, for atlases that come with networks.
    columns : bool
        These are the columns of a table, each a feature of its own, not regions that edges join.
    """

    name: str
    labels: tuple[str, ...]
    coords: np.ndarray | None = None
    citation: str = ""
    networks: tuple[str, ...] | None = None
    columns: bool = False

    @property
    def pairs(self) -> np.ndarray:
        """The two regions (M, 2) of every feature: of each edge, or twice the column of a table.

        >>> Atlas("custom", ("a", "b", "c")).pairs.tolist(), Atlas("table", ("a", "b"), columns=True).pairs.tolist()
        ([[0, 1], [0, 2], [1, 2]], [[0, 0], [1, 1]])
        """
        if self.columns:
            return np.repeat(np.arange(len(self))[:, None], 2, axis=1)
        return np.stack(np.triu_indices(len(self), 1), axis=1)

    @property
    def feature_names(self) -> list[str]:
        """The columns of a table, or the two regions of each edge."""
        if self.columns:
            return list(self.labels)
        return [f"{self.labels[u]} - {self.labels[v]}" for u, v in self.pairs]

    @property
    def homologues(self) -> np.ndarray | None:
        """For each region the position of its homologue, or its own; None where most regions have none.

        Regions are paired by their names where these tell the side (``Precentral_L``, ``Left-Amygdala``, ``lh.cuneus``,
        ``LH_Vis_1``), else by their centres: each other's nearest after x -> -x, at most `FARTHEST` mm apart.

        >>> Atlas("mine", ("Cuneus_L", "Cuneus_R", "lh.insula", "rh.insula", "Vermis")).homologues.tolist()
        [1, 0, 3, 2, 4]
        >>> Atlas("mine", ("a", "b", "c")).homologues is None
        True
        """
        for pairs in (_by_name(self), _by_place(self)):
            if pairs is not None and (pairs != np.arange(len(pairs))).mean() >= MIN_SHARE:
                return pairs
        return None

    @property
    def identity(self) -> dict[str, Any]:
        """What a model keeps of its regions: their number and a hash of their names, in order."""
        names = json.dumps(list(self.labels)).encode()
        return {"name": self.name, "n_regions": len(self), "labels_sha256": hashlib.sha256(names).hexdigest()}

    def __len__(self) -> int:
        return len(self.labels)

    def __eq__(self, other: object) -> bool:
        """Two atlases are the same when they name the same regions in the same order."""
        return isinstance(other, Atlas) and self.name == other.name and self.labels == other.labels

    def __hash__(self) -> int:
        return hash((self.name, self.labels))

    def described(self) -> dict[str, Any]:
        """Everything but the coordinates, as plain values for a JSON header."""
        networks = None if self.networks is None else list(self.networks)
        content = {"name": self.name, "labels": list(self.labels), "citation": self.citation, "networks": networks}
        return content | ({"columns": True} if self.columns else {})

    @classmethod
    def of_description(cls, described: Mapping[str, Any], coords: np.ndarray | None) -> Self:
        """An atlas of what `described` returned; files of earlier versions have no networks."""
        networks = described.get("networks")
        labels = tuple(described["labels"])
        fields = described["name"], labels, coords, described["citation"]
        return cls(*fields, None if networks is None else tuple(networks), bool(described.get("columns", False)))


def _by_name(atlas: Atlas) -> np.ndarray:
    place = {label.lower(): k for k, label in enumerate(atlas.labels)}
    return np.array([place.get(_other_side(label), k) for k, label in enumerate(atlas.labels)])


def _other_side(label: str) -> str:
    """The name with the other side, in small letters.

    >>> _other_side("7Networks_LH_Vis_1"), _other_side("ctx-rh-insula"), _other_side("Vermis_8")
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


def anonymous_atlas(n_rois: int, labels: Sequence[str] | None = None) -> Atlas:
    """An atlas for regions nobody described: ``ROI_001``, ``ROI_002``, ... unless the files named them.

    >>> anonymous_atlas(2).labels
    ('ROI_001', 'ROI_002')
    """
    names = tuple(labels) if labels is not None else tuple(f"ROI_{i + 1:03d}" for i in range(n_rois))
    return Atlas("custom", names)


def columns_of_table(names: Sequence[str], name: str = "table") -> Atlas:
    """The columns of a table, where an atlas would name regions.

    >>> len(columns_of_table(["thickness", "area"]))
    2
    """
    return Atlas(name, tuple(str(column) for column in names), columns=True)


def matching_atlas(atlas: Atlas | None, width: int, measure: str) -> Atlas:
    """The atlas of series, matrices or a table of this width, made up where it is not given."""
    columns = measure == "table"
    if atlas is None and columns:
        atlas = columns_of_table([f"column_{i + 1:03d}" for i in range(width)])
    elif atlas is None:
        atlas = anonymous_atlas(width)
    if len(atlas) != width:
        raise DataError(
            f"the atlas {atlas.name!r} has {len(atlas)} regions but the {measure} have {width} "
            "columns; name the atlas they were made with, or give its table"
        )
    return atlas if atlas.columns == columns else replace(atlas, columns=columns)


def load_atlas(source: str | Path | Atlas) -> Atlas:
    """Load a known atlas by name or a user's table by path.

    A user's table is a CSV, TSV or xlsx with one row per region in column order: a ``name`` column and, optionally,
    ``x``, ``y``, ``z`` in MNI millimetres and ``network``. `brainroam atlas` makes one of a label image. The tables of
    Gordon's parcels (``ParcelID``, ``Community``, ``Centroid (MNI)``) and of XCP-D (``label``, ``network_label``) are
    read as they are.

    >>> aal = load_atlas("aal")
    >>> len(aal), aal.labels[0]
    (116, 'Precentral_L')
    >>> len(load_atlas("Schaefer2018_400Parcels_17Networks"))
    400
    """
    if isinstance(source, Atlas):
        return source
    from brainroam.data.atlas.known import atlas_by_name, canonical

    path, name = Path(source), canonical(str(source))
    if name in SHIPPED:
        with resources.as_file(resources.files(__name__) / f"{name}.csv") as table:
            return _read_table(table, name, CITATIONS[name])
    if name is not None:
        return atlas_by_name(name)
    if not path.is_file():
        raise UsageError(
            f"atlas {str(source)!r} is neither known ({', '.join(SHIPPED)}, schaefer100 to schaefer1000, "
            "schaefer100-17 to schaefer1000-17, power264, dosenbach160, seitzman300) nor a file; "
            "give the path of a CSV, TSV or xlsx with a 'name' column and optionally x, y, z and network (Gordon, "
            "Glasser, Brainnetome, Destrieux and Desikan regions are known by such names, also in the headers of files)"
        )
    return _read_table(path, path.stem.removesuffix("_dseg").removeprefix("atlas-"), "")


def _cells(path: Path) -> pd.DataFrame:
    if path.suffix.lower() == ".xlsx":
        return pd.read_excel(path, dtype={"name": str}, keep_default_na=False)
    separator = "\t" if path.suffix == ".tsv" else ","
    return pd.read_csv(path, sep=separator, dtype={"name": str}, keep_default_na=False)  # "NA" names a region


def _read_table(path: Path, name: str, citation: str) -> Atlas:
    from brainroam.data.atlas.known import family_of

    try:
        table = _cells(path)
    except (ValueError, OSError) as error:
        raise DataError(f"atlas table {path} cannot be read: {error}") from error
    table = table.rename(columns={old: new for old, new in ALSO_CALLED.items() if old in table and new not in table})
    if "name" not in table or table["name"].eq("").any():
        raise DataError(f"atlas table {path} needs a 'name' column without gaps; it has {', '.join(table.columns)}")
    coords = None
    if "Centroid (MNI)" in table:
        table[["x", "y", "z"]] = table["Centroid (MNI)"].str.split(expand=True)
    if {"x", "y", "z"} <= set(table.columns):
        try:
            coords = table[["x", "y", "z"]].to_numpy(dtype=float)
        except ValueError as error:
            raise DataError(f"atlas table {path} has non-numeric coordinates: {error}") from error
        coords.setflags(write=False)
    networks = tuple(table["network"].astype(str)) if "network" in table else None
    labels = tuple(table["name"].astype(str))
    family = None if citation else family_of(labels)
    if family is not None:
        return Atlas(family.name, labels, coords, family.citation, networks or family.networks)
    return Atlas(name, labels, coords, citation, networks)
