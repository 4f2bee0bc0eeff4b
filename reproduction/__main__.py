"""`python -m reproduction DATA --out DIR`: run the paper on one dataset, as `make paper` does."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from brainroam.cli import errors_in_words
from brainroam.cli.options import Jobs, Seeds, Tuning, quiet
from brainroam.cli.source import DataSource, takes_data
from brainroam.methods.registry import split_names

if TYPE_CHECKING:
    from brainroam.data.study_file import Study


app = typer.Typer(rich_markup_mode="rich", add_completion=False, pretty_exceptions_enable=False)


@app.command()
@takes_data
def paper(
    source: DataSource,
    out: Annotated[Path, typer.Option(help="The folder of the study; what is finished in it is kept.", metavar="DIR")],
    parts: Annotated[
        str | None,
        typer.Option(
            help="Parts of the paper, with commas between: dataset, variation, loso, cv, ablation, k, windows, "
            "thresholds, embedding, edges, sites, learning, cost, complexity, propositions, deviations (all).",
            metavar="A,B",
        ),
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(help="Systems of the two tables (the paper's sixteen and our references).", metavar="A,B"),
    ] = None,
    epochs: Annotated[
        int, typer.Option(help="Of the network in ablation, sweeps and figures.", min=1, metavar="N")
    ] = 10,
    seeds: Seeds = None,
    tuning: Tuning = None,
    jobs: Jobs = None,
    page_only: Annotated[
        bool, typer.Option("--page-only", help="Compute nothing; write the page of what is finished.")
    ] = False,
) -> None:
    """Every table and figure of the CORE paper for one dataset, published numbers beside ours.

    Of ABIDE, REST-meta-MDD, SRPBS and ABCD it takes the paper's sites and people. On other data the page has no
    published numbers. Everything takes hours to days: stop it whenever you like, the same command goes on where it
    stopped, and --parts and --methods choose.

    [bold]Example:[/bold] python -m reproduction ABIDE_pcp --atlas aal --out paper --tuning fast --parts dataset,loso
    """
    with errors_in_words():
        if not page_only:
            plan, reader = as_published(source.plan)
            cohort = plan.load()
            from reproduction.parts import PARTS
            from reproduction.study import run_paper

            chosen = [name.strip() for name in parts.split(",") if name.strip()] if parts else PARTS
            run_paper(
                cohort,
                out,
                chosen,
                split_names(methods) if methods else None,
                epochs,
                seeds or source.plan.seeds,
                tuning or source.tuning,
                jobs or source.plan.jobs,
                progress=not quiet(),
                reader=reader,
            )
        from reproduction.page import paper_page

        for path in paper_page(out):
            typer.echo(f"page: {path}")


def as_published(plan: "Study") -> tuple["Study", str | None]:
    """The plan with the paper's sites and people, and the reader, where the data are one of the paper's datasets.

    Whoever names sites gets those, and no published numbers.
    """
    from brainroam.data.readers import PRESETS, detect
    from brainroam.data.study_file import SYNTHETIC
    from brainroam.errors import BrainroamError
    from brainroam.utils.files import expand_home

    if plan.data == SYNTHETIC or plan.sites:
        return plan, None
    try:
        reader = plan.reader if plan.reader != "auto" else detect(expand_home(plan.data))[0]
    except (BrainroamError, OSError):
        return plan, None  # loading says what is wrong
    if reader not in PRESETS["paper"]:
        return plan, None
    everybody = {} if "max_missing_rois" in plan.model_fields_set else {"max_missing_rois": 1.0}
    return plan.model_copy(update={"preset": "paper", **everybody}), reader


if __name__ == "__main__":
    app(prog_name="python -m reproduction")
