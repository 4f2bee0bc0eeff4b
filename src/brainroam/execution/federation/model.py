"""The pooled model as a model folder, which ``predict`` and ``explain`` read like one fitted in one place.

It is ``core[epochs=0,project=false,soft=false]``, the linear reading of the scaffold: products of all edges are too
many to send, and motion is regressed out like any covariate that hospitals name.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, replace
from pathlib import Path
from typing import Any

import numpy as np

from brainroam.core.choice import Choice
from brainroam.core.deconfound import SiteDeconfounder
from brainroam.core.pathways import Pathways
from brainroam.data.target import TWO_CLASSES, Target
from brainroam.data.target.shifts import ClassShift, SiteShift
from brainroam.execution.federation.files import Message, Settings
from brainroam.execution.federation.kinds import Kind
from brainroam.methods.saving import KIND
from brainroam.utils.model_files import save_model

FIXED: dict[str, Any] = {"epochs": 0, "project": False, "soft": False}
UNCALIBRATED = "not calibrated yet: probabilities and levels say nothing before round 3, the order of people does"


def reading(pathways: Pathways) -> dict[str, np.ndarray]:
    """Pathways as one weight per edge, with what is taken off its residual; what a third request holds for a site."""
    unit = pathways.orientation / pathways.scale[:, 0]
    weights = (pathways.skip.T * unit).T
    return {"weights": weights, **off_residuals(pathways.deconfounder, pathways.scaffold.edges)}


def off_residuals(deconfounder: SiteDeconfounder, edges: np.ndarray) -> dict[str, np.ndarray]:
    """What is taken off the values of these edges before weights are."""
    return {
        "edges": edges,
        "mean_intercept": deconfounder.mean_intercept_[edges],
        "mean_coef": deconfounder.mean_coef_[:, edges],
        "covariate_mean": deconfounder.encoder_.mean_,
        "covariate_std": deconfounder.encoder_.std_,
    }


def save_pooled(
    path: Path,
    blocks: Mapping[str, tuple[Message, Pathways]],
    weights: np.ndarray,
    n_people: Mapping[str, int],
    thresholds: Mapping[str, float],
    notes: Sequence[str],
    target: Target = TWO_CLASSES,
    calibration: Any = None,
    shifts: Mapping[str, SiteShift | ClassShift] | None = None,
    inner_sites: Sequence[Mapping[str, Any]] = (),
) -> Path:
    """Write the model of all sites, with the threshold learned on held-out sites where round 3 has given it.

    ``inner_sites`` are the results of those sites, from which a forecast is made.

    Of several blocks it is the sum of one model each (`brainroam.methods.blocks`); one without a name is the model.
    """
    like, standard = next(iter(blocks.values()))[0], asdict(Settings())
    fixed = FIXED | {name: value for name, value in asdict(like.settings).items() if value != standard[name]}
    fixed |= dict(thresholds)
    notes = [*notes, *([] if calibration else [UNCALIBRATED])]
    untaught = target.readout.untaught(target)
    taught = untaught if calibration is None else replace(untaught, calibration=calibration, shifts=shifts or {})
    alone = len(blocks) == 1
    arrays = taught.state()  # limits of sets need the scores of single people
    for (name, (message, pathways)), weight in zip(blocks.items(), weights, strict=True):
        core = _core_arrays(message, pathways, thresholds, sorted(n_people), notes)
        if alone:
            arrays |= {f"model.{key}": value for key, value in core.items()}
            continue
        member = untaught.state() | {f"model.{key}": value for key, value in core.items()}
        arrays |= {f"model.{name}.{key}": value for key, value in member.items()}
        arrays[f"model.{name}.weight"] = np.array([weight])
    header = {
        "kind": KIND,
        "method": "core",
        "tuning": "default",
        "fixed": fixed,
        "configuration": fixed if alone else {"blocks": [[name, fixed] for name in blocks]},
        "seed": 0,
        "notes": notes,
        "classes": Kind.of(target).codes,
        "target": target.described(),
        "covariates": list(like.covariates),
        "inner_sites": [dict(row) for row in inner_sites],
        "training": {
            "manifest_hash": "",
            "n_people": sum(n_people.values()),
            "sites": sorted(n_people),
            "prepared": [],
            "sketch": "",
            "pooled_from_summaries": True,
        },
        "atlas": like.atlas,
        "measure": like.measure,
        "blocks": {} if alone else {name: message.atlas for name, (message, _) in blocks.items()},
        "columns": {},  # of tables their number and order are known to hospitals by a checksum only
    }
    return save_model(path, header, arrays)


def _core_arrays(
    like: Message, pathways: Pathways, thresholds: Mapping[str, float], sites: list[str], notes: Sequence[str]
) -> dict[str, np.ndarray]:
    """The state of `CoreModel`, of one block."""
    facts = {
        "n_rois": int(like.atlas["n_regions"]),
        "measure": like.measure,
        "own_units": like.own_units,
        "chosen": {**thresholds, "network": 0.0},
        "notes": list(notes),
        "sites": sites,
        "tau": pathways.scaffold.tau,
    }
    return {
        "facts": np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8),
        "choice": np.array(astuple(Choice(0.0))),
        **pathways.state(),
    }
