"""Handing connectivity to other tools."""

from pathlib import Path
from typing import Annotated

import typer

from brainroam.cli.options import DataSource, takes_data


@takes_data
def export(
    source: DataSource,
    out: Annotated[Path, typer.Option(help="The folder to write.", metavar="DIR")] = Path("relmats"),
    kind: Annotated[str, typer.Option(help="Edge values: pearson, log, partial or lag.", metavar="NAME")] = "pearson",
) -> None:
    """Write everybody's connectivity as BIDS relationship matrices, with a table of people.

    One sub-<id>_..._relmat.dense.tsv and its .json per person, as the draft BIDS extension BEP017 has them.

    [bold]Example:[/bold] brainroam export ABIDE_pcp --atlas aal --kind pearson --out relmats
    """
    cohort = source.load(require_label=False)
    from brainroam.cli.show import show_excluded
    from brainroam.report.relmats import write_relmats

    show_excluded(cohort.excluded)
    typer.echo(f"{len(cohort)} matrices of {cohort.n_rois} regions: {write_relmats(cohort, out, kind)}")
