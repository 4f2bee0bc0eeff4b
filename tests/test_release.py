"""Version, bounds and references are written in several files: they agree."""

import re
import tomllib
from pathlib import Path

import pytest

import brainroam

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CONDA = {"matplotlib": "matplotlib-base"}


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("pyproject.toml", 'version = "{}"'),
        ("CITATION.cff", "version: {}"),
        ("README.md", "brainroam {}, 2026"),
        ("docs/cite.md", "version = {{{}}}"),
        ("docs/default-model.md", "default model of brainroam {}"),
        ("conda.recipe/recipe.yaml", 'version: "{}"'),
        ("container/Dockerfile", "brainroam:{} "),
        ("container/boutiques.json", '"tool-version": "{}"'),
        ("codemeta.json", '"version": "{}"'),
        ("CHANGELOG.md", "## {} ("),
    ],
)
def test_every_file_names_the_same_version(file, line):
    assert line.format(brainroam.__version__) in (ROOT / file).read_text()


@pytest.mark.parametrize("file", ["environment.yml", "conda.recipe/recipe.yaml"])
def test_conda_asks_for_what_pip_asks_for(file):
    listed = set(re.findall(r"- ([\w-]+) (>=\S+)", (ROOT / file).read_text()))
    wanted = [re.fullmatch(r"([\w-]+)(>=\S+)", line).groups() for line in PROJECT["dependencies"]]
    assert {(CONDA.get(name, name), bound) for name, bound in wanted} <= listed


def test_the_paper_cites_what_is_in_its_bibliography():
    entries = (ROOT / "paper" / "paper.bib").read_text()
    text = (ROOT / "paper" / "paper.md").read_text()
    assert set(re.findall(r"\[@(\w+)\]", text)) == set(re.findall(r"^@\w+\{(\w+),", entries, flags=re.M))
    for doi in re.findall(r"doi = \{(.*?)\}", entries):
        assert re.fullmatch(r"10\.\d{4,9}/\S+", doi), doi
