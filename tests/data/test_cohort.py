"""Cohort, atlas and files: nothing changes behind anybody's back, nothing is lost on disk, and errors name names."""

import json
import zipfile

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brainroam.data.atlas import SHIPPED, Atlas, anonymous_atlas, load_atlas
from brainroam.data.cohort import Cohort
from brainroam.data.measurements import missing_rois
from brainroam.errors import CONTROL, BrainroamError, DataError, ReaderError, UsageError
from brainroam.utils.files import atomic_write, write_text


def make(n=6, n_rois=4, **columns):
    rng = np.random.default_rng(0)
    table = {
        "subject": [f"{i:03d}" for i in range(n)],
        "site": [("A", "B", "C")[i % 3] for i in range(n)],
        "label": [i % 2 for i in range(n)],
    }
    return Cohort([rng.normal(size=(20 + i, n_rois)) for i in range(n)], pd.DataFrame(table | columns))


# Immutability


def test_what_goes_in_and_comes_out_are_copies():
    x = np.random.default_rng(0).normal(size=(10, 3))
    table = pd.DataFrame({"subject": ["a"], "site": ["s"], "label": [1]})
    cohort = Cohort([x], table)
    before = cohort.manifest_hash
    x[:] = 0
    table.loc[0, "label"] = 0
    handed_out = cohort.table
    handed_out.loc[0, "label"] = 0
    cohort.series.clear()
    cohort.missing_rois[:] = True
    left_out = cohort.excluded
    left_out.loc[0] = ["a", "because"]
    again = Cohort(cohort.series, cohort.table)
    assert again.manifest_hash == before
    assert cohort.labels.tolist() == [1] and not cohort.missing_rois.any() and cohort.excluded.empty


def test_arrays_and_attributes_refuse_to_be_written():
    cohort = make()
    with pytest.raises(ValueError, match="read-only"):
        cohort.series[0][0, 0] = 1
    with pytest.raises(ValueError, match="read-only"):
        make().subset([1]).series[0][0, 0] = 1
    for name in ("series", "table", "atlas", "labels", "truth"):
        with pytest.raises(AttributeError):
            setattr(cohort, name, None)


# The table


def test_columns_are_filled_in_and_ordered():
    cohort = make(hamd=[1, 2, 3, 4, 5, 6], n_timepoints=0)
    expected = ["subject", "site", "label", "age", "sex", "mean_fd", "tr"]
    assert list(cohort.table)[:7] == expected
    assert cohort.table["n_timepoints"].tolist() == [20, 21, 22, 23, 24, 25]
    assert cohort.table["hamd"].tolist() == [1, 2, 3, 4, 5, 6]
    assert cohort.table["age"].isna().all()


def test_text_labels_and_numbers_become_numbers_and_ids_stay_text():
    cohort = make(label=["0", "1", "1", "0", "1", "0"], age=["9.5", None, "7", "8", "9", "10"])
    assert cohort.labels.tolist() == [0, 1, 1, 0, 1, 0]
    assert cohort.table["age"].iloc[0] == 9.5 and np.isnan(cohort.table["age"].iloc[1])
    assert make(subject=range(6)).table["subject"].tolist() == list("012345")


def test_unknown_labels_are_kept_but_not_handed_out():
    cohort = make(label=[0, 1, None, 1, 0, None])
    with pytest.raises(DataError, match="002, 005"):
        _ = cohort.labels


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"label": [0, 1, 2, 0, 1, 2]}, "002, 005"),
        ({"label": ["a"] * 6}, "'label'"),
        ({"age": ["ten"] * 6}, "'age'"),
        ({"subject": ["a", "b", "a", "c", "d", "e"]}, "once: a"),
        ({"site": ["A", None, "A", "B", "B", "B"]}, r"'site' .*row\(s\) 1"),
        ({"subject": ["a", "b", None, "c", "d", "e"]}, r"'subject' .*row\(s\) 2"),
    ],
)
def test_bad_tables_are_refused_with_names(columns, message):
    with pytest.raises(DataError, match=message):
        make(**columns)


def test_bad_series_are_refused_with_names():
    table = make(2).table
    x = np.random.default_rng(0).normal(size=(20, 4))
    for series, message in [
        ([x, x[:, :3]], r"00[01] \("),
        ([x, x[0]], r"subject 001: .*\(4,\)"),
        ([x, x[:1]], r"subject 001: .*\(1, 4\)"),
        ([x, np.array([["a"] * 4] * 5)], "subject 001: .*numeric"),
        ([x], "2 rows .*1 series"),
    ]:
        with pytest.raises(DataError, match=message):
            Cohort(series, table)
    with pytest.raises(DataError, match="no people"):
        Cohort([], table.head(0))
    with pytest.raises(DataError, match="label"):
        Cohort([x, x], table.drop(columns="label"))
    with pytest.raises(DataError, match="116 regions"):
        Cohort([x, x], table, load_atlas("aal"))


# The manifest hash


@given(st.permutations(range(6)))
@settings(max_examples=20)
def test_hash_does_not_depend_on_the_order_of_people(order):
    cohort = make(label=[0, 1, None, 1, 0, 1])
    assert cohort.subset(order).manifest_hash == cohort.manifest_hash


def test_hash_changes_with_one_sample_label_site_id_or_person():
    cohort = make()
    table = cohort.table
    series = cohort.series
    series[2] = series[2].copy()
    series[2][7, 1] = np.nextafter(series[2][7, 1], 10)
    variants = [Cohort(series, table)]
    for name, value in (("label", 1), ("site", "Z"), ("subject", "x")):
        changed = cohort.table
        changed.loc[2, name] = value
        variants.append(Cohort(cohort.series, changed))
    variants += [cohort.subset(range(5)), make(label=[0, 1, None, 1, 0, 1])]
    hashes = [c.manifest_hash for c in (cohort, *variants)]
    assert len(set(hashes)) == len(hashes)


def test_hash_tells_a_transposed_or_cut_series_apart():
    x = np.arange(16.0).reshape(4, 4)
    table = pd.DataFrame({"subject": ["a"], "site": ["s"], "label": [1]})
    assert Cohort([x], table).manifest_hash != Cohort([x.reshape(8, 2)], table).manifest_hash


# Selecting


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6, unique=True), st.data())
@settings(max_examples=30)
def test_subsets_of_subsets_keep_people_and_their_features_together(first, data):
    cohort = make()
    second = data.draw(st.lists(st.integers(0, len(first) - 1), min_size=1, max_size=6, unique=True))
    part = cohort.subset(first).subset(second)
    fresh = Cohort([cohort.series[first[i]] for i in second], cohort.table.iloc[[first[i] for i in second]])
    assert part.table.equals(fresh.table)
    assert part.series_digests == fresh.series_digests
    assert part.manifest_hash == fresh.manifest_hash
    assert (part.missing_rois == fresh.missing_rois).all()


def test_people_are_selected_by_site_and_mask():
    cohort = make()
    assert cohort.sites == ["A", "B", "C"]
    assert cohort.select(["B", "C"]).table["subject"].tolist() == ["001", "002", "004", "005"]
    assert cohort.subset(np.array([True, False] * 3)).table["subject"].tolist() == ["000", "002", "004"]
    with pytest.raises(UsageError, match=r"'D'.* A, B, C"):
        cohort.select(["D"])
    with pytest.raises(DataError, match="selection"):
        cohort.subset([False] * 6)


def test_features_of_a_person_are_computed_once_for_all_subsets():
    cohort, calls = make(), []

    def mean(series):
        calls.append(len(series))
        return np.array([x.mean() for x in series])

    part = cohort.select(["B"])
    np.testing.assert_array_equal(part.per_person("mean", mean), [x.mean() for x in part.series])
    np.testing.assert_array_equal(cohort.per_person("mean", mean), [x.mean() for x in cohort.series])
    assert calls == [6]


def test_exclusions_are_recorded_and_add_up():
    cohort = make()
    spoilt = [np.where(np.arange(4) < k, 0, x) for k, x in zip((0, 1, 2, 4, 0, 0), cohort.series, strict=True)]
    cohort = Cohort(spoilt, cohort.table)
    left = cohort.exclude_missing(0.25)
    assert left.table["subject"].tolist() == ["000", "001", "004", "005"]
    assert left.excluded["subject"].tolist() == ["002", "003"]
    assert left.excluded["reason"][0] == "2 of 4 regions are constant or not finite (limit 25%)"
    further = left.exclude(np.array([True, False, False, False]), ["moved too much"])
    assert further.excluded["subject"].tolist() == ["002", "003", "000"]
    assert cohort.excluded.empty
    with pytest.raises(DataError, match="too young"):
        further.exclude(np.ones(3, dtype=bool), ["too young"] * 3)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_one_bad_value_makes_a_region_missing(bad):
    x = np.random.default_rng(0).normal(size=(30, 3))
    x[11, 1] = bad
    assert missing_rois([x]).tolist() == [[False, True, False]]


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
@settings(max_examples=50)
def test_constant_means_constant_whatever_the_units(offset, scale):
    x = np.random.default_rng(0).normal(size=(30, 2))
    x[:, 1] = 0.1 + 0.2
    assert missing_rois([offset + scale * x])[0].tolist() == [False, True]


# Joining


def test_concat_keeps_everybody_and_every_reason():
    one = make().exclude(np.arange(6) == 0, ["first"])
    two = make(subject=[f"x{i}" for i in range(6)], extra=1.0).exclude(np.arange(6) == 5, ["last"])
    both = one.concat(two)
    assert len(both) == 10
    assert both.excluded.to_numpy().tolist() == [["000", "first"], ["x5", "last"]]
    assert both.table["extra"].isna().sum() == 5
    assert both.select(["A"]).series_digests == one.select(["A"]).series_digests + two.select(["A"]).series_digests


def test_concat_refuses_the_same_ids_and_other_atlases():
    with pytest.raises(DataError, match="000, 001"):
        make().concat(make())
    with pytest.raises(DataError, match=r"\(4 regions\).*\(5 regions"):
        make().concat(make(n_rois=5, subject=list("abcdef")))


# Saving and loading

texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=8)
names = texts.filter(lambda text: not CONTROL.search(text))  # refused in names: tests/test_hostile.py


@given(
    ids=st.lists(names, min_size=2, max_size=4, unique=True),
    ages=st.lists(st.none() | st.floats(0, 120), min_size=4, max_size=4),
    note=texts,
)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_saving_and_loading_gives_the_same_cohort(tmp_path, ids, ages, note):
    n = len(ids)
    cohort = make(n, subject=ids, age=ages[:n], note=[note] * n, label=[1, None, 0, 0][:n])
    cohort = cohort.exclude(np.arange(n) == 0, ["because"])
    loaded = Cohort.load(cohort.save(tmp_path / "cohort.npz"))
    pd.testing.assert_frame_equal(loaded.table, cohort.table)
    pd.testing.assert_frame_equal(loaded.excluded, cohort.excluded)
    assert loaded.manifest_hash == cohort.manifest_hash
    assert loaded.atlas == cohort.atlas


def test_saved_ids_keep_their_leading_zeros_and_the_atlas_its_coordinates(tmp_path):
    x = np.random.default_rng(0).normal(size=(12, 116))
    table = pd.DataFrame({"subject": ["0051456"], "site": ["01"], "label": [1], "code": ["007"]})
    loaded = Cohort.load(Cohort([x], table, load_atlas("aal")).save(tmp_path / "c.npz"))
    assert loaded.table.loc[0, ["subject", "site", "code"]].tolist() == ["0051456", "01", "007"]
    assert loaded.atlas == load_atlas("aal") and loaded.atlas.citation
    np.testing.assert_array_equal(loaded.atlas.coords, load_atlas("aal").coords)


def test_dates_of_a_spreadsheet_are_saved_as_text(tmp_path):
    cohort = make(scanned=[pd.Timestamp("2020-02-03")] * 5 + [pd.NaT])
    loaded = Cohort.load(cohort.save(tmp_path / "c.npz"))
    assert loaded.table["scanned"].iloc[0] == "2020-02-03 00:00:00" and pd.isna(loaded.table["scanned"].iloc[5])


def rewritten(path, **parts):
    with np.load(path) as file:
        content = {name: file[name] for name in file.files}
    np.savez(path, **{**content, **parts})
    return path


def test_damaged_files_are_refused(tmp_path):
    path = make().save(tmp_path / "c.npz")
    whole = path.read_bytes()
    header = json.loads(str(np.load(path)["header"]))

    for broken in (whole[: len(whole) // 2], b"", b"not a cohort"):
        path.write_bytes(broken)
        with pytest.raises(ReaderError, match=r"c\.npz"):
            Cohort.load(path)

    path.write_bytes(whole)
    data = np.load(path)["data"]
    data[3, 2] += 1e-9
    with pytest.raises(ReaderError, match=r"c\.npz .*damaged"):
        Cohort.load(rewritten(path, data=data))

    header["table"]["label"][0] = 1
    path.write_bytes(whole)
    with pytest.raises(ReaderError, match="damaged"):
        Cohort.load(rewritten(path, header=np.array(json.dumps(header))))

    path.write_bytes(whole)
    with pytest.raises(ReaderError, match="schema 99"):
        Cohort.load(rewritten(path, header=np.array(json.dumps(header | {"schema": 99}))))

    path.write_bytes(whole)
    with pytest.raises(ReaderError, match="readable"):
        Cohort.load(rewritten(path, data=np.array([{"pickled": 1}], dtype=object)))
    with pytest.raises(ReaderError, match="readable"):
        Cohort.load(tmp_path / "absent.npz")


def test_a_saved_cohort_holds_nothing_executable(tmp_path):
    with zipfile.ZipFile(make().save(tmp_path / "c.npz")) as archive:
        for name in archive.namelist():
            header = archive.read(name)[:128]
            assert header.startswith(b"\x93NUMPY") and b"'|O'" not in header


# Atlases


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_atlases_are_whole(name):
    atlas = load_atlas(name)
    assert len(atlas) == SHIPPED[name] == len(set(atlas.labels))
    assert atlas.coords.shape == (SHIPPED[name], 3) and (np.abs(atlas.coords) < 120).all()
    assert atlas.citation
    assert load_atlas(atlas) is atlas


def test_the_hemispheres_of_aal_are_where_they_should_be():
    atlas = load_atlas("aal")
    x = atlas.coords[:, 0]
    assert (x[[label.endswith("_L") for label in atlas.labels]] < 0).all()
    assert (x[[label.endswith("_R") for label in atlas.labels]] > 0).all()


def test_a_table_of_ones_own_names_the_regions(tmp_path):
    (tmp_path / "mine.tsv").write_text("name\tx\ty\tz\n001\t1\t2\t3\nNA\t-4\t5\t6\n")
    atlas = load_atlas(tmp_path / "mine.tsv")
    assert (atlas.name, atlas.labels, atlas.coords.tolist()) == ("mine", ("001", "NA"), [[1, 2, 3], [-4, 5, 6]])
    (tmp_path / "bare.csv").write_text("name\na\nb\n")
    assert load_atlas(tmp_path / "bare.csv").coords is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("number,x\n1,1\n", "'name'"),
        ("name,x,y,z\na,1,2,3\n,1,2,3\n", "gaps"),
        ("name,x,y,z\na,1,2,left\n", "coordinates"),
        ("", r"mine\.csv"),
    ],
)
def test_bad_atlas_tables_are_refused(tmp_path, content, message):
    (tmp_path / "mine.csv").write_text(content)
    with pytest.raises(DataError, match=message):
        load_atlas(tmp_path / "mine.csv")


def test_unknown_atlases_are_named_and_equal_ones_are_equal():
    with pytest.raises(UsageError, match="aal, cc200, schaefer100"):
        load_atlas("all")
    assert anonymous_atlas(3) == anonymous_atlas(3) != anonymous_atlas(4)
    assert anonymous_atlas(2, ["a", "b"]) == Atlas("custom", ("a", "b"))
    assert hash(anonymous_atlas(3)) == hash(anonymous_atlas(3))


# Files


def test_an_interrupted_write_leaves_the_old_file_and_no_debris(tmp_path):
    path = write_text(tmp_path / "deep" / "file.txt", "old\n")

    def interrupted():
        with atomic_write(path, text=True) as file:
            file.write("new, but only ha")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == b"old\n"
    assert list(path.parent.iterdir()) == [path]
    write_text(path, "naïve\n")
    assert path.read_bytes() == "naïve\n".encode()


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(BrainroamError, match=r"file/below\.txt"):
        write_text(tmp_path / "file" / "below.txt", "x")


def test_a_second_block_of_series_is_saved_whatever_their_lengths(tmp_path):
    cohort = make()
    task = make(n_rois=3).subset(range(5))  # 20 to 24 volumes, and one person without
    loaded = Cohort.load(cohort.with_block("task", task, "rest").save(tmp_path / "c.npz"))
    assert list(loaded.blocks) == ["rest", "task"] and loaded.has_block("task").tolist() == [True] * 5 + [False]
    for one, other in zip(loaded.block("task").series, task.series, strict=False):
        np.testing.assert_array_equal(one, other)
