"""External validation of predictions whose truth is known."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import brier_score_loss, roc_auc_score

from brainroam.data.target import TWO_CLASSES, Number
from brainroam.evaluation.external import validate
from brainroam.evaluation.stats import verdict as models
from brainroam.evaluation.stats.verdict import verdict


def table(rng, site, n, gap):
    label = np.tile([0.0, 1.0], n // 2)
    probability = 1 / (1 + np.exp(-(gap * label + rng.normal(size=n))))
    predicted = (probability >= 0.6).astype(int)
    return pd.DataFrame({"site": site, "label": label, "probability": probability, "predicted": predicted})


def test_each_site_is_measured_by_itself_and_people_without_a_label_do_not_count():
    rng = np.random.default_rng(0)
    people = pd.concat([table(rng, "A", 60, 1.0), table(rng, "B", 40, 2.0), table(rng, "C", 10, 0.0)])
    people.loc[people["site"] == "C", "label"] = 1.0
    people = pd.concat([people, people.assign(site="A", label=np.nan), people.assign(site="D", label=np.nan)])
    found = validate(people).set_index("site")
    assert found["n"].tolist() == [60, 40, 10]
    for name in ("A", "B"):
        here = people[(people["site"] == name) & people["label"].notna()]
        row, label, p = found.loc[name], here["label"], here["probability"]
        assert row["auc"] == pytest.approx(roc_auc_score(label, p)) and row["low"] < row["auc"] < row["high"]
        assert row["brier"] == pytest.approx(brier_score_loss(label, p))
        sides = [(here["predicted"] == c)[label == c].mean() for c in (0, 1)]
        assert row["balanced_acc"] == pytest.approx(np.mean(sides))
        assert (row["mean_probability"], row["share"]) == pytest.approx((p.mean(), 0.5))
    assert found.loc["C", ["auc", "low", "high", "balanced_acc"]].isna().all() and found.loc["C", "share"] == 1
    assert validate(people.drop(columns="label")).empty


def test_what_is_foretold_is_the_prediction_interval_of_the_inner_sites():
    sites = pd.DataFrame({"auc": [0.6, 0.7, 0.65, 0.8], "n_cases": [20] * 4, "n_controls": [15] * 4})
    told, judged = (
        TWO_CLASSES.validation.foretold(sites, models),
        verdict(sites["auc"], sites["n_cases"], sites["n_controls"]),
    )
    assert (told["low"], told["high"], told["n_sites"]) == (judged.next_low, judged.next_high, 4)
    assert TWO_CLASSES.validation.foretold(sites[:3], models) == {}


def test_sites_inside_below_and_above_what_was_foretold_are_told_apart():
    sites = pd.DataFrame({"site": list("ABCD"), "n": 40, "n_cases": 20, "auc": [0.7, 0.55, 0.4, 0.95],
                          "low": [0.6, 0.4, 0.3, 0.8], "high": [0.8, 0.7, 0.5, 0.99]})  # fmt: skip
    (places,) = TWO_CLASSES.validation.placed(sites, {"n_sites": 9, "auc": 0.75, "low": 0.6, "high": 0.9})
    assert "Inside: A; Below, but its interval reaches it: B; Below with its whole interval: C" in places
    assert "Above, but its interval reaches it: D" in places
    few = pd.DataFrame({"auc": [0.7], "n_cases": 20, "n_controls": 20})
    mean, alone = TWO_CLASSES.validation.agreement(sites, few, models)
    assert "0.65" in mean and "foretells no AUC" in alone


def test_a_site_whose_scores_point_the_other_way_is_named_and_sites_do_not_predict_each_other():
    sites = pd.DataFrame({"site": ["A", "B"], "n": 40, "n_cases": 20, "auc": [0.9, 0.1], "low": [0.7, 0.0]})
    expected = {"n_sites": 5, "auc": 0.8, "low": 0.6, "high": 0.9}
    told, unsure = (
        " ".join(TWO_CLASSES.validation.placed(sites.assign(high=[1.0, high]), expected)) for high in (0.3, 0.6)
    )
    assert "reversed at B" in told and "reversed" not in unsure
    inner = pd.DataFrame({"auc": [0.8] * 5, "n_cases": 20, "n_controls": 20})
    together = " ".join(TWO_CLASSES.validation.agreement(sites.assign(high=[1.0, 0.3]), inner, models))
    assert "each other" not in together


def test_a_person_with_several_scans_counts_once():
    people = table(np.random.default_rng(3), "A", 40, 1.0).assign(subject=[f"p{k}" for k in range(40)])
    scans = pd.concat([people.assign(person=people["subject"], subject=people["subject"] + run) for run in "abc"])
    pd.testing.assert_frame_equal(validate(scans), validate(people))


def test_the_correlation_observed_at_an_exchangeable_site_lies_inside_what_was_foretold_as_often_as_promised():
    """The interval of the true correlation left out 46 of 100 sites of eight people, who scatter so much."""
    rng = np.random.default_rng(1)
    inside = []
    for _ in range(150):
        z = np.arctanh(0.4) + 0.1 * rng.normal(size=21)
        n = np.array([30] * 20 + [8])
        r = np.tanh(z + rng.normal(size=21) / np.sqrt(n - 3))
        inner = pd.DataFrame(
            {"site": "A", "n": n, "r": r, "level": 0.0, "level_var": 1 / n, "off": rng.normal(size=21)}
        )
        here, inner = pd.DataFrame({"n": [8], "spread": 1.0}), inner.assign(off_sd=1.0, spread=1.0)
        told = Number("x").validation.foretold(inner[:20], here, models)
        inside.append(told["r_low"][0] <= r[-1] <= told["r_high"][0])
    assert np.mean(inside) > 0.9
