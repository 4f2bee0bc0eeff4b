"""Commands about studies: run methods under a protocol, look at the runs, compare."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from brainroam.cli.options import DataSource, Json, dress, parse_option, takes_data
from brainroam.errors import unknown
from brainroam.evaluation.naming import split_names

if TYPE_CHECKING:
    from brainroam.cohort import Cohort
    from brainroam.evaluation.runner import Results

Runs = Annotated[Path, typer.Argument(help="A folder of runs.", metavar="RUNS")]
Methods = Annotated[
    str,
    typer.Option(
        help="Names (see brainroam methods) with commas between; fixed parameters in brackets: 'core\\[budget=20]'.",
        metavar="A,B",
    ),
]
Out = Annotated[
    Path, typer.Option(help="The folder of runs; what is finished in it is not done again.", metavar="RUNS")
]
HeldOut = Annotated[str | None, typer.Option(help="Hold out only these, with commas between.", metavar="A,B")]
Seeds = Annotated[int, typer.Option(help="Runs of each random method, averaged inside a site.", min=1, metavar="N")]
Budget = Annotated[str, typer.Option(help="Tuning, the same for all methods: full, default or fast.", metavar="NAME")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", help="A parameter to fix; may be repeated.", metavar="KEY=VALUE")
]
Jobs = Annotated[int, typer.Option(help="Runs at a time, each on one core.", min=1, metavar="N")]
EngineName = Annotated[str, typer.Option(help="Where to run: local.", metavar="NAME")]
Partial = Annotated[bool, typer.Option("--partial", help="Accept a study of which some runs are not finished.")]
Force = Annotated[bool, typer.Option("--force", help="Do finished runs again.")]


def takes_study(command: Callable[..., "Results"]) -> Callable[..., None]:
    """Give a command DATA and the options of a study; it gets the cohort and keywords for `evaluate`."""

    def wrapper(
        source: DataSource,
        out: Out,
        held_out: HeldOut = None,
        seeds: Seeds = 1,
        budget: Budget = "full",
        settings: Settings = None,
        jobs: Jobs = 1,
        engine: EngineName = "local",
        partial: Partial = False,
        force: Force = False,
        json: Json = False,
        **own: Any,
    ) -> None:
        names = [name.strip() for name in (held_out or "").split(",") if name.strip()]
        results = command(
            source.load(),
            {
                "out": out,
                "sites": names or None,
                "seeds": seeds,
                "budget": budget,
                "parameters": dict(parse_option(text, "--set") for text in settings or ()),
                "jobs": jobs,
                "engine": engine,
                "partial": partial,
                "force": force,
                "progress": True,
            },
            **own,
        )
        from brainroam.cli.show_study import show_results

        show_results(results, out, json)

    source, *shared = list(inspect.signature(wrapper).parameters.values())[:-1]
    own = list(inspect.signature(command).parameters.values())[2:]
    return takes_data(dress(wrapper, command, (source, *own, *shared)))


@takes_study
def loso(
    cohort: "Cohort",
    options: dict[str, Any],
    methods: Methods,
    by: Annotated[str, typer.Option(help="What to leave out: site or institution.", metavar="NAME")] = "site",
) -> "Results":
    """Leave one site out: train on all the others, predict there; every site once.

    Stop it whenever you like: the same command goes on where it stopped.

    [bold]Example:[/bold] brainroam loso ABIDE_pcp --atlas aal --methods core,tangent-ridge --out runs --jobs 2
    """
    from brainroam.evaluation.runner import evaluate

    protocols = {"site": "loso", "institution": "loio"}
    if by not in protocols:
        raise unknown("unit to leave out", by, protocols)
    return evaluate(cohort, split_names(methods), protocols[by], **options)


@takes_study
def cv(
    cohort: "Cohort",
    options: dict[str, Any],
    methods: Methods,
    folds: Annotated[int, typer.Option(help="Parts the people are dealt into.", min=2, metavar="N")] = 5,
    repeats: Annotated[int, typer.Option(help="How often they are dealt.", min=1, metavar="N")] = 1,
) -> "Results":
    """In-distribution folds: some people of every site are held out, so every site is known.

    It says how well methods do for new people at known sites, not at the next site.

    [bold]Example:[/bold] brainroam cv ABIDE_pcp --atlas aal --methods core,site-only --out runs-cv
    """
    from brainroam.evaluation.runner import evaluate

    return evaluate(cohort, split_names(methods), "cv", n_splits=folds, n_repeats=repeats, **options)


@takes_study
def ablate(cohort: "Cohort", options: dict[str, Any]) -> "Results":
    """CORE with one part taken away at a time, leave-one-site-out.

    Without site-wise deconfounding (core-no-cd), temporal profiles (core-no-tp), prior guidance (core-no-pg) and
    subject-adaptive gates (core-no-sg).

    [bold]Example:[/bold] brainroam ablate ABIDE_pcp --atlas aal --out runs --seeds 3 --jobs 2
    """
    from brainroam.evaluation import studies

    return studies.ablate(cohort, **options)


@takes_study
def sweep(
    cohort: "Cohort",
    options: dict[str, Any],
    over: Annotated[str, typer.Option(help="budget (the gate's K), or window (length and stride).", metavar="NAME")],
) -> "Results":
    """CORE over a range of settings, leave-one-site-out: how much does the choice matter?

    [bold]Example:[/bold] brainroam sweep ABIDE_pcp --atlas aal --over budget --out runs --jobs 2
    """
    from brainroam.evaluation import studies

    return studies.sweep(cohort, over, **options)


def compare(
    runs: Runs,
    reference: Annotated[
        str | None, typer.Option(help="Compare all others with this method only.", metavar="METHOD")
    ] = None,
    partial: Partial = False,
    json: Json = False,
) -> None:
    """Which method is better at the next site, how sure is that, and what can the data not decide?

    [bold]Example:[/bold] brainroam compare runs --reference tangent-ridge
    """
    from brainroam.cli.show_study import show_comparison
    from brainroam.evaluation.runner import compare

    show_comparison(compare(runs, reference, partial), json)


def methods(json: Json = False) -> None:
    """List the methods: names, what they do and need, whom to cite.

    [bold]Example:[/bold] brainroam methods --json
    """
    from brainroam.baselines.registry import method_info, method_names
    from brainroam.cli.show_study import show_methods

    show_methods([method_info(name) for name in method_names()], json)
