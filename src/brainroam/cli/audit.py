"""The command that searches for leaks and shortcuts."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from brainroam.cli.options import Json, Seed
from brainroam.cli.source import DataSource, takes_data

if TYPE_CHECKING:
    from brainroam.audit import Audit

VERDICTS = {True: ("pass", "green"), None: ("note", "yellow"), False: ("FAIL", "bold red")}


@takes_data
def audit(
    source: DataSource,
    methods: Annotated[
        str | None,
        typer.Option(
            help="Names (see brainroam methods) with commas between: fc-ridge; those of a study file.", metavar="A,B"
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Also write it as JSON, as runs/audit.json for the report.", metavar="FILE")
    ] = None,
    permutations: Annotated[
        int, typer.Option(help="Of the labels, for each method; 0 for none.", min=0, metavar="N")
    ] = 19,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Search your data and methods for leaks and shortcuts.

    Holds out a site, changes its labels, series, their lengths, regions and every column, and the names of everybody,
    each time in a fresh process and folder, and demands that nothing of the model moves; demands that people whose data
    were spoilt no longer score as before; scores people alone and in company; permutes labels; looks for one person at
    two sites; asks whether sites can be told apart and whether confounds alone predict. Exit code 1 when a leak is
    found. Says what it cannot see. A procedure of your own can be audited from Python: brainroam.audit.audit.

    [bold]Example:[/bold] brainroam audit ABIDE_pcp --atlas aal --methods fc-ridge --out runs/audit.json
    """
    cohort = source.load()
    from brainroam.audit import DEFAULT_METHODS
    from brainroam.audit import audit as search
    from brainroam.cli.show import print_json, write_json
    from brainroam.evaluation.run_records import plain
    from brainroam.evaluation.runs_folder import command_line
    from brainroam.methods.naming import split_names

    chosen = split_names(methods) if methods else list(source.methods if source.study else DEFAULT_METHODS)
    found = search(cohort, chosen, permutations, seed, progress=True)
    if out is not None:
        write_json(out, found.to_dict())
    if json:
        print_json(plain({"command": command_line(), **found.to_dict()}))
    else:
        _show(found)
    if not found.passed:
        raise typer.Exit(1)


def _show(found: "Audit") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from brainroam.errors import visible

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("", "check", "method", "evidence"):
        table.add_column(heading, overflow="fold")
    for check in found.checks:
        word, style = VERDICTS[check.passed]
        table.add_row(Text(word, style=style), Text(check.name), Text(check.method), Text(visible(check.evidence)))
    console = Console(highlight=False)
    console.print(table)
    leaks = sum(check.passed is False for check in found.checks)
    console.print(f"\n[bold red]{leaks} failed[/bold red]" if leaks else "\n[green]no leak found[/green]")
    console.print("An audit cannot see: " + "; ".join(found.cannot_see) + ".", soft_wrap=True, markup=False)
