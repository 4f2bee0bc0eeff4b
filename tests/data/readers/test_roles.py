"""Which column is the id, the site, the diagnosis, age, sex: guessed alike by init, load_cohort and every command."""

import numpy as np
import pandas as pd
import pytest

from brainroam.data.detect import look
from brainroam.data.loading import load_cohort
from brainroam.data.readers.roles import columns_for, fits_role
from brainroam.data.readers.tables import join_tables
from brainroam.data.readers.values import ages, sex_meaning
from brainroam.errors import DataError

N = 24
RNG = np.random.default_rng(0)


def wide(**columns):
    """A table of people whose columns are given, with ten measures after them."""
    measures = pd.DataFrame(
        RNG.normal(2.5, 0.1, (N, 10)).round(3), columns=[f"lh_region{k}_thickness" for k in range(10)]
    )
    return pd.concat([pd.DataFrame(columns), measures], axis=1)


def loaded(path, table, **options):
    table.to_csv(path / "all.csv", index=False)
    return load_cohort(path / "all.csv", **options)


IDS = [f"S{k:02d}" for k in range(N)]
SITES = ["Oslo", "Rome", "Bonn"] * (N // 3)
GROUPS = ["CN", "AD", "CN", "MCI"] * (N // 4)


def test_a_bare_table_is_read_by_the_words_of_its_columns_and_says_so(tmp_path):
    table = wide(Proband=IDS, Standort=SITES, Alter=range(20, 20 + N), Geschlecht=["m", "w"] * (N // 2))
    with pytest.warns(UserWarning, match="site_col=Standort.*--option"):
        cohort = loaded(tmp_path, table.assign(Diagnose=["Kontrolle", "Patient"] * (N // 2)))
    assert cohort.sites == ["Bonn", "Oslo", "Rome"] and cohort.table["age"].iloc[2] == 22
    assert cohort.table["sex"].tolist()[:2] == [1, 0] and cohort.table["label"].tolist()[:2] == [0, 1]


def test_a_volume_that_is_called_like_a_subject_is_no_id(tmp_path):
    table = wide(**{"": [f"Oslo_sub{k}" if k % 2 else f"Rome_sub{k}" for k in range(N)], "sex": ["M", "F"] * (N // 2)})
    table["SubCortGrayVol"] = RNG.permutation(np.arange(150_000, 150_000 + N))
    cohort = loaded(tmp_path, table, target="sex")
    assert cohort.table["subject"].iloc[0] == "Rome_sub0" and cohort.sites == ["Oslo", "Rome"]
    assert "SubCortGrayVol" in cohort.atlas.labels


def test_fields_of_uk_biobank_are_known_and_those_of_the_visit_with_the_scan_go_first(tmp_path):
    table = wide(
        eid=range(1000, 1000 + N), **{"31-0.0": [0, 1] * (N // 2), "21003-0.0": 40, "54-2.0": [11025, 11027] * 12}
    )
    table["21003-2.0"] = range(50, 50 + N)
    with pytest.warns(UserWarning, match="1 = male"):
        cohort = loaded(tmp_path, table, target="21003-2.0")
    assert cohort.target.name == "age" and cohort.targets[0] == 50 and cohort.sites == ["11025", "11027"]


def test_years_of_school_are_no_age_measures_no_sites_and_a_batch_is_one_only_where_nothing_else_is():
    table = wide(id=IDS, years_of_education=12, batch=[1, 2, 3] * (N // 3), location=SITES).astype(str)
    assert columns_for(table, "age") == []
    assert columns_for(table, "site") == ["location", "batch"]
    assert columns_for(table.drop(columns="location"), "site") == ["batch"]
    assert not fits_role(pd.Series(["2.51", "2.52", "2.51", "2.52"]), "site")


def test_the_column_that_names_controls_is_the_diagnosis_whatever_it_is_called():
    table = wide(id=IDS, cohort_arm=GROUPS, drug=["none", "ssri"] * (N // 2), good=["normal", "bad"] * (N // 2)).astype(
        str
    )
    assert columns_for(table, "label") == ["cohort_arm"]
    assert columns_for(table.drop(columns="cohort_arm"), "label") == []


@pytest.mark.parametrize(
    ("codes", "sexes"), [(["1"], {"1": 1.0}), (["2", "1"], {"1": 1.0, "2": 0.0}), (["0"], {"0": 0.0})]
)
def test_usual_codes_of_sex_are_read_with_a_warning_also_of_one_new_person(tmp_path, codes, sexes):
    with pytest.warns(UserWarning, match="1 = male"):
        meaning = sex_meaning(pd.Series(list(codes), name="sex"), None, pd.DataFrame(), tmp_path / "new.csv")
    assert {code: meaning[code] for code in codes} == sexes


def test_ages_in_months_become_years():
    assert ages(pd.Series(["120"], name="age_months"), "t").tolist() == [10]
    assert ages(pd.Series(["120", "132"], name="interview_age"), "t").tolist() == [10, 11]
    assert ages(pd.Series(["34"], name="interview_age"), "t").tolist() == [34]


def test_a_table_of_visits_is_joined_by_visit_and_else_by_the_earliest(tmp_path):
    first = pd.DataFrame({"id": ["a", "a", "b"], "eventname": ["bl", "y2", "y2"]})
    visits = {"id": ["a", "a", "b"], "eventname": ["y2", "bl", "bl"], "site": ["X", "Y", "Z"]}
    pd.DataFrame(visits).to_csv(tmp_path / "visits.csv", index=False)
    joined = join_tables(first, "id", [tmp_path / "first.csv", tmp_path / "visits.csv"])
    assert joined["site"].tolist() == ["Y", "X", "Z"] and joined["eventname"].tolist() == ["bl", "y2", "y2"]
    once = join_tables(first[["id"]].drop_duplicates(), "id", [tmp_path / "first.csv", tmp_path / "visits.csv"])
    assert once["site"].tolist() == ["Y", "Z"]


@pytest.mark.parametrize("column", ["sex", "Gender code"])
def test_sex_as_the_target_is_named_male_and_female(tmp_path, column):
    table = wide(id=IDS, site=SITES, **{"Gender code": [2, 1] * (N // 2)})
    with pytest.warns(UserWarning, match="1 = male"):
        cohort = loaded(tmp_path, table, target=column)
    assert cohort.target.classes == ("female", "male") and cohort.targets[:2].tolist() == [0, 1]
    assert loaded(tmp_path, table, target=f"{column}:case=F").target.classes == ("male", "female")
    assert cohort.target_counted == "12 with sex male" and not cohort.table["sex"].notna().any()


def test_a_diagnosis_that_goes_with_sex_stays_a_diagnosis(tmp_path):
    table = wide(id=IDS, site=SITES, sex=["M", "F"] * (N // 2), dx=["HC", "SZ"] * (N // 2))
    assert loaded(tmp_path, table, target="dx").target.classes == ("HC", "SZ")


def test_codes_in_a_column_called_diagnosis_are_classes(tmp_path):
    table = wide(id=IDS, site=np.repeat(["Oslo", "Rome"], N // 2), diagnosis=[1, 2, 3] * (N // 3))
    with pytest.warns(UserWarning, match="diagnosis:ordered"):
        cohort = loaded(tmp_path, table, target="diagnosis")
    assert cohort.target.kind == "classes" and cohort.target.classes == ("1", "2", "3")


def test_ids_that_begin_anew_at_every_site_of_a_table_are_named_with_the_site(tmp_path):
    table = wide(
        id=np.repeat(range(N // 3), 3), site=SITES, dx=["HC", "SZ", "HC", "HC"] * (N // 4), age=range(20, 20 + N)
    )
    cohort = loaded(tmp_path, table, target="dx")
    assert len(cohort) == N and cohort.table["subject"].iloc[0] == "Oslo_0"


def test_people_without_ids_are_called_by_their_lines(tmp_path):
    table = wide(site=SITES, dx=["HC", "SZ"] * (N // 2))
    with pytest.warns(UserWarning, match="no column of ids"):
        assert loaded(tmp_path, table).table["subject"].tolist()[:2] == ["line2", "line3"]
    guess = look(tmp_path / "all.csv")
    assert not guess.questions and guess.options["subject_col"] == "none"


def test_blanks_between_columns_and_a_sheet_of_notes_are_no_hindrance(tmp_path):
    table = wide(id=IDS, site=SITES, dx=["HC", "SZ"] * (N // 2))
    (tmp_path / "all.txt").write_text(table.to_string(index=False))
    assert len(load_cohort(tmp_path / "all.txt")) == N
    with pd.ExcelWriter(tmp_path / "book.xlsx") as book:
        pd.DataFrame({"note": ["read me"]}).to_excel(book, sheet_name="Info", index=False)
        table.to_excel(book, sheet_name="Daten", index=False)
    guess = look(tmp_path / "book.xlsx")
    assert not guess.questions and guess.options["sheet"] == "Daten"


def test_a_cell_that_holds_no_number_is_unknown_and_named(tmp_path):
    table = wide(id=IDS, site=SITES, dx=["HC", "SZ"] * (N // 2)).astype(str)
    table.iloc[4, 5], table.iloc[5, 5] = "2.5*", "."
    cohort = loaded(tmp_path, table)
    assert "1 cell holds no number and counts as unknown, as '2.5*'" in cohort.prepared[0]
    assert np.isnan(cohort.series[4][0, 2])


def test_another_version_of_a_table_beside_it_is_not_joined(tmp_path):
    table = wide(id=IDS, site=SITES)
    table.assign(age=30).to_csv(tmp_path / "v1.csv", index=False)
    table.assign(age=30, dx=["HC", "SZ"] * (N // 2), lh_region0_thickness=1.5).to_csv(tmp_path / "v2.csv", index=False)
    guess = look(tmp_path / "v1.csv")
    assert "v2.csv is not joined" in guess.remarks["tables"]
    assert [question.option for question in guess.questions] == ["label_col"]


def test_a_target_that_nobody_else_has_says_who_was_left_out(tmp_path):
    table = wide(id=IDS, site=["", "Oslo"] * (N // 2), dx=["HC", "SZ"] * (N // 2))
    with pytest.raises(DataError, match=r"same for everybody.*12 people were left out, as: no site"):
        loaded(tmp_path, table, target="dx")


def test_dummies_of_a_site_are_no_site_and_columns_m_f_and_ranges_of_age_are_understood(tmp_path):
    dummies = {f"Site{k}": [int(j % 3 == k) for j in range(N)] for k in (1, 2)}
    table = wide(id=IDS, dx=["Nondemented", "Demented"] * (N // 2), **{"M/F": ["M", "F"] * (N // 2)}, **dummies)
    table.assign(Age=["22-25", "36+"] * (N // 2)).to_csv(tmp_path / "all.csv", index=False)
    (question,) = look(tmp_path / "all.csv").questions
    assert "Site1, Site2 are 0 and 1 each" in question.text and not set(dummies) & set(question.choices)
    with pytest.warns(UserWarning, match="holds ranges, as 22-25"):
        cohort = loaded(tmp_path, table.assign(Age=["22-25", "36+"] * (N // 2), site=SITES))
    assert cohort.table["age"].tolist()[:2] == [23.5, 36] and cohort.table["sex"].tolist()[:2] == [1, 0]
    assert cohort.table["label"].tolist()[:2] == [0, 1]
