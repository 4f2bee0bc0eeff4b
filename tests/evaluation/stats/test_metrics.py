import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sk
from statsmodels.api import Logit, add_constant

from brainroam.errors import DataError
from brainroam.evaluation.stats.metrics import (
    auc,
    aucs,
    average_seeds,
    calibration,
    over_sites,
    site_metrics,
)

# Few distinct values, so that ties are common.
people = st.lists(st.tuples(st.integers(0, 1), st.integers(-5, 5)), min_size=4, max_size=40).filter(
    lambda rows: 2 <= sum(label for label, _ in rows) <= len(rows) - 2
)


def columns(rows):
    label, score = (np.array(column) for column in zip(*rows, strict=True))
    return label, score.astype(float)


@given(people)
def test_auc_is_that_of_scikit_learn(rows):
    label, score = columns(rows)
    assert auc(label, score) == pytest.approx(sk.roc_auc_score(label, score))


@given(people)
def test_auc_depends_on_ranks_only_and_turns_over_with_the_classes(rows):
    label, score = columns(rows)
    assert auc(label, np.exp(score / 3) - 7) == pytest.approx(auc(label, score))
    assert auc(1 - label, -score) == pytest.approx(auc(label, score))
    assert auc(label, -score) == pytest.approx(1 - auc(label, score))


def test_auc_reproduces_pROC():
    """WFNS grade against outcome in the aSAH data of pROC (Robin et al. 2011, BMC Bioinformatics 12:77).

    113 patients by grade 1 to 5; pROC's own tests state AUC 0.8236789.
    """
    good, poor = np.repeat(np.arange(1, 6), [37, 20, 3, 8, 4]), np.repeat(np.arange(1, 6), [2, 12, 1, 8, 18])
    label, grade = np.repeat([0, 1], [len(good), len(poor)]), np.concatenate([good, poor])
    assert auc(label, grade) == pytest.approx(0.8236789, abs=1e-7)


def test_several_scores_have_an_auc_each():
    rng = np.random.default_rng(1)
    label, scores = np.repeat([0, 1], [15, 12]), rng.integers(0, 6, size=(3, 27))
    assert aucs(label, scores) == pytest.approx([sk.roc_auc_score(label, score) for score in scores])


def test_site_metrics_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    label = rng.integers(2, size=60)
    score = rng.normal(size=60) + label
    probability, called = 1 / (1 + np.exp(-score)), score >= 0.3
    result = site_metrics(label, score, 0.3, probability)
    assert (result["n"], result["n_cases"]) == (60, label.sum())
    assert result["auc"] == pytest.approx(sk.roc_auc_score(label, score))
    assert result["acc"] == pytest.approx(sk.accuracy_score(label, called))
    assert result["balanced_acc"] == pytest.approx(sk.balanced_accuracy_score(label, called))
    assert result["sensitivity"] == pytest.approx(sk.recall_score(label, called))
    assert result["specificity"] == pytest.approx(sk.recall_score(1 - label, ~called))
    assert result["brier"] == pytest.approx(sk.brier_score_loss(label, probability))
    recalibration = Logit(label, add_constant(score)).fit(disp=0)  # score is the logit of probability
    assert [result["calibration_intercept"], result["calibration_slope"]] == pytest.approx(recalibration.params)


def test_the_threshold_itself_calls_a_case():
    assert site_metrics(np.array([1, 0]), np.array([0.5, 0.4]), 0.5, np.array([0.6, 0.4]))["acc"] == 1


def test_one_class_has_an_accuracy_but_no_auc():
    result = site_metrics(np.ones(5), np.arange(5), 2, np.full(5, 0.7))
    assert result["acc"] == result["sensitivity"] == pytest.approx(0.6)
    assert result["brier"] == pytest.approx(0.09)
    for name in ("auc", "balanced_acc", "specificity", "calibration_slope", "calibration_intercept"):
        assert np.isnan(result[name])


def test_without_probabilities_only_what_needs_them_is_missing():
    result = site_metrics(np.array([0, 1, 0, 1]), np.arange(4), 1, np.full(4, np.nan))
    assert result["auc"] == 0.75
    assert np.isnan([result["brier"], result["calibration_slope"], result["calibration_intercept"]]).all()


@pytest.mark.parametrize(
    "probability",
    [[0.1, 0.2, 0.8, 0.9], [0.9, 0.8, 0.2, 0.1], [0.1, 0.5, 0.5, 0.9], [0.5, 0.5, 0.5, 0.5], [0, 0, 1, 1]],
    ids=["separated", "separated the wrong way", "touching", "constant", "certain"],
)
def test_calibration_is_nan_where_the_maximum_is_infinite(probability):
    assert np.isnan(calibration(np.array([0, 0, 1, 1]), np.array(probability))).all()


@given(people, st.integers(0, 1000))
def test_calibration_is_finite_and_stationary_exactly_when_classes_overlap(rows, seed):
    label, x = columns(rows)
    slope, intercept = calibration(label, 1 / (1 + np.exp(-x)))
    overlap = x[label == 1].min() < x[label == 0].max() and x[label == 0].min() < x[label == 1].max()
    assert np.isfinite(slope) == np.isfinite(intercept) == overlap
    if overlap:
        residual = label - 1 / (1 + np.exp(-(intercept + slope * x)))
        assert [residual.sum(), residual @ x] == pytest.approx([0, 0], abs=1e-5)


def test_calibrated_probabilities_have_slope_one_and_overconfident_ones_less():
    rng = np.random.default_rng(0)
    x = rng.normal(size=20_000)
    label = rng.random(20_000) < 1 / (1 + np.exp(-x))
    assert calibration(label, 1 / (1 + np.exp(-x))) == pytest.approx((1, 0), abs=0.06)
    assert calibration(label, 1 / (1 + np.exp(-2 * x - 1)))[0] == pytest.approx(0.5, abs=0.03)


def test_scores_that_are_not_finite_are_refused():
    with pytest.raises(DataError, match="finite"):
        auc(np.array([0, 1]), np.array([0.0, np.nan]))


def test_seeds_are_averaged_before_sites():
    """Site A ran three seeds, B one: pooling runs would give 0.675, averaging sites gives 0.75."""
    auc_of = pd.DataFrame({"site": list("AAAB"), "seed": [0, 1, 2, 0], "auc": [0.5, 0.6, 0.7, 0.9]})
    scores = auc_of.assign(protocol="loso", method="core", acc=auc_of["auc"], n=40, n_cases=20)
    summary = over_sites(average_seeds(scores))
    assert summary["auc"] == summary["acc"] == pytest.approx(0.75)
    assert (summary["n_sites"], summary["worst_site"]) == (2, "A")
    assert summary["worst_auc"] == pytest.approx(0.6)
    assert summary["auc_sd"] == pytest.approx(np.std([0.6, 0.9], ddof=1))


def test_a_site_of_one_class_has_no_weight_and_one_wild_slope_does_not_rule():
    per_site = pd.DataFrame({"site": list("ABCD"), "auc": [0.6, 0.8, 0.7, np.nan], "acc": [0.5, 0.5, 0.5, 0.9]}).assign(
        calibration_slope=[0.8, 1.0, 400.0, np.nan], n=40, n_cases=[20, 20, 20, 40]
    )
    summary = over_sites(per_site)
    assert (summary["n_sites"], summary["auc"], summary["acc"]) == (3, pytest.approx(0.7), pytest.approx(0.5))
    assert summary["calibration_slope"] == 1.0


def ten_sites(auc):
    return pd.DataFrame({"site": [f"S{i}" for i in range(10)], "n": 40, "n_cases": 20, "auc": auc, "acc": auc})


@pytest.mark.parametrize("controls", [1, 5, 20, 200])
@pytest.mark.parametrize("level", [0.5, 0.7, 0.9])
def test_a_site_with_one_case_hardly_moves_a_mean_and_is_never_the_worst(controls, level):
    sites = ten_sites(np.clip(level + np.linspace(-0.1, 0.1, 10), 0, 1))
    before = over_sites(sites)
    for value in (0.0, 0.5, 1.0):
        tiny = {"site": "tiny", "n": 1 + controls, "n_cases": 1, "auc": value, "acc": value}
        after = over_sites(pd.concat([sites, pd.DataFrame([tiny])], ignore_index=True))
        assert abs(after["auc"] - before["auc"]) < 0.005
        assert abs(after["acc"] - before["acc"]) < 0.005
        assert (after["n_sites"], after["worst_site"]) == (11, "S0")
    assert before["auc"] == pytest.approx(sites["auc"].mean())  # sites of 20 + 20 count alike


def test_no_site_is_the_worst_where_all_are_small():
    sites = ten_sites(np.full(10, 0.6)).assign(n=12, n_cases=4)
    found = over_sites(sites)
    assert found["worst_site"] == "" and np.isnan(found["worst_auc"])
    assert found["auc"] == pytest.approx(0.6)


def test_the_concordance_counts_every_pair_of_a_site_once():
    rng = np.random.default_rng(0)
    sizes, won, rows = [(3, 9), (30, 50), (8, 2)], 0, []
    for m, n in sizes:
        cases, controls = rng.normal(1, 1, m), rng.normal(0, 1, n)
        pairs = (cases[:, None] > controls).sum()
        won += pairs
        rows.append({"site": f"{m}", "n": m + n, "n_cases": m, "auc": pairs / (m * n)})
    found = over_sites(pd.DataFrame(rows))
    assert found["concordance"] == pytest.approx(won / sum(m * n for m, n in sizes))
    assert found["auc"] == pytest.approx(np.average([row["auc"] for row in rows], weights=[3, 20, 2]))
