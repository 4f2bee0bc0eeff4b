"""What `brainroam init` says and asks in the first minutes, each a stumble of somebody with data of their own."""

import numpy as np
import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

import brainroam
from brainroam.cli import app

COHORT = brainroam.make_cohort(n_sites=3, n_per_site=8, n_rois=8, seed=1)


def init(root, *more, out=None):
    out = out or root.parent / "study.yaml"
    return CliRunner().invoke(app, ["init", str(root), "--out", str(out), *map(str, more)])


def people(**columns):
    table = COHORT.table
    return pd.DataFrame({"ID": table["subject"], "center": table["site"], "Alter": table["age"].round(1), **columns})


@pytest.fixture
def study(tmp_path):
    """``study(table, folder)``: a folder of series and a table of people."""

    def make(table, folder="data"):
        root = tmp_path / folder
        (root / "ts").mkdir(parents=True)
        for x, subject in zip(COHORT.series, COHORT.table["subject"], strict=True):
            np.savetxt(root / "ts" / f"{subject}.csv", x, delimiter=",")
        table.to_csv(root / "people.csv", index=False)
        return root

    return make


CODES = COHORT.table["label"].map({0: "1", 1: "2"})


def test_a_condition_that_nobody_has_is_named_at_once(study):
    done = init(study(people(dx=CODES.map({"1": "TD", "2": "ASD"}))), "--case", "autism")
    assert done.exit_code != 0 and "code in column 'dx'" in done.output and "'autism'" in done.output
    assert "ASD, TD" in done.output


def test_counts_are_of_people_who_have_a_file(study):
    others = pd.DataFrame({"ID": [f"X{k}" for k in range(500)], "center": "S01", "Alter": 9, "dx": ["1", "2"] * 250})
    done = init(study(pd.concat([people(dx=CODES), others])))
    n = (CODES == "1").sum()
    assert f"It holds 1 ({n} people), 2 ({24 - n} people)" in done.output, done.output


def test_a_second_site_is_not_asked_what_the_study_file_knows(study, tmp_path):
    table = people(dx=CODES)
    assert init(study(table), "--case", "2", "--control", "1").exit_code == 0
    second = study(table.assign(center="Oslo"), "second")
    alone = init(second, out=tmp_path / "alone.yaml")
    assert alone.exit_code != 0 and "--case" in alone.output
    done = init(second, "--like", tmp_path / "study.yaml", out=tmp_path / "second.yaml")
    assert done.exit_code == 0, done.output
    assert yaml.safe_load((tmp_path / "second.yaml").read_text())["options"]["case"] == "2"
    assert init(tmp_path / "data", "--force").exit_code == 0  # over the file that knows
    (tmp_path / "study.yaml").write_text("damaged: [")
    assert "--case" in init(tmp_path / "data", "--force").output


def test_a_setting_of_another_study_that_does_not_fit_is_asked_again(study, tmp_path):
    assert init(study(people(dx=CODES)), "--case", "2", "--control", "1").exit_code == 0
    other = study(people(diagnosis=CODES.map({"1": "a", "2": "b"})), "other")
    done = init(other, "--like", tmp_path / "study.yaml", out=tmp_path / "other.yaml")
    assert done.exit_code != 0 and "--case" in done.output


def test_a_measure_is_not_offered_as_a_diagnosis(study):
    sizes = [str(10 + k % 12) for k in range(24)]
    done = init(study(people(Left_Lateral_Ventricle=sizes, arm=["a", "b"] * 12)))
    assert "--label arm or none" in done.output, done.output


def test_a_path_with_a_blank_can_be_copied_from_the_screen(study, tmp_path):
    done = init(study(people(dx=CODES.map({"1": "HC", "2": "MDD"}))), out=tmp_path / "my study.yaml")
    assert f"brainroam run '{tmp_path / 'my study.yaml'}'" in done.output, done.output


@pytest.mark.filterwarnings("ignore:the column 'group'")
def test_a_column_called_group_can_be_predicted_and_used_by_that_name(tmp_path):
    table = COHORT.table
    path = tmp_path / "cohort.npz"
    brainroam.Cohort(COHORT.series, table.assign(group=["low", "high"] * 12)).save(path)
    cohort = brainroam.load_cohort(path, target="group:case=high")
    assert cohort.target.name == "study_group" and cohort.target.classes == ("low", "high")
    assert brainroam.load_cohort(path, covariates=["age", "group"]).covariate_names == ("age", "study_group")
