"""What may stand in a model folder: one schema of types, shapes and finite numbers, checked before anything is used.

A checksum shows that a file is whole, not that it makes sense: anybody can write a model. What is not of this schema is
refused by the name of the entry.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from brainroam.data.target import Target
from brainroam.errors import ModelFileError, UsageError
from brainroam.methods.registry import method_info
from brainroam.utils.model_files import part

#: By the last part of their names: arrays by which people are multiplied, shifted or judged, which are finite; and
#: those in which NaN stands for what nobody has or what is not promised.
FINITE = (
    "coef",
    "weight",
    "weights",
    "intercept",
    "bias",
    "scale",
    "calibration",
    "shifts",
    "skip",
    "fill",
    "whitening",
)
MAY_LACK = ("centre", "sets", "choice", "familiarity")


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")


class _Regions(_Strict):
    name: str
    n_regions: int = Field(ge=1)
    labels_sha256: str


class _Training(_Strict):
    manifest_hash: str = ""
    n_people: int = Field(ge=0)
    sites: list[str]
    prepared: list[str] = []
    sketch: str = ""


class _Target(_Strict):
    name: str
    kind: str
    classes: list[str]
    transform: str = ""


class _Header(_Strict):
    method: str
    tuning: str
    fixed: dict[str, Any]
    configuration: dict[str, Any]
    seed: int | None
    notes: list[str]
    classes: list[Any]
    target: _Target
    covariates: list[str]
    inner_sites: list[dict[str, Any]]
    training: _Training
    measure: str
    atlas: _Regions
    blocks: dict[str, _Regions] = {}
    columns: dict[str, list[str]] = {}
    familiarity: dict[str, float] = {}


def require_header(header: Mapping[str, Any], path: object) -> None:
    """Refuse a header of an unknown method, or with an entry that is missing or of another type."""
    try:
        method_info(str(header.get("method")))
    except UsageError as error:
        raise ModelFileError(f"{path} does not hold a whole model that this version knows: {error}") from error
    try:
        _Header.model_validate(dict(header))
        Target.of_description(header["target"])
    except ValidationError as error:
        first = error.errors()[0]
        entry = ".".join(map(str, first["loc"]))
        raise ModelFileError(f"{path} does not hold a whole model: {entry}: {first['msg']}") from error
    except (LookupError, TypeError, ValueError) as error:
        raise ModelFileError(f"{path} does not hold a whole model: target: {error!r}") from error


def require_arrays(arrays: dict[str, np.ndarray], path: object) -> None:
    """Refuse an array of another type than methods write, or with a number that is none.

    >>> require_arrays({"model.coef": np.array([1.0, np.nan])}, "model")
    Traceback (most recent call last):
    brainroam.errors.ModelFileError: model does not hold a whole model: array model.coef: it holds numbers that are none
    """
    for name, values in arrays.items():
        last = name.rpartition(".")[2]
        if last not in (*FINITE, *MAY_LACK):
            continue
        if values.dtype.kind != "f" or values.dtype.itemsize < 4:
            wrong = f"it is of type {values.dtype}"
        elif np.isinf(values).any() or (last in FINITE and np.isnan(values).any()):
            wrong = "it holds numbers that are none"
        elif last == "centre" and not _fits(values, part(arrays, name.removesuffix(f".{last}"))):
            wrong = "it is not one mean for each feature that the model weighs"
        else:
            continue
        raise ModelFileError(f"{path} does not hold a whole model: array {name}: {wrong}")


def _fits(centre: np.ndarray, beside: Mapping[str, np.ndarray]) -> bool:
    """Whether each feature with a weight has a mean; means of matrices are of another shape than their features."""
    coef = beside.get("coef")
    if coef is None or "whitening" in beside:
        return True
    return centre.shape == coef.shape[:1] and not np.any(coef[np.isnan(centre)] != 0)
