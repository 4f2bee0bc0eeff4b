"""The argument DATA and its reading options, which every command that reads data has; in memory or on disk."""

import inspect
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.models import ArgumentInfo

from brainroam.cli.options import Data, ReadingOptions, with_signature
from brainroam.data.study_file import PREPARING, SYNTHETIC, is_study, plan_of, read_study
from brainroam.errors import UsageError, in_shell, listed
from brainroam.methods.registry import STANDARD_METHODS, STANDARD_TUNING, TUNINGS, json_or_text
from brainroam.utils.files import expand_home
from brainroam.utils.optional import installed

if TYPE_CHECKING:
    from brainroam.data.cohort import Cohort
    from brainroam.data.study_file import Study
    from brainroam.execution.out_of_core import StoredCohort
    from brainroam.utils.workers import Workers

RUNNER = "brainroam.evaluation.runner"
EDGE_COPIES = 4  # of everybody's edges that a study in memory holds: several kinds, and residuals


@dataclass(frozen=True)
class DataSource:
    """Where the data are and how to read them (``plan``), as typed or written in a ``study`` file, if there is one.

    ``typed`` is the argument DATA itself: the path of the data or of the study file.
    """

    plan: "Study"
    study: "Study | None" = None
    typed: str = ""

    @property
    def data(self) -> str:
        """The path of the data."""
        return self.plan.data

    @property
    def exists(self) -> bool:
        """Whether there is something to read."""
        return self.data == SYNTHETIC or os.path.exists(expand_home(self.data))

    @property
    def methods(self) -> list[str]:
        """The methods of the study file, or the standard ones."""
        return self.plan.methods or list(STANDARD_METHODS)

    @property
    def tuning(self) -> str:
        """How much is tuned."""
        return self.plan.tuning or STANDARD_TUNING

    @property
    def sites_in_store(self) -> list[str] | None:
        """The sites to read from a store; None for all."""
        import pandas as pd

        from brainroam.data.store import CohortStore

        if not self.plan.exclude_sites:
            return self.plan.sites
        table = pd.DataFrame({"site": CohortStore(self.data).sites})
        choice = self.plan.site_choice
        return table["site"][choice.kept(table) & ~choice.excluded(table)].tolist()

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

    def as_in_training(self, model: Path) -> "DataSource":
        """The same data, read as those were on which this model was trained: columns of tables, kind of the target.

        A few new people show neither: one person has one value of a number, which might be a code as well. Where no
        target was named, it is that of the model.
        """
        from brainroam.data.readers.tables import is_table
        from brainroam.data.target import Target, TargetRequest
        from brainroam.methods.saving import read_header

        header, plan = read_header(model), self.plan
        if plan.blocks or is_table(Path(self.data)):
            plan = plan.reading_columns(header.get("columns", {}))
        trained = Target.of_description(header.get("target"))
        asked = TargetRequest(trained.name) if plan.target is None else TargetRequest.of(plan.target)
        as_trained = trained.request()
        if not asked.kind and as_trained and asked.column == trained.name:
            plan = plan.model_copy(update={"target": as_trained})
        return replace(self, plan=plan)

    def require_unprepared(self) -> None:
        """Refuse options of preparation for a store that is read piece by piece: they were fixed when it was made."""
        fixed = (*PREPARING[:3], "site_names")
        asked = [f"--{name.replace('_', '-')}" for name in fixed if getattr(self.plan, name) is not None]
        if asked:
            raise UsageError(f"{', '.join(asked)}: decide this when the store is made, with brainroam convert")


def possible_here(methods: Iterable[str]) -> list[str]:
    """The default methods, without core where torch is missing; prints how to install it."""
    if installed("torch"):
        return list(methods)
    text = (
        'core is left out: its network needs torch, and without it it is ensemble; run: pip install "brainroam[torch]"'
    )
    typer.echo(text, err=True)
    return [name for name in methods if name != "core"]


def source_of(data: str, typed: dict[str, Any]) -> DataSource:
    """The source that DATA names. Typed options override the study file, except that its exclusions stay."""
    study = read_study(data) if is_study(data) else None
    if study is not None and study.exclude and typed.get("exclude"):
        written = [study.exclude] if isinstance(study.exclude, str) else study.exclude
        typed = {**typed, "exclude": [*written, *typed["exclude"]]}
    if study is not None and study.tuning not in (None, *TUNINGS):
        raise UsageError(f"{data}: 'tuning' should be {', '.join(TUNINGS)}, not {study.tuning!r}")
    return DataSource(plan_of(data, typed), study, data)


@contextmanager
def workers_of(
    source: DataSource, engine: "str | Callable", jobs: int, methods: Iterable[str]
) -> "Iterator[Workers | None]":
    """Worker processes that start at once and serve the whole command; None where none are needed."""
    if engine != "local" or jobs == 1 or not source.exists:
        yield None
        return
    from brainroam.methods.registry import late_imports
    from brainroam.utils.workers import Workers

    with Workers(jobs, preload=[RUNNER, *late_imports(methods)]) as workers:
        workers.start()
        import_module(RUNNER)  # here too, while they start
        yield workers


def load_or_open(
    source: DataSource,
    work: Path,
    memory: str | None,
    require_label: bool = True,
    everybody: bool = False,
    workers: "Workers | None" = None,
) -> "Cohort":
    """The cohort in memory; or on disk, where --memory is given or a store is too large for the free memory."""
    if memory is None and not _too_large(source):
        return source.load(everybody, require_label, workers=workers)
    return cohort_on_disk(source, work, memory, require_label, everybody)


def cohort_on_disk(
    source: DataSource, work: Path, memory: str | None, require_label: bool = True, everybody: bool = False
) -> "StoredCohort":
    """The cohort of a store, read piece by piece within --memory, by default half of the free memory."""
    from brainroam.execution.out_of_core import StoredCohort

    limit = _free_memory() / 2 if memory is None else size_in_bytes(memory)
    if source.plan.blocks:
        named = listed(source.plan.blocks)
        raise UsageError(
            f"--memory reads a store, and its blocks from there; put {named} into it: brainroam convert, with the "
            "blocks, --out cohort.zarr"
        )
    _require_store(source)
    sites, share = source.sites_in_store, 1.0 if everybody else source.max_missing_rois
    asked = source.plan.target
    cohort = StoredCohort(source.data, work, limit, sites, require_label and asked is None, share)
    if asked is not None:
        from brainroam.data.target_column import with_target

        cohort = with_target(cohort, asked, require_label)  # type: ignore[assignment]  # one on disk stays there
    from brainroam.data.prepare import with_covariates, with_nuisance

    if source.covariates is not None:
        cohort = with_covariates(cohort, source.covariates)  # type: ignore[assignment]  # as above
    if source.plan.nuisance is not None:
        cohort = with_nuisance(cohort, source.plan.nuisance)  # type: ignore[assignment]
    return cohort


def work_beside(out: Path) -> Path:
    """The folder beside ``out`` with what an interrupted command needs to resume."""
    return expand_home(out).absolute().with_name(f"{expand_home(out).name}.work")


def discard_work(cohort: "Cohort", out: Path) -> None:
    """Delete the folder `work_beside` of a cohort on disk."""
    if cohort.on_disk:
        from brainroam.execution.out_of_core import discard_work

        discard_work(work_beside(out))


def _too_large(source: DataSource) -> bool:
    """Whether series and edges of a store would take more than half of the free memory."""
    from brainroam.data.store import CohortStore, is_store

    if not is_store(source.data):
        return False
    store, numbers = CohortStore(source.data), 0.0
    people = store.table["subject"].iloc[store.rows(source.sites_in_store)]
    for one in (store, *store.further.values()):
        rows = one.places(people)
        here = rows[rows >= 0]
        edges = 0 if one.measure == "table" else EDGE_COPIES * len(here) * one.n_rois**2 / 2
        numbers += float(one.heights(here).sum()) * one.n_rois + edges
    return 8 * numbers > _free_memory() / 2


def _free_memory() -> float:
    """Free memory of this machine in bytes."""
    try:
        with open("/proc/meminfo") as lines:
            sizes = dict(line.split(":") for line in lines)
        return 1024 * float(sizes["MemAvailable"].split()[0])
    except (OSError, KeyError, ValueError):  # not Linux
        return 4e9


def _require_store(source: DataSource) -> None:
    from brainroam.data.store import is_store

    source.require_unprepared()
    if not is_store(source.data):
        raise UsageError(
            f"{source.data} is no store; make one with: brainroam convert {in_shell(source.data)} --out cohort.zarr"
        )


def size_in_bytes(text: str) -> float:
    """A size as people write it.

    >>> size_in_bytes("2GB"), size_in_bytes("1.5 MiB"), size_in_bytes("800")
    (2000000000.0, 1572864.0, 800.0)
    """
    match = re.fullmatch(r"\s*([0-9.]+)\s*(?:([KMGT]?)(i?)B)?\s*", text, re.IGNORECASE)
    try:
        number = float(match[1]) if match else 0.0
    except ValueError:
        number = 0.0
    if match is None or number <= 0:
        raise UsageError(f"--memory {text!r} is no size; write it like 2GB or 500MB")
    step = 1024.0 if match[3] else 1000.0
    return number * step ** " KMGT".index((match[2] or " ").upper())


def takes_data(
    command: Callable[..., None], argument: Any = Data, default: Any = inspect.Parameter.empty
) -> Callable[..., None]:
    """Give a command the argument DATA and the reading options; it gets them as its first argument, a `DataSource`."""

    def wrapper(data: str = default, **typed: Any) -> None:
        reading, own = _take_options(ReadingOptions, typed)
        command(source_of(str(data), _as_study_keys(reading)), **own)

    data = inspect.Parameter("data", inspect.Parameter.KEYWORD_ONLY, default=default, annotation=argument)
    own = list(inspect.signature(command).parameters.values())[1:]
    arguments = [parameter for parameter in own if _is_argument(parameter)]
    options = [parameter for parameter in own if not _is_argument(parameter)]
    # Arguments in the order of: predict MODEL DATA
    return with_signature(wrapper, command, (*arguments, data, *options, *_parameters(ReadingOptions)))


def takes_options(*groups: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command, after its first argument, groups of options of the table; it gets each as one object."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        def wrapper(source: Any, **typed: Any) -> None:
            taken = []
            for group in groups:
                options, typed = _take_options(group, typed)
                taken.append(options)
            command(source, *taken, **typed)

        first, *own = inspect.signature(command).parameters.values()
        shared = [parameter for group in groups for parameter in _parameters(group)]
        return with_signature(wrapper, command, (first, *own[len(groups) :], *shared))

    return decorate


def _take_options(group: type, typed: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The options of a group as one object, and the options that are not of it."""
    names = {field.name for field in fields(group)}
    options = group(**{name: value for name, value in typed.items() if name in names})
    return options, {name: value for name, value in typed.items() if name not in names}


def _parameters(group: type) -> list[inspect.Parameter]:
    return [
        inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=field.type)
        for field in fields(group)
    ]


def _is_argument(parameter: inspect.Parameter) -> bool:
    return any(isinstance(item, ArgumentInfo) for item in getattr(parameter.annotation, "__metadata__", ()))


def _as_study_keys(typed: ReadingOptions) -> dict[str, Any]:
    """What was typed, by the keys of a study file; None where nothing was."""
    return {
        "reader": typed.reader,
        "atlas": typed.atlas,
        "sites": split_words(typed.sites) or None,
        "exclude_sites": split_words(typed.exclude_sites) or None,
        "edges": dict.fromkeys(split_words(typed.z_at), "z") or None,
        "preset": typed.preset,
        "max_missing_rois": typed.max_missing_rois,
        "crop": typed.crop,
        "exclude": parse_exclude(typed.exclude),
        "max_fd": typed.max_fd,
        "covariates": None if typed.covariates is None else parse_covariates(typed.covariates),
        "target": typed.target,
        "blocks": parse_blocks(typed.block),
        "options": {
            **({"measures": ["*", *typed.measure]} if typed.measure else {}),
            **dict(parse_option(text) for text in typed.option or ()),
        },
    }


def split_words(text: str | None) -> list[str]:
    """Names with commas between.

    >>> split_words("A, B,"), split_words(None)
    (['A', 'B'], [])
    """
    return [word.strip() for word in (text or "").split(",") if word.strip()]


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
    return {name: guess_block(str(expand_home(path))) for name, _, path in pairs}


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
    parts = [[text] if os.path.isfile(expand_home(text)) else text.split(",") for text in typed]
    names = [part.strip() for group in parts for part in group if part.strip()]
    absent = [name for name in names if "/" in name and not os.path.isfile(expand_home(name))]
    if absent:
        raise UsageError(f"--exclude {absent[0]}: there is no such file")
    return names


def parse_option(text: str, flag: str = "--option") -> tuple[str, Any]:
    """Split ``KEY=VALUE``; the value is JSON where it can be (numbers, true, lists), else text such as ``007``.

    >>> parse_option("quality_checked=False"), parse_option("seed=3"), parse_option("subject=007")
    (('quality_checked', False), ('seed', 3), ('subject', '007'))
    """
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise typer.BadParameter(f"{text!r} is not KEY=VALUE", param_hint=flag)
    return name, json_or_text(value.lower() if value in ("True", "False") else value)


def parse_settings(typed: list[str] | None) -> dict[str, Any]:
    """What ``--set`` fixes, by name."""
    return dict(parse_option(text, "--set") for text in typed or ())
