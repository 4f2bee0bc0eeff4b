"""Models on disk: whole, unchanged and of a known kind, or refused by name."""

import copy
import json
import os
import pickle
import warnings

import numpy as np
import pytest

import brainroam
from brainroam import make_cohort
from brainroam.cli.source import DataSource
from brainroam.core.choice import Choice
from brainroam.core.model import CoreModel
from brainroam.core.recipe import Recipe
from brainroam.data.atlas import Atlas
from brainroam.data.study_file import plan_of
from brainroam.errors import BrainroamError, ModelFileError
from brainroam.methods.registry import method_info
from brainroam.methods.saving import (
    load_method,
    prepared_as_in_training,
    read_header,
    require_atlas,
    save_method,
)
from brainroam.methods.tuning import TunedMethod
from brainroam.utils.model_files import load_model, save_model

ARRAYS = {
    "weights": np.random.default_rng(0).normal(size=(3, 4)),
    "single": np.float32([1.5, np.nan]),
    "count": np.array(7),
    "flags": np.array([True, False]),
    "text": np.frombuffer("naïve".encode(), dtype=np.uint8),
    "turned": np.arange(6).reshape(2, 3).T,
    "none": np.zeros((0, 3)),
}
OURS = "schema", "sha256", "arrays_sha256", "versions", "notice"  # what `save_model` writes by itself
HEADER = {"kind": "example", "parameters": {"eta": 0.1 + 0.2, "grid": (1, 2), "k": np.int64(3), "name": "Zürich"}}


@pytest.fixture
def folder(tmp_path):
    return save_model(tmp_path / "model", HEADER, ARRAYS)


def test_arrays_and_header_come_back_exactly(folder):
    header, arrays = load_model(folder)
    assert arrays.keys() == ARRAYS.keys()
    for name, value in ARRAYS.items():
        assert arrays[name].dtype == value.dtype
        np.testing.assert_array_equal(arrays[name], value)
    assert header["parameters"] == {"eta": 0.1 + 0.2, "grid": [1, 2], "k": 3, "name": "Zürich"}
    assert {"schema", "versions", "arrays_sha256", "sha256"} <= header.keys()
    assert {"brainroam", "numpy", "torch", "python"} <= header["versions"].keys()


def test_the_same_model_is_the_same_bytes(folder, tmp_path):
    again = save_model(tmp_path / "again", HEADER, dict(reversed(ARRAYS.items())))
    for name in ("model.json", "model.safetensors"):
        assert (again / name).read_bytes() == (folder / name).read_bytes()


@pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
def test_any_changed_byte_is_refused(folder, name):
    content = (folder / name).read_bytes()
    for position in np.linspace(0, len(content) - 1, 60).astype(int):
        changed = bytearray(content)
        changed[position] ^= 0x01
        (folder / name).write_bytes(changed)
        with pytest.raises(ModelFileError, match=str(folder)):
            load_model(folder)


@pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
@pytest.mark.parametrize("damage", [lambda b: b[:-5], lambda b: b + b"\n", lambda b: b""])
def test_cut_and_longer_files_are_refused(folder, name, damage):
    (folder / name).write_bytes(damage((folder / name).read_bytes()))
    with pytest.raises(ModelFileError, match=name):
        load_model(folder)


def test_reformatted_json_is_a_changed_file(folder):
    header = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps(header))
    with pytest.raises(ModelFileError, match="changed"):
        load_model(folder)


def test_arrays_of_another_model_are_refused(folder, tmp_path):
    other = save_model(tmp_path / "other", HEADER, {"weights": np.ones(3)})
    (folder / "model.safetensors").write_bytes((other / "model.safetensors").read_bytes())
    with pytest.raises(ModelFileError, match=r"model\.json"):
        load_model(folder)


@pytest.mark.parametrize(
    "content", ["", "[]", "null", '"text"', '{"schema": 1}', '{"schema": 1, "sha256": 3}', "[" * 99999]
)
def test_json_that_is_no_header_is_refused(folder, content):
    (folder / "model.json").write_text(content)
    with pytest.raises(ModelFileError, match=r"model\.json"):
        load_model(folder)


def test_an_unknown_schema_is_named(folder):
    text = (folder / "model.json").read_text().replace('"schema": 1', '"schema": 2')
    (folder / "model.json").write_text(text)
    with pytest.raises(ModelFileError, match="schema 2"):
        load_model(folder)


def test_a_pickle_in_place_of_the_arrays_is_not_executed(folder, tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "exploded"),)

    (folder / "model.safetensors").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ModelFileError):
        load_model(folder)
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("path", ["nowhere", "file"])
def test_what_is_not_a_model_is_named(tmp_path, path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(ModelFileError, match=path):
        load_model(tmp_path / path)


def test_other_files_are_ignored_and_reported_and_kept_when_the_model_is_replaced(folder):
    (folder / "notes.txt").write_text("mine")
    with pytest.warns(UserWarning, match=r"notes\.txt"):
        load_model(folder)
    save_model(folder, {"kind": "newer"}, {"a": np.ones(2)})
    with pytest.warns(UserWarning, match=r"notes\.txt"):
        assert load_model(folder)[0]["kind"] == "newer"
    assert (folder / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("content", ["thesis.txt", "model.json"])
def test_a_folder_that_is_not_a_model_is_left_alone(tmp_path, content):
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / content).write_text("{}")
    with pytest.raises(ModelFileError, match="work"):
        save_model(folder, HEADER, ARRAYS)
    assert [item.name for item in folder.iterdir()] == [content]


def test_an_empty_folder_may_become_a_model(tmp_path):
    save_model(tmp_path, HEADER, ARRAYS)
    assert load_model(tmp_path)[0]["kind"] == "example"


def test_an_interrupted_save_leaves_the_old_model_and_nothing_else(folder, monkeypatch):
    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("brainroam.utils.model_files.os.fsync", fail)
    with pytest.raises(KeyboardInterrupt):
        save_model(folder, {"kind": "newer"}, {"a": np.ones(2)})
    assert load_model(folder)[0]["kind"] == "example"
    assert [item.name for item in folder.parent.iterdir()] == ["model"]


def test_a_link_in_a_model_folder_is_refused_and_what_it_points_to_stays_outside(folder, tmp_path):
    (tmp_path / "secret").write_text("mine")
    (folder / "notes.txt").symlink_to(tmp_path / "secret")
    with pytest.raises(ModelFileError, match=r"links.*notes\.txt"):
        save_model(folder, {"kind": "newer"}, {"a": np.ones(2)})
    (folder / "notes.txt").unlink()
    assert load_model(folder)[0]["kind"] == "example"


@pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
@pytest.mark.parametrize("kind", ["pipe", "device", "huge"])
def test_a_file_that_never_ends_is_refused_at_once(folder, name, kind):
    (folder / name).unlink()
    if kind == "pipe":
        os.mkfifo(folder / name)
    elif kind == "device":
        (folder / name).symlink_to("/dev/zero")
    else:
        with open(folder / name, "wb") as file:
            file.truncate(2**33)  # takes no room on disk
    with pytest.raises(ModelFileError, match=r"regular|allowed"):
        load_model(folder)


def test_who_may_read_a_model_is_up_to_the_umask_and_stays_so(tmp_path):
    before = os.umask(0o077)
    try:
        folder = save_model(tmp_path / "model", HEADER, ARRAYS)
    finally:
        os.umask(before)
    paths = [folder, folder / "model.json", folder / "model.safetensors"]
    assert [path.stat().st_mode & 0o777 for path in paths] == [0o700, 0o600, 0o600]
    save_model(folder, {"kind": "newer"}, ARRAYS)
    assert [path.stat().st_mode & 0o777 for path in paths] == [0o700, 0o600, 0o600]


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(BrainroamError, match="write"):
        save_model(tmp_path / "file" / "model", HEADER, ARRAYS)


def test_the_atlas_must_name_the_same_regions_in_the_same_order():
    header = {"atlas": Atlas("aal", ("a", "b", "c")).identity}
    require_atlas(header, Atlas("my copy of aal", ("a", "b", "c")))
    with pytest.raises(ModelFileError, match="3 regions of 'aal'"):
        require_atlas(header, Atlas("cc", ("a", "b")))
    with pytest.raises(ModelFileError, match="order"):
        require_atlas(header, Atlas("aal", ("b", "a", "c")))


# --- what is saved ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cohort():
    return make_cohort(n_sites=4, n_per_site=12, n_rois=12, seed=1, constant_rois=2, missing_covariates=2)


SMALL = {"hidden": 4, "budget": 3, "tau_percentile": 60, "updates": 4, "skip": "none"}
VARIANTS = [
    {"profiles": True},
    {"deconfounding": "pooled", "kind": "pearson"},
    {"orient": False, "max_pathways": 5},
    {"gated": False, "tau_percentile": [50, 60]},
    {"skip": "ridge", "epochs": 0},
]


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_core_round_trips_bit_for_bit(cohort, tmp_path, variant):
    table = cohort.table.assign(scanner=np.where(np.arange(len(cohort)) % 3, "GE 3T", "Süd"))[["age", "sex", "scanner"]]
    words = np.where(cohort.labels == 1, "patient", "control")
    clf = brainroam.CoreClassifier(Recipe(**SMALL | variant))
    clf.fit(cohort.series, words, site=cohort.table["site"], covariates=table)
    again = brainroam.load_model(clf.save(tmp_path / "model", cohort.atlas))
    for method in ("predict", "predict_proba", "gates", "pathway_contributions", "embedding"):
        if method != "embedding" or clf.reading_.network is not None:
            expected, found = (getattr(one, method)(cohort.series, table) for one in (clf, again))
            np.testing.assert_array_equal(found, expected)
    assert (again.chosen_, again.notes_, again.calibration_) == (clf.chosen_, clf.notes_, clf.calibration_)
    assert again.scaffold_.sites == clf.scaffold_.sites
    assert again.recipe == clf.recipe and again.classes_.tolist() == clf.classes_.tolist()
    first, second = clf.model_.state(), again.model_.state()
    assert {name: value.tobytes() for name, value in first.items()} == {n: v.tobytes() for n, v in second.items()}


def small_core(cohort):
    return CoreModel(Recipe(**SMALL)).fit(cohort, cohort.covariates(["age"]))


def test_both_readings_and_how_far_they_are_believed_round_trip(cohort, tmp_path):
    core = small_core(cohort)
    core.set_reading(core.pathways_, Choice(0.4, 0.01, 0.02, 2.0, 3.0), core.reading_.network)
    again = CoreModel(core.recipe).load_state(core.state())
    assert again.reading_.choice == core.reading_.choice
    np.testing.assert_array_equal(again.score(cohort, cohort.table), core.score(cohort, cohort.table))


def test_the_state_holds_arrays_only_and_no_scan(cohort):
    state = small_core(cohort).state()
    assert all(isinstance(value, np.ndarray) and value.dtype != object for value in state.values())
    assert not any(len(cohort) in value.shape for name, value in state.items() if not name.startswith("network"))


def test_a_folder_of_another_kind_is_named(cohort, folder):
    with pytest.raises(ModelFileError, match="'example'"):
        brainroam.load_model(folder)
    with pytest.raises(ModelFileError, match="'example'"):
        load_method(folder, cohort)


def test_a_state_with_parts_missing_is_named(cohort, tmp_path):
    clf = brainroam.CoreClassifier(**SMALL).fit(cohort)
    state = clf.model_.state()
    for lost in ("facts", "choice", "scaffold.edges", "network.embed.weight", "pathways.skip"):
        save_model(tmp_path / "model", clf.header_, {k: v for k, v in state.items() if k != f"model.{lost}"})
        with pytest.raises(ModelFileError, match="whole"):
            brainroam.load_model(tmp_path / "model")


def test_arrays_that_do_not_belong_together_are_refused(cohort):
    core = small_core(cohort)
    state = core.state()
    for name, value in state.items():
        for wrong in (np.zeros((2, 2)), value.ravel()[:1], np.array(0.5)):
            with pytest.raises((LookupError, TypeError, ValueError, RuntimeError)):  # which loading puts into words
                CoreModel(core.recipe).load_state({**state, name: wrong.astype(value.dtype)})
            if value.size == 1:
                break  # a bias of one number: any one number will do


@pytest.mark.parametrize("name", ["core", "core-tp", "fc-ridge", "log-ridge", "confounds"])
def test_every_kind_of_method_round_trips(cohort, tmp_path, name):
    fixed = SMALL if name.startswith("core") else {}
    method = TunedMethod(method_info(name), "default", **fixed).fit(cohort, seed=5)
    save_method(tmp_path / "model", method, cohort, seed=5)
    again, header = load_method(tmp_path / "model", cohort)
    np.testing.assert_array_equal(again.probability(cohort), method.probability(cohort))
    assert (header["method"], header["seed"]) == (name, 5)
    assert header["training"]["manifest_hash"] == cohort.manifest_hash
    flags = again.missing_covariates(cohort)
    assert flags.to_numpy().sum() == (0 if name in ("fc-ridge", "log-ridge") else 2)


def test_a_method_this_version_does_not_know_is_named(cohort, tmp_path):
    header = {"kind": "method", "method": "core-2030", "tuning": "full", "fixed": {}, "configuration": {}}
    header["atlas"] = cohort.atlas.identity
    save_model(tmp_path / "model", header, {})
    with pytest.raises(ModelFileError, match="'core-2030'"):
        load_method(tmp_path / "model", cohort)


def test_a_method_for_another_atlas_is_refused(cohort, tmp_path):
    save_method(tmp_path / "model", TunedMethod(method_info("fc-ridge"), "default").fit(cohort), cohort)
    with pytest.raises(ModelFileError, match="12 regions of 'custom'"):
        load_method(tmp_path / "model", make_cohort(n_sites=2, n_per_site=4, n_rois=9))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A cohort in which nobody has one region, and its model with whatever may stand in a header."""
    made = brainroam.make_cohort(n_sites=4, n_per_site=10, n_rois=8, seed=0)
    series = [np.where(np.arange(8) == 3, np.nan, x) for x in made.series]
    table = brainroam.Cohort([x[:1] for x in made.series], made.table, measure="table")
    cohort = brainroam.Cohort(series, made.table).with_block("anatomy", table, "rest")
    folder = tmp_path_factory.mktemp("saved") / "model"
    save_method(folder, TunedMethod(method_info("fc-ridge"), "fast").fit(cohort), cohort)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_method(folder, cohort)
    return folder, cohort


def entries(content, place=()):
    """The places of a header, those within others too."""
    for key, value in content.items():
        yield (*place, key)
        if isinstance(value, dict):
            yield from entries(value, (*place, key))


def test_an_edited_header_is_refused_in_words_or_scores_people_as_before(saved, tmp_path, monkeypatch):
    """Of 984 edits 33 ended in tracebacks."""
    folder, cohort = saved
    monkeypatch.setattr("brainroam.utils.model_files._describe", lambda *_: None)  # nothing is read from a crate
    header, arrays = load_model(folder)
    whole = load_method(folder, cohort)[0].score(cohort)
    n_refused = 0
    for place in entries({name: value for name, value in header.items() if name not in OURS}):
        for value in (None, 3, -1.5, "x", [], {}, True, ["x"], {"x": 1}, [[1]], "delete"):
            edited = copy.deepcopy(header)
            inner = edited
            for key in place[:-1]:
                inner = inner[key]
            inner[place[-1]] = value
            if value == "delete":
                del inner[place[-1]]
            save_model(tmp_path / "model", edited, arrays)
            with warnings.catch_warnings(action="ignore"):
                try:
                    DataSource(plan_of("synthetic", {}), None, "synthetic").as_in_training(tmp_path / "model")
                    method = load_method(tmp_path / "model", cohort)[0]
                    prepared_as_in_training(read_header(tmp_path / "model"), cohort)
                    np.testing.assert_array_equal(method.score(cohort), whole)
                except BrainroamError as error:
                    n_refused += len(str(error)) > 20
    assert n_refused > 150


@pytest.mark.parametrize(
    "edit",
    [
        lambda x: x.astype(bool),
        lambda x: x.astype(np.uint8),
        lambda x: np.nan_to_num(x).astype(np.int64),
        lambda x: x.astype(np.float16),
        lambda x: np.full_like(x, np.nan),
        lambda x: np.full_like(x, np.inf),
        lambda x: x[:-1],
        lambda x: x[None],
        lambda x: np.append(x, x[-1:], axis=0),
        lambda x: x[:0],
    ],
)
@pytest.mark.parametrize("name", ["coef", "centre", "calibration", "shifts", "weight"])
def test_an_edited_array_is_refused_in_words_and_never_scores(saved, tmp_path, name, edit):
    """Of 85 edits 6 ended in tracebacks, 2 in scores that are no numbers, and 23 in other scores without a word."""
    folder, cohort = saved
    header, arrays = load_model(folder)
    tried = 0
    for key in [key for key in arrays if key.rpartition(".")[2] == name]:
        edited = edit(arrays[key])
        if edited.dtype == arrays[key].dtype and np.array_equal(
            edited, arrays[key], equal_nan=edited.dtype.kind == "f"
        ):
            continue
        save_model(tmp_path / "model", header, {**arrays, key: edited})
        with pytest.raises(BrainroamError), warnings.catch_warnings(action="ignore"):
            load_method(tmp_path / "model", cohort)
        tried += 1
    assert tried
