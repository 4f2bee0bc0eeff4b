"""Any column as the target: its kind, who has none, and that nothing tells it to a method that scores."""

import numpy as np
import pandas as pd
import pytest

import brainroam
from brainroam.data.columns import of_the_condition
from brainroam.data.target import Classes, Number, Ordered, TargetRequest
from brainroam.data.target_column import guess_kind, with_target
from brainroam.errors import DataError, UsageError


@pytest.fixture(scope="module")
def cohort():
    made = brainroam.make_cohort(n_sites=3, n_per_site=20, n_rois=8)
    rng = np.random.default_rng(0)
    iq = rng.normal(100, 15, 60).round()
    iq[3] = -9999
    columns = {"iq": iq, "viq": iq + rng.normal(0, 3, 60), "stage": rng.integers(0, 4, 60), "note": "x"}
    group = np.array(["HC", "MDD", "SCZ"])[rng.integers(0, 3, 60)]
    return made.with_columns(pd.DataFrame({**columns, "group_name": group}))


def test_a_number_leaves_the_table_and_codes_for_unknown_are_left_out_with_the_reason(cohort):
    found = with_target(cohort, "IQ")
    assert found.target == Number("iq")
    assert "iq" not in found.table and len(found) == 59
    assert "-9999" in found.excluded["reason"].iloc[0]
    assert (found.targets == found.table["label"]).all()


def test_age_as_the_target_is_no_covariate_and_says_so(cohort):
    with pytest.warns(UserWarning, match="age"):
        found = with_target(cohort, "age:log")
    assert found.covariate_names == ("sex",)
    assert np.allclose(np.exp(found.targets), cohort.table["age"])
    with pytest.raises(UsageError, match="target"):
        found.covariates(["age"])


def test_hiding_labels_hides_the_target_and_what_is_nearly_the_target(cohort):
    hidden = with_target(cohort, "iq").without_labels()
    assert hidden.table[["label", "viq"]].isna().all(axis=None)
    assert hidden.table["age"].notna().all()


def test_few_numbers_have_to_be_named_and_words_are_classes(cohort):
    with pytest.raises(UsageError, match="stage"):
        with_target(cohort, "stage")
    coded = cohort.table["stage"].astype(str).where(np.arange(len(cohort)) > 3, "-9999")
    with pytest.raises(UsageError, match="4 different numbers"):
        with_target(cohort.with_columns(pd.DataFrame({"stage": coded})), "stage")
    assert with_target(cohort, "stage:ordered").target.classes == ("0", "1", "2", "3")
    assert with_target(cohort, "group_name").target == Classes("group_name", ("HC", "MDD", "SCZ"))
    assert guess_kind(pd.Series(["0", "1", "1"])) == "two classes"


@pytest.mark.parametrize("mapping", [False, True])
def test_words_are_steps_in_the_order_that_is_named(cohort, mapping):
    order = ("none", "mild", "moderate", "severe")
    words = pd.DataFrame({"grade": np.resize(["severe", "Mild", "mild ", "none", "moderate"], 60)})
    words.loc[5, "grade"] = ""
    graded = cohort.with_columns(words)
    asked = {"column": "grade", "kind": "ordered", "order": order} if mapping else f"grade:ordered={', '.join(order)}"
    found = with_target(graded, asked)
    assert found.target == Ordered("grade", order)
    assert found.table["label"][:5].tolist() == [3, 1, 1, 0, 2] and len(found) == 59
    with pytest.raises(DataError, match="ordered=Mild,moderate,severe"):
        with_target(graded, "grade:ordered")
    with pytest.raises(DataError, match="no step"):
        with_target(graded, "grade:ordered=none,mild,severe")
    with pytest.raises(UsageError, match="order"):
        with_target(graded, {"column": "grade", "kind": "classes", "order": order})


def test_new_people_with_an_unnamed_step_have_no_known_value(cohort):
    graded = cohort.with_columns(pd.DataFrame({"grade": np.resize(["mild", "severe", "extreme"], 60)}))
    found = with_target(graded, "grade:ordered=none,mild,severe", require_label=False)
    assert found.target.classes == ("mild", "severe") and found.table["label"].isna().sum() == 20


@pytest.mark.parametrize("kind", ["classes", "ordered"])
def test_new_people_of_whom_nobody_has_a_value_are_no_error(cohort, kind):
    found = with_target(cohort.with_columns(pd.DataFrame({"grade": [""] * 60})), f"grade:{kind}", require_label=False)
    assert found.target.kind == kind and found.table["label"].isna().all()


@pytest.mark.parametrize("months", [False, True])
def test_a_usual_covariate_in_another_unit_is_nearly_the_target(cohort, months):
    days = pd.DataFrame({"age_days": (cohort.table["age"] * 365.25).round()})
    table = cohort.table.assign(age=cohort.table["age"].where((cohort.table["site"] != "S01") | (not months), 12 * 7))
    given = cohort.made_of(cohort.series, table).with_columns(days)
    found = with_target(given, "age_days")
    assert "age" in of_the_condition(found.table, ["age", "sex"], found.target)
    hidden = found.using(["sex"]).without_labels().table
    assert hidden["age"].isna().all() and hidden["sex"].notna().all()


def test_what_cannot_be_a_target_is_refused(cohort):
    with pytest.raises(UsageError, match="column"):
        with_target(cohort, "iqq")
    with pytest.raises(DataError, match="logarithm"):
        with_target(cohort.with_columns(pd.DataFrame({"iq": np.arange(60) - 5.0})), "iq:log")
    with pytest.raises(UsageError, match="transform"):
        TargetRequest.of({"column": "stage", "kind": "classes", "transform": "log"})
    with pytest.raises(DataError, match="everybody"):
        with_target(cohort.with_columns(pd.DataFrame({"iq": np.full(60, 7.5)})), "iq:number")


def test_a_method_for_two_classes_is_refused_in_one_sentence(cohort):
    with pytest.raises(DataError, match="iq"):
        _ = with_target(cohort, "iq").labels


def test_a_cohort_keeps_its_target_on_disk_and_in_subsets(cohort, tmp_path):
    found = with_target(cohort, "iq")
    again = brainroam.load_cohort(found.save(tmp_path / "c.npz"))
    assert again.target == found.target and again.manifest_hash == found.manifest_hash
    assert found.subset([1, 2]).target == found.target
    assert found.manifest_hash != cohort.manifest_hash


def test_a_score_named_as_the_diagnosis_says_how_to_predict_it(tmp_path):
    rng = np.random.default_rng(0)
    rows = ["participant_id\tsite\tFIQ\tdx"]
    for i in range(30):
        rows.append(f"p{i:02d}\t{'AB'[i % 2]}\t{80 + i}\t{('HC', 'MDD', 'BD')[i % 3]}")
        np.save(tmp_path / f"p{i:02d}.npy", rng.normal(size=(20, 4)))
    (tmp_path / "participants.tsv").write_text("\n".join(rows))
    with pytest.raises(UsageError, match="--target FIQ"):
        brainroam.load_cohort(tmp_path, label_col="FIQ")
    assert brainroam.load_cohort(tmp_path, target="FIQ").target.kind == "number"
    assert brainroam.load_cohort(tmp_path, target="dx").target.classes == ("HC", "BD", "MDD")
