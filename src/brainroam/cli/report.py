"""The command that writes the report of a study."""

from pathlib import Path
from typing import Annotated

import typer

from brainroam.cli.options import PeopleOf, Studies
from brainroam.cli.study import people_of_study


def report(
    runs: Studies,
    out: Annotated[Path, typer.Option(help="The HTML file; it is self-contained.", metavar="FILE")] = Path(
        "report.html"
    ),
    figures: Annotated[
        Path | None, typer.Option(help="A folder for the figures as PNG (300 dpi) and SVG.", metavar="DIR")
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(help="The method the report is about; else ensemble, core, or the first run.", metavar="NAME"),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="What the study is called; else as its data or study folder.", metavar="TEXT")
    ] = None,
    data: PeopleOf = None,
) -> None:
    """Write one self-contained HTML page: did it work, at which sites, can I trust it, what about the next site?

    Runs that are missing or failed are listed in it; its end names the commands that would add more.

    A pool of site summaries whose three rounds are done (brainroam pool) has a page of its own.

    Two folders of runs of the same people (two atlases, two pipelines) are reported side by side, and so is a csv or
    tsv table of predictions made elsewhere, alone or beside runs.

    [bold]Example:[/bold] brainroam report runs --out report.html --figures figures
    """
    from brainroam.report.build import write_report
    from brainroam.report.pool_page import is_pool, write_pool_page

    if len(runs) == 1 and is_pool(Path(runs[0])):
        for line in write_pool_page(Path(runs[0]), out):
            typer.echo(line)
        return
    typer.echo(f"report: {write_report(runs, out, figures, method, name, people_of_study(data))}")
    if figures is not None:
        typer.echo(f"figures: {figures}")
