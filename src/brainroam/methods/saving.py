"""Fitted methods on disk: any registered method, with what it was trained on and how it is calibrated."""

import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from brainroam.data.atlas import Atlas, anonymous_atlas
from brainroam.data.cohort import Cohort
from brainroam.data.measurements import DROPPED, NOT_SYMMETRIC, READ_AS, TURNED
from brainroam.data.prepare import CUT, crop_of, cut_where_longer
from brainroam.data.triangles import WERE_READ
from brainroam.errors import DataError, ModelFileError, UsageError, listed, visible, warn_user
from brainroam.methods.base import MEASURED
from brainroam.methods.blocks import BlockSum
from brainroam.methods.familiarity import Familiarity, sketch
from brainroam.methods.model_schema import require_arrays, require_header
from brainroam.methods.registry import method_info
from brainroam.methods.tuning import TunedMethod
from brainroam.utils.model_files import load_model, save_model

KIND = "method"


def save_method(path: str | Path, method: TunedMethod, cohort: Cohort, seed: int = 0) -> Path:
    """Write a method that was fitted on this cohort with this seed as a model folder.

    >>> import tempfile, brainroam
    >>> cohort = brainroam.make_cohort(n_sites=3, n_per_site=8, n_rois=8)
    >>> fitted = TunedMethod(method_info("fc-ridge"), "default").fit(cohort)
    >>> folder = save_method(Path(tempfile.mkdtemp()) / "model", fitted, cohort)
    >>> again, header = load_method(folder, cohort)
    >>> header["training"]["n_people"], bool((again.probability(cohort) == fitted.probability(cohort)).all())
    (24, True)
    """
    method.learn_familiarity(cohort)
    return write_method(path, method, describe_method(method, cohort, seed, cohort.target.class_labels))


def describe_method(method: TunedMethod, cohort: Cohort, seed: int, classes: Sequence) -> dict[str, Any]:
    """The header of the model folder of a method that was fitted on this cohort.

    ``classes`` are the user's names of controls and cases.
    """
    blocks = {name: cohort.block(name) for name in method.model_.members} if isinstance(method.model_, BlockSum) else {}
    tables = blocks or {cohort.block_name: cohort}
    return {
        "kind": KIND,
        "method": method.info.name,
        "tuning": method.tuning,
        "fixed": method.fixed,
        "configuration": method.configuration_,
        "seed": seed,
        "notes": list(method.notes_),
        "classes": list(classes),
        "target": cohort.target.described(),
        "covariates": list(cohort.covariate_names),
        "inner_sites": method.inner_sites_.to_dict("records"),
        "training": {
            "manifest_hash": cohort.manifest_hash,
            "n_people": cohort.n_people,
            "sites": cohort.sites,
            "prepared": list(cohort.prepared),
            "sketch": sketch(cohort),
        },
        "measure": cohort.measure,
        "atlas": cohort.atlas.identity,
        "blocks": {name: one.atlas.identity for name, one in blocks.items()},
        "columns": {name: list(one.atlas.labels) for name, one in tables.items() if one.measure == "table"},
        "familiarity": {} if method.familiarity_ is None else method.familiarity_.limits,
    }


def write_method(path: str | Path, method: TunedMethod, header: dict[str, Any]) -> Path:
    """Write a model folder: the header and the arrays of the method."""
    if method.info.estimator is not None:
        raise UsageError(
            f"{method.info.name} is not of brainroam, so arrays do not make it again; keep it with skops or joblib"
        )
    method.info.require_savable()
    familiarity = {} if method.familiarity_ is None else method.familiarity_.state()
    return save_model(path, header, {**method.state(), **familiarity})


def blocks_as_in_training(header: dict[str, Any], cohort: Cohort) -> Cohort:
    """New people with their blocks called as in training, the model's own first.

    Data whose own measurement has no name are the model's own. A block of another name is the only one of the model
    whose regions or columns it has; what that does not tell stays as it is.
    """
    named = header.get("blocks", {})
    if not named:
        return cohort
    here = list(cohort.blocks) or [cohort.block_name]
    order = [name for name, _ in header["configuration"]["blocks"]]
    own = next((name for name in order if named[name] == header["atlas"]), None)
    names = {name: name for name in here}
    if own is not None and own not in here and cohort.block_name == cohort.measure not in named:
        names[cohort.block_name] = own
    lacking, others = set(named) - set(names.values()), [name for name in here if names[name] not in named]
    has = {name: cohort.block(name).atlas.identity["labels_sha256"] for name in others}
    for wanted in lacking:
        alike = [name for name in others if has[name] == named[wanted]["labels_sha256"]]
        rivals = [name for name in lacking if named[name]["labels_sha256"] == named[wanted]["labels_sha256"]]
        if len(alike) == len(rivals) == 1:
            names[alike[0]] = wanted
    first = [name for name in here if names[name] == own]
    names = {name: names[name] for name in [*first, *(name for name in here if name not in first)]}
    for name in here:
        if name not in (names[name], cohort.measure):
            whose = (
                f"of the model, which has the same {'columns' if cohort.block(name).measure == 'table' else 'regions'}"
            )
            warn_user(f"the block {name!r} of these people is read as {names[name]!r} {whose}")
    return cohort if list(names.items()) == [(name, name) for name in here] else cohort.with_blocks_called(names)


def require_blocks(header: dict[str, Any], cohort: Cohort) -> None:
    """An error unless new people have every block that the model reads."""
    here = list(cohort.blocks) or [cohort.block_name]
    lacking = [name for name in header.get("blocks", {}) if name not in here]
    if lacking:
        raise DataError(
            f"the model reads the blocks {listed(sorted(header['blocks']))}, and these data have {listed(here)}: give "
            f"{listed(lacking)} by that name (--block {lacking[0]}=PATH; blocks: in a study file; a dictionary in "
            "Python). Some people may lack a block, not all"
        )


def prepared_as_in_training(header: dict[str, Any], cohort: Cohort) -> Cohort:
    """New people prepared as the training people were.

    Blocks have the names of the training, longer scans are cut, and other differences are warned of.

    A covariate of the training that nobody here has is unknown for everybody.

    >>> import brainroam
    >>> cohort = brainroam.make_cohort(n_sites=2, n_per_site=4, n_rois=8)
    >>> trained = {"training": {"prepared": ["every scan was cut to its first 100 volumes"]}}
    >>> prepared_as_in_training(trained, cohort).table["n_timepoints"].max()
    np.int64(100)
    """
    cohort = blocks_as_in_training(header, cohort)
    absent = [name for name in header.get("covariates", []) if name not in cohort.table]
    if absent:
        cohort = cohort.with_columns(pd.DataFrame(np.nan, index=range(len(cohort)), columns=absent))
    prepared = header.get("training", {}).get("prepared", [])
    steps = [visible(str(step)) for step in prepared] if isinstance(prepared, list) else []
    crop, here = crop_of(steps), crop_of(cohort.prepared)
    if crop is not None and here is None:
        cohort = cut_where_longer(cohort, crop)
        warnings.warn(f"as in training, scans longer than {crop} were cut to them", stacklevel=2)
    elif crop != here:
        trained = f"to {crop}" if crop else "not at all"
        warnings.warn(f"scans are cut to {here} here, in training {trained}", stacklevel=2)
    # Which columns were read is the model's own business, whatever the files are called; correlations are correlations
    # whether they came as Fisher's z or not, and whose matrices were not symmetric says nothing about others.
    of_others = READ_AS, TURNED, NOT_SYMMETRIC, WERE_READ
    steps = [step for step in steps if not step.startswith((CUT, DROPPED)) and not any(w in step for w in of_others)]
    other = [step for step in steps if step not in cohort.prepared]
    if other:
        warnings.warn(f"the series of the training were prepared otherwise: {'; '.join(other)}", stacklevel=2)
    return cohort


def read_header(path: str | Path) -> dict[str, Any]:
    """The header of a model folder, of which every entry has its type."""
    return _read_model(path)[0]


def _read_model(path: str | Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    header, arrays = load_model(path)
    if header.get("kind") != KIND:
        raise ModelFileError(f"{path} holds a {header.get('kind')!r}, not a model of brainroam")
    require_header(header, path)
    require_arrays(arrays, path)
    return header, arrays


def load_method(path: str | Path, cohort: Cohort | None = None) -> tuple[TunedMethod, dict[str, Any]]:
    """Read a model folder: the method and its header; an error where it is not for this cohort."""
    header, arrays = _read_model(path)
    try:
        method = TunedMethod(method_info(header["method"]), header["tuning"], **header["fixed"])
        if cohort is not None:
            cohort = blocks_as_in_training(header, cohort)
            require_regions(header, cohort)
        method.configuration_, method.notes_ = header["configuration"], header["notes"]
        method.load_state(arrays)
        readout = method.readout_
        readout.inner_sites = pd.DataFrame(header["inner_sites"], columns=list(readout.measures))
        if "familiarity" in arrays:  # a pooled model knows nobody
            limits = {str(name): float(value) for name, value in header["familiarity"].items()}
            method.familiarity_ = Familiarity(limits, arrays["familiarity"], arrays.get("familiarity_scale"))
        if cohort is not None:
            with suppress(DataError):  # about these people, too
                _require_use(method, cohort.subset([0]))
        return method, header
    except DataError:  # about these people, not about the model
        raise
    except (UsageError, LookupError, TypeError, ValueError, ArithmeticError, RuntimeError, AttributeError) as error:
        raise ModelFileError(f"{path} does not hold a whole model that this version knows: {error}") from error


def _require_use(method: TunedMethod, first: Cohort) -> None:
    """Score one person, so that arrays of shapes that do not match are an error here and not later."""
    if not np.isfinite(method.score(first)).all():
        raise ValueError("it scores people by numbers that are none")
    if method.familiarity_ is not None:
        method.familiarity_.flags(first)


def require_regions(header: dict[str, Any], cohort: Cohort) -> None:
    """An error unless the data have the model's regions; of a model of bare arrays only their number is known."""
    require_blocks(header, cohort)
    if (trained := header["measure"]) != cohort.measure:
        raise DataError(
            f"the model was trained on {MEASURED[trained]}, but these people have {MEASURED[cohort.measure]}"
        )
    for name, trained_on in header.get("blocks", {}).items():
        if name != cohort.block_name:
            _require_same_block(name, trained_on, header["columns"].get(name), cohort.block(name))
    n_rois = header["atlas"]["n_regions"]
    nameless = anonymous_atlas(n_rois).identity["labels_sha256"]
    here = cohort.atlas.identity["labels_sha256"]
    if header["atlas"]["labels_sha256"] == nameless != here and n_rois == cohort.n_rois:
        warnings.warn(
            f"the model was fitted on arrays, so its {n_rois} regions are taken for those of {cohort.atlas.name!r}, in "
            "their order; clf.save(path, atlas) keeps their names",
            stacklevel=3,
        )
    else:
        require_atlas(header, cohort.atlas)


def require_atlas(header: dict[str, Any], atlas: Atlas) -> None:
    """An error unless the data have the regions, in the order, that the model was made for."""
    made_for, here = header["atlas"], atlas.identity
    if made_for["labels_sha256"] != here["labels_sha256"]:
        raise ModelFileError(
            f"the model was made for the {made_for['n_regions']} regions of {made_for['name']!r}, the data have the "
            f"{here['n_regions']} of {atlas.name!r}, by other names or in another order; name the atlas, or use other "
            "data"
        )


def _require_same_block(name: str, trained: dict[str, Any], columns: Sequence[str] | None, block: Cohort) -> None:
    """An error unless a further block has the regions, or columns, that the model was trained on."""
    here = block.atlas.identity
    if here["labels_sha256"] == trained["labels_sha256"]:
        return
    lacking = [column for column in columns or [] if column not in block.atlas.labels]
    seen = f"lacks {listed(lacking)}" if lacking else f"has {here['n_regions']}, by other names or in another order"
    what = f"{trained['n_regions']} {'columns' if block.measure == 'table' else 'regions'}"
    raise ModelFileError(f"the model was trained on {what} of the block {name!r}; this one {seen}")
