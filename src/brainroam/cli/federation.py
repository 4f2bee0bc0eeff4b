"""Commands for hospitals that cannot share: one for the hospital, one for the coordinator."""

from pathlib import Path
from typing import Annotated

import typer

from brainroam.cli.options import output
from brainroam.cli.source import DataSource, parse_settings, takes_data
from brainroam.errors import UsageError

PANEL = "What leaves the hospital"


def _show(path: Path | None) -> None:
    if path is not None:
        from brainroam.execution.federation.show import describe_file

        for line in describe_file(path):
            typer.echo(line)
        raise typer.Exit


@takes_data
def site(
    source: DataSource,
    out: Annotated[Path, output("The file to send.", "FILE")],
    request: Annotated[
        Path | None, typer.Option(help="The request of the coordinator; without it, round 1.", metavar="FILE")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="What this site is called in the files; else as in the data.", metavar="TEXT")
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            help="Take part with this block alone; of one measurement, its name at other sites.", metavar="BLOCK"
        ),
    ] = None,
    show: Annotated[
        Path | None,
        typer.Option(
            help="Say in plain words what a file contains, and stop.",
            metavar="FILE",
            callback=_show,
            is_eager=True,
            rich_help_panel=PANEL,
        ),
    ] = None,
    min_per_class: Annotated[
        int,
        typer.Option(help="Refuse with fewer cases or controls.", min=3, metavar="N", rich_help_panel=PANEL),
    ] = 10,
    min_count: Annotated[
        int,
        typer.Option(
            help="Disclose nothing that fewer people share.",
            min=3,
            metavar="N",
            rich_help_panel=PANEL,
        ),
    ] = 5,
    epsilon: Annotated[
        float | None,
        typer.Option(
            help="Clip values and add noise: the privacy budget (epsilon) of this file.",
            metavar="NUMBER",
            rich_help_panel=PANEL,
        ),
    ] = None,
    delta: Annotated[
        float, typer.Option(help="The delta of that budget.", metavar="NUMBER", rich_help_panel=PANEL)
    ] = 1e-5,
    clip: Annotated[
        float,
        typer.Option(
            help="Largest root mean square over edges of a person; larger ones are clipped.",
            metavar="NUMBER",
            rich_help_panel=PANEL,
        ),
    ] = 0.1,
    plain: Annotated[
        bool,
        typer.Option(
            "--plain", help="Tell round 2 in the open, not under masks; said in round 1.", rich_help_panel=PANEL
        ),
    ] = False,
    again: Annotated[
        bool,
        typer.Option(
            "--again",
            help="Answer for sums over hospitals that differ by one from those told before.",
            rich_help_panel=PANEL,
        ),
    ] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="kind, shrinkage, robust, huber_k or contrast, in round 1.", metavar="KEY=VALUE"),
    ] = None,
) -> None:
    """Summarise the people of one hospital for a pool; runs where the data are and needs no network.

    Three rounds: without --request the first summary, then one answer to each request of brainroam pool. A summary
    holds sums and means over people, nothing of a single person. Look at it before you send it: --show FILE. Round 1
    fixes covariates, settings and people; a record of it is kept beside --out, and requests for anything else are
    refused. Round 2 is sent under masks: it is noise until the files of all hospitals are added up.

    [bold]Example:[/bold] brainroam site DATA --out A1.summary
    """
    from brainroam.cli.show import show_excluded
    from brainroam.execution.federation.files import REQUEST, Settings, read_message
    from brainroam.execution.federation.ledger import Ledger
    from brainroam.execution.federation.protection import Protection
    from brainroam.execution.federation.site import answer
    from brainroam.utils.files import clear_parts, expand_home
    from brainroam.utils.parameters import require_settings

    fixed = parse_settings(settings)
    if fixed and request is not None:
        raise UsageError("--set is for round 1; a request brings its settings along")
    require_settings("site", Settings, fixed)
    asked = read_message(request, REQUEST) if request is not None else None
    protection = Protection(epsilon, delta, clip) if epsilon is not None else None
    cohort = source.load()
    if only is not None and cohort.blocks:
        cohort = cohort.block(only).subset(cohort.has_block(only))
    show_excluded(cohort.excluded)
    ledger = Ledger(expand_home(out).parent, name or cohort.sites[0])
    summary = answer(
        cohort,
        asked,
        name,
        Settings(**fixed),
        min_per_class,
        protection,
        None,
        min_count,
        ledger,
        only,
        not plain,
        again,
    )
    clear_parts(expand_home(out).parent, of=out.name)
    path = summary.write(out)
    for block, part in summary.parts.items():
        for what, why in part.withheld.items():
            typer.echo(f"withheld: {f'{block}: ' if block else ''}{what} {why}")
    if summary.round == 2 and "masked" not in summary.arrays and protection is None:
        typer.echo("note: told in the open: whoever has this file sees the products of this hospital alone")
    people = f"{cohort.counted} of {summary.site}"
    typer.echo(f"round {summary.round}: {people} in {path.stat().st_size:,} bytes: {path}")
    typer.echo(f"Before you send it: brainroam site --show {path}")


def pool(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Summaries of any round, in any order.", metavar="SUMMARY")
    ] = None,
    out: Annotated[Path, output("The folder of the pool.", "POOL")] = Path("pool"),
    without: Annotated[
        list[str] | None, typer.Option(help="Take a site out again; may be repeated.", metavar="SITE")
    ] = None,
    again: Annotated[
        list[str] | None,
        typer.Option(help="Take a site in that has withdrawn; may be repeated.", metavar="SITE"),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="tau_percentile, eta or zeta.", metavar="KEY=VALUE")
    ] = None,
) -> None:
    """Put summaries of several hospitals together: the model that their people in one place would have given.

    Round 1 gives the scaffold, round 2 POOL/model, which predict and explain take, round 3 POOL/scores.csv, the
    interval of the next site and POOL/report.html. POOL/request goes back to the hospitals for the next round.

    [bold]Example:[/bold] brainroam pool A1.summary B1.summary C1.summary --out POOL
    """
    import warnings

    from brainroam.execution.federation.pool import Pool

    thresholds = parse_settings(settings)
    pooled = Pool(out, thresholds)
    for name in without or ():
        pooled.withdraw(name)
    pooled.receive(files or [], again or [])
    progress = pooled.advance()
    for line in progress.lines:
        typer.echo(line)
    for odd in progress.warnings:
        warnings.warn(odd, stacklevel=1)
    if progress.scores is not None:
        from brainroam.report.pool_page import write_pool_page

        for line in write_pool_page(out):
            typer.echo(line)
