"""Commands for cohorts that outgrow memory or one machine."""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from brainroam.cli.options import EngineOptions, Jobs, Memory, quiet
from brainroam.cli.source import DataSource, parse_option, takes_data, takes_options
from brainroam.errors import UsageError, listed, unknown
from brainroam.utils.files import expanded, refuse_existing, working_dir

if TYPE_CHECKING:
    from brainroam.data.cohort import Cohort
    from brainroam.execution.out_of_core import StoredCohort
    from brainroam.utils.workers import Workers

RUNNER = "brainroam.evaluation.runner"
EDGE_COPIES = 4  # of everybody's edges that a study in memory holds: several kinds, and residuals
QUEUE_FILE = "lines like 'memory: 8GB', one for each thing to ask the queue for"


def engine_of(options: EngineOptions, data: str, out: Path) -> "str | Callable":
    """The engine that runs the tasks; with ``--dry-run`` the job script is printed instead and we stop."""
    if options.scheduler and options.cluster:
        raise UsageError("--scheduler names a running cluster, --cluster asks for a new one; give one of them")
    if (options.cluster_config or options.dry_run) and not options.cluster:
        raise UsageError("--cluster-config and --dry-run are about a queue: name it with --cluster")
    if not (options.scheduler or options.cluster) and options.engine != "dask":
        return options.engine
    from brainroam.data.store import is_store
    from brainroam.data.study_file import read_yaml
    from brainroam.execution.dask_engine import Dask
    from brainroam.utils.optional import extra

    extra("dask", "distributed")
    store = Path(data) if is_store(data) else None
    resources = read_yaml(options.cluster_config, QUEUE_FILE)[0] if options.cluster_config else {}
    dask = Dask(options.scheduler, options.cluster, resources, folder=out, store=store)
    if options.dry_run:
        typer.echo(dask.job_script().strip())
        raise typer.Exit
    return dask


@takes_data
def convert(
    source: DataSource,
    out: Annotated[Path, typer.Option(help="The store to write; must not exist yet.", metavar="STORE")],
) -> None:
    """Write your data as a chunked store, which every command reads like the original, in part, and checked.

    Everybody goes into the store, also people without a label or with many regions without signal: who is left out is
    decided by the command that reads it. People are read and written one after another.

    [bold]Example:[/bold] brainroam convert ABIDE_pcp --atlas aal --out abide.zarr
    """
    from brainroam.cli.show import show_excluded
    from brainroam.data.store import store_cohort

    out = expanded(out)
    refuse_existing(out)
    with working_dir(out) as (scratch, left_behind):
        if left_behind:
            typer.echo("note: an earlier attempt was stopped before its end; starting again", err=True)
        cohort = source.load(everybody=True, require_label=False, spool=scratch, apply_target=False)
        path = store_cohort(scratch / out.name, cohort).rename(out)
    show_excluded(cohort.excluded)
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) / 1e6
    typer.echo(f"{cohort.counted} of {len(cohort.sites)} sites, {size:.1f} MB: {path}; now try: brainroam check {path}")


@takes_data
@takes_options(EngineOptions)
def scaffold(
    source: DataSource,
    place: EngineOptions,
    out: Annotated[Path, typer.Option(help="The folder for the results.", metavar="DIR")],
    memory: Memory = "2GB",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="kind, shrinkage, robust, huber_k, tau_percentile, eta, zeta, ...", metavar="KEY=VALUE"
        ),
    ] = None,
    jobs: Jobs = None,
) -> None:
    """Find the cross-site scaffold of a store that need not fit into memory.

    Writes scaffold.csv (regions, contrast, consistency, stability of every selected edge) and the arrays behind it.
    Stop it whenever you like: the same command goes on where it stopped.

    [bold]Example:[/bold] brainroam scaffold cohort.zarr --out scaffold --memory 2GB --jobs 2
    """
    where = engine_of(place, source.data, out)
    from brainroam.execution.out_of_core import Settings, discard_work, find_scaffold, save_scaffold
    from brainroam.utils.parameters import require_settings

    given = dict(parse_option(text, "--set") for text in settings or ())
    names = {item.name for item in fields(Settings)}
    for name in given:
        if name not in names:
            raise unknown("setting", name, sorted(names))
    require_settings("scaffold", Settings, given)
    cohort = cohort_on_disk(source, out / "work", memory or "2GB")
    evidence, selected = find_scaffold(cohort, Settings(**given), jobs or 1, where, progress=not quiet())
    path = save_scaffold(out, cohort, evidence, selected, Settings(**given))
    discard_work(out / "work")
    for note in evidence.deconfounder.notes_:
        typer.echo(f"note: {note}")
    people = f"{cohort.counted} of {len(cohort.sites)} sites"
    typer.echo(f"{len(selected)} of {len(selected.consensus)} edges, from {people}: {path}")


@contextmanager
def workers_of(
    source: DataSource, engine: "str | Callable", jobs: int, methods: Iterable[str]
) -> "Iterator[Workers | None]":
    """Processes of this machine that begin to start now, for all that a command does; None where there are none."""
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
    """The cohort in memory; or on disk, where that is asked for or a store is larger than the memory at hand."""
    if memory is None and not _too_large(source):
        return source.load(everybody, require_label, workers=workers)
    return cohort_on_disk(source, work, memory, require_label, everybody)


def cohort_on_disk(
    source: DataSource, work: Path, memory: str | None, require_label: bool = True, everybody: bool = False
) -> "StoredCohort":
    """The people of a store, to be read within a memory: half of what is free unless told."""
    from brainroam.execution.out_of_core import StoredCohort

    limit = _free_memory() / 2 if memory is None else size_in_bytes(memory)
    if source.plan.blocks:
        named = listed(source.plan.blocks)
        raise UsageError(
            f"--memory reads a store, and its blocks from there; put {named} into it: brainroam convert, with the "
            "blocks, --out cohort.zarr"
        )
    _require_store(source)
    sites, share = source.sites or None, 1.0 if everybody else source.max_missing_rois
    asked = source.plan.target
    cohort = StoredCohort(source.data, work, limit, sites, require_label and asked is None, share)
    if asked is not None:
        from brainroam.data.target_column import with_target

        cohort = with_target(cohort, asked, require_label)  # type: ignore[assignment]
    if source.covariates is None:
        return cohort
    from brainroam.data.prepare import with_covariates

    return with_covariates(cohort, source.covariates)  # type: ignore[return-value]


def work_beside(out: Path) -> Path:
    """Where a command that writes ``out`` keeps what it would go on with."""
    return expanded(out).absolute().with_name(f"{expanded(out).name}.work")


def _too_large(source: DataSource) -> bool:
    """Whether series and edges of a store would take more than half of the free memory."""
    from brainroam.data.store import CohortStore, is_store

    if not is_store(source.data):
        return False
    store, numbers = CohortStore(source.data), 0.0
    people = store.table["subject"].iloc[store.rows(source.sites or None)]
    for one in (store, *store.further.values()):
        rows = one.places(people)
        here = rows[rows >= 0]
        edges = 0 if one.measure == "table" else EDGE_COPIES * len(here) * one.n_rois**2 / 2
        numbers += float(one.heights(here).sum()) * one.n_rois + edges
    return 8 * numbers > _free_memory() / 2


def _free_memory() -> float:
    """Bytes that this machine could give to a process now."""
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
        raise UsageError(f"{source.data} is no store; make one with: brainroam convert {source.data} --out cohort.zarr")


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
