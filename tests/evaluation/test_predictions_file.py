"""Predictions made elsewhere: judged like runs of ours, and looked at for what a leak leaves in scores."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from scipy.stats import mannwhitneyu, norm
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics import roc_auc_score
from typer.testing import CliRunner

import brainroam
from brainroam.cli import app
from brainroam.data.cohort import Cohort
from brainroam.data.target import Number
from brainroam.data.target_column import with_target
from brainroam.errors import ReaderError
from brainroam.evaluation.checks import check_files
from brainroam.evaluation.results import Results
from brainroam.evaluation.tables import read_table
from brainroam.report.data import read_data


@pytest.fixture(scope="module")
def cohort():
    return brainroam.make_cohort(n_sites=4, n_per_site=16, n_rois=8, seed=1)


@pytest.fixture(scope="module")
def runs(cohort, tmp_path_factory):
    path = tmp_path_factory.mktemp("study") / "runs"
    brainroam.evaluate(cohort, {"fc-ridge": "fc-ridge", "mine": RidgeClassifier()}, tuning="fast", out=path)
    return path


def drawn(seed=0, n_sites=12, n_per_site=30, effect=0.7, between=1.0, shares=(0.3, 0.7)):
    """Honest scores: of each person alone, from a site's own model, with levels that owe nothing to its labels."""
    rng = np.random.default_rng(seed)
    rows = []
    for k in range(n_sites):
        n_cases = round(n_per_site * rng.uniform(*shares))
        label = np.arange(n_per_site) < n_cases
        score = rng.normal(size=n_per_site) + effect * label + between * rng.normal()
        rows += [(f"p{k}-{i}", f"S{k}", int(y), s) for i, (y, s) in enumerate(zip(label, score, strict=True))]
    return pd.DataFrame(rows, columns=["subject", "site", "label", "score"])


def written(path, table):
    table.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")
    return path


def suspicions(table):
    rows = table.assign(method="mine", protocol="loso", fold=table["site"], seed=0)
    results = Results(pd.DataFrame(), rows, {"from_files": {"mine": "mine.csv"}})
    return {check.name: check.passed for check in check_files(results) if check.passed is not True}


def test_our_own_predictions_read_back_give_the_same_comparison(runs):
    ours, read = brainroam.compare(runs), brainroam.compare(runs / "predictions.csv")
    pd.testing.assert_frame_equal(ours.table, read.table)
    assert ours.sentences == read.sentences and not ours.caveats
    assert "really held out" in read.caveats[0]


def test_site_and_label_come_from_the_runs_beside_it(runs, tmp_path):
    rows = read_table(runs / "predictions.csv")
    mine = rows.loc[rows["method"] == "mine", ["subject", "score"]].iloc[1:]
    mine = mine.assign(subject="sub-" + mine["subject"])
    file = written(tmp_path / "elsewhere.tsv", mine.rename(columns={"subject": "Participant ID", "score": "y_score"}))
    done = CliRunner().invoke(app, ["compare", str(file), str(runs), "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    means = {row["method"]: row for row in found["methods"]}
    assert set(means) == {"fc-ridge", "mine", "elsewhere"}
    assert means["elsewhere"]["auc"] == pytest.approx(means["mine"]["auc"], abs=1e-12)
    assert means["elsewhere"]["acc"] is None and means["mine"]["acc"] is not None  # scores without a threshold
    assert any("1 person is not in every study" in note for note in found["notes"])
    assert {row["method"] for row in found["confounding"] if row["r_motion"] is not None} >= {"elsewhere", "fc-ridge"}


@pytest.mark.usefixtures("undrawn")
def test_report_of_a_file_alone_and_with_its_study(cohort, tmp_path):
    table = drawn(n_sites=4, n_per_site=16)[["score"]].assign(**cohort.table[["subject", "site", "label"]])
    file = written(tmp_path / "elsewhere.csv", table.assign(probability=1 / (1 + np.exp(-table["score"]))))
    page = brainroam.write_report(file, tmp_path / "alone.html").read_text("utf-8")
    assert "From a file" in page and "Head motion is not known" in page and "Decision curve" in page
    known = read_data(file, people=cohort)
    assert known.confounding["r_motion"].notna().all() and len(known.groups)


@pytest.mark.usefixtures("undrawn")
def test_runs_that_moved_are_reported_without_their_data(runs, tmp_path):
    moved = shutil.copytree(runs, tmp_path / "elsewhere")
    page = brainroam.write_report(moved, tmp_path / "report.html").read_text("utf-8")
    assert "searched for leaks before they were run" in page and "no leak found by" in page


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.drop(columns="score"), "score"),
        (lambda t: t.drop(columns="subject"), "subject"),
        (lambda t: t.drop(columns="site"), "site"),
        (lambda t: t.drop(columns="label"), "label"),
        (lambda t: t.assign(label=t["label"] + 1), "condition"),
        (lambda t: t.assign(score=t["score"].mask(t.index == 3)), "p0-3"),
        (lambda t: pd.concat([t, t.iloc[:1]]), "p0-0"),
        (lambda t: t.rename(columns={"score": "probability"}), "probabilities"),
    ],
)
def test_what_is_missing_or_wrong_is_named(change, words, tmp_path):
    with pytest.raises(ReaderError, match=words):
        brainroam.read_predictions(written(tmp_path / "mine.csv", change(drawn())))


def test_a_study_beside_the_file_says_what_its_labels_mean(cohort, tmp_path):
    scores = np.random.default_rng(0).normal(size=len(cohort)) + cohort.labels
    table = cohort.table[["subject", "site"]].assign(score=scores)
    plain = brainroam.read_predictions(written(tmp_path / "plain.csv", table), cohort)
    for name, (control, case) in {"numbers": (2, 1), "words": ("yin", "yang")}.items():
        file = written(tmp_path / f"{name}.csv", table.assign(label=np.where(cohort.labels == 1, case, control)))
        found = brainroam.read_predictions(file, cohort)
        np.testing.assert_array_equal(found.scores["auc"], plain.scores["auc"])
    with pytest.raises(ReaderError, match="condition"):  # ages are no labels of two classes
        brainroam.read_predictions(written(tmp_path / "ages.csv", table.assign(label=cohort.table["age"])), cohort)
    wrong = np.where(cohort.labels == 1, 1, 2)
    wrong[3] = 3 - wrong[3]
    with pytest.raises(ReaderError, match=cohort.table["subject"][3]):
        brainroam.read_predictions(written(tmp_path / "wrong.csv", table.assign(label=wrong)), cohort)


def test_the_probability_of_the_condition_is_found_among_two(cohort, tmp_path):
    p = 1 / (1 + np.exp(-np.random.default_rng(0).normal(size=len(cohort)) - cohort.labels))
    people = cohort.table[["subject", "site", "label"]]
    plain = brainroam.read_predictions(written(tmp_path / "plain.csv", people.assign(probability=p)))
    pair = people.assign(prob_TC=(1 - p).round(3), prob_ASD=p)
    for study in (None, cohort):
        found = brainroam.read_predictions(written(tmp_path / "mine.csv", pair), study)
        np.testing.assert_array_equal(found.scores["auc"], plain.scores["auc"])
        np.testing.assert_array_equal(found.scores["brier"], plain.scores["brier"])
    words = people["label"].map({0: "yin", 1: "yang"})
    named = with_target(Cohort(cohort.series, cohort.table.assign(dx=words), cohort.atlas), "dx:case=yang")
    pair = pair.drop(columns="label").set_axis(["subject", "site", "p_yin", "p_yang"], axis=1)
    found = brainroam.read_predictions(written(tmp_path / "named.csv", pair), named)
    np.testing.assert_array_equal(found.scores["auc"], plain.scores["auc"])


@pytest.mark.parametrize(
    ("names", "total", "words"), [(("svm", "ridge"), 1, "condition"), (("HC", "ASD"), 1.2, "add up")]
)
def test_probabilities_of_which_none_can_be_chosen_are_refused(names, total, words, tmp_path):
    p = np.random.default_rng(0).uniform(size=360)
    pair = dict(zip([f"prob_{name}" for name in names], [total - p, p], strict=True))
    with pytest.raises(ReaderError, match=words):
        brainroam.read_predictions(written(tmp_path / "mine.csv", drawn().drop(columns="score").assign(**pair)))


# -- a number, several classes


def told(kind):
    """A study of a number or of three classes, with both kinds of methods."""
    cohort = brainroam.make_cohort(n_sites=4, n_per_site=21, n_rois=8, seed=1)
    if kind == "age":
        with pytest.warns(UserWarning, match="covariate"):
            return with_target(cohort, "age")
    names = np.array(["HC", "MDD", "SCZ"])[np.arange(len(cohort)) % 3]
    table = cohort.table.assign(dx=names)
    return with_target(Cohort(cohort.series, table, cohort.atlas), "dx")


@pytest.fixture(scope="module", params=["age", "dx"])
def told_runs(request, tmp_path_factory):
    path = tmp_path_factory.mktemp(request.param) / "runs"
    brainroam.evaluate(told(request.param), ["fc-ridge", "log-ridge"], tuning="fast", out=path)
    return path


def test_our_own_numbers_and_classes_read_back_give_the_same_comparison(told_runs, tmp_path):
    ours, read = brainroam.compare(told_runs), brainroam.compare(told_runs / "predictions.csv")
    columns = [name for name in ours.table if name not in ("protocol", "verdict")]
    pd.testing.assert_frame_equal(ours.table[columns], read.table[columns])
    assert not ours.caveats and "really held out" in read.caveats[0] and "really held out" in str(read)
    done = CliRunner().invoke(app, ["compare", str(told_runs / "predictions.csv")])
    assert done.exit_code == 0 and "checks of the scores" in done.stdout
    page = brainroam.write_report(told_runs / "predictions.csv", tmp_path / "page.html").read_text("utf-8")
    assert "really held out" in page


def test_numbers_and_classes_stand_beside_runs_without_truth_and_with_people_missing(told_runs, tmp_path):
    rows = read_table(told_runs / "predictions.csv").query("method == 'fc-ridge'").iloc[1:]
    if "predicted" in rows and "low_90" in rows:
        mine = rows[["subject", "predicted"]].rename(columns={"predicted": "y_pred"})
    else:
        shares = {f"probability_{name}": f"prob_{name.lower()}" for name in ("HC", "MDD", "SCZ")}
        mine = rows[["subject", *shares]].rename(columns=shares)
    found = brainroam.compare([written(tmp_path / "mine.csv", mine), told_runs])
    table = found.table.set_index("method")
    assert set(table.index) == {"fc-ridge", "log-ridge", "mine"}
    assert "1 person is not in every study" in found.notes[0]
    if "r" in table:
        mine, ours = (table.loc[name, ["r", "mae", "mae_constant"]].astype(float) for name in ("mine", "fc-ridge"))
        np.testing.assert_allclose(mine[:2], ours[:2])
        np.testing.assert_allclose(mine, ours, rtol=1e-3)  # the mean of the training people lacks one person
    else:
        assert table.loc["mine", "brier"] == pytest.approx(table.loc["fc-ridge", "brier"])


def test_a_file_of_classes_is_read_by_names_or_places(tmp_path):
    rng = np.random.default_rng(0)
    code = np.arange(120) % 3
    score = rng.normal(size=(120, 3)) + 2 * np.eye(3)[code]
    people = pd.DataFrame({"subject": [f"p{i}" for i in range(120)], "site": np.repeat(list("ABCD"), 30)})
    columns = {f"score_{name}": score[:, k] for k, name in enumerate(["MDD", "SCZ", "HC"])}
    by_name = people.assign(label=np.array(["MDD", "SCZ", "HC"])[code], **columns)
    found = brainroam.read_predictions(written(tmp_path / "names.csv", by_name))
    assert found.target.classes == ("HC", "MDD", "SCZ")  # controls first
    by_place = brainroam.read_predictions(written(tmp_path / "places.csv", people.assign(label=code, **columns)))
    assert by_place.target.classes == ("MDD", "SCZ", "HC")
    for results in (found, by_place):
        here = results.scores.set_index("site")
        expected = np.mean([roc_auc_score(code[:30] == k, score[:30, k]) for k in range(3)])
        assert here.loc["A", "auc"] == pytest.approx(expected)
        assert here.loc["A", "acc"] == np.mean(score[:30].argmax(axis=1) == code[:30])
        assert np.isnan(here.loc["A", "brier"])  # scores are no probabilities
        assert (brainroam.compare(results).class_pairs["auc"] > 0.8).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.drop(columns="y_pred"), "predicted"),
        (lambda t: t.assign(y_pred=t["y_pred"].mask(t.index == 3)), "p3"),
        (lambda t: t.assign(y_true=t["y_true"].mask(t.index == 3, 99.0)), "p3"),
    ],
)
def test_what_is_missing_in_a_file_of_numbers_is_named(change, words, tmp_path):
    rng = np.random.default_rng(0)
    truth = rng.normal(30, 8, size=60)
    table = pd.DataFrame({"subject": [f"p{i}" for i in range(60)], "site": np.repeat(list("ABC"), 20)})
    table = table.assign(y_true=truth, y_pred=truth + rng.normal(size=60))
    alone = brainroam.read_predictions(written(tmp_path / "age.csv", table))
    with pytest.raises(ReaderError, match=words):
        brainroam.read_predictions(written(tmp_path / "mine.csv", change(table)), alone)


def test_files_of_other_things_are_not_joined(told_runs, tmp_path):
    file = written(tmp_path / "mine.csv", drawn(n_sites=4))
    with pytest.raises(ReaderError):
        brainroam.compare([file, told_runs])


def test_labels_that_contradict_the_study_are_refused(cohort, tmp_path):
    table = cohort.table[["subject", "site"]].assign(label=1 - cohort.labels, score=np.arange(len(cohort)))
    with pytest.raises(ReaderError, match="label"):
        brainroam.read_predictions(written(tmp_path / "mine.csv", table), cohort)


def test_folds_of_people_are_not_taken_for_sites(tmp_path):
    table = drawn().assign(fold=lambda t: t.index % 5)
    assert brainroam.compare(written(tmp_path / "cv.csv", table)).table["protocol"].tolist() == ["cv"]
    whole = drawn().assign(fold=lambda t: t["site"].isin(["S0", "S1"]).astype(int))
    found = brainroam.compare(written(tmp_path / "groups.csv", whole)).table
    assert found["protocol"].tolist() == ["loso"] and found["n_sites"].tolist() == [12]


def test_honest_scores_raise_no_suspicion():
    found = [suspicions(drawn(seed, between=between)) for seed in range(12) for between in (0.0, 0.5)]
    assert not [names for names in found if False in names.values()]


def centred_features(table):
    """Features centred with the people scored; the intercept of each fold is the share of cases elsewhere."""
    of_site = table.groupby("site")
    share = (table["label"].sum() - of_site["label"].transform("sum")) / (
        len(table) - of_site["label"].transform("size")
    )
    return table.assign(score=table["score"] - of_site["score"].transform("mean") + 20 * share)


@pytest.mark.parametrize(
    ("cheat", "name"),
    [
        (lambda t: t.assign(score=t["label"]), "labels-as-scores"),
        (lambda t: t.assign(score=t["label"] + 0.01 * t["score"]), "perfect"),
        (lambda t: t.assign(score=-t["score"]), "reversed"),
        (lambda t: t.assign(score=t["score"] - t.groupby("site")["score"].transform("mean")), "centred"),
        (centred_features, "centred"),
        (lambda t: t.assign(score=t["score"] + 8 * t.groupby("site")["label"].transform("mean")), "follows-site"),
        (lambda t: pd.concat([t, t.iloc[:1].assign(site="S5")]), "people-twice"),
    ],
)
def test_what_a_leak_leaves_in_scores_is_seen(cheat, name):
    assert suspicions(cheat(drawn(between=0.2))).get(name) is False


def test_scores_that_say_the_opposite_are_told_with_the_sites_and_the_remedy(tmp_path):
    table = drawn(between=0.2).assign(score=lambda t: t["score"].where(t["site"].isin(["S3", "S7"]), -t["score"]))
    done = CliRunner().invoke(app, ["compare", str(written(tmp_path / "mine.csv", table))], env={"COLUMNS": "500"})
    assert "10 of 12 sites (not S3, S7)" in done.stdout and "Turn the sign" in done.stdout
    rows = table.assign(method="mine", protocol="loso", fold=table["site"], seed=0)
    ages = rows.assign(label=50 - 5 * table["score"] + 10 * table["label"])
    study = {"target": Number("age").described(), "from_files": {"mine": "mine.csv"}}
    (check,) = [c for c in check_files(Results(pd.DataFrame(), ages, study)) if c.name == "reversed"]
    assert check.passed is False and "all 12 sites" in check.evidence


def test_the_p_of_reversed_is_that_of_wilcoxon_sums_over_sites():
    table = drawn(n_sites=5, effect=-0.4)
    table = table[table.index % 7 < table["site"].str[1:].astype(int) + 2]  # sites of different sizes
    sums, variances = [], []
    for _, here in table.groupby("site"):
        cases, controls = (here.loc[here["label"] == label, "score"] for label in (1, 0))
        m, n = len(cases), len(controls)
        sums.append((mannwhitneyu(cases, controls).statistic - m * n / 2) / (m + n))
        variances.append(m * n * (m + n + 1) / 12 / (m + n) ** 2)
    rows = table.assign(method="mine", protocol="loso", fold=table["site"], seed=0)
    results = Results(pd.DataFrame(), rows, {"from_files": {"mine": "mine.csv"}})
    (check,) = [check for check in check_files(results) if check.name == "reversed"]
    assert check.value == pytest.approx(norm.cdf(sum(sums) / np.sqrt(sum(variances))))


def test_reversed_scores_are_not_blamed_for_more_than_that():
    """Honest levels fall where there are more cases; turned round they rise, as those of a model that knew the site."""
    table = drawn(between=0.0).assign(score=lambda t: t["score"] - 3 * t.groupby("site")["label"].transform("mean"))
    assert suspicions(table) == {}
    assert suspicions(table.assign(score=-table["score"])) == {"reversed": False}


def test_oddities_are_noted():
    odd = drawn(between=0.2)
    odd.loc[5, "score"] = odd.loc[100, "score"]
    assert suspicions(odd) == {"equal-scores": None}
    classes = drawn(between=0.2).assign(score=lambda t: (t["score"] > 0.5).astype(int))
    assert suspicions(classes) == {"coarse": None}
    scales = drawn(between=0.0).assign(score=lambda t: t["score"].where(t["site"] != "S1", 100 * t["score"]))
    assert suspicions(scales)["fold-scale"] is None
