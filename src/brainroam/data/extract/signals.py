"""The series of one image: regional means, cleaned of confounds and filtered by nilearn, and the coverage of regions.

    coverage_r = |voxels of region r inside the brain mask that vary| / |voxels of region r|
    x_r(t)     = mean over those voxels, then confounds, trend and band in one orthogonal step (nilearn.signal.clean)

A region with less coverage than asked for is a column of missing values, never a mean over a few voxels at its edge.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from brainroam.data.extract.parcellation import Parcellation
from brainroam.data.extract.runs import BoldRun
from brainroam.data.extract.settings import Settings
from brainroam.data.readers.series import refusing
from brainroam.errors import DataError

LEAST_VOLUMES = 10


@dataclass(frozen=True)
class Extracted:
    """A series (volumes kept, regions), the coverage of each region, and what is to be recorded."""

    series: pd.DataFrame
    coverage: pd.Series
    facts: dict[str, Any]


def extract_run(run: BoldRun, parcellation: Parcellation, settings: Settings) -> Extracted:
    """Read one run."""
    import nibabel as nib
    from nilearn.maskers import NiftiLabelsMasker

    with refusing(run.bold):
        image: Any = nib.load(run.bold)
        values = np.asarray(image.dataobj, dtype=np.float32)
    if values.ndim != 4:
        raise DataError(f"{run.bold} has {values.ndim} dimensions; volumes over time have four")
    tr = run.tr(float(image.header.get_zooms()[3]))
    if settings.low_pass is not None and settings.low_pass >= 0.5 / tr:
        raise DataError(f"{run.bold}: with TR {tr:g} s nothing above {0.5 / tr:.3g} Hz is seen; lower --low-pass")
    labels = parcellation.on(image.affine, values.shape[:3])
    seen = _brain(run, values, image.affine)
    coverage = _coverage(labels, seen, parcellation.table["index"].to_numpy())
    kept = parcellation.table["index"].to_numpy()[coverage >= settings.min_coverage]
    if not len(kept):
        raise DataError(f"{run.bold}: no region of {parcellation.name} lies in the brain; are both in MNI space?")
    confounds, sample_mask = _confounds(run, settings)
    _require_volumes(run, len(values[0, 0, 0]), confounds, sample_mask)
    masker = NiftiLabelsMasker(
        nib.Nifti1Image(np.where(seen & np.isin(labels, kept), labels, 0).astype(np.int32), image.affine),
        standardize="zscore_sample" if settings.standardise else False,
        detrend=True,
        low_pass=settings.low_pass,
        high_pass=settings.high_pass,
        t_r=tr,
        reports=False,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nilearn's advice to programmers
        cleaned = masker.fit_transform(
            nib.Nifti1Image(values, image.affine, image.header), confounds=confounds, sample_mask=sample_mask
        )
    series = pd.DataFrame(np.nan, index=range(len(cleaned)), columns=parcellation.table["name"])
    place = {value: k for k, value in enumerate(parcellation.table["index"])}
    series.iloc[:, [place[value] for value in np.sort(kept)]] = cleaned  # nilearn gives them by ascending value
    facts = {
        "RepetitionTime": tr,
        "MeanFramewiseDisplacement": None if np.isnan(run.mean_fd) else run.mean_fd,
        "Volumes": int(values.shape[3]),
        "VolumesKept": len(cleaned),
        "MissingRegions": [str(name) for name in series.columns[series.isna().all()]],
        "Confounds": [] if confounds is None else [str(name) for name in confounds.columns],
    }
    return Extracted(series, pd.Series(coverage, index=parcellation.table["name"]), facts)


def _brain(run: BoldRun, values: np.ndarray, affine: np.ndarray) -> np.ndarray:
    """Voxels inside fMRIPrep's brain mask that vary over time; without a mask, all that vary."""
    varies = np.ptp(values, axis=3) > 0
    if run.mask is None:
        return varies
    import nibabel as nib

    with refusing(run.mask):
        mask: Any = nib.load(run.mask)
        inside = np.asarray(mask.dataobj) > 0
    if inside.shape != varies.shape or not np.allclose(mask.affine, affine, atol=1e-3):
        raise DataError(f"{run.mask} is on another grid than {run.bold.name}; run fMRIPrep again")
    return varies & inside


def _coverage(labels: np.ndarray, seen: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Share of each region's voxels that are seen; 0 for a region the grid does not hold."""
    size = int(max(index.max(), labels.max())) + 1
    whole, part = (np.bincount(found.ravel(), minlength=size)[index] for found in (labels, labels[seen]))
    return np.divide(part, whole, out=np.zeros(len(index)), where=whole > 0)


def _confounds(run: BoldRun, settings: Settings) -> tuple[pd.DataFrame | None, np.ndarray | None]:
    """Regressors, and the volumes to keep (None: all)."""
    if settings.confounds == "none":
        return None, None
    from nilearn.interfaces.fmriprep import load_confounds_strategy

    _ = run.confounds  # named in our own words when it is not there
    with refusing(run.confounds, f"do they come from fMRIPrep, and do they fit --confounds {settings.confounds}?"):
        table, sample_mask = load_confounds_strategy(
            str(run.bold), settings.confounds, global_signal="basic" if settings.gsr else None
        )
    if settings.high_pass is not None:  # the filter does what fMRIPrep's cosines are for
        table = table[[name for name in table.columns if not name.startswith("cosine")]]
    return table, sample_mask


def _require_volumes(run: BoldRun, n: int, confounds: pd.DataFrame | None, sample_mask: np.ndarray | None) -> None:
    kept = n if sample_mask is None else len(sample_mask)
    regressors = 0 if confounds is None else confounds.shape[1]
    if kept < max(LEAST_VOLUMES, regressors + 2):
        raise DataError(
            f"{run.bold.name}: {kept} of {n} volumes are kept and {regressors} confounds are taken out of them; "
            "too little is left: leave this run out, or take --confounds simple"
        )
