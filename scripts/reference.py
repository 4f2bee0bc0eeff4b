"""Write the pages of the reference that are made of the code: python scripts/reference.py

``docs/reference/commands/NAME.md`` has every option of a command, ``docs/reference/api/NAME.md`` what the docstring of
a public name says, with a picture where it draws one. Which names have a page stands in ``docs/reference/python.md``,
as links to their pages. ``make docs`` runs this first; git does not keep what it writes.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from brainroam.cli import PANELS, app

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "docs" / "reference"
LINK = re.compile(r"\[`(?P<name>[\w.]+)`\]\(api/(?P<page>[\w.-]+)\.md\)")
#: Where the docstring of a name stands, if not at the name: `evaluate` is wrapped in a search for leaks.
WRITTEN_AT = {"brainroam.evaluate": "brainroam.evaluation.runner.evaluate"}
#: What makes an object that nobody makes by hand: an example stands on its page.
MADE_BY = {
    "Results": "evaluate",
    "Comparison": "compare",
    "Plan": "make_plan",
    "Verdict": "verdict",
    "Forecast": "foretell",
    "Reveal": "reveal",
}
#: What a display draws, as docs/gallery.md shows it.
PICTURES = {
    "SiteForestDisplay": "abide-forest.png",
    "CalibrationBySiteDisplay": "abide-calibration.png",
    "GroupDisplay": "abide-groups.png",
    "LearningCurveDisplay": "abide-learning-curve.png",
    "AdaptationDisplay": "abide-adaptation.png",
    "ScaffoldDisplay": "tutorial-brain.png",
    "SiteDeconfounder": "tutorial-deconfounder.png",
    "write_report": "report.png",
}


def main() -> None:
    """Write all pages, and remove those of names that are no more."""
    for folder, pages in {"commands": command_pages(), "api": api_pages()}.items():
        place = REFERENCE / folder
        place.mkdir(exist_ok=True)
        for name, text in pages.items():
            (place / f"{name}.md").write_text(text, encoding="utf-8")
        for page in place.glob("*.md"):
            if page.stem not in pages:
                page.unlink()


def api_pages() -> dict[str, str]:
    """A page for each name that the index of the Python reference links."""
    index = (REFERENCE / "python.md").read_text(encoding="utf-8")
    return {match["page"]: _api_page(match["name"]) for match in LINK.finditer(index)}


def _api_page(name: str) -> str:
    short = name.rpartition(".")[2]
    lines = [f"::: {WRITTEN_AT.get(name, name)}", "    options:", "      heading_level: 1", ""]
    if short in MADE_BY:
        lines += [f"[`{MADE_BY[short]}`]({MADE_BY[short]}.md) makes it; an example stands there.", ""]
    if short in PICTURES:
        lines += [f"![What {short} draws](../../images/{PICTURES[short]})", ""]
    return "\n".join([*lines, "[All names](../python.md)", ""])


def command_pages() -> dict[str, str]:
    """A page for each command, in the order of the command line's own help."""
    group: Any = typer.main.get_command(app)
    names = [command.__name__.replace("_", "-") for commands in PANELS.values() for command in commands]
    return {name: _command_page(name, group.commands[name]) for name in names}


def _command_page(name: str, command: Any) -> str:
    text, _, example = str(command.help).partition("[bold]Example:[/bold]")
    arguments = [option for option in command.params if option.param_type_name == "argument"]
    options = [option for option in command.params if option.param_type_name == "option" and not option.hidden]
    usage = " ".join(["brainroam", name, *(option.metavar or option.name.upper() for option in arguments), "[OPTIONS]"])
    lines = [f"# brainroam {name}", "", _plain(text).strip(), "", "```text", usage, "```", ""]
    if example.strip():
        lines += ["For example:", "", "```text", _plain(example).strip(), "```", ""]
    lines += _table("Arguments", arguments)
    for panel in dict.fromkeys(option.rich_help_panel for option in options):
        lines += _table(panel or "Options", [option for option in options if option.rich_help_panel == panel])
    return "\n".join([*lines, "[All commands](../cli.md)", ""])


def _table(title: str, parameters: list[Any]) -> list[str]:
    if not parameters:
        return []
    rows = [f"| {_cell(' '.join(_names(p)))} | {_plain(p.help or '')}{_default(p)} |" for p in parameters]
    return [f"## {title}", "", "| | |", "|---|---|", *rows, ""]


def _names(parameter: Any) -> Iterator[str]:
    if parameter.param_type_name == "argument":
        yield parameter.metavar or parameter.name.upper()
        return
    yield ", ".join(parameter.opts)
    if not parameter.is_flag:
        yield parameter.metavar or "VALUE"


def _default(parameter: Any) -> str:
    """The default of an option that has one and does not say it in words."""
    value = parameter.default
    if parameter.required:
        return " Required." if parameter.param_type_name == "option" else ""
    if value in (None, False, (), []) or callable(value) or parameter.param_type_name == "argument":
        return ""
    return f" Default: `{','.join(map(str, value)) if isinstance(value, (list, tuple)) else value}`."


def _cell(text: str) -> str:
    return "`" + text.replace("|", "\\|") + "`"


def _plain(text: str) -> str:
    """Text of the terminal's help without its marks."""
    return re.sub(r"\[/?(bold|dim|italic)\]", "", text).replace("\\[", "[").replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main())
