"""Small volumes in fMRIPrep's own layout, with a known signal in every region.

Every voxel of region r is ``s_r(t) + 5 * motion(t) + 3 * drift(t) + noise``; the motion is a column of the confounds
table, and ``s_r`` is a sum of sines inside the band.
"""

import json

import nibabel as nib
import numpy as np
import pandas as pd

TR, VOLUMES, SHAPE = 2.0, 240, (16, 18, 14)
SPACE = "space-MNI152NLin2009cAsym"
AFFINE = np.diag([4.0, 4, 4, 1])
AFFINE[:3, 3] = (-30, -34, -26)
HEAD = "csf", "white_matter", "global_signal"
MOTION = tuple(f"{kind}_{axis}" for kind in ("trans", "rot") for axis in "xyz")


def regions():
    """Six boxes; the last lies with most of its voxels outside the brain mask."""
    labels = np.zeros(SHAPE, dtype=np.int16)
    for k, (x, y) in enumerate([(2, 2), (2, 8), (8, 2), (8, 8), (2, 13)]):
        labels[x : x + 4, y : y + 3, 4:8] = 10 * (k + 1)
    labels[12:16, 8:11, 4:8] = 60
    return labels


def mask():
    inside = np.zeros(SHAPE, dtype=np.uint8)
    inside[1:13, 1:17, 1:13] = 1
    return inside


def signals(seed):
    """Six known series inside the band of 0.01 to 0.1 Hz, of unit variance."""
    rng = np.random.default_rng(seed)
    t = np.arange(VOLUMES) * TR
    bins = np.arange(8, 40) / (VOLUMES * TR)  # 0.017 to 0.081 Hz
    waves = np.stack([np.sin(2 * np.pi * f * t + p) for f, p in zip(bins, rng.uniform(0, 6, 32), strict=True)])
    x = (rng.normal(size=(6, 32)) @ waves).T
    return (x - x.mean(axis=0)) / x.std(axis=0)


def write_run(folder, stem, seed, fd=0.1, spikes=()):
    rng = np.random.default_rng(seed + 100)
    folder.mkdir(parents=True, exist_ok=True)
    labels, known = regions(), signals(seed)
    motion = rng.normal(size=(VOLUMES, 6)).cumsum(axis=0) * 0.05
    data = 1000 + rng.normal(size=(*SHAPE, VOLUMES)) + 5 * motion[:, 0] + 3 * np.linspace(0, 1, VOLUMES)
    for k in range(6):
        data[labels == 10 * (k + 1)] += known[:, k]
    data[..., list(spikes)] += 30 * rng.normal(size=(*SHAPE, len(spikes)))
    image = nib.Nifti1Image(data.astype(np.float32), AFFINE)
    image.header.set_zooms((4, 4, 4, 1.0))  # the header is wrong about TR, as headers are
    nib.save(image, folder / f"{stem}_{SPACE}_desc-preproc_bold.nii.gz")
    nib.save(nib.Nifti1Image(mask(), AFFINE), folder / f"{stem}_{SPACE}_desc-brain_mask.nii.gz")
    (folder / f"{stem}_{SPACE}_desc-preproc_bold.json").write_text(json.dumps({"RepetitionTime": TR}))
    table = pd.DataFrame(motion, columns=MOTION)
    for name in HEAD:
        table[name] = rng.normal(size=VOLUMES)
    for name in (*MOTION, *HEAD):
        derivative = table[name].diff()
        table[f"{name}_derivative1"] = derivative
        table[f"{name}_power2"] = table[name] ** 2
        table[f"{name}_derivative1_power2"] = derivative**2
    table["cosine00"] = np.cos(np.pi * (np.arange(VOLUMES) + 0.5) / VOLUMES)
    table["framewise_displacement"] = [np.nan, *[fd] * (VOLUMES - 1)]
    table.loc[list(spikes), "framewise_displacement"] = 2.0
    table["std_dvars"] = [np.nan, *[1.0] * (VOLUMES - 1)]
    table.to_csv(folder / f"{stem}_desc-confounds_timeseries.tsv", sep="\t", index=False, na_rep="n/a")
    (folder / f"{stem}_desc-confounds_timeseries.json").write_text("{}")
    return known


def write_tree(root, people, fds):
    """A BIDS folder with fMRIPrep's derivatives of these people, one run each, and a label image with names."""
    root.mkdir(parents=True, exist_ok=True)
    people.to_csv(root / "participants.tsv", sep="\t", index=False)
    for k, (subject, fd) in enumerate(zip(people["participant_id"], fds, strict=True), start=1):
        write_run(root / "derivatives" / "fmriprep" / subject / "func", f"{subject}_task-rest", k, fd)
    write_labels(root)


def write_labels(folder):
    nib.save(nib.Nifti1Image(regions(), AFFINE), folder / "labels.nii.gz")
    names = "".join(f"{10 * k},Box {k},{'N1' if k < 4 else 'N2'}\n" for k in range(1, 7))
    (folder / "names.csv").write_text("index,name,network\n" + names)
