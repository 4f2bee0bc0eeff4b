"""Summaries and requests on disk: one file, plain arrays and one JSON header, nothing that can be executed.

    brainroam-federation 1 <SHA-256 of all that follows>
    <safetensors: named arrays, and the header as its metadata>

The checksum shows that a file is whole, not who wrote it. The header has a fixed set of entries and the arrays fixed
names and shapes; a file with anything else in it is refused. No date, id or path has a place in it.

Of several blocks the arrays of the first are called ``0/counts``, those of the second ``1/counts``, and the header
names the blocks; each is checked like a file of its own. A third summary is of the sum of their scores, and says how
well people are ordered ``without`` each block.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import PositiveFloat
from safetensors import SafetensorError
from safetensors import numpy as safetensors

from brainroam import __version__
from brainroam.core.connectivity import EdgeKind
from brainroam.data.atlas import Atlas
from brainroam.data.target import KINDS, ORDERED, TWO_CLASSES, Target
from brainroam.errors import CONTROL, SummaryError, UsageError, listed, visible
from brainroam.utils.files import atomic_write, expand_home, read_regular
from brainroam.utils.model_files import part
from brainroam.utils.parameters import Share, require_settings

MAGIC = b"brainroam-federation"
SCHEMA = 1
LARGEST = 2**31
SUMMARY, REQUEST = "site summary", "request"
MEASURED = ("series", "matrices", "table")  # what edges can be of; those of a table are its columns
#: Arrays of each kind of file, with how many dimensions they have.
ARRAYS: dict[tuple[str, int], dict[str, int]] = {
    (SUMMARY, 1): {
        **{"counts": 1, "covariate_mean": 2, "covariate_scatter": 2, "contrast": 1},
        **{"fit.intercept": 1, "fit.coef": 2, "fit.variance": 2, "fit.centre": 1, "fit.n_people": 0},
    },
    (SUMMARY, 2): {"counts": 1, "edges": 1, "factor": 2, "with_covariates": 2, "sums": 2},
    (SUMMARY, 3): {"counts": 1, "auc": 0, "mean": 1, "square": 1, "bins": 2},
    (REQUEST, 2): {"edges": 1, "centre": 1, "priority": 1},
    (REQUEST, 3): {},
}
#: What is different where the target is a number, or of several classes.
OF_NUMBERS = {1: {"target": 1}, 3: {"counts": 1, "mean": 1, "moments": 2}}
OF_ORDERS = {1: {"steps": 2}}
OF_CLASSES = {1: {"contrast": 2}, 3: {"counts": 1, "auc": 1, "auc_variance": 1, "mean": 2, "scatter": 3}}
ABSORBED = re.compile(r"fit\.absorbed\.\d+\.(columns|kept|dropped|alpha)")
READING = re.compile(r"(\d{1,6})\.(edges|weights|mean_intercept|mean_coef|covariate_mean|covariate_std)")
TOLD_OF_BLOCK = ("atlas", "measure", "withheld")
POSITIONS = {"edges", "counts", "fit.n_people"}  # whole numbers; everything else is of decimal ones


@dataclass(frozen=True)
class Settings:
    """How edges, regressions and contrasts are computed; the same at all sites. Names as in `Recipe`."""

    kind: str = "log"
    shrinkage: Share = 0.7
    robust: bool = True
    huber_k: PositiveFloat = 1.345
    contrast: str = "mean"

    @property
    def edge_kind(self) -> EdgeKind:
        """Edges that are read."""
        return EdgeKind(self.kind, self.shrinkage, self.robust)


@dataclass(frozen=True, eq=False)
class Message:
    """A summary or a request.

    Attributes
    ----------
    what : {"site summary", "request"}
    round : int
        Which round it belongs to.
    settings, atlas, covariates, version, measure, target
        What has to be the same everywhere; edges of series and of matrices are not. "Edges" of a table are its columns.
        The classes of a ``target`` may differ: sites need not have all of several. Of an order only requests name them.
    site : str
        Whose summary it is; empty for a request.
    request : str
        What a third summary answers to.
    protection : dict
        epsilon, delta and clip, where noise was added.
    min_count : int
        Of a summary: how many people at least share whatever it tells.
    withheld : dict of str to str
        Of a summary: the covariates that it does not tell, or tells less exactly, and why; edges under ``"edges"``.
    sites : list of str
        Of a request: the sites that take part, by name.
    arrays : dict of str to ndarray
    blocks : dict of str to dict
        Of several blocks, the ``atlas``, ``measure`` and ``withheld`` of each by name, see `parts`.
    path : Path
        Where it was read from, for messages.
    """

    what: str
    round: int
    settings: Settings
    atlas: dict[str, Any]
    covariates: list[str]
    arrays: dict[str, np.ndarray]
    site: str = ""
    request: str = ""
    protection: dict[str, float] = field(default_factory=dict)
    min_count: int = 0
    withheld: dict[str, str] = field(default_factory=dict)
    sites: list[str] = field(default_factory=list)
    version: str = __version__
    measure: str = "series"
    target: dict[str, Any] = field(default_factory=TWO_CLASSES.described)
    blocks: dict[str, dict[str, Any]] = field(default_factory=dict)
    path: Path = Path()

    def __str__(self) -> str:
        return f"{self.path} (site {visible(self.site)}, round {self.round})"

    @property
    def parts(self) -> "dict[str, Message]":
        """The message of each block as one of its own, by name; of one measurement itself, as ""."""
        if not self.blocks:
            return {"": self}
        return {
            name: replace(self, **facts, blocks={}, arrays=_behind(self.arrays, f"{k}/"))
            for k, (name, facts) in enumerate(self.blocks.items())
        }

    def of_parts(self, parts: "Mapping[str, Message]") -> "Message":
        """This message with the blocks of these and their arrays, where they are not of the sum of all."""
        facts = {name: {key: getattr(own, key) for key in TOLD_OF_BLOCK} for name, own in parts.items()}
        of_each = {f"{k}/{key}": v for k, own in enumerate(parts.values()) for key, v in own.arrays.items()}
        first = next(iter(facts.values()))
        return replace(
            self, blocks=facts, arrays=self.arrays or of_each, atlas=first["atlas"], measure=first["measure"]
        )

    @property
    def own_units(self) -> bool:
        """Of a first summary: whether features have units of their own, so that the spread of each is told."""
        return "spread" in self.arrays

    @property
    def pairs(self) -> np.ndarray:
        """The two regions (M, 2) of every edge, or twice the column of a table."""
        return Atlas("", ("",) * self.atlas["n_regions"], columns=self.measure == "table").pairs

    @property
    def unit_of_reading(self) -> str:
        """What is counted: edges, or the columns of a table."""
        return "column" if self.measure == "table" else "edge"

    @property
    def digest(self) -> str:
        """SHA-256 of the arrays."""
        return hashlib.sha256(b"".join(self.arrays[name].tobytes() for name in sorted(self.arrays))).hexdigest()

    @property
    def predicts(self) -> Target:
        """What is predicted."""
        return Target.of_description(self.target)

    def write(self, path: str | Path) -> Path:
        """Write the file, whole or not at all."""
        header = {name: value for name, value in asdict(self).items() if name not in ("arrays", "path")}
        arrays = {name: np.asarray(array, order="C") for name, array in self.arrays.items()}
        body = safetensors.save(arrays, {"header": json.dumps(header, allow_nan=False)})
        path = expand_home(path)
        with atomic_write(path) as file:
            file.write(b"%s %d %s\n" % (MAGIC, SCHEMA, hashlib.sha256(body).hexdigest().encode()) + body)
        return path

    def require_same(self, other: "Message") -> None:
        """Refuse this file where it does not belong with another: name what differs."""
        ours, theirs = (
            {
                **asdict(m.settings),
                **{"covariates": m.covariates, "version": m.version},
                "target": target_in_words(m.predicts),
            }
            for m in (self, other)
        )
        for name in ours:
            if ours[name] != theirs[name]:
                raise SummaryError(
                    f"{self}: {name} is {ours[name]!r}, but {theirs[name]!r} in {other.path}; make it again alike"
                )
        if bool(self.blocks) != bool(other.blocks):
            raise SummaryError(
                f"{self} is of {listed(self.blocks) or 'one measurement'}, {other.path} of "
                f"{listed(other.blocks) or 'one'}; a site without some of several blocks names its own: --only NAME"
            )
        others = other.parts
        for name, own in self.parts.items():
            if name in others:
                own._require_same_features(others[name], f"block {name!r}: " if name else "")

    def _require_same_features(self, other: "Message", where: str) -> None:
        if self.measure != other.measure:
            raise SummaryError(f"{self}: {where}it is of {self.measure}, but of {other.measure} in {other.path}")
        if self.round == other.round == 1 and self.own_units != other.own_units:
            raise SummaryError(
                f"{self}: {where}its matrices are correlations, or those of {other.path} are, but not both"
            )
        if self.atlas["labels_sha256"] != other.atlas["labels_sha256"]:
            raise SummaryError(
                f"{self}: {where}it is of the {self.atlas['n_regions']} regions of {self.atlas['name']!r}, "
                f"{other.path} of the {other.atlas['n_regions']} of {other.atlas['name']!r}, by other names or in "
                "another order"
            )


def target_in_words(target: Target) -> str:
    """What has to be the same at all sites of a target: two classes may have any name.

    >>> target_in_words(Target.of_kind("age", "number", transform="log")), target_in_words(TWO_CLASSES)
    ('age (number, log)', 'two classes')
    """
    if target.is_two_classes:
        return target.kind
    return f"{target.name} ({', '.join(filter(None, (target.kind, target.transform)))})"


def read_message(path: str | Path, what: str) -> Message:
    """Read a file and check every byte of it; anything that is no whole file of this kind is refused by name."""
    path = expand_home(path)
    try:
        content = read_regular(path, LARGEST)
    except OSError as error:
        raise SummaryError(f"{path} cannot be read: {error.strerror or error}") from error
    first, _, body = content.partition(b"\n")
    words = first.split(b" ")
    if len(words) != 3 or words[0] != MAGIC:
        raise SummaryError(f"{path} is not a {what} of brainroam")
    if words[1] != b"%d" % SCHEMA:
        raise SummaryError(
            f"{path} has schema {visible(words[1].decode(errors='replace'))}; this version reads {SCHEMA}"
        )
    if hashlib.sha256(body).hexdigest().encode() != words[2]:
        raise SummaryError(f"{path} is damaged: its checksum does not match; have it sent again")
    try:
        arrays = safetensors.load(body)
        header = json.loads(json.loads(body[8 : 8 + int.from_bytes(body[:8], "little")])["__metadata__"]["header"])
        require_settings(what, Settings, header["settings"])
        message = Message(**{**header, "settings": Settings(**header["settings"])}, arrays=arrays)
        _require_schema(message, what)
    except (SafetensorError, ValueError, TypeError, LookupError, AttributeError, RecursionError, UsageError) as error:
        raise SummaryError(f"{path} is not a whole {what}: {error}") from error
    return Message(**{**vars(message), "path": path})


def _require_schema(message: Message, what: str) -> None:
    """A `ValueError` unless names, shapes and numbers are those of a file of this kind and round."""
    if message.blocks:
        _require_texts(replace(message, covariates=[*message.blocks], blocks={}))
        if any(set(facts) != set(TOLD_OF_BLOCK) for facts in message.blocks.values()):
            raise ValueError(f"of each block it tells {listed(TOLD_OF_BLOCK)}")
        if (what, message.round) != (SUMMARY, 3):
            parts = message.parts.values()
            if sum(len(own.arrays) for own in parts) != len(message.arrays):
                raise ValueError("it has arrays of a block that it does not name")
            for own in parts:
                _require_schema(own, what)
            return
    if message.what != what or (message.what, message.round) not in ARRAYS:
        raise ValueError(f"it is a {visible(message.what)} of round {visible(message.round)}")
    arrays, target = message.arrays, message.predicts
    _require_arrays(arrays, _expected_arrays(message), _optional_arrays(message))
    _require_texts(message)
    regions, d = int(message.atlas["n_regions"]), len(message.covariates)
    n_edges = regions if message.measure == "table" else regions * (regions - 1) // 2
    if what == SUMMARY:
        if not message.site:
            raise ValueError("it names no site")
        _require_numbers(arrays, n_edges, d, message.round, target)
        if "steps" in arrays:
            _require_steps(arrays, message.min_count)
        if message.blocks:
            _require_finite(arrays, {"without": (len(message.blocks),)})
    elif message.round == 2:
        _require_edges("edges", arrays["edges"], n_edges)
        _require_finite(arrays, dict.fromkeys(("centre", "priority"), arrays["edges"].shape))
    else:
        _require_readings(arrays, len(message.sites), n_edges, d, target)


def _expected_arrays(message: Message) -> dict[str, int]:
    """The arrays that a file of this kind, round and target has, with how many dimensions they have."""
    expected, target = ARRAYS[message.what, message.round], message.predicts
    if not target.is_two_classes and message.what == SUMMARY:
        special = (OF_NUMBERS if target.is_number else OF_CLASSES).get(message.round, {})
        special = special | (OF_ORDERS.get(message.round, {}) if target.kind == ORDERED else {})
        expected = special if message.round == 3 else expected | special
    return expected | {"without": 1} if message.blocks else expected  # the third summary, of the sum of all blocks


def _optional_arrays(message: Message) -> set[str]:
    """The arrays of a file that another one of its kind may lack."""
    if (message.what, message.round) == (SUMMARY, 1):
        return {name for name in message.arrays if ABSORBED.fullmatch(name) or name == "spread"}
    if (message.what, message.round) == (REQUEST, 3):
        return {name for name in message.arrays if READING.fullmatch(name)}
    return set()


def _require_arrays(arrays: Mapping[str, np.ndarray], expected: Mapping[str, int], optional: set[str]) -> None:
    """Refuse other names, dimensions or kinds of numbers than a file of this kind has."""
    if set(arrays) - optional != set(expected):
        unexpected = sorted(set(arrays) - optional ^ set(expected))
        raise ValueError(f"the arrays {visible(unexpected)} are missing, or have no place in it")
    for name, dimensions in expected.items():
        if arrays[name].ndim != dimensions:
            raise ValueError(f"{name} has {arrays[name].ndim} dimensions, not {dimensions}")
    for name, array in arrays.items():
        whole = name.rpartition(".")[2] in ("edges", "columns", "kept", "dropped") or name in POSITIONS
        if array.dtype.kind != ("i" if whole else "f"):
            raise ValueError(f"{name} holds {array.dtype} numbers, which have no place in it")


def _behind(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """The arrays whose names have this prefix, by the rest of their names."""
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}


def _require_texts(message: Message) -> None:
    """Names are text of one line, the sites of a request different ones, and what is withheld is told in words."""
    texts = [message.site, message.request, message.version, message.settings.kind, message.settings.contrast]
    texts += [message.atlas["name"], message.atlas["labels_sha256"], *message.withheld, *message.withheld.values()]
    texts += [message.target["name"], message.target["transform"], *message.target["classes"]]
    if message.target["kind"] not in KINDS or len(set(message.target["classes"])) < len(message.target["classes"]):
        raise ValueError(f"its target is no {listed(KINDS)}, or a class stands twice")
    names = [*message.covariates, *message.sites]
    if message.measure not in MEASURED:
        raise ValueError(f"edges are of {listed(MEASURED)}, not of {visible(message.measure)}")
    if not all(isinstance(text, str) for text in [*texts, *names]) or not isinstance(message.atlas["n_regions"], int):
        raise ValueError("names must be text")
    if any(CONTROL.search(text) for text in [*texts, *names]):
        raise ValueError("a line end or another control character stands in a name")
    if not all(isinstance(number, int | float) for number in [*message.protection.values(), message.min_count]):
        raise ValueError("a budget and a count are numbers")
    for what in (message.covariates, message.sites):
        if len(set(what)) < len(what):
            raise ValueError(f"{listed(what)}: a name stands twice")


def _require_edges(name: str, edges: np.ndarray, n_edges: int) -> None:
    if edges.ndim != 1 or not len(edges) or edges[0] < 0 or edges[-1] >= n_edges or (np.diff(edges) <= 0).any():
        raise ValueError(f"{name} must be different edges from 0 to {n_edges - 1}, ascending")


def _require_finite(arrays: dict[str, np.ndarray], shapes: dict[str, tuple[int, ...]]) -> None:
    for name, shape in shapes.items():
        if arrays[name].shape != shape or not np.isfinite(arrays[name]).all():
            raise ValueError(f"{name} must be {shape} finite numbers")


def _require_steps(arrays: dict[str, np.ndarray], min_count: int) -> None:
    """Whole numbers, each of enough people, that give the mean and spread which stand beside them."""
    steps, people = arrays["steps"].T
    if (steps != np.rint(steps)).any() or (np.diff(steps) <= 0).any() or people.min() < min_count:
        raise ValueError(f"steps must be different whole numbers, ascending, of at least {min_count} people each")
    mean = people @ steps / people.sum()
    moments = np.array([mean, people @ np.square(steps - mean)])
    if people.sum() != arrays["counts"][0] or not np.allclose(moments, arrays["target"]):
        raise ValueError("the people at each step are not those of its counts, or of its target")


def _require_readings(arrays: dict[str, np.ndarray], n_sites: int, n_edges: int, d: int, target: Target) -> None:
    """Each site's reading whole: what is read, and what is taken off before."""
    for position in {int(name.partition(".")[0]) for name in arrays}:
        if position >= n_sites:
            raise ValueError(f"there is no site for the reading {position}")
        reading = part(arrays, str(position))
        _require_edges(f"{position}.edges", reading["edges"], n_edges)
        size = len(reading["edges"])
        weights = (size, len(target.classes)) if target.is_classes else (size,)
        shapes = {"weights": weights, "mean_intercept": (size,), "mean_coef": (d, size)}
        _require_finite(reading, {**shapes, "covariate_mean": (d,), "covariate_std": (d,)})
        if (reading["covariate_std"] <= 0).any():
            raise ValueError(f"{position}.covariate_std must be above 0")


def _require_numbers(arrays: dict[str, np.ndarray], n_edges: int, d: int, round: int, target: Target) -> None:
    """Shapes that belong together; finite where something is always known."""
    size = len(arrays["edges"]) if round == 2 else 0
    k = len(target.classes) if target.is_classes else 2
    shapes: dict[str, tuple[int, ...]] = {
        "counts": (1,) if target.is_number else (k,),
        "covariate_mean": (k, d),
        "covariate_scatter": (d, d),
        "contrast": (k, n_edges) if target.is_classes else (n_edges,),
        "spread": (n_edges,),
        "fit.intercept": (n_edges,),
        "fit.coef": (d, n_edges),
        "fit.variance": (d, n_edges),
        "fit.centre": (d,),
        "factor": (len(arrays.get("factor", ())), size),
        "with_covariates": (d, size),
        "sums": (k, size),
        "target": (2,),
        "mean": (k, len(target.classes)) if target.is_classes else (2,),
        "square": (2,),
        "moments": (2, 2),
        "scatter": (k, k, k),
        "steps": (len(arrays.get("steps", ())), 2),
        "auc_variance": (2,),
    }
    if target.is_classes:
        shapes["auc"] = (k,)
    for name, shape in shapes.items():
        if name in arrays and arrays[name].shape != shape:
            raise ValueError(f"{name} has the shape {arrays[name].shape}, not {shape}")
    if round == 2:
        _require_edges("edges", arrays["edges"], n_edges)
    finite = ["counts", "covariate_scatter", "factor", "with_covariates", "auc", "mean", "square", "bins", "steps"]
    for name in [*finite, "target", "moments", "scatter", "auc_variance"]:
        if name in arrays and not np.isfinite(arrays[name]).all():
            raise ValueError(f"{name} holds numbers that are not finite")
    for name in ("contrast", "spread", "fit.intercept", "covariate_mean", "sums"):
        if name in arrays and np.isinf(arrays[name]).any():
            raise ValueError(f"{name} is infinite")
    for name in ("contrast", "spread", "fit.intercept"):
        if name in arrays and np.isnan(arrays[name]).mean() > 0.5:
            raise ValueError(f"{name} is unknown for most edges")
    # Later summaries of several classes are of all that there are at any site.
    every = round == 1 or not target.is_classes
    if arrays["counts"].min() < int(every) or not arrays["counts"].any():
        raise ValueError("it needs people of every class")
