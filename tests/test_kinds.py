"""Nobody but the target asks what kind of target it is."""

import ast
import re
from pathlib import Path

import brainroam

SOURCE = Path(brainroam.__file__).parent
KIND = {"is_number", "is_classes", "is_two_classes", "is_ordered", "has_controls", "n_outputs_"}
MOST = 40  # branches that are left: readers and checks of columns, and names of what is shown


def asks(test: ast.expr) -> bool:
    """Whether a condition asks for the kind of a target."""
    for node in ast.walk(test):
        if isinstance(node, ast.Attribute) and (
            node.attr in KIND or (node.attr == "kind" and "target" in ast.unparse(node))
        ):
            return True
        called = ast.unparse(node) if isinstance(node, ast.Call) else ""
        if called.startswith("isinstance") and re.search(r"\b(Number|Ordered|Classes|TwoClasses)\b", called):
            return True
    return False


def branches(path: Path) -> list[str]:
    """Conditions of a file that ask for it."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        tests = [node.test] if isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert) else []
        tests += node.ifs if isinstance(node, ast.comprehension) else []
        found += [f"{path.name}:{test.lineno} {ast.unparse(test)[:80]}" for test in tests if asks(test)]
    return found


def test_branches_that_ask_for_the_kind_of_a_target_are_few():
    elsewhere = [path for path in SOURCE.rglob("*.py") if not path.is_relative_to(SOURCE / "data" / "target")]
    found = [line for path in sorted(elsewhere) for line in branches(path)]
    assert len(found) <= MOST, "\n".join(found)


def test_core_and_comparison_never_ask():
    for room in ("core", "evaluation/stats", "evaluation/planning"):
        assert not [line for path in (SOURCE / room).rglob("*.py") for line in branches(path)], room
