"""The regions to average over: a label image of the user's own, a known atlas fetched by nilearn, or spheres."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from brainroam.data.atlas import Atlas, load_atlas
from brainroam.data.atlas.known import RADIUS, SPHERES, canonical
from brainroam.data.atlas.label_image import read_labels, region_table
from brainroam.errors import BrainroamError, UsageError

FETCHED = "aal, schaefer100 to schaefer1000 and schaefer100-17 to schaefer1000-17"


@dataclass(frozen=True)
class Parcellation:
    """Regions in space.

    Attributes
    ----------
    name : str
        As BIDS allows it in ``seg-<name>``.
    table : DataFrame
        ``index`` (the value in the image), ``name`` and, where known, ``x``, ``y``, ``z``, ``network``.
    labels : ndarray or None
        The label image; None for spheres of `known.RADIUS` around the centres.
    affine : ndarray or None
    """

    name: str
    table: pd.DataFrame
    labels: np.ndarray | None = None
    affine: np.ndarray | None = None

    @cached_property
    def digest(self) -> str | None:
        """SHA-256 of the label image."""
        if self.labels is None or self.affine is None:
            return None
        return hashlib.sha256(self.labels.tobytes() + self.affine.tobytes()).hexdigest()

    def on(self, affine: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """The label of every voxel of another grid, 0 outside all regions."""
        if self.labels is None:
            return self._spheres(affine, shape)
        import nibabel as nib
        from nilearn.image import resample_img

        image = nib.Nifti1Image(self.labels, self.affine)
        resampled: Any = resample_img(
            image,
            target_affine=affine,
            target_shape=shape,
            interpolation="nearest",
            copy_header=True,
            force_resample=True,
        )
        return np.asarray(resampled.dataobj).astype(np.int32)

    def _spheres(self, affine: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """Voxels whose middle is within the radius of a centre; of two centres the nearer."""
        from scipy.spatial import cKDTree

        voxels = np.indices(shape).reshape(3, -1)
        places = (affine[:3, :3] @ voxels + affine[:3, 3:]).T
        centres = self.table[["x", "y", "z"]].to_numpy(dtype=float)
        distance, nearest = cKDTree(centres).query(places, distance_upper_bound=RADIUS + 1e-6)
        index = np.append(self.table["index"].to_numpy(), 0)
        return np.where(np.isfinite(distance), index[nearest], 0).reshape(shape).astype(np.int32)


def load_parcellation(source: str, names: Path | None = None) -> Parcellation:
    """A label image by its path, or a known atlas by its name."""
    name = canonical(source)
    if name is None and not Path(source).is_file():
        raise UsageError(f"atlas {source!r} is neither a label image nor one of {FETCHED}, {', '.join(SPHERES)}")
    if name is None:
        image = read_labels(source)
        stem = Path(source).name.removesuffix(".gz").removesuffix(".nii").removeprefix("atlas-").split("_")[0]
        return Parcellation(_bids(stem), region_table(source, names), np.asarray(image.dataobj), image.affine)
    if names is not None:
        raise UsageError(f"--names belongs to a label image; the regions of {name} have names already")
    atlas = load_atlas(name)
    if name in SPHERES:
        return Parcellation(name, _table(atlas, range(1, len(atlas) + 1)))
    labels, affine, index = _fetch_atlas(name, atlas)
    return Parcellation(name.replace("-", "x"), _table(atlas, index), labels, affine)


def _table(atlas: Atlas, index: Iterable[int]) -> pd.DataFrame:
    table = pd.DataFrame({"index": list(index), "name": atlas.labels})
    table[["x", "y", "z"]] = atlas.coords
    return table if atlas.networks is None else table.assign(network=atlas.networks)


def _fetch_atlas(name: str, atlas: Atlas) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """The image of a known atlas, from nilearn's cache or from the network."""
    from nilearn import datasets

    if name == "cc200":
        raise UsageError(f"nilearn has no label image of cc200; give yours (CC200.nii.gz), or one of {FETCHED}")
    try:
        if name == "aal":
            fetched = datasets.fetch_atlas_aal(verbose=0)
            value = dict(zip(fetched.labels, map(int, fetched.indices), strict=False))
            index = [value[label] for label in atlas.labels]
        else:
            networks = 17 if name.endswith("-17") else 7
            fetched = datasets.fetch_atlas_schaefer_2018(len(atlas), yeo_networks=networks, resolution_mm=2, verbose=0)
            index = list(range(1, len(atlas) + 1))
    except Exception as error:  # whatever a network does
        raise BrainroamError(
            f"the label image of {name} could not be fetched ({str(error).splitlines()[0]}); without a network give "
            "the image itself: --atlas labels.nii.gz --names names.csv"
        ) from error
    image = read_labels(fetched.maps)
    return np.asarray(image.dataobj), image.affine, index


def _bids(name: str) -> str:
    return "".join(letter for letter in name if letter.isalnum()) or "custom"
