"""Printing studies: a table per protocol in AUC points (hundredths), sentences, notes."""

import math
import re
from collections.abc import Callable, Sequence
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from brainroam.cli.options import quiet
from brainroam.cli.show import print_json
from brainroam.data.target import Target
from brainroam.data.target.figures import points, two_digits
from brainroam.errors import in_shell, listed, visible
from brainroam.evaluation.results import Results
from brainroam.evaluation.run_records import plain
from brainroam.evaluation.splits import TITLES, UNITS
from brainroam.evaluation.stats.compare import Comparison, count_of_sites, describe_reversed, reasons, summarise
from brainroam.evaluation.stats.families import main_method
from brainroam.evaluation.stats.number_confounding import COVARIATE_WORDS, FOLLOWED, names_known, taken_out
from brainroam.evaluation.stats.site_scores import WITHOUT_NEXT, gather
from brainroam.methods.base import ANYTHING, MethodInfo
from brainroam.methods.registry import as_typed, full_name
from brainroam.utils.parameters import in_words, settings_of

if TYPE_CHECKING:
    import pandas as pd

NARROW, SHORT = 100, 16  # characters in a line, of which a table of figures leaves so few to names


HELD = {"halves": "tested by models of the other half of the sites", "loio": "held out with their institution"}


def show_results(results: Results, out: Path, json: bool) -> None:
    """Print what a study found, in a table and in the words of the report, and where it is kept."""
    target = results.target
    summary = summarise(results.scores, results.predictions, target)
    if json:
        study = {name: value for name, value in results.study.items() if name != "participants"}
        methods = summary.to_dict("records")
        print_json(plain({"out": str(out), "mean": target.order.rule, "methods": methods, "study": study}))
        return
    console = Console(highlight=False)
    _print_summary(console, summary, target)
    of_main = summary[summary["method"] == main_method(summary["method"])]
    console.print()
    console.print(Text(visible(of_main["verdict"].iloc[0])))
    for protocol in results.predictions["protocol"].unique():
        for line in describe_reversed(gather(results.predictions, protocol, target)):
            console.print(Text(visible(line), style="yellow"))
    console.print(
        f"\nscores.csv and predictions.csv are in {out}; now try: brainroam compare {in_shell(out)}", markup=False
    )


def show_adaptation(results: Results, controls: Sequence[int], out: Path) -> None:
    """Write what a few people of the held-out site bring, and how prediction sets do; print the first on stderr."""
    from brainroam.evaluation.next_site import adaptation_summary, adapted, coverage
    from brainroam.utils.files import write_csv

    rows, target, about = adapted(results.records, controls), results.target, results.target.adaptation
    write_csv(out / "adaptation.csv", rows)
    if len(sets := coverage(results.records)):
        write_csv(out / "prediction_sets.csv", sets)
    if quiet() or about is None:
        return
    console, means = Console(stderr=True, highlight=False), adaptation_summary(rows, target)
    for method in means["method"].unique():
        console.print(Text(method, style="bold"))
        of_method = means[means["method"] == method]
        table = _table("protocol", "sites", *about.heads)
        for row in of_method.to_dict("records"):
            table.add_row(row["adaptation"], str(row["n_sites"]), *about.cells(row))
        console.print(table)
    console.print(
        f"{about.meaning}. Protocols take different things from the new site: rows of different protocols do not rank "
        f"methods. Tables: {out}",
        markup=False,
    )


def _over(rows: "pd.DataFrame") -> list[list[str]]:
    """Over how many sites each row is, as a cell of its own where rows are over different ones; else no cell."""
    if not (rows["n_sites"] < rows["of_sites"]).any():
        return [[] for _ in range(len(rows))]
    return [[count_of_sites(n, of)] for n, of in zip(rows["n_sites"], rows["of_sites"], strict=True)]


def show_comparison(comparison: Comparison, json: bool) -> None:
    """Print the table, a sentence per pair, and what the data cannot decide."""
    target = comparison.target
    if json:
        tables = {"methods": comparison.table, "pairs": comparison.paired, "blocks": comparison.blocks}
        tables |= {"classes": comparison.class_pairs, "confounding": comparison.confounding}
        words = {"family": comparison.families, "sentences": comparison.sentences, "notes": comparison.notes}
        words |= {"caveats": comparison.caveats}
        rows = {name: table.to_dict("records") for name, table in tables.items()}
        print_json(plain({"target": target.described(), "mean": target.order.rule, **rows, **words}))
        return
    console = Console(highlight=False)
    if comparison.caveats:
        console.print(_bullets(comparison.caveats, "yellow"))
        console.print()
    _print_summary(console, comparison.table, target, explain=False)
    console.print()
    console.print(Text(visible(comparison.verdicts[main_method(comparison.verdicts)])))
    show = _print_number_confounding if target.is_number else _print_confounding
    _print_by_protocol(console, comparison.confounding, show)
    for lines, style in ((comparison.sentences, ""), ([*comparison.families, *comparison.notes], "dim")):
        if lines:
            console.print()
            console.print(_bullets(lines, style))


def show_methods(infos: Sequence[MethodInfo], json: bool) -> None:
    """Print what the registry knows."""
    if json:
        print_json([_known_of(info) for info in infos])
        return
    table = _table("method", "what it does, needs and cites")
    for info in infos:
        needs = f"; needs {' and '.join(info.needs)}" if info.needs else ""
        needs += "" if ANYTHING in info.reads else f"; reads {', '.join(info.reads)}"
        needs += f"; for {', '.join(info.targets)}"
        about = Text.assemble(info.summary, needs, (f"\n{info.citation}" if info.citation else "", "dim"))
        table.add_row(Text(info.name, style="bold"), about)
    Console(highlight=False).print(table)


def show_settings(info: MethodInfo, json: bool) -> None:
    """Print what the registry knows of one method, and what can be set."""
    settings = {name: (_default(p), in_words(p.annotation)) for name, p in settings_of(info.make).items()}
    if json:
        shown = {name: {"default": default, "takes": takes} for name, (default, takes) in settings.items()}
        print_json(_known_of(info) | {"settings": shown, "released": info.released})
        return
    show_methods([info], json)
    if not settings:
        return
    table = _table("setting", "default", *(["released"] if info.released else []), "takes")
    for name, (default, takes) in settings.items():
        released = [Text(as_typed(info.released.get(name, default)))] if info.released else []
        table.add_row(Text(name, style="bold"), Text(as_typed(default)), *released, Text(takes))
    name, (default, _) = next(reversed(settings.items()))
    console = Console(highlight=False)
    console.print()
    console.print(table)
    model = f"brainroam fit DATA --method {info.name} --set '{name}={as_typed(default)}'"
    study = f"in a study --methods '{full_name(info.name, {name: default})}'"
    console.print(f"\n{model}; {study}", style="dim", markup=False)
    if info.released:
        authors = full_name(info.name, {"recipe": "released"})
        console.print(f"the settings of the authors' code: --methods '{authors}'", style="dim", markup=False)


def _known_of(info: MethodInfo) -> dict[str, Any]:
    fields = ("name", "summary", "citation", "needs", "reads", "targets", "grid", "stochastic", "in_distribution_only")
    return plain({name: getattr(info, name) for name in fields})


def _default(parameter: Parameter) -> Any:
    return None if parameter.default is parameter.empty else plain(parameter.default)


def _print_summary(console: Console, summary: "pd.DataFrame", target: Target, explain: bool = True) -> None:
    """A table per protocol, and below it why an interval is not given; a comparison has that in its notes."""
    for i, (protocol, rows) in enumerate(summary.groupby("protocol", sort=True)):
        unit, count = UNITS[str(protocol)], int(rows["n_sites"].max())
        how = HELD.get(str(protocol), "held out")
        what = f"{target.name}: " if target.named else ""
        console.print("\n" * (i > 0) + f"[bold]{what}{count} {unit}{'s' * (count != 1)} {how}[/bold]{target.scale}")
        console.print(_summary_table(rows, target, unit, next_site=protocol not in WITHOUT_NEXT))
        for line in reasons(rows) if explain else ():
            console.print(Text(visible(line), style="dim"))


def _summary_table(rows: "pd.DataFrame", target: Target, unit: str, next_site: bool) -> Table:
    over = _over(rows)
    columns = [column for column in target.shown if next_site or column.names[0] != "next_low"]
    heads = [escape(visible(column.head.format(unit=unit))) for column in columns]
    table = _table("method", *[f"{unit}s" for _ in over[0]], *heads)
    for row, where in zip(rows.to_dict("records"), over, strict=True):
        cells = [Text(visible(column.form(*(row[name] for name in column.names)))) for column in columns]
        table.add_row(_method(row["method"]), *where, *cells)
    table.caption_justify = "left"
    table.caption = target.caption(unit)
    if next_site:
        table.caption += f"; * where the true {target.order.figure.head} of the next {unit} is to be expected"
    return table


def _print_by_protocol(console: Console, rows: "pd.DataFrame", show: Callable[[Console, "pd.DataFrame"], None]) -> None:
    """A table for each protocol, with its name where there are several."""
    if not len(rows):
        return
    for protocol, under in rows.groupby("protocol", sort=False):
        if rows["protocol"].nunique() > 1:
            console.print(f"\n{TITLES[str(protocol)]}:")
        show(console, under)


def _print_confounding(console: Console, rows: "pd.DataFrame") -> None:
    """What is left without motion, age, sex and head size, as far as they are known; nothing where none is."""
    shown = {
        "without motion": ("auc_without_motion", points),
        "without age, sex": ("auc_without_age_sex", points),
        "without motion, age, sex": ("auc_without_all", points),
        "r(score, motion)": ("r_motion", _signed),
        "without head size": ("auc_without_head_size", points),
        "r(score, head size)": ("r_head_size", _signed),
    }
    if rows["auc_without_all"].notna().any():
        del shown["without age, sex"]
    shown = {title: column for title, column in shown.items() if rows[column[0]].notna().any()}
    if not shown:
        return
    over = _over(rows) if rows["n_sites"].nunique() > 1 else [[] for _ in range(len(rows))]
    table = _table("method", *["sites" for _ in over[0]], "AUC", *shown)
    for row, where in zip(rows.itertuples(), over, strict=True):
        cells = [form(getattr(row, name)) for name, form in shown.values()]
        table.add_row(_method(row.method), *where, points(row.auc), *cells)
    alone = {"motion": rows["motion_alone"].iloc[0], "age and sex": rows["age_sex_alone"].iloc[0]}
    reached = ", ".join(f"{name} {points(value)}" for name, value in alone.items() if not math.isnan(value))
    before = f"alone at held-out sites: {reached}; " if reached else ""
    words = {"motion": "motion", "age and sex": "age, sex", "head size": "head size"}
    what = [name for name, word in words.items() if any(word in title for title in shown)]
    console.print(f"\n[bold]{', '.join(what).capitalize()}[/bold], in points of 100")
    console.print(table)
    few = rows["n_sites"].iloc[0], rows["of_sites"].iloc[0]
    sites = f"; both AUCs over the {few[0]} of {few[1]} sites with people enough" if few[0] < few[1] else ""
    sites = "; both AUCs over the sites of the row" if over[0] else sites
    console.print(Text(f"{before}taken out and correlated within site and class{sites}", style="dim"))


def _print_number_confounding(console: Console, rows: "pd.DataFrame") -> None:
    """What is left of the order without motion, age, sex, scan length and head size, as far as they are known."""
    names = names_known(rows)
    if not names:
        return
    without = taken_out(names)
    followed = [name for name in FOLLOWED if name in names]
    titles = [f"no\n{COVARIATE_WORDS[name]}" for name in without]
    titles += [f"follows\n{COVARIATE_WORDS[name]}" for name in followed]
    over = _over(rows) if rows["n_sites"].nunique() > 1 else [[] for _ in range(len(rows))]
    table = _table("method", *["sites" for _ in over[0]], "r", *titles)
    for row, where in zip(rows.to_dict("records"), over, strict=True):
        cells = [row["r"], *(row[f"r_without_{name}"] for name in without), *(row[f"r_{name}"] for name in followed)]
        table.add_row(Text(visible(row["method"])), *where, *map(two_digits, cells))
    first = rows.iloc[0]
    console.print(f"\n[bold]{listed(COVARIATE_WORDS[name] for name in names).capitalize()}[/bold]")
    console.print(table)
    console.print(
        Text(
            "no motion: r without what motion explains, a partial correlation within sites; of the "
            f"{first['n_people']} people of {first['n_sites']} of {first['of_sites']} sites of whom all is known"
            + ("; follows: r of prediction and covariate without what the truth explains" if followed else ""),
            style="dim",
        )
    )


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in (first, *others):
        table.add_column(heading, overflow="fold")
    return table


def _method(name: str) -> Text:
    """The name of a method; where lines are short with its settings below it, a block in each line.

    >>> _method("fc-ridge").plain
    'fc-ridge'
    """
    text = visible(name)
    if Console().width < NARROW and len(text) > SHORT:
        method, bracket, settings = text.partition("[")
        settings = bracket + settings
        text = f"{method}\n{re.sub(r'(?=[+])|(?<==)', chr(10), settings) if len(settings) > SHORT else settings}"
    return Text(text)


def _bullets(lines: Sequence[str], style: str) -> Table:
    grid = Table.grid(padding=(0, 1))
    for line in lines:
        grid.add_row("•", Text(visible(line), style=style))
    return grid


def _signed(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:+z.2f}"
