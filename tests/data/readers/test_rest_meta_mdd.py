"""REST-meta-MDD: slices of the signals, the S4 twins, the Excel table's odd codes."""

import numpy as np
import pandas as pd
import pytest
from scipy.io import savemat

from brainroam import load_cohort
from brainroam.errors import ReaderError, UsageError

PEOPLE = {  # id: (sex, age, columns on disk or None)
    "S1-1-0001": (1, 30, 1833),
    "S1-2-0001": (2, 0, 1833),
    "S20-1-0007": (0, 41.5, 1568),
    "S20-2-0012": (2, "[]", 2233),
    "S20-2-0013": (2, 50, None),
}


def signals(seed, width):
    return np.random.default_rng(seed).normal(size=(12, width)).astype("f4")


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "REST-meta-MDD-Phase1-Sharing"
    for folder, shift in (("ROISignals_FunImgARCWF", 0), ("ROISignals_FunImgARglobalCWF", 100)):
        (root / "Results" / folder).mkdir(parents=True)
        extra = {"S4-1-0001": (1, 20, 1833), "S1-1-0099": (1, 20, 1833), "S1-3-0001": (1, 20, 1833)}
        for i, (name, (_, _, width)) in enumerate({**PEOPLE, **extra}.items()):
            if width:
                savemat(root / "Results" / folder / f"ROISignals_{name}.mat", {"ROISignals": signals(i + shift, width)})
    rows = [{"ID": name, "Sex": sex, "Age": age, "Education (years)": 12} for name, (sex, age, _) in PEOPLE.items()]
    with pd.ExcelWriter(tmp_path / "REST-meta-MDD-PhenotypicData_WithHAMDSubItem_V4.xlsx") as book:
        pd.DataFrame([{"note": "read me"}]).to_excel(book, sheet_name="About", index=False)
        pd.DataFrame([{**row, "HAMD": -9999} for row in rows if "-1-" in row["ID"]]).to_excel(
            book, sheet_name="MDD", index=False
        )
        pd.DataFrame([row for row in rows if "-2-" in row["ID"]]).to_excel(book, sheet_name="Controls", index=False)
    return root


def test_people_are_read_and_exclusions_have_reasons(tree):
    cohort = load_cohort(tree)
    people = cohort.table.set_index("subject")
    assert people.index.tolist() == ["S1-1-0001", "S20-1-0007", "S1-2-0001", "S20-2-0012"]
    assert people["site"].tolist() == ["S1", "S20", "S1", "S20"] and people["label"].tolist() == [1, 1, 0, 0]
    np.testing.assert_array_equal(people["sex"], [1, np.nan, 0, 0])
    np.testing.assert_array_equal(people["age"], [30, 41.5, np.nan, np.nan])
    np.testing.assert_array_equal(cohort.series[0], signals(0, 1833)[:, :116])
    assert cohort.atlas.name == "aal" and cohort.atlas.labels[0] == "Precentral_L"
    reasons = dict(cohort.excluded.to_numpy())
    assert set(reasons) == {"S4-1-0001", "S20-2-0013", "S1-1-0099", "S1-3-0001"}
    assert "same people as S14" in reasons["S4-1-0001"] and "no series" in reasons["S20-2-0013"]
    assert "no row" in reasons["S1-1-0099"]


def test_s4_is_recorded_whatever_sites_are_asked_for(tree):
    cohort = load_cohort(tree, sites=["S1"])
    assert "S4-1-0001" in set(cohort.excluded["subject"])
    with pytest.raises(UsageError, match="'S4'"):
        load_cohort(tree, sites=["S4"])


def test_roi_sets_that_only_longer_files_hold(tree):
    cohort = load_cohort(tree, atlas="power264")
    assert cohort.atlas.name == "power264" and cohort.n_rois == 264
    np.testing.assert_array_equal(cohort.series[0], signals(0, 1833)[:, 1569:])
    assert "1568 columns, which do not include power264" in dict(cohort.excluded.to_numpy())["S20-1-0007"]
    assert load_cohort(tree, atlas="schaefer400").table["subject"].tolist() == ["S20-2-0012"]
    np.testing.assert_array_equal(load_cohort(tree, atlas="cc200").series[0], signals(0, 1833)[:, 228:428])
    with pytest.raises(UsageError, match=r"'power246'.*'power264'"):
        load_cohort(tree, atlas="power246")


def test_series_with_global_signal_regression_are_read_where_asked_for(tree):
    np.testing.assert_array_equal(load_cohort(tree, gsr=True).series[0], signals(100, 1833)[:, :116])
    assert len(load_cohort(tree / "Results" / "ROISignals_FunImgARCWF")) == 4


def test_without_the_table_site_and_label_stand_in_the_id(tree):
    next(tree.parent.glob("*.xlsx")).unlink()
    with pytest.warns(UserWarning, match="ages"):
        cohort = load_cohort(tree)
    assert len(cohort) == 5 and cohort.table["age"].isna().all()
    assert {"S4-1-0001", "S1-3-0001"} == set(cohort.excluded["subject"])


def test_the_preset_keeps_the_sites_of_the_paper_and_names_absent_ones(tree):
    with pytest.warns(UserWarning, match="S7"):
        assert load_cohort(tree, preset="paper").sites == ["S1", "S20"]


def test_a_file_of_other_content_is_refused_with_its_subject(tree):
    path = tree / "Results" / "ROISignals_FunImgARCWF" / "ROISignals_S1-1-0001.mat"
    savemat(path, {"ROISignal": signals(0, 1833)})
    with pytest.raises(ReaderError, match=r"subject S1-1-0001: .*'ROISignals'"):
        load_cohort(tree)
    savemat(path, {"ROISignals": signals(0, 90)})
    with pytest.raises(ReaderError, match=r"subject S1-1-0001: .*\(12, 90\)"):
        load_cohort(tree)


def test_a_wrong_table_is_refused(tree):
    path = next(tree.parent.glob("*.xlsx"))
    pd.DataFrame({"ID": ["S1-1-0001"]}).to_excel(path, sheet_name="Patients", index=False)
    with pytest.raises(ReaderError, match="'MDD'"):
        load_cohort(tree)
    path.write_bytes(b"PK not an archive")
    with pytest.raises(ReaderError, match="xlsx"):
        load_cohort(tree)


def test_a_score_of_the_patients_can_be_the_target_and_a_column_a_covariate(tree):
    table = tree.parent / "REST-meta-MDD-PhenotypicData_WithHAMDSubItem_V4.xlsx"
    sheets = pd.read_excel(table, sheet_name=None)
    sheets["MDD"]["HAMD"] = [21, 17.5]
    with pd.ExcelWriter(table) as book:
        for name, sheet in sheets.items():
            sheet.to_excel(book, sheet_name=name, index=False)
    cohort = load_cohort(tree, target="HAMD:number", covariates=["Education (years)"])
    assert cohort.table["label"].tolist() == [21, 17.5]
    assert cohort.covariates()["Education (years)"].tolist() == [12, 12]
