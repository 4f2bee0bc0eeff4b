"""Clinical tables: few columns of any kind become measures, nobody is lost for an empty cell, and all of it is said."""

import numpy as np
import pandas as pd
import pytest

from brainroam.data.detect import look
from brainroam.data.loading import load_cohort
from brainroam.data.readers.which_columns import choose_measures, is_clinical, measures_condition, measures_of
from brainroam.methods.registry import method_info
from brainroam.methods.saving import load_method, save_method
from brainroam.methods.tuning import TunedMethod


def write_clinical(path, n_sites=4, n_per_site=60, seed=0):
    """Numbers, 0 and 1, codes and words; pupils unknown for some, glucose for everybody of one site."""
    rng = np.random.default_rng(seed)
    n = n_sites * n_per_site
    dead = rng.integers(0, 2, n)
    table = pd.DataFrame({"study": np.repeat([f"T{k}" for k in range(n_sites)], n_per_site), "age": 40 + 9 * dead})
    table["age"] += rng.integers(-20, 20, n)
    table["motor"] = np.where(rng.random(n) < 0.3 + 0.3 * dead, "1/2", np.where(rng.random(n) < 0.5, "4/3", "5/6"))
    table["ct"] = rng.choice(["I", "II", "III"], n)
    table["hypoxia"] = rng.integers(0, 2, n)
    table["pupils"] = np.where(rng.random(n) < 0.2, "", rng.choice(["both", "none", "one"], n))
    table["glucose"] = rng.lognormal(2, 0.3, n).round(1).astype(str)
    table.loc[table["study"] == "T1", "glucose"] = ""
    table["mort"] = dead
    table.to_csv(path, index=False)
    return table


def test_a_clinical_table_needs_its_site_and_its_target_only(tmp_path):
    write_clinical(tmp_path / "trial.csv")
    guess = look(tmp_path / "trial.csv", {"site_col": "study", "target": "mort"})
    assert guess.questions == [] and guess.options["measures"] == ["*", "age"]
    cohort = load_cohort(tmp_path / "trial.csv", target="mort", **guess.options)
    assert (len(cohort), len(cohort.excluded), cohort.target.name) == (240, 0, "mort")
    made = ["motor=1/2", "motor=4/3", "motor=5/6", "ct=I", "ct=II", "ct=III", "hypoxia"]
    made += ["pupils=both", "pupils=none", "pupils=one", "glucose", "pupils is missing", "glucose is missing", "age"]
    assert list(cohort.atlas.labels) == made
    said = cohort.prepared[0]
    assert "levels of motor (1/2, 4/3, 5/6)" in said and "who lacks pupils, glucose" in said


def test_new_people_get_the_columns_of_the_training_whatever_levels_they_have(tmp_path):
    write_clinical(tmp_path / "trial.csv")
    cohort = load_cohort(tmp_path / "trial.csv", target="mort", site_col="study", measures=["*", "age"])
    model = TunedMethod(method_info("fc-ridge"), "fast").fit(cohort)
    path = save_method(tmp_path / "model", model, cohort)
    new = pd.DataFrame({"id": ["a", "b"], "age": [70, 70], "motor": ["1/2", "5/6"], "ct": ["II", "VI"]})
    new.assign(hypoxia=1, pupils=["", "both"], glucose=["9", ""]).to_csv(tmp_path / "new.csv", index=False)
    from brainroam.cli.source import source_of

    people = source_of(str(tmp_path / "new.csv"), {}).as_in_training(path).load(require_label=False)
    row = dict(zip(people.atlas.labels, people.series[1][0], strict=True))
    assert (row["ct=I"], row["ct=III"], row["glucose is missing"], row["pupils=both"]) == (0, 0, 1, 1)
    score = load_method(path, people)[0].score(people)
    assert np.isfinite(score).all() and score[0] > score[1]  # the worse motor score


def test_who_lacks_most_columns_stays_and_who_lacks_all_is_left_out(tmp_path):
    table = write_clinical(tmp_path / "trial.csv").astype(object)
    table.loc[0, ["motor", "ct", "hypoxia"]] = ""
    table.loc[1, ["motor", "ct", "hypoxia", "pupils", "glucose"]] = ""
    table.to_csv(tmp_path / "trial.csv", index=False)
    cohort = load_cohort(tmp_path / "trial.csv", target="mort", site_col="study")
    assert cohort.excluded["subject"].tolist() == ["line3"]


def test_a_table_of_a_brain_keeps_codes_words_and_scores_out():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({f"lh_area_{k}": rng.normal(size=40).astype(str) for k in range(40)})
    table = table.assign(iq="100", stage=["I", "II"] * 20, smoker=["0", "1"] * 20, qc=rng.normal(size=40).astype(str))
    measures, left = choose_measures(table)
    assert len(measures.columns) == 40 and set(left) == {"iq", "stage", "smoker", "qc"}
    asked = measures_of(table, ["lh_*", "stage", "smoker"])
    assert list(asked.columns[-2:]) == ["stage=II", "smoker"]


@pytest.mark.parametrize("name", ["Adiantum_capillus", "Adlercreutzia", "Cdria_x", "original_glcm_Id", "Handroanthus"])
def test_a_name_is_no_score_because_it_begins_like_one(name):
    rng = np.random.default_rng(1)
    words = ["".join(rng.choice(list("bcdfgklmnprstvz"), 7)) for _ in range(60)]
    wide = pd.DataFrame(rng.normal(size=(30, 60)).astype(str), columns=words)
    assert name in measures_of(wide.assign(**{name: rng.normal(size=30).astype(str)})).columns
    scores = ["ADI_R_SOCIAL_TOTAL_A", "ados_total", "CDRSB", "panss_positive", "EcogPtMem", "APOE4", "hand"]
    assert not set(scores) & set(measures_of(wide.assign(**dict.fromkeys(scores, wide[words[0]]))).columns)


def test_marks_of_quality_are_measures_where_they_are_the_table():
    rng = np.random.default_rng(1)
    tissues = [f"{kind}_{t}" for kind in ("snr", "snrd", "icvs", "rpve", "tpm_overlap") for t in ("csf", "gm", "wm")]
    others = "cjv cnr efc fber fwhm_avg fwhm_x fwhm_y fwhm_z inu_med inu_range qi_1 qi_2 size_x size_y size_z wm2max"
    others += " snr_total snrd_total spacing_x spacing_y spacing_z"
    names = [*tissues, *others.split(), *(f"summary_{t}_{k}" for t in ("bg", "csf", "gm", "wm") for k in range(8))]
    table = pd.DataFrame(rng.normal(size=(30, len(names))).astype(str), columns=names)
    assert list(measures_of(table).columns) == names and not is_clinical(names)


def test_a_short_scale_is_no_set_of_classes_that_a_region_could_tell():
    rng = np.random.default_rng(3)
    n = 400
    site = np.repeat([f"S{k}" for k in range(20)], n // 20)
    table = pd.DataFrame({f"lh_area_{k}": rng.normal(size=n).astype(str) for k in range(60)})
    people = pd.DataFrame({"site": site, "mmse": np.minimum(30, rng.poisson(4, n) + 18).astype(str)})
    from brainroam.data.readers.which_columns import class_codes

    assert class_codes(people.assign(label=np.nan), "mmse").isna().all()
    assert not class_codes(people.assign(label=np.nan, stage=rng.integers(0, 4, n).astype(str)), "stage").isna().any()
    # Ten people of each class, one pair at a site or two: an AUC of 1 there is chance.
    few = pd.Series(np.where(rng.random(n) < 0.05, 1.0, np.where(rng.random(n) < 0.05, 0.0, np.nan)))
    assert not measures_condition(table.astype(float).to_numpy(), few, people["site"]).any()
