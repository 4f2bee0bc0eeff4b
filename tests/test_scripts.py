"""Scripts and benchmarks run for hours, so no test runs them; but what they import has to exist."""

import ast
import importlib
import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted([*ROOT.glob("scripts/*.py"), *ROOT.glob("benchmarks/*.py")])


@pytest.mark.parametrize("file", SCRIPTS, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_every_name_that_a_script_imports_of_brainroam_exists(file):
    for statement in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(statement, ast.ImportFrom) and (statement.module or "").split(".")[0] == "brainroam":
            for name in statement.names:
                assert exists(statement.module, name.name), f"{statement.module} has no {name.name}"


def exists(module: str, name: str) -> bool:
    """Whether ``from module import name`` works."""
    if hasattr(importlib.import_module(module), name):
        return True
    return importlib.util.find_spec(f"{module}.{name}") is not None
