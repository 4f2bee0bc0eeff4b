"""Studies: everything that is missing, nothing twice, whatever happens in between."""

import errno
import json
import os
import signal
import subprocess
import sys
import warnings
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics import roc_auc_score

import brainroam
from brainroam.data.cohort import Cohort
from brainroam.data.folds import hold_out
from brainroam.data.synthetic import make_cohort
from brainroam.errors import BrainroamError, DataError, RunsError, UsageError
from brainroam.evaluation import runner
from brainroam.evaluation.duration import Pace, without_expensive
from brainroam.evaluation.results import compare, load_runs
from brainroam.evaluation.run_records import make_tasks, read_run_file, write_checksummed
from brainroam.evaluation.runner import evaluate
from brainroam.evaluation.runs_folder import RunsFolder, complete_tables
from brainroam.evaluation.tables import read_table
from brainroam.execution.progress import Advance, show_progress
from brainroam.methods.base import Method, MethodInfo
from brainroam.methods.registry import temporarily

TABLES = ("scores.csv", "predictions.csv")


class FirstRegion(Method):
    """Scores people by one number of their series; breaks, draws lots or dies where it is told to."""

    def __init__(self, fail_without="", lots=False, die_without=""):
        self.fail_without, self.lots, self.die_without = fail_without, lots, die_without

    def fit(self, cohort, seed=0, validation=None):
        if len(cohort.sites) == 2:  # not in inner folds
            if self.die_without and self.die_without not in cohort.sites:
                os.kill(os.getpid(), signal.SIGKILL)
            if self.fail_without and self.fail_without not in cohort.sites:
                raise RuntimeError(f"no {self.fail_without}")
        self.seed = seed
        return self

    def score(self, cohort):
        lots = np.random.default_rng(self.seed).normal(size=len(cohort)) if self.lots else 0
        return np.array([x[0, 0] for x in cohort.series]) + lots

    def state(self):
        return {}

    def load_state(self, state):
        return self


@pytest.fixture
def method():
    info = MethodInfo("first", FirstRegion, "the first number of the first region")
    steady = replace(info, name="steady", stochastic=False)
    with temporarily(info, steady, replace(info, name="inside", in_distribution_only=True)):
        yield


@pytest.fixture(scope="module")
def cohort():
    return make_cohort(n_sites=3, n_per_site=8, n_rois=8)


@pytest.fixture
def counted(monkeypatch):
    """The specs of the runs that were really done."""
    done = []

    def execute(cohort, task, original=runner.execute):
        done.append(task.spec)
        return original(cohort, task)

    monkeypatch.setattr(runner, "execute", execute)
    return done


def tables(path):
    return {name: (path / name).read_bytes() for name in TABLES}


def test_a_study_has_every_run_once(cohort, method, tmp_path):
    results = evaluate(cohort, ["first", "steady", "fc-ridge"], seeds=2, tuning="fast", out=tmp_path)
    runs = results.scores[["method", "site", "seed"]].apply(tuple, axis=1).tolist()
    assert runs == [
        *[("fc-ridge", site, 0) for site in cohort.sites],
        *[("first", site, seed) for site in cohort.sites for seed in (0, 1)],
        *[("steady", site, 0) for site in cohort.sites],
    ]
    of_run = results.predictions[results.predictions["method"] == "first"].groupby(["site", "seed"])["subject"]
    assert of_run.apply(sorted).iloc[0] == sorted(cohort.select(["S01"]).table["subject"])
    assert results.study["manifest_hash"] == cohort.manifest_hash and results.study["atlas"] == "custom"
    assert [site["n"] for site in results.study["sites"]] == [8, 8, 8]
    assert results.scores["configuration"][0] == '{"penalties": [3.0]}'


def test_scores_follow_from_predictions_and_threshold(cohort):
    results = evaluate(cohort, "fc-ridge", tuning="fast")
    first = results.scores.iloc[0]
    people = results.predictions[results.predictions["site"] == first["site"]]
    called = people["score"] >= first["threshold"]
    assert first["acc"] == (called == people["label"]).mean()
    assert (called == (people["predicted"] == 1)).all()
    assert first["n_cases"] == people["label"].sum()


def test_the_tables_on_disk_are_the_results(cohort, tmp_path):
    results = evaluate(cohort, ["fc-ridge", "majority"], tuning="fast", out=tmp_path)
    for kept in (load_runs(tmp_path), *[runner.Results(*(read_table(tmp_path / name) for name in TABLES), {})]):
        pd.testing.assert_frame_equal(kept.scores, results.scores, check_dtype=False)
        pd.testing.assert_frame_equal(kept.predictions, results.predictions, check_dtype=False)


def test_nothing_is_done_twice(cohort, method, tmp_path, counted):
    evaluate(cohort, ["first"], out=tmp_path, held_out=["S02"])
    evaluate(cohort, ["first", "steady"], out=tmp_path)
    assert len(counted) == 6 == len({spec.key for spec in counted})
    before = tables(tmp_path)
    evaluate(cohort, ["steady", "first"], out=tmp_path)
    assert len(counted) == 6 and tables(tmp_path) == before
    evaluate(cohort, ["first"], out=tmp_path, force=True)
    assert len(counted) == 9 and tables(tmp_path) == before


def test_results_are_of_what_was_asked_and_load_runs_gives_all(cohort, method, tmp_path):
    evaluate(cohort, ["first"], out=tmp_path)
    assert evaluate(cohort, ["steady"], out=tmp_path).scores["method"].unique().tolist() == ["steady"]
    assert load_runs(tmp_path).scores["method"].unique().tolist() == ["first", "steady"]


def test_two_commands_may_work_in_one_folder(cohort, method, tmp_path, monkeypatch):
    def keep(self, spec, outcome, original=RunsFolder.keep):
        original(self, spec, outcome)
        if spec.name == "first" and spec.fold == "S02":
            evaluate(cohort, ["steady"], out=tmp_path)  # the other command, begun and finished in between

    monkeypatch.setattr(RunsFolder, "keep", keep)
    assert len(evaluate(cohort, ["first"], out=tmp_path).study["commands"]) == 1
    assert read_table(tmp_path / "scores.csv")["method"].tolist() == ["first"] * 3 + ["steady"] * 3


def test_the_order_of_work_leaves_no_trace(cohort, tmp_path):
    evaluate(cohort, ["fc-ridge", "fc-svm"], tuning="fast", out=tmp_path / "one")
    for name in ("fc-svm", "fc-ridge"):
        for site in reversed(cohort.sites):
            evaluate(cohort, [name], tuning="fast", out=tmp_path / "other", held_out=[site])
    assert tables(tmp_path / "one") == tables(tmp_path / "other")


def test_two_jobs_give_the_bytes_of_one(cohort, tmp_path):
    for jobs in (1, 2):  # networks: tests/test_determinism.py
        evaluate(cohort, ["fc-ridge", "fc-svm"], tuning="fast", out=tmp_path / str(jobs), jobs=jobs)
    assert tables(tmp_path / "1") == tables(tmp_path / "2")


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_failed_run_is_recorded_and_the_others_finish(cohort, method, tmp_path, jobs):
    fragile = "first[fail_without=S02]"
    with pytest.raises(RunsError, match=r"1 of 6 .*S02, seed 0.*--partial"):
        evaluate(cohort, [fragile, "steady"], out=tmp_path, jobs=jobs)
    with pytest.warns(UserWarning, match="1 of 6"):
        results = evaluate(cohort, [fragile, "steady"], out=tmp_path, partial=True)
    assert results.scores.groupby("method")["site"].apply(list).to_dict() == {
        fragile: ["S01", "S03"],
        "steady": ["S01", "S02", "S03"],
    }
    (said,) = results.study["failed"]
    assert said.startswith(f"{fragile} at S02, seed 0: RuntimeError: no S02 (test_runner.py, line ")
    failed = [run for run in map(json.loads, (f.read_text() for f in (tmp_path / "runs").iterdir())) if "error" in run]
    assert len(failed) == 1 and "in fit" in failed[0]["traceback"]


def test_a_failed_run_is_tried_again(cohort, method, tmp_path, monkeypatch, counted):
    with monkeypatch.context() as failing, pytest.raises(RunsError, match="3 of 3"):
        failing.setattr(FirstRegion, "score", lambda self, cohort: 1 / 0)
        evaluate(cohort, ["first"], out=tmp_path, partial=True)  # nothing at all is no partial result
    assert len(evaluate(cohort, ["first"], out=tmp_path).scores) == 3


def test_a_killed_worker_is_a_failed_run(cohort, method, tmp_path):
    with pytest.raises(RunsError, match=r"S03, seed 0: .*killed"):
        evaluate(cohort, ["first[die_without=S03]"], out=tmp_path, jobs=2)
    assert len(read_table(tmp_path / "scores.csv")) == 2


def test_a_one_class_site_keeps_its_row(method):
    cohort = make_cohort(n_sites=3, n_per_site=8, n_rois=8)
    table = cohort.table
    table.loc[table["site"] == "S02", "label"] = 0
    scores = evaluate(Cohort(cohort.series, table), ["fc-ridge"], tuning="fast").scores.set_index("site")
    assert np.isnan(scores.loc["S02", "auc"]) and scores.loc["S02", "acc"] >= 0


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda content: content[: len(content) // 2], "short"),
        (lambda content: b"", "short"),
        (lambda content: content.replace(b'"score": [', b'"score": [\n  9.5,'), "checksum"),
        (lambda content: b'{"hello": 1}', "brainroam"),
    ],
)
def test_a_damaged_run_is_reported_and_done_again(cohort, method, tmp_path, counted, damage, words):
    evaluate(cohort, ["first"], out=tmp_path)
    before = tables(tmp_path)
    victim = sorted((tmp_path / "runs").iterdir())[1]
    victim.write_bytes(damage(victim.read_bytes()))
    with pytest.warns(UserWarning, match=words), pytest.raises(RunsError, match="first"):
        load_runs(tmp_path)
    with pytest.warns(UserWarning, match=words):
        evaluate(cohort, ["first"], out=tmp_path)
    assert len(counted) == 4 and tables(tmp_path) == before
    assert len(load_runs(tmp_path).scores) == 3


def test_files_that_are_not_ours_do_no_harm(cohort, method, tmp_path):
    evaluate(cohort, ["first"], out=tmp_path)
    (tmp_path / "runs" / "notes.txt").write_text("mine")
    (tmp_path / "runs" / ".abc.json.x.part").write_text("{")
    assert len(load_runs(tmp_path).scores) == 3
    other = make_cohort(n_sites=3, n_per_site=8, n_rois=8, seed=1)
    evaluate(other, ["first"], out=tmp_path / "other", held_out=["S01"])
    stray = next((tmp_path / "other" / "runs").iterdir())
    (tmp_path / "runs" / stray.name).write_bytes(stray.read_bytes())
    with pytest.warns(UserWarning, match="cohort"):
        assert len(load_runs(tmp_path).scores) == 3


def test_the_folder_of_another_cohort_is_refused(cohort, method, tmp_path):
    evaluate(cohort, ["first"], out=tmp_path)
    with pytest.raises(RunsError, match="people"):
        evaluate(make_cohort(n_sites=3, n_per_site=8, n_rois=8, seed=1), ["first"], out=tmp_path)
    table = cohort.table
    table.loc[0, "age"] = 99
    with pytest.raises(RunsError, match="covariates"):
        evaluate(Cohort(cohort.series, table), ["first"], out=tmp_path)
    shuffled = cohort.subset(np.random.default_rng(0).permutation(len(cohort)))
    assert len(evaluate(shuffled, ["first"], out=tmp_path).scores) == 3


def test_one_folder_has_one_tuning_and_one_set_of_folds(cohort, method, tmp_path):
    evaluate(cohort, ["first"], out=tmp_path)
    with pytest.raises(RunsError, match=r"--tuning default .*S01, seed 0"):
        evaluate(cohort, ["first"], out=tmp_path, tuning="fast")
    evaluate(cohort, ["first"], "cv", out=tmp_path, n_splits=2)
    with pytest.raises(RunsError, match="folds"):
        evaluate(cohort, ["first"], "cv", out=tmp_path, n_splits=3)


def test_a_folder_without_runs_is_refused(tmp_path):
    with pytest.raises(RunsError, match=r"study\.json"):
        load_runs(tmp_path)


def test_a_damaged_study_file_is_named_and_written_again(cohort, method, tmp_path):
    evaluate(cohort, ["first"], out=tmp_path)
    whole = (tmp_path / "study.json").read_bytes()
    (tmp_path / "study.json").write_text("{")
    with pytest.raises(RunsError, match=r"study\.json"):
        load_runs(tmp_path)
    with pytest.warns(UserWarning, match=r"study\.json"):
        assert len(evaluate(cohort, ["first"], out=tmp_path).scores) == 3
    assert (tmp_path / "study.json").read_bytes() == whole
    (tmp_path / "study.json").unlink()
    assert len(evaluate(cohort, ["first"], out=tmp_path).scores) == 3


def test_a_damaged_plan_is_refused_by_readers_and_written_again_by_its_command(cohort, method, tmp_path):
    evaluate(cohort, ["first"], out=tmp_path)
    (plan,) = (tmp_path / "plans").iterdir()
    whole = plan.read_bytes()
    plan.write_bytes(whole[:-9])
    with pytest.raises(RunsError, match="command"):
        load_runs(tmp_path)
    evaluate(cohort, ["first"], out=tmp_path)
    assert plan.read_bytes() == whole and len(load_runs(tmp_path).scores) == 3


def test_a_file_with_a_right_checksum_and_wrong_content_is_refused(cohort, method, tmp_path):
    evaluate(cohort, ["first"], out=tmp_path)
    file = sorted((tmp_path / "runs").iterdir())[0]
    content = read_run_file(file)
    for wrong in ({"status": "done"}, {"status": "dreamt"}, {**content, "predictions": {"subject": 3}}):
        write_checksummed(file, {"spec": content["spec"], **wrong})
        with pytest.warns(UserWarning, match="again"):
            assert len(RunsFolder(tmp_path).runs) == 2
    write_checksummed(tmp_path / "study.json", {"manifest_hash": 3})
    with pytest.raises(RunsError, match="facts"):
        RunsFolder(tmp_path)


def test_runs_that_others_finish_while_the_tables_are_written_are_in_them(cohort, method, tmp_path, monkeypatch):
    evaluate(cohort, ["first"], out=tmp_path)
    complete = (tmp_path / "scores.csv").read_bytes()
    file = sorted((tmp_path / "runs").iterdir())[0]
    theirs, write = file.read_bytes(), RunsFolder.write_tables
    file.unlink()

    def meanwhile(folder):
        file.write_bytes(theirs)
        write(folder)

    monkeypatch.setattr(RunsFolder, "write_tables", meanwhile)
    complete_tables(tmp_path)
    assert (tmp_path / "scores.csv").read_bytes() == complete


@pytest.mark.parametrize(
    ("methods", "options", "words"),
    [
        (["tangent-rigde"], {}, "'tangent-ridge'"),
        (["fc-ridge", "fc-ridge"], {}, "fc-ridge .*twice"),
        (["fc-ridge[strength=1]", "fc-ridge"], {"parameters": {"strength": 1}}, r"strength=1\] .*twice"),
        (["fc-ridge[stength=1]"], {}, "fc-ridge .stength..*.strength."),
        (["fc-ridge[strength=1"], {}, "bracket"),
        (["inside"], {}, "cv"),
        ([], {}, "method"),
        (["first"], {"held_out": ["S4"]}, "'S4'"),
        (["first"], {"seeds": 0}, "seeds"),
        (["first"], {"tuning": "ful"}, "'full'"),
        (["first"], {"protocol": "halfs"}, "'halves'"),
        (["first"], {"engine": "dsk"}, "engine"),
        (["first"], {"jobs": 0}, "jobs"),
        (["first"], {"parameters": {"lots": object()}}, "number"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_for(cohort, method, methods, options, words):
    with pytest.raises(UsageError, match=words):
        evaluate(cohort, methods, **options)


def test_people_without_a_label_are_named(cohort):
    table = cohort.table
    table["label"] = table["label"].astype(float)
    table.loc[3, "label"] = np.nan
    with pytest.raises(DataError, match="S01_0004"):
        evaluate(Cohort(cohort.series, table), ["majority"])


def test_parameters_stand_in_the_name(cohort):
    results = evaluate(cohort, ["fc-ridge", "fc-svm[strength=0.5]"], parameters={"strength": 10.0}, held_out=["S01"])
    assert results.scores["method"].tolist() == ["fc-ridge[strength=10.0]", "fc-svm[strength=0.5]"]
    assert json.loads(results.scores["configuration"][0]) == {"penalties": [3.0], "strength": 10.0}


def test_folds_and_institutions_are_held_out_as_asked(cohort, method):
    scores = evaluate(cohort, ["inside"], "cv", n_splits=2, n_repeats=2).scores
    assert scores["site"].tolist() == ["repeat1-fold1", "repeat1-fold2", "repeat2-fold1", "repeat2-fold2"]
    table = cohort.table
    table["institution"] = table["site"].map({"S01": "X", "S02": "X", "S03": "Y"})
    scores = evaluate(Cohort(cohort.series, table), ["first"], "loio").scores
    assert scores[["site", "fold"]].to_numpy().tolist() == [["S01", "X"], ["S02", "X"], ["S03", "Y"]]


def test_people_of_two_sites_of_an_institution_are_not_compared(tmp_path):
    """One model for all of an institution, an AUC for each of its sites, whether a column or names tell of it."""
    made = make_cohort(n_sites=5, n_per_site=12, n_rois=8, seed=2)
    names = dict(zip(made.sites, ["UM_1", "UM_2", "NYU", "Oslo", "Rome"], strict=True))
    table = made.table.assign(site=made.table["site"].map(names))
    by_name = Cohort(made.series, table)
    by_column = Cohort(
        made.series, table.assign(institution=table["site"].str.removesuffix("_1").str.removesuffix("_2"))
    )
    with pytest.warns(UserWarning, match="by the names of sites"):
        found = evaluate(by_name, ["fc-ridge"], "institutions", tuning="fast", out=tmp_path)
    told = evaluate(by_column, ["fc-ridge"], "institutions", tuning="fast")
    pd.testing.assert_frame_equal(found.scores, told.scores)
    assert found.predictions["institution"].tolist() == told.predictions["institution"].tolist()
    of_um = found.predictions[found.predictions["fold"] == "UM"]
    for site, people in of_um.groupby("site"):
        (row,) = found.scores[found.scores["site"] == site].to_dict("records")
        assert (row["fold"], row["n"]) == ("UM", 12)
        assert row["auc"] == pytest.approx(roc_auc_score(people["label"], people["score"]))
    assert load_runs(tmp_path).scores.equals(found.scores)


def test_halves_have_a_row_per_fold_and_site_measured_by_itself(tmp_path):
    cohort = make_cohort(n_sites=5, n_per_site=8, n_rois=8)
    results = evaluate(cohort, ["fc-ridge", "majority"], "halves", n_repeats=2, tuning="fast", out=tmp_path)
    scores, predictions = results.scores, results.predictions
    assert len(scores) == 2 * 5 * 2
    assert scores.groupby(["method", "site"])["fold"].nunique().eq(2).all()
    site = cohort.table.set_index("subject")["site"]
    assert (predictions["site"] == predictions["subject"].map(site)).all()
    for row in scores[scores["method"] == "fc-ridge"].itertuples():
        people = predictions[
            (predictions["method"] == row.method)
            & (predictions["fold"] == row.fold)
            & (predictions["site"] == row.site)
        ]
        assert row.n == len(people) == 8
        assert row.auc == pytest.approx(roc_auc_score(people["label"], people["score"]))
    runs = load_runs(tmp_path)
    pd.testing.assert_frame_equal(runs.scores, scores)
    table = compare(results).table.set_index("method")
    sites = scores[scores["method"] == "fc-ridge"].groupby("site")[["auc", "n", "n_cases"]].mean()
    mean = np.average(sites["auc"], weights=np.minimum(sites["n_cases"], sites["n"] - sites["n_cases"]))
    assert (table.loc["fc-ridge", "auc"], table.loc["fc-ridge", "n_sites"]) == (pytest.approx(mean), 5)


def test_compare_takes_a_folder_or_results(cohort, method, tmp_path):
    results = evaluate(cohort, ["first", "steady", "majority"], out=tmp_path)
    assert compare(results).sentences == brainroam.compare(tmp_path).sentences
    assert len(compare(tmp_path, reference="majority").sentences) == 2


def test_no_space_left_stops_the_study_and_loses_nothing(cohort, method, tmp_path, monkeypatch):
    writes = iter([True] * 5)

    def full(descriptor, original=os.fsync):
        if not next(writes, False):
            raise OSError(errno.ENOSPC, "No space left on device")
        original(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BrainroamError, match=r"\.json: No space left"):
        evaluate(cohort, ["first", "steady"], out=tmp_path)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    assert len(list((tmp_path / "runs").glob("*.json"))) == 1
    evaluate(cohort, ["first", "steady"], out=tmp_path)
    evaluate(cohort, ["first", "steady"], out=tmp_path / "whole")
    assert tables(tmp_path) == tables(tmp_path / "whole")


@pytest.fixture
def small_disk(tmp_path):
    path = tmp_path / "disk"
    path.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", path], capture_output=True)
    if done.returncode:
        pytest.skip("mounting a small disk needs root")
    yield path
    subprocess.run(["umount", path], check=True)


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a tmpfs")
def test_a_disk_that_is_full_or_read_only(cohort, method, small_disk):
    with pytest.raises(BrainroamError, match="No space left"):
        evaluate(cohort, ["first", "steady"], seeds=9, out=small_disk / "runs")
    assert not list(small_disk.rglob("*.part"))
    finished = len(list((small_disk / "runs" / "runs").glob("*.json")))
    assert finished
    subprocess.run(["mount", "-o", "remount,size=1m", small_disk], check=True)
    assert len(evaluate(cohort, ["first", "steady"], seeds=9, out=small_disk / "runs").scores) == 30
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with pytest.raises(BrainroamError, match="Read-only"):
        evaluate(cohort, ["first"], seeds=10, out=small_disk / "runs")


def test_a_file_in_the_place_of_the_folder_is_refused(cohort, method, tmp_path):
    (tmp_path / "runs").touch()
    with pytest.raises(BrainroamError, match="write"):
        evaluate(cohort, ["first"], out=tmp_path / "runs")


def test_a_study_has_no_method_whose_scores_depend_on_who_else_is_scored(cohort):
    with pytest.raises(UsageError, match="adapt"):
        evaluate(cohort, ["core[adapt=unlabelled]"])


def test_a_reference_that_would_take_most_of_the_time_is_no_default():
    small, wide = (
        type("People", (list,), {"n_rois": n, "n_features": n * (n - 1) // 2})(range(182)) for n in (20, 352)
    )
    kept, why = without_expensive(["ensemble", "tangent-ridge"], wide, 6)
    assert kept == ["ensemble"] and "tangent-ridge is left out" in why
    assert without_expensive(["ensemble", "tangent-ridge"], small, 6) == (["ensemble", "tangent-ridge"], "")


def test_finished_runs_tell_how_long_the_others_take(tmp_path):
    cohort = make_cohort(n_sites=3, n_per_site=8, n_rois=8)
    methods = {"slow": RidgeClassifier(), "majority": "majority"}
    evaluate(cohort, methods, tuning="fast", out=tmp_path, held_out=["S01"])
    folder = RunsFolder(tmp_path)
    for spec, outcome in folder.runs.values():
        folder.keep(spec, outcome | {"seconds": 100.0 if spec.method == "slow" else 1.0})
    running = []

    @contextmanager
    def view(total):
        yield Advance(lambda line: None, running.append, running.append)

    evaluate(cohort, methods, tuning="fast", out=tmp_path, progress=view)
    assert running[0] == "4 runs, about 3 min; slow takes about 3 min of it"
    assert running[1] == "now slow at S02, seed 0" and "" in running
    assert len([text for text in running if text.startswith("now")]) == 4


def test_the_second_runs_correct_an_estimate_that_was_far_off_once():
    cohort = make_cohort(n_sites=4, n_per_site=8, n_rois=8)
    folds = [hold_out(cohort.table["site"].to_numpy(), [site]) for site in cohort.sites]
    tasks = list(make_tasks(cohort, {"mine": RidgeClassifier(), "core": "core"}, "loso", folds, 1, "fast", {}))
    pace, said = Pace(tasks, cohort), []
    assert pace.before.unknown == ["mine"]
    for task in tasks:
        first = task.spec.fold == cohort.sites[0]
        said.append(pace.after(task.spec, {"status": "done", "seconds": 500.0 if first else 50.0}))
    assert [text for text in said if text] == ["by the first runs: 8 runs, about 7 min; mine takes about 3 min of it"]
    assert said.index(next(text for text in said if text)) == 3  # both methods have been timed twice


def test_a_notebook_gets_one_bar(monkeypatch):
    drawn = []

    class ZMQInteractiveShell:
        pass

    class Handle:
        update = staticmethod(drawn.append)

    display = SimpleNamespace(HTML=str, display=lambda html, display_id: drawn.append(html) or Handle())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=ZMQInteractiveShell))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    with show_progress(2) as advance:
        advance.now("now fc-ridge at <A>")
        advance("fc-ridge at A: AUC 0.7")
        advance("fc-ridge at B: failed, no memory")
    assert 'value="0"' in drawn[0] and "&lt;A&gt;" in drawn[1]
    assert 'value="2"' in drawn[-1] and "no memory" in drawn[-1] and "AUC 0.7" not in drawn[-1]


def test_the_same_series_on_both_sides_of_a_split_are_told(cohort):
    table, series = cohort.table, list(cohort.series)
    first, same_site = np.flatnonzero(table["site"] == cohort.sites[0])[:2]
    other = int(np.flatnonzero(table["site"] == cohort.sites[1])[0])
    series[same_site] = series[first]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluate(Cohort(series, table), ["majority"])  # never on two sides
    series[other] = series[first]
    with pytest.warns(UserWarning, match=f"{table['subject'][first]} = {table['subject'][other]}"):
        evaluate(Cohort(series, table), ["majority"])
    one = table.assign(
        person=["p" if i in (first, other) else f"p{i}" for i in range(len(table))], label=table["label"]
    )
    one.loc[other, "label"] = one.loc[first, "label"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        series[same_site] = cohort.series[same_site]
        evaluate(Cohort(series, one), ["majority"])  # known to be one person


def test_empty_scans_are_no_copies_of_each_other(cohort):
    series = list(cohort.series)
    for site in cohort.sites[:2]:
        place = int(np.flatnonzero(cohort.table["site"] == site)[0])
        series[place] = np.zeros((60, cohort.n_rois))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluate(Cohort(series, cohort.table), ["majority"])
