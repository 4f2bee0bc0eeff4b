"""The plain folder: any file type, any column names, and every way such a folder can be wrong."""

import numpy as np
import pandas as pd
import pytest
from scipy.io import savemat

from brainroam import load_cohort
from brainroam.data.atlas import Atlas
from brainroam.errors import DataError, ReaderError, UsageError

TABLE = """participant_id\tsite\tdiagnosis\tage\tsex\tiq
001\tA\tcontrol\t10.5\tM\t100
002\tA\tASD\t-9999\tF\t
003\tB\tcontrol\t89+\tmale\t120
sub-004\tB\tASD\t0\tn/a\t90
005\tB\tASD\t12\tF\t90
"""


@pytest.fixture
def study(tmp_path, write, write_rows, signal):
    """Five people and a different file type for each; 005 has no file and one file has no person."""
    root = tmp_path / "study"
    write(root / "participants.tsv", TABLE)
    series = root / "timeseries"
    write_rows(series / "001.csv", signal(1), "a,b,c,d,e", ",")
    write_rows(series / "sub-002.1D", signal(2, 30), "#a\t#b\t#c\t#d\t#e")
    write_rows(series / "004.txt", signal(4), "", " ")
    np.save(series / "003.npy", signal(3))
    savemat(series / "stranger.mat", {"x": signal(9)})
    (series / "readme.md").write_text("no series")
    return root


def test_file_types_ids_covariates_and_exclusions_are_read(study, signal):
    cohort = load_cohort(study)
    table = cohort.table.set_index("subject")
    assert table.index.tolist() == ["001", "002", "003", "sub-004"]
    for subject, seed, length in (("001", 1, 40), ("002", 2, 30), ("003", 3, 40), ("sub-004", 4, 40)):
        np.testing.assert_array_equal(cohort.series[table.index.get_loc(subject)], signal(seed, length))
    assert table["label"].tolist() == [0, 1, 0, 1]
    np.testing.assert_array_equal(table["age"], [10.5, np.nan, 89, np.nan])
    np.testing.assert_array_equal(table["sex"], [1, 0, 1, np.nan])
    assert table["iq"].tolist() == ["100", "", "120", "90"]
    assert cohort.atlas.labels == tuple("abcde")
    reasons = dict(cohort.excluded.to_numpy())
    assert set(reasons) == {"005", "timeseries/stranger.mat"}
    assert "no series found" in reasons["005"] and "no row" in reasons["timeseries/stranger.mat"]


def test_columns_and_codes_by_name(tmp_path, write, signal):
    write(tmp_path / "people.csv", "who,where,dx code,years,g\n01,X,3,10,2\n02,X,7,11,1\n03,Y,9,12,1\n04,Y,3.0,13,2\n")
    for i, name in enumerate(["01", "02", "03", "04"]):
        np.save(tmp_path / f"{name}_roi.npy", signal(i))
    cohort = load_cohort(
        tmp_path,
        "folder",
        participants=tmp_path / "people.csv",
        template="{participant_id}_roi.npy",
        subject_col="who",
        site_col="where",
        label_col="dx code",
        age_col="years",
        sex_col="g",
        sex_codes="1=male,2=female",
        case=3,
        control=["7"],
    )
    assert cohort.table["label"].tolist() == [1, 0, 1]
    assert cohort.table["sex"].tolist() == [0, 1, 0]
    assert cohort.excluded.to_numpy().tolist() == [["03", "dx code is '9': neither condition nor control"]]


def test_people_without_labels_are_read_for_prediction(study):
    lines = [line.split("\t") for line in TABLE.splitlines()]
    (study / "participants.tsv").write_text("\n".join("\t".join([*cells[:2], *cells[3:]]) for cells in lines))
    with pytest.raises(ReaderError, match=r"label_col"):
        load_cohort(study)
    cohort = load_cohort(study, require_label=False)
    assert len(cohort) == 4 and cohort.table["label"].isna().all()


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ("0101", [0, 1, 0, 1]),
        ("0000", [0, 0, 0, 0]),
        ("1111", [1, 1, 1, 1]),
        (("HC", "MDD", "hc", ""), [0, 1, 0]),
        (("HC", "HC", "n/a", "HC"), [0, 0, 0]),
    ],
)
def test_codes_that_need_no_explanation(tmp_path, write, signal, codes, expected):
    assert _coded(tmp_path, write, signal, codes).table["label"].tolist() == expected


@pytest.mark.parametrize(
    ("codes", "options"),
    [
        ("1212", {}),
        ("2222", {}),
        (("HC", "MDD", "OCD", "HC"), {}),
        (("x", "y", "x", "y"), {}),
        (("x", "y", "z", "y"), {"case": "x"}),
        (("x", "y", "z", "y"), {"control": "x"}),
        ("1212", {"case": "1", "control": "1"}),
    ],
)
def test_codes_are_never_guessed(tmp_path, write, signal, codes, options):
    with pytest.raises(UsageError, match="controls"):
        _coded(tmp_path, write, signal, codes, **options)


@pytest.mark.parametrize(
    ("codes", "options", "expected"),
    [
        ("1212", {"case": 2.0}, [0, 1, 0, 1]),
        (("HC", "MDD", "OCD", "HC"), {"case": "MDD"}, [0, 1, 0]),
        (("HC", "MDD", "OCD", "HC"), {"case": "MDD,OCD"}, [0, 1, 1, 0]),
        (("x", "y", "z", "y"), {"case": ["x"], "control": ["y"]}, [1, 0, 0]),
        (("MDD", "MDD", "MDD", "MDD"), {"case": "MDD"}, [1, 1, 1, 1]),
    ],
)
def test_codes_that_were_explained(tmp_path, write, signal, codes, options, expected):
    assert _coded(tmp_path, write, signal, codes, **options).table["label"].tolist() == expected


def test_a_wrong_code_lists_those_there_are(tmp_path, write, signal):
    with pytest.raises(UsageError, match=r"'MMD'.*'MDD'"):
        _coded(tmp_path, write, signal, ("HC", "MDD", "HC", "MDD"), case="MMD")


@pytest.mark.parametrize(
    ("codes", "options", "expected"),
    [
        (("MDD", "MDD", "MDD", "MDD"), {"case": "MDD", "control": "NC"}, [1, 1, 1, 1]),
        (("MDD", "BPD", "MDD", "BPD"), {"case": "MDD", "control": "NC"}, [1, np.nan, 1, np.nan]),
        (("NC", "BPD", "NC", "BPD"), {"case": "MDD", "control": "NC"}, [0, np.nan, 0, np.nan]),
        (("BPD", "BPD", "BPD", "BPD"), {"case": "MDD", "control": "NC"}, [np.nan] * 4),
    ],
)
def test_a_new_site_may_lack_a_class_and_nobody_else_takes_its_place(tmp_path, write, signal, codes, options, expected):
    people = _coded(tmp_path, write, signal, codes, require_label=False, **options).table
    np.testing.assert_array_equal(people["label"], expected)


def _coded(root, write, signal, codes, **options):
    rows = "".join(f"{i}\tA\t{code}\n" for i, code in enumerate(codes))
    write(root / "participants.tsv", "participant_id\tsite\tdiagnosis\n" + rows)
    for i in range(len(codes)):
        np.save(root / f"{i}.npy", signal(i))
    return load_cohort(root, **options)


def test_transposed_arrays_are_refused_until_said_so(study, signal):
    for path in (study / "timeseries").iterdir():
        path.unlink()
    for i, name in enumerate(["001", "002", "003", "004", "005"]):
        np.save(study / "timeseries" / f"{name}.npy", signal(i, 40 + i).T)
    with pytest.raises(DataError, match=r"subject 001.*transpose=true"):
        load_cohort(study)
    np.testing.assert_array_equal(load_cohort(study, transpose=True).series[1], signal(1, 41))


def test_one_transposed_array_and_one_that_only_looks_so(study, signal):
    np.save(study / "timeseries" / "005.npy", signal(5).T)
    with pytest.warns(UserWarning, match="1 of 3 at B"):
        turned = load_cohort(study)
    np.testing.assert_array_equal(turned.series[list(turned.table["subject"]).index("005")], signal(5))
    for i, name in enumerate(["001", "002", "003", "004", "005"]):
        for path in (study / "timeseries").glob(f"*{name}*"):
            path.unlink()
        np.save(study / "timeseries" / f"{name}.npy", signal(i, 116, 7))
    with pytest.raises(DataError, match="transposed"):
        load_cohort(study)
    assert load_cohort(study, transpose=False).n_rois == 7


def test_the_atlas_decides_which_axis_is_regions(study, signal):
    for path in (study / "timeseries").iterdir():
        path.unlink()
    for name in ("001", "002"):
        np.save(study / "timeseries" / f"{name}.npy", signal(0, 116, 90))
    with pytest.warns(UserWarning, match="2 of 2 at A"):
        assert load_cohort(study, atlas="aal").series[0].shape == (90, 116)


def test_two_shapes_that_are_each_other_turned_are_not_guessed(study, signal):
    for path in (study / "timeseries").iterdir():
        path.unlink()
    for i, name in enumerate(["001", "002", "003", "004", "005"]):
        np.save(study / "timeseries" / f"{name}.npy", signal(i, 40, 7) if i < 3 else signal(i, 40, 7).T)
    with pytest.raises(DataError, match="atlas"):
        load_cohort(study)


def test_the_atlas_follows_from_the_number_of_regions_or_the_name(study, signal, write):
    def regions(width, folder="timeseries", **options):
        for path in (study / folder).iterdir() if (study / folder).is_dir() else ():
            path.unlink()
        (study / folder).mkdir(exist_ok=True)
        for name in ("001", "002"):
            np.save(study / folder / f"{name}.npy", signal(0, 50, width))
        return load_cohort(study, template=f"{folder}/{{participant_id}}.npy", **options).atlas

    assert regions(116).labels[0] == "Precentral_L"
    assert regions(200).name == "custom" and regions(200, "cc200_series").name == "cc200"
    assert regions(40).labels[:2] == ("ROI_001", "ROI_002")
    assert regions(40, atlas="schaefer40").name == "schaefer40"
    mine = Atlas("mine", tuple("abc"))
    assert regions(3, atlas=mine) is mine
    table = write(study / "regions.csv", "name,x,y,z\nleft,1,2,3\nright,4,5,6\n")
    assert regions(2, atlas=table).labels == ("left", "right")
    with pytest.raises(DataError, match="200 regions"):
        regions(40, atlas="cc200")
    with pytest.raises(UsageError, match="aal"):
        regions(40, atlas="nowhere.csv")


def test_116_regions_with_names_of_their_own_are_not_aal(tmp_path, write, write_rows, signal):
    write(tmp_path / "participants.tsv", "participant_id\tsite\tdiagnosis\n1\tA\t0\n")
    write_rows(tmp_path / "1.tsv", signal(0, 50, 116), "\t".join(f"Schaefer_{i}" for i in range(116)))
    assert load_cohort(tmp_path).atlas.labels[0] == "Schaefer_0"


def test_names_count_even_when_the_first_file_has_none(study, write_rows, signal):
    (study / "timeseries" / "001.csv").unlink()
    np.save(study / "timeseries" / "001.npy", signal(1))
    assert load_cohort(study).atlas.labels == tuple("abcde")


def test_columns_in_another_order_are_an_error_not_a_surprise(study, write_rows, signal):
    write_rows(study / "timeseries" / "005.tsv", signal(5), "a\tb\td\tc\te")
    with pytest.raises(ReaderError, match=r"subject 005: column 3"):
        load_cohort(study)


def test_mixed_widths_name_the_person(study, signal):
    np.save(study / "timeseries" / "005.npy", signal(5, 40, 6))
    with pytest.raises(DataError, match=r"005 \(6\)"):
        load_cohort(study)


def test_a_bad_cell_names_subject_file_line_and_column(study, write):
    write(study / "timeseries" / "005.csv", "1.0,2.0,3.0,4.0,5.0\n1.0,2.0,?,4.0,5.0\n")
    with pytest.raises(ReaderError, match=r"subject 005: .*005\.csv, line 2, column 3"):
        load_cohort(study)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("005\tB", "\tB", "line 6 .*subject"),
        ("12\tF", "twelve\tF", "line 6, column 'age' .*'twelve'"),
        ("participant_id", "name", "participant_id .*subject_col"),
        ("\tiq", "", "header"),
        (TABLE, "", r"participants\.tsv .*empty"),
        (TABLE, TABLE.split("\n")[0] + "\n", "rows"),
        ("005\tB", "sub-001\tB", "001 and sub-001"),
    ],
)
def test_a_wrong_table_is_refused_with_what_is_wrong_about_it(study, old, new, message):
    (study / "participants.tsv").write_text(TABLE.replace(old, new))
    with pytest.raises(ReaderError, match=message):
        load_cohort(study)


def test_somebody_without_a_site_is_recorded(study):
    (study / "participants.tsv").write_text(TABLE.replace("002\tA", "002\tn/a"))
    assert "no site" in dict(load_cohort(study).excluded.to_numpy())["002"]


def test_a_table_is_read_as_excel_and_as_latin1(study):
    table = pd.read_csv(study / "participants.tsv", sep="\t", dtype=str)
    (study / "participants.tsv").unlink()
    table.to_excel(study / "participants.xlsx", index=False)
    assert load_cohort(study).table["subject"].tolist()[0] == "001"
    (study / "participants.csv").write_bytes(table.replace("A", "Z\xfcrich").to_csv(index=False).encode("latin-1"))
    assert load_cohort(study).sites == ["B", "Zürich"]


def test_a_damaged_excel_file_is_refused(study):
    (study / "participants.tsv").unlink()
    (study / "participants.xlsx").write_bytes(b"not a workbook")
    with pytest.raises(ReaderError, match=r"participants\.xlsx"):
        load_cohort(study)


def test_ids_cannot_point_outside_the_folder(study, signal):
    np.save(study.parent / "x.npy", signal(7))
    (study / "participants.tsv").write_text(TABLE.replace("005", "../../x"))
    cohort = load_cohort(study)
    assert "no series found" in dict(cohort.excluded.to_numpy())["../../x"]
    for template in ("../{participant_id}.npy", "/tmp/{participant_id}.npy", "series.npy"):
        with pytest.raises(UsageError, match="folder"):
            load_cohort(study, template=template)


def test_templates_may_have_folders_and_repeated_ids(study, signal):
    deep = study / "out" / "v2" / "sub-001"
    deep.mkdir(parents=True)
    np.save(deep / "sub-001_ses-1_aal.npy", signal(1))
    cohort = load_cohort(study, template="out/**/{participant_id}/{participant_id}_*.npy")
    assert cohort.table["subject"].tolist() == ["001"]
    np.save(deep / "sub-001_ses-2_aal.npy", signal(1))
    with pytest.warns(UserWarning, match="sessions"):
        assert len(load_cohort(study, template="out/**/{participant_id}/{participant_id}_*.npy")) == 1
    np.save(deep / "sub-001_ses-2_ho.npy", signal(1))
    with pytest.raises(ReaderError, match="subject 001"):
        load_cohort(study, template="out/**/{participant_id}/{participant_id}_*.npy")
    with pytest.raises(ReaderError, match="template"):
        load_cohort(study, template="elsewhere/{participant_id}.npy")


def test_an_empty_file_is_named_and_once_it_is_moved_away_its_person_is_left_out(study):
    empty = study / "timeseries" / "003.npy"
    empty.write_bytes(b"")
    with pytest.raises(ReaderError, match=r"003.*move it away"):
        load_cohort(study)
    empty.unlink()
    assert "no series found" in dict(load_cohort(study).excluded.to_numpy())["003"]


def test_when_no_file_fits_any_id_both_sides_are_shown(study):
    (study / "participants.tsv").write_text("participant_id\tsite\tdiagnosis\n8\tA\t0\n9\tA\t1\n")
    with pytest.raises(ReaderError, match=r"001\.csv.*template"):
        load_cohort(study)


def test_a_longer_number_is_another_person(tmp_path, write, signal):
    write(tmp_path / "participants.tsv", "participant_id\tsite\tdiagnosis\n1\tA\t0\n10\tA\t1\n")
    for i, name in enumerate(["x_1_aal", "x_10_aal", "x_100_aal", "x_110_aal"]):
        np.save(tmp_path / f"{name}.npy", signal(i))
    cohort = load_cohort(tmp_path, template="*{participant_id}*.npy")
    np.testing.assert_array_equal(cohort.series[0], signal(0))
    np.testing.assert_array_equal(cohort.series[1], signal(1))
    assert cohort.excluded["subject"].tolist() == ["x_100_aal.npy", "x_110_aal.npy"]


def test_nobody_left_says_why(study):
    (study / "participants.tsv").write_text(TABLE.replace("control", "").replace("ASD", ""))
    with pytest.raises(ReaderError, match=r"diagnosis .*\(4 people\)"):
        load_cohort(study)


def test_zeros_that_a_spreadsheet_dropped_do_not_matter(tmp_path, write, signal):
    write(tmp_path / "participants.csv", "id,site,dx\n7,A,0\n10,A,1\n100,B,0\n")
    for k, name in enumerate(("0007", "sub-010", "00100", "008")):
        np.save(tmp_path / f"{name}.npy", signal(k))
    cohort = load_cohort(tmp_path)
    assert cohort.table["subject"].tolist() == ["7", "10", "100"]
    for k in range(3):
        np.testing.assert_array_equal(cohort.series[k], signal(k))
    assert cohort.excluded["subject"].tolist() == ["008.npy"]


def test_ids_that_differ_only_in_zeros_are_kept_apart(tmp_path, write, signal):
    write(tmp_path / "participants.csv", "id,site,dx\n7,A,0\n07,A,1\n")
    for k, name in enumerate(("7", "07", "007")):
        np.save(tmp_path / f"{name}.npy", signal(k))
    cohort = load_cohort(tmp_path)
    assert cohort.table["subject"].tolist() == ["7", "07"]
    np.testing.assert_array_equal(cohort.series[1], signal(1))
    assert cohort.excluded["subject"].tolist() == ["007.npy"]


@pytest.fixture
def numbered_anew(tmp_path, signal):
    """Three sites that each number their people from 1; the site is in a folder's and, once more, in a file's name."""
    people = [
        (site, i, ["HC", "MDD"][(i + k) % 2], 20 + 7 * k + i) for k, site in enumerate("ABC") for i in range(1, 5)
    ]
    table = pd.DataFrame(people, columns=["site", "id", "dx", "age"])
    table.assign(site="Site " + table["site"]).to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "flat").mkdir()
    for k, (site, name, *_) in enumerate(people):
        (folder := tmp_path / "in" / f"site_{site.lower()}").mkdir(parents=True, exist_ok=True)
        np.save(folder / f"{name}.npy", signal(k))
        np.save(tmp_path / "flat" / f"site{site}_{name}.npy", signal(k))
    return tmp_path


def read_numbered(root, template):
    return load_cohort(root, "folder", participants=root / "people.csv", template=template)


@pytest.mark.parametrize("template", ["in/{site}/{participant_id}.npy", "flat/{site}_{participant_id}.npy"])
def test_ids_that_begin_anew_at_every_site(numbered_anew, signal, template):
    cohort = read_numbered(numbered_anew, template)
    assert cohort.table["subject"].tolist()[:5] == ["Site A_1", "Site A_2", "Site A_3", "Site A_4", "Site B_1"]
    assert cohort.table["age"].tolist()[:5] == [21, 22, 23, 24, 28]
    assert sorted(set(cohort.table["site"])) == ["Site A", "Site B", "Site C"] and "group" not in cohort.table
    for k, x in enumerate(cohort.series):
        np.testing.assert_array_equal(x, signal(k))


def test_ids_that_begin_anew_need_a_site_in_the_path(numbered_anew):
    with pytest.raises(ReaderError, match=r"Site A, Site B.*\{site\}"):
        read_numbered(numbered_anew, "**/{participant_id}.npy")


def test_who_travelled_is_one_person_on_one_side_of_every_split(numbered_anew):
    table = pd.read_csv(numbered_anew / "people.csv")
    table["age"], table["dx"] = 30 + table["id"], np.where(table["id"] % 2, "HC", "MDD")
    # The fourth was at two sites, the others at three.
    table.iloc[:-1].to_csv(numbered_anew / "people.csv", index=False)
    cohort = read_numbered(numbered_anew, "in/{site}/{participant_id}.npy")
    assert len(cohort) == 11
    assert cohort.table.set_index("subject").loc["Site B_2", "group"] == "2"
    assert cohort.table.groupby("group").size().to_dict() == {"1": 3, "2": 3, "3": 3, "4": 2}


def test_a_matrix_that_is_not_square_is_named_with_what_to_do(tmp_path, write, signal):
    ids = ["01", "02", "03", "04"]
    write(tmp_path / "participants.csv", "id,site,diagnosis\n" + "".join(f"{k},A,{int(k) % 2}\n" for k in ids))
    edges = [np.corrcoef(signal(i, 60).T) for i in range(4)]
    for name, x in zip(ids, [edges[0], edges[1][:3], *edges[2:]], strict=True):
        np.save(tmp_path / f"{name}.npy", x)
    with pytest.raises(ReaderError, match=r"square matrices .* not 02 \(3 x 5\); mend these files, or move them away"):
        load_cohort(tmp_path, case="1", control="0")
    np.save(tmp_path / "02.npy", edges[1][:3, :3])
    with pytest.raises(DataError, match=r"most matrices have 5 regions but 1 differs: 02 \(3\)"):
        load_cohort(tmp_path, case="1", control="0")


def test_runs_of_matrices_are_averaged_directed_ones_too(tmp_path, write):
    ids, rng = ["01", "02", "03"], np.random.default_rng(0)
    write(tmp_path / "participants.csv", "id,site,diagnosis\n" + "".join(f"{k},A,{int(k) % 2}\n" for k in ids))
    runs = {}
    for name in ids:
        for run in (1, 2):
            edges = rng.uniform(-0.9, 0.9, size=(5, 5))
            np.fill_diagonal(edges, 0)
            edges[3] = edges[:, 3] = np.nan if run == 1 else edges[3]
            runs[name, run] = edges
            np.save(tmp_path / f"{name}_run-{run}.npy", edges)
    with pytest.warns(UserWarning, match="matrices are averaged"):
        cohort = load_cohort(tmp_path, case="1", control="0", template="{participant_id}_run-*.npy")
    one, two = runs["02", 1], runs["02", 2]
    mean = np.where(np.isnan(one), two, (one + two) / 2)
    np.testing.assert_allclose(cohort.series[1], np.where(np.eye(5) == 1, 0, (mean + mean.T) / 2), atol=1e-12)
