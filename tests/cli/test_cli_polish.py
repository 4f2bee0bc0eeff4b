"""What people meet on the command line before anything else: help, typing mistakes, pipes, odd terminals."""

import os
import re
import shlex
import subprocess
import sys

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from brainroam import cli
from brainroam.cli import PANELS, app
from brainroam.cli.bids_app import with_command

COMMANDS = [command.__name__.replace("_", "-") for commands in PANELS.values() for command in commands]


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def shell(*arguments, **environment):
    command = [sys.executable, "-c", "from brainroam.cli import main; main()", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, env=os.environ | environment)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example_quiet_and_verbose(command):
    text = run(command, "--help").output
    typed = "/data" if command == "bids-app" else command  # whose grammar has no command
    assert f"Example: brainroam {typed}" in text
    assert "--quiet" in text and "--verbose" in text


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_groups_of_options_in_one_order_and_what_is_written_in_the_last(command):
    text = run(command, "--help").output
    groups = [f"─ {name} ─" for name in ("Reading the data", "Where to run", "Output")]
    shown = [text.index(group) for group in groups if group in text]
    assert shown == sorted(shown) and "<bool>" not in text
    assert all(found.start() > text.index(groups[-1]) for found in re.finditer(r"│ +\*? *--out ", text))


@pytest.mark.parametrize("command", COMMANDS)
def test_the_example_of_the_help_is_understood(command):
    group = get_command(app)
    example = group.commands[command].help.rpartition("[/bold] brainroam ")[2].partition(" && ")[0]
    words = shlex.split(example)
    if command == "bids-app":
        words = with_command(words)
    assert words[0] == command and group.commands[command].make_context(command, words[1:])


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["chekc", "x"], "check"),
        (["lso", "synthetic"], "loso"),
        (["check", "synthetic", "--atlsa", "aal"], "--atlas"),
        (["loso", "synthetic", "--methods", "fc-rigde"], "fc-ridge"),
        (["check", "synthetic", "--sites", "S0l"], "S01"),
    ],
)
def test_typing_mistakes_are_met_with_the_nearest(tmp_path, monkeypatch, arguments, hint):
    monkeypatch.chdir(tmp_path)
    done = run(*arguments)
    assert done.exit_code == 2
    said = done.stderr.lower()
    assert hint in done.stderr and ("did you mean" in said or "possible options" in said)


def test_verbose_shows_where_an_error_came_from():
    assert "Traceback" not in run("check", "/no/such/folder").stderr
    done = run("check", "/no/such/folder", "--verbose")
    assert done.exit_code == 1 and "Traceback" in done.stderr and "does not exist" in done.stderr


def test_quiet_leaves_errors_and_results_for_machines(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = ("synthetic", "--option", "n_sites=3", "--option", "n_per_site=8", "--option", "n_rois=8")
    done = run("loso", *small, "--methods", "majority", "--quiet")
    assert (done.exit_code, done.output) == (0, "") and (tmp_path / "runs" / "scores.csv").is_file()
    assert run("compare", "--quiet", "--json").stdout.startswith("{")
    assert "does not exist" in run("check", "/no/such/folder", "-q").stderr


@pytest.mark.usefixtures("warm_python")
def test_colours_only_where_they_are_wanted():
    assert b"\x1b[" not in shell("--help").stdout
    assert b"\x1b[" in shell("check", "synthetic", "--option", "n_rois=8", FORCE_COLOR="1").stdout
    assert b"\x1b[3" not in shell("check", "synthetic", "--option", "n_rois=8", FORCE_COLOR="1", NO_COLOR="1").stdout


def test_a_terminal_without_arrows_shows_something_else_instead_of_failing():
    done = shell("check", "synthetic", "--option", "n_rois=8", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 0, done.stderr
    assert b"people" in done.stdout


def test_a_fault_of_ours_says_so(monkeypatch, capsys):
    def broken(**_):
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(cli, "app", broken)
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 3
    assert "ZeroDivisionError" in (told := capsys.readouterr().err) and "a fault of brainroam" in told


@pytest.mark.usefixtures("warm_python")
def test_completion_can_be_installed():
    assert b"--install-completion" in shell("--help").stdout
    offered = shell(_BRAINROAM_COMPLETE="complete_bash", COMP_WORDS="brainroam lo", COMP_CWORD="1").stdout
    assert offered.split() == [b"loso"]
