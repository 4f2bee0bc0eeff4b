"""Commands of forecasts: foretell what a model will be worth at a new site, and be judged once labels are opened."""

import json
from pathlib import Path
from typing import Annotated

import typer

from brainroam.cli.model import Model
from brainroam.cli.source import DataSource, source_of, takes_data
from brainroam.data.study_file import is_study
from brainroam.errors import counted

Ledger = Annotated[
    Path | None, typer.Option(help="The ledger, by default ledger.csv beside the forecast.", metavar="CSV")
]
LEDGER = "ledger.csv"
READING = {"reader", "atlas", "sites", "max_missing_rois", "options"}  # how a second version of the data is read, too


@takes_data
def foretell(
    source: DataSource,
    model: Model,
    out: Annotated[Path, typer.Option(help="The forecast to write.", metavar="JSON")] = Path("forecast.json"),
    prevalence: Annotated[
        float | None, typer.Option(help="Share of cases to expect there, by default as in training.", metavar="SHARE")
    ] = None,
    other: Annotated[
        str | None,
        typer.Option(
            help="The same people by another pipeline: widens the intervals by how much scores differ.", metavar="DATA"
        ),
    ] = None,
    ledger: Ledger = None,
) -> None:
    """Foretell what a model will be worth at new sites, before their diagnoses are opened.

    Writes for each site the AUC, balanced accuracy, level and Brier score to be observed there with intervals of 80 and
    95 %, and everybody's score; all of it is hashed. Labels in the data are not used. Commit the printed hash, or send
    it to somebody; then open the labels and run brainroam reveal.

    [bold]Example:[/bold] brainroam foretell model NEW_SITE --atlas aal --out forecast.json
    """
    from brainroam.cli.show import show_excluded
    from brainroam.evaluation.forecast import foretell as make_forecast
    from brainroam.evaluation.ledger import record_forecast

    source = source.as_in_training(model)
    cohort = source.load(require_label=False)
    labels = int(cohort.table["label"].notna().sum())
    version = None
    if other is not None:
        as_first = {} if is_study(other) else source.plan.model_dump(include=READING)
        version = source_of(other, as_first).load(require_label=False)
    forecast = make_forecast(model, cohort, prevalence=prevalence, other=version)
    forecast.save(out)
    show_excluded(cohort.excluded)
    if labels:
        typer.echo(f"{counted(labels, 'label', 'labels')} in {source.data} ignored")
    for line in (*forecast.sentences(), *record_forecast(ledger or out.with_name(LEDGER), forecast)):
        typer.echo(line)
    typer.echo(f"{out}: SHA-256 {forecast.hash}")
    typer.echo(f"Commit or send this hash before labels are opened; then: brainroam reveal {out} LABELS")


@takes_data
def reveal(
    source: DataSource,
    forecast: Annotated[Path, typer.Argument(help="What brainroam foretell wrote.", metavar="FORECAST")],
    out: Annotated[Path, typer.Option(help="The folder for reveal.json and the figure.", metavar="DIR")] = Path(
        "reveal"
    ),
    hash: Annotated[
        str | None, typer.Option(help="The hash that was committed; another forecast is refused.", metavar="SHA256")
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="The model; a forecast of another one is refused.", metavar="MODEL")
    ] = None,
    ledger: Ledger = None,
) -> None:
    """Judge a forecast by the diagnoses: a table of ids and diagnoses, or the study with its labels.

    Refuses a forecast that was changed, other people and another model. Says for each site whether the AUC lies inside
    what was foretold, writes reveal.json and a figure, and adds a line to the ledger and its page.

    [bold]Example:[/bold] brainroam reveal forecast.json labels.csv --option label_col=dx --option case=ASD
    """
    from brainroam.data.readers.tables import is_table
    from brainroam.evaluation.ledger import record_reveal
    from brainroam.evaluation.reveal import reveal as judge
    from brainroam.report.figures import drawing, write
    from brainroam.report.ledger_page import ForecastDisplay, write_ledger_page
    from brainroam.utils.files import write_text

    path = Path(source.data)
    whole_study = not (is_table(path) and path.is_file())
    labels = source.load(require_label=False) if whole_study else path
    found = judge(forecast, labels, model=model, hash=hash, **({} if whole_study else source.plan.options))
    for line in found.sentences():
        typer.echo(line)
    book = ledger or forecast.with_name(LEDGER)
    for line in record_reveal(book, found):
        typer.echo(line)
    written = [write_text(out / "reveal.json", json.dumps(found.content, indent=1) + "\n")]
    written += write(drawing("forecast", "Foretold and observed", ForecastDisplay.from_forecast(found)), out)
    for file in (*written, write_ledger_page(book)):
        typer.echo(file)
