"""``brainroam run``: check, hold out sites, audit, compare and report; it resumes where it stopped."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from brainroam.cli.options import (
    RESULTS,
    EngineOptions,
    Methods,
    NumberOfFolds,
    Protocol,
    Repeats,
    StudyOptions,
    quiet,
)
from brainroam.cli.source import (
    DataSource,
    discard_work,
    load_or_open,
    takes_data,
    takes_options,
    work_beside,
    workers_of,
)
from brainroam.cli.study import Design, default_methods, study_keywords
from brainroam.data.study_file import read_study
from brainroam.errors import UsageError, counted, in_shell, unknown, visible
from brainroam.methods.registry import split_names

if TYPE_CHECKING:
    from brainroam.data.check import CheckReport
    from brainroam.data.cohort import Cohort
    from brainroam.execution.progress import Advance

SECONDS_OF_SILENCE = 10.0
STAGES = ("check", "hold out sites", "audit", "compare", "report")
StudyFile = Annotated[str, typer.Argument(help="A study file, see brainroam init.", metavar="STUDY")]


@partial(takes_data, argument=StudyFile, default="study.yaml")
@takes_options(StudyOptions, EngineOptions)
def run(
    source: DataSource,
    options: StudyOptions,
    place: EngineOptions,
    methods: Methods = None,
    skip: Annotated[
        str | None, typer.Option(help="Methods of the study to leave out, with commas between.", metavar="A,B")
    ] = None,
    protocol: Protocol = None,
    folds: NumberOfFolds = 5,
    repeats: Repeats = None,
    open_: Annotated[
        bool, typer.Option("--open", help="Open the report in the browser.", rich_help_panel=RESULTS)
    ] = False,
) -> None:
    """Do a whole study: check the data, hold out every site once, audit, compare the methods, write the report.

    Options go before what the study file says. Runs that fail do not stop the others; the report names them, and the
    exit code is 1. tangent-ridge is left out of the standard methods where it would take most of the time. The audit
    is a short one, without permutations of the labels: brainroam audit does all of it.

    Stop it whenever you like: the same command goes on where it stopped.

    [bold]Example:[/bold] brainroam run study.yaml --open
    """
    plan, study = source.plan, source.typed
    if source.study is None:
        read_study(study)  # says what is wrong with it
    out = options.out or Path(plan.out)
    names = _without(split_names(methods) if methods else source.methods, skip)
    if (out / "report.html").exists() and not (out / "runs" / "study.json").is_file():
        raise UsageError(
            f"{out / 'report.html'} is not of this study: there are no runs beside it; name another folder in {study}, "
            "as in out: results, or move that file away"
        )
    from brainroam.audit.gate import evaluate
    from brainroam.cli.show import show_check, show_what_was_read, write_json
    from brainroam.cli.show_study import show_comparison
    from brainroam.data.check import check_cohort
    from brainroam.evaluation.results import compare
    from brainroam.evaluation.runs_folder import RunsFolder
    from brainroam.evaluation.splits import protocol_of
    from brainroam.methods.blocks import parts_of
    from brainroam.methods.registry import check_names
    from brainroam.report.build import write_report

    check_names(names)  # a typo is answered before the data are read
    design = Design.of(source, protocol_of(protocol or plan.protocol), folds, repeats)
    keywords = study_keywords(source, options)
    engine = place.choose_engine(source.data, out / "runs")
    with Stages() as stages, workers_of(source, engine, keywords["jobs"], names) as workers:
        with stages.stage("check") as done:
            # Read once, for the check and for the study.
            everybody = load_or_open(source, work_beside(out), options.memory, everybody=True, workers=workers)
            report = check_cohort(everybody, plan.max_missing_rois, plan.site_names)
            done(_counts(report, study))
        if not report.usable:
            stages.stop()
            show_check(report)
            raise typer.Exit(1)
        cohort = everybody.exclude_missing(plan.max_missing_rois)
        show_what_was_read(cohort)
        if methods is None:
            names = default_methods(names, cohort, design, stages.say, study)
        if cohort.blocks and "[" not in names[0]:
            parts = parts_of(names[0], list(cohort.blocks))
            names = [*names, *(name for name in parts if name not in names)]
        results = evaluate(
            cohort,
            names,
            design.protocol,
            n_splits=design.n_folds,
            n_repeats=design.n_repeats,
            out=out / "runs",
            engine=workers or engine,
            partial=True,
            progress=stages.runs,
            **keywords,
        )
        write_json(out / "runs" / "check.json", report.to_dict())
        with stages.stage("audit") as done:
            done(_short_audit(cohort, names[0], out / "runs" / "audit.json", stages))
        with stages.stage("compare") as done:
            comparison = compare(out / "runs", partial=True)
            done(f"{len(comparison.table)} methods")
        with stages.stage("report") as done:
            RunsFolder(out / "runs").write_crate()  # again, now that check and audit are there
            page = write_report(out / "runs", out / "report.html", name=plan.name)
            done(str(page))
    discard_work(cohort, out)
    if options.json or not quiet():
        show_comparison(comparison, options.json)
    if not (options.json or quiet()):
        typer.echo(f"\nThe report is {page}")
    if open_:
        import webbrowser

        webbrowser.open(Path(page).resolve().as_uri())
    if results.study["failed"] and not options.partial:
        raise typer.Exit(1)


def _counts(report: "CheckReport", study: str) -> str:
    """What a check found, in words."""
    findings = report.to_dict()["findings"]
    n_errors, n_warnings = (sum(f["severity"] == severity for f in findings) for severity in ("error", "warning"))
    seen = f"; brainroam check {in_shell(study)} shows them" if n_warnings else ""
    errors = f"{counted(n_errors, 'error', 'errors')}, " if n_errors else ""
    return f"{len(findings)} findings, {errors}{n_warnings} warnings{seen}"


def _without(methods: list[str], skip: str | None) -> list[str]:
    """The methods without those to skip, each of which must be one of them."""
    names = split_names(skip or "")
    for name in names:
        if name not in methods:
            raise unknown("method of this study", name, methods)
    remaining = [name for name in methods if name not in names]
    if not remaining:
        raise UsageError(f"--skip {skip} leaves no method")
    return remaining


def _short_audit(cohort: "Cohort", method: str, file: Path, stages: "Stages") -> str:
    """Audit the data and a method without permutations; in words. What the file holds of the same is not done again."""
    from brainroam.audit import audit

    skipped = ""
    try:
        result = audit(cohort, [method], permutations=0, progress=stages.audit, out=file)
    except Exception as error:  # a method that fails in the study fails here as well
        skipped = f"; the data alone, {method} could not be audited: {error}"
        result = audit(cohort, [], permutations=0, out=file)
    failed = sum(check.passed is False for check in result.checks)
    return (f"{failed} of {len(result.checks)} checks failed" if failed else "no leak found") + skipped


class Stages:
    """Progress of the five stages: bars with elapsed and remaining time on a terminal, else a line per event."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import Progress, TextColumn

        from brainroam.execution.progress import WHOLE_STUDY, time_columns

        self._console = Console(stderr=True, quiet=quiet(), highlight=False)
        self._live = self._console.is_terminal and not quiet()
        self._bars = Progress(
            TextColumn("{task.description:<14}"),
            *time_columns(),
            console=self._console,
            expand=True,
            disable=not self._live,
            speed_estimate_period=WHOLE_STUDY,
        )
        self._tasks = {name: self._bars.add_task(name, start=False, total=1, news="") for name in STAGES}

    def __enter__(self) -> "Stages":
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Leave the view as it stands."""
        self._bars.stop()

    def say(self, text: str) -> None:
        """A line above the bars."""
        self._console.print(visible(text), markup=False, soft_wrap=True)

    @contextmanager
    def stage(self, name: str) -> "Iterator[Advance]":
        """A stage of one step; call what is yielded with its outcome in words."""
        with self._running(name, 1) as advance:
            yield advance

    @contextmanager
    def runs(self, total: int) -> "Iterator[Advance]":
        """The stage of many runs, as `brainroam.evaluate` wants it shown."""
        if total == 0:
            with self.stage("hold out sites") as done:
                done("all finished before")
                yield done
            return
        with self._running("hold out sites", total) as advance:
            yield advance

    @contextmanager
    def audit(self, total: int) -> "Iterator[Advance]":
        """The checks of an audit, within its stage; where there is no bar, a line now and then."""
        from brainroam.execution.progress import Advance

        task, start, done, told = self._tasks["audit"], time.monotonic(), 0, 0.0
        self._bars.update(task, total=total + 1)  # the last is the outcome

        def advance(news: str) -> None:
            nonlocal done, told
            done, seconds = done + 1, time.monotonic() - start
            self._bars.update(task, advance=1, news=visible(news))
            if not self._live and seconds >= told + SECONDS_OF_SILENCE:
                told = seconds
                self.say(f"audit {done}/{total}: {news} ({seconds:.0f} s)")

        yield Advance(advance, say=self.say)

    @contextmanager
    def _running(self, name: str, total: int) -> "Iterator[Advance]":
        from brainroam.execution.progress import Advance

        task, start, done = self._tasks[name], time.monotonic(), 0
        self._bars.start_task(task)
        self._bars.update(task, total=total)

        def advance(news: str) -> None:
            nonlocal done
            done += 1
            self._bars.update(task, advance=1, news=news)
            if not self._live:
                count = f" {done}/{total}" if total > 1 else ""
                line = f"{name}{count}: {news} ({time.monotonic() - start:.0f} s)"
                self._console.print(line, markup=False, soft_wrap=True)

        yield Advance(advance, lambda text: self._bars.update(task, news=visible(text)), self.say)
