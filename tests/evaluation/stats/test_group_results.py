"""For whom it works, where the truth is known."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from brainroam.evaluation.stats.groups import group_tests, groups_by_site, groups_pooled, pseudo_values
from brainroam.evaluation.stats.paired import nadeau_bengio


def study(seed=0, n_sites=12, per_site=60, moved=0.0):
    """Sites whose effects differ; the scores of the restless third are moved."""
    rng = np.random.default_rng(seed)
    n = n_sites * per_site
    site = np.repeat([f"S{e:02}" for e in range(n_sites)], per_site)
    people = pd.DataFrame({"subject": [f"p{i:04}" for i in range(n)], "label": np.tile([0, 1], n // 2)})
    people["mean_fd"], people["age"] = rng.lognormal(-2, 0.5, n), rng.normal(15, 4, n)
    people["sex"] = (rng.random(n) < 0.8).astype(int)
    restless = (people["mean_fd"] > people["mean_fd"].quantile(2 / 3)).to_numpy()
    effect = np.repeat(1.2 + 0.3 * rng.normal(size=n_sites), per_site)
    score = effect * (people["label"] - 0.5) + moved * restless + rng.normal(size=n)
    runs = people[["subject", "label"]].assign(
        method="m", protocol="loso", seed=0, site=site, score=score, predicted=(score >= 0).astype(int)
    )
    return runs, people


def test_groups_compare_people_of_one_site_and_one_group():
    runs, people = study(n_sites=3)
    by_site = groups_by_site(runs, people, "m")
    found = groups_pooled(by_site).set_index(["covariate", "group"])
    women = runs.merge(people, on=["subject", "label"]).query("sex == 0")
    sums = weights = 0.0
    for site, here in women.groupby("site"):
        weight = min(here["label"].sum(), (1 - here["label"]).sum(), 20)
        expected = roc_auc_score(here["label"], here["score"])
        sums, weights = sums + weight * expected, weights + weight
        row = by_site[(by_site["group"] == "female") & (by_site["site"] == site)].iloc[0]
        assert row["auc"] == pytest.approx(expected) and row["low"] <= expected <= row["high"]
    row = found.loc[("sex", "female")]
    assert row["auc"] == pytest.approx(sums / weights) and row["low"] <= row["auc"] <= row["high"]
    cases = women[women["label"] == 1]
    assert row["sensitivity"] == pytest.approx(cases["predicted"].mean())
    assert found["n"].groupby(level=0).sum().tolist() == [180, 180, 180] and len(found) == 8


def rejected(lost, n_worlds=400, k=12, m=10):
    """Mean difference and share of worlds in which two groups are told apart; the second has a smaller effect."""
    rng, differences, ps = np.random.default_rng(1), [], []
    for _ in range(n_worlds):
        parts = []
        for effect in (1.2, 1.2 - lost):
            of_site = effect + 0.3 * rng.normal(size=(k, 1))
            cases, controls = of_site + rng.normal(size=(k, m)), rng.normal(size=(k, m))
            parts += [(cases[:, :, None] > controls[:, None]).sum(axis=(1, 2)), np.full(k, m * m)]
        test = nadeau_bengio(pseudo_values(*parts), 0.0)
        differences.append(test.mean)
        ps.append(test.p)
    return np.mean(differences), np.mean(np.array(ps) < 0.05)


def test_groups_that_differ_are_told_apart_and_others_are_not():
    """The AUC of the second group is Phi(0.3 / sqrt(2.09)) instead of Phi(1.2 / sqrt(2.09))."""
    truth = norm.cdf(0.3 / np.sqrt(2.09)) - norm.cdf(1.2 / np.sqrt(2.09))
    difference, power = rejected(lost=0.9)
    assert difference == pytest.approx(truth, abs=0.01) and power > 0.8
    difference, level = rejected(lost=0.0)
    assert abs(difference) < 0.01 and 0.02 < level < 0.08


def test_scores_moved_in_one_group_change_its_decisions_not_its_auc():
    found = group_tests(groups_by_site(*study(moved=1.0), "m")).set_index(["covariate", "measure"])["gap"]
    assert abs(found["motion", "auc"]) < 0.1
    assert found["motion", "sensitivity"] > 0.1 and found["motion", "specificity"] < -0.2


def test_a_group_of_one_site_cannot_be_tested():
    runs, people = study(n_sites=4)
    people.loc[runs["site"] != "S00", "sex"] = 1
    found = group_tests(groups_by_site(runs, people, "m")).set_index(["covariate", "measure"])
    assert np.isnan(found.loc[("sex", "auc"), "p"]) and np.isfinite(found.loc[("age", "auc"), "p"])


def test_a_group_of_few_people_has_no_interval_but_a_reason():
    runs, people = study(n_sites=3, per_site=20)
    people.loc[np.arange(60) % 20 >= 4, "sex"] = 1
    people.loc[np.arange(60) % 20 < 4, "sex"] = 0
    found = groups_pooled(groups_by_site(runs, people, "m")).set_index("group")
    assert np.isnan(found.loc["female", ["low", "high"]].astype(float)).all() and found.loc["female", "reason"]
    assert found.loc["male", "low"] < found.loc["male", "auc"] < found.loc["male", "high"]
    assert found.loc["male", "reason"] == ""


def test_thirds_of_infants_and_of_those_who_hardly_move_keep_names_of_their_own():
    runs, people = study(n_sites=3)
    people["age"], people["mean_fd"] = people["age"] / 1000, people["mean_fd"] / 1000
    found = groups_pooled(groups_by_site(runs, people, "m"))
    assert found.groupby("covariate").size().to_dict() == {"sex": 2, "age": 3, "motion": 3}
    assert set(found.loc[found["covariate"] != "sex", "n"]) == {60}


def rows_of_groups(*rows):
    columns = ["covariate", "group", "site", "n", "n_cases", "auc", "sensitivity", "specificity"]
    return pd.DataFrame([("sex", *row) for row in rows], columns=columns)


def test_four_women_who_were_all_read_rightly_are_no_group_to_test():
    """Sites with 1, 1 and 2 female cases, AUC 1.00 each: once "lower for male by .26, corrected p .041"."""
    women = [("female", f"S{e}", 12, cases, 1.0, 1.0, 0.8) for e, cases in enumerate((1, 1, 2))]
    men = [("male", f"S{e}", 40, 20, auc, 0.7, 0.7) for e, auc in enumerate((0.73, 0.75, 0.74))]
    by_site = rows_of_groups(*women, *men)
    assert groups_pooled(by_site)["low"].isna().iloc[0]
    assert group_tests(by_site)["p"].isna().all()


def test_values_at_the_ceiling_are_no_surer_than_their_few_people():
    """Every site of the first group has an AUC of 1: the scatter is that of the second alone, the variance is not."""
    rng = np.random.default_rng(0)
    few = [("female", f"S{e}", 8, 4, 1.0, 1.0, 1.0) for e in range(8)]
    many = [("male", f"S{e}", 60, 30, 0.9 + 0.01 * rng.normal(), 0.9, 0.9) for e in range(8)]
    found = group_tests(rows_of_groups(*few, *many)).set_index("measure")
    # 32 cases all found: 33 of 34, so a standard error of .03 at least, and that of 240 cases beside it
    least = np.sqrt((33 / 34) * (1 / 34) / 32 + (217 / 242) * (25 / 242) / 240)
    half = (found["high"] - found["low"]) / 2
    assert half["sensitivity"] >= 2.3 * least and half["auc"] > 0.03
    assert found.loc["sensitivity", "gap"] == pytest.approx(-0.1)


def test_shares_of_groups_are_those_of_people_counted_by_hand():
    """Specificity counts controls: 10 of 12 and 3 of 4 are 13 of 16, not weighted by cases or by everybody."""
    by_site = rows_of_groups(("male", "A", 20, 8, 0.7, 6 / 8, 10 / 12), ("male", "B", 20, 16, 0.8, 12 / 16, 3 / 4))
    pooled = groups_pooled(by_site).iloc[0]
    assert pooled["specificity"] == pytest.approx(13 / 16) and pooled["sensitivity"] == pytest.approx(18 / 24)
    assert pooled["auc"] == pytest.approx((8 * 0.7 + 4 * 0.8) / 12)  # by the rarer class: 8 cases, 4 controls
