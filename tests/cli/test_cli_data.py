"""The command line, as people type it."""

import io
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from rich.console import Console
from rich.progress import Progress
from typer.testing import CliRunner

import brainroam
import brainroam.data.readers
import brainroam.data.synthetic
from brainroam.cli import app
from brainroam.cli.source import source_of
from brainroam.data.cohort import Cohort
from brainroam.data.synthetic import make_cohort
from brainroam.errors import BrainroamError


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def shell(*arguments, **environment):
    command = [sys.executable, "-c", "from brainroam.cli import main; main()", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | environment)


@pytest.fixture
def folder(tmp_path):
    """A plain folder of two sites, one person without a label and one whose file is missing."""
    rng = np.random.default_rng(0)
    rows = ["participant_id\tsite\tdiagnosis\tage\tsex"]
    for k in range(24):
        subject = f"{k:03d}"
        rows.append(f"{subject}\t{'AB'[k % 2]}\t{['control', 'case'][k // 2 % 2]}\t{20 + k}\t{['M', 'F'][k // 4 % 2]}")
        if subject != "007":
            np.save(tmp_path / f"{subject}.npy", rng.normal(size=(60, 10)))
    (tmp_path / "participants.tsv").write_text("\n".join(rows) + "\n")
    return tmp_path


def test_help_lists_every_command_with_an_example():
    result = run("--help")
    assert result.exit_code == 0
    for name in ("check", "fetch", "demo"):
        assert name in result.output
        assert f"Example: brainroam {name}" in run(name, "--help").output
    assert "brainroam init FOLDER" in result.output


def test_help_loads_nothing_heavy():
    heavy = "numpy pandas scipy sklearn torch nilearn matplotlib"
    code = (
        "import sys\ntry:\n    from brainroam.cli import main; main()\nfinally:\n"
        f"    print([m for m in {heavy.split()!r} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True)
    assert (done.returncode, done.stderr.strip()) == (0, "[]")


def test_the_version_is_that_of_the_package():
    assert run("--version").output == f"brainroam {brainroam.__version__}\n"


def test_check_prints_tables(folder):
    result = run("check", folder)
    assert result.exit_code == 0, result.output
    assert "23 people, 2 sites: 11 cases, 12 controls; 10 regions" in result.output
    assert "left out" in result.output and "007" in result.output
    assert "usable" in result.output


def test_check_json_is_one_document(folder):
    content = json.loads(run("check", folder, "--json").stdout)
    assert (content["n_people"], content["usable"]) == (23, True)
    assert [row["subject"] for row in content["excluded"]] == ["007"]
    assert {row["site"]: row["n"] for row in content["sites"]} == {"A": 12, "B": 11}


def test_check_exits_1_when_the_data_cannot_be_used(folder):
    result = run("check", folder, "--sites", "A")
    assert result.exit_code == 1
    assert "not usable" in result.output and "one site" in result.output
    assert json.loads(run("check", folder, "--sites", "A", "--json").stdout)["usable"] is False


def test_sites_and_reader_options_are_passed_on(folder):
    assert "23 people" in run("check", folder, "--reader", "folder", "--sites", "A, B").output
    result = run("check", folder, "--option", "case=control", "--option", "control=case")
    assert "12 cases, 11 controls" in result.output


def test_people_over_the_limit_are_seen_and_the_limit_can_be_moved(folder):
    x = np.load(folder / "003.npy")
    x[:, :4] = 0
    np.save(folder / "003.npy", x)
    limited = json.loads(run("check", folder, "--json").stdout)
    assert limited["n_people"] == 22 and [row["subject"] for row in limited["excluded"]] == ["007", "003"]
    assert [f["subjects"] for f in limited["findings"] if f["code"] == "over-limit"] == [["003"]]
    moved = json.loads(run("check", folder, "--max-missing-rois", "0.5", "--json").stdout)
    assert moved["n_people"] == 23
    assert "over-limit" not in {f["code"] for f in moved["findings"]}


def test_synthetic_data_by_name():
    content = json.loads(run("check", "synthetic", "--option", "n_rois=12", "--option", "seed=3", "--json").stdout)
    assert content["manifest_hash"] == make_cohort(n_rois=12, seed=3).manifest_hash
    assert "2 sites" in run("check", "synthetic", "--option", "n_rois=12", "--sites", "S01,S03").output


def test_a_command_that_reads_data_leaves_out_who_lacks_too_many_regions():
    spoilt = source_of("synthetic", {"max_missing_rois": 0.05, "options": {"n_rois": 20, "constant_rois": 9}})
    assert len(spoilt.load(everybody=True)) == 240
    lost = {
        subject
        for subject, rois in make_cohort(n_rois=20, constant_rois=9).truth.constant_rois.items()
        if len(rois) > 1
    }
    assert set(spoilt.load().excluded["subject"]) == lost != set()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["check", "/no/such/folder"], 1, "/no/such/folder does not exist"),
        (["check", "synthetic", "--sites", "S9"], 2, "unknown site 'S9'"),
        (["check", "synthetic", "--option", "shrotcut=2"], 2, "did you mean 'shortcut'?"),
        (["check", "synthetic", "--option", "seed=x"], 2, "--option seed=x: expected a number"),
        (["check", "synthetic", "--option", "seed=1.5"], 2, "--option seed=1.5: expected a number"),
        (["check", "synthetic", "--option", "seed"], 2, "'seed' is not KEY=VALUE"),
        (["check", "synthetic", "--option", "n_rois=2"], 2, "n_rois must be at least 8"),
        (["check", "synthetic", "--atlas", "aal"], 2, "synthetic data are not read"),
        (["check", "{folder}", "--option", "atlas=aal"], 2, "has an option of its own: --atlas"),
        (["check", "{folder}", "--max-missing-rois", "20"], 2, "--max-missing-rois"),
        (["check", "{folder}", "--reader", "floder"], 2, "did you mean 'folder'?"),
        (["check", "{folder}", "--preset", "papr"], 2, "did you mean 'paper'?"),
        (["check", "{folder}", "--option", "colour=red"], 2, "colour"),
        (["check", "{folder}", "--sites", "C"], 2, "unknown site 'C'"),
        (["check"], 2, "Missing argument"),
        (["chekc", "x"], 2, "No such command"),
        (["fetch", "adni"], 2, "unknown dataset 'adni'"),
    ],
)
def test_mistakes_get_one_sentence_and_the_right_exit_code(folder, arguments, code, message):
    result = run(*(a.format(folder=folder) for a in arguments))
    assert result.exit_code == code, result.output
    assert message in result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr


def test_an_unknown_layout_says_what_was_tried(tmp_path):
    result = run("check", tmp_path)
    assert result.exit_code == 1
    assert "abide" in result.stderr and "participants.tsv" in result.stderr


@pytest.mark.usefixtures("warm_python")
def test_piped_output_has_no_colours(folder):
    done = shell("check", folder)
    assert done.returncode == 0, done.stderr
    assert "\x1b[" not in done.stdout
    failed = shell("check", "/no/such/folder")
    assert failed.returncode == 1 and failed.stderr.startswith("error: /no/such/folder does not exist; check")


def test_interruption_is_one_line_and_130(monkeypatch):
    def interrupted(**_):
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(brainroam.data.synthetic, "make_cohort", interrupted)
    result = run("check", "synthetic")
    assert (result.exit_code, result.stderr) == (130, "interrupted; finished work is kept\n")


def test_warnings_stand_above_a_bar_that_is_being_drawn():
    """On a terminal `run` and `predict` lost them: the bar was drawn over what another console printed."""
    terminal = io.StringIO()
    with Progress(console=Console(file=terminal, force_terminal=True)) as bars:
        bars.add_task("hold out sites", total=2)
        brainroam.cli._say("warning: look twice", "yellow")
    assert "warning: look twice" in terminal.getvalue()


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="signals as POSIX has them")
@pytest.mark.parametrize("before", [True, False])
def test_sigterm_ends_as_ctrl_c_with_143(tmp_path, before):
    """SLURM and containers send it: it was silent."""
    kill = "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\nimport time\ntime.sleep(9)\n"
    during = (
        "import brainroam.data.synthetic, sys\n"
        f"def slow(**_):\n    {kill.replace(chr(10), chr(10) + '    ')}\n"
        "brainroam.data.synthetic.make_cohort = slow\nfrom brainroam.__main__ import main\nmain()"
    )
    paths = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    if before:
        (tmp_path / "typer.py").write_text(kill)
    command = [sys.executable, *(["-m", "brainroam"] if before else ["-c", during]), "check", "synthetic"]
    found = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": paths})
    kept = "nothing had begun" if before else "finished work is kept"
    assert (found.returncode, found.stderr) == (143, f"interrupted; {kept}\n")


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="signals as POSIX has them")
def test_ctrl_c_while_the_command_is_imported_is_one_line(tmp_path):
    """A module imported on the way sends the signal itself, so that it always comes in the middle of an import."""
    (tmp_path / "typer.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nimport time\ntime.sleep(9)\n"
    )
    paths = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    command = [sys.executable, "-m", "brainroam", "check", "synthetic"]
    found = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": paths})
    assert (found.returncode, found.stderr) == (130, "interrupted; nothing had begun\n")


def test_ctrl_c_that_python_would_forget_still_ends_the_command(tmp_path):
    """In a callback of the collector Python prints an exception and goes on."""
    script = """
import os, signal, time, weakref
import brainroam.data.synthetic
from brainroam.cli import main

class Thing: pass

def callback(_):
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000): pass

def interrupted(**_):
    thing = Thing()
    gone = weakref.ref(thing, callback)
    del thing
    time.sleep(60)

brainroam.data.synthetic.make_cohort = interrupted
main()
"""
    found = subprocess.run([sys.executable, "-c", script, "check", "synthetic"], capture_output=True, text=True)
    assert (found.returncode, found.stderr) == (130, "interrupted; finished work is kept\n")


@pytest.mark.parametrize("chained", ["__cause__", "__context__"])
def test_an_import_error_that_began_with_ctrl_c_is_an_interruption(monkeypatch, capsys, chained):
    error = ImportError("numpy could not be imported")
    setattr(error, chained, KeyboardInterrupt())

    def fails(**_):
        raise error

    monkeypatch.setattr("brainroam.cli.app", fails)
    with pytest.raises(SystemExit) as end:
        brainroam.cli.main()
    assert end.value.code == 130 and "Traceback" not in capsys.readouterr().err


def test_warnings_are_one_line_for_people(monkeypatch, folder):
    import warnings

    real = brainroam.data.readers.read_cohort

    def cautious(*arguments, **options):
        warnings.warn("look twice", stacklevel=2)
        return real(*arguments, **options)

    monkeypatch.setattr(brainroam.data.readers, "read_cohort", cautious)
    result = run("check", folder)
    assert (result.exit_code, result.stderr) == (0, "warning: look twice\n")


def test_fetch_says_where_it_put_the_data_or_why_not(monkeypatch, tmp_path):
    asked = {}

    def fetched(out, roi_sets):
        asked.update(out=out, roi_sets=roi_sets)
        return out / "ABIDE_pcp"

    monkeypatch.setattr(brainroam.data.readers, "fetch_abide", fetched)
    result = run("fetch", "abide", "--out", tmp_path, "--atlas", "aal", "--atlas", "cc200")
    assert f"brainroam check {tmp_path / 'ABIDE_pcp'}" in result.output
    assert asked == {"out": tmp_path, "roi_sets": ["aal", "cc200"]}

    def no_network(out, roi_sets):
        raise BrainroamError("ABIDE could not be fetched; by hand: ...")

    monkeypatch.setattr(brainroam.data.readers, "fetch_abide", no_network)
    result = run("fetch", "abide")
    assert (result.exit_code, result.stderr) == (1, "error: ABIDE could not be fetched; by hand: ...\n")


@pytest.mark.usefixtures("undrawn")
def test_demo_shows_a_check_and_saves_a_cohort_that_check_reads(tmp_path, monkeypatch):
    quick = ["ensemble", "core[updates=20,budget=10]", "fc-ridge", "confounds"]
    monkeypatch.setattr("brainroam.cli.data.DEMO_METHODS", quick)
    result = run("demo", "--out", tmp_path / "new" / "demo")
    assert result.exit_code == 0, result.output
    assert "240 people, 10 sites" in result.output and "everybody is male" in result.output
    assert "two subtypes" in result.output
    saved = tmp_path / "new" / "demo" / "cohort.npz"
    assert len(Cohort.load(saved)) == 240
    assert run("check", saved).exit_code == 0
    report = tmp_path / "new" / "demo" / "report.html"
    assert result.output.rstrip().endswith(str(report)) and "Research use only" in report.read_text(encoding="utf-8")


@pytest.mark.abide
def test_check_finds_the_real_cohort_usable(abide_root):
    start = os.times()
    done = shell("check", abide_root, "--atlas", "aal", "--json")
    assert os.times().children_user - start.children_user < 20  # not the clock: others may use the machine too
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    assert [content[f"n_{k}"] for k in ("people", "sites", "cases", "controls")] == [434, 10, 209, 225]
    sites = {row["site"]: row for row in content["sites"]}
    assert (sites["CALTECH"]["male"], sites["CALTECH"]["female"]) == (28, 8)  # of whom one is left out
    assert sites["KKI"]["age_mean"] == pytest.approx(10.01, abs=0.005)
    findings: dict[str, list] = {}
    for finding in content["findings"]:
        findings.setdefault(finding["code"], []).append(finding)
    (lacking,), (pair,) = findings["missing-rois"], findings["alike-people"]
    # Coverage is looked at in everybody who was read; one of them is left out for it.
    assert (len(lacking["subjects"]), content["n_with_missing_rois"]) == (68, 67)
    assert pair["subjects"] == ["Yale_0050578", "Yale_0050602"]
    assert {f["site"] for f in findings["constant-sex"]} == {"SBL", "TRINITY"}
    assert findings["missing-mean_fd"][0]["subjects"] == ["Yale_0050610"]
    assert findings["over-limit"][0]["subjects"] == ["Caltech_0051478"]
