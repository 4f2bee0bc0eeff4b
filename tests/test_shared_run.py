"""Several processes share the tests by one ledger: each test runs once, and lists that differ are refused."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TESTS = "import pytest\n@pytest.mark.parametrize('name', {})\ndef test_it(name):\n    assert name != 'f'\n"

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="one process runs the tests there")


def run(folder, start, names):
    (folder / "test_it.py").write_text(TESTS.format(names))
    (folder / "conftest.py").write_text((HERE / "conftest.py").read_text())
    (folder / "warm.py").write_text((HERE / "warm.py").read_text())
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--from={start}", "--ledger=ledger"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": "."})


def test_every_test_runs_in_one_of_the_processes(tmp_path):
    (tmp_path / "ledger").touch()
    assert run(tmp_path, "front", list("abcde")).returncode == 0
    assert "5 passed" not in run(tmp_path, "back", list("abcde")).stdout


def test_a_process_with_another_list_is_refused_instead_of_leaving_tests_out(tmp_path):
    """Of tests parametrised over a set the failing one was claimed by the name of another, and both exited with 0."""
    (tmp_path / "ledger").touch()
    assert run(tmp_path, "front", list("abcde")).returncode == 0
    other = run(tmp_path, "back", list("edcfb"))
    assert other.returncode == pytest.ExitCode.USAGE_ERROR
    assert "collected other tests, or in another order" in other.stdout + other.stderr
