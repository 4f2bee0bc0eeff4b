"""``brainroam extract``: preprocessed volumes to regional series."""

from pathlib import Path
from typing import Annotated

import typer

from brainroam.cli.options import Jobs, flag, quiet

PANEL = "What is done to the signals"


def extract(
    folder: Annotated[str, typer.Argument(help="The folder of fMRIPrep, or the BIDS folder above.", metavar="FOLDER")],
    atlas: Annotated[
        str,
        typer.Option(help="schaefer200, aal, power264, ..., or a label image (.nii.gz) in MNI space.", metavar="NAME"),
    ],
    out: Annotated[Path, typer.Option(help="The folder for the series.", metavar="DIR")] = Path("series"),
    names: Annotated[
        Path | None, typer.Option(help="Names of the regions of a label image: index, name.", metavar="FILE")
    ] = None,
    confounds: Annotated[
        str,
        typer.Option(
            help="nilearn's presets: simple (24 motion parameters, white matter, CSF), scrubbing, compcor; or none.",
            metavar="NAME",
            rich_help_panel=PANEL,
        ),
    ] = "simple",
    gsr: Annotated[bool, flag("--gsr", help="Also regress out the global signal.", rich_help_panel=PANEL)] = False,
    high_pass: Annotated[
        float,
        typer.Option(
            help="Lower end of the band in Hz; 0: fMRIPrep's cosines.", min=0, metavar="HZ", rich_help_panel=PANEL
        ),
    ] = 0.01,
    low_pass: Annotated[
        float, typer.Option(help="Upper end of the band in Hz; 0: none.", min=0, metavar="HZ", rich_help_panel=PANEL)
    ] = 0.1,
    standardise: Annotated[bool, flag(help="Every region to mean 0 and variance 1.", rich_help_panel=PANEL)] = True,
    min_coverage: Annotated[
        float,
        typer.Option(
            help="A region with less of it inside the brain mask is missing.",
            min=0,
            max=1,
            metavar="SHARE",
            rich_help_panel=PANEL,
        ),
    ] = 0.5,
    task: Annotated[str | None, typer.Option(help="Which task; rest where there are several.", metavar="NAME")] = None,
    space: Annotated[
        str | None, typer.Option(help="Which space; MNI152NLin2009cAsym, or the only MNI space.", metavar="NAME")
    ] = None,
    table: Annotated[
        Path | None, typer.Option(help="The table of people, where it is not above the folder.", metavar="FILE")
    ] = None,
    jobs: Jobs = None,
) -> None:
    """Turn the volumes of fMRIPrep into regional series, with mean FD of every person.

    One file per run, in BIDS; a region that the scan does not cover is missing. Stop it whenever you like: the same
    command goes on where it stopped.

    [bold]Example:[/bold] brainroam extract derivatives/fmriprep --atlas schaefer200 --out series
    """
    from brainroam.data.extract.parcellation import load_parcellation
    from brainroam.data.extract.runs import find_runs
    from brainroam.data.extract.settings import Settings
    from brainroam.execution.extraction import extract as extract_all
    from brainroam.utils.files import expanded

    source = expanded(folder)
    settings = Settings(confounds, gsr, high_pass or None, low_pass or None, standardise, min_coverage)
    runs = find_runs(source, task, space)
    parcellation = load_parcellation(atlas, names)
    done = extract_all(runs, source, out, parcellation, settings, table, jobs or 1, progress=not quiet())
    failed = done.runs[done.runs["error"] != ""]
    people = done.runs["participant_id"].nunique()
    before = f", {done.n_before} of them before" if done.n_before else ""
    typer.echo(
        f"{len(done.runs) - len(failed)} runs of {people} people{before}, {len(parcellation.table)} regions: {out}"
    )
    for row in failed.itertuples():
        typer.echo(f"failed: {row.run}: {row.error}", err=True)
    if done.people is None:
        typer.echo(f"No table of people was found: add site and diagnosis to {out / 'participants.tsv'}, then")
    typer.echo(f"Now: brainroam init {out}")
    if len(failed):
        raise typer.Exit(1)
