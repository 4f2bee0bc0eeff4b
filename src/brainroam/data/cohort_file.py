"""A cohort in one ``.npz`` file: arrays and JSON, nothing executable, found damaged by its manifest hash."""

import json
import zipfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from brainroam.data.atlas import Atlas
from brainroam.data.features import Block, Features
from brainroam.data.target import Target
from brainroam.errors import ReaderError
from brainroam.utils.files import atomic_write

if TYPE_CHECKING:
    from brainroam.data.cohort import Cohort

SCHEMA = 1
DAMAGE = OSError, ValueError, LookupError, TypeError, AttributeError, EOFError, RecursionError, zipfile.BadZipFile


def save_cohort(cohort: "Cohort", path: str | Path) -> Path:
    """Write a cohort; an interrupted write leaves no file."""
    (name, main), *others = (cohort.blocks or {cohort.block_name: cohort}).items()
    table, atlas = cohort.table, cohort.atlas
    header = {
        "schema": SCHEMA,
        "table": to_columns(table),
        "categories": list(table.select_dtypes("category").columns),
        "excluded": to_columns(cohort.excluded),
        "atlas": atlas.described(),
        "manifest_hash": cohort.manifest_hash,
        "covariates": cohort.covariate_names,
        "nuisance": cohort.nuisance_names,
        "prepared": cohort.prepared,
        "target": cohort.target.described(),
        "measure": cohort.measure,
        "name": name,
        "blocks": {name: _describe_block(block) for name, block in others},
    }
    arrays = {f"block{k}": np.concatenate(block.series) for k, (_, block) in enumerate(others)}
    arrays["coords"] = np.zeros((0, 3)) if atlas.coords is None else atlas.coords
    arrays["data"] = np.concatenate(main.series)
    arrays["header"] = np.array(json.dumps(header, default=str))
    with atomic_write(Path(path)) as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]  # no array is called allow_pickle
    return Path(path)


def _describe_block(block: "Cohort") -> dict[str, Any]:
    heights = [len(x) for x in block.series]
    return {"measure": block.measure, "atlas": block.atlas.described(), "heights": heights}


def load_cohort(cls: "type[Cohort]", path: str | Path, mapped: bool = False) -> "Cohort":
    """Read what `save_cohort` wrote, checking its manifest hash; ``mapped`` leaves measurements on disk until used."""
    try:
        with np.load(path, allow_pickle=False) as file:
            read = partial(_map_member, Path(path)) if mapped else file.__getitem__
            header, data, coords = json.loads(str(file["header"])), read("data"), file["coords"]
            further = [read(f"block{k}") for k in range(len(header["blocks"]))]
        for values in (data, *further):
            values.setflags(write=False)  # nobody else has them: the cohort need not copy what it is given
        if header["schema"] != SCHEMA:
            raise ReaderError(f"{path} has cohort schema {header['schema']}; this version reads {SCHEMA}")
        table = pd.DataFrame(header["table"]).astype(dict.fromkeys(header["categories"], "category"))
        measure = header["measure"]
        if measure == "series":
            arrays = np.split(data, np.cumsum(table["n_timepoints"].to_numpy(dtype=int))[:-1])
        else:
            arrays = list(data.reshape(len(table), -1, data.shape[1]))
        cohort = cls(
            arrays,
            table,
            Atlas.of_description(header["atlas"], coords if len(coords) else None),
            pd.DataFrame(header["excluded"], columns=["subject", "reason"]),
            covariates=header["covariates"],
            prepared=header["prepared"],
            target=Target.of_description(header["target"]),
            measure=measure,
        )
        for (name, described), values in zip(header["blocks"].items(), further, strict=True):
            arrays = np.split(values, np.cumsum(described["heights"])[:-1])
            block = Block(described["measure"], Atlas.of_description(described["atlas"], None), Features(arrays))
            cohort = cohort.with_further(name, block, header["name"])
        cohort = cohort.using(header["covariates"], header["nuisance"])
    except DAMAGE as error:
        if isinstance(error, ReaderError):
            raise
        raise ReaderError(f"{path} is not a readable brainroam cohort: {error}") from error
    if cohort.manifest_hash != header["manifest_hash"]:
        raise ReaderError(f"{path} is damaged: its content does not match its manifest hash; save it again")
    return cohort


def _map_member(path: Path, name: str) -> np.ndarray:
    """An array of an archive as it lies in the file; one that is compressed is read."""
    with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as member:
        facts = archive.getinfo(f"{name}.npy")
        version = np.lib.format.read_magic(member)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, by_column, dtype = read_header(member)
        before = member.tell()
    if facts.compress_type != zipfile.ZIP_STORED or by_column or dtype.hasobject:
        with np.load(path, allow_pickle=False) as file:
            return file[name]
    with open(path, "rb") as file:
        file.seek(facts.header_offset + 26)  # of the member's own header, which may differ from that in the directory
        lengths = np.frombuffer(file.read(4), "<u2")
    return np.memmap(path, dtype, "r", facts.header_offset + 30 + int(lengths.sum()) + before, shape)


def to_columns(table: pd.DataFrame) -> dict[str, list]:
    """JSON-ready columns; missing values become null."""
    return {str(name): [None if pd.isna(v) else v for v in column.tolist()] for name, column in table.items()}
