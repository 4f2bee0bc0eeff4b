"""``brainroam plan``: what more sites or people would bring, and what it takes to tell two methods apart."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from brainroam.cli.options import Jobs, Json, Seed, Tuning, quiet
from brainroam.cli.source import DataSource, takes_data
from brainroam.errors import UsageError
from brainroam.methods.naming import split_names

if TYPE_CHECKING:
    from brainroam.evaluation.planning.plan import Plan

STANDARD = "ensemble,fc-ridge"


@takes_data
def plan(
    source: DataSource,
    methods: Annotated[
        str | None,
        typer.Option(
            help=f"The method to plan for and, after a comma, one to tell it apart from ({STANDARD}).", metavar="A,B"
        ),
    ] = None,
    more_sites: Annotated[int, typer.Option(help="Sites one thinks of adding.", min=1, metavar="N")] = 5,
    difference: Annotated[
        float, typer.Option(help="AUC points (of a number hundredths of r) to find.", min=0.1, max=50, metavar="POINTS")
    ] = 2.0,
    draws: Annotated[
        int, typer.Option(help="Smaller studies for each number of sites.", min=2, max=1000, metavar="N")
    ] = 20,
    seed: Seed = 0,
    tuning: Tuning = None,
    jobs: Jobs = None,
    out: Annotated[Path, typer.Option(help="The folder to write.", metavar="DIR")] = Path("plan"),
    json: Json = False,
) -> None:
    """Plan a larger study: what would more sites bring, what more people, and what does a comparison need?

    DATA is read and smaller studies are drawn from it: fewer sites, fewer people at each. A folder of runs is
    enough for the last question alone. Writes plan.json, plan.md, plan.html and the learning curve (CSV, PNG, SVG).

    [bold]Example:[/bold] brainroam plan study.yaml --methods ensemble,fc-ridge --more-sites 5 --out plan
    """
    from brainroam.cli.show import print_json
    from brainroam.evaluation.run_records import plain
    from brainroam.evaluation.runs_folder import command_line
    from brainroam.report.plan_page import write_plan

    names = split_names(methods or STANDARD)
    if len(names) > 2:
        raise UsageError(f"a plan is for one method, or for telling two apart, not for {len(names)}; name two at most")
    if (Path(source.data) / "study.json").is_file():
        found = _of_runs(Path(source.data), split_names(methods) if methods else None, difference / 100)
    else:
        from brainroam.evaluation.planning.plan import make_plan

        found = make_plan(
            source.load(),
            names,
            more_sites=more_sites,
            difference=difference / 100,
            n_draws=draws,
            seed=seed,
            tuning=tuning or source.tuning,
            jobs=jobs or source.plan.jobs,
            progress=not quiet(),
        )
    paths = write_plan(found, out, command_line())
    if json:
        print_json(plain(found.to_dict()))
    elif not quiet():
        for line in [*found.sentences, *found.notes, *map(str, paths)]:
            typer.echo(line)


def _of_runs(folder: Path, methods: list[str] | None, difference: float) -> "Plan":
    from brainroam.evaluation.planning.plan import plan_of_runs
    from brainroam.evaluation.runner import load_runs

    return plan_of_runs(load_runs(folder), methods, difference)
