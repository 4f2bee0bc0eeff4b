"""`load_cohort` itself: detection, options, presets, saved cohorts."""

import inspect
from dataclasses import is_dataclass

import numpy as np
import pandas as pd
import pytest

from brainroam import Cohort, load_cohort
from brainroam.data.readers import READERS, reader_options
from brainroam.errors import DataError, ReaderError, UsageError


@pytest.fixture
def saved(tmp_path, signal):
    table = pd.DataFrame({"subject": ["1", "2", "3"], "site": ["A", "A", "B"], "label": [0, 1, np.nan]})
    excluded = pd.DataFrame({"subject": ["9"], "reason": ["gone"]})
    return Cohort([signal(i) for i in range(3)], table, excluded=excluded).save(tmp_path / "cohort.bin")


def test_a_saved_cohort_under_any_name(saved, signal):
    cohort = load_cohort(saved)
    assert cohort.table["subject"].tolist() == ["1", "2"]
    assert cohort.excluded.to_numpy().tolist() == [["9", "gone"], ["3", "no label"]]
    assert load_cohort(saved, sites=["B"], require_label=False).table["subject"].tolist() == ["3"]
    with pytest.raises(UsageError, match="regions of 'custom'"):
        load_cohort(saved, atlas="aal")
    with pytest.raises(UsageError, match="'gsr'"):
        load_cohort(saved, gsr=True)


def test_a_damaged_saved_cohort_is_refused(saved):
    data = saved.read_bytes()
    saved.write_bytes(data[: len(data) // 2])
    with pytest.raises(ReaderError, match=r"cohort\.bin"):
        load_cohort(saved, "store")


def test_people_with_dead_regions_beyond_the_limit_are_left_out(tmp_path, signal):
    table = pd.DataFrame({"subject": ["1", "2"], "site": ["A", "B"], "label": [0, 1]})
    dead = signal(1)
    dead[:, :2] = 0
    path = Cohort([signal(0), dead], table).save(tmp_path / "cohort.npz")
    assert load_cohort(path).excluded["reason"].tolist() == ["2 of 5 regions are constant or not finite (limit 20%)"]
    assert len(load_cohort(path, max_missing_rois=0.4)) == 2
    with pytest.raises(DataError, match="everybody"):
        load_cohort(path, sites=["B"])


def test_no_layout_lists_what_was_looked_for(tmp_path):
    (tmp_path / "notes.md").write_text("nothing")
    for path in (tmp_path, tmp_path / "notes.md"):
        with pytest.raises(ReaderError) as caught:
            load_cohort(path)
        for name, module in READERS.items():
            assert f"{name}: {module.LOOKS_FOR}" in str(caught.value)
    with pytest.raises(ReaderError, match="exist"):
        load_cohort(tmp_path / "nowhere")


@pytest.mark.parametrize("name", [name for name in READERS if name not in ("store", "npy")])
def test_a_reader_forced_on_a_foreign_folder_explains_itself(tmp_path, name):
    with pytest.raises(ReaderError):
        load_cohort(tmp_path, name)


@pytest.mark.filterwarnings("ignore:.*pickle")
@pytest.mark.parametrize("name", ["store", "npy"])
def test_a_file_reader_forced_on_a_folder_explains_itself(tmp_path, name):
    with pytest.raises(ReaderError):
        load_cohort(tmp_path, name, **({"allow_pickle": True} if name == "npy" else {}))


def test_names_that_do_not_exist(tmp_path, saved):
    with pytest.raises(UsageError, match=r"reader 'abid'.*'abide'"):
        load_cohort(tmp_path, "abid")
    with pytest.raises(UsageError, match=r"'pipelin'.*'pipeline'"):
        load_cohort(tmp_path, "abide", pipelin="cpac")
    with pytest.raises(UsageError, match=r"preset 'papre'.*'paper'"):
        load_cohort(tmp_path, "abide", preset="papre")
    with pytest.raises(UsageError, match=r"preset 'paper'.*'store'"):
        load_cohort(saved, preset="paper")


def test_options_of_each_reader_are_documented():
    for name, module in READERS.items():
        groups = [p.default for p in inspect.signature(module.read).parameters.values() if is_dataclass(p.default)]
        text = " ".join(map(inspect.getdoc, [module.read, *map(type, groups)]))
        for option in reader_options(name):
            assert f"``{option}``" in text, (name, option)


def test_options_left_at_none_change_nothing(saved):
    assert len(load_cohort(saved, gsr=None, template=None)) == 2
