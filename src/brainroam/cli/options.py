"""What every command that reads data has in common: DATA and how to read it."""

import inspect
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.models import ArgumentInfo

from brainroam.data.study_file import PREPARING, SYNTHETIC, is_study, plan_of, read_study
from brainroam.errors import UsageError
from brainroam.methods.naming import json_or_text
from brainroam.utils.files import expanded
from brainroam.utils.optional import installed

if TYPE_CHECKING:
    from brainroam.data.cohort import Cohort
    from brainroam.data.study_file import Study
    from brainroam.utils.workers import Workers

PANEL = "Reading the data"
Data = Annotated[
    str,
    typer.Argument(help=f"A file or folder of any known layout, a study.yaml, or '{SYNTHETIC}'.", metavar="DATA"),
]
Reader = Annotated[
    str | None,
    typer.Option(help="Name of the layout, where it is not recognised.", metavar="NAME", rich_help_panel=PANEL),
]
AtlasName = Annotated[
    str | None,
    typer.Option(
        help="aal, cc200, schaefer200, ..., or a table of region names.", metavar="NAME", rich_help_panel=PANEL
    ),
]
Sites = Annotated[
    str | None, typer.Option(help="Only these sites, with commas between.", metavar="A,B", rich_help_panel=PANEL)
]
Preset = Annotated[
    str | None, typer.Option(help="A named choice of sites, as 'paper'.", metavar="NAME", rich_help_panel=PANEL)
]
MaxMissing = Annotated[
    float | None,
    typer.Option(
        help="Leave out people who lack signal in more than this share of regions (0.2).",
        min=0,
        max=1,
        metavar="SHARE",
        rich_help_panel=PANEL,
    ),
]
Crop = Annotated[
    str | None,
    typer.Option(help="Keep the first volumes of every scan: 150, or 300s.", metavar="LENGTH", rich_help_panel=PANEL),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option(
        help="People to leave out: ids with commas between, or a file of ids; may be repeated.",
        metavar="IDS|FILE",
        rich_help_panel=PANEL,
    ),
]
MaxFd = Annotated[
    float | None,
    typer.Option(help="Leave out who moved more than this: mean FD, mm.", metavar="MM", rich_help_panel=PANEL),
]
Covariates = Annotated[
    str | None,
    typer.Option(
        help="What methods use as covariates (age,sex); 'none', or a kind: scanner:category.",
        metavar="A,B",
        rich_help_panel=PANEL,
    ),
]
Target = Annotated[
    str | None,
    typer.Option(
        help="Predict this column instead of the diagnosis: FIQ, age:log, severity:ordered, DSM:classes.",
        metavar="COLUMN",
        rich_help_panel=PANEL,
    ),
]
Option = Annotated[
    list[str] | None,
    typer.Option(help="An option of the reader; may be repeated.", metavar="KEY=VALUE", rich_help_panel=PANEL),
]
Blocks = Annotated[
    list[str] | None,
    typer.Option(
        help="A further measurement of the same people: a table, or files of matrices; may be repeated.",
        metavar="NAME=PATH",
        rich_help_panel=PANEL,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of tables.")]


@dataclass(frozen=True)
class DataSource:
    """Where the data are and how to read them (``plan``), as typed or written in a ``study`` file, if there is one."""

    plan: "Study"
    study: "Study | None" = None

    @property
    def data(self) -> str:
        """The path of the data."""
        return self.plan.data

    @property
    def exists(self) -> bool:
        """Whether there is something to read."""
        return self.data == SYNTHETIC or os.path.exists(expanded(self.data))

    @property
    def sites(self) -> list[str]:
        """The sites to keep; empty for all."""
        return self.plan.sites or []

    @property
    def max_missing_rois(self) -> float:
        """The share of regions without signal above which people are left out."""
        return self.plan.max_missing_rois

    @property
    def covariates(self) -> "list[str] | dict[str, Any] | None":
        """What methods use as covariates, with their kinds where told; None leaves it to them."""
        return self.plan.covariates

    def load(
        self,
        everybody: bool = False,
        require_label: bool = True,
        spool: Path | None = None,
        workers: "Workers | None" = None,
        apply_target: bool = True,
    ) -> "Cohort":
        """Read the cohort; ``everybody`` keeps those who lack signal in too many regions."""
        return self.plan.load(everybody, require_label, spool, workers, apply_target)

    def require_unprepared(self) -> None:
        """Refuse what a store read piece by piece cannot be asked for; it was decided when the store was made."""
        asked = [f"--{name.replace('_', '-')}" for name in PREPARING[:3] if getattr(self.plan, name) is not None]
        if asked:
            raise UsageError(f"{', '.join(asked)}: decide this when the store is made, with brainroam convert")


def possible_here(methods: Iterable[str]) -> list[str]:
    """Methods that nobody asked for by name: without core where torch is missing, saying what installs it."""
    if installed("torch"):
        return list(methods)
    typer.echo('core is left out, its network needs torch; run: pip install "brainroam[torch]"', err=True)
    return [name for name in methods if name != "core"]


def source_of(data: str, typed: dict[str, Any]) -> DataSource:
    """Where the data are; what is typed goes before what a study file says, but whom it leaves out stays out."""
    study = read_study(data) if is_study(data) else None
    if study is not None and study.exclude and typed.get("exclude"):
        written = [study.exclude] if isinstance(study.exclude, str) else study.exclude
        typed = {**typed, "exclude": [*written, *typed["exclude"]]}
    return DataSource(plan_of(data, typed), study)


def takes_data(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the argument DATA and the reading options; it gets them as its first argument, a `DataSource`.

    Ten commands read data; this keeps their options the same without writing them ten times.
    """

    def wrapper(
        data: Data,
        reader: Reader = None,
        atlas: AtlasName = None,
        sites: Sites = None,
        preset: Preset = None,
        max_missing_rois: MaxMissing = None,
        crop: Crop = None,
        exclude: Exclude = None,
        max_fd: MaxFd = None,
        covariates: Covariates = None,
        target: Target = None,
        block: Blocks = None,
        option: Option = None,
        **own: Any,
    ) -> None:
        typed = {
            "reader": reader,
            "atlas": atlas,
            "sites": [site.strip() for site in (sites or "").split(",") if site.strip()] or None,
            "preset": preset,
            "max_missing_rois": max_missing_rois,
            "crop": crop,
            "exclude": parse_exclude(exclude),
            "max_fd": max_fd,
            "covariates": None if covariates is None else parse_covariates(covariates),
            "target": target,
            "blocks": parse_blocks(block),
            "options": dict(parse_option(text) for text in option or ()),
        }
        command(source_of(data, typed), **own)

    shared = list(inspect.signature(wrapper).parameters.values())[:-1]
    own = list(inspect.signature(command).parameters.values())[1:]
    arguments = [parameter for parameter in own if _is_argument(parameter)]
    options = [parameter for parameter in own if not _is_argument(parameter)]
    return with_signature(wrapper, command, (*arguments, shared[0], *options, *shared[1:]))  # as in: predict MODEL DATA


def _is_argument(parameter: inspect.Parameter) -> bool:
    return any(isinstance(item, ArgumentInfo) for item in getattr(parameter.annotation, "__metadata__", ()))


def with_signature(
    wrapper: Callable[..., None], command: Callable, parameters: Iterable[inspect.Parameter]
) -> Callable[..., None]:
    """Make a wrapper look like the command, with these parameters: typer reads signature and annotations."""
    keywords = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    wrapper.__name__, wrapper.__doc__ = command.__name__, command.__doc__
    wrapper.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in keywords}
    return wrapper


def parse_blocks(typed: list[str] | None) -> dict[str, Any] | None:
    """Blocks by name, from ``NAME=PATH``; None where none was typed.

    >>> parse_blocks(["anatomy=aseg.tsv"])
    {'anatomy': {'table': 'aseg.tsv'}}
    """
    if not typed:
        return None
    from brainroam.data.readers.measures import guess_block

    pairs = [text.partition("=") for text in typed]
    wrong = [text for text, (name, _, path) in zip(typed, pairs, strict=True) if not name.isidentifier() or not path]
    if wrong:
        raise UsageError(f"--block {wrong[0]}: write NAME=PATH, as in --block anatomy=freesurfer/aseg.tsv")
    return {name: guess_block(str(expanded(path))) for name, _, path in pairs}


def parse_covariates(text: str) -> dict[str, str]:
    """Names with commas between, each perhaps with its kind; ``none`` is none at all.

    >>> parse_covariates("age, scanner:category"), parse_covariates("none")
    ({'age': '', 'scanner': 'category'}, {})
    """
    if text.strip().lower() == "none":
        return {}
    parts = [part.strip().partition(":") for part in text.split(",") if part.strip()]
    return {name.strip(): kind.strip() for name, _, kind in parts}


def parse_exclude(typed: list[str] | None) -> list[str] | None:
    """Ids, and files of ids, from all that was typed.

    >>> parse_exclude(["0012,0013", "0014"]), parse_exclude(None)
    (['0012', '0013', '0014'], None)
    """
    if not typed:
        return None
    parts = [[text] if os.path.isfile(expanded(text)) else text.split(",") for text in typed]
    told = [part.strip() for group in parts for part in group if part.strip()]
    absent = [name for name in told if "/" in name and not os.path.isfile(expanded(name))]
    if absent:
        raise UsageError(f"--exclude {absent[0]}: there is no such file")
    return told


def parse_option(text: str, flag: str = "--option") -> tuple[str, Any]:
    """Split ``KEY=VALUE``; the value is JSON where it can be (numbers, true, lists), else text such as ``007``.

    >>> parse_option("quality_checked=False"), parse_option("seed=3"), parse_option("subject=007")
    (('quality_checked', False), ('seed', 3), ('subject', '007'))
    """
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise typer.BadParameter(f"{text!r} is not KEY=VALUE", param_hint=flag)
    return name, json_or_text(value.lower() if value in ("True", "False") else value)
