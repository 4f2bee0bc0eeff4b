"""Two features at once: where each has its own tests, here they meet."""

import json
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from cheap import cheap
from typer.testing import CliRunner

import brainroam
from brainroam import SiteClassifier, SiteRegressor
from brainroam.cli import app
from brainroam.data.store import write_store
from brainroam.data.target_column import with_target
from brainroam.methods.registry import method_info, method_names
from brainroam.methods.saving import save_method
from brainroam.methods.tuning import TunedMethod


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture(scope="module")
def people():
    """Five sites of two institutions and more, with a diagnosis of three words, a number and a coded scanner."""
    made = brainroam.make_cohort(n_sites=5, n_per_site=18, n_rois=10, seed=3)
    rng = np.random.default_rng(0)
    dx = np.array(["HC", "MDD", "SCZ"])[np.tile([0, 1, 2], 30)]
    iq = 100 + 5 * made.labels + rng.normal(0, 8, len(made))
    scanner = rng.choice([1.0, 2.0, 3.0], len(made))
    institution = made.table["site"].replace({"S01": "U1", "S02": "U1"})
    return made.with_columns(
        pd.DataFrame({"dx": dx, "iq": iq, "scanner": scanner, "institution": institution.to_numpy()})
    )


@pytest.fixture(scope="module")
def file(people, tmp_path_factory):
    path = tmp_path_factory.mktemp("people") / "people.npz"
    people.save(path)
    return path


@pytest.fixture(scope="module")
def store(people, tmp_path_factory):
    return write_store(tmp_path_factory.mktemp("store") / "people.zarr", people.table, people.series, people.atlas)


def that_learn(kind):
    infos = map(method_info, method_names())
    return [i.name for i in infos if kind in i.targets and not (i.in_distribution_only or i.keeps_people)]


@pytest.mark.parametrize(
    ("target", "name"), [(t, name) for t, kind in (("iq", "number"), ("dx", "classes")) for name in that_learn(kind)]
)
def test_a_model_of_the_command_line_is_read_in_python_whatever_it_predicts(people, target, name, tmp_path):
    cohort = with_target(people, target)
    fitted = TunedMethod(method_info(name), "fast", **cheap(name)).fit(cohort)
    model = brainroam.load_model(save_method(tmp_path / "model", fitted, cohort))
    score = fitted.score(cohort)
    if target == "iq":
        assert isinstance(model, SiteRegressor)
        np.testing.assert_array_equal(model.predict(cohort), fitted.readout_.predict(score))
    else:
        assert isinstance(model, SiteClassifier) and model.classes_.tolist() == ["HC", "MDD", "SCZ"]
        np.testing.assert_array_equal(model.predict_proba(cohort), fitted.calibration_(score))
        np.testing.assert_array_equal(model.decision_function(cohort), score)


def test_joined_studies_are_corrected_in_the_families_of_each(people, tmp_path):
    """Holm by its definition over the pairs of a family: the main one goes over both studies, sweeps are of each."""
    core = "core[budget={},epochs=0,eta=0.6,tau_percentile=50]"
    for name, cohort in (("a", people), ("b", people.subset(range(1, len(people))))):
        methods = ["fc-ridge", "confounds", core.format(2), core.format(3)]
        brainroam.evaluate(cohort, methods, tuning="fast", out=tmp_path / name / "runs")
    rows = brainroam.compare([tmp_path / "a" / "runs", tmp_path / "b" / "runs"]).paired
    for _, family in rows.groupby("family"):
        p = np.sort(family["p"].to_numpy())
        expected = np.minimum(1, np.maximum.accumulate((len(p) - np.arange(len(p))) * p))
        np.testing.assert_allclose(np.sort(family["p_holm"]), expected)
    reference = f"a: {core.format(2)}"
    assert [set(zip(f["method"], f["against"], strict=True)) for _, f in rows.groupby("family", sort=False)] == [
        {(f"{study}: {method}", reference) for study in "ab" for method in ("fc-ridge", "confounds")},
        {(f"a: {core.format(3)}", reference)},
        {(f"b: {core.format(3)}", f"b: {core.format(2)}")},
    ]


@pytest.mark.parametrize(
    "more", [(), ("--adapt", "unlabelled"), ("--controls", "controls.txt"), ("--prevalence", "0.2")]
)
def test_predictions_from_a_store_are_those_in_memory_however_they_are_made(people, store, tmp_path, more):
    (tmp_path / "controls.txt").write_text("\n".join(people.table["subject"][people.labels == 0][:12]))
    more = [tmp_path / word if word.endswith(".txt") else word for word in more]
    made = {}
    for name, limit in (("memory", []), ("disk", ["--memory", "1GB"])):
        where = tmp_path / name
        run("fit", store, "--method", "fc-ridge", "--covariates", "age,scanner:category", "--out", where, *limit)
        run("predict", where, store, *more, *limit, "--out", where / "p.csv")
        made[name] = pd.read_csv(where / "p.csv")
    pd.testing.assert_frame_equal(made["disk"], made["memory"], atol=1e-8, rtol=0)


@pytest.mark.parametrize("method", ["scaffold-ridge", "core"])
def test_categories_are_removed_alike_on_disk_and_in_memory(store, tmp_path, method):
    settings = ["--set", "tau_percentile=50", "--set", "eta=0.6", *(["--set", "epochs=0"] if method == "core" else [])]
    for name, limit in (("memory", []), ("disk", ["--memory", "1GB"])):
        run("loso", store, "--methods", method, *settings, "--covariates", "age,scanner:category", "--out",
            tmp_path / name, *limit)  # fmt: skip
    one, other = (pd.read_csv(tmp_path / name / "predictions.csv") for name in ("memory", "disk"))
    pd.testing.assert_frame_equal(other, one, atol=1e-8, rtol=0)


@pytest.mark.parametrize("target", ["iq", "dx"])
def test_a_number_and_three_classes_are_the_same_on_disk(store, tmp_path, target):
    for name, limit in (("memory", []), ("disk", ["--memory", "1GB"])):
        run("loso", store, "--methods", "fc-ridge", "--target", target, "--out", tmp_path / name, *limit)
        run("fit", store, "--method", "fc-ridge", "--target", target, "--out", tmp_path / name / "m", *limit)
        run("predict", tmp_path / name / "m", store, "--target", target, "--out", tmp_path / name / "p.csv", *limit)
    for table in ("predictions.csv", "p.csv"):
        one, other = (pd.read_csv(tmp_path / name / table) for name in ("memory", "disk"))
        pd.testing.assert_frame_equal(other, one, atol=1e-6, rtol=0)


def test_a_stated_prevalence_means_the_same_in_python_and_on_the_command_line(people, file, tmp_path):
    for target, share, asked in (
        ("label", 0.1, "0.1"),
        ("dx", {"HC": 0.8, "MDD": 0.15, "SCZ": 0.05}, "HC=0.8,MDD=0.15,SCZ=0.05"),
    ):
        named = [] if target == "label" else ["--target", target]
        run("fit", file, "--method", "fc-ridge", *named, "--out", tmp_path / target)
        run("predict", tmp_path / target, file, *named, "--prevalence", asked, "--out", tmp_path / f"{target}.csv")
        model, table = brainroam.load_model(tmp_path / target), pd.read_csv(tmp_path / f"{target}.csv")
        p = model.predict_proba(people, prevalence=share)
        if target == "label":
            np.testing.assert_allclose(p[:, 1], table["probability"], atol=1e-12)
            np.testing.assert_array_equal(model.predict(people), table["predicted"])
        else:
            columns = [f"probability_{name}" for name in model.classes_]
            np.testing.assert_allclose(p, table[columns], atol=1e-12)
            np.testing.assert_array_equal(model.predict(people), table["predicted"])


def test_institutions_are_held_out_whole_with_a_number(people, file, tmp_path):
    run("evaluate", file, "--protocol", "institutions", "--methods", "fc-ridge", "--target", "iq", "--out", tmp_path)
    table = pd.read_csv(tmp_path / "predictions.csv")
    assert set(table["fold"]) == {"U1", "S03", "S04", "S05"}
    cohort = with_target(people, "iq")
    away = ~people.table["site"].isin(["S01", "S02"]).to_numpy()
    alone = TunedMethod(method_info("fc-ridge")).fit(cohort.subset(away))
    here = table[table["fold"] == "U1"].set_index("subject")
    held_out = cohort.subset(~away)
    expected = pd.Series(alone.readout_.predict(alone.score(held_out)), held_out.table["subject"])
    np.testing.assert_allclose(here["predicted"], expected[here.index], rtol=1e-9)
    page = run("report", tmp_path, "--out", tmp_path / "r.html")
    assert set(table.loc[table["fold"] == "U1", "site"]) == {"S01", "S02"}  # each is measured by itself
    assert "5 held-out sites of 4 institutions" in (tmp_path / "r.html").read_text(), page.output


def test_a_number_killed_and_started_again_ends_in_the_same_bytes(file, tmp_path):
    def start(out):
        words = ["loso", file, "--methods", "fc-ridge,log-ridge", "--target", "iq", "--out", out]
        return subprocess.Popen([sys.executable, "-m", "brainroam", *map(str, words)], stderr=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL)  # fmt: skip

    torn = start(tmp_path / "torn")
    while torn.poll() is None and len(list(tmp_path.glob("torn/runs/*.json"))) < 2:
        time.sleep(0.002)
    torn.send_signal(signal.SIGKILL)
    torn.wait()
    kept = len(list(tmp_path.glob("torn/runs/*.json")))
    assert 2 <= kept < 10
    run("loso", file, "--methods", "fc-ridge,log-ridge", "--target", "iq", "--out", tmp_path / "torn")
    run("loso", file, "--methods", "fc-ridge,log-ridge", "--target", "iq", "--out", tmp_path / "whole")
    for name in ("scores.csv", "predictions.csv"):
        one, other = ((tmp_path / which / name).read_bytes() for which in ("torn", "whole"))
        assert one == other


def test_a_table_of_three_classes_is_judged_alone_and_beside_runs_as_the_runs_it_came_from(file, tmp_path):
    run("loso", file, "--methods", "fc-ridge,majority", "--target", "dx", "--out", tmp_path / "runs")
    mine = (tmp_path / "runs" / "predictions.csv").rename(tmp_path / "mine.csv")
    tables = [json.loads(run("compare", *what, "--json").stdout) for what in ([tmp_path / "runs"], [mine])]
    aucs = [{row["method"]: row["auc"] for row in table["methods"]} for table in tables]
    assert aucs[0] == pytest.approx(aucs[1])
    beside = tmp_path / "other.csv"
    pd.read_csv(mine).query("method == 'fc-ridge'").assign(method="elsewhere").to_csv(beside, index=False)
    assert "elsewhere" in run("compare", tmp_path / "runs", beside).stdout


@pytest.fixture(scope="module")
def blocks(people, tmp_path_factory):
    """A model of rest and a table, new people, and the table; one of its columns tells the diagnosis of everybody."""
    place = tmp_path_factory.mktemp("blocks")
    people.select(people.sites[:4]).save(place / "train.npz")
    people.select(people.sites[4:]).save(place / "new.npz")
    values = np.random.default_rng(0).normal(size=(len(people), 6)) + 0.8 * people.labels[:, None]
    values[:, 1] += 9 * people.labels  # a symptom score
    table = pd.DataFrame(values, columns=[f"t{k}" for k in range(6)])
    table.insert(0, "subject", people.table["subject"])
    table.to_csv(place / "anatomy.csv", index=False)
    run("fit", place / "train.npz", "--method", "fc-ridge", "--block", f"anatomy={place / 'anatomy.csv'}", "--out",
        place / "model")  # fmt: skip
    return place, table


def predicted(place, table, out, new="new.npz"):
    table.to_csv(out / "table.csv", index=False)
    block = f"anatomy={out / 'table.csv'}"
    run("predict", place / "model", place / new, "--block", block, "--out", out / "p.csv")
    return pd.read_csv(out / "p.csv", index_col="subject", keep_default_na=False)


def test_a_block_is_read_by_the_columns_of_training_whatever_the_new_people_show(people, blocks, tmp_path):
    place, table = blocks
    header = json.loads((place / "model" / "model.json").read_text())
    assert header["columns"] == {"anatomy": ["t0", "t2", "t3", "t4", "t5"]}
    whole = predicted(place, table, tmp_path)
    one = people.select(people.sites[4:]).subset([3])
    one.save(tmp_path / "one.npz")
    alone = predicted(place, table, tmp_path, tmp_path / "one.npz")
    assert alone["probability"].item() == pytest.approx(whole["probability"].iloc[3], abs=1e-12)
    (tmp_path / "without.csv").write_text(table.drop(columns="t4").to_csv(index=False))
    said = run("predict", place / "model", place / "new.npz", "--block", f"anatomy={tmp_path / 'without.csv'}",
               "--out", tmp_path / "p.csv")  # fmt: skip
    assert "lacks 1 of the 5 columns" in said.stderr and "t4" in said.stderr


def test_somebody_without_a_block_is_predicted_from_the_others(people, blocks, tmp_path):
    place, table = blocks
    new = people.select(people.sites[4:])
    whole = predicted(place, table, tmp_path)
    part = predicted(place, table[~table["subject"].isin(new.table["subject"][:5])], tmp_path)
    np.testing.assert_allclose(part["probability"][5:], whole["probability"][5:], atol=1e-12)
    assert part["imputed"].tolist() == ["block anatomy"] * 5 + [""] * (len(new) - 5)
    model = brainroam.load_model(place / "model")
    rest = model.model_.model_.members["series"].score(new) * model.model_.model_.weights_[0]
    np.testing.assert_allclose(part["probability"][:5], model.calibration_(rest)[:5], atol=1e-12)
    none = run("predict", place / "model", place / "new.npz", "--out", tmp_path / "p.csv", code=1)
    assert "--block anatomy=" in none.stderr


def test_new_people_of_a_wide_table_are_read_by_the_columns_of_training(people, tmp_path):
    rng = np.random.default_rng(0)
    wide = people.table[["subject", "site"]].assign(diagnosis=np.where(people.labels == 1, "MDD", "HC"))
    wide = wide.assign(**{f"t{k}": rng.normal(size=len(people)) + 0.5 * people.labels for k in range(6)})
    wide["rating"] = rng.normal(size=len(people)) + 9 * people.labels  # no measure: it tells the diagnosis
    wide[wide["site"] != "S05"].to_csv(tmp_path / "train.csv", index=False)
    new = wide[wide["site"] == "S05"].assign(t3=np.nan)
    new.to_csv(tmp_path / "known.csv", index=False)
    new.drop(columns="diagnosis").to_csv(tmp_path / "new.csv", index=False)
    run("fit", tmp_path / "train.csv", "--method", "fc-ridge", "--out", tmp_path / "model")
    for name in ("known", "new"):
        run("predict", tmp_path / "model", tmp_path / f"{name}.csv", "--out", tmp_path / f"{name}_p.csv")
    known, unknown = (pd.read_csv(tmp_path / f"{name}_p.csv")["probability"] for name in ("known", "new"))
    np.testing.assert_array_equal(known, unknown)


@pytest.mark.parametrize("target", ["iq", "stage:ordered", "dx"])
def test_one_new_person_whose_value_is_known_is_read_as_the_model_was(people, tmp_path, target):
    """One value does not show whether it is a number, a step or the code of a class."""
    people = people.with_columns(pd.DataFrame({"stage": 1.0 + np.arange(len(people)) % 4}))
    people.select(people.sites[:4]).save(tmp_path / "train.npz")
    new = people.select(people.sites[4:])
    run("fit", tmp_path / "train.npz", "--method", "fc-ridge", "--target", target, "--out", tmp_path / "model")
    tables = {}
    for name, rows in {"one": [3], "all": range(len(new))}.items():
        new.subset(rows).save(tmp_path / f"{name}.npz")
        asked = target.partition(":")[0]
        run("predict", tmp_path / "model", tmp_path / f"{name}.npz", "--target", asked, "--out", tmp_path / "p.csv")
        tables[name] = pd.read_csv(tmp_path / "p.csv", index_col="subject")
    who = tables["one"].index[0]
    assert tables["one"].loc[who, "label"] == tables["all"].loc[who, "label"]
    alone, in_company = (tables[name].loc[who, "predicted"] for name in ("one", "all"))
    assert alone == (pytest.approx(in_company, rel=1e-12) if target == "iq" else in_company)  # sums of BLAS round apart


def test_several_scans_are_pooled_as_one_person_and_reported(people, tmp_path):
    rng = np.random.default_rng(1)
    made = brainroam.make_cohort(n_sites=3, n_per_site=24, n_rois=10, seed=5)
    again = brainroam.Cohort(
        [x + 0.3 * rng.normal(size=x.shape) for x in made.series],
        made.table.assign(subject=[f"{name}-2" for name in made.table["subject"]]),
        made.atlas,
    )
    scans = made.concat(again).with_columns(pd.DataFrame({"person": list(made.table["subject"]) * 2}))
    for name in scans.sites:
        scans.select([name]).save(tmp_path / f"{name}.npz")
    for number, request in ((1, []), (2, ["--request", tmp_path / "POOL" / "request"]), (3, None)):
        request = ["--request", tmp_path / "POOL" / "request"] if request is None else request
        sent = [tmp_path / f"{name}{number}.summary" for name in scans.sites]
        for name, summary in zip(scans.sites, sent, strict=True):
            run("site", tmp_path / f"{name}.npz", *request, "--out", summary)
        run("pool", *sent, "--out", tmp_path / "POOL")
    scores = pd.read_csv(tmp_path / "POOL" / "scores.csv")
    assert scores["n"].tolist() == [24, 24, 24]
    run("report", tmp_path / "POOL", "--out", tmp_path / "r.html")
    text = re.sub(r"<(style|script|svg).*?</\1>|<[^>]+>", " ", (tmp_path / "r.html").read_text(), flags=re.DOTALL)
    assert "144" not in text
    run("predict", tmp_path / "POOL" / "model", tmp_path / "S01.npz", "--out", tmp_path / "p.csv")
    assert pd.read_csv(tmp_path / "p.csv")["person"].nunique() == 24
