"""Commands about data alone: look at it, fetch it, make some up."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from brainroam.cli.options import Json, Memory, quiet
from brainroam.cli.scale import load_or_open
from brainroam.cli.source import DataSource, possible_here, takes_data
from brainroam.errors import unknown

if TYPE_CHECKING:
    from brainroam.data.atlas import Atlas

DEMO_METHODS = ["ensemble", "core", "fc-ridge", "confounds"]


@takes_data
def check(
    source: DataSource,
    out: Annotated[
        Path | None, typer.Option(help="Also write it as JSON, as runs/check.json for the report.", metavar="FILE")
    ] = None,
    memory: Memory = None,
    json: Json = False,
) -> None:
    """List everything that is wrong with your multi-site data, at once.

    Exit code 1 when the data cannot be used.

    [bold]Example:[/bold] brainroam check ABIDE_pcp --atlas aal --preset paper
    """
    if source.study is not None:
        from brainroam.methods.registry import check_names

        check_names(source.methods)  # a typo is answered before the data are read
    with TemporaryDirectory(prefix="brainroam-") as work:
        # A mistyped path is answered before the heavy imports.
        cohort = load_or_open(source, Path(work), memory, everybody=True)
        from brainroam.cli.show import print_json, show_check, write_json
        from brainroam.data.check import check_cohort

        report = check_cohort(cohort, source.max_missing_rois)
    if out is not None:
        write_json(out, report.to_dict())
    if json:
        print_json(report.to_dict())
    elif not quiet():
        show_check(report)
    if not report.usable:
        raise typer.Exit(1)


def fetch(
    dataset: Annotated[str, typer.Argument(help="Which dataset: abide.", metavar="DATASET")],
    out: Annotated[Path, typer.Option(help="The folder to put it in.", metavar="DIR")] = Path("."),
    atlas: Annotated[list[str], typer.Option(help="Which ROI set; may be repeated.", metavar="NAME")] = ["aal"],  # noqa: B006
) -> None:
    """Download a public dataset.

    [bold]Example:[/bold] brainroam fetch abide --out data --atlas aal --atlas cc200
    """
    if dataset != "abide":
        raise unknown("dataset", dataset, ["abide"])
    from brainroam.data.readers import fetch_abide

    typer.echo(f"fetched; now try: brainroam check {fetch_abide(out, roi_sets=atlas)}")


def demo(out: Annotated[Path, typer.Option(help="The folder for its results.", metavar="DIR")] = Path("demo")) -> None:
    """See it work on an embedded synthetic cohort: check it, hold out each site once, compare, report.

    [bold]Example:[/bold] brainroam demo --out demo
    """
    from brainroam.cli.show import show_check, write_json
    from brainroam.cli.show_study import show_comparison
    from brainroam.data.check import check_cohort
    from brainroam.data.cohort import Cohort
    from brainroam.data.synthetic import make_cohort
    from brainroam.evaluation.runner import compare, evaluate
    from brainroam.report.build import write_report

    made = make_cohort(subtypes=2, effect=1.5, all_male_sites=1, outliers=2, constant_rois=3, missing_covariates=2)
    cohort = Cohort(made.series, made.table, _demo_atlas(made.n_rois), truth=made.truth)
    path = cohort.save(out / "cohort.npz")
    found = check_cohort(cohort)
    show_check(found)
    typer.echo(
        f"\nThe cohort is saved as {path}. Its cases are of two subtypes, each with pathways of its own, which is what"
    )
    typer.echo("the gates of core are for: one weight per pathway cannot fit both. Now every site is held out once:")
    methods = possible_here(DEMO_METHODS)
    evaluate(cohort, methods, out=out / "runs", progress=True)
    show_comparison(compare(out / "runs"), json=False)
    typer.echo(f"\nThe runs are in {out / 'runs'}; start it again and nothing is repeated.")
    write_json(out / "runs" / "check.json", found.to_dict())
    shown = "core" if "core" in methods else None  # this cohort was made for it
    page = write_report(out / "runs", out / "report.html", method=shown, name="Demo")
    typer.echo(f"Open the report in a browser: {page.resolve()}")


def _demo_atlas(n_rois: int) -> "Atlas":
    """Regions of Schaefer's atlas spread over the brain, so that the report can draw them."""
    import numpy as np

    from brainroam.data.atlas import Atlas, load_atlas

    whole = load_atlas("schaefer100")
    chosen = np.linspace(0, len(whole) - 1, n_rois).round().astype(int)
    labels, coords, networks = (np.array(of)[chosen] for of in (whole.labels, whole.coords, whole.networks))
    return Atlas("demo", tuple(labels.tolist()), coords, whole.citation, tuple(networks.tolist()))
