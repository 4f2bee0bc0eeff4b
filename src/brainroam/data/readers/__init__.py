"""Readers: one file per on-disk layout, each a function from a path to a `Cohort`.

A reader module has three names: ``LOOKS_FOR`` (what it needs, in words), ``recognises(path)`` and
``read(path, request, *, options...)``. Its keyword arguments are the options `brainroam.load_cohort` passes on; one
whose default is a dataclass stands for that class's fields, so that readers share groups of options.
"""

import inspect
import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from brainroam.data.atlas import Atlas
from brainroam.data.cohort import Cohort
from brainroam.data.exclusion import People
from brainroam.data.readers import abcd, abide, adhd200, bids, folder, npy, rest_meta_mdd, srpbs, store, wide_table
from brainroam.data.readers.abide import fetch_abide
from brainroam.data.readers.participants import Request, Scratch
from brainroam.data.readers.participants_table import NO_COLUMN
from brainroam.data.readers.series import suffix_of
from brainroam.data.site_choice import ALL_SITES, SiteChoice
from brainroam.errors import NothingFoundError, ReaderError, UsageError, in_shell, listed, unknown
from brainroam.utils.files import expand_home
from brainroam.utils.workers import Workers

__all__ = ["READERS", "fetch_abide", "option_defaults", "read_cohort", "reader_options"]

MAX_FOLDERS = 500  # that are looked into; sites, not people, stand at these levels

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
    "table": wide_table,
}


@dataclass(frozen=True)
class Preset:
    """The sites of a published cohort, the options that go with them, and what to know before using it.

    ``gate_budget`` is K of the paper's network on these people.
    """

    sites: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    caution: str = ""
    gate_budget: int = 80


def read_cohort(
    path: str | Path,
    reader: str = "auto",
    atlas: str | Path | Atlas | None = None,
    sites: SiteChoice = ALL_SITES,
    *,
    preset: str | None = None,
    require_label: bool = True,
    spool: str | Path | None = None,
    workers: Workers | None = None,
    target: str | None = None,
    covariates: Iterable[str] = (),
    keep_unmeasured: bool = False,
    exclude: People | None = None,
    edges: Mapping[str, str] | None = None,
    **options: Any,
) -> Cohort:
    """Read people from a path of any layout, as they are; `brainroam.load_cohort` prepares them and tells the rest."""
    path = expand_home(path)
    if not os.path.exists(path):  # unlike the path's own method it never raises, however long the name
        raise ReaderError(f"{path} does not exist; check the spelling, and the folder you are in ({Path.cwd()})")
    given = {key: value for key, value in options.items() if value is not None}
    require_label = require_label and str(given.get("label_col", "")).lower() != NO_COLUMN
    name, path = _locate(path, series_only=not require_label) if reader == "auto" else (reader, path)
    _require_known(name)
    kept_in = None if spool is None else Scratch(Path(spool))
    request = Request(
        atlas,
        sites,
        require_label=require_label,
        spool=kept_in,
        workers=workers,
        target=target,
        covariates=tuple(map(str, covariates)),
        keep_unmeasured=keep_unmeasured,
        exclude=exclude,
        edges=edges or {},
    )
    if preset is not None:
        published = _preset(preset, name)
        given = {**published.options, **given}
        if sites.keep is None:
            request = replace(request, sites=replace(sites, keep=published.sites, all_must_exist=False))
    return READERS[name].read(path, request, **_keywords(name, given))


def _require_known(name: str) -> None:
    if name not in READERS:
        raise unknown("reader", name, ["auto", *READERS])


def reader_options(name: str) -> list[str]:
    """The options a reader takes.

    >>> reader_options("rest-meta-mdd")
    ['gsr', 'participants']
    """
    return [option for options in _option_groups(name).values() for option in options]


def option_defaults(name: str) -> dict[str, Any]:
    """What the options of a reader are unless told otherwise.

    >>> option_defaults("adhd200")["runs"], option_defaults("bids")["runs"]
    ('first', 'concatenate')
    """
    groups = _option_groups(name)
    arguments = inspect.signature(READERS[name].read).parameters
    return {
        option: getattr(arguments[argument].default, option, arguments[argument].default)
        for argument, options in groups.items()
        for option in options
    }


def _option_groups(name: str) -> dict[str, list[str]]:
    """The keyword arguments of a reader, each with the options it stands for."""
    _require_known(name)
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
            together = is_dataclass(default) and not isinstance(default, type)
            keywords[argument] = replace(default, **part) if together else part[argument]
    return keywords


def detect(path: Path) -> tuple[str, Path]:
    """The first reader that recognises a path, or the only folder one or two levels below it, and that path."""
    name = _recognise(path)
    if name is not None:
        return name, path
    for level in ("*", "*/*"):
        folders = [folder for folder in sorted(path.glob(level)) if folder.is_dir() and folder.name[0] != "."]
        layouts = [(name, folder) for folder in folders[:MAX_FOLDERS] if (name := _recognise(folder))]
        if len(layouts) == 1:
            return layouts[0]
        if layouts:
            places = listed(f"{folder} ({name})" for name, folder in layouts)
            raise UsageError(f"{path} holds several datasets: {places}; give the path of one of them")
    tried = "".join(f"\n  {name}: {module.LOOKS_FOR}" for name, module in READERS.items())
    remedy = (
        f"\nbrainroam init {in_shell(path)} looks at any other folder and asks what it cannot see"
        if path.is_dir()
        else ""
    )
    raise NothingFoundError(f"{path} is no layout brainroam knows. Tried, and looked for:{tried}{remedy}")


def _recognise(path: Path) -> str | None:
    return next((name for name, module in READERS.items() if module.recognises(path)), None)


def _locate(path: Path, series_only: bool) -> tuple[str, Path]:
    """As `detect`; people who are only to be predicted may be a folder of series without a table."""
    try:
        return detect(path)
    except ReaderError:
        if series_only and path.is_dir() and any(suffix_of(file) for file in path.iterdir()):
            return "folder", path
        raise


def _preset(preset: str, reader: str) -> Preset:
    if preset not in PRESETS:
        raise unknown("preset", preset, PRESETS)
    if reader not in PRESETS[preset]:
        raise UsageError(f"the preset {preset!r} is for {', '.join(PRESETS[preset])}, not for {reader!r}")
    published = PRESETS[preset][reader]
    if published.caution:
        warnings.warn(published.caution, stacklevel=3)
    return published


PRESETS = {
    "paper": {
        "abide": Preset(
            ("CALTECH", "KKI", "MAX_MUN", "OLIN", "PITT", "SBL", "SDSU", "STANFORD", "TRINITY", "YALE"),
            {"quality_checked": False},
        ),
        "rest-meta-mdd": Preset(("S1", "S7", "S8", "S9", "S10", "S15", "S19", "S20", "S21", "S25")),
        "srpbs": Preset(
            (
                *("HUH", "HRC", "HKH", "COI", "KUT", "UTO"),
                *("Univ. of Tokyo", "Hiroshima Univ. Hospital", "COI Hiroshima Univ.", "Hiroshima Kajikawa Hospital"),
            ),
            caution="the paper's ten SRPBS environments name four hospitals twice (HUH, HKH, COI and UTO, by code and "
            "in words) with the same lengths and nearly the same people: look for duplicated people before trusting "
            "a result on an unseen site",
        ),
        "abcd": Preset(
            tuple(f"site{number}" for number in ("02", "06", "07", "09", "11", "14", "15", "16", "20", "21")),
            {"volumes": 383},
            caution="the paper's network has a gate budget of 150 on ABCD, not 80: core-paper[budget=150]",
            gate_budget=150,
        ),
    }
}
