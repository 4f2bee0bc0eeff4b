import io

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.metrics import roc_auc_score

from brainroam.errors import RunsError, UsageError
from brainroam.evaluation.splits import folds
from brainroam.evaluation.stats.compare import compare_methods, summarise
from brainroam.evaluation.stats.metrics import over_sites, site_metrics
from brainroam.evaluation.stats.paired import left_out_t, nadeau_bengio
from brainroam.evaluation.stats.verdict import verdict

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
    expected = verdict(auc, [15] * 8, [15] * 8)
    assert row[["auc_low", "auc_high", "next_low", "next_high", "tau"]].tolist() == pytest.approx(
        [expected.low, expected.high, expected.next_low, expected.next_high, expected.tau]
    )
    assert row["next_low"] <= row["auc_low"] < row["auc"] < row["auc_high"] <= row["next_high"]
    assert row["reason"] == ""
    per_site = scores[scores["method"] == "core"].groupby("site").mean(numeric_only=True)
    for name in ("acc", "balanced_acc", "brier", "sensitivity", "specificity"):
        assert row[name] == pytest.approx(per_site[name].mean())
    assert row["calibration_slope"] == pytest.approx(per_site["calibration_slope"].median())


def test_a_constant_method_has_no_interval_and_the_notes_say_why(runs):
    row = summarise(*runs).set_index("method").loc["majority"]
    assert row["auc"] == 0.5
    assert row[["auc_low", "auc_high", "next_low", "next_high", "tau"]].isna().all()
    reason = "no intervals: the AUC is exactly 0.5 at every site, as of a score that is the same for everybody"
    assert row["reason"] == reason
    assert compare_methods(*runs).notes == [f"majority: {reason}."]


def test_pairs_are_tested_on_site_differences(runs):
    scores, predictions = runs
    result = compare_methods(scores, predictions, all_pairs=True)
    assert result.paired[["method", "against"]].to_numpy().tolist() == [
        ["core", "ridge"],
        ["core", "majority"],
        ["ridge", "majority"],
    ]
    difference = site_aucs(predictions, "core") - site_aucs(predictions, "ridge")
    row = result.paired.iloc[0]
    assert row["difference"] == pytest.approx(difference.mean())
    expected = left_out_t(difference)
    assert row[["p", "low", "high"]].tolist() == pytest.approx([expected.p, expected.low, expected.high])
    assert (row["n_sites"], row["won"], row["lost"]) == (8, (difference > 0).sum(), (difference < 0).sum())


def test_the_paired_interval_profits_from_shared_people(runs):
    result = compare_methods(*runs)
    row, table = result.paired.iloc[0], result.table.set_index("method")
    unpaired = sum((table.loc[m, "auc_high"] - table.loc[m, "auc_low"]) ** 2 for m in ("core", "ridge")) ** 0.5
    assert row["high"] - row["low"] < 0.8 * unpaired


def test_a_reference_means_fewer_comparisons_and_a_kinder_correction(runs):
    everything, against = compare_methods(*runs, all_pairs=True), compare_methods(*runs, reference="majority")
    assert against.paired["against"].tolist() == ["majority", "majority"]
    smallest = everything.paired["p"].idxmin()
    row = against.paired.set_index("method").loc[everything.paired.loc[smallest, "method"]]
    assert row["p"] == everything.paired.loc[smallest, "p"]
    assert row["p_holm"] == pytest.approx(2 * row["p"])
    assert everything.paired.loc[smallest, "p_holm"] == pytest.approx(3 * row["p"])
    assert compare_methods(*runs, reference="ridge").paired["difference"].tolist()[1] < 0
    with pytest.raises(UsageError, match="'ridge'"):
        compare_methods(*runs, reference="rigde")
    with pytest.raises(UsageError, match="exclude"):
        compare_methods(*runs, reference="ridge", all_pairs=True)


def test_one_rule_says_what_is_corrected_together(runs):
    result = compare_methods(*runs)
    assert result.paired["against"].unique().tolist() == ["core"]
    assert result.families == [
        "Holm over 2 comparisons: core against each other method (leave-one-site-out); ablations and sweeps are "
        "corrected separately."
    ]
    pairs = compare_methods(*runs, all_pairs=True)
    assert pairs.families == ["Holm over 3 comparisons: every pair of methods (leave-one-site-out)."]
    assert len(pairs.paired) == 3


def test_an_ablation_is_corrected_by_itself():
    predictions = make_predictions({"core": 1.6, "core-tp": 1.2, "core-no-cd": 1.0, "ridge": 0.8})
    result = compare_methods(score_runs(predictions), predictions)
    alone = predictions[predictions["method"] != "ridge"]
    ablation = compare_methods(score_runs(alone), alone)
    families = result.paired["family"].value_counts().to_dict()
    assert families == {"core against each other method": 1, "ablation of core": 2}
    rows = result.paired[result.paired["family"] == "ablation of core"].reset_index(drop=True)
    pd.testing.assert_frame_equal(rows, ablation.paired)


def test_sentences_say_who_won_by_how_much_and_how_sure_one_can_be(runs):
    first, _, last = compare_methods(*runs, all_pairs=True).sentences
    assert first.startswith("core beats ridge by ")
    assert "AUC points on average over 8 sites (95 % interval " in first
    assert "; won 8 of 8; p < 0.001, 0.0015 after Holm)" in first
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
    predictions = make_predictions(shifts, n_sites=12)
    result = compare_methods(score_runs(predictions), predictions, all_pairs=True)
    undone = (result.paired["p"] < 0.05) & (result.paired["p_holm"] >= 0.05)
    assert undone.any()
    for row, sentence in zip(undone, result.sentences, strict=True):
        assert sentence.endswith("not for so many at once") == row


def test_two_sites_cannot_decide_and_the_result_says_so():
    predictions = make_predictions({"good": 3.0, "bad": 0.0}, n_sites=2)
    result = compare_methods(score_runs(predictions), predictions)
    assert result.sentences == ["good and bad share too few sites with an AUC to be compared"]
    (note,) = result.notes
    assert note.startswith("good, bad: no intervals: fewer than 3 sites")


def test_a_site_with_one_class_is_named_and_has_no_weight():
    predictions = make_predictions({"one": 1.0, "two": 0.5}, seeds=1)
    predictions = predictions[(predictions["site"] != "site3") | (predictions["label"] == 1)]
    scores = score_runs(predictions)
    result = compare_methods(scores, predictions)
    assert result.table["n_sites"].tolist() == [7, 7]
    assert result.paired["n_sites"].tolist() == [7]
    assert "site3" in result.notes[0] and "label" in result.notes[0]
    one, others = result.table.set_index("method").loc["one"], scores[scores["site"] != "site3"]
    assert one["acc"] == pytest.approx(others.loc[others["method"] == "one", "acc"].mean())


def test_a_site_with_one_case_moves_neither_a_mean_nor_a_difference_and_is_listed():
    predictions = make_predictions({"one": 1.0, "two": 0.5}, n_sites=10, seeds=1)
    before = compare_methods(score_runs(predictions), predictions)
    tiny = predictions[predictions["site"] == "site3"].assign(site="tiny")
    lone = tiny["subject"].where(tiny["label"] == 1).dropna().iloc[0]
    tiny = tiny[(tiny["label"] == 0) | (tiny["subject"] == lone)]
    tiny = tiny.assign(subject="t" + tiny["subject"].astype(str))
    lost = (tiny["method"] == "one") & (tiny["label"] == 1)
    tiny = tiny.assign(
        score=tiny["score"].mask(lost, -99.0).mask((tiny["method"] == "two") & (tiny["label"] == 1), 99.0)
    )
    both = pd.concat([predictions, tiny], ignore_index=True)
    after = compare_methods(score_runs(both), both)
    assert (after.table["auc"] - before.table["auc"]).abs().max() < 0.007  # sites of 15 + 15 here
    assert (after.paired["difference"] - before.paired["difference"]).abs().max() < 0.01
    assert before.paired["p"].iloc[0] < after.paired["p"].iloc[0] < 0.001
    assert "tiny" not in set(after.table["worst_site"])
    assert any("tiny (1 + 15)" in note for note in after.notes)
    means = after.table.set_index("method")["auc"]
    row = after.paired.iloc[0]
    assert row["difference"] == pytest.approx(means[row["method"]] - means[row["against"]])


def test_a_method_missing_at_a_site_is_compared_on_the_others():
    predictions = make_predictions({"one": 1.0, "two": 0.5}, seeds=1)
    predictions = predictions[(predictions["site"] != "site3") | (predictions["method"] == "one")]
    result = compare_methods(score_runs(predictions), predictions)
    assert result.paired["n_sites"].tolist() == [7]
    assert np.isfinite(result.paired[["low", "high"]].to_numpy()).all()
    assert "two has no result at site3: its row is over 7 of 8 sites." in result.notes


def test_a_method_that_lacks_sites_is_not_ranked_before_those_that_lack_none():
    """Its mean is over other sites; the sentence on the pair is over the same."""
    predictions = make_predictions({"poor": 0.2, "good": 1.5}, seeds=1)
    few = predictions["site"].isin(["site0", "site1", "site2"])
    partial = predictions[few | (predictions["method"] == "poor")]
    result = compare_methods(score_runs(partial), partial)
    assert result.table["method"].tolist() == ["poor", "good"]
    assert result.table["auc"].is_monotonic_increasing
    assert result.table[["n_sites", "of_sites"]].to_numpy().tolist() == [[8, 8], [3, 8]]
    assert any("do not rank methods" in note for note in result.notes)
    assert "over 3 sites" in result.sentences[0]
    whole = compare_methods(score_runs(predictions), predictions)
    assert whole.table["method"].tolist() == ["good", "poor"] and not any("rank" in note for note in whole.notes)


def test_only_common_sites_count_in_a_difference():
    predictions = make_predictions({"one": 1.0, "two": 0.5}, n_sites=10, seeds=1)
    shared = predictions["site"].isin([f"site{i}" for i in range(5)])
    partial, whole = (
        compare_methods(score_runs(p), p).paired.iloc[0]
        for p in (predictions[shared | (predictions["method"] == "one")], predictions[shared])
    )
    columns = ["difference", "low", "high", "p"]
    assert partial[columns].tolist() == pytest.approx(whole[columns].tolist())


def test_methods_without_a_common_site_are_not_compared():
    predictions = make_predictions({"one": 1.0, "two": 0.5}, n_sites=4, seeds=1)
    first = predictions["site"].isin(["site0", "site1"])
    predictions = predictions[first == (predictions["method"] == "one")]
    result = compare_methods(score_runs(predictions), predictions)
    assert result.sentences == ["two and one share too few sites with an AUC to be compared"]
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
    result = compare_methods(score_runs(predictions), predictions, reference="two")
    difference = site_aucs(predictions, "one") - site_aucs(predictions, "two")
    expected = nadeau_bengio(difference, test_over_train=20 / 80)
    assert result.paired[["p", "low", "high"]].iloc[0].tolist() == pytest.approx(
        [expected.p, expected.low, expected.high]
    )
    assert "over 10 in-distribution folds" in result.sentences[0]
    assert result.table["next_low"].isna().all()
    assert result.table["reason"].str.contains("in-distribution folds say nothing").all()
    assert result.notes == []


def test_protocols_are_kept_apart():
    loso = make_predictions({"one": 1.0, "two": 0.5}, seeds=1)
    loio = make_predictions({"one": 0.5, "two": 1.0}, n_sites=5, seeds=1, protocol="loio", seed=1)
    predictions = pd.concat([loso, loio])
    both = compare_methods(score_runs(predictions), predictions)
    alone = compare_methods(score_runs(loso), loso)
    pd.testing.assert_frame_equal(both.paired[both.paired["protocol"] == "loso"].reset_index(drop=True), alone.paired)
    assert both.paired["n_sites"].tolist() == [5, 8]
    assert "leave-one-institution-out" in both.families[0] and "leave-one-site-out" in both.families[1]


def test_institutions_that_are_held_out_whole_are_the_unit_and_their_sites_are_measured_apart():
    """Shifts between the sites of an institution move nothing, as people of two scanners are not compared."""
    predictions = make_predictions({"one": 1.0, "two": 0.5}, n_sites=8, seeds=1, protocol="loio")
    number = predictions["site"].str.removeprefix("site").astype(int)
    houses = predictions.assign(institution="house" + (number // 2).astype(str))
    moved = houses.assign(score=houses["score"] + 50 * (number % 2))
    one, other = (compare_methods(score_runs(people), people) for people in (houses, moved))
    ranks = ["auc", "auc_low", "auc_high", "next_low", "next_high", "concordance"]
    pd.testing.assert_frame_equal(one.table[ranks], other.table[ranks])
    assert one.table["n_sites"].tolist() == [8, 8] and one.table["n_institutions"].tolist() == [4, 4]
    assert "over 4 institutions" in one.sentences[0] and one.paired["n_sites"].tolist() == [4]
    assert any("8 sites of 4 institutions, each held out whole" in note for note in one.notes)


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


def in_halves(predictions, n_repeats, rng):
    """Every site tested once per repeat, in fold A or B, with scores of its own."""
    frames = []
    for r in range(n_repeats):
        letter = predictions["site"].map({site: "AB"[i % 2] for i, site in enumerate(predictions["site"].unique())})
        score = predictions["score"] + 0.3 * rng.normal(size=len(predictions))
        frames.append(predictions.assign(protocol="halves", fold=f"halves-{r + 1:02d}-" + letter, score=score))
    return pd.concat(frames, ignore_index=True)


def test_repeats_are_averaged_inside_a_site_before_sites_are_counted():
    predictions = in_halves(make_predictions({"one": 1.0, "two": 0.5}, seeds=1), 3, np.random.default_rng(0))
    rows = [
        {**dict(zip([*KEYS, "fold"], key, strict=True)), "auc": roc_auc_score(run["label"], run["score"])}
        for key, run in predictions.groupby([*KEYS, "fold"])
    ]
    scores = pd.DataFrame(rows)
    assert len(scores) == 2 * 8 * 3
    result = compare_methods(scores, predictions)
    averaged = scores[scores["method"] == "one"].groupby("site")["auc"].mean()
    expected = verdict(averaged, [15] * 8, [15] * 8)
    row = result.table.set_index("method").loc["one"]
    assert row["n_sites"] == 8
    assert row[["auc", "auc_low", "auc_high"]].tolist() == pytest.approx([expected.mean, expected.low, expected.high])
    assert row[["next_low", "next_high", "tau"]].isna().all()
    assert "leave-one-site-out predicts it" in row["reason"]
    assert result.notes == []
    assert result.paired["n_sites"].tolist() == [8]
    assert "halves of the sites" in result.families[0]
    unfinished = (scores["method"] == "two") & (scores["fold"] == "halves-03-A")
    missing = (predictions["method"] == "two") & (predictions["fold"] == "halves-03-A")
    notes = compare_methods(scores[~unfinished], predictions[~missing]).notes
    assert notes == ["two lacks repeats at some sites (20 of 24 done): finish its runs first."]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda s, p: (s.drop(columns="auc"), p), "column"),
        (lambda s, p: (s, p.head(0)), "predictions"),
        (lambda s, p: (s, p[p["method"] != "core"]), "core at site0"),
        (lambda s, p: (s, p.drop(index=3)), "site0: .*'core'.* 0-3"),
        (lambda s, p: (s, pd.concat([p, p.head(1)])), "twice"),
        (lambda s, p: (s.assign(auc=s["auc"] / 2), p), "predictions"),
        (lambda s, p: (s, p.assign(label=p["label"].where(p.index != 0, 0))), "label"),
    ],
)
def test_frames_that_do_not_fit_together_are_refused(runs, spoil, message):
    with pytest.raises(RunsError, match=message):
        compare_methods(*spoil(*runs))


def test_an_unknown_protocol_is_refused(runs):
    with pytest.raises(UsageError, match="'lodo'"):
        compare_methods(*(frame.assign(protocol="lodo") for frame in runs))


def test_what_a_block_adds_is_said_with_its_interval():
    rng = np.random.default_rng(0)
    shifts = {"ensemble": 1.5, "ensemble[blocks=rest]": 0.9, "ensemble[blocks=anatomy]": 0.4}
    rows = [
        (method, "loso", site, 0, f"{site}{i}", i % 2, rng.normal(i % 2 * shift))
        for method, shift in shifts.items()
        for site in "ABCDEFGH"
        for i in range(40)
    ]
    predictions = pd.DataFrame(rows, columns=["method", "protocol", "site", "seed", "subject", "label", "score"])
    runs = predictions.groupby(["method", "protocol", "site", "seed"])
    scores = pd.DataFrame(
        [(*key, roc_auc_score(run["label"], run["score"])) for key, run in runs],
        columns=["method", "protocol", "site", "seed", "auc"],
    )
    compared = compare_methods(scores, predictions)
    anatomy, rest = compared.added
    assert set(compared.against) == {"ensemble[blocks=rest]", "ensemble[blocks=anatomy]"}  # what the report asks for
    aucs = scores.pivot(index="site", columns="method", values="auc")
    gain = 100 * (aucs["ensemble"] - aucs["ensemble[blocks=rest]"]).mean()
    assert anatomy.startswith(f"anatomy adds {gain:.1f} AUC points to rest") and rest.startswith("rest adds")
    lacking = (predictions["method"] == "ensemble[blocks=anatomy]") & (predictions["site"] == "A")
    some = predictions.assign(score=predictions["score"].mask(lacking, 0.0))
    of_nobody = scores["method"].str.contains("anatomy") & (scores["site"] == "A")
    aucs_of = scores.assign(auc=scores["auc"].mask(of_nobody, 0.5))
    told = [note for note in compare_methods(aucs_of, some).notes if "share one score" in note]
    assert len(told) == 1 and "40 of 320 people" in told[0] and "nobody of A" in told[0]
    assert not any("share one score" in note for note in compared.notes)


def test_a_site_whose_scores_point_the_other_way_is_named():
    predictions = make_predictions({"one": 2.0, "two": 1.8}, seeds=1)
    fair = compare_methods(score_runs(predictions), predictions)
    turned = predictions.assign(score=predictions["score"].where(predictions["site"] != "site5", -predictions["score"]))
    notes = [note for note in compare_methods(score_runs(turned), turned).notes if "reversed" in note]
    assert len(notes) == 1 and "site5 (one, two)" in notes[0]
    assert not any("reversed" in note for note in fair.notes)


def test_the_worst_of_a_few_large_sites_is_not_named_where_most_are_small():
    """One case in ten: the only site with five cases is better than the mean and would be called the worst."""
    predictions = make_predictions({"one": 1.0}, n_sites=6, per_class=20, seeds=1)
    number = predictions["subject"].str.split("-").str[1].astype(int)
    kept = predictions[(predictions["label"] == 0) | (number < 3) | ((predictions["site"] == "site2") & (number < 6))]
    table = compare_methods(score_runs(kept), kept).table
    assert table["worst_site"].tolist() == [""] and table["worst_auc"].isna().all()
    assert compare_methods(score_runs(predictions), predictions).table["worst_site"].iloc[0]


def test_sites_where_two_methods_are_equal_are_counted():
    predictions = make_predictions({"one": 1.0, "two": 1.0}, seeds=1)
    one = predictions[predictions["method"] == "one"].set_index(["site", "subject"])["score"]
    same = (predictions["method"] == "two") & predictions["site"].isin(["site0", "site1", "site2"])
    keys = list(zip(predictions["site"], predictions["subject"], strict=True))
    predictions["score"] = predictions["score"].where(~same, one.loc[keys].to_numpy())
    (sentence,) = compare_methods(score_runs(predictions), predictions).sentences
    assert "of 8, equal at 3;" in sentence


def test_no_site_above_the_mean_is_called_the_worst():
    """Two of four sites have five of each class and are the better ones."""
    sites = pd.DataFrame({"site": list("ABCD"), "n": [10, 10, 10, 10], "n_cases": [5, 5, 6, 6]})
    assert over_sites(sites.assign(auc=[0.8, 0.7, 0.5, 0.5]))["worst_site"] == ""
    assert over_sites(sites.assign(auc=[0.8, 0.5, 0.9, 0.9]))["worst_site"] == "B"
