"""Commands about studies: run methods under a protocol, look at the runs, compare."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from brainroam.cli.options import DataSource, Json, parse_option, takes_data, with_signature
from brainroam.cli.scale import (
    Cluster,
    ClusterConfig,
    DryRun,
    EngineName,
    Jobs,
    Memory,
    Place,
    Scheduler,
    load_or_open,
    work_beside,
    workers_of,
)
from brainroam.cli.verbosity import quiet
from brainroam.errors import UsageError, unknown
from brainroam.methods.naming import split_names

if TYPE_CHECKING:
    from brainroam.data.cohort import Cohort
    from brainroam.evaluation.runner import Results


Studies = Annotated[
    list[Path],
    typer.Argument(
        help="A folder of runs, or a table of predictions; or several, of the same people, side by side.",
        metavar="RUNS...",
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
Methods = Annotated[
    str | None,
    typer.Option(
        help="Names (see brainroam methods) with commas between; fixed parameters in brackets: 'core\\[budget=20]'. "
        "Or a file of your own, my_methods.py:pipeline, whose code is run. "
        "By default those of the study file, or ours beside simple references.",
        metavar="A,B",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(help="The folder of runs (runs); what is finished in it is not done again.", metavar="RUNS"),
]
HeldOut = Annotated[str | None, typer.Option(help="Hold out only these, with commas between.", metavar="A,B")]
Seeds = Annotated[
    int | None,
    typer.Option(help="Runs of each random method, averaged inside a site (1).", min=1, max=1000, metavar="N"),
]
Tuning = Annotated[
    str | None,
    typer.Option(help="Tuning, the same for all methods: fast, default or full (default).", metavar="NAME"),
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", help="A parameter to fix; may be repeated.", metavar="KEY=VALUE")
]
Protocol = Annotated[
    str | None,
    typer.Option(help="loso: every site once; halves: random halves of the sites, both ways (loso).", metavar="NAME"),
]
Repeats = Annotated[
    int | None,
    typer.Option(help="Of halves: how often the sites are split at random (10).", min=1, max=1000, metavar="N"),
]
Partial = Annotated[bool, typer.Option("--partial", help="Accept a study of which some runs are not finished.")]
Force = Annotated[bool, typer.Option("--force", help="Do finished runs again.")]


def takes_study(command: Callable[..., "Results"]) -> Callable[..., None]:
    """Give a command DATA and the options of a study; it gets the cohort and keywords for `evaluate`."""

    def wrapper(
        source: DataSource,
        out: Out = None,
        held_out: HeldOut = None,
        seeds: Seeds = None,
        tuning: Tuning = None,
        settings: Settings = None,
        memory: Memory = None,
        jobs: Jobs = None,
        engine: EngineName = "local",
        scheduler: Scheduler = None,
        cluster: Cluster = None,
        cluster_config: ClusterConfig = None,
        dry_run: DryRun = False,
        partial: Partial = False,
        force: Force = False,
        json: Json = False,
        **own: Any,
    ) -> None:
        names = [name.strip() for name in (held_out or "").split(",") if name.strip()]
        if "methods" in own:
            own["methods"] = split_names(own["methods"]) if own["methods"] else _setting("methods", None, source)
            from brainroam.methods.registry import check_names

            check_names(own["methods"])  # a typo is answered before the data are read
        if "protocol" in own:
            own |= {name: _setting(name, own[name], source) for name in ("protocol", "repeats")}
        if out is None:
            out = Path(source.study.out) / "runs" if source.study else Path("runs")
        where = Place(engine, scheduler, cluster, cluster_config, dry_run).prepared(source.data, out)
        n_jobs = _setting("jobs", jobs, source)
        with workers_of(source, where, n_jobs, own.get("methods", ["core"])) as workers:
            cohort = load_or_open(source, work_beside(out), memory, workers=workers)
            results = command(
                cohort,
                {
                    "out": out,
                    "sites": names or None,
                    "seeds": _setting("seeds", seeds, source),
                    "tuning": _setting("tuning", tuning, source),
                    "parameters": dict(parse_option(text, "--set") for text in settings or ()),
                    "jobs": n_jobs,
                    "engine": workers or where,
                    "partial": partial,
                    "force": force,
                    "progress": not quiet(),
                },
                **own,
            )
        from brainroam.cli.show_study import show_results

        if cohort.on_disk:
            from brainroam.execution.out_of_core import discard_work

            discard_work(work_beside(out))

        if json or not quiet():
            show_results(results, out, json)

    source, *shared = list(inspect.signature(wrapper).parameters.values())[:-1]
    own = list(inspect.signature(command).parameters.values())[2:]
    return takes_data(with_signature(wrapper, command, (source, *own, *shared)))


def _setting(name: str, typed: Any, source: DataSource) -> Any:
    """What was typed, else what the study file says, else what a study file that does not say it means."""
    return getattr(source.plan, name) if typed is None else typed


@takes_study
def loso(
    cohort: "Cohort",
    options: dict[str, Any],
    methods: Methods = None,
    by: Annotated[str, typer.Option(help="What to leave out: site or institution.", metavar="NAME")] = "site",
    protocol: Protocol = None,
    repeats: Repeats = None,
    controls: Annotated[
        str | None,
        typer.Option(help="Set the threshold with this many controls of the held-out site.", metavar="0,5,10,20,40"),
    ] = None,
) -> "Results":
    """Leave one site out: train on all the others, predict there; every site once.

    With --protocol halves: deal the sites into two random halves, train on each and predict at the other, repeatedly.
    With --controls: afterwards, see what a few controls of the held-out site, never scored, bring to the others there.
    Stop it whenever you like: the same command goes on where it stopped.

    [bold]Example:[/bold] brainroam loso ABIDE_pcp --atlas aal --methods core,tangent-ridge --out runs --jobs 2
    """
    from brainroam.audit.gate import evaluate

    protocols = {"site": protocol or "loso", "institution": "loio"}
    if by not in protocols:
        raise unknown("unit to leave out", by, protocols)
    if protocol not in (None, "loso", "halves"):
        raise unknown("protocol of this command", protocol, ("loso", "halves"))
    if by == "institution" and protocol == "halves":
        raise UsageError("halves are made of sites: leave out --by institution, or --protocol halves")
    wanted = None if controls is None else _numbers(controls, "--controls")
    if wanted is not None and protocols[by] != "loso":
        raise UsageError("--controls are taken from the site that is held out: leave one site out at a time")
    results = evaluate(cohort, methods or (), protocols[by], n_repeats=repeats or 1, **options)
    if wanted is not None:
        from brainroam.cli.show_study import show_adaptation

        show_adaptation(results, wanted, options["out"])
    return results


def _numbers(text: str, flag: str) -> list[int]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(part.isdecimal() for part in parts):
        raise UsageError(f"{flag} takes whole numbers with commas between, as 0,5,10,20,40, not {text!r}")
    return [int(part) for part in parts]


@takes_study
def cv(
    cohort: "Cohort",
    options: dict[str, Any],
    methods: Methods = None,
    folds: Annotated[int, typer.Option(help="Parts the people are dealt into.", min=2, metavar="N")] = 5,
    repeats: Annotated[int, typer.Option(help="Number of repeats.", min=1, max=1000, metavar="N")] = 1,
) -> "Results":
    """In-distribution folds: some people of every site are held out, so every site is known.

    It says how well methods do for new people at known sites, not at the next site.

    [bold]Example:[/bold] brainroam cv ABIDE_pcp --atlas aal --methods core,site-only --out runs-cv
    """
    from brainroam.audit.gate import evaluate

    return evaluate(cohort, methods or (), "cv", n_splits=folds, n_repeats=repeats, **options)


@takes_study
def ablate(cohort: "Cohort", options: dict[str, Any]) -> "Results":
    """CORE with one part changed at a time, leave-one-site-out.

    Without site-wise deconfounding (core-no-cd), prior guidance (core-no-pg) or subject-adaptive gates (core-no-sg),
    and with the temporal profiles that it goes without (core-tp).

    [bold]Example:[/bold] brainroam ablate ABIDE_pcp --atlas aal --out runs --seeds 3 --jobs 2
    """
    from brainroam.evaluation import studies

    return studies.ablate(cohort, **options)


@takes_study
def sweep(
    cohort: "Cohort",
    options: dict[str, Any],
    over: Annotated[
        str, typer.Option(help="budget (the gate's K), or window (length and stride).", metavar="NAME")
    ] = "budget",
) -> "Results":
    """CORE over a range of settings, leave-one-site-out: how much does the choice matter?

    [bold]Example:[/bold] brainroam sweep ABIDE_pcp --atlas aal --over budget --out runs --jobs 2
    """
    from brainroam.evaluation import studies

    return studies.sweep(cohort, over, **options)


def compare(
    runs: Studies = [Path("runs")],  # noqa: B006
    reference: Annotated[
        str | None,
        typer.Option(help="Compare all others with this method (ensemble, core, or the first name).", metavar="METHOD"),
    ] = None,
    all_pairs: Annotated[
        bool, typer.Option("--all-pairs", help="Compare every pair, which costs more under Holm's correction.")
    ] = False,
    data: PeopleOf = None,
    partial: Partial = False,
    json: Json = False,
) -> None:
    """Which method is better at the next site, how sure is that, and what can the data not decide?

    Two folders of runs are compared person by person: two atlases, two pipelines, before and after. A csv or tsv table
    of predictions made elsewhere (subject, site, score or probability, label) is judged alike, alone or beside runs.

    [bold]Example:[/bold] brainroam compare runs --reference tangent-ridge
    """
    from brainroam.cli.show_study import show_comparison
    from brainroam.evaluation.runner import compare

    comparison = compare(runs, reference, partial, all_pairs, people_of_study(data))
    if json or not quiet():
        show_comparison(comparison, json)


def people_of_study(data: str | None) -> "Cohort | None":
    """The cohort that --data names."""
    from brainroam.cli.options import source_of

    return None if data is None else source_of(data, {}).load()


def methods(
    name: Annotated[str | None, typer.Argument(help="Show this one and its settings.", metavar="[NAME]")] = None,
    json: Json = False,
) -> None:
    """List the methods: names, what they do and need, whom to cite; of one of them also the settings.

    [bold]Example:[/bold] brainroam methods core
    """
    from brainroam.cli.show_study import show_methods, show_settings
    from brainroam.methods.registry import method_info, method_names

    if name is None:
        show_methods([method_info(name) for name in method_names()], json)
    else:
        show_settings(method_info(name), json)
