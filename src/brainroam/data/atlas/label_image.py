"""Any other parcellation: the table of regions of a user's own label image, with the names of a user's own list."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from brainroam.data.readers.series import refusing
from brainroam.data.readers.tables import read_table
from brainroam.data.readers.values import is_empty
from brainroam.errors import DataError, UsageError, listed

INDEX = ("index", "id", "value", "number", "roi", "label")
NAME = ("name", "region", "label", "roi_name", "label_name", "regions")
NETWORK = ("network", "network_label", "community")
MAX_VOXELS = 2**26  # of an image of 0.5 mm in MNI space there are 58 million
MAX_REGIONS = 20_000  # a statistical map taken for labels has more values than that


def region_table(image: str | Path, names: str | Path | None = None) -> pd.DataFrame:
    """The regions of a label image in ascending order: ``index``, ``name``, ``x``, ``y``, ``z``, perhaps ``network``.

    Parameters
    ----------
    image : path
        A NIfTI image in MNI space, 0 outside the regions and a whole number for each region.
    names : path, optional
        A table with a column of these numbers (``index``) and one of names (``name``), as BIDS has them; or names
        only, one for each region in ascending order. Without it regions are called by their numbers.
    """
    from nilearn.plotting import find_parcellation_cut_coords

    coords, numbers = find_parcellation_cut_coords(read_labels(image), return_label_names=True)
    index = np.asarray(numbers, dtype=int)
    order = np.argsort(index)
    table = pd.DataFrame({"index": index[order], "name": [f"region_{k}" for k in index[order]]})
    table[["x", "y", "z"]] = np.asarray(coords, dtype=float)[order].round(2)
    return table if names is None else _name_regions(table, Path(names))


def read_labels(image: str | Path) -> Any:
    """A label image, checked: three-dimensional, whole numbers, 0 outside."""
    import nibabel as nib

    path = Path(image)
    if not path.is_file():
        raise UsageError(f"{path} does not exist; give a label image (.nii or .nii.gz)")
    with refusing(path, "give a label image (.nii or .nii.gz)"):
        loaded: Any = nib.load(path, keep_file_open=True)
        shape = loaded.shape
    if not (len(shape) == 3 or (len(shape) == 4 and shape[3] == 1)):
        raise DataError(f"{path} has shape {shape}; a label image has three dimensions")
    if math.prod(shape) > MAX_VOXELS:  # a few packed bytes may stand for many
        raise DataError(f"{path} has shape {shape}, more than {MAX_VOXELS:,} voxels; give an image of 0.5 mm or more")
    labels, numbers = np.empty(shape[:3], dtype=np.int32), np.empty(0)
    for k in range(shape[2]):
        with refusing(path, "give a label image (.nii or .nii.gz)"):
            values = np.asanyarray(loaded.dataobj[:, :, k]).reshape(shape[:2])
        numbers = np.union1d(numbers, values)
        if not np.isfinite(numbers).all() or (numbers != np.round(numbers)).any() or (numbers < 0).any():
            raise DataError(f"{path} holds values that are not whole numbers of 0 and above: it is no label image")
        if len(numbers) > MAX_REGIONS:
            break
        labels[:, :, k] = values
    if not 2 <= len(numbers) <= MAX_REGIONS:
        raise DataError(f"{path} holds {len(numbers)} different values; a label image has 0 and one per region")
    return nib.Nifti1Image(labels, loaded.affine)


def _name_regions(table: pd.DataFrame, path: Path) -> pd.DataFrame:
    if not path.is_file():
        raise UsageError(f"{path} does not exist; give a table of the regions' names")
    names = read_table(path)
    by_lower = {str(name).lower(): name for name in names.columns}
    index = next((by_lower[name] for name in INDEX if name in by_lower and _whole(names[by_lower[name]])), None)
    name = next((by_lower[name] for name in NAME if name in by_lower and by_lower[name] != index), None)
    if name is None:
        raise DataError(f"{path} has no column of names ({' or '.join(NAME)}); it has {listed(names.columns)}")
    network = next((by_lower[name] for name in NETWORK if name in by_lower), None)
    if index is None:
        if len(names) != len(table):
            raise DataError(
                f"{path} names {len(names)} regions but the image has {len(table)}; add a column 'index' with the "
                "number that each name has in the image"
            )
        rows = names
    else:
        rows = names.assign(_number=names[index].astype(float).astype(int)).drop_duplicates("_number")
        rows = rows.set_index("_number").reindex(table["index"])
        unnamed = table.loc[rows[name].isna().to_numpy(), "index"]
        if len(unnamed):
            raise DataError(f"{path} has no name for the image's value {listed(unnamed)}")
    if is_empty(rows[name]).any():
        raise DataError(f"{path} has regions without a name")
    named = table.assign(name=rows[name].to_numpy())
    return named if network is None else named.assign(network=rows[network].to_numpy())


def _whole(values: pd.Series) -> bool:
    numbers = pd.to_numeric(values, errors="coerce")
    return bool(numbers.notna().all() and (numbers == numbers.round()).all())
