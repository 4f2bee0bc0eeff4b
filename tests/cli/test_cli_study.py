"""The study commands, as people type them, stop them and start them again."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from brainroam import evaluate
from brainroam.cli import app
from brainroam.data.cohort import Cohort
from brainroam.data.synthetic import make_cohort
from brainroam.evaluation.stats.families import ABLATION
from brainroam.methods import registry
from brainroam.methods.base import MethodInfo
from brainroam.methods.controls import Majority

SMALL = ("--option", "n_sites=4", "--option", "n_per_site=8", "--option", "n_rois=8")
METHODS = "fc-ridge,fc-logistic,fc-svm,confounds,majority,combat-ridge"
N_RUNS = 4 * 6
STUDIES = ("evaluate", "loso", "cv", "ablate", "sweep", "compare", "methods")


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished study of two methods."""
    out = tmp_path_factory.mktemp("runs") / "loso"
    result = run("loso", "synthetic", *SMALL, "--methods", "fc-ridge,majority", "--tuning", "fast", "--out", out)
    assert result.exit_code == 0, result.output
    return out, result


def test_every_command_has_help_with_an_example():
    overview = run("--help").output
    for name in STUDIES:
        assert name in overview
        assert f"Example: brainroam {name}" in run(name, "--help").output


def test_loso_prints_a_table_and_where_things_are(finished):
    out, result = finished
    assert "4 sites held out" in result.stdout and "next site*" in result.stdout
    assert result.stdout.index("fc-ridge") < result.stdout.index("majority")
    assert "brainroam compare" in result.stdout
    assert "8/8 majority at S04, seed 0: AUC 0.500" in result.stderr
    files = ["plans", "predictions.csv", "ro-crate-metadata.json", "runs", "scores.csv", "study.json"]
    assert sorted(path.name for path in out.iterdir()) == files


def test_loso_again_does_nothing_and_prints_json(finished):
    out, _ = finished
    before = {path: path.stat().st_mtime_ns for path in (out / "runs").iterdir()}
    result = run(
        "loso", "synthetic", *SMALL, "--methods", "fc-ridge", "--tuning", "fast", "--out", out, "--json",
        "--held-out", "S01, S02",
    )  # fmt: skip
    content = json.loads(result.stdout)
    assert [row["method"] for row in content["methods"]] == ["fc-ridge"] and content["methods"][0]["n_sites"] == 2
    assert content["study"]["missing"] == [] and len(content["study"]["commands"]) >= 1
    assert before == {path: path.stat().st_mtime_ns for path in (out / "runs").iterdir()}


def test_halves_are_printed_kept_and_compared(tmp_path):
    study = ("synthetic", *SMALL, "--methods", "fc-ridge,majority", "--tuning", "fast", "--out", tmp_path)
    result = run("evaluate", *study, "--protocol", "halves", "--repeats", 2)
    assert result.exit_code == 0, result.output
    assert "4 sites tested by models of the other half" in result.stdout and "next site" not in result.stdout
    assert "fc-ridge at halves-02-B, seed 0: AUC" in result.stderr
    assert "(halves of the sites)" in " ".join(run("compare", tmp_path).stdout.split())
    written = {path.name for path in (tmp_path / "runs").iterdir()}
    again = run("loso", *study, "--protocol", "halves", "--repeats", 2)  # the short-cut's earlier spelling
    assert again.exit_code == 0 and {path.name for path in (tmp_path / "runs").iterdir()} == written
    assert "--protocol" not in run("loso", "--help").stdout.replace("evaluate --protocol", "")
    typo = run("evaluate", *study, "--protocol", "halfs")
    assert typo.exit_code == 2 and "did you mean 'halves'" in typo.stderr
    both = run("loso", *study, "--protocol", "halves", "--by", "institution")
    assert both.exit_code == 2 and "institution" in both.stderr


@pytest.mark.usefixtures("undrawn")
def test_one_family_is_compared_whoever_prints_it(finished):
    out, _ = finished
    text = "Holm over 1 comparison: fc-ridge against each other method (leave-one-site-out)"
    content = json.loads(run("compare", out, "--json").stdout)
    assert content["family"][0].startswith(text) and len(content["pairs"]) == 1
    assert text in " ".join(run("compare", out).stdout.split())
    assert "every pair of methods" in run("compare", out, "--all-pairs").stdout
    page = out.parent / "report.html"
    assert run("report", out, "--out", page).exit_code == 0
    assert text in page.read_text(encoding="utf-8")


def test_compare_speaks(finished):
    out, _ = finished
    text = run("compare", out).stdout
    assert "fc-ridge" in text and "AUC points" in text and "Holm over 1 comparison" in text
    content = json.loads(run("compare", out, "--reference", "majority", "--json").stdout)
    assert [pair["against"] for pair in content["pairs"]] == ["majority"]
    assert len(content["sentences"]) == 1 and content["methods"][0]["method"] == "fc-ridge"
    result = run("compare", out, "--reference", "majorty")
    assert result.exit_code == 2 and "did you mean 'majority'" in result.stderr


def test_a_table_of_confounds_without_a_confound_is_not_shown(finished, tmp_path):
    out, _ = finished
    assert "Motion, age and sex, in points" in run("compare", out).stdout
    folder = tmp_path / "people"
    cohort = make_cohort(n_sites=3, n_per_site=10, n_rois=8)
    folder.mkdir()
    for name, series in zip(cohort.table["subject"], cohort.series, strict=True):
        np.save(folder / f"{name}.npy", series)
    cohort.table[["subject", "site", "label"]].to_csv(folder / "people.csv", index=False)
    study = ("--option", f"participants={folder / 'people.csv'}", "--option", "template={participant_id}.npy")
    done = run("loso", folder, "--reader", "folder", *study, "--methods", "fc-ridge,majority", "--out", tmp_path / "r")
    assert done.exit_code == 0, done.output
    text = run("compare", tmp_path / "r").stdout
    assert "fc-ridge" in text and "taken out" not in text


def test_a_short_cut_is_the_general_command(tmp_path):
    study = ("synthetic", *SMALL, "--methods", "majority", "--out", tmp_path, "--folds", 2, "--repeats", 2)
    assert run("cv", *study).exit_code == 0
    written = {path.name: path.read_bytes() for path in (tmp_path / "runs").iterdir()}
    assert run("evaluate", *study, "--protocol", "folds").exit_code == 0
    assert len(written) == 4 and written == {path.name: path.read_bytes() for path in (tmp_path / "runs").iterdir()}


def test_cv_and_institutions_hold_out_what_they_say(tmp_path):
    cv = run("cv", "synthetic", *SMALL, "--methods", "site-only,majority", "--folds", 2, "--out", tmp_path)
    assert cv.exit_code == 0, cv.output
    assert "2 in-distribution folds held out" in cv.stdout and "next" not in cv.stdout.split("now try")[0]
    majority = ("synthetic", *SMALL, "--methods", "majority", "--out", tmp_path)
    result = run("evaluate", *majority, "--protocol", "institutions")
    assert result.exit_code == 1 and "no column 'institution'" in result.stderr
    result = run("loso", *majority, "--by", "hospital")
    assert result.exit_code == 2 and "site, institution" in result.stderr


class Constant(Majority):
    __module__ = "brainroam.stand_in"  # somebody else's would be searched for leaks, twenty times

    def __init__(self, budget=80, window=30, stride=5, profiles=False):
        self.budget, self.window, self.stride, self.profiles = budget, window, stride, profiles


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("ablate",), ["core", "core-no-cd", "core-no-pg", "core-no-sg", "core-tp"]),
        (("sweep", "--over", "budget"), sorted(f"core[budget={k}]" for k in (20, 40, 60, 80, 100, 120, 150, 200))),
        (
            ("sweep", "--over", "window"),
            sorted(f"core[profiles=true,stride={s},window={w}]" for w in (20, 30, 40, 50, 60) for s in (1, 5, 10, 15)),
        ),
    ],
)
def test_ablate_and_sweep_run_the_studies_of_the_paper(tmp_path, arguments, expected):
    name, *rest = arguments
    with registry.temporarily(*(MethodInfo(method, Constant, "a stand-in") for method in ABLATION)):
        result = run(name, "synthetic", *SMALL, *rest, "--held-out", "S01", "--out", tmp_path, "--json")
    assert result.exit_code == 0, result.output
    assert sorted(row["method"] for row in json.loads(result.stdout)["methods"]) == expected


def test_a_parameter_for_every_method_stands_in_its_name(tmp_path):
    result = run(
        "loso", "synthetic", *SMALL, "--methods", "fc-ridge", "--set", "strength=9", "--out", tmp_path, "--json"
    )
    assert json.loads(result.stdout)["methods"][0]["method"] == "fc-ridge[strength=9]"


def test_an_unknown_sweep_is_answered_with_the_nearest(tmp_path):
    result = run("sweep", "synthetic", *SMALL, "--over", "windows", "--out", tmp_path)
    assert result.exit_code == 2 and "did you mean 'window'" in result.stderr


def test_methods_are_listed():
    text = run("methods").stdout
    listed = json.loads(run("methods", "--json").stdout)
    assert {row["name"] for row in listed} == set(registry.method_names())
    assert all(row["name"] in text for row in listed)
    tangent = next(row for row in listed if row["name"] == "tangent-ridge")
    assert "Dadi" in tangent["citation"] and tangent["grid"]["strength"][0] == 1000


def test_the_settings_of_a_method_are_listed_and_can_be_set_as_shown(tmp_path):
    shown = json.loads(run("methods", "core-paper", "--json").stdout)
    hidden = {"default": 64, "takes": "a whole number larger than 0"}
    assert shown["settings"]["hidden"] == hidden  # its own, not those of core
    assert shown["settings"]["window_seconds"] == {"default": None, "takes": "a number larger than 0 or null"}
    assert "random_state" not in shown["settings"]  # the seed has an option of its own
    text = run("methods", "fc-ridge").stdout
    assert "strength    null     a number larger than 0 or null" in text and "'fc-ridge[covariates=[]]'" in text
    done = run(
        "loso",
        "synthetic",
        *SMALL,
        "--methods",
        "fc-ridge[covariates=[]],fc-ridge[penalties=[1]]",
        "--out",
        tmp_path,
        "--tuning",
        "fast",
    )
    assert done.exit_code == 0
    assert "setting" not in run("methods", "majority").stdout
    missing = run("methods", "cor")
    assert missing.exit_code == 2 and "did you mean 'core'" in missing.stderr


@pytest.mark.parametrize(
    ("methods", "code", "words"),
    [
        ("tangent-rigde", 2, "did you mean 'tangent-ridge'"),
        ("fc-ridge,fc-ridge", 2, "fc-ridge is named twice"),
        ("site-only", 2, "use cv for it"),
        ("fc-ridge[strngth=1]", 2, "unknown setting of fc-ridge 'strngth'; did you mean 'strength'?"),
    ],
)
def test_methods_that_cannot_be_run(tmp_path, methods, code, words):
    result = run("loso", "synthetic", *SMALL, "--methods", methods, "--out", tmp_path / "runs")
    assert result.exit_code == code and words in result.stderr
    assert not (tmp_path / "runs").exists()


def test_a_failed_method_is_named_and_the_rest_can_be_had(tmp_path):
    command = ["loso", "synthetic", *SMALL, "--methods", "majority,log-ridge[kind=nothing]", "--out", tmp_path]
    result = run(*command)
    assert result.exit_code == 1 and "4 of 8 runs are not finished" in result.stderr and "nothing" in result.stderr
    result = run(*command, "--partial")
    assert result.exit_code == 0 and "majority" in result.stdout and "warning" in result.stderr
    assert run("compare", tmp_path).exit_code == 1
    assert run("compare", tmp_path, "--partial").exit_code == 0


def test_rows_over_different_sites_say_over_how_many_and_are_not_ranked(tmp_path):
    """A study of which one method is done at fewer sites, however high its mean is there."""
    command = ["loso", "synthetic", *SMALL, "--out", tmp_path, "--methods"]
    assert run(*command, "majority").exit_code == 0
    assert run(*command, "log-ridge", "--held-out", "S01,S02").exit_code == 0
    printed = run("compare", tmp_path).stdout
    rows = [line.split() for line in printed.splitlines() if line.startswith(("majority ", "log-ridge "))]
    assert rows[0][:2] == ["majority", "4"] and rows[1][:4] == ["log-ridge", "2", "of", "4"]
    assert "log-ridge has no result at S03, S04" in " ".join(printed.split())
    alike = run(*command, "majority").stdout
    assert "sites  " not in alike.splitlines()[1] and " of 4" not in alike


def test_the_folder_of_another_cohort_is_refused(finished):
    out, _ = finished
    result = run("loso", "synthetic", *SMALL, "--option", "seed=1", "--methods", "majority", "--out", out)
    assert result.exit_code == 1 and "another cohort" in result.stderr
    assert run("compare", out.parent).exit_code == 1


def words(out, *more):
    return ["loso", "synthetic", *SMALL, "--methods", METHODS, "--tuning", "fast", "--out", str(out), *more]


def study(out, *more):
    """A study in a process of its own."""
    command = [sys.executable, "-c", "from brainroam.cli import main; main()", *words(out, *more)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def written(out):
    """When each run file was written; a run done again has another time."""
    return {path.name: path.stat().st_mtime_ns for path in (out / "runs").glob("*.json")}


def stop(process, out, count, how):
    """Send the signal once so many runs are there, a random moment later."""
    while len(written(out)) < count and process.poll() is None:
        time.sleep(0.002)
    time.sleep(random.uniform(0, 0.05))
    process.send_signal(how)
    return process.communicate(timeout=60)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The same study, never interrupted."""
    out = tmp_path_factory.mktemp("whole")
    assert run(*words(out)).exit_code == 0
    assert len(written(out)) == N_RUNS
    return out


@pytest.mark.parametrize(("jobs", "kills"), [(1, 2), (2, 1)])
def test_killed_and_started_again_nothing_differs(whole, tmp_path, jobs, kills):
    torn, seen = tmp_path, {}
    for count in sorted(random.sample(range(1, N_RUNS - 4), kills)):
        stop(study(torn, "--jobs", str(jobs)), torn, count, signal.SIGKILL)
        now = written(torn)
        assert seen.items() <= now.items()  # what was finished was not done again
        seen = now
    assert 0 < len(seen) < N_RUNS
    last = study(torn, "--jobs", str(jobs))
    assert last.wait(timeout=300) == 0
    assert seen.items() <= written(torn).items()
    for name in ("scores.csv", "predictions.csv"):
        assert (torn / name).read_bytes() == (whole / name).read_bytes()
    assert {path.name for path in (torn / "runs").glob("*.json")} == {path.name for path in (whole / "runs").iterdir()}


def test_ctrl_c_keeps_what_is_finished(tmp_path):
    process = study(tmp_path, "--jobs", "2")
    _, errors = stop(process, tmp_path, 3, signal.SIGINT)
    assert process.returncode == 130
    assert errors.decode().rstrip().endswith("interrupted; finished work is kept")
    kept = written(tmp_path)
    assert 3 <= len(kept) < N_RUNS
    assert run(*words(tmp_path)).exit_code == 0
    assert len(written(tmp_path)) == N_RUNS and kept.items() <= written(tmp_path).items()


@pytest.mark.skipif(os.name == "nt", reason="needs a path that cannot be written")
def test_ages_in_months_at_a_site_are_named_before_the_study(tmp_path):
    made = make_cohort(n_sites=3, n_per_site=8, n_rois=8)
    months = made.table["age"].where(made.table["site"] != "S02", 12 * made.table["age"])
    Cohort(made.series, made.table.assign(age=months)).save(tmp_path / "cohort.npz")
    result = run("loso", tmp_path / "cohort.npz", "--methods", "majority", "--out", tmp_path / "runs")
    words = " ".join(result.stderr.split())
    assert result.exit_code == 0 and "age is implausible for 8, at S02 (8 of 8)" in words and "not months" in words


def test_a_folder_that_cannot_be_written():
    result = run("loso", "synthetic", *SMALL, "--methods", "majority", "--out", "/dev/null/runs")
    assert result.exit_code == 1 and "cannot write /dev/null/runs/study.json: Not a directory" in result.stderr


def test_what_covariates_explain_is_told_for_each_protocol(tmp_path):
    cohort = make_cohort(n_sites=4, n_per_site=24, n_rois=8, seed=0)
    institution = np.where(cohort.table["site"].isin(["S01", "S02"]), "north", "south")
    cohort = cohort.with_columns(pd.DataFrame({"institution": institution}))
    for protocol in ("loso", "institutions"):
        evaluate(cohort, ["fc-ridge"], protocol=protocol, out=tmp_path / "runs", tuning="fast")
    printed = run("compare", tmp_path / "runs").output
    titles = [printed.index(f"{title}:") for title in ("leave-one-site-out", "leave-one-institution-out")]
    assert printed.count("in points of 100\n") == 4 and printed.count("r(score, motion)") == len(titles)
