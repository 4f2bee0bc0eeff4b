"""A model of several blocks meets new people whose blocks are called otherwise, or not at all."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import brainroam
from brainroam.cli import app
from brainroam.errors import DataError


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def write_people(folder, n, seed, first=0, label=True):
    """Series in a folder and a table of thickness, of people of three sites."""
    rng = np.random.default_rng(seed)
    (folder / "timeseries").mkdir(parents=True)
    ids, y = [f"p{first + k:03d}" for k in range(n)], np.arange(n) // 3 % 2
    people = pd.DataFrame({"participant_id": ids, "site": np.resize(list("ABC" if label else "N"), n)})
    people["age"], people["sex"] = rng.integers(20, 50, n), rng.choice(["M", "F"], n)
    if label:
        people["diagnosis"] = np.where(y, "ASD", "HC")
    people.to_csv(folder / "participants.tsv", sep="\t", index=False)
    for name in ids:
        np.save(folder / "timeseries" / f"{name}.npy", rng.normal(size=(60, 7)))
    table = pd.DataFrame(
        rng.normal(2.5 + 0.1 * y[:, None], 0.2, (n, 9)), columns=[f"lh_r{k}_thickness" for k in range(9)]
    )
    table.insert(0, "lh.aparc.thickness", ids)
    table.to_csv(folder.with_name(f"{folder.name}.csv"), index=False)


def write_study(folder, data, rest, anatomy):
    file = folder / f"{data}-{rest}-{anatomy}.yaml"
    blocks = f"blocks:\n  {rest}: {{series: timeseries}}\n  {anatomy}: {{table: {data}.csv}}\n"
    file.write_text(f"data: {data}\n{blocks}")
    return file


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A model fitted with the blocks rest and anatomy, new people, and their predictions by the same names."""
    folder = tmp_path_factory.mktemp("names")
    write_people(folder / "old", 36, 0)
    write_people(folder / "new", 6, 1, first=500, label=False)
    study = write_study(folder, "old", "rest", "anatomy")
    fitted = run("fit", study, "--method", "fc-ridge", "--tuning", "fast", "--out", folder / "model")
    assert fitted.exit_code == 0, fitted.output
    assert predict(folder, write_study(folder, "new", "rest", "anatomy")).exit_code == 0
    (folder / "p.csv").rename(folder / "same_names.csv")
    return folder


def predict(place, *new):
    return run("predict", place / "model", *new, "--out", place / "p.csv")


def predictions(place, name="p.csv"):
    return pd.read_csv(place / name)["probability"].tolist()


def test_a_folder_and_a_table_of_the_name_need_no_study_file(place):
    done = predict(place, place / "new", "--block", f"anatomy={place / 'new.csv'}")
    assert done.exit_code == 0, done.output
    assert predictions(place) == predictions(place, "same_names.csv") and "is read as" not in done.output


def test_series_of_the_data_may_be_named_as_a_block(place):
    blocks = ["--block", f"rest={place / 'new' / 'timeseries'}", "--block", f"anatomy={place / 'new.csv'}"]
    done = predict(place, place / "new", *blocks)
    assert done.exit_code == 0, done.output
    assert predictions(place) == predictions(place, "same_names.csv")


def test_blocks_by_other_names_are_known_by_their_regions_and_columns_and_that_is_said(place):
    done = predict(place, write_study(place, "new", "fmri", "thickness"))
    assert done.exit_code == 0, done.output
    assert predictions(place) == predictions(place, "same_names.csv")
    told = " ".join(done.output.split())
    assert "'fmri' of these people is read as 'rest' of the model" in told
    assert told.count("'thickness' of these people is read as 'anatomy' of the model") == 1


@pytest.mark.parametrize("command", ["explain", "foretell"])
def test_other_commands_on_a_model_know_blocks_likewise(place, command):
    out = place / command
    done = run(command, place / "model", place / "new", "--block", f"a={place / 'new.csv'}", "--out", out)
    assert done.exit_code == 0, done.output


def test_a_block_that_nobody_has_is_named_with_the_remedy_and_the_model_is_not_blamed(place):
    done = predict(place, place / "new")
    assert done.exit_code == 1
    assert "error: the model reads the blocks anatomy, rest, and these data have rest" in done.output
    assert "--block anatomy=PATH" in done.output and "whole model" not in done.output


def test_a_column_that_nobody_has_counts_as_unknown_and_is_named(place):
    (place / "other.csv").write_text((place / "new.csv").read_text().replace("lh_r3", "lh_x"))
    lacking = predict(place, place / "new", "--block", f"anatomy={place / 'other.csv'}")
    told = " ".join(lacking.output.split())
    assert lacking.exit_code == 0, told
    assert "lacks 1 of the" in told and "lh_r3_thickness" in told


def test_blocks_that_their_regions_do_not_tell_apart_are_not_guessed(place, tmp_path):
    two = ["--block", f"rest={place / 'old' / 'timeseries'}", "--block", f"task={tmp_path / 'task'}"]
    (tmp_path / "task").mkdir()
    for file in (place / "old" / "timeseries").iterdir():
        np.save(tmp_path / "task" / file.name, np.load(file)[::-1] ** 2)
    fitted = run("fit", place / "old", *two, "--method", "fc-ridge", "--tuning", "fast", "--out", tmp_path / "model")
    assert fitted.exit_code == 0, fitted.output
    new = ["--block", f"one={place / 'old' / 'timeseries'}", "--block", f"other={tmp_path / 'task'}"]
    done = run("predict", tmp_path / "model", place / "old", *new, "--out", tmp_path / "p.csv")
    assert done.exit_code == 1 and "these data have one, other" in done.output


def test_arrays_may_come_in_any_order_and_an_absent_block_is_named(place):
    cohort = brainroam.load_cohort(place / "old-rest-anatomy.yaml")
    table = pd.DataFrame(np.concatenate(cohort.block("anatomy").series), columns=cohort.block("anatomy").atlas.labels)
    model, people = brainroam.load_model(place / "model"), {"covariates": cohort.table[["age", "sex"]]}
    expected = model.predict_proba({"rest": cohort.series, "anatomy": table}, **people)
    turned = model.predict_proba({"anatomy": table, "rest": cohort.series}, **people)
    np.testing.assert_array_equal(turned, expected)
    with pytest.raises(DataError, match="X holds the blocks rest, thickness; give a dictionary with anatomy too"):
        model.predict_proba({"rest": cohort.series, "thickness": table}, **people)
    with pytest.raises(DataError, match="X holds one measurement; give a dictionary with"):
        model.predict_proba(cohort.series, **people)


def test_ablations_read_the_blocks_that_all_of_them_can(place):
    blocks = ["--block", f"anatomy={place / 'old.csv'}", "--set", "updates=2"]
    done = run("ablate", place / "old", *blocks, "--tuning", "fast", "--held-out", "A", "--out", place / "ablation")
    assert done.exit_code == 0, done.output
    methods = pd.read_csv(place / "ablation" / "scores.csv")["method"]
    assert len(methods) == 5 and methods.str.contains("[blocks=series,", regex=False).all()
