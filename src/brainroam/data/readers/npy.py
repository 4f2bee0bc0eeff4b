"""BrainNetworkTransformer's ``abide.npy``, the file many graph-network projects start from.

A pickled dictionary: ``timeseires`` (so spelled; also ``timeseries``) of people x regions x time, ``label`` (0 =
control, 1 = patient) and ``site``. There are no ids, ages or sexes, and all series are cut to 100 volumes. A pickle can
run code when it is opened, so it is read only with ``allow_pickle=True``, and even then with nothing but NumPy's own
array constructors allowed.
"""

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from brainroam.data.cohort import Cohort
from brainroam.data.readers.participants import Participants, Request
from brainroam.data.readers.series import as_floats, refusing
from brainroam.data.readers.text import Series
from brainroam.data.readers.values import labels
from brainroam.errors import ReaderError

LOOKS_FOR = "a .npy file with a pickled dictionary of timeseires, label and site"
SERIES_KEYS = ("timeseires", "timeseries")
HARMLESS = {"_reconstruct", "scalar", "_frombuffer", "ndarray", "dtype"}


def recognises(path: Path) -> bool:
    """Whether it is a .npy file at all."""
    return path.is_file() and path.suffix == ".npy"


def read(path: Path, request: Request, *, allow_pickle: bool = False) -> Cohort:
    """Read ``abide.npy``. ``allow_pickle`` says that you trust where the file came from."""
    with refusing(path):
        content = _open(path, allow_pickle)
        key = next((key for key in SERIES_KEYS if key in content), None)
        if key is None or not {"label", "site"} <= set(content):
            raise ReaderError(f"{path} holds {', '.join(map(str, content))}; needed are timeseires, label and site")
        series = as_floats(np.asarray(content[key]), f"{path}: {key}")
        label, site = (pd.Series([_text(x) for x in np.ravel(content[name])], name=name) for name in ("label", "site"))
    if series.ndim != 3 or not len(series) == len(label) == len(site):
        raise ReaderError(
            f"{path} holds series of shape {series.shape} with {len(label)} labels and {len(site)} sites; "
            "needed are people x regions x time and one label and site each"
        )
    subject = pd.Series([f"{i:04d}" for i in range(len(series))])
    table = pd.DataFrame({"subject": subject, "site": site, **labels(label, {"0": 0, "1": 1})})
    roster = Participants(table, request, path)
    return roster.cohort(lambda name: Series(series[int(name)].T), hint=path.name, from_files=False)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


class _ArraysOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module.split(".")[0] == "numpy" and name in HARMLESS:
            return super().find_class(module.replace("numpy.core", "numpy._core"), name)
        if (module, name) == ("_codecs", "encode"):  # how protocol 2 writes bytes
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no array needs")


def _open(path: Path, allow_pickle: bool) -> dict:
    with path.open("rb") as file:
        version = np.lib.format.read_magic(file)
        read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        _, _, dtype = read_header[version](file)
        if not dtype.hasobject:
            raise ReaderError(
                f"{path} is a plain array without labels or sites; put it in a folder, one file per person"
            )
        if not allow_pickle:
            raise ReaderError(
                f"{path} is a Python pickle, which can run code when opened; "
                "pass allow_pickle=True (--option allow_pickle=true) only if you trust its source"
            )
        warnings.warn(f"{path} is a Python pickle; only open such files from people you trust", stacklevel=4)
        content = _ArraysOnly(file).load().item()
    if not isinstance(content, dict):
        raise ReaderError(f"{path} holds no dictionary but {type(content).__name__}")
    return content
