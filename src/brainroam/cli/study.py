"""Commands about studies: run methods under a protocol, compare them, report, plan a larger study."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from brainroam.cli.options import (
    Controls,
    EngineOptions,
    Jobs,
    Json,
    Methods,
    NumberOfFolds,
    Partial,
    PeopleOf,
    Protocol,
    Repeats,
    Seed,
    Studies,
    StudyOptions,
    Tuning,
    output,
    quiet,
)
from brainroam.cli.source import (
    DataSource,
    discard_work,
    load_or_open,
    parse_settings,
    source_of,
    split_words,
    takes_data,
    takes_options,
    work_beside,
    workers_of,
)
from brainroam.errors import UsageError, listed, unknown, warn_user
from brainroam.methods.registry import STANDARD_METHODS, split_names

if TYPE_CHECKING:
    from brainroam.data.cohort import Cohort

PLANNED = "ensemble,fc-ridge"


def takes_study(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command DATA and the options of a study."""
    return takes_data(takes_options(StudyOptions, EngineOptions)(command))


@takes_study
def evaluate(
    source: DataSource,
    options: StudyOptions,
    place: EngineOptions,
    methods: Methods = None,
    protocol: Protocol = None,
    folds: NumberOfFolds = 5,
    repeats: Repeats = None,
    controls: Controls = None,
) -> None:
    """Judge methods: hold people out, train on the others, predict.

    leave-one-site-out (brainroam loso) and institutions say how well a method does at the next one; halves, how well a
    model of half as many sites does there; folds (brainroam cv), how well it does for new people at known sites.

    Stop it whenever you like: the same command goes on where it stopped.

    [bold]Example:[/bold] brainroam evaluate study.yaml --protocol halves --repeats 20 --methods core,fc-ridge
    """
    judge(source, options, place, methods, protocol or source.plan.protocol, folds, repeats, controls)


@takes_study
def loso(
    source: DataSource,
    options: StudyOptions,
    place: EngineOptions,
    methods: Methods = None,
    controls: Controls = None,
    by: Annotated[str, typer.Option(hidden=True)] = "site",
    protocol: Annotated[str, typer.Option(hidden=True)] = "loso",
    repeats: Annotated[int | None, typer.Option(hidden=True, min=1, max=1000)] = None,
) -> None:
    """Leave one site out: train on all the others, predict there; every site once.

    Short for: brainroam evaluate --protocol leave-one-site-out.

    Stop it whenever you like: the same command goes on where it stopped.

    [bold]Example:[/bold] brainroam loso ABIDE_pcp --atlas aal --methods core,tangent-ridge --out runs --jobs 2
    """
    if by not in ("site", "institution"):
        raise unknown("unit to leave out", by, ("site", "institution"))
    if by == "institution" and protocol != "loso":
        raise UsageError("halves are made of sites: leave out --by institution, or --protocol halves")
    chosen = "loio" if by == "institution" else protocol
    judge(source, options, place, methods, chosen, repeats=repeats, controls=controls)


@takes_study
def cv(
    source: DataSource,
    options: StudyOptions,
    place: EngineOptions,
    methods: Methods = None,
    folds: NumberOfFolds = 5,
    repeats: Repeats = None,
) -> None:
    """In-distribution folds: some people of every site are held out, so every site is known.

    It says how well methods do for new people at known sites, not at the next site.

    Short for: brainroam evaluate --protocol folds.

    [bold]Example:[/bold] brainroam cv ABIDE_pcp --atlas aal --methods core,site-only --out runs-cv
    """
    judge(source, options, place, methods, "folds", folds, repeats)


@takes_study
def ablate(source: DataSource, options: StudyOptions, place: EngineOptions) -> None:
    """CORE with one part changed at a time, leave-one-site-out.

    Without site-wise deconfounding (core-no-cd), prior guidance (core-no-pg) or subject-adaptive gates (core-no-sg),
    and with the temporal profiles that it goes without (core-tp). Short for brainroam loso with these --methods.

    [bold]Example:[/bold] brainroam ablate ABIDE_pcp --atlas aal --out runs --seeds 3 --jobs 2
    """
    from brainroam.evaluation.stats.families import ABLATION

    judge(source, options, place, ABLATION, typed=False)


@takes_study
def sweep(
    source: DataSource,
    options: StudyOptions,
    place: EngineOptions,
    over: Annotated[
        str, typer.Option(help="budget (the gate's K), or window (length and stride).", metavar="NAME")
    ] = "budget",
) -> None:
    """CORE over a range of settings, leave-one-site-out: how much does the choice matter?

    Short for brainroam loso with these --methods.

    [bold]Example:[/bold] brainroam sweep ABIDE_pcp --atlas aal --over budget --out runs --jobs 2
    """
    from brainroam.evaluation.stats.families import sweep_names

    judge(source, options, place, sweep_names(over), typed=False)


def judge(
    source: DataSource,
    options: StudyOptions,
    place: EngineOptions,
    methods: str | Sequence[str] | None,
    protocol: str = "leave-one-site-out",
    n_folds: int = 5,
    repeats: int | None = None,
    controls: str | None = None,
    typed: bool = True,
) -> None:
    """What `evaluate` and its short-cuts do: read the data, run what is missing, print the results.

    Methods that nobody ``typed`` are left out where they do not suit the data, and read the blocks that all can read.
    """
    from brainroam.evaluation.run_records import on_common_blocks
    from brainroam.evaluation.splits import protocol_of
    from brainroam.methods.registry import check_names

    names = split_names(methods) if isinstance(methods, str) else methods or source.methods
    check_names(names)  # a typo is answered before the data are read
    design = Design.of(source, protocol_of(protocol), n_folds, repeats)
    few_controls = None if controls is None else _whole_numbers(controls, "--controls")
    if few_controls is not None and design.protocol != "loso":
        raise UsageError("--controls are taken from the site that is held out: leave one site out at a time")
    out = options.out or (Path(source.study.out) / "runs" if source.study else Path("runs"))
    engine = place.choose_engine(source.data, out)
    keywords = study_keywords(source, options)
    from brainroam.cli.show import show_what_was_read

    with workers_of(source, engine, keywords["jobs"], names) as workers:
        cohort = load_or_open(source, work_beside(out), options.memory, workers=workers)
        if few_controls is not None:
            cohort.target.refuse_classes("a threshold that controls of a new site move (--controls)")
        show_what_was_read(cohort)
        _warn_of_values(cohort)
        if methods is None or not typed:
            names = default_methods(names, cohort, design, partial(typer.echo, err=True), source.data)
        if not typed:
            names = on_common_blocks(names, cohort)
        from brainroam.audit.gate import evaluate
        from brainroam.cli.show_study import show_adaptation, show_results

        results = evaluate(
            cohort,
            names,
            design.protocol,
            n_splits=design.n_folds,
            n_repeats=design.n_repeats,
            out=out,
            engine=workers or engine,
            partial=options.partial,
            progress=not quiet(),
            **keywords,
        )
    discard_work(cohort, out)
    if few_controls is not None:
        show_adaptation(results, few_controls, out)
    if options.json or not quiet():
        show_results(results, out, options.json)


def _warn_of_values(cohort: "Cohort") -> None:
    """Say which covariates cannot be meant as they stand, and which sites lie beyond all others.

    One site in months bends every fold that it is trained in; a level is not learned where nobody was seen.
    """
    from brainroam.data.check.labels import implausible_values
    from brainroam.data.check.ranges import outside_all_others

    for finding in chain(implausible_values(cohort.table), outside_all_others(cohort)):
        warn_user(f"{f'site {finding.site}: ' if finding.site else ''}{finding.message}; {finding.remedy}")


class Design(NamedTuple):
    """What is held out, and how often."""

    protocol: str
    n_folds: int
    n_repeats: int

    @classmethod
    def of(cls, source: DataSource, protocol: str, n_folds: int, repeats: int | None) -> "Design":
        """As typed, else as the study file says; sites are split ten times, people once."""
        return cls(protocol, n_folds, repeats or source.plan.repeats or (10 if protocol == "halves" else 1))

    def n_runs(self, cohort: "Cohort") -> int:
        """How many folds there are, each of which every method is trained on."""
        runs = {"halves": 2 * self.n_repeats, "cv": self.n_folds * self.n_repeats}
        return runs.get(self.protocol, len(cohort.sites))


def default_methods(
    methods: Sequence[str], cohort: "Cohort", design: Design, say: Callable[[str], Any], study: str
) -> list[str]:
    """Of methods that nobody typed: those that suit these people, and of the standard ones only the fast ones.

    Says which are left out, and why.
    """
    from brainroam.evaluation.duration import without_expensive
    from brainroam.evaluation.run_records import suitable_methods

    suitable, reasons = suitable_methods(methods, cohort)
    if not suitable:
        raise UsageError(f"no method of {study} fits these people: {listed(reasons, 2)}")
    for reason in reasons:
        say(f"left out: {reason}")
    if set(methods) == set(STANDARD_METHODS):
        suitable, reason = without_expensive(suitable, cohort, design.n_runs(cohort))
        if reason:
            say(reason)
    return suitable


def study_keywords(source: DataSource, options: StudyOptions) -> dict[str, Any]:
    """Keywords of `brainroam.evaluate`: what was typed, else what the study file says, else what holds without one."""
    return {
        "held_out": split_words(options.held_out) or None,
        "seeds": options.seeds or source.plan.seeds,
        "tuning": options.tuning or source.tuning,
        "jobs": options.jobs or source.plan.jobs,
        "parameters": parse_settings(options.settings),
        "force": options.force,
    }


def _whole_numbers(text: str, flag: str) -> list[int]:
    parts = split_words(text)
    if not parts or not all(part.isdecimal() for part in parts):
        raise UsageError(f"{flag} takes whole numbers with commas between, as 0,5,10,20,40, not {text!r}")
    return [int(part) for part in parts]


def compare(
    runs: Studies = [Path("runs")],  # noqa: B006  typer wants a list, and copies it
    reference: Annotated[
        str | None,
        typer.Option(help="Compare all others with this method (core, ensemble, or the first name).", metavar="METHOD"),
    ] = None,
    all_pairs: Annotated[
        bool,
        typer.Option("--all-pairs", help="Compare every pair, which costs more under Holm's correction."),
    ] = False,
    data: PeopleOf = None,
    partial: Partial = False,
    json: Json = False,
) -> None:
    """Which method is better at the next site, how sure is that, and what can the data not decide?

    Two folders of runs are compared person by person: two atlases, two pipelines, before and after. A csv or tsv table
    of predictions made elsewhere (subject, site, score or probability, label) is judged alike, alone or beside runs.

    [bold]Example:[/bold] brainroam compare runs --reference tangent-ridge
    """
    from brainroam.cli.show_study import show_comparison
    from brainroam.evaluation.results import compare

    comparison = compare(runs, reference, partial, all_pairs, people_of_study(data))
    if json or not quiet():
        show_comparison(comparison, json)


def people_of_study(data: str | None) -> "Cohort | None":
    """The cohort that --data names."""
    return None if data is None else source_of(data, {}).load()


@takes_data
def plan(
    source: DataSource,
    methods: Annotated[
        str | None,
        typer.Option(
            help=f"The method to plan for and, after a comma, one to compare it with ({PLANNED}).", metavar="A,B"
        ),
    ] = None,
    more_sites: Annotated[int, typer.Option(help="How many sites could be added.", min=1, metavar="N")] = 5,
    difference: Annotated[
        float,
        typer.Option(
            help="Difference to detect: AUC points, or hundredths of r for a number.", min=0.1, max=50, metavar="POINTS"
        ),
    ] = 2.0,
    draws: Annotated[
        int, typer.Option(help="Smaller studies drawn for each number of sites.", min=2, max=1000, metavar="N")
    ] = 20,
    seed: Seed = 0,
    tuning: Tuning = None,
    jobs: Jobs = None,
    out: Annotated[Path, output("The folder to write.", "DIR")] = Path("plan"),
    json: Json = False,
) -> None:
    """Plan a larger study: what would more sites bring, what more people, and what does a comparison need?

    Smaller studies are drawn from DATA: fewer sites, fewer people at each. A folder of runs in the place of DATA
    answers the last question alone. Writes plan.json, plan.md, plan.html and the learning curve (CSV, PNG, SVG).

    [bold]Example:[/bold] brainroam plan study.yaml --methods ensemble,fc-ridge --more-sites 5 --out plan
    """
    from brainroam.cli.show import print_json
    from brainroam.evaluation.planning.plan import make_plan, plan_of_runs
    from brainroam.evaluation.results import load_runs
    from brainroam.evaluation.run_records import plain
    from brainroam.report.sections.next_site import write_plan
    from brainroam.utils.crate import command_line

    names = split_names(methods or PLANNED)
    if len(names) > 2:
        raise UsageError(f"a plan is for one method, or for telling two apart, not for {len(names)}; name two at most")
    if (Path(source.data) / "study.json").is_file():
        results = load_runs(Path(source.data))
        made = plan_of_runs(results, split_names(methods) if methods else None, difference / 100)
    else:
        made = make_plan(
            source.load(),
            names,
            more_sites=more_sites,
            difference=difference / 100,
            n_draws=draws,
            seed=seed,
            tuning=tuning or source.tuning,
            jobs=jobs or source.plan.jobs,
            progress=not quiet(),
        )
    paths = write_plan(made, out, command_line())
    if json:
        print_json(plain(made.to_dict()))
    elif not quiet():
        for line in [*made.sentences, *made.notes, *map(str, paths)]:
            typer.echo(line)


def methods(
    name: Annotated[str | None, typer.Argument(help="Show this one and its settings.", metavar="NAME")] = None,
    json: Json = False,
) -> None:
    """List the methods: names, what they do and need, whom to cite; of one of them also the settings.

    [bold]Example:[/bold] brainroam methods core
    """
    from brainroam.cli.show_study import show_methods, show_settings
    from brainroam.methods.registry import method_info, method_names

    if name is None:
        show_methods([method_info(name) for name in method_names()], json)
    else:
        show_settings(method_info(name), json)


def report(
    runs: Studies,
    out: Annotated[Path, output("The HTML file; it is self-contained.", "FILE")] = Path("report.html"),
    figures: Annotated[Path | None, output("A folder for the figures as PNG (300 dpi) and SVG.", "DIR")] = None,
    method: Annotated[
        str | None,
        typer.Option(help="The method the report is about; else core, ensemble, or the first run.", metavar="NAME"),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="What the study is called; else as its data or study folder.", metavar="TEXT")
    ] = None,
    data: PeopleOf = None,
) -> None:
    """Write one self-contained HTML page: did it work, at which sites, can I trust it, what about the next site?

    Runs that are missing or failed are listed in it; its end names commands that add more to it.

    A pool of site summaries whose three rounds are done (brainroam pool) has a page of its own.

    Two folders of runs of the same people (two atlases, two pipelines) are reported side by side, and so is a csv or
    tsv table of predictions made elsewhere, alone or beside runs.

    [bold]Example:[/bold] brainroam report runs --out report.html --figures figures
    """
    from brainroam.report.build import write_report
    from brainroam.report.pool_page import is_pool, write_pool_page

    if len(runs) == 1 and is_pool(Path(runs[0])):
        for line in write_pool_page(Path(runs[0]), out):
            typer.echo(line)
        return
    typer.echo(f"report: {write_report(runs, out, figures, method, name, people_of_study(data))}")
    if figures is not None:
        typer.echo(f"figures: {figures}")
