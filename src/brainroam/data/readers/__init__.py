"""Readers: one file per on-disk layout, each a function from a path to a `Cohort`.

A reader module has three names: ``LOOKS_FOR`` (what it needs, in words), ``recognises(path)`` and
``read(path, request, *, options...)``. Its keyword arguments are the options `load_cohort` passes on; one whose default
is a dataclass stands for that class's fields, so that readers share groups of options without repeating them.
"""

import inspect
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from brainroam.data.atlas import Atlas
from brainroam.data.cohort import Cohort
from brainroam.data.readers import abcd, abide, adhd200, bids, folder, npy, rest_meta_mdd, srpbs, store
from brainroam.data.readers.fetch import fetch_abide
from brainroam.data.readers.participants import Request
from brainroam.data.readers.presets import PRESETS, Preset
from brainroam.data.readers.scratch import Scratch
from brainroam.errors import ReaderError, UsageError, unknown
from brainroam.utils.files import expanded

__all__ = ["READERS", "fetch_abide", "load_cohort", "reader_options"]

# In the order in which they are tried: a layout that only one project has comes before one that many share.
READERS: dict[str, ModuleType] = {
    "store": store,
    "npy": npy,
    "abide": abide,
    "rest-meta-mdd": rest_meta_mdd,
    "adhd200": adhd200,
    "abcd": abcd,
    "srpbs": srpbs,
    "bids": bids,
    "folder": folder,
}


def load_cohort(
    path: str | Path,
    reader: str = "auto",
    atlas: str | Path | Atlas | None = None,
    sites: Iterable[str] | None = None,
    *,
    preset: str | None = None,
    require_label: bool = True,
    max_missing_rois: float = 0.2,
    crop: str | int | None = None,
    exclude: str | Path | Sequence[str] | None = None,
    max_fd: float | None = None,
    covariates: Sequence[str] | Mapping[str, str] | None = None,
    spool: str | Path | None = None,
    **options: Any,
) -> Cohort:
    """Load people from any layout brainroam knows.

    Parameters
    ----------
    path : str or Path
        The dataset's folder, or a file that holds all of it.
    reader : str
        ``"auto"`` tries all; or one of ``store``, ``npy``, ``abide``, ``rest-meta-mdd``, ``adhd200``, ``abcd``,
        ``srpbs``, ``bids``, ``folder``.
    atlas : str, Path or Atlas, optional
        Which ROI set to read where there are several (default ``"aal"``), and what its regions are called: a name such
        as ``"aal"`` or ``"cc400"``, the path of a table, or an `Atlas`.
    sites : iterable of str, optional
        The sites to keep; all by default.
    preset : str, optional
        ``"paper"`` keeps the sites of the paper's cohort (abide, rest-meta-mdd, srpbs, abcd), unless ``sites`` says
        otherwise, and sets the options that belong to it.
    require_label : bool
        Leave out people without a known label; False keeps them, with a missing label, for prediction.
    max_missing_rois : float
        Leave out people with more than this share of regions without signal.
    crop, exclude, max_fd, covariates
        What is done before any method sees the data, see `brainroam.data.prepare.Preparation`.
    spool : str or Path, optional
        A folder for series that memory cannot hold: each person's goes to a scratch file there as it is read, and
        must stay there as long as the cohort is used.
    **options
        What the reader itself takes, see `reader_options`. None stands for its default.

    Returns
    -------
    Cohort
        Everybody who was left out stands in its ``excluded``, with the reason.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> study = Path(tempfile.mkdtemp())
    >>> _ = (study / "participants.tsv").write_text(
    ...     "participant_id\\tsite\\tdiagnosis\\n01\\tA\\tcontrol\\n02\\tB\\tASD\\n03\\tB\\tASD\\n")
    >>> for name in ("01", "02"):
    ...     np.save(study / f"{name}.npy", np.random.default_rng(0).normal(size=(50, 4)))
    >>> cohort = load_cohort(study)
    >>> cohort
    Cohort(2 people, 2 sites, 1 with the condition, 4 regions of 'custom')
    >>> cohort.excluded["subject"].tolist()
    ['03']
    """
    from brainroam.data.prepare import Preparation  # which reads lists of ids as the readers do

    path = expanded(path)
    if not os.path.exists(path):  # unlike the path's own method it never raises, however long the name
        raise ReaderError(f"{path} does not exist")
    name = detect(path) if reader == "auto" else reader
    if name not in READERS:
        raise unknown("reader", name, ["auto", *READERS])
    given = {key: value for key, value in options.items() if value is not None}
    chosen = None if sites is None else tuple(str(site) for site in ([sites] if isinstance(sites, str) else sites))
    kept_in = None if spool is None else Scratch(Path(spool))
    request = Request(atlas, chosen, require_label=require_label, spool=kept_in)
    if preset is not None:
        published = _preset(preset, name)
        given = {**published.options, **given}
        if chosen is None:
            request = replace(request, sites=published.sites, all_sites=False)
    cohort = READERS[name].read(path, request, **_keywords(name, given))
    return Preparation(crop, exclude, max_fd, covariates).apply(cohort).exclude_missing(max_missing_rois)


def reader_options(name: str) -> list[str]:
    """The options a reader takes.

    >>> reader_options("rest-meta-mdd")
    ['gsr', 'participants']
    """
    return [option for options in _option_groups(name).values() for option in options]


def _option_groups(name: str) -> dict[str, list[str]]:
    """The keyword arguments of a reader, each with the options it stands for."""
    arguments = inspect.signature(READERS[name].read).parameters.values()
    return {
        argument.name: [field.name for field in fields(argument.default)]
        if is_dataclass(argument.default)
        else [argument.name]
        for argument in arguments
        if argument.kind is argument.KEYWORD_ONLY
    }


def _keywords(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """Sort options into the reader's keyword arguments."""
    known = reader_options(name)
    for option in given:
        if not known:
            raise UsageError(f"the reader {name!r} takes no options, so not {option!r}")
        if option not in known:
            raise unknown(f"option of the reader {name!r}:", option, known)
    arguments = inspect.signature(READERS[name].read).parameters
    keywords: dict[str, Any] = {}
    for argument, options in _option_groups(name).items():
        default: Any = arguments[argument].default
        part = {key: given[key] for key in options if key in given}
        if part:
            keywords[argument] = replace(default, **part) if is_dataclass(default) else part[argument]  # type: ignore[type-var]
    return keywords


def detect(path: Path) -> str:
    """The name of the first reader that recognises a path."""
    for name, module in READERS.items():
        if module.recognises(path):
            return name
    tried = "".join(f"\n  {name}: {module.LOOKS_FOR}" for name, module in READERS.items())
    raise ReaderError(f"{path} is no layout brainroam knows. Tried, and looked for:{tried}")


def _preset(preset: str, reader: str) -> Preset:
    if preset not in PRESETS:
        raise unknown("preset", preset, PRESETS)
    if reader not in PRESETS[preset]:
        raise UsageError(f"the preset {preset!r} is for {', '.join(PRESETS[preset])}, not for {reader!r}")
    published = PRESETS[preset][reader]
    if published.caution:
        warnings.warn(published.caution, stacklevel=3)
    return published
