"""``brainroam init``: look at a folder, ask what cannot be guessed, write a study file with comments."""

import os
import shlex
import string
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from brainroam.cli.options import output
from brainroam.cli.source import parse_exclude, parse_option, possible_here, split_words
from brainroam.errors import UsageError, counted, in_shell, listed, visible
from brainroam.methods.registry import STANDARD_METHODS, STANDARD_TUNING, split_names

if TYPE_CHECKING:
    from brainroam.data.cohort import Cohort
    from brainroam.data.detect import Guess, Question

PANEL = "If it cannot be guessed"
COLUMN = {"metavar": "COLUMN", "rich_help_panel": PANEL}
COVARIATES = ("age", "sex", "mean_fd")
STANDARD = ",".join(STANDARD_METHODS)
CODE = {"metavar": "VALUE", "rich_help_panel": PANEL}


def init(
    folder: Annotated[str, typer.Argument(help="The folder of your data.", metavar="FOLDER")],
    out: Annotated[Path, output("The file to write.", "FILE")] = Path("study.yaml"),
    table: Annotated[
        list[Path] | None,
        typer.Option(help="The table of people; repeat it to join several.", metavar="FILE", rich_help_panel=PANEL),
    ] = None,
    sheet: Annotated[
        str | None, typer.Option(help="Its sheet, if not the first.", metavar="NAME", rich_help_panel=PANEL)
    ] = None,
    subject: Annotated[str | None, typer.Option(help="Its column of ids.", **COLUMN)] = None,
    site: Annotated[str | None, typer.Option(help="Its column of sites.", **COLUMN)] = None,
    label: Annotated[str | None, typer.Option(help="Its column of diagnoses, or none.", **COLUMN)] = None,
    age: Annotated[str | None, typer.Option(help="Its column of ages.", **COLUMN)] = None,
    sex: Annotated[str | None, typer.Option(help="Its column of sexes.", **COLUMN)] = None,
    sex_codes: Annotated[str | None, typer.Option(help="What sexes mean: 1=male,2=female.", **CODE)] = None,
    motion: Annotated[str | None, typer.Option(help="Its column of mean framewise displacement, mm.", **COLUMN)] = None,
    family: Annotated[str | None, typer.Option(help="Its column of families, never split.", **COLUMN)] = None,
    institution: Annotated[str | None, typer.Option(help="Its column of institutions of sites.", **COLUMN)] = None,
    target: Annotated[
        str | None,
        typer.Option(
            help="What is predicted, if not two classes: COLUMN, COLUMN:number, COLUMN:log, "
            "COLUMN:ordered=mild,severe.",
            **COLUMN,
        ),
    ] = None,
    case: Annotated[str | None, typer.Option(help="The diagnosis that is the condition.", **CODE)] = None,
    control: Annotated[str | None, typer.Option(help="The diagnosis that is the controls.", **CODE)] = None,
    template: Annotated[
        str | None,
        typer.Option(
            help="Where a person's series is: 'ts/{participant_id}.csv'.", metavar="PATH", rich_help_panel=PANEL
        ),
    ] = None,
    sessions: Annotated[
        str | None, typer.Option(help="first, all or average.", metavar="NAME", rich_help_panel=PANEL)
    ] = None,
    runs: Annotated[
        str | None, typer.Option(help="concatenate or first.", metavar="NAME", rich_help_panel=PANEL)
    ] = None,
    atlas: Annotated[
        str | None,
        typer.Option(
            help="aal, cc200, schaefer200, ..., or a table of region names.", metavar="NAME", rich_help_panel=PANEL
        ),
    ] = None,
    reader: Annotated[
        str | None, typer.Option(help="Name of the layout.", metavar="NAME", rich_help_panel=PANEL)
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(help="Another option of the reader; may be repeated.", metavar="KEY=VALUE", rich_help_panel=PANEL),
    ] = None,
    like: Annotated[
        Path | None,
        typer.Option(help="A study file whose columns, codes and names of sites hold here too.", metavar="FILE"),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            help="People to leave out, whose files are not opened: ids with commas between, or a file of ids.",
            metavar="IDS|FILE",
        ),
    ] = None,
    exclude_sites: Annotated[
        str | None, typer.Option(help="Sites to leave out, with commas between.", metavar="A,B")
    ] = None,
    site_names: Annotated[
        list[str] | None,
        typer.Option(
            help="One name for a site under several, as 'koeln=Köln'; 'koeln=koeln' says that it is another.",
            metavar="NAME=NAME",
            rich_help_panel=PANEL,
        ),
    ] = None,
    methods: Annotated[str, typer.Option(help="What to run, see brainroam methods.", metavar="A,B")] = STANDARD,
    jobs: Annotated[
        int | None,
        typer.Option(
            help="Runs at a time, each on one core; unless told all cores, or 1 for a small cohort.", min=1, metavar="N"
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a study file that exists.")] = False,
) -> None:
    """Look at a folder of series and a table of people, and write a study file for it.

    Layout, columns, codes and atlas are guessed from names and values. What cannot be guessed is asked on a terminal;
    without a terminal the options below answer it.

    [bold]Example:[/bold] brainroam init my_data && brainroam run study.yaml
    """
    if out.exists() and not force:
        raise UsageError(f"{out} exists already; edit it, or replace it with --force")
    given = {
        "subject_col": subject,
        "site_col": site,
        "label_col": label,
        "age_col": age,
        "sex_col": sex,
        "mean_fd_col": motion,
        "participants": [str(file) for file in table] if table and len(table) > 1 else str(table[0]) if table else None,
        "sheet": sheet,
        "sex_codes": sex_codes,
        "group_col": family,
        "institution_col": institution,
        "sessions": sessions,
        "runs": runs,
        "case": case,
        "control": control,
        "template": template,
        "atlas": atlas,
        "reader": reader,
        "target": target,
        "site_names": parse_all_site_names(site_names) if site_names else None,
        **dict(parse_option(text) for text in option or ()),
    }
    settings = {name: value for name, value in given.items() if value is not None}
    guess = _resolve_settings(Path(folder), settings, _known_before(like, out, settings))
    guess.exclude, guess.exclude_sites = parse_exclude(exclude), split_words(exclude_sites) or None
    from brainroam.cli.show import show_excluded
    from brainroam.evaluation.run_records import suitable_methods
    from brainroam.evaluation.runner import is_small
    from brainroam.utils.files import write_text

    chosen = possible_here(STANDARD_METHODS) if methods == STANDARD else split_names(methods)
    cohort = _read_guessed(guess, folder, out, chosen)
    covariates = [name for name in COVARIATES if cohort.table[name].notna().any()]
    if methods == STANDARD:
        chosen = suitable_methods(chosen, cohort)[0]
    write_text(out, study_text(guess, out.parent, chosen, covariates, jobs or (1 if is_small(cohort) else _cores())))
    for line in _describe_people(cohort, guess):
        typer.echo(line)
    show_excluded(cohort.excluded)
    for line in _describe_columns(cohort, guess, covariates):
        typer.echo(line)
    can_be_judged = cohort.table["label"].notna().any() and len(cohort.sites) > 2
    to_predict = f"brainroam predict MODEL {in_shell(out)}, or foretell MODEL {in_shell(out)}"
    if cohort.table["label"].notna().any() and not can_be_judged:
        few = counted(len(cohort.sites), "site", "sites")
        typer.echo(
            f"{few}: too few to hold one out; "
            f"brainroam cv {in_shell(out)} judges methods on other people of the same sites"
        )
    following = f"brainroam run {in_shell(out)}" if can_be_judged else to_predict
    typer.echo(f"Wrote {out}: look through it, then: {following}")


def _read_guessed(guess: "Guess", folder: str, out: Path, methods: list[str]) -> "Cohort":
    """The cohort that the guessed settings give; anatomy found beside it becomes a block of the guess."""
    from brainroam.data.atlas import anonymous_atlas
    from brainroam.data.detect import WITH_COLUMNS, look_at_anatomy
    from brainroam.data.study_file import read_study
    from brainroam.utils.files import expand_home, write_text

    draft = out.with_name(f".{out.stem}.draft.yaml")  # read before it is shown: a study file that exists can be read

    def read_draft() -> "Cohort":
        try:
            return read_study(write_text(draft, study_text(guess, out.parent, methods, None))).load()
        finally:
            draft.unlink(missing_ok=True)

    cohort = read_draft()
    if guess.reader not in WITH_COLUMNS and expand_home(folder).is_dir():
        look_at_anatomy(expand_home(folder), cohort.table["subject"].tolist(), guess)
        cohort = read_draft() if guess.blocks else cohort
    regions = cohort.atlas
    if guess.atlas is None and not regions.columns and regions.labels != anonymous_atlas(cohort.n_rois).labels:
        as_known = "" if regions.name == "custom" else f" as {regions.name}"
        guess.remarks["atlas"] = f"the files name their {cohort.n_rois} regions, which are read{as_known}"
    return cohort


def _describe_people(cohort: "Cohort", guess: "Guess") -> Iterator[str]:
    """How many people, what is predicted of them, and what was measured."""
    target, measured = cohort.target, "columns" if cohort.measure == "table" else "regions"
    labelled = cohort.table["label"].notna().any()
    cases = cohort.target_counted if labelled else "no diagnosis known"
    yield (
        f"{cohort.counted} of {counted(len(cohort.sites), 'site', 'sites')}, {target.summary(cases)}, "
        f"{cohort.n_rois} {measured}; "
        f"{len(cohort.excluded)} left out"
    )
    for name, block in (cohort.blocks or {"": cohort}).items():
        if name or cohort.measure == "matrices" or guess.blocks:
            lacking = int((~cohort.has_block(name)).sum()) if name else 0
            lack = counted(lacking, "person lacks", "people lack")
            without = f"; {lack} it; they are predicted from the others" if lacking else ""
            kind = "" if block.measure in block.extent else f" ({block.measure})"
            order = f"; {guess.remarks[name]}" if "ids" in guess.blocks.get(name, {}) else ""
            yield f"{name or 'measured'}: {block.extent}{kind}{without}{order}"


def _describe_columns(cohort: "Cohort", guess: "Guess", covariates: list[str]) -> Iterator[str]:
    """Where sites, diagnoses and covariates were found."""
    from brainroam.data.check.groups import one_institution
    from brainroam.data.detect import WITH_COLUMNS

    said = ["blocks", "tables", *(["subject_col"] if guess.options.get("subject_col") == "none" else [])]
    yield from (visible(guess.remarks[name]) for name in said if name in guess.remarks)
    yield from map(visible, cohort.prepared)
    if guess.reader == "table" and "participants" in guess.options:
        yield f"more about these people: {listed(Path(table).name for table in guess.options['participants'])}"
    if cohort.atlas.name != "custom" and not cohort.atlas.columns:
        yield f"atlas: {cohort.atlas.name}"
    yield f"sites: {listed(map(visible, cohort.sites), 8)} ({_source_of_sites(guess)})"
    joined = [f"{name} as {other}" for name, other in guess.site_names.items() if name != other]
    if joined:
        yield f"one site under several names: {visible(listed(joined, 20))}"
    for finding in one_institution(cohort.table):
        yield f"{finding.message}; {finding.remedy}"
    if {"case", "control"} & set(guess.options):
        column = f" (column {guess.options['label_col']!r})" if "label_col" in guess.options else ""
        by_layout = guess.reader not in WITH_COLUMNS
        controls = "as the layout says" if by_layout else _codes(guess, "control")
        source = f" ({guess.remarks['case']})" if by_layout and "case" in guess.remarks else column
        yield f"condition: {_codes(guess, 'case')}, controls: {controls}{source}"
    columns = {name: guess.options.get(f"{name}_col") for name in covariates}
    used = [name if column in (None, name) else f"{name} (column {column!r})" for name, column in columns.items()]
    yield f"covariates: {', '.join(used) or 'none'}"
    if "participants" in guess.remarks:
        yield guess.remarks["participants"]


def _source_of_sites(guess: "Guess") -> str:
    if "site_col" in guess.options:
        return f"column {guess.options['site_col']!r}"
    template = str(guess.options.get("template"))
    if guess.reader == "table":
        return "what stands before _sub in the ids"
    return f"as in the paths {template}" if "{site}" in template else "as the layout says"


def _codes(guess: "Guess", role: str) -> str:
    others = guess.options.get(role, "everybody else")
    return " or ".join(map(str, others)) if isinstance(others, list) else str(others)


def _known_before(like: Path | None, out: Path, given: dict[str, Any]) -> dict[str, Any]:
    """What the study file that is named, or else the one that is replaced, says where nothing else is given."""
    earlier = like or out
    if like is None and not out.exists():
        return {}
    try:
        known = settings_of(earlier)
    except UsageError:
        if like is not None:
            raise
        return {}  # it may be replaced because it is damaged
    typer.echo(f"columns, codes and names of sites are those of {visible(earlier)} where they fit")
    asked_for_diagnosis = {"label_col", "case", "control"} & given.keys()
    return {name: value for name, value in known.items() if name != "target" or not asked_for_diagnosis}


def settings_of(study: Path) -> dict[str, Any]:
    """What a study file says that may hold of other data too: columns, codes, the target and names of sites."""
    from brainroam.data.study_file import read_study

    plan = read_study(study)
    codes = {name: plan.options[name] for name in ("case", "control", "sex_codes") if name in plan.options}
    columns = {name: column for name, column in plan.options.items() if name.endswith("_col")}
    return columns | codes | {"target": plan.target, "site_names": plan.site_names}


def _resolve_settings(folder: Path, given: dict[str, Any], like: dict[str, Any]) -> "Guess":
    """Resolve the study's settings by guessing, then by prompting; without a terminal, name the options to pass."""
    from brainroam.data.detect import look

    while (guess := look(folder, given, like)).questions:
        question = guess.questions[0]
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            flags = "\n".join(f"  {q.text}\n    {_flag(q)}" for q in guess.questions)
            raise UsageError(f"{folder} does not show all settings; pass\n{flags}")
        answer = _ask(question)
        if question.option == "site_names":
            given["site_names"] = given.get("site_names", {}) | parse_all_site_names([answer])
        else:
            given[question.option] = answer
    return guess


def parse_all_site_names(typed: list[str]) -> dict[str, str]:
    """What several ``--site-names`` say together."""
    from brainroam.data.spellings import parse_site_names

    return {name: other for text in typed for name, other in parse_site_names(text).items()}


def _flag(question: "Question") -> str:
    name = {"participants": "table", "mean_fd_col": "motion"}.get(
        question.option, question.option.removesuffix("_col").replace("_", "-")
    )
    choices = " or ".join(map(shlex.quote, question.choices[:8]))
    if question.option == "acq":  # of one reader only
        return " or ".join(f"--option acq={shlex.quote(choice)}" for choice in question.choices)
    return f"--{name} {choices or ('COLUMN' if question.option.endswith('_col') else 'VALUE')}"


def _ask(question: "Question") -> str:
    """Ask on the terminal until one of the choices, or the mark before it, is given."""
    marks = choice_marks(question.choices)
    typer.echo(question.text, err=True)
    for mark, choice in marks.items():
        typer.echo(f"  {mark}) {choice}", err=True)
    while True:
        answer = typer.prompt(">", err=True, prompt_suffix=" ").strip()
        if not question.choices or answer in question.choices:
            return answer
        if answer.lower() in marks:
            return marks[answer.lower()]
        typer.echo(f"Please give one of the lines above, or the mark before it ({', '.join(marks)}).", err=True)


def choice_marks(choices: Sequence[str]) -> dict[str, str]:
    """Marks to choose by, none of which could be meant as one of the choices: numbers, else letters, else both.

    >>> choice_marks(["HC", "ASD"]), choice_marks(["2", "3"])
    ({'1': 'HC', '2': 'ASD'}, {'a': '2', 'b': '3'})
    """
    numbers = [str(k) for k in range(1, len(choices) + 1)]
    letters = list(string.ascii_lowercase[: len(choices)])
    taken = {choice.lower() for choice in choices}
    schemes = [numbers, letters, [f"#{number}" for number in numbers]]
    marks = next(scheme for scheme in schemes if len(scheme) == len(choices) and taken.isdisjoint(scheme))
    return dict(zip(marks, choices, strict=True))


def study_text(
    guess: "Guess", home: Path, methods: list[str], covariates: list[str] | None, jobs: int | None = None
) -> str:
    """The study file: every entry with a comment on what it is and why it is so."""
    options = {**_repeats(guess.reader), **guess.options}
    if "participants" in options:
        given = options["participants"]
        tables = [_relative(Path(table), home) for table in ([given] if isinstance(given, str) else given)]
        options["participants"] = tables[0] if isinstance(given, str) else tables
    lines = [
        "# A brainroam study. Paths are relative to this file; brainroam run study.yaml does all of it.",
        "# Change what you like: nothing that is finished and still asked for is done again.",
        "",
        _entry("name", _title(guess), "the title of the report"),
        _entry(
            "data", _relative(guess.data, home), "the data" if guess.reader == "table" else "the folder of the data"
        ),
        _entry("reader", guess.reader, "its layout"),
        _entry(
            "atlas", guess.atlas, guess.remarks.get("atlas", "names of the regions: aal, schaefer200, ..., or a table")
        ),
        _entry(
            "target", guess.target, "what is predicted, if not two classes: any column, {column: FIQ, kind: number}"
        ),
        _entry("sites", None, "only these, as [A, B]; null keeps all"),
        _entry("exclude_sites", guess.exclude_sites, "leave these out, as [A, B]"),
        _entry(
            "site_names",
            guess.site_names or None,
            guess.remarks.get("site_names", "one name for a site under several: {koeln: Köln}"),
        ),
        _entry("max_missing_rois", 0.2, "leave out people without signal in a larger share of regions"),
        _entry("crop", None, "keep the first volumes of every scan: 150, or 300s"),
        _entry("exclude", _excluded(guess, home), "a file with the ids of people to leave out, or a list"),
        _entry("max_fd", None, "leave out who moved more than this: mean FD, mm"),
        _entry("covariates", covariates, "what methods remove or use; any column, {scanner: category} for codes"),
        f"options:{'' if options else ' {}'}  # of the reader",
        *(f"  {_entry(name, value, guess.remarks.get(name, ABOUT.get(name, '')))}" for name, value in options.items()),
        *(
            f"  # {name}: {text}"
            for name, text in guess.remarks.items()
            if name not in {*options, *guess.blocks, *APART}
        ),
        *_blocks(guess, home),
        "",
        "methods:  # brainroam methods lists all",
        *(f"  - {_yaml(name)}" for name in methods),
        _entry("seeds", 1, "runs of each random method, averaged inside a site"),
        _entry("tuning", STANDARD_TUNING, "how methods are tuned: fast, default, or full (slow)"),
        _entry("jobs", jobs or 1, "runs at a time, each on one core"),
        _entry("out", "results", "the folder for runs and report.html"),
    ]
    return "\n".join(lines) + "\n"


def _excluded(guess: "Guess", home: Path) -> str | list[str] | None:
    """Who is left out: a file as seen from the study file, or ids."""
    from brainroam.data.exclusion import listed_people

    asked = guess.exclude
    if asked is None:
        return None
    only = Path(asked[0]).expanduser()
    return _relative(only, home) if len(asked) == 1 and only.is_file() else list(listed_people(asked))


def _title(guess: "Guess") -> str:
    """What the study is called: its data and what is predicted, where words tell it."""
    if guess.target is not None:
        from brainroam.data.target import TargetRequest

        return f"{guess.name}: {TargetRequest.of(guess.target).column}"
    classes = " against ".join(_codes(guess, role) for role in ("case", "control") if role in guess.options)
    return f"{guess.name}: {classes}" if any(map(str.isalpha, classes.replace("against", ""))) else guess.name


def _blocks(guess: "Guess", home: Path) -> list[str]:
    """The measurements of a study, where there are several."""
    apart = [f"# {guess.remarks['blocks']}"] if "blocks" in guess.remarks else []
    if not guess.blocks:
        return apart
    lines = ["blocks:  # each is read by itself, their scores are added; who lacks one is predicted from the others"]
    for name, settings in guess.blocks.items():
        seen = {
            key: _relative(Path(value), home) if isinstance(value, str) else [_relative(Path(v), home) for v in value]
            for key, value in settings.items()
        }
        lines.append(f"  {_entry(name, seen, guess.remarks.get(name, 'the data themselves'))}")
    return [*lines, *apart]


def _repeats(reader: str) -> dict[str, str]:
    """What is done with several scans of a person unless told otherwise, where a layout can have them."""
    from brainroam.data.readers import option_defaults

    defaults = option_defaults(reader)
    return {name: defaults[name] for name in ("sessions", "runs") if name in defaults}


APART = ("atlas", "blocks", "site_names")  # remarks that stand elsewhere
ABOUT = {
    "participants": "the table of people",
    "subject_col": "its column of ids",
    "site_col": "where somebody was scanned",
    "label_col": "who has the condition",
    "age_col": "in years",
    "mean_fd_col": "motion: mean framewise displacement, mm",
    "sex_codes": "what they mean: male, female or missing",
    "group_col": "families, which no split takes apart",
    "institution_col": "whose sites count together",
    "sheet": "of the workbook",
    "sessions": "of several: first, all (a person still counts once), or average",
    "runs": "of several: concatenate (each standardised first), or first",
    "case": "the condition",
    "control": "the controls",
    "template": "where a person's file is",
}


def _entry(name: str, value: Any, comment: str) -> str:
    return f"{name}: {_yaml(value)}" + (f"  # {comment}" if comment else "")


def _yaml(value: Any) -> str:
    import yaml

    return (
        yaml.safe_dump(value, default_flow_style=True, width=10_000, allow_unicode=True).removesuffix("...\n").strip()
    )


def _relative(path: Path, home: Path) -> str:
    """A path as seen from the study file, with forward slashes, which every system reads."""
    try:
        return Path(os.path.relpath(path, home)).as_posix()
    except ValueError:  # another drive of Windows
        return path.resolve().as_posix()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
