"""ABIDE: the real ten sites, and a small tree with the table's traps in both layouts."""

import numpy as np
import pandas as pd
import pytest

from brainroam import load_cohort
from brainroam.data.readers import fetch_abide
from brainroam.errors import BrainroamError, ReaderError, UsageError

ROWS = {  # FILE_ID: SITE_ID, DX_GROUP, AGE_AT_SCAN, SEX, FIQ, func_mean_fd, rater 2 on function
    "MaxMun_a_0051318": ("MAX_MUN", "1", "20.5", "1", "-9999", "0.1", "OK"),
    "MaxMun_c_0051319": ("MAX_MUN", "2", "-9999", "2", "", "", "maybe"),
    "CMU_a_0050642": ("CMU", "1", "30", "1", "101.5", "0.2", "fail"),
    "CMU_b_0050643": ("CMU", "3", "30", "2", "99", "0.2", "OK"),
    "UCLA_1_0051201": ("UCLA_1", "2", "12", "2", "99", "0.2", "OK"),
    "no_filename": ("NYU", "1", "9", "1", "99", "0.2", "OK"),
}
GOOD = ["MaxMun_a_0051318", "MaxMun_c_0051319", "CMU_a_0050642", "CMU_b_0050643"]


def table(rows=ROWS):
    records = [
        {
            "": i,
            "SUB_ID": "50999" if file_id == "no_filename" else str(int(file_id.rsplit("_", 1)[1])),
            "SITE_ID": site,
            "FILE_ID": file_id,
            "DX_GROUP": dx,
            "AGE_AT_SCAN": age,
            "SEX": sex,
            "FIQ": fiq,
            "MEDICATION_NAME": "one, and two",
            "func_mean_fd": fd,
            "qc_rater_1": "OK",
            "qc_anat_rater_2": "OK",
            "qc_func_rater_2": rating,
            "qc_anat_rater_3": "OK",
            "qc_func_rater_3": "OK",
        }
        for i, (file_id, (site, dx, age, sex, fiq, fd, rating)) in enumerate(rows.items())
    ]
    return pd.DataFrame(records).to_csv(index=False)


@pytest.fixture(params=["nilearn", "mirror"])
def tree(request, tmp_path, write, write_rows, signal):
    root = tmp_path / "ABIDE_pcp"
    write(root / "Phenotypic_V1_0b_preprocessed1.csv", table())
    for i, file_id in enumerate([*GOOD, "Stranger_0059999"]):
        for roi_set, header in (("ho", "#10\t#20\t#31\t#40"), ("cc400", "#1\t#2\t#3\t#4")):
            folder = (
                root / "cpac/filt_global"
                if request.param == "nilearn"
                else root / f"Outputs/cpac/filt_global/rois_{roi_set}"
            )
            write_rows(folder / f"{file_id}_rois_{roi_set}.1D", signal(i, 20 + i, 4), header)
    return root


def test_people_and_sites_are_read_and_exclusions_have_reasons(tree, signal):
    cohort = load_cohort(tree, atlas="ho", max_missing_rois=1)
    people = cohort.table.set_index("subject")
    assert people.index.tolist() == GOOD[:3]
    assert people["site"].tolist() == ["MAX_MUN", "MAX_MUN", "CMU"]
    assert people["label"].tolist() == [1, 0, 1] and people["sex"].tolist() == [1, 0, 1]
    np.testing.assert_array_equal(people["age"], [20.5, np.nan, 30])
    np.testing.assert_array_equal(people["fiq"], [np.nan, np.nan, 101.5])
    np.testing.assert_array_equal(people["mean_fd"], [0.1, np.nan, 0.2])
    np.testing.assert_array_equal(people["tr"], [3.0, 3.0, np.nan])
    for i in range(3):
        np.testing.assert_array_equal(cohort.series[i], signal(i, 20 + i, 4))
    assert cohort.atlas.name == "ho" and cohort.atlas.labels == ("10", "20", "31", "40")
    reasons = dict(cohort.excluded.to_numpy())
    assert set(reasons) == {"0050999", "CMU_b_0050643", "UCLA_1_0051201", "Stranger_0059999"}
    assert "no_filename" in reasons["0050999"] and reasons["CMU_b_0050643"].startswith("DX_GROUP is '3'")
    assert "no series found" in reasons["UCLA_1_0051201"] and "no row" in reasons["Stranger_0059999"]


def test_the_quality_check_and_unlabelled_people_are_as_asked(tree):
    cohort = load_cohort(tree, atlas="ho", quality_checked=True, require_label=False)
    assert cohort.table["subject"].tolist() == [GOOD[0], GOOD[1], GOOD[3]]
    assert np.isnan(cohort.table["label"][2])
    assert "rater" in dict(cohort.excluded.to_numpy())["CMU_a_0050642"]


def test_choosing_sites_does_not_call_the_others_strangers(tree):
    cohort = load_cohort(tree, atlas="cc400", sites=["MAX_MUN"])
    assert cohort.sites == ["MAX_MUN"] and cohort.excluded["subject"].tolist() == ["Stranger_0059999"]
    with pytest.raises(UsageError, match=r"'MAXMUN'.*'MAX_MUN'"):
        load_cohort(tree, atlas="cc400", sites=["MAXMUN"])


def test_a_roi_set_that_is_not_there_is_answered_with_those_that_are(tree):
    with pytest.raises(UsageError, match="cc400, ho"):
        load_cohort(tree)
    with pytest.raises(UsageError, match=r"'cc40'.*'cc400'"):
        load_cohort(tree, atlas="cc40")


def test_several_pipelines_have_to_be_chosen_from(tree, write_rows, signal):
    write_rows(tree / "dparsf/nofilt_global/MaxMun_a_0051318_rois_ho.1D", signal(7, 30, 4))
    with pytest.raises(UsageError, match="cpac/filt_global, dparsf/nofilt_global"):
        load_cohort(tree, atlas="ho")
    cohort = load_cohort(tree, atlas="ho", pipeline="dparsf")
    np.testing.assert_array_equal(cohort.series[0], signal(7, 30, 4))
    with pytest.raises(UsageError, match="choose"):
        load_cohort(tree, atlas="ho", pipeline="niak")


def test_the_preset_warns_of_sites_that_are_not_there(tree):
    with pytest.warns(UserWarning, match="CALTECH, KKI, OLIN"):
        cohort = load_cohort(tree, atlas="ho", preset="paper")
    assert cohort.sites == ["MAX_MUN"]


def test_a_table_elsewhere_is_read_and_a_missing_one_named(tree):
    csv = tree / "Phenotypic_V1_0b_preprocessed1.csv"
    moved = csv.rename(tree.parent / "people.csv")
    with pytest.raises(ReaderError, match=r"Phenotypic_V1_0b\*\.csv .*participants=FILE"):
        load_cohort(tree, atlas="ho")
    assert len(load_cohort(tree, atlas="ho", participants=moved)) == 3


def test_a_table_that_lacks_a_column_is_refused(tree):
    csv = tree / "Phenotypic_V1_0b_preprocessed1.csv"
    csv.write_text(csv.read_text().replace("DX_GROUP", "DX"))
    with pytest.raises(ReaderError, match=r"'DX_GROUP'.*SITE_ID"):
        load_cohort(tree, atlas="ho")


def test_fetching_without_a_network_says_what_to_do(tmp_path, monkeypatch):
    def offline(**options):
        raise ConnectionError("no network")

    monkeypatch.setattr("nilearn.datasets.fetch_abide_pcp", offline)
    with pytest.raises(BrainroamError, match=r"Phenotypic_V1_0b_preprocessed1\.csv.*rois_<set>"):
        fetch_abide(tmp_path)
    with pytest.raises(UsageError, match="'filtered'"):
        fetch_abide(tmp_path, strategy="filtered")


def test_fetching_what_is_there_needs_no_network(abide_root):
    assert fetch_abide(abide_root.parent, sites=["SBL"]) == abide_root


@pytest.fixture(scope="module")
def real(abide_root):
    return load_cohort(abide_root, atlas="aal", max_missing_rois=1)


def test_the_real_ten_sites_have_the_people_of_the_release(real, abide_root):
    people = real.table
    assert len(real) == 435 and len(real.sites) == 10 and real.excluded.empty
    assert (people["label"] == 1).sum() == 209 and (people["label"] == 0).sum() == 226
    assert (people["sex"] == 1).sum() == 367 and people["age"].between(6, 65).all()
    assert people["mean_fd"].isna().sum() == 1 and people["tr"].notna().all()
    sizes = people.groupby("site").size()
    assert sizes.tolist() == [37, 48, 52, 34, 56, 30, 36, 39, 47, 56]  # CALTECH ... YALE


def test_the_real_person_with_65_dead_regions_is_left_out_with_the_reason(abide_root):
    cohort = load_cohort(abide_root, preset="paper")
    assert len(cohort) == 434 and cohort.atlas.name == "aal"
    assert cohort.excluded.to_numpy().tolist() == [
        ["Caltech_0051478", "65 of 116 regions are constant or not finite (limit 20%)"]
    ]


def test_the_real_quality_checked_people_are_as_many_as_published(abide_root):
    cohort = load_cohort(abide_root, sites=["CALTECH", "PITT"], quality_checked=True)
    counts = cohort.table.groupby("site")["label"].agg(["sum", "size"])
    assert counts.loc["CALTECH"].tolist() == [5, 15] and counts.loc["PITT"].tolist() == [24, 50]


def test_series_are_the_arrays_of_nilearn(real, abide_root):
    from nilearn.datasets import fetch_abide_pcp

    theirs = fetch_abide_pcp(
        data_dir=str(abide_root.parent),
        pipeline="cpac",
        band_pass_filtering=True,
        global_signal_regression=True,
        derivatives=["rois_aal"],
        quality_checked=False,
        verbose=0,
    )
    assert theirs.phenotypic["FILE_ID"].tolist() == real.table["subject"].tolist()
    for mine, other in zip(real.series, theirs.rois_aal, strict=True):
        np.testing.assert_array_equal(mine, other)


def test_real_cc200_series_have_200_regions(abide_root):
    cohort = load_cohort(abide_root, atlas="cc200", sites=["OLIN"])
    assert cohort.n_rois == 200 and cohort.atlas.name == "cc200"
