"""The reference: a page for every command with every option, and one for every public name."""

import re
import runpy
from pathlib import Path

import pytest
import typer
import yaml

import brainroam
from brainroam.cli import app

ROOT = Path(__file__).resolve().parents[1]
TOOLS = runpy.run_path(str(ROOT / "scripts" / "reference.py"))
COMMANDS = typer.main.get_command(app).commands


def in_navigation() -> set[str]:
    def pages(item):
        if isinstance(item, str):
            yield item
        for value in item.values() if isinstance(item, dict) else item if isinstance(item, list) else ():
            yield from pages(value)

    return set(pages(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]))


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_of_a_command_has_every_option_and_what_it_does(name):
    page = TOOLS["command_pages"]()[name]
    options = [option for option in COMMANDS[name].params if option.param_type_name == "option" and not option.hidden]
    assert [option.opts[0] for option in options if f"`{', '.join(option.opts)}" not in page] == []
    assert "[bold]" not in page and "\\[" not in page
    assert f"reference/commands/{name}.md" in in_navigation()


def test_every_public_name_has_a_page():
    pages = TOOLS["api_pages"]()
    index = (ROOT / "docs" / "reference" / "python.md").read_text()
    listed = {match["name"] for match in TOOLS["LINK"].finditer(index)}
    assert {f"brainroam.{name}" for name in brainroam.__all__ if name != "audit"} <= listed
    assert {f"reference/api/{name}.md" for name in pages} <= in_navigation()
    linked = {name.casefold() for name in pages}
    assert len(linked) == len(pages)  # two files of one name on some systems


def test_pictures_of_the_reference_exist():
    shown = {found for page in TOOLS["api_pages"]().values() for found in re.findall(r"images/([\w.-]+)\)", page)}
    assert shown and not [name for name in shown if not (ROOT / "docs" / "images" / name).is_file()]


def test_every_page_of_the_documentation_is_in_the_navigation():
    made = {"reference/commands", "reference/api"}
    docs = ROOT / "docs"
    pages = {page.relative_to(docs).as_posix() for page in docs.rglob("*.md")}
    assert {page for page in pages if page.rpartition("/")[0] not in made} <= in_navigation()
