"""Methods of other packages, found by their entry points: a fake distribution on the path."""

import subprocess
import sys
import textwrap

import pytest

PACKAGE = """
    from brainroam.methods.base import MethodInfo
    from brainroam.methods.controls import Majority

    GOOD = MethodInfo("coin", Majority, "a coin")
    TWO = [MethodInfo("dime", Majority, "a dime"), MethodInfo("cent", Majority, "a cent")]
    TAKEN = MethodInfo("fc-ridge", Majority, "a thief of names")
    NOTHING = 3
"""


@pytest.fixture
def methods(tmp_path, warm_python):
    """Run ``brainroam methods`` with a distribution that has these entry points."""

    def run(**entries):
        (tmp_path / "coins.py").write_text(textwrap.dedent(PACKAGE))
        metadata = tmp_path / "coins-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: coins\nVersion: 1.0\n")
        lines = [f"{name.replace('_', '-')} = coins:{value}" for name, value in entries.items()]
        (metadata / "entry_points.txt").write_text("\n".join(["[brainroam.methods]", *lines]))
        code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from brainroam.cli import main; main()"
        return subprocess.run([sys.executable, "-c", code, "methods"], capture_output=True, text=True)

    return run


def test_methods_of_another_package_are_listed(methods):
    done = methods(coin="GOOD", coins="TWO")
    assert done.returncode == 0 and done.stderr == ""
    assert all(name in done.stdout for name in ("coin ", "dime ", "cent ", "fc-ridge"))


def test_a_broken_plugin_is_named_and_the_rest_works(methods):
    done = methods(bad="ABSENT", odd="NOTHING", coin="GOOD")
    assert done.returncode == 0 and "coin " in done.stdout and "fc-ridge" in done.stdout
    bad, odd = sorted(done.stderr.splitlines())
    assert "the plug-in 'bad' (coins:ABSENT of coins) cannot be used: AttributeError" in bad
    assert "the plug-in 'odd' (coins:NOTHING of coins) cannot be used: it holds a int, no MethodInfo" in odd


def test_a_name_that_is_taken_is_an_error(methods):
    done = methods(thief="TAKEN")
    assert done.returncode == 2
    assert "'thief' (coins:TAKEN of coins) offers a method named 'fc-ridge', which exists" in done.stderr
