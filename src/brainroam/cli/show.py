"""Printing: tables for people, JSON for machines. Colours go away by themselves when the output is piped."""

import json
import math
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from brainroam.cli.options import quiet
from brainroam.data.measurements import READ_AS
from brainroam.errors import listed, visible

if TYPE_CHECKING:
    import pandas as pd

    from brainroam.audit import Audit
    from brainroam.data.check import CheckReport, Finding
    from brainroam.data.cohort import Cohort
    from brainroam.data.target import Target

MAX_WIDTH = 1000
VERDICTS = {True: ("pass", "green"), None: ("note", "yellow"), False: ("FAIL", "bold red")}
STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}


def print_json(content: Any) -> None:
    """Print one JSON document."""
    print(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False))


def write_json(path: Path, content: Any) -> None:
    """Write what a command found where the report looks for it, with the command itself."""
    from brainroam.evaluation.run_records import plain
    from brainroam.utils.crate import command_line
    from brainroam.utils.files import write_text

    text = json.dumps(plain({"command": command_line(), **content}), indent=1, ensure_ascii=False)
    write_text(path, text + "\n")


def show_check(report: "CheckReport") -> None:
    """Print a check: the sites, who was left out, and the findings, the gravest first."""
    console, cohort = Console(highlight=False), report.cohort
    scans = f", {cohort['n_scans']} scans" if cohort["n_scans"] > cohort["n_people"] else ""
    unlabelled = f", {cohort['n_unlabelled']} without a label" if cohort["n_unlabelled"] else ""
    two = "n_cases" in cohort
    classes = [_count(cohort[f"n_{name}s"], name) for name in ("case", "control")] if two else [cohort["target"]]
    who = ", ".join(classes)
    who += f" (cases: {cohort['condition']})" if cohort.get("condition") else ""
    console.print(
        f"[bold]{cohort['n_people']} people{scans}, {_count(cohort['n_sites'], 'site')}[/bold]: "
        f"{escape(visible(who))}{unlabelled}; "
        f"{escape(visible(_measurements(cohort)))}"
    )
    console.print(_covariates(cohort), highlight=False, markup=False)
    for step in cohort["prepared"]:
        console.print(visible(step), markup=False)
    sites = _sites(report.sites, list(cohort["measured"]) == ["series"])
    widest = console.measure(sites, options=console.options.update(max_width=MAX_WIDTH)).maximum
    Console(highlight=False, width=max(widest, console.width)).print(sites)  # a narrow terminal breaks no names
    for section in (_exclusions(report.excluded), _findings(report.findings)):
        if section.row_count:
            console.print()
            console.print(section)
    counts = [sum(f.severity == severity for f in report.findings) for severity in STYLES]
    verdict = "[green]usable[/green]" if report.usable else "[bold red]not usable[/bold red]"
    console.print(f"\n{verdict}: " + ", ".join(_count(n, s) for n, s in zip(counts, STYLES, strict=True)))
    if people := without_twins(report.findings):
        from brainroam.utils.crate import command_line

        console.print("To go on without them:", markup=False)
        print(f"{command_line()} --exclude {shlex.quote(','.join(people))}")


def _measurements(cohort: dict[str, Any]) -> str:
    """What was measured of everybody: "116 regions (aal)", or each block with its name."""
    if list(cohort["measured"]) == ["series"]:
        return f"{cohort['n_rois']} regions ({cohort['atlas']})"
    blocks = cohort["measured"].items()
    return "; ".join(extent if name in ("table", "matrices") else f"{name}: {extent}" for name, extent in blocks)


def without_twins(findings: "Sequence[Finding]") -> list[str]:
    """Whom to leave out where people have identical series: one of each pair, both where their labels differ."""
    out: dict[str, None] = {}
    for finding in findings:
        first, second = finding.subjects if finding.code == "identical-people" else ("", "")
        if second and "opposite labels" in finding.message:
            out |= {first: None, second: None}
        elif second and first not in out:
            out[second] = None
    return list(out)


def _covariates(cohort: dict[str, Any]) -> str:
    """Which covariates methods use, and of how many people they are not known."""
    lines = []
    for name, seen in cohort["covariates"].items():
        unknown = cohort["n_people"] - seen["known"]
        gap = "" if not unknown else " (unknown)" if not seen["known"] else f" (unknown for {unknown})"
        lines.append(f"{visible(name)}{' by category' if seen['kind'] == 'category' else ''}{gap}")
    return f"covariates: {', '.join(lines) or 'none'}"


def show_excluded(excluded: "pd.DataFrame") -> None:
    """Print who was left out and why, if anybody was."""
    if len(excluded):
        Console(highlight=False).print(_exclusions(excluded))


def show_what_was_read(cohort: "Cohort") -> None:
    """Print on stderr which columns of tables are read and which are not, and who was left out."""
    if quiet():
        return
    console = Console(highlight=False, stderr=True)
    for step in cohort.prepared:
        if READ_AS in step:
            console.print(visible(step), markup=False, soft_wrap=True)
    if len(cohort.excluded):
        console.print(_exclusions(cohort.excluded))


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _sites(sites: "pd.DataFrame", series: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("site", no_wrap=True)
    classes = [str(name) for name in sites if name in ("cases", "controls") or str(name).startswith("n_")]
    headings = [visible(name.removeprefix("n_")) for name in classes]
    number = ["target"] if "target_mean" in sites else []
    age = [] if number and sites["age_mean"].isna().all() else ["age"]  # it may be the target itself
    timed = ["volumes", "TR"] if sites["volumes_max"].any() else []
    for heading in ("people", *map(escape, headings), *number, *age, "M", "F", *timed, "lacking*"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row, of_each in zip(sites.itertuples(), sites[classes].to_numpy().tolist(), strict=True):
        table.add_row(
            Text(row.site),
            *(str(n) for n in (row.n, *of_each)),
            *(_mean(row.target_mean, row.target_std) for _ in number),
            *(_mean(row.age_mean, row.age_std) for _ in age),
            *(str(n) if row.male + row.female else "-" for n in (row.male, row.female)),
            *(_length(row) for _ in timed[:1]),
            *("-".join(f"{tr:g}" for tr in sorted({*row.tr[:1], *row.tr[-1:]})) or "-" for _ in timed[1:]),
            str(row.with_missing_rois),
        )
    what = "constant or non-finite regions" if series else "missing regions or columns"
    table.caption, table.caption_justify = f"* people with {what}", "right"
    return table


def _length(row: Any) -> str:
    return "-".join(str(n) for n in sorted({row.volumes_min, row.volumes_max})) if row.volumes_max else "-"


def _mean(mean: float, std: float) -> str:
    if math.isnan(mean):
        return "-"
    return f"{mean:.1f}" if math.isnan(std) else f"{mean:.1f} ± {std:.1f}"


def _exclusions(excluded: "pd.DataFrame") -> Table:
    table = Table.grid(padding=(0, 2))
    for reason, people in excluded.groupby("reason", sort=False)["subject"]:
        table.add_row(Text("left out", style="magenta"), Text(f"{len(people)}: {visible(reason)}: {listed(people)}"))
    return table


def _findings(findings: "tuple[Finding, ...]") -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")  # else the end of a line with wide letters is cut off
    for finding in findings:
        severity = Text(finding.severity, style=STYLES[finding.severity])
        text = Text.assemble(visible(finding.message), "\n", (f"→ {visible(finding.remedy)}", "dim"))
        table.add_row(severity, Text(finding.site or ""), text)
    return table


def show_audit(audited: "Audit") -> None:
    """Print an audit: a row per check, and what it cannot see."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("", "check", "method", "evidence"):
        table.add_column(heading, overflow="fold")
    for check in audited.checks:
        word, style = VERDICTS[check.passed]
        table.add_row(Text(word, style=style), Text(check.name), Text(check.method), Text(visible(check.evidence)))
    console = Console(highlight=False)
    console.print(table)
    leaks = sum(check.passed is False for check in audited.checks)
    console.print(f"\n[bold red]{leaks} failed[/bold red]" if leaks else "\n[green]no leak found[/green]")
    console.print("An audit cannot see: " + "; ".join(audited.cannot_see) + ".", soft_wrap=True, markup=False)


def show_validation(sites: "pd.DataFrame", target: "Target") -> None:
    """Print what predictions are worth at each site where the truth is known (`evaluation.external.validate`)."""
    about = target.validation
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in about.heads:
        table.add_column(heading, overflow="fold")
    for row in sites.itertuples():
        table.add_row(Text(visible(str(row.site))), *about.cells(row))
    table.caption, table.caption_justify = about.caption, "left"
    Console(highlight=False).print(table)
