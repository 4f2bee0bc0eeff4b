"""Every command on a wide table, and on series with a table: from init to a pool."""

import json

import numpy as np
import pandas as pd
import pytest
from tests.methods.test_measures import table_cohort
from typer.testing import CliRunner

import brainroam
from brainroam.cli import app
from brainroam.errors import DataError

SITES = [f"Site{k}" for k in range(7)]


def run(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """One csv: the site is the part of the id before _sub."""
    made, folder = table_cohort(n_sites=7, n_per_site=24, missing=0.0), tmp_path_factory.mktemp("wide")
    people = made.table
    site = people["site"].str.replace("S", "Site")
    table = pd.DataFrame({"id": [f"{name}_sub{k:03d}" for k, name in enumerate(site)]})
    table["diagnosis"], table["age"] = np.where(people["label"] == 1, "BD", "HC"), people["age"].round(1)
    values = pd.DataFrame(np.concatenate(made.series), columns=[f"lh_region{k}_volume" for k in range(made.n_rois)])
    pd.concat([table, values.round(6)], axis=1).to_csv(folder / "wide.csv", index=False)
    run("init", folder / "wide.csv", "--out", folder / "study.yaml")
    return folder


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """A store of series and a table."""
    folder = tmp_path_factory.mktemp("both")
    series = brainroam.make_cohort(n_sites=7, n_per_site=24, n_rois=10, seed=2)
    made = table_cohort(n_sites=7, n_per_site=24, seed=2)
    cohort = series.with_block("anatomy", made.made_of(made.series, series.table), "rest")
    cohort.save(folder / "cohort.npz")
    return folder


def test_a_table_is_planned_audited_and_pooled(wide):
    study = wide / "study.yaml"
    found = json.loads(run("plan", study, "--methods", "fc-ridge", "--draws", 2, "--out", wide / "plan", "--json"))
    assert found["method"] == "fc-ridge"
    assert "FAIL" not in run("audit", study, "--methods", "fc-ridge")
    for number in (1, 2, 3):
        ask = [] if number == 1 else ["--request", wide / "pool" / "request"]
        files = [wide / "fed" / f"{name}.{number}" for name in SITES[:4]]
        for name, file in zip(SITES[:4], files, strict=True):
            run("site", study, "--sites", name, "--out", file, *ask)
        run("pool", *files, "--out", wide / "pool")
    assert "30 columns of a table" in run("site", "--show", wide / "fed" / "Site0.1")
    scores = pd.read_csv(wide / "pool" / "scores.csv")
    assert scores["auc"].mean() > 0.7
    run("predict", wide / "pool" / "model", study, "--out", wide / "predictions.csv")
    run("explain", wide / "pool" / "model", study, "--out", wide / "explanation")
    assert (wide / "explanation" / "columns.png").is_file()


def test_blocks_are_planned_and_one_of_them_is_pooled(both):
    data = both / "cohort.npz"
    run("plan", data, "--methods", "fc-ridge", "--draws", 2, "--out", both / "plan")
    assert "anatomy" in CliRunner().invoke(app, ["site", str(data), "--sites", "S01", "--out", str(both / "x")]).output
    files = [both / f"{name}.1" for name in ("S01", "S02", "S03")]
    for file in files:
        run("site", data, "--sites", file.stem, "--only", "anatomy", "--out", file)
    assert "30 columns agreed on" in run("pool", *files, "--out", both / "pool")


def test_init_says_once_what_it_doubts_and_where_else_people_are_told_of(tmp_path):
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"id": [f"p{k:02d}" for k in range(40)], "sex": rng.integers(0, 2, 40)})
    more = people[["id"]].assign(site=np.repeat(["A", "B"], 20), diagnosis=["HC", "MDD"] * 20)
    measures = pd.DataFrame(rng.normal(size=(40, 12)), columns=[f"lh_region{k}_thickness" for k in range(12)])
    people.join(measures).to_csv(tmp_path / "measures.csv", index=False)
    more.to_csv(tmp_path / "clinic.csv", index=False)
    done = CliRunner().invoke(app, ["init", f"{tmp_path}/measures.csv", "--out", f"{tmp_path}/study.yaml"])
    assert done.exit_code == 0 and "clinic.csv" in done.stdout
    assert done.stderr.count("column 'sex'") == 1


def test_connectivity_is_exported_of_one_block_and_of_no_table(both, wide):
    told = CliRunner().invoke(app, ["export", str(both / "cohort.npz"), "--table", "--out", str(both / "edges")])
    assert told.exit_code == 0 and "of several blocks rest is written, of the 168 of 168" in told.output
    assert pd.read_csv(both / "edges" / "edges.tsv", sep="\t").shape == (168, 3 + 45)
    refused = CliRunner().invoke(app, ["export", str(wide / "study.yaml"), "--table", "--out", str(wide / "edges")])
    assert refused.exit_code == 2 and "a table has no connectivity" in refused.output


def test_what_needs_series_is_left_out_of_the_ablation_of_matrices_and_no_sweep_of_windows(tmp_path):
    made = brainroam.make_cohort(n_sites=3, n_per_site=12, n_rois=10, seed=2)
    edges = [np.corrcoef(x.T) for x in made.series]
    data = brainroam.Cohort(edges, made.table, measure="matrices").save(tmp_path / "cohort.npz")
    fast = ["--tuning", "fast", "--out", str(tmp_path / "runs")]
    done = CliRunner().invoke(app, ["ablate", str(data), *fast])
    assert done.exit_code == 0 and "left out: core-tp reads series" in done.output
    assert "core-no-sg" in done.output
    refused = CliRunner().invoke(app, ["sweep", str(data), "--over", "window", *fast])
    assert refused.exit_code == 2 and "temporal profiles are of time series" in refused.output
    assert json.loads(run("methods", "core", "--json"))["reads"] == ["series", "matrices", "table"]


def test_a_study_of_a_table_names_methods_that_read_tables(wide):
    study = (wide / "study.yaml").read_text(encoding="utf-8")
    assert "- fc-ridge" in study and "tangent-ridge" not in study
    assert "name: 'wide: BD against HC'" in study


def test_new_people_are_read_by_names_of_columns_in_any_order_and_case_and_without_some(wide):
    table = pd.read_csv(wide / "wide.csv").drop(columns="diagnosis")
    measures = [name for name in table if name.startswith("lh_")]
    few = table.groupby(table["id"].str[:5]).head(3)
    run("fit", wide / "study.yaml", "--out", wide / "model")

    def probabilities(new, said=""):
        new.to_csv(wide / "new.csv", index=False)
        words = ["predict", f"{wide}/model", f"{wide}/new.csv", "--out", f"{wide}/new_predictions.csv"]
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0 and said in done.stderr
        return pd.read_csv(wide / "new_predictions.csv")["probability"]

    expected = probabilities(few)
    turned = few[["id", *measures[::-1], "age"]].rename(columns=str.upper)
    np.testing.assert_allclose(probabilities(turned), expected)
    without_one = probabilities(few.drop(columns=measures[0]), f"lacks 1 of the {len(measures)} columns")
    assert np.corrcoef(without_one, expected)[0, 1] > 0.8
    few.rename(columns=lambda name: name.replace("lh_", "left ")).to_csv(wide / "new.csv", index=False)
    done = CliRunner().invoke(
        app, ["predict", str(wide / "model"), str(wide / "new.csv"), "--out", str(wide / "x.csv")]
    )
    assert done.exit_code == 1 and f"none of the {len(measures)} columns" in done.output and "left " in done.output


def test_a_frame_is_read_by_its_names_in_python_too(wide):
    table = pd.read_csv(wide / "wide.csv")
    X, site = table.filter(like="lh_"), table["id"].str.partition("_sub")[0]
    clf = brainroam.SiteClassifier("fc-ridge").fit(X, table["diagnosis"], site=site)
    expected = clf.decision_function(X)
    np.testing.assert_allclose(clf.decision_function(X[X.columns[::-1]]), expected)
    np.testing.assert_allclose(clf.decision_function(X.to_numpy()), expected)
    with pytest.warns(UserWarning, match="lacks 2 of the"):
        assert np.isfinite(clf.decision_function(X.iloc[:, 2:])).all()
    with pytest.warns(UserWarning, match="complaints in X tell the classes apart"):
        score = 9 * (table["diagnosis"] == "BD") + np.arange(len(table)) % 3
        brainroam.SiteClassifier("fc-ridge").fit(X.assign(complaints=score), table["diagnosis"], site=site)
    with pytest.raises(DataError, match="none of the"):
        clf.predict(X.add_prefix("other_"))


def test_a_covariate_that_new_people_lack_stands_at_the_training_mean_and_is_named(wide):
    table = pd.read_csv(wide / "wide.csv").rename(columns={"lh_region0_volume": "ICV"})
    table.to_csv(wide / "icv.csv", index=False)
    model = wide / "icv_model"
    run("fit", wide / "icv.csv", "--covariates", "age,ICV", "--method", "scaffold-ridge", "--out", model)
    table.drop(columns=["ICV", "diagnosis"]).head(9).to_csv(wide / "no_icv.csv", index=False)
    said = run("predict", model, wide / "no_icv.csv", "--out", wide / "no_icv_predictions.csv")
    assert "training mean stands for it: ICV (9 people)" in said
