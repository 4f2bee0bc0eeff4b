import io

import numpy as np
import pandas as pd
import pytest
from brainroam.evaluation.stats.meta import pool_auc
from scipy.special import expit
from sklearn.metrics import roc_auc_score

from brainroam.errors import RunsError, UsageError
from brainroam.evaluation.splits import folds
from brainroam.evaluation.stats.compare import compare_methods, summarise
from brainroam.evaluation.stats.metrics import delong_variance, site_metrics
from brainroam.evaluation.stats.paired import left_out_test, nadeau_bengio

KEYS = ["method", "protocol", "site", "seed"]


def make_predictions(shifts, n_sites=8, per_class=15, seeds=2, protocol="loso", seed=0):
    """Methods whose cases score ``shift`` higher, on people whose noise they partly share."""
    rng = np.random.default_rng(seed)
    rows = []
    for s in range(n_sites):
        label = np.repeat([1, 0], per_class)
        shared = rng.normal(size=len(label))
        for method, shift in shifts.items():
            for k in range(seeds):
                score = label * shift + shared + 0.3 * rng.normal(size=len(label))
                for i in range(len(label)):
                    rows.append((method, protocol, f"site{s}", k, f"{s}-{i}", label[i], score[i], expit(score[i])))
    return pd.DataFrame(rows, columns=[*KEYS, "subject", "label", "score", "probability"])


def score_runs(predictions):
    rows = []
    for key, run in predictions.groupby(KEYS):
        result = site_metrics(run["label"].to_numpy(), run["score"].to_numpy(), 0.5, run["probability"].to_numpy())
        rows.append({**dict(zip(KEYS, key, strict=True)), **result, "threshold": 0.5})
    return pd.DataFrame(rows)


@pytest.fixture(scope="module")
def runs():
    predictions = make_predictions({"core": 1.6, "ridge": 0.8, "majority": 0.0})
    predictions.loc[predictions["method"] == "majority", "score"] = 0.0
    return score_runs(predictions), predictions


def site_aucs(predictions, method):
    """Mean over seeds of scikit-learn's AUC, per site."""
    of_method = predictions[predictions["method"] == method]
    per_run = of_method.groupby(["site", "seed"])[["label", "score"]].apply(
        lambda r: roc_auc_score(r["label"], r["score"])
    )
    return per_run.groupby("site").mean().to_numpy()


def test_the_table_agrees_with_a_calculation_by_hand(runs):
    scores, predictions = runs
    table = compare_methods(scores, predictions).table.set_index("method")
    assert table.index.tolist() == ["core", "ridge", "majority"]
    auc = site_aucs(predictions, "core")
    row = table.loc["core"]
    assert row["auc"] == pytest.approx(auc.mean())
    assert (row["worst_auc"], row["worst_site"]) == (pytest.approx(auc.min()), f"site{auc.argmin()}")
    assert row["auc_low"] < row["auc"] < row["auc_high"]
    assert row["next_low"] < row["pooled_low"] < row["pooled_auc"] < row["pooled_high"] < row["next_high"]
    per_site = scores[scores["method"] == "core"].groupby("site").mean(numeric_only=True)
    for name in ("acc", "balanced_acc", "brier", "sensitivity", "specificity"):
        assert row[name] == pytest.approx(per_site[name].mean())
    assert row["calibration_slope"] == pytest.approx(per_site["calibration_slope"].median())


def test_pooling_uses_delong_variances():
    predictions = make_predictions({"core": 1.0}, seeds=1)
    sites = [(s["label"].to_numpy(), s["score"].to_numpy()) for _, s in predictions.groupby("site")]
    auc, variance = [roc_auc_score(*s) for s in sites], [delong_variance(*s) for s in sites]
    expected = pool_auc(auc, variance, [15] * 8, [15] * 8)
    row = summarise(score_runs(predictions), predictions).iloc[0]
    assert (row["pooled_auc"], row["next_low"]) == pytest.approx((expected.estimate, expected.next_low))


def test_a_constant_method_is_at_chance_with_certainty(runs):
    row = summarise(*runs).set_index("method").loc["majority"]
    assert row[["auc", "auc_low", "auc_high", "next_low", "next_high"]].tolist() == [0.5] * 5


def test_pairs_are_tested_on_site_differences(runs):
    scores, predictions = runs
    result = compare_methods(scores, predictions)
    assert result.paired[["method", "against"]].to_numpy().tolist() == [
        ["core", "ridge"],
        ["core", "majority"],
        ["ridge", "majority"],
    ]
    difference = site_aucs(predictions, "core") - site_aucs(predictions, "ridge")
    row = result.paired.iloc[0]
    assert row["difference"] == pytest.approx(difference.mean())
    assert row["p"] == left_out_test(difference)
    assert (row["n_sites"], row["won"], row["lost"]) == (8, (difference > 0).sum(), (difference < 0).sum())
    assert row["low"] < row["difference"] < row["high"]
    assert row["smallest_p"] == pytest.approx(3 * 2 / 2**8)


def test_the_paired_interval_profits_from_shared_people(runs):
    result = compare_methods(*runs)
    row, table = result.paired.iloc[0], result.table.set_index("method")
    unpaired = sum((table.loc[m, "auc_high"] - table.loc[m, "auc_low"]) ** 2 for m in ("core", "ridge")) ** 0.5
    assert row["high"] - row["low"] < 0.8 * unpaired


def test_a_reference_means_fewer_comparisons_and_a_kinder_correction(runs):
    everything, against = compare_methods(*runs), compare_methods(*runs, reference="ridge")
    assert against.paired["against"].tolist() == ["ridge", "ridge"]
    assert against.paired["difference"].tolist()[1] < 0
    assert against.paired.iloc[0]["p"] == everything.paired.iloc[0]["p"]
    assert against.paired.iloc[0]["p_holm"] < everything.paired.iloc[0]["p_holm"]
    with pytest.raises(UsageError, match="did you mean 'ridge'"):
        compare_methods(*runs, reference="rigde")


def test_sentences_say_who_won_by_how_much_and_how_sure_one_can_be(runs):
    first, _, last = compare_methods(*runs).sentences
    assert first.startswith("core beats ridge by ")
    assert "AUC points on average over 8 sites (95 % interval " in first
    assert "; won 8 of 8; p = 0.0078, 0.023 after Holm)" in first
    assert last.startswith("ridge beats majority")


def test_a_sentence_does_not_depend_on_which_method_is_the_reference():
    predictions = make_predictions({"core": 1.6, "ridge": 0.8})
    scores = score_runs(predictions)
    one, other = (compare_methods(scores, predictions, reference=name) for name in ("core", "ridge"))
    assert one.paired["difference"][0] == -other.paired["difference"][0]
    assert one.sentences == other.sentences


def test_equal_methods_cannot_be_told_apart():
    predictions = make_predictions({"one": 1.0, "two": 1.0}, n_sites=10)
    (sentence,) = compare_methods(score_runs(predictions), predictions).sentences
    assert sentence.endswith(": the data cannot tell them apart") and " ahead of " in sentence


def test_a_difference_that_many_comparisons_undo_is_not_called_a_tie():
    shifts = {"good": 0.9, "poor": 0.7} | {f"same{k}": 0.9 for k in range(6)}
    result = compare_methods(score_runs(predictions := make_predictions(shifts, n_sites=12)), predictions)
    undone = (result.paired["p"] < 0.05) & (result.paired["p_holm"] >= 0.05)
    assert undone.any()
    for row, sentence in zip(undone, result.sentences, strict=True):
        assert sentence.endswith("not for so many at once") == row


def test_few_sites_cannot_decide_and_the_result_says_so():
    predictions = make_predictions({"good": 3.0, "bad": 0.0}, n_sites=4)
    result = compare_methods(score_runs(predictions), predictions)
    assert result.sentences[0].endswith("4 sites cannot decide it, even winning everywhere gives p = 0.12")
    assert result.notes == [
        "With 4 sites the smallest two-sided p is 0.125: no comparison can be decided. "
        "Name a reference to make fewer, or add sites."
    ]


def test_ten_sites_state_their_smallest_p():
    predictions = make_predictions({"one": 1.0, "two": 0.5}, n_sites=10, seeds=1)
    assert compare_methods(score_runs(predictions), predictions).notes == [
        "With 10 sites the smallest two-sided p is 0.00195."
    ]


def test_a_site_with_one_class_is_named_and_keeps_its_accuracy():
    predictions = make_predictions({"one": 1.0, "two": 0.5}, seeds=1)
    predictions = predictions[(predictions["site"] != "site3") | (predictions["label"] == 1)]
    scores = score_runs(predictions)
    result = compare_methods(scores, predictions)
    assert result.table["n_sites"].tolist() == [7, 7]
    assert result.paired["n_sites"].tolist() == [7]
    assert result.notes[0] == "Everybody at site3 has the same label: no AUC there, left out of every AUC figure."
    one = result.table.set_index("method").loc["one"]
    assert one["acc"] == pytest.approx(scores.loc[scores["method"] == "one", "acc"].mean())


def test_a_method_missing_at_a_site_is_compared_on_the_others():
    predictions = make_predictions({"one": 1.0, "two": 0.5}, seeds=1)
    predictions = predictions[(predictions["site"] != "site3") | (predictions["method"] == "one")]
    result = compare_methods(score_runs(predictions), predictions)
    assert result.paired["n_sites"].tolist() == [7]
    assert np.isfinite(result.paired[["low", "high"]].to_numpy()).all()
    assert "two has no result at site3: it is judged on the others only." in result.notes


def test_missing_sites_make_intervals_wider_never_narrower():
    predictions = make_predictions({"one": 1.0, "two": 0.5}, n_sites=10, seeds=1)
    shared = predictions["site"].isin([f"site{i}" for i in range(5)])
    partial, whole = (
        compare_methods(score_runs(p), p).paired.iloc[0]
        for p in (predictions[shared | (predictions["method"] == "one")], predictions[shared])
    )
    assert partial["difference"] == pytest.approx(whole["difference"])
    assert 0.95 < (partial["high"] - partial["low"]) / (whole["high"] - whole["low"]) < 1.6


def test_methods_without_a_common_site_are_not_compared():
    predictions = make_predictions({"one": 1.0, "two": 0.5}, n_sites=4, seeds=1)
    first = predictions["site"].isin(["site0", "site1"])
    predictions = predictions[first == (predictions["method"] == "one")]
    result = compare_methods(score_runs(predictions), predictions)
    assert result.sentences == ["one and two share too few sites with an AUC to be compared"]
    assert np.isnan(result.paired["p_holm"]).all()


def test_one_method_alone_has_a_table_and_no_comparison():
    predictions = make_predictions({"one": 1.0}, n_sites=3)
    result = compare_methods(score_runs(predictions), predictions)
    assert len(result.table) == 1 and result.paired.empty and result.sentences == []


def test_folds_get_the_corrected_t_and_no_next_site():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"site": np.repeat(list("AB"), 50), "label": np.tile([0, 1], 50)})
    rows = []
    for fold in folds(table, "cv", n_splits=5, n_repeats=2):
        for i in fold.test:
            for method, shift in (("one", 1.5), ("two", 0.5)):
                label = table["label"][i]
                rows.append((method, "cv", fold.name, 0, i, label, rng.normal(label * shift), 0.5))
    predictions = pd.DataFrame(rows, columns=[*KEYS, "subject", "label", "score", "probability"])
    result = compare_methods(score_runs(predictions), predictions)
    difference = site_aucs(predictions, "one") - site_aucs(predictions, "two")
    expected = nadeau_bengio(difference, test_over_train=20 / 80)
    assert result.paired[["p", "low", "high"]].iloc[0].tolist() == pytest.approx(
        [expected.p, expected.low, expected.high]
    )
    assert "over 10 in-distribution folds" in result.sentences[0]
    assert result.table["next_low"].isna().all()
    assert result.notes == []


def test_protocols_are_kept_apart():
    loso = make_predictions({"one": 1.0, "two": 0.5}, seeds=1)
    loio = make_predictions({"one": 0.5, "two": 1.0}, n_sites=5, seeds=1, protocol="loio", seed=1)
    predictions = pd.concat([loso, loio])
    both = compare_methods(score_runs(predictions), predictions)
    alone = compare_methods(score_runs(loso), loso)
    pd.testing.assert_frame_equal(both.paired[both.paired["protocol"] == "loso"].reset_index(drop=True), alone.paired)
    assert both.paired["n_sites"].tolist() == [5, 8]
    assert "institutions" in both.sentences[0] and "sites" in both.sentences[1]


def test_scores_of_different_folds_are_never_ranked_together(runs):
    """Adding a constant to one site's scores changes nothing: a pooled ROC would move."""
    scores, predictions = runs
    moved = predictions.assign(score=predictions["score"] + 100 * (predictions["site"] == "site2"))
    pd.testing.assert_frame_equal(compare_methods(scores, moved).paired, compare_methods(scores, predictions).paired)


def test_the_order_of_rows_and_a_trip_through_csv_change_nothing(runs):
    scores, predictions = runs
    shuffled = [frame.sample(frac=1, random_state=0) for frame in (scores, predictions)]
    read = [pd.read_csv(io.StringIO(frame.to_csv(index=False))) for frame in shuffled]
    expected, found = compare_methods(scores, predictions), compare_methods(*read)
    pd.testing.assert_frame_equal(found.table, expected.table)
    pd.testing.assert_frame_equal(found.paired, expected.paired)


def test_sites_and_people_called_by_numbers_survive():
    predictions = make_predictions({"one": 1.0, "two": 0.5}, seeds=1)
    predictions["site"] = predictions["site"].str[4:].astype(int)
    result = compare_methods(score_runs(predictions), predictions)
    assert result.table["worst_site"].isin([str(i) for i in range(8)]).all()


def test_the_same_seed_gives_the_same_interval(runs):
    one, again, other = (compare_methods(*runs, n_boot=200, random_state=s).paired["low"].tolist() for s in (1, 1, 2))
    assert one == again != other


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda s, p: (s.drop(columns="auc"), p), "scores lack the column"),
        (lambda s, p: (s, p.head(0)), "predictions hold no runs"),
        (lambda s, p: (s, p[p["method"] != "core"]), "core at site0 .* stands in one of them only"),
        (lambda s, p: (s, p.drop(index=3)), "site0: method 'core' .* no score for 0-3"),
        (lambda s, p: (s, pd.concat([p, p.head(1)])), "one person twice"),
        (lambda s, p: (s.assign(auc=s["auc"] / 2), p), "not that of its predictions"),
        (lambda s, p: (s, p.assign(label=p["label"].where(p.index != 0, 0))), "disagree about the label"),
    ],
)
def test_frames_that_do_not_fit_together_are_refused(runs, spoil, message):
    with pytest.raises(RunsError, match=message):
        compare_methods(*spoil(*runs))


def test_an_unknown_protocol_is_refused(runs):
    with pytest.raises(UsageError, match="unknown protocol 'lodo'"):
        compare_methods(*(frame.assign(protocol="lodo") for frame in runs))
