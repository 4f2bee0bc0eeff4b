"""Every command on a wide table, and on series with a table: from init to a pool."""

import json

import numpy as np
import pandas as pd
import pytest
from tests.methods.test_measures import table_cohort
from typer.testing import CliRunner

import brainroam
from brainroam.cli import app

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


def test_a_study_of_a_table_names_methods_that_read_tables(wide):
    study = (wide / "study.yaml").read_text(encoding="utf-8")
    assert "- fc-ridge" in study and "tangent-ridge" not in study
