"""Fitted scikit-learn classifiers of this package on disk, and back."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from brainroam.core.calibration import Calibration
from brainroam.core.classifier import CoreClassifier
from brainroam.core.saving import KIND as CORE
from brainroam.core.saving import load_core, save_core
from brainroam.data.atlas import Atlas
from brainroam.errors import ModelFileError, UsageError
from brainroam.methods.ensemble import Ensemble, EnsembleClassifier
from brainroam.utils import model_files

ENSEMBLE = "EnsembleClassifier"


def save_model(estimator: Any, path: str | Path, atlas: Atlas | None = None) -> Path:
    """Write a fitted `CoreClassifier` or `EnsembleClassifier` as a folder of JSON and arrays, nothing executable.

    Examples
    --------
    >>> import brainroam, tempfile
    >>> cohort = brainroam.make_cohort(n_sites=4, n_per_site=16, n_rois=12, seed=0)
    >>> people = cohort.table
    >>> clf = brainroam.EnsembleClassifier().fit(cohort.series, people["label"], site=people["site"])
    >>> again = load_model(save_model(clf, Path(tempfile.mkdtemp()) / "model", cohort.atlas))
    >>> bool((again.predict_proba(cohort.series) == clf.predict_proba(cohort.series)).all())
    True
    """
    if isinstance(estimator, CoreClassifier):
        return save_core(estimator, path, atlas)
    if not isinstance(estimator, EnsembleClassifier):
        raise UsageError(f"a {type(estimator).__name__} cannot be saved; CoreClassifier and EnsembleClassifier can")
    header = {
        "kind": ENSEMBLE,
        "covariates": list(estimator.ensemble_.covariates),
        "classes": estimator.classes_.tolist(),
        "calibration": asdict(estimator.calibration_),
    }
    if atlas is not None:
        header["atlas"] = model_files.describe_atlas(atlas.name, atlas.labels)
    return model_files.save_model(path, header, estimator.ensemble_.state())


def load_model(path: str | Path) -> Any:
    """The fitted classifier that `save_model` wrote: the same probabilities, bit for bit."""
    header, arrays = model_files.load_model(path)
    if header.get("kind") == CORE:
        return load_core(path)
    if header.get("kind") != ENSEMBLE:
        raise ModelFileError(f"{path} was written by `brainroam fit`; `brainroam predict` and `explain` read it")
    try:
        clf = EnsembleClassifier()
        clf.classes_ = np.array(header["classes"])
        clf.calibration_ = Calibration(**header["calibration"])
        clf.ensemble_ = Ensemble(tuple(header["covariates"])).load_state(arrays)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise ModelFileError(f"{path} does not hold a whole {ENSEMBLE}: {error}") from error
    return clf
