"""What is left of a score without motion, age and sex, against references computed otherwise."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import pearsonr
from sklearn.linear_model import LinearRegression
from sklearn.metrics import roc_auc_score

from brainroam.evaluation.stats.confounding import confounding, confounding_by_site, without


@pytest.fixture
def study():
    """Three sites; cases move more, and the score is half diagnosis and half motion."""
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"subject": [f"p{i:03}" for i in range(180)], "label": np.tile([0, 1], 90)})
    people["mean_fd"] = rng.lognormal(-2 + 0.8 * people["label"], 0.5)
    people["age"], people["sex"] = rng.normal(15, 4, 180), rng.integers(2, size=180)
    site = np.repeat(["A", "B", "C"], 60)
    score = 0.8 * people["label"] + np.log(people["mean_fd"]) + rng.normal(size=180)
    runs = people[["subject", "label"]].assign(method="m", protocol="loso", seed=0, site=site, score=score)
    return runs, people


def test_the_slope_taken_out_is_that_of_a_regression_with_the_class(study):
    runs, people = study
    found = confounding_by_site(runs, people).set_index("site")
    for site, here in runs.merge(people, on=["subject", "label"]).groupby("site"):
        x = np.column_stack([np.log(here["mean_fd"]), here["age"], here["sex"]])
        slope = LinearRegression().fit(np.column_stack([here["label"], x]), here["score"]).coef_[1:]
        adjusted = roc_auc_score(here["label"], here["score"] - x @ slope)
        assert found.loc[site, "auc_without_all"] == pytest.approx(adjusted)
        slope = LinearRegression().fit(np.column_stack([here["label"], x[:, 0]]), here["score"]).coef_[1]
        adjusted = roc_auc_score(here["label"], here["score"] - x[:, 0] * slope)
        assert found.loc[site, "auc_without_motion"] == pytest.approx(adjusted)
        centred = here.groupby("label")[["score"]].transform("mean")["score"]
        motion = np.log(here["mean_fd"]) - np.log(here["mean_fd"]).groupby(here["label"]).transform("mean")
        assert found.loc[site, "r_motion"] == pytest.approx(pearsonr(here["score"] - centred, motion)[0])


def test_the_size_of_the_head_is_taken_out_like_motion(study):
    runs, people = study
    found = confounding(runs, people.assign(head_size=np.log(people["mean_fd"]))).iloc[0]
    assert found["auc_without_head_size"] == found["auc_without_motion"] < found["auc"]
    assert found["r_head_size"] == found["r_motion"]


def test_motion_alone_is_learned_elsewhere(study):
    runs, people = study
    found = confounding(runs, people).iloc[0]
    assert found["motion_alone"] > 0.75 and 0.35 < found["age_sex_alone"] < 0.65
    assert found["auc_without_motion"] < found["auc"] - 0.03
    motion = people["mean_fd"]
    flipped = people.assign(mean_fd=motion.where(runs["site"] != "A", 1 / motion))
    assert confounding_by_site(runs, flipped).set_index("site").loc["A", "motion_alone"] < 0.3  # direction of B and C


def test_whoever_was_scanned_at_several_sites_does_not_train_for_them(study):
    runs, people = study
    n = len(runs)
    who = runs["subject"].where(np.arange(n) % 60 < 45, [f"t{i % 60}" for i in range(n)])  # 15 of each site travelled
    runs = runs.assign(person=who)
    of_a = runs.loc[runs["site"] == "A", "subject"]
    elsewhere = runs["person"].isin(runs.loc[runs["site"] == "A", "person"]) & ~runs["subject"].isin(of_a)
    found = [
        confounding_by_site(runs, table).set_index("site").loc["A", "age_sex_alone"]
        for table in (people, people.assign(age=people["age"].where(~elsewhere, 40 + 20 * people["label"])))
    ]
    assert found[0] == found[1]


def test_unknown_covariates_are_nan_and_nobody_is_invented(study):
    runs, people = study
    found = confounding(runs, people.drop(columns="mean_fd")).iloc[0]
    assert np.isnan(found["motion_alone"]) and np.isnan(found["r_motion"]) and np.isnan(found["auc_without_all"])
    assert np.isfinite(found["auc"]) and np.isfinite(found["age_sex_alone"])


def test_the_difference_between_classes_is_not_taken_away():
    label = np.tile([0, 1], 50)
    x = np.random.default_rng(0).normal(size=(100, 1)) + 2 * label[:, None]
    assert roc_auc_score(label, without(3.0 * label, label, x)) == 1.0


def test_both_aucs_are_of_the_sites_where_something_can_be_taken_out(study):
    """A site of two cases and two controls has an AUC, but no slope."""
    runs, people = study
    few = runs["site"].eq("C") & ~runs["subject"].isin(runs[runs["site"] == "C"]["subject"][:4])
    small, large = runs[~few], runs[runs["site"] != "C"]
    found, expected = confounding(small, people).iloc[0], confounding(large, people).iloc[0]
    assert (found["n_sites"], found["of_sites"], expected["of_sites"]) == (2, 3, 2)
    columns = ["auc", "auc_without_motion", "auc_without_age_sex", "auc_without_all"]
    assert found[columns].tolist() == expected[columns].tolist()


def test_of_several_classes_the_slope_is_that_of_a_regression_with_all_of_them():
    rng = np.random.default_rng(0)
    code, site = np.tile([0, 1, 2, 1], 45), np.repeat(["A", "B", "C"], 60)
    people = pd.DataFrame({"subject": [f"p{i:03}" for i in range(180)], "mean_fd": rng.lognormal(-2 + 0.3 * code, 0.5)})
    people["age"], people["sex"] = rng.normal(15, 4, 180), rng.integers(2, size=180)
    motion, names = np.log(people["mean_fd"]), ["HC", "MDD", "SCZ"]
    scores = {f"score_{name}": (code == k) + motion + rng.normal(size=180) for k, name in enumerate(names)}
    runs = people[["subject"]].assign(method="m", protocol="loso", seed=0, site=site, label=code, **scores)
    found = confounding_by_site(runs, people, classes=names).set_index("site")
    for name, here in runs.assign(motion=motion).groupby("site"):
        design = np.column_stack([np.eye(3)[here["label"]], here["motion"]])
        slopes = [LinearRegression(fit_intercept=False).fit(design, here[key]).coef_[3] for key in scores]
        left = [here[key] - slope * here["motion"] for key, slope in zip(scores, slopes, strict=True)]
        for column, values in (("auc", [here[key] for key in scores]), ("auc_without_motion", left)):
            expected = np.mean([roc_auc_score(here["label"] == k, value) for k, value in enumerate(values)])
            assert found.loc[name, column] == pytest.approx(expected)
    means = confounding(runs, people, classes=names).iloc[0]
    assert means["auc_without_motion"] > means["auc"] + 0.03 and 0.55 < means["motion_alone"] < 0.8
    rare = runs.assign(label=runs["label"].mask((runs["label"] == 2) & (runs.index > 6), 1))  # 2 people of SCZ at A
    assert np.isfinite(confounding_by_site(rare, people, classes=names)["auc_without_all"]).all()
