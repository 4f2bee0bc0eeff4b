"""Files made to do harm: what they carry must stay text."""

import json
import pickle
import zipfile

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from brainroam.cli import app
from brainroam.data.cohort import Cohort
from brainroam.data.loading import load_cohort
from brainroam.data.synthetic import make_cohort
from brainroam.errors import BrainroamError, DataError, ReaderError, visible
from brainroam.evaluation.runner import evaluate
from brainroam.evaluation.tables import read_table
from brainroam.methods.registry import method_info
from brainroam.methods.saving import load_method, save_method
from brainroam.methods.tuning import TunedMethod
from brainroam.utils.crate import CRATE
from brainroam.utils.files import csv_lines

FORMULAS = ["=1+1", "+1", "-2+3", "@SUM(A1)", "=cmd|' /C calc'!A0", "'quoted", '=HYPERLINK("http://x")']


class Armed:
    """Writes a file when unpickled."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return open, (str(self.trace), "w")


def renamed(cohort, column, names):
    table = cohort.table
    table[column] = names
    return Cohort(cohort.series, table)


def brainroam(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def cohort():
    return make_cohort(n_sites=3, n_per_site=8, n_rois=8)


def test_a_pickle_in_a_cohort_file_is_refused_and_never_run(tmp_path, cohort):
    trace, file = tmp_path / "trace", cohort.save(tmp_path / "cohort.npz")
    with np.load(file) as content:
        parts = dict(content)
    for name in parts:
        np.savez(file, **{**parts, name: np.array([Armed(trace)], dtype=object)})
        with pytest.raises(ReaderError):
            Cohort.load(file)
    file.write_bytes(pickle.dumps(Armed(trace)))
    with pytest.raises(ReaderError):
        load_cohort(file)
    assert not trace.exists()


@pytest.mark.parametrize("name", ["one.npy", "one.mat", "abide.npy"])
def test_a_pickle_as_a_series_is_refused_and_never_run(tmp_path, name):
    trace, file = tmp_path / "trace", tmp_path / "data" / name
    file.parent.mkdir()
    if name == "abide.npy":
        np.save(file, {"timeseires": Armed(trace), "label": [0], "site": ["A"]}, allow_pickle=True)
        for options in ({}, {"allow_pickle": True}):  # asked to trust it, arrays are still all that is built
            with pytest.raises(ReaderError), pytest.warns() if options else _nothing():
                load_cohort(file, **options)
    else:
        file.write_bytes(pickle.dumps(Armed(trace)))
        (file.parent / "participants.tsv").write_text("participant_id\tsite\tdiagnosis\none\tA\t1\n")
        with pytest.raises(ReaderError):
            load_cohort(file.parent)
    assert not trace.exists()


class _nothing:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


def test_a_matlab_object_is_refused(tmp_path):
    from scipy.io import savemat

    from brainroam.data.readers.series import read_mat

    savemat(tmp_path / "x.mat", {"x": {"field": np.ones((3, 3))}})
    with pytest.raises(ReaderError, match="numbers"):
        read_mat(tmp_path / "x.mat")


def test_extra_files_in_a_model_are_reported_and_not_read(tmp_path, cohort):
    fitted = TunedMethod(method_info("fc-ridge"), "default").fit(cohort)
    folder, trace = save_method(tmp_path / "model", fitted, cohort), tmp_path / "trace"
    (folder / "model.pkl").write_bytes(pickle.dumps(Armed(trace)))
    (folder / "sitecustomize.py").write_text("1 / 0")
    with pytest.warns(UserWarning, match=r"model\.pkl, sitecustomize\.py"):
        again, _ = load_method(folder, cohort)
    assert np.array_equal(again.score(cohort), fitted.score(cohort)) and not trace.exists()


def test_a_model_that_names_something_else_than_a_method_is_refused(tmp_path, cohort):
    from brainroam.utils.model_files import load_model, save_model

    folder = save_method(tmp_path / "model", TunedMethod(method_info("fc-ridge"), "default").fit(cohort), cohort)
    header, arrays = load_model(folder)
    for field, value in {"method": "os.system", "fixed": {"__class__": 1}, "tuning": "../x"}.items():
        spoilt = {
            name: v for name, v in header.items() if name not in ("sha256", "arrays_sha256", "schema", "versions")
        }
        save_model(tmp_path / "other", {**spoilt, field: value}, arrays)
        with pytest.raises(BrainroamError):
            load_method(tmp_path / "other", cohort)


@pytest.mark.parametrize("formula", FORMULAS)
def test_a_formula_in_a_table_is_text_and_reads_back(tmp_path, formula):
    (tmp_path / "t.csv").write_text(csv_lines([("subject", "score"), (formula, -0.5)]), encoding="utf-8")
    cell = pd.read_csv(tmp_path / "t.csv", dtype=str)["subject"][0]
    assert cell.startswith("'")  # a spreadsheet shows it and does not compute it
    table = read_table(tmp_path / "t.csv")
    assert table["subject"][0] == formula and table["score"][0] == -0.5


def test_formulas_as_ids_and_sites_are_text_in_every_table_of_a_study(tmp_path, cohort):
    ids = [f"{FORMULAS[i % 5]}{i}" for i in range(len(cohort))]
    hostile = renamed(renamed(cohort, "subject", ids), "site", [f"={s}" for s in cohort.table["site"]])
    results = evaluate(hostile, ["fc-ridge"], tuning="fast", out=tmp_path)
    for name in ("scores", "predictions"):
        raw = pd.read_csv(tmp_path / f"{name}.csv", dtype=str)
        assert raw["site"].str.startswith("'=").all()
        assert read_table(tmp_path / f"{name}.csv")["site"].tolist() == getattr(results, name)["site"].tolist()
    assert set(read_table(tmp_path / "predictions.csv")["subject"]) == set(ids)


@pytest.mark.parametrize("name", ["../../x", "/etc/passwd", "a/b", "..", "CON", "x" * 300, "ü" * 90, "[bold]x"])
def test_a_path_as_an_id_or_a_site_names_no_file(tmp_path, cohort, name):
    ids = [f"{name}{i}" for i in range(len(cohort))]
    hostile = renamed(renamed(cohort, "subject", ids), "site", [name + s for s in cohort.table["site"]])
    evaluate(hostile, ["fc-ridge"], tuning="fast", out=tmp_path / "deep" / "runs")
    names = {path.name for path in tmp_path.rglob("*") if path.is_file()} - {CRATE}
    assert all(set(n) <= set("abcdefghijklmnopqrstuvwxyz0123456789.") for n in names), names
    assert [p.name for p in tmp_path.iterdir()] == ["deep"]


@pytest.mark.parametrize("column", ["subject", "site"])
@pytest.mark.parametrize("character", ["\x1b[2J", "\n", "\r", "\t", "\x00", "\x9b", "\u202e"])
def test_control_characters_in_names_are_refused_and_shown_spelled_out(cohort, column, character):
    names = cohort.table[column].to_list()
    names[2] = f"bad{character}name"
    with pytest.raises(DataError, match="control") as caught:
        renamed(cohort, column, names)
    assert character not in str(caught.value) and "bad\\" in str(caught.value)


def test_an_error_that_quotes_a_file_cannot_act_on_the_terminal(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "participants.tsv").write_text("participant_id\tsite\t\x1b]0;owned\x07\x1b[31mdiagnosis\n1\tA\t0\n")
    (folder / "1.csv").write_text("1,2\n3,4\n")
    done = brainroam("check", folder)
    assert done.exit_code in (1, 2) and "\x1b]0" not in done.output and "\x07" not in done.output


def test_markup_in_a_site_name_is_shown_as_it_is(tmp_path, cohort):
    sites = {"S01": "[bold]A[/bold]", "S02": "[/red]", "S03": "[link=http://x]C"}
    file = renamed(cohort, "site", cohort.table["site"].map(sites)).save(tmp_path / "c.npz")
    done = brainroam("check", file)
    assert done.exit_code == 0, done.output
    for site in sites.values():
        assert site in done.output.replace("\n", "")
    assert {s["site"] for s in json.loads(brainroam("check", file, "--json").stdout)["sites"]} == set(sites.values())


def test_visible_leaves_what_people_write():
    assert visible("Zürich, 北京 [x] 'é'") == "Zürich, 北京 [x] 'é'"


def test_a_zip_bomb_as_a_cohort_is_not_unpacked(tmp_path, cohort, monkeypatch):
    monkeypatch.setattr("brainroam.data.readers.series.MAX_UNPACKED", 1_000_000)
    file = cohort.save(tmp_path / "c.npz")
    with zipfile.ZipFile(file) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts["data.npy"] = parts["data.npy"][:128] + b"\0" * 3_000_000
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    with pytest.raises(ReaderError, match="unpacks"):
        load_cohort(file)
