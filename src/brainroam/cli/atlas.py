"""``brainroam atlas``: a table of regions from a label image, for atlases that are not known by name."""

from pathlib import Path
from typing import Annotated

import typer


def atlas(
    image: Annotated[
        str, typer.Argument(help="A label image (.nii.gz), or the name of a known atlas.", metavar="IMAGE")
    ],
    names: Annotated[
        Path | None, typer.Option(help="A table of the regions' names: index, name, perhaps network.", metavar="FILE")
    ] = None,
    out: Annotated[Path, typer.Option(help="The table to write.", metavar="CSV")] = Path("atlas.csv"),
) -> None:
    """Write the names, MNI centres and networks of an atlas as a table, to give as --atlas.

    For a parcellation of your own give its label image in MNI space and, if you have them, the names of its regions.

    [bold]Example:[/bold] brainroam atlas labels.nii.gz --names names.csv --out atlas.csv
    """
    import pandas as pd

    from brainroam.data.atlas import load_atlas
    from brainroam.data.atlas.known import canonical
    from brainroam.data.atlas.label_image import region_table
    from brainroam.utils.files import write_csv

    if canonical(image) is None:
        table = region_table(image, names)
    else:
        known = load_atlas(image)
        table = pd.DataFrame({"name": known.labels})
        table[["x", "y", "z"]] = known.coords
        if known.networks is not None:
            table["network"] = known.networks
    path = write_csv(out, table)
    typer.echo(f"{len(table)} regions; now give --atlas {path}")
