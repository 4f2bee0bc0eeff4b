"""Commands for cohorts that outgrow memory or one machine."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from brainroam.cli.options import DataSource, takes_data


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
    from brainroam.store import write_store

    with tempfile.TemporaryDirectory(dir=_existing(out), prefix=".spool-") as spool:
        cohort = source.load(everybody=True, require_label=False, spool=Path(spool))
        path = write_store(out, cohort.table, cohort.series, cohort.atlas, cohort.excluded)
    show_excluded(cohort.excluded)
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) / 1e6
    typer.echo(
        f"{len(cohort)} people of {len(cohort.sites)} sites, {size:.1f} MB: {path}; now try: brainroam check {path}"
    )


def _existing(path: Path) -> Path:
    """The nearest folder above a path that exists."""
    return next(parent for parent in path.expanduser().absolute().parents if parent.is_dir())
