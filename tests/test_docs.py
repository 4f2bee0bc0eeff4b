"""Every code block of README and docs runs, or is at least parsed where it needs a network, a queue or an hour.

Blocks of a page run one after another in one folder, as a reader would type them. ``<!-- check: parse -->`` above a
block says that it is only parsed: commands of brainroam by their own parser, shell by bash, Python by the compiler.
``<!-- output -->`` above a block of text says that the commands of the page print every line of it.
"""

import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

import pytest
import typer
import yaml
from docs_world import make_world

from brainroam.cli import app
from brainroam.cli.bids_app import LEVELS, with_command
from brainroam.data.study_file import Study

ROOT = Path(__file__).resolve().parents[1]
MADE = {ROOT / "docs" / "reference" / name for name in ("api", "commands")}  # written by `make docs` beside the tests
PAGES = sorted([ROOT / "README.md", *(page for page in (ROOT / "docs").rglob("*.md") if page.parent not in MADE)])
FENCE = re.compile(r"(?ms)^(<!-- check: parse -->\s*\n)?```(python|bash|yaml)\n(.*?)^```$")
SHOWN = re.compile(r"(?ms)^<!-- output -->\n```text\n(.*?)^```$")
# Pages whose commands ran for their figures, for hours or on many cores: they are parsed.
LONG = ("docs/results/", "docs/performance.md", "docs/scale.md", "docs/reliability.md", "docs/security.md")


class Block(NamedTuple):
    page: str
    number: int
    language: str
    code: str
    only_parse: bool


def blocks(page: Path) -> list[Block]:
    name = page.relative_to(ROOT).as_posix()
    long = name.startswith(LONG)
    return [
        Block(name, k, match[2], textwrap.dedent(match[3]), long or match[1] is not None)
        for k, match in enumerate(FENCE.finditer(page.read_text(encoding="utf-8")), start=1)
    ]


BLOCKS = [block for page in PAGES for block in blocks(page)]
TO_RUN = {
    page: [block for block in BLOCKS if block.page == page and not block.only_parse and block.language != "yaml"]
    for page in dict.fromkeys(block.page for block in BLOCKS)
}


def test_no_block_is_overlooked():
    fences = sum(len(re.findall(r"(?m)^\s*```(?:python|bash|yaml)\b", page.read_text("utf-8"))) for page in PAGES)
    assert len(BLOCKS) == fences
    run = sum(len(found) for found in TO_RUN.values())
    parsed = [block for block in BLOCKS if block.only_parse or block.language == "yaml"]
    assert run + len(parsed) == fences and run >= 25


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Path:
    """What the pages talk about."""
    return make_world(tmp_path_factory.mktemp("world"))


@pytest.mark.parametrize("page", [page for page, found in TO_RUN.items() if found])
def test_the_blocks_of_a_page_run(page, world, warm, tmp_path):
    for folder in world.iterdir():
        (tmp_path / folder.name).symlink_to(folder)
    (tmp_path / "NEW_DATA").symlink_to(world / "my_data")
    found = TO_RUN[page]
    python = [block.code for block in found if block.language == "python"]
    shell = [block.code for block in found if block.language == "bash"]
    environment = os.environ | {
        "PATH": os.pathsep.join([str(warm), str(Path(sys.executable).parent), os.environ["PATH"]]),
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "80",
    }
    printed = ""
    for command in (["bash", "-euc", "\n".join(shell)], [warm / "python", "-c", "\n".join(python)]):
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=3600)
        assert done.returncode == 0, f"{page}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
        printed += done.stdout + done.stderr
    real = {comparable(line) for line in printed.splitlines()}
    invented = [line for line in shown_lines(page) if comparable(line) not in real]
    assert not invented, f"{page} shows what no command prints: {invented}\n{printed}"


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="needs R")
def test_the_page_about_r_runs(tmp_path):
    text = (ROOT / "docs" / "tutorials" / "r.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"(?ms)^```r\n(.*?)^```$", text))
    environment = os.environ | {"BRAINROAM": str(Path(sys.executable).parent / "brainroam"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(["Rscript", "-e", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and (tmp_path / "report.html").exists(), done.stderr


def test_notebooks_hold_the_blocks_that_run(tmp_path):
    tools = runpy.run_path(str(ROOT / "scripts" / "notebooks.py"))
    written = tools["write_all"](ROOT / "docs" / "tutorials", tmp_path)
    assert len(written) >= 6
    for file in written:
        cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
        code = [cell["source"] for cell in cells if cell["cell_type"] == "code"]
        run = [block for block in TO_RUN[f"docs/tutorials/{file.stem}.md"] if block.language == "python"]
        assert code == [block.code.rstrip() for block in run]
        assert cells[0]["source"].startswith("# ") and not any("<!--" in cell["source"] for cell in cells)
        assert f'<a href="../notebooks/{file.name}" download>' in (ROOT / f"docs/tutorials/{file.stem}.md").read_text()


def shown_lines(page: str) -> list[str]:
    """The lines of a page below ``<!-- output -->``, without those that are left out."""
    text = (ROOT / page).read_text(encoding="utf-8")
    lines = [line for found in SHOWN.findall(text) for line in found.splitlines()]
    return [line for line in lines if line.strip() not in ("", "...")]


def comparable(line: str) -> str:
    """A line without what differs between runs or machines: times, which run ended first, the last digits."""
    line = re.sub(r"\d+\.\d{7,}", lambda found: f"{float(found[0]):.6f}", line)
    line = re.sub(r"\d+(\.\d+)? s\b", "# s", line)
    return " ".join(re.sub(r"hold out sites \d+/", "hold out sites #/", line).split())


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"{block.page}-{block.number}")
def test_every_block_can_be_parsed(block):
    if block.language == "python":
        compile(block.code, block.page, "exec")
    elif block.language == "yaml":
        Study.model_validate(yaml.safe_load(block.code))
    else:
        assert subprocess.run(["bash", "-n"], input=block.code, text=True, capture_output=True).stderr == ""
        for words in commands(block.code):
            parse(words)


def commands(code: str) -> list[list[str]]:
    """The commands of brainroam in a piece of shell, one line each, without what is piped or appended."""
    lines = re.sub(r"\\\n\s*", " ", code).splitlines()
    found = []
    for line in lines:
        for part in re.split(r"&&|\|\||[|;]|>", line.partition(" #")[0]):
            words = shlex.split(part)
            while words and ("=" in words[0] or words[0] in ("nohup", "time", "srun")):
                words = words[1:]
            if words and Path(words[0]).name == "brainroam":
                found.append(words[1:])
    return found


def parse(words: list[str]) -> None:
    """Let the command line's own parser read a command, without doing it."""
    group = typer.main.get_command(app)
    if words[2:] and words[2] in LEVELS:
        words = with_command(words)
    if words[0].startswith("--"):
        assert any(words[0] in parameter.opts for parameter in group.params), words
        return
    assert words[0] in group.commands, f"no such command: brainroam {words[0]}"
    if not {"--help", "--show"} & set(words):  # which act while they are parsed
        group.commands[words[0]].make_context(words[0], list(words[1:]))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page):
    named = set(re.findall(r"`((?:tests|src|docs|benchmarks|examples)/[\w/.-]+)`", page.read_text(encoding="utf-8")))
    assert not [name for name in sorted(named) if not (ROOT / name).exists()]
