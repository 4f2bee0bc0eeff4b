"""What every command that reads data has in common: DATA and how to read it."""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.models import ArgumentInfo

from brainroam.errors import UsageError, unknown
from brainroam.methods.naming import json_or_text

if TYPE_CHECKING:
    from brainroam.data.cohort import Cohort
    from brainroam.data.study_file import Study

SYNTHETIC = "synthetic"
PANEL = "Reading the data"
PREPARING = ("crop", "exclude", "max_fd", "covariates")
RESERVED = frozenset({"reader", "atlas", "sites", "preset", "max_missing_rois", "spool", *PREPARING})

FROM_STUDY = ("data", "reader", "atlas", "preset", "max_missing_rois", *PREPARING)

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
        help="Leave out people who lack signal in more than this share of regions (0.2 unless told).",
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
    Path | None,
    typer.Option(help="A file with the ids of people to leave out.", metavar="FILE", rich_help_panel=PANEL),
]
MaxFd = Annotated[
    float | None,
    typer.Option(help="Leave out who moved more than this: mean FD, mm.", metavar="MM", rich_help_panel=PANEL),
]
Covariates = Annotated[
    str | None,
    typer.Option(
        help="What methods use as covariates (age,sex unless told); 'none', or a kind: scanner:category.",
        metavar="A,B",
        rich_help_panel=PANEL,
    ),
]
Option = Annotated[
    list[str] | None,
    typer.Option(help="An option of the reader; may be repeated.", metavar="KEY=VALUE", rich_help_panel=PANEL),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of tables.")]


@dataclass(frozen=True)
class DataSource:
    """Where the data are and how to read them, as typed on the command line or written in a ``study`` file."""

    data: str
    reader: str = "auto"
    atlas: str | None = None
    sites: tuple[str, ...] = ()
    preset: str | None = None
    max_missing_rois: float = 0.2
    crop: str | None = None
    exclude: str | Path | list[str] | None = None
    max_fd: float | None = None
    covariates: list[str] | dict[str, str] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    study: "Study | None" = None

    def load(self, everybody: bool = False, require_label: bool = True, spool: Path | None = None) -> "Cohort":
        """Read the cohort; ``everybody`` keeps those who lack signal in too many regions."""
        limit = 1.0 if everybody else self.max_missing_rois
        if self.data == SYNTHETIC:
            from brainroam.data.prepare import Preparation

            return Preparation(**self._preparing()).apply(self._make()).exclude_missing(limit)
        from brainroam.data.readers import load_cohort

        for name in RESERVED.intersection(self.options):
            raise UsageError(f"--option {name}=... has an option of its own: --{name.replace('_', '-')}")
        return load_cohort(
            self.data,
            self.reader,
            self.atlas,
            self.sites or None,
            preset=self.preset,
            max_missing_rois=limit,
            spool=spool,
            **self._preparing(),
            **{"require_label": require_label, **self.options},
        )

    def _preparing(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in PREPARING}

    def require_unprepared(self) -> None:
        """Refuse what a store read piece by piece cannot be asked for; it was decided when the store was made."""
        asked = [f"--{name.replace('_', '-')}" for name in PREPARING[:3] if getattr(self, name) is not None]
        if asked:
            raise UsageError(f"{', '.join(asked)}: decide this when the store is made, with brainroam convert")

    def _make(self) -> "Cohort":
        from brainroam.data.synthetic import make_cohort

        if self.reader != "auto" or self.atlas or self.preset:
            raise UsageError("synthetic data are not read: --reader, --atlas and --preset do not apply")
        known = inspect.signature(make_cohort).parameters
        for name, value in self.options.items():
            if name not in known:
                raise unknown("option of synthetic data", name, known)
            if not isinstance(value, known[name].annotation | int) or isinstance(value, bool):
                raise UsageError(f"--option {name}={value}: expected a number")
        cohort = make_cohort(**self.options)
        return cohort.select(self.sites) if self.sites else cohort


def source_of(data: str, typed: dict[str, Any]) -> DataSource:
    """Where the data are; what is typed goes before what a study file says."""
    if not data.lower().endswith((".yaml", ".yml")):
        return DataSource(data, **typed)
    from brainroam.data.study_file import read_study

    study = read_study(data)
    written = {name: value for name in FROM_STUDY if (value := getattr(study, name)) is not None}
    options = {**study.options, **typed.pop("options", {})}
    sites = tuple(study.sites or ())
    return DataSource(**{**written, "sites": sites, **typed, "options": options, "study": study})


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
        option: Option = None,
        **own: Any,
    ) -> None:
        typed = {
            "reader": reader,
            "atlas": atlas,
            "sites": tuple(site.strip() for site in (sites or "").split(",") if site.strip()) or None,
            "preset": preset,
            "max_missing_rois": max_missing_rois,
            "crop": crop,
            "exclude": exclude,
            "max_fd": max_fd,
            "covariates": None if covariates is None else parse_covariates(covariates),
            "options": dict(parse_option(text) for text in option or ()),
        }
        command(source_of(data, {name: value for name, value in typed.items() if value is not None}), **own)

    shared = list(inspect.signature(wrapper).parameters.values())[:-1]
    own = list(inspect.signature(command).parameters.values())[1:]
    arguments = [parameter for parameter in own if _is_argument(parameter)]
    options = [parameter for parameter in own if not _is_argument(parameter)]
    return dress(wrapper, command, (*arguments, shared[0], *options, *shared[1:]))  # as in: predict MODEL DATA


def _is_argument(parameter: inspect.Parameter) -> bool:
    return any(isinstance(item, ArgumentInfo) for item in getattr(parameter.annotation, "__metadata__", ()))


def dress(
    wrapper: Callable[..., None], command: Callable, parameters: Iterable[inspect.Parameter]
) -> Callable[..., None]:
    """Make a wrapper look like the command, with these parameters: typer reads signature and annotations."""
    keywords = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    wrapper.__name__, wrapper.__doc__ = command.__name__, command.__doc__
    wrapper.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in keywords}
    return wrapper


def parse_covariates(text: str) -> dict[str, str]:
    """Names with commas between, each perhaps with its kind; ``none`` is none at all.

    >>> parse_covariates("age, scanner:category"), parse_covariates("none")
    ({'age': '', 'scanner': 'category'}, {})
    """
    if text.strip().lower() == "none":
        return {}
    parts = [part.strip().partition(":") for part in text.split(",") if part.strip()]
    return {name.strip(): kind.strip() for name, _, kind in parts}


def parse_option(text: str, flag: str = "--option") -> tuple[str, Any]:
    """Split ``KEY=VALUE``; the value is JSON where it can be (numbers, true, lists), else text such as ``007``.

    >>> parse_option("quality_checked=False"), parse_option("seed=3"), parse_option("subject=007")
    (('quality_checked', False), ('seed', 3), ('subject', '007'))
    """
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise typer.BadParameter(f"{text!r} is not KEY=VALUE", param_hint=flag)
    return name, json_or_text(value.lower() if value in ("True", "False") else value)
