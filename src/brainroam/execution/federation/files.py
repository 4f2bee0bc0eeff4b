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
from brainroam.data.target import TWO, TWO_CLASSES, Target
from brainroam.errors import SummaryError, UsageError, listed, visible
from brainroam.execution.federation.schema import ARRAYS as ARRAYS
from brainroam.execution.federation.schema import REQUEST as REQUEST
from brainroam.execution.federation.schema import SUMMARY as SUMMARY
from brainroam.execution.federation.schema import TOLD_OF_BLOCK, require_schema
from brainroam.utils.files import atomic_write, content_hash, expand_home, read_regular
from brainroam.utils.parameters import Share, require_settings

MAGIC = b"brainroam-federation"
SCHEMA = 1
LARGEST = 2**31
OF_ANY_NAME = (TWO,)  # kinds whose columns and classes may be called otherwise at every site
#: Entries of the header that are left out where they are empty.
MAY_LACK = ("keys", "sums")


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
    keys : dict of str to str
        Of a first summary the hospital's public key, of a request those of all hospitals and of the pool ("").
    sums : str
        Of a third request under masks: the second one whose answers it adds up.
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
    keys: dict[str, str] = field(default_factory=dict)
    sums: str = ""
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
        """SHA-256 of the arrays, also of those that were let go."""
        if "_digest" in vars(self):
            return str(vars(self)["_digest"])
        return hashlib.sha256(b"".join(self.arrays[name].tobytes() for name in sorted(self.arrays))).hexdigest()

    def without_sums(self) -> "Message":
        """The same without the sums under masks, which are large: of all hospitals they would fill the memory."""
        if "masked" not in self.arrays:
            return self
        light = replace(self, arrays={name: value for name, value in self.arrays.items() if name != "masked"})
        vars(light)["_digest"] = self.digest
        return light

    @property
    def identity(self) -> str:
        """What tells one request from another."""
        told = [self.round, self.digest, self.sites, self.request]
        return content_hash([*told, self.keys, self.sums] if self.keys else told)

    @property
    def predicts(self) -> Target:
        """What is predicted."""
        return Target.of_description(self.target)

    def write(self, path: str | Path) -> Path:
        """Write the file, whole or not at all."""
        header = {
            name: value
            for name, value in asdict(self).items()
            if name not in ("arrays", "path") and (value or name not in MAY_LACK)
        }
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
    if target.kind in OF_ANY_NAME:
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
        require_schema(message, what)
    except (SafetensorError, ValueError, TypeError, LookupError, AttributeError, RecursionError, UsageError) as error:
        raise SummaryError(f"{path} is not a whole {what}: {error}") from error
    return Message(**{**vars(message), "path": path})


def _behind(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """The arrays whose names have this prefix, by the rest of their names."""
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
