"""Models on disk: a folder with ``model.json`` (what it is) and ``model.safetensors`` (what it learned).

A third file, ``ro-crate-metadata.json``, tells archives where the model comes from; nothing is read from it.

Nothing in either file can be executed. Every byte counts: ``model.json`` states the SHA-256 of the arrays and of
itself, so a model that was cut short, edited or mixed up with another is refused by name instead of predicting
something. A model is written beside its place and moved there whole.
"""

import hashlib
import json
import os
import platform
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors import numpy as safetensors

from brainroam import __version__
from brainroam.errors import BrainroamError, ModelFileError, listed
from brainroam.utils.crate import CRATE, command_line, write_crate
from brainroam.utils.files import exchange, expand_home, part_beside, read_regular
from brainroam.utils.optional import versions

SCHEMA = 1
HEADER, ARRAYS = "model.json", "model.safetensors"
PACKAGES = ("numpy", "scipy", "scikit-learn", "torch", "safetensors")
LARGEST_HEADER, LARGEST_ARRAYS = 2**26, 2**32  # bytes; ours have some kB and some MB
NOTICE = (
    "Personal data: whoever holds this model and a scan can tell better than chance whether the person was in its "
    "training set and, if so, what it predicts of them (a diagnosis, an age). "
    "Share it only with those who may have the data it was made from."
)
#: What a likelihood-ratio attack finds out about who was in a model of so many people (benchmarks/membership.py): of
#: two people, one of whom was, how often it names the right one; and whom it finds while accusing 1 % of the others.
MEMBERSHIP = {
    "ensemble": {100: (0.96, 0.49), 400: (0.80, 0.12), 1000: (0.66, 0.04)},
    "scaffold": {100: (0.89, 0.24), 400: (0.70, 0.05), 1000: (0.58, 0.02)},
}
BLANK = "0" * 64  # stands for the checksum of model.json while that checksum is taken


def save_model(path: str | Path, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Path:
    """Write a model folder; a model that stands there is replaced, anything else is left alone.

    Parameters
    ----------
    path : str or Path
        The folder.
    header : dict
        What the model is: JSON values, numpy scalars and tuples. Schema, package versions, checksums and a notice that
        it is personal data are added.
    arrays : dict of str to ndarray
        What it learned.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp()) / "model"
    >>> _ = save_model(folder, {"kind": "example"}, {"weights": np.arange(3.0)})
    >>> header, arrays = load_model(folder)
    >>> header["kind"], arrays["weights"].tolist()
    ('example', [0.0, 1.0, 2.0])
    """
    path = expand_home(path).resolve()
    if path.exists() and not _may_be_replaced(path):
        raise ModelFileError(f"{path} exists and is not a model; it was left as it is: choose another name")
    tensors = safetensors.save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    content = _add_checksum(
        {**header, "notice": NOTICE, "schema": SCHEMA, "versions": _versions(), "arrays_sha256": _sha256(tensors)}
    )
    try:
        with _replace_when_complete(path) as folder:
            _write(folder / HEADER, content)
            _write(folder / ARRAYS, tensors)
            _describe(folder, header)
    except OSError as error:
        raise BrainroamError(f"cannot write the model {path}: {error.strerror or error}") from error
    return path


def load_model(path: str | Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read a model folder and check every byte of it; other files in it are ignored with a warning."""
    folder = expand_home(path)
    try:
        content = read_regular(folder / HEADER, LARGEST_HEADER)
        tensors = read_regular(folder / ARRAYS, LARGEST_ARRAYS)
    except OSError as error:
        raise ModelFileError(f"{folder} is not a model: {error.filename} cannot be read ({error.strerror})") from error
    header = _check_checksum(content, folder)
    if _sha256(tensors) != header.get("arrays_sha256"):
        raise ModelFileError(f"{folder / ARRAYS} is damaged: it is not what {HEADER} describes; save the model again")
    extra = sorted(item.name for item in folder.iterdir() if item.name not in (HEADER, ARRAYS, CRATE))
    if extra:
        warnings.warn(f"not part of the model {folder}, ignored: {listed(extra)}", stacklevel=2)
    try:
        return header, safetensors.load(tensors)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise ModelFileError(f"{folder / ARRAYS} cannot be read: {error}") from error


def membership_lines(method: str, n_people: int, target: str = "diagnosis") -> list[str]:
    """Two lines on what a model of so many people reveals about membership, for whoever is responsible for the data.

    A pooled model reads the ``"scaffold"`` alone; core holds what the ensemble holds.
    Only models of a diagnosis were attacked; of another ``target`` the lines say so.

    >>> len(membership_lines("core", 300))
    2
    >>> "models of age were not attacked" in membership_lines("core", 300, "age")[0]
    True
    """
    ending = "and that person's diagnosis is told."
    if target != "diagnosis":
        ending = f"with a diagnosis as the target; models of {target} were not attacked, so expect as much."
    measured = MEMBERSHIP["scaffold" if method == "scaffold" else "ensemble"]
    size = max([size for size in measured if size <= n_people], default=min(measured))
    named, accused = measured[size]
    return [
        "The model is personal data: with it and scans, of two people one of whom was in it the right one is named "
        f"{named:.0%} of the time (50 % is chance; measured at {size:,} people), {ending}",
        f"Accusing 1 % of the others wrongly, {accused:.0%} of those in it are found. Share it only with those who may "
        "have the data (docs/security.md, docs/federation.md).",
    ]


def _add_checksum(header: dict[str, Any]) -> bytes:
    """The header as JSON with its own SHA-256."""
    content = json.dumps(
        {**header, "sha256": BLANK}, indent=2, sort_keys=True, allow_nan=False, default=_plain
    ).encode()
    return content.replace(BLANK.encode(), _sha256(content).encode())


def _check_checksum(content: bytes, folder: Path) -> dict[str, Any]:
    """The header that `_add_checksum` wrote; an error for an unknown schema or a changed byte."""
    try:
        header = json.loads(content)
        schema, seal = header["schema"], header["sha256"].encode()
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise ModelFileError(f"{folder / HEADER} is damaged or not a model's: {error!r}") from error
    if schema != SCHEMA:
        raise ModelFileError(
            f"{folder} has model schema {schema}, this version reads {SCHEMA}: it was saved by another brainroam"
        )
    if _sha256(content.replace(seal, BLANK.encode())).encode() != seal:
        raise ModelFileError(f"{folder / HEADER} was changed after it was written; save the model again")
    return header


def _may_be_replaced(path: Path) -> bool:
    """Whether a folder is empty or holds a model of ours."""
    if not path.is_dir() or not any(path.iterdir()):
        return path.is_dir()
    return (path / HEADER).is_file() and b"arrays_sha256" in read_regular(path / HEADER, LARGEST_HEADER)


def _refuse_links(path: Path) -> None:
    """Refuse links in a folder whose model is replaced: other files are kept, what a link points to is not."""
    links = sorted(str(item.relative_to(path)) for item in path.rglob("*") if item.is_symlink())
    if links:
        raise ModelFileError(
            f"{path} holds links to other places: {listed(links)}; remove them, or choose another name"
        )


@contextmanager
def _replace_when_complete(path: Path) -> Iterator[Path]:
    """A new folder beside ``path`` that replaces it once complete; other files of the old one are kept.

    Where the system can exchange two folders in one step, there is a whole model at ``path`` at any moment.
    """
    working_dir = part_beside(path)
    new, old = working_dir / "new", working_dir / "old"
    working_dir.mkdir(0o700, parents=True)
    try:
        new.mkdir()
        yield new
        if path.exists():
            _refuse_links(path)
            for name in (HEADER, ARRAYS):
                if (path / name).exists():
                    shutil.copymode(path / name, new / name)
            shutil.copytree(path, new, ignore=shutil.ignore_patterns(HEADER, ARRAYS, CRATE), dirs_exist_ok=True)
            if exchange(new, path):
                return
            path.rename(old)
        new.rename(path)
    finally:
        if old.exists() and not path.exists():
            old.rename(path)
        shutil.rmtree(working_dir, ignore_errors=True)


def _write(path: Path, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _versions() -> dict[str, str]:
    return {"brainroam": __version__, "python": platform.python_version(), **versions(PACKAGES)}


def _describe(folder: Path, header: dict[str, Any]) -> None:
    """The crate of a model that says what it was trained on."""
    if "training" not in header:
        return
    training = header["training"]
    data = {
        "manifest_hash": training["manifest_hash"],
        "n_people": training["n_people"],
        "n_sites": len(training["sites"]),
    }
    what = f"{header['method']}, fitted on {data['n_people']} people of {data['n_sites']} sites."
    commands, today = [command_line()], date.today().isoformat()
    write_crate(folder, "Model of brainroam", what, data, _versions(), commands, today, (HEADER, ARRAYS))


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _plain(value: Any) -> Any:
    """JSON for numpy scalars."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{value!r} has no place in a model's header")


def part(state: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """The arrays of one part of a state, by their names within it.

    >>> part({"model.coef": np.ones(1), "calibration": np.zeros(2)}, "model")
    {'coef': array([1.])}
    """
    return {name.removeprefix(f"{prefix}."): value for name, value in state.items() if name.startswith(f"{prefix}.")}
