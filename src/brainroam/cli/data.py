"""Commands about data: check, audit, fetch, simulate, extract, convert and export them."""

from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from brainroam.cli.options import EngineOptions, Jobs, Json, Memory, Seed, output, quiet
from brainroam.cli.source import (
    DataSource,
    cohort_on_disk,
    load_or_open,
    parse_settings,
    possible_here,
    split_words,
    takes_data,
    takes_options,
)
from brainroam.errors import UsageError, in_shell, unknown
from brainroam.utils.files import expand_home, refuse_existing, working_dir

if TYPE_CHECKING:
    from brainroam.data.atlas import Atlas
    from brainroam.data.cohort import Cohort


DEMO_METHODS = ["core", "ensemble", "fc-ridge", "confounds"]


@takes_data
def check(
    source: DataSource,
    out: Annotated[Path | None, output("Also write it as JSON, as runs/check.json for the report.", "FILE")] = None,
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

        report = check_cohort(cohort, source.max_missing_rois, source.plan.site_names)
    if out is not None:
        write_json(out, report.to_dict())
    if json:
        print_json(report.to_dict())
    elif not quiet():
        show_check(report)
    if not report.usable:
        raise typer.Exit(1)


@takes_data
def audit(
    source: DataSource,
    methods: Annotated[
        str | None,
        typer.Option(
            help="Names (see brainroam methods) with commas between. By default those of the study file, or fc-ridge. "
            "FILE.py:NAME is a pipeline of yours, or procedure(cohort, train, test, seed): it runs that file.",
            metavar="A,B",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        output("Also keep every check, as runs/audit.json for the report; the same command goes on.", "FILE"),
    ] = None,
    permutations: Annotated[
        int, typer.Option(help="Permutations of the labels for each method; 0 for none.", min=0, metavar="N")
    ] = 19,
    stress: Annotated[
        str | None,
        typer.Option(
            help="Also ask what each method loses where a shortcut turns round: motion, age, sex or length (of scans).",
            metavar="NAME",
        ),
    ] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Search your data and methods for leaks and shortcuts.

    Of each method: holds out a site and changes its labels, its data, scan lengths, missing regions, all columns and
    all names, one after another, each time in a fresh process and folder. Neither the model nor the scores of other
    people may change, and people whose data were replaced may not score as before. People are also scored alone, and
    labels are permuted.

    Of the data: looks for one person at two sites, and asks whether sites can be told apart and whether confounds alone
    predict. Exit code 1 when a leak is found. Says what it cannot see.

    [bold]Example:[/bold] brainroam audit ABIDE_pcp --atlas aal --methods fc-ridge --out runs/audit.json
    """
    cohort = source.load()
    from brainroam.audit import DEFAULT_METHODS
    from brainroam.audit import audit as search
    from brainroam.cli.show import print_json, show_audit
    from brainroam.evaluation.run_records import plain
    from brainroam.methods.registry import split_names
    from brainroam.utils.crate import command_line

    chosen = split_names(methods) if methods else list(source.methods if source.study else DEFAULT_METHODS)
    audited = search(cohort, chosen, permutations, seed, progress=True, out=out, stress=stress)
    if json:
        print_json(plain({"command": command_line(), **audited.to_dict()}))
    else:
        show_audit(audited)
    if not audited.passed:
        raise typer.Exit(1)


def fetch(
    dataset: Annotated[str, typer.Argument(help="Which dataset: abide.", metavar="DATASET")],
    out: Annotated[Path, output("The folder to put it in.", "DIR")] = Path("."),
    atlas: Annotated[list[str], typer.Option(help="Which ROI set; may be repeated.", metavar="NAME")] = ["aal"],  # noqa: B006  typer wants a list, and copies it
) -> None:
    """Download a public dataset.

    [bold]Example:[/bold] brainroam fetch abide --out data --atlas aal --atlas cc200
    """
    if dataset != "abide":
        raise unknown("dataset", dataset, ["abide"])
    from brainroam.data.readers import fetch_abide

    typer.echo(f"fetched; now try: brainroam check {fetch_abide(out, roi_sets=atlas)}")


def demo(out: Annotated[Path, output("The folder for its results.", "DIR")] = Path("demo")) -> None:
    """See it work on an embedded synthetic cohort: check it, hold out each site once, compare, report.

    [bold]Example:[/bold] brainroam demo --out demo
    """
    from brainroam.cli.show import show_check, write_json
    from brainroam.cli.show_study import show_comparison
    from brainroam.data.check import check_cohort
    from brainroam.data.cohort import Cohort
    from brainroam.data.synthetic import make_cohort
    from brainroam.evaluation.results import compare
    from brainroam.evaluation.runner import evaluate
    from brainroam.report.build import write_report

    oddities = {"all_male_sites": 1, "outliers": 2, "constant_rois": 3, "missing_covariates": 2}
    made = make_cohort(n_sites=10, n_per_site=24, subtypes=2, effect=1.5, **oddities)
    cohort = Cohort(made.series, made.table, _demo_atlas(made.n_rois), truth=made.truth)
    path = cohort.save(out / "cohort.npz")
    report = check_cohort(cohort)
    show_check(report)
    typer.echo(
        f"\nThe cohort is saved as {path}. Its cases are of two subtypes, each with pathways of its own, which is what"
    )
    typer.echo("the gates of core are for: one weight per pathway cannot fit both. Now every site is held out once:")
    methods = possible_here(DEMO_METHODS)
    evaluate(cohort, methods, out=out / "runs", progress=True)
    show_comparison(compare(out / "runs"), json=False)
    typer.echo(f"\nThe runs are in {out / 'runs'}; start it again and nothing is repeated.")
    write_json(out / "runs" / "check.json", report.to_dict())
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


def atlas(
    image: Annotated[
        str, typer.Argument(help="A label image (.nii.gz), or the name of a known atlas.", metavar="IMAGE")
    ],
    names: Annotated[
        Path | None, typer.Option(help="A table of the regions' names: index, name, perhaps network.", metavar="FILE")
    ] = None,
    out: Annotated[Path, output("The table to write.", "CSV")] = Path("atlas.csv"),
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
        shipped = load_atlas(image)
        table = pd.DataFrame({"name": shipped.labels})
        table[["x", "y", "z"]] = shipped.coords
        if shipped.networks is not None:
            table["network"] = shipped.networks
    path = write_csv(out, table)
    typer.echo(f"{len(table)} regions; now give --atlas {path}")


@takes_data
def export(
    source: DataSource,
    out: Annotated[Path, output("The folder to write.", "DIR")] = Path("relmats"),
    kind: Annotated[str, typer.Option(help="Edge values: pearson, log, partial or lag.", metavar="NAME")] = "pearson",
    deconfounded: Annotated[
        bool, typer.Option("--deconfounded", help="Without the effects of site and covariates.")
    ] = False,
    held_out: Annotated[
        str | None,
        typer.Option(help="Sites that must not be learned from, with commas between; frozen for them.", metavar="A,B"),
    ] = None,
    table: Annotated[bool, typer.Option("--table", help="One table, a row per person and a column per edge.")] = False,
) -> None:
    """Write everybody's connectivity as BIDS relationship matrices, with a table of people.

    One sub-<id>_..._relmat.dense.tsv and its .json per person, as the draft BIDS extension BEP017 has them; or one
    table, edges.tsv. With --deconfounded, residuals of site-wise regressions on the covariates: harmonised data for
    other tools. To judge a method on them, hold out its test sites here as well, or they have been learned from.

    [bold]Example:[/bold] brainroam export ABIDE_pcp --atlas aal --deconfounded --held-out NYU --table --out edges
    """
    sites = split_words(held_out)
    if sites and not deconfounded:
        raise UsageError("--held-out is about --deconfounded: otherwise nothing is learned from anybody")
    cohort = source.load(require_label=False)
    from brainroam.cli.show import show_excluded
    from brainroam.report import relmats
    from brainroam.report.relmats import deconfounded_edges

    show_excluded(cohort.excluded)
    cohort = _connectivity_of(cohort)
    residuals = deconfounded_edges(cohort, kind, sites) if deconfounded else None
    if table:
        typer.echo(f"edges of {len(cohort)} people: {relmats.write_edge_table(cohort, out, kind, residuals)}")
    else:
        path = relmats.write_relmats(cohort, out, kind, residuals=residuals)
        typer.echo(f"{len(cohort)} matrices of {cohort.n_rois} regions: {path}")
    if residuals is not None:
        typer.echo(residuals.description)


def _connectivity_of(cohort: "Cohort") -> "Cohort":
    """People with their connectivity alone: of several blocks the first that is no table, and who has it."""
    kinds = {name: block.measure for name, block in cohort.blocks.items()} or {"": cohort.measure}
    name = next((name for name, kind in kinds.items() if kind != "table"), None)
    if name is None:
        raise UsageError("a table has no connectivity to export; give series or matrices")
    if not cohort.blocks:
        return cohort
    have = cohort.has_block(name)
    typer.echo(
        f"of several blocks {name} is written, of the {have.sum()} of {len(cohort)} people who have it", err=True
    )
    return cohort.block(name).subset(have)


@takes_data
def convert(
    source: DataSource,
    out: Annotated[Path, output("The store to write; must not exist yet.", "STORE")],
) -> None:
    """Write your data as a chunked store, which every command reads like the original, in part, and checked.

    Everybody goes into the store, also people without a label or with many regions without signal: who is left out is
    decided by the command that reads it. People are read and written one after another.

    [bold]Example:[/bold] brainroam convert ABIDE_pcp --atlas aal --out abide.zarr
    """
    from brainroam.cli.show import show_excluded
    from brainroam.data.store import store_cohort
    from brainroam.data.target import TargetRequest

    out = expand_home(out)
    refuse_existing(out)
    with working_dir(out) as (scratch, left_behind):
        if left_behind:
            typer.echo("note: an earlier attempt was stopped before its end; starting again", err=True)
        cohort = source.load(everybody=True, require_label=False, spool=scratch, apply_target=False)
        path = store_cohort(scratch / out.name, cohort).rename(out)
    show_excluded(cohort.excluded)
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) / 1e6
    typer.echo(
        f"{cohort.counted} of {len(cohort.sites)} sites, {size:.1f} MB: {path}; "
        f"now try: brainroam check {in_shell(path)}"
    )
    if source.plan.target is not None:
        column = TargetRequest.of(source.plan.target).column
        typer.echo(f"A store is for any target: name {column} again with the commands that read it (--target)")


@takes_data
@takes_options(EngineOptions)
def scaffold(
    source: DataSource,
    place: EngineOptions,
    out: Annotated[Path, output("The folder for the results.", "DIR")],
    memory: Memory = "2GB",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="kind, shrinkage, robust, huber_k, tau_percentile, eta, zeta, sign, ...", metavar="KEY=VALUE"
        ),
    ] = None,
    jobs: Jobs = None,
) -> None:
    """Find the cross-site scaffold of a store that need not fit into memory.

    Writes scaffold.csv (regions, contrast, consistency, stability of every selected edge) and the arrays behind it.
    Stop it whenever you like: the same command goes on where it stopped.

    [bold]Example:[/bold] brainroam scaffold cohort.zarr --out scaffold --memory 2GB --jobs 2
    """
    where = place.choose_engine(source.data, out)
    from brainroam.execution.out_of_core import Settings, discard_work, find_scaffold, save_scaffold
    from brainroam.utils.parameters import require_settings

    fixed = parse_settings(settings)
    names = {item.name for item in fields(Settings)}
    for name in fixed:
        if name not in names:
            raise unknown("setting", name, sorted(names))
    require_settings("scaffold", Settings, fixed)
    cohort = cohort_on_disk(source, out / "work", memory or "2GB")
    evidence, selected = find_scaffold(cohort, Settings(**fixed), jobs or 1, where, progress=not quiet())
    path = save_scaffold(out, cohort, evidence, selected, Settings(**fixed))
    discard_work(out / "work")
    for note in evidence.deconfounder.notes_:
        typer.echo(f"note: {note}")
    people = f"{cohort.counted} of {len(cohort.sites)} sites"
    what = "columns" if cohort.measure == "table" else "edges"
    of_block = f" of the block {cohort.block_name}" if cohort.blocks else ""
    typer.echo(f"{len(selected)} of {len(selected.consensus)} {what}{of_block}, from {people}: {path}")


PANEL = "What is done to the signals"


def extract(
    folder: Annotated[str, typer.Argument(help="The folder of fMRIPrep, or the BIDS folder above.", metavar="FOLDER")],
    atlas: Annotated[
        str,
        typer.Option(help="schaefer200, aal, power264, ..., or a label image (.nii.gz) in MNI space.", metavar="NAME"),
    ],
    out: Annotated[Path, output("The folder for the series.", "DIR")] = Path("series"),
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
    gsr: Annotated[
        bool, typer.Option("--gsr", help="Also regress out the global signal.", rich_help_panel=PANEL)
    ] = False,
    high_pass: Annotated[
        float,
        typer.Option(
            help="Lower end of the band in Hz; 0: fMRIPrep's cosines.", min=0, metavar="HZ", rich_help_panel=PANEL
        ),
    ] = 0.01,
    low_pass: Annotated[
        float, typer.Option(help="Upper end of the band in Hz; 0: none.", min=0, metavar="HZ", rich_help_panel=PANEL)
    ] = 0.1,
    standardise: Annotated[
        bool, typer.Option(help="Every region to mean 0 and variance 1.", rich_help_panel=PANEL)
    ] = True,
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

    source = expand_home(folder)
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
    typer.echo(f"Now: brainroam init {in_shell(out)}")
    if len(failed):
        raise typer.Exit(1)
