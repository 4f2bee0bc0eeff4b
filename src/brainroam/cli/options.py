"""The table of options: every option that more than one command has, its text and its group in ``--help``, once.

A dataclass is a group of options that go together: a command that asks for it (`brainroam.cli.source.takes_options`)
has them all and gets them as one object.

``--quiet`` and ``--verbose`` are options of every command.
"""

import inspect
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.models import ArgumentInfo

from brainroam.data.study_file import SYNTHETIC
from brainroam.errors import UsageError

READING, WHERE, RESULTS = "Reading the data", "Where to run", "Output"  # groups in --help, in this order, after others
QUEUE_FILE = "lines like 'memory: 8GB', one for each thing to ask the queue for"


def output(help: str, metavar: str) -> Any:
    """An option for what a command writes."""
    return typer.Option(help=help, metavar=metavar, rich_help_panel=RESULTS)


Data = Annotated[
    str,
    typer.Argument(help=f"A file or folder of any known layout, a study.yaml, or '{SYNTHETIC}'.", metavar="DATA"),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print JSON for machines instead of tables.", rich_help_panel=RESULTS)
]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet",
        "-q",
        help="Print errors and warnings only; results go to files or --json.",
        rich_help_panel=RESULTS,
    ),
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Show where an error came from.", rich_help_panel=RESULTS)
]
Seed = Annotated[int, typer.Option(help="Random seed.", min=0, metavar="N")]
Studies = Annotated[
    list[Path],
    typer.Argument(
        help="A folder of runs, or a table of predictions; or several, of the same people, side by side.",
        metavar="RUNS",
    ),
]
PeopleOf = Annotated[
    str | None,
    typer.Option(
        "--data",
        help="The study of a table of predictions (a study.yaml, or DATA): sites, labels, age, sex and motion.",
        metavar="DATA",
    ),
]

# What is judged, and how.
Methods = Annotated[
    str | None,
    typer.Option(
        help="Names (see brainroam methods) with commas between; fixed parameters in brackets: 'core\\[budget=20]'. "
        "Or a file of your own, my_methods.py:pipeline, whose code is run. "
        "By default those of the study file, or ours beside simple references.",
        metavar="A,B",
    ),
]
Protocol = Annotated[
    str | None,
    typer.Option(
        help="What is held out: leave-one-site-out (every site once), institutions (every institution once, with all "
        "its sites), halves (random halves of the sites, both ways) or folds (some people of every site).",
        metavar="NAME",
    ),
]
Repeats = Annotated[
    int | None,
    typer.Option(help="How often halves (10) or folds (1) are drawn at random.", min=1, max=1000, metavar="N"),
]
NumberOfFolds = Annotated[
    int, typer.Option("--folds", help="How many folds; each holds out some people of every site.", min=2, metavar="N")
]
Controls = Annotated[
    str | None,
    typer.Option(
        help="Then see what this many controls of the held-out site bring, as 0,5,10,20,40: they move its threshold "
        "and are not scored. Of a number: people whose value is known, who mend level and scale.",
        metavar="N,N",
    ),
]
Seeds = Annotated[
    int | None,
    typer.Option(help="Seeds of each random method, averaged within a site (1).", min=1, max=1000, metavar="N"),
]
Tuning = Annotated[
    str | None,
    typer.Option(help="How methods are tuned: fast, default or full (default).", metavar="NAME"),
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", help="A parameter to fix; may be repeated.", metavar="KEY=VALUE")
]
Partial = Annotated[
    bool,
    typer.Option("--partial", help="Accept a study with unfinished runs.", rich_help_panel=RESULTS),
]

# Where it is computed.
Jobs = Annotated[
    int | None, typer.Option(help="Tasks at a time, each on one core (1).", min=1, metavar="N", rich_help_panel=WHERE)
]
Memory = Annotated[
    str | None,
    typer.Option(
        help="Read a store piece by piece; each process uses no more than this, as 2GB or 500MB.",
        metavar="SIZE",
        rich_help_panel=WHERE,
    ),
]


@dataclass(frozen=True)
class ReadingOptions:
    """How DATA are read and prepared; a study file has the same keys."""

    reader: Annotated[
        str | None,
        typer.Option(help="Name of the layout, where it is not recognised.", metavar="NAME", rich_help_panel=READING),
    ] = None
    atlas: Annotated[
        str | None,
        typer.Option(
            help="aal, cc200, schaefer200, ..., or a table of region names.", metavar="NAME", rich_help_panel=READING
        ),
    ] = None
    sites: Annotated[
        str | None,
        typer.Option(help="Keep only these sites, with commas between.", metavar="A,B", rich_help_panel=READING),
    ] = None
    exclude_sites: Annotated[
        str | None,
        typer.Option(
            help="Sites to leave out of training and testing, with commas between.",
            metavar="A,B",
            rich_help_panel=READING,
        ),
    ] = None
    z_at: Annotated[
        str | None,
        typer.Option(
            help="Sites whose matrices hold Fisher's z, with commas between; those of all others hold correlations.",
            metavar="A,B",
            rich_help_panel=READING,
        ),
    ] = None
    preset: Annotated[
        str | None,
        typer.Option(help="A named selection of sites, such as 'paper'.", metavar="NAME", rich_help_panel=READING),
    ] = None
    max_missing_rois: Annotated[
        float | None,
        typer.Option(
            help="Leave out people who lack signal in more than this share of regions (0.2).",
            min=0,
            max=1,
            metavar="SHARE",
            rich_help_panel=READING,
        ),
    ] = None
    crop: Annotated[
        str | None,
        typer.Option(
            help="Keep the first volumes of every scan: 150, or 300s.", metavar="LENGTH", rich_help_panel=READING
        ),
    ] = None
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            help="People to leave out: ids with commas between, or a file of ids; may be repeated.",
            metavar="IDS|FILE",
            rich_help_panel=READING,
        ),
    ] = None
    max_fd: Annotated[
        float | None,
        typer.Option(help="Leave out people with a mean FD above this, in mm.", metavar="MM", rich_help_panel=READING),
    ] = None
    covariates: Annotated[
        str | None,
        typer.Option(
            help="What methods use as covariates (age,sex); 'none', or a kind: scanner:category.",
            metavar="A,B",
            rich_help_panel=READING,
        ),
    ] = None
    target: Annotated[
        str | None,
        typer.Option(
            help="Predict this column instead of the diagnosis: FIQ, age:log, ADOS:ordered, "
            "severity:ordered=mild,severe, DSM:classes.",
            metavar="COLUMN",
            rich_help_panel=READING,
        ),
    ] = None
    measure: Annotated[
        list[str] | None,
        typer.Option(
            help="A column of one wide table that is a measure too, such as age; may be repeated.",
            metavar="COLUMN",
            rich_help_panel=READING,
        ),
    ] = None
    block: Annotated[
        list[str] | None,
        typer.Option(
            help="A further measurement of the same people: a table, or files of matrices; may be repeated.",
            metavar="NAME=PATH",
            rich_help_panel=READING,
        ),
    ] = None
    option: Annotated[
        list[str] | None,
        typer.Option(help="An option of the reader; may be repeated.", metavar="KEY=VALUE", rich_help_panel=READING),
    ] = None


@dataclass(frozen=True)
class EngineOptions:
    """Which processes do the work."""

    engine: Annotated[
        str,
        typer.Option(
            help="local (processes) or dask (needs brainroam\\[dask]).", metavar="NAME", rich_help_panel=WHERE
        ),
    ] = "local"
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a running Dask cluster.", metavar="ADDRESS", rich_help_panel=WHERE)
    ] = None
    cluster: Annotated[
        str | None,
        typer.Option(
            help="Ask a queue for workers: slurm, pbs, sge, lsf or htcondor.", metavar="NAME", rich_help_panel=WHERE
        ),
    ] = None
    cluster_config: Annotated[
        Path | None,
        typer.Option(
            help="YAML file with what to request from the queue: memory, walltime, ...",
            metavar="FILE",
            rich_help_panel=WHERE,
        ),
    ] = None
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Print the script for the queue and stop.", rich_help_panel=WHERE),
    ] = False

    def choose_engine(self, data: str, out: Path) -> "str | Callable":
        """The engine that runs the tasks; with ``--dry-run`` the job script is printed instead and we stop."""
        if self.scheduler and self.cluster:
            raise UsageError("--scheduler names a running cluster, --cluster asks for a new one; give one of them")
        if (self.cluster_config or self.dry_run) and not self.cluster:
            raise UsageError("--cluster-config and --dry-run are about a queue: name it with --cluster")
        if not (self.scheduler or self.cluster) and self.engine != "dask":
            return self.engine
        from brainroam.data.store import is_store
        from brainroam.data.study_file import read_yaml
        from brainroam.execution.dask_engine import Dask
        from brainroam.utils.optional import extra

        extra("dask", "distributed")
        store = Path(data) if is_store(data) else None
        resources = read_yaml(self.cluster_config, QUEUE_FILE)[0] if self.cluster_config else {}
        dask = Dask(self.scheduler, self.cluster, resources, folder=out, store=store)
        if self.dry_run:
            typer.echo(dask.job_script().strip())
            raise typer.Exit
        return dask


@dataclass(frozen=True)
class StudyOptions:
    """How methods are judged, where the runs are kept and what is printed."""

    held_out: Annotated[
        str | None,
        typer.Option(help="Hold out only these sites, with commas between; all others train.", metavar="A,B"),
    ] = None
    seeds: Seeds = None
    tuning: Tuning = None
    settings: Settings = None
    out: Annotated[
        Path | None,
        typer.Option(
            help="The folder of results; finished runs in it are not repeated.",
            metavar="DIR",
            rich_help_panel=RESULTS,
        ),
    ] = None
    force: Annotated[bool, typer.Option("--force", help="Repeat finished runs.", rich_help_panel=RESULTS)] = False
    partial: Partial = False
    json: Json = False
    memory: Memory = None
    jobs: Jobs = None


_LEVEL = ContextVar("verbosity", default=0)  # of the command that runs, and of no other


def with_verbosity(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command ``--quiet`` and ``--verbose``; it asks for them with `quiet` and `verbose`."""

    def wrapper(quiet: bool, verbose: bool, **own: Any) -> None:
        _LEVEL.set(int(verbose) - int(quiet))
        command(**own)

    own = inspect.signature(command).parameters.values()
    common = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=annotation)
        for name, annotation in (("quiet", Quiet), ("verbose", Verbose))
    ]
    return with_signature(wrapper, command, sorted((*own, *common), key=_group))


def _group(parameter: inspect.Parameter) -> int:
    """Where a parameter stands in ``--help``: arguments, options of the command, its groups, those of all commands."""
    (about,) = parameter.annotation.__metadata__
    if isinstance(about, ArgumentInfo):
        return 0
    shared = (READING, WHERE, RESULTS)
    panel = about.rich_help_panel
    return 1 if not isinstance(panel, str) else 3 + shared.index(panel) if panel in shared else 2


def with_signature(
    wrapper: Callable[..., None], command: Callable, parameters: Iterable[inspect.Parameter]
) -> Callable[..., None]:
    """Make a wrapper look like the command, with these parameters: typer reads signature and annotations."""
    keywords = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    wrapper.__name__, wrapper.__doc__ = command.__name__, command.__doc__
    wrapper.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]  # Python's own name for it
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in keywords}
    return wrapper


def quiet() -> bool:
    """Whether the command was told to be quiet."""
    return _LEVEL.get() < 0


def verbose() -> bool:
    """Whether the command was told to say more."""
    return _LEVEL.get() > 0
