"""Each fault a few times; ``python -m tests.faults`` is the whole campaign."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from brainroam.cli import main
from brainroam.data.readers.participants import Scratch
from brainroam.data.readers.text import Series
from brainroam.errors import BrainroamError
from brainroam.utils.files import exchange
from brainroam.utils.model_files import load_model, save_model

ROOT = Path(__file__).resolve().parents[2]
linux = pytest.mark.skipif(sys.platform != "linux", reason="kills, mounts and finds processes as Linux does")


@linux
def test_every_fault_is_survived(tmp_path):
    command = [
        sys.executable,
        "-m",
        "tests.faults",
        "--quick",
        "--kills",
        "4",
        "--jobs",
        "fit again,loso,convert,scaffold",
    ]
    command += ["--out", tmp_path / "out.json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stdout + done.stderr
    trials = json.loads((tmp_path / "out.json").read_text())
    found = {trial["fault"] for trial in trials if trial["hit"]}
    assert {"kill -9", "kill -9 at a change", "Ctrl-C", "disk full", "clock backwards", "two writers"} <= found
    assert {"run files exchanged", "model files exchanged", "store cut short", "run file bit turned"} <= found
    assert os.getuid() != 0 or "read-only output" in found


@linux
def test_a_model_is_replaced_in_one_step(tmp_path, monkeypatch):
    """At no moment is there no model: a kill between two renames would lose the old one."""
    save_model(tmp_path / "model", {"kind": "old"}, {"x": np.zeros(2)})
    monkeypatch.setattr(Path, "rename", lambda *_: pytest.fail("renamed in two steps"))
    save_model(tmp_path / "model", {"kind": "new"}, {"x": np.ones(2)})
    assert load_model(tmp_path / "model")[0]["kind"] == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_model_is_replaced_where_the_system_cannot_exchange(tmp_path, monkeypatch):
    monkeypatch.setattr("brainroam.utils.model_files.exchange", lambda *_: False)
    for kind in ("old", "new"):
        save_model(tmp_path / "model", {"kind": kind}, {"x": np.zeros(2)})
    assert load_model(tmp_path / "model")[0]["kind"] == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_what_does_not_exist_cannot_be_exchanged(tmp_path):
    assert not exchange(tmp_path / "one", tmp_path / "other")


@linux
def test_a_full_disk_under_scratch_files_is_an_error_and_not_the_end(tmp_path):
    """Writing through a memory map to a full disk would end the process with a bus error."""
    spool = Scratch(tmp_path)
    spool.keep(Series(np.ones((4, 3))))
    os.dup2(os.open("/dev/full", os.O_WRONLY), spool._file.fileno())
    with pytest.raises(BrainroamError, match="No space left"):
        spool.keep(Series(np.ones((4, 3))))


def test_ctrl_c_before_the_command_begins_is_a_line_too(monkeypatch, capsys):
    def interrupted(**_):
        raise KeyboardInterrupt

    monkeypatch.setattr("brainroam.cli.app", interrupted)
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 130 and "finished work is kept" in capsys.readouterr().err
