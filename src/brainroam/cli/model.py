"""Commands about one model: fit it, predict with it, explain it, forecast how well it does at a new site."""

import json
import warnings
from collections import Counter
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from brainroam.cli.options import Jobs, Memory, Seed, Settings, Tuning, output, quiet
from brainroam.cli.source import (
    DataSource,
    discard_work,
    load_or_open,
    parse_settings,
    source_of,
    takes_data,
    work_beside,
)
from brainroam.data.study_file import is_study
from brainroam.errors import BrainroamError, UsageError, counted, in_shell, listed
from brainroam.methods.registry import FLAGSHIP, as_typed, parse_name

if TYPE_CHECKING:
    import pandas as pd

    from brainroam.data.cohort import Cohort
    from brainroam.methods.tuning import TunedMethod

Model = Annotated[Path, typer.Argument(help="A folder that `brainroam fit` wrote.", metavar="MODEL")]

Ledger = Annotated[Path | None, output("The ledger, by default ledger.csv beside the forecast.", "CSV")]
LEDGER = "ledger.csv"
READING = {
    "reader",
    "atlas",
    "sites",
    "exclude_sites",
    "site_names",
    "max_missing_rois",
    "options",
}  # how a second version of the data is read, too
SHOWN = 5  # columns of a table that are named on the terminal


@takes_data
def fit(
    source: DataSource,
    out: Annotated[Path, output("The folder for the model; a model there is replaced.", "MODEL")] = Path("model"),
    method: Annotated[
        str | None,
        typer.Option(
            help="A name, see brainroam methods. By default the first of the study file, or core.",
            metavar="NAME",
        ),
    ] = None,
    seed: Seed = 0,
    tuning: Tuning = None,
    settings: Settings = None,
    memory: Memory = None,
    jobs: Jobs = None,
) -> None:
    """Fit a method on all sites of your data and save it.

    With --memory, ensemble, core, fc-ridge, log-ridge or scaffold-ridge are fitted on a store (brainroam convert) that
    need not fit into memory. Stop it whenever you like: the same command goes on where it stopped, up to the training
    of a network, which starts again.

    [bold]Example:[/bold] brainroam fit ABIDE_pcp --atlas aal --preset paper --out model
    """
    if jobs and memory is None:
        raise UsageError("--jobs shares out the work of --memory; a fit in memory runs on one core")
    cohort = load_or_open(source, work_beside(out), memory)
    from brainroam.cli.show import show_what_was_read
    from brainroam.execution.out_of_core import StoredCohort, write_edges
    from brainroam.methods.registry import method_info
    from brainroam.methods.saving import save_method
    from brainroam.methods.tuning import TunedMethod
    from brainroam.utils.model_files import membership_lines

    if method is None:
        method = source.methods[0] if source.study else FLAGSHIP
    name, fixed = parse_name(method)
    info = method_info(name)
    if info.in_distribution_only:
        raise UsageError(f"{method} cannot predict at a site it was not trained on, so a saved model of it has no use")
    info.require_savable()
    fixed |= parse_settings(settings)
    selected = TunedMethod(info, tuning or source.tuning, **fixed)
    show_what_was_read(cohort)
    start = perf_counter()
    if isinstance(cohort, StoredCohort):
        write_edges(cohort, info.make(**info.settings(fixed)).edge_kinds, jobs or 1, progress=not quiet())
    _fit(selected, cohort, seed)
    path = save_method(out, selected, cohort, seed)
    for note in selected.notes_:
        typer.echo(f"note: {note}")
    discard_work(cohort, out)
    if selected.model_.decision:
        typer.echo(f"{method}: {selected.model_.decision}")
    people = f"{cohort.counted} of {len(cohort.sites)} sites"
    typer.echo(f"{method} fitted on {people} in {perf_counter() - start:.0f} s; saved as {path}")
    lines = selected.target_.validation.shares_learned(selected.calibration_)
    for line in (*lines, *membership_lines(name, len(cohort), selected.target_.name)):
        typer.echo(line)


@takes_data
def predict(
    source: DataSource,
    model: Model,
    out: Annotated[Path, output("The table to write.", "CSV")] = Path("predictions.csv"),
    controls: Annotated[
        Path | None,
        typer.Option(help="A file with ids of known controls; they move their site's threshold.", metavar="FILE"),
    ] = None,
    adapt: Annotated[
        str,
        typer.Option(
            help="strict; unlabelled: all people of a site move its threshold; labelled: those whose number is known "
            "correct the level and scale of the others.",
            metavar="NAME",
        ),
    ] = "strict",
    level: Annotated[
        float | None,
        typer.Option(help="Demand prediction sets of this level: 80, 90 or 95 %.", min=1, max=99.9, metavar="PERCENT"),
    ] = None,
    prevalence: Annotated[
        str | None,
        typer.Option(
            help="Share of cases where you are: 0.1 for 10 %; of several classes HC=0.8,MDD=0.1,SCZ=0.1. By default "
            "as among the training people.",
            metavar="SHARE",
        ),
    ] = None,
    memory: Memory = None,
) -> None:
    """Predict for people of any site, labelled or not.

    Writes for each person the probability of the condition where a share --prevalence of people are cases; the class,
    by the threshold learned on held-out training sites, which treats both classes alike and ignores the prevalence;
    sets of classes that hold the truth for 80 and 90 % of people at a new site ("either": the model does not
    decide); which covariates were missing and replaced by the training mean; and how the person differs from those
    trained on.

    The column protocol says what was used of the new site: nothing (strict), or as --controls or --adapt.

    Where diagnoses are known this is external validation: it prints AUC with its interval, balanced accuracy and
    calibration by site, and whether the AUC is as the training sites foretold. Of a number: its value with intervals
    for each person; where it is known, order, level and scale by site, and whether they are as foretold.

    [bold]Example:[/bold] brainroam predict model NEW_SITE --atlas aal --controls ours.txt --out predictions.csv
    """
    source = source.as_in_training(model)
    cohort = load_or_open(source, work_beside(out), memory, require_label=False)
    from brainroam.cli.show import show_excluded
    from brainroam.data.exclusion import listed_people
    from brainroam.data.people import people_and_scans
    from brainroam.methods.familiarity import known_share
    from brainroam.methods.predictions import predictions, with_target_of
    from brainroam.methods.saving import load_method, prepared_as_in_training

    try:
        method, header = load_method(model, cohort)
        cohort = prepared_as_in_training(header, cohort)
    except BrainroamError:
        discard_work(cohort, out)  # nothing was begun that could be gone on with
        raise
    share_known = known_share(header.get("training", {}), cohort)
    _warn_of_known(share_known)
    if level is not None:
        method.sets_.require(round(level / 100, 6))
    told = method.target_.validation
    named = list(listed_people(controls, "controls")) if controls is not None else []
    table = predictions(method, with_target_of(method, cohort), named, adapt, _share(prevalence))
    discard_work(cohort, out)
    show_excluded(cohort.excluded)
    typer.echo(f"{people_and_scans(table)}, {told.predicted(table)}: {_save(table, out)}")
    _show_imputed(table)
    for outside in method.familiarity_.sites_outside(cohort) if method.familiarity_ is not None else ():
        typer.echo(f"{outside}: their order may hold, the level of numbers and probabilities is extrapolated")
    for line in told.shares_used(table, prevalence is not None):
        typer.echo(line)
    _show_validation(table, method, external=share_known == 0)


def _show_imputed(table: "pd.DataFrame") -> None:
    """What was not known of how many people and stood at the training mean instead."""
    parts = table["imputed"].dropna().str.split("; ").explode() if "imputed" in table else []
    counts = {name: n for name, n in Counter(parts).items() if name}
    if counts:
        each = listed(f"{name} ({counted(n, 'person', 'people')})" for name, n in counts.items())
        typer.echo(f"Not known, so the training mean stands for it: {each}")


def _warn_of_known(share: float) -> None:
    """Say that predictions of people of the training are no evidence about a new site."""
    if share > 0:
        warnings.warn(
            f"about {share:.0%} of these people were in the training of this model: their predictions look "
            "better than those of people never seen, and say nothing about a new site",
            stacklevel=2,
        )


@takes_data
def explain(
    source: DataSource,
    model: Model,
    out: Annotated[Path, output("The folder for tables and figures.", "DIR")] = Path("explanation"),
    top: Annotated[int, typer.Option(help="Pathways to list for each person.", min=1, metavar="N")] = 10,
    subject: Annotated[str | None, typer.Option(help="Write a page about this person instead.", metavar="ID")] = None,
) -> None:
    """Show which pathways a model reads, and which of them contributed most for each person.

    Writes pathways.csv, people.csv (the pathways that moved each person's prediction most) and, where the model has
    them, gates and a summary by lobes; and figures as PNG and SVG. With --subject, one HTML page. What each training
    site itself shows is not kept in a model, as it identifies people; the report of a study has it. Of a table its
    columns are ranked; of several blocks each has a folder of its own.

    [bold]Example:[/bold] brainroam explain model NEW_SITE --atlas aal --out explanation --subject 0051456
    """
    cohort = source.as_in_training(model).load(require_label=False)
    from brainroam.methods.blocks import parts_read
    from brainroam.methods.explanation import Explanation
    from brainroam.methods.saving import load_method, prepared_as_in_training
    from brainroam.report.brain.figures import write_explanation
    from brainroam.report.brain.person import write_person

    method, header = load_method(model, cohort)
    cohort = prepared_as_in_training(header, cohort)
    if subject is not None:
        typer.echo(f"wrote the page of {subject}: {write_person(method, header, cohort, subject, out)}")
        return
    read = parts_read(method.model_, cohort)
    for name, (part, people) in read.items():
        explanation = Explanation.of_model(part, people, top)
        for line in method.target_.explained(explanation.kind):
            typer.echo(line)
        for path in write_explanation(explanation, out / name):
            typer.echo(f"wrote {path}")
        columns = people.measure == "table"
        if explanation.atlas.coords is None and not columns:
            typer.echo(
                f"no picture of a brain: {people.atlas.name} has no coordinates; give a table of name, x, y, z "
                "(--atlas), which brainroam atlas makes of a label image"
            )
        if explanation.kind == "scaffold" and not len(explanation.site_contrasts):
            typer.echo(
                "contrasts by site are not kept in a model: they identify its training people; see a study's report"
            )
        if len(explanation.pathways):
            whose = f"{header['method']} in {name}" if name else header["method"]
            what = "columns of the table" if columns else "pathways"
            typer.echo(f"{len(explanation.pathways)} {what} of {whose}, ranked by {explanation.ranked_by}")
        if columns and len(explanation.pathways):
            first = explanation.pathways.head(SHOWN)
            typer.echo("the largest: " + ", ".join(f"{n} ({v:+.3g})" for n, v in _ranked(first, explanation.measure)))
    if method.model_.decision:
        typer.echo(f"{header['method']}: {method.model_.decision}")


@takes_data
def foretell(
    source: DataSource,
    model: Model,
    out: Annotated[Path, output("The forecast to write.", "JSON")] = Path("forecast.json"),
    prevalence: Annotated[
        str | None,
        typer.Option(
            help="Share of cases to expect there, of several classes HC=0.8,MDD=0.1,SCZ=0.1. Default: as in training.",
            metavar="SHARE",
        ),
    ] = None,
    other: Annotated[
        str | None,
        typer.Option(
            help="The same people by another pipeline: widens the intervals by how much scores differ.", metavar="DATA"
        ),
    ] = None,
    ledger: Ledger = None,
) -> None:
    """Forecast how well a model will do at new sites, before their diagnoses are opened.

    Writes for each site the AUC, balanced accuracy, level and Brier score to be observed there with intervals of 80 and
    95 %, and everybody's score; all of it is hashed. Labels in the data are not used. Commit the printed hash, or send
    it to somebody; then open the labels and run brainroam reveal.

    [bold]Example:[/bold] brainroam foretell model NEW_SITE --atlas aal --out forecast.json
    """
    from brainroam.cli.show import show_excluded
    from brainroam.evaluation.forecast import foretell as make_forecast
    from brainroam.evaluation.ledger import end_of, record_forecast
    from brainroam.utils.files import refuse_existing

    refuse_existing(out)  # a forecast whose hash was registered is not to be lost
    source = source.as_in_training(model)
    cohort = source.load(require_label=False)
    labels = int(cohort.table["label"].notna().sum())
    version = None
    if other is not None:
        as_first = {} if is_study(other) else source.plan.model_dump(include=READING)
        version = source_of(other, as_first).load(require_label=False)
    book = ledger or out.with_name(LEDGER)
    forecast = make_forecast(model, cohort, prevalence=_share(prevalence), other=version, after=end_of(book))
    forecast.save(out)
    show_excluded(cohort.excluded)
    if labels:
        typer.echo(f"{counted(labels, 'label', 'labels')} in {source.data} ignored")
    try:
        told = record_forecast(book, forecast)
    except BaseException:
        out.unlink()  # its hash was not told to anybody; the same command can be typed again
        raise
    for line in (*forecast.sentences(), *told):
        typer.echo(line)
    typer.echo(f"{out}: SHA-256 {forecast.hash}")
    typer.echo(f"Commit or send this hash before labels are opened; then: brainroam reveal {in_shell(out)} LABELS")


@takes_data
def reveal(
    source: DataSource,
    forecast: Annotated[Path, typer.Argument(help="What brainroam foretell wrote.", metavar="FORECAST")],
    out: Annotated[Path, output("The folder for reveal.json and the figure.", "DIR")] = Path("reveal"),
    hash: Annotated[
        str | None, typer.Option(help="The hash that was committed; another forecast is refused.", metavar="SHA256")
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="The model; a forecast of another one is refused.", metavar="MODEL")
    ] = None,
    ledger: Ledger = None,
) -> None:
    """Compare a forecast with the diagnoses: a table of ids and diagnoses, or the study with its labels.

    Refuses a forecast that was changed, other people and another model. Says for each site whether the AUC lies inside
    what was foretold, writes reveal.json and a figure, and adds a line to the ledger and its page.

    [bold]Example:[/bold] brainroam reveal forecast.json labels.csv --option label_col=dx --option case=ASD
    """
    from brainroam.data.readers.tables import is_table
    from brainroam.evaluation.ledger import record_reveal
    from brainroam.evaluation.reveal import reveal as judge
    from brainroam.report.figures import drawing, write
    from brainroam.report.ledger_page import ForecastDisplay, write_ledger_page
    from brainroam.utils.files import clear_parts, write_text

    path = Path(source.data)
    whole_study = not (is_table(path) and path.is_file())
    labels = source.load(require_label=False) if whole_study else path
    revealed = judge(forecast, labels, model=model, hash=hash, **({} if whole_study else source.plan.options))
    for line in revealed.sentences():
        typer.echo(line)
    book = ledger or forecast.with_name(LEDGER)
    for line in record_reveal(book, revealed):
        typer.echo(line)
    for name in ("reveal.json", "forecast."):
        clear_parts(out, of=name)
    clear_parts(book.parent, of=book.stem)
    written = [write_text(out / "reveal.json", json.dumps(revealed.content, indent=1) + "\n")]
    written += write(drawing("forecast", "Foretold and observed", ForecastDisplay.from_forecast(revealed)), out)
    for file in (*written, write_ledger_page(book)):
        typer.echo(file)


def _ranked(pathways: "pd.DataFrame", measure: str) -> "list[tuple[str, float]]":
    """Columns of a table with the value they are ranked by."""
    return list(zip(pathways["region_1"], pathways[measure], strict=True))


def _share(typed: str | None) -> float | dict[str, float] | None:
    """0.1, or HC=0.8,MDD=0.2 by class.

    >>> _share("0.1"), _share("HC=0.8,MDD=0.2")
    (0.1, {'HC': 0.8, 'MDD': 0.2})
    """
    if typed is None:
        return None
    if "=" not in typed:
        return as_number(typed, "--prevalence")
    parts = [part.rpartition("=") for part in typed.split(",")]
    return {name.strip(): as_number(share, f"the share of {name.strip() or 'a class'}") for name, _, share in parts}


def as_number(text: str, what: str) -> float:
    """A number as typed."""
    try:
        return float(text)
    except ValueError as error:
        raise UsageError(f"{what} is a number such as 0.1, not {text!r}; of several classes HC=0.8,MDD=0.2") from error


def _fit(selected: "TunedMethod", cohort: "Cohort", seed: int) -> "TunedMethod":
    """Fit; settings of which the method finds only now that they do not go together are an error in words."""
    try:
        return selected.fit(cohort, seed)
    except (ArithmeticError, RuntimeError, ValueError) as error:
        if not selected.fixed or isinstance(error, BrainroamError):
            raise
        settings = ", ".join(f"{name}={as_typed(value)}" for name, value in selected.fixed.items())
        raise UsageError(f"{selected.info.name} cannot work with {settings}: {error}") from error


def _show_validation(table: "pd.DataFrame", method: "TunedMethod", external: bool) -> None:
    """Print what the predictions are worth where the truth is known; nothing where it is of nobody."""
    from brainroam.cli.show import show_validation
    from brainroam.evaluation.external import agreement, validate

    sites = validate(table, method.target_, method.calibration_)
    if sites.empty:
        return
    title = "External validation" if external else "No external validation, as people of the training are among them"
    truth = method.target_.validation.truth
    typer.echo(f"{title}: {counted(int(sites['n'].sum()), 'person', 'people')} with a known {truth}")
    show_validation(sites, method.target_)
    for sentence in agreement(sites, method) if external else ():
        typer.echo(sentence)


def _save(table: "pd.DataFrame", path: Path) -> Path:
    from brainroam.utils.files import write_csv

    return write_csv(path, table)
