"""Fitted methods on disk: any registered method, with what it was trained on and how it is calibrated."""

import warnings
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from brainroam.data.cohort import DROPPED, Cohort
from brainroam.data.prepare import CUT, crop_of, cut_where_longer, without_rare_edges
from brainroam.errors import DataError, ModelFileError, UsageError, visible
from brainroam.methods.familiarity import Familiarity
from brainroam.methods.registry import method_info
from brainroam.methods.training_sketch import sketch
from brainroam.methods.tuning import TunedMethod
from brainroam.utils.model_files import describe_atlas, load_model, require_atlas, save_model

KIND = "method"


def save_method(
    path: str | Path, method: TunedMethod, cohort: Cohort, seed: int = 0, foretold: dict[str, float] | None = None
) -> Path:
    """Write a method that was fitted on this cohort with this seed as a model folder.

    ``foretold`` is what its inner held-out sites say of the AUC at a next site (`brainroam.evaluation.external`).

    >>> import tempfile, brainroam
    >>> cohort = brainroam.make_cohort(n_sites=3, n_per_site=8, n_rois=8)
    >>> fitted = TunedMethod(method_info("fc-ridge"), "default").fit(cohort)
    >>> folder = save_method(Path(tempfile.mkdtemp()) / "model", fitted, cohort)
    >>> again, header = load_method(folder, cohort)
    >>> header["training"]["n_people"], bool((again.probability(cohort) == fitted.probability(cohort)).all())
    (24, True)
    """
    header = {
        "kind": KIND,
        "method": method.info.name,
        "tuning": method.tuning,
        "fixed": method.fixed,
        "configuration": method.configuration_,
        "seed": seed,
        "notes": list(method.notes_),
        "calibration": asdict(method.calibration_),
        "foretold": foretold or {},
        "training": {
            "manifest_hash": cohort.manifest_hash,
            "n_people": cohort.n_people,
            "sites": cohort.sites,
            "prepared": list(cohort.prepared),
            "sketch": sketch(cohort),
        },
        "atlas": describe_atlas(cohort.atlas.name, cohort.atlas.labels),
    }
    arrays, known = method.state(), Familiarity.of(without_rare_edges(cohort)[0])
    header["familiarity"], arrays["familiarity"] = known.limits, known.centre
    return save_model(path, header, arrays)


def familiarity_of(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Familiarity | None:
    """What a model folder says of its training people; None in those of an older version."""
    if "familiarity" not in arrays:
        return None
    return Familiarity(
        {str(name): float(value) for name, value in header["familiarity"].items()}, arrays["familiarity"]
    )


def prepared_as_in_training(header: dict[str, Any], cohort: Cohort) -> Cohort:
    """New people as the model's were: longer scans are cut alike; what else differs is warned of.

    >>> import brainroam
    >>> cohort = brainroam.make_cohort(n_sites=2, n_per_site=4, n_rois=8)
    >>> trained = {"training": {"prepared": ["every scan was cut to its first 100 volumes"]}}
    >>> prepared_as_in_training(trained, cohort).table["n_timepoints"].max()
    np.int64(100)
    """
    told = header.get("training", {}).get("prepared", [])
    steps = [visible(str(step)) for step in told] if isinstance(told, list) else []
    crop, here = crop_of(steps), crop_of(cohort.prepared)
    if crop is not None and here is None:
        cohort = cut_where_longer(cohort, crop)
        warnings.warn(f"as in training, scans longer than {crop} were cut to them", stacklevel=2)
    elif crop != here:
        trained = f"to {crop}" if crop else "not at all"
        warnings.warn(f"scans are cut to {here} here, in training {trained}", stacklevel=2)
    other = [step for step in steps if step not in cohort.prepared and not step.startswith((CUT, DROPPED))]
    if other:
        warnings.warn(f"the series of the training were prepared otherwise: {'; '.join(other)}", stacklevel=2)
    return cohort


def load_method(path: str | Path, cohort: Cohort) -> tuple[TunedMethod, dict[str, Any]]:
    """Read a model folder for use on this cohort: the method, and what the folder says about it."""
    header, arrays = load_model(path)
    if header.get("kind") != KIND:
        raise ModelFileError(
            f"{path} was not written by `brainroam fit`; it holds a {header.get('kind')!r} for use from Python"
        )
    try:
        require_atlas(header, cohort.atlas.name, cohort.atlas.labels)
        tuning = header["tuning"] if "tuning" in header else header["budget"]  # its older name
        method = TunedMethod(method_info(header["method"]), tuning, **header["fixed"])
        method.configuration_ = header["configuration"]
        method.load_state(arrays)
        method.familiarity_ = familiarity_of(header, arrays)
        with suppress(DataError):  # about these people, not about the model
            first = cohort.subset([0])  # arrays that do not fit each other are told here, not in the middle of work
            method.score(first)
            if method.familiarity_ is not None:
                method.familiarity_.flags(first)
        return method, header
    except (UsageError, LookupError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        raise ModelFileError(f"{path} does not hold a whole model that this version knows: {error}") from error
