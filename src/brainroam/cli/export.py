"""Handing connectivity to other tools."""

from pathlib import Path
from typing import Annotated

import typer

from brainroam.cli.options import flag
from brainroam.cli.source import DataSource, takes_data


@takes_data
def export(
    source: DataSource,
    out: Annotated[Path, typer.Option(help="The folder to write.", metavar="DIR")] = Path("relmats"),
    kind: Annotated[str, typer.Option(help="Edge values: pearson, log, partial or lag.", metavar="NAME")] = "pearson",
    deconfounded: Annotated[bool, flag("--deconfounded", help="Without the effects of site and covariates.")] = False,
    held_out: Annotated[
        str | None,
        typer.Option(help="Sites that must not be learned from, with commas between; frozen for them.", metavar="A,B"),
    ] = None,
    table: Annotated[bool, flag("--table", help="One table, a row per person and a column per edge.")] = False,
) -> None:
    """Write everybody's connectivity as BIDS relationship matrices, with a table of people.

    One sub-<id>_..._relmat.dense.tsv and its .json per person, as the draft BIDS extension BEP017 has them; or one
    table, edges.tsv. With --deconfounded, residuals of site-wise regressions on the covariates: harmonised data for
    other tools. To judge a method on them, hold out its test sites here as well, or they have been learned from.

    [bold]Example:[/bold] brainroam export ABIDE_pcp --atlas aal --deconfounded --held-out NYU --table --out edges
    """
    from brainroam.errors import UsageError

    sites = [name.strip() for name in (held_out or "").split(",") if name.strip()]
    if sites and not deconfounded:
        raise UsageError("--held-out is about --deconfounded: otherwise nothing is learned from anybody")
    cohort = source.load(require_label=False)
    from brainroam.cli.show import show_excluded
    from brainroam.report import relmats
    from brainroam.report.relmats import deconfounded as residuals_of

    show_excluded(cohort.excluded)
    residuals = residuals_of(cohort, kind, sites) if deconfounded else None
    if table:
        typer.echo(f"edges of {len(cohort)} people: {relmats.write_edge_table(cohort, out, kind, residuals)}")
    else:
        path = relmats.write_relmats(cohort, out, kind, residuals=residuals)
        typer.echo(f"{len(cohort)} matrices of {cohort.n_rois} regions: {path}")
    if residuals is not None:
        typer.echo(residuals.description)
