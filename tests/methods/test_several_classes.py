"""Several classes: scores, calibration, sets and estimators."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax

import brainroam
from brainroam.core.deconfound import SiteDeconfounder
from brainroam.core.ridge import ridge_weights
from brainroam.core.site_statistics import site_statistics
from brainroam.data.check import check_cohort
from brainroam.data.people import mean_of_scans, persons
from brainroam.data.target.calibration import as_shares, calibrate_classes
from brainroam.data.target.shifts import ClassShift, SiteShift
from brainroam.data.target_column import with_target
from brainroam.errors import DataError, ReaderError, UsageError
from brainroam.methods.predictions import predictions
from brainroam.methods.registry import method_info
from brainroam.methods.saving import load_method, save_method
from brainroam.methods.tuning import TunedMethod

CLASSES = ("HC", "MDD", "SCZ")


@pytest.fixture(scope="module")
def cohort():
    """Controls and two kinds of cases, one of which has an edge of its own."""
    made = brainroam.make_cohort(n_sites=5, n_per_site=18, n_rois=10, seed=1)
    dx = np.array(CLASSES)[np.tile([0, 1, 2], 30)]
    series = []
    rng = np.random.default_rng(0)
    for one, name in zip(made.series, dx, strict=True):
        one = one.copy()
        if name == "SCZ":
            one[:, 7] += 1.5 * one[:, 2]
        if name == "MDD":
            one[:, 9] += 1.0 * one[:, 4]
        series.append(one + 0.1 * rng.normal(size=one.shape))
    return with_target(made.with_series(series).with_columns(pd.DataFrame({"dx": dx})), "dx")


@pytest.mark.parametrize("method", ["fc-ridge", "ensemble", "tangent-ridge", "core[epochs=0]", "scaffold-ridge"])
def test_three_classes_are_told_apart_at_a_site_never_seen_and_survive_saving(cohort, method, tmp_path):
    train, new = cohort.select(cohort.sites[:4]), cohort.select(cohort.sites[4:])
    clf = brainroam.SiteClassifier(method).fit(train)
    p = clf.predict_proba(new)
    assert p.shape == (len(new), 3)
    assert np.allclose(p.sum(axis=1), 1)
    assert clf.decision_function(new).shape == p.shape
    truth = np.array(CLASSES)[new.targets.astype(int)]
    assert (clf.predict(new) == truth).mean() > 0.6
    clf.save(tmp_path / "model")
    again = brainroam.load_model(tmp_path / "model")
    assert again.classes_.tolist() == list(CLASSES)
    assert np.array_equal(again.predict_proba(new), p)
    assert np.array_equal(again.predict_set(new, level=0.8), clf.predict_set(new, level=0.8))


def test_scores_of_a_ridge_are_those_of_a_regression_on_indicator_columns(cohort):
    scores = TunedMethod(method_info("combat-ridge"), "default").fit(cohort).score(cohort)
    one = [TunedMethod(method_info("combat-ridge"), "default").fit(cohort.one_against_rest(k)) for k in range(3)]
    assert np.allclose(scores, np.column_stack([each.score(cohort) for each in one]), atol=1e-10)


def test_many_people_and_features_have_one_solution_for_all_classes(monkeypatch):
    monkeypatch.setattr("brainroam.core.ridge.LARGE", 10)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 30)), rng.normal(size=(40, 3))
    alone = np.column_stack([ridge_weights(x, y[:, k], 1.0, 3.0) for k in range(3)])
    assert np.allclose(ridge_weights(x, y, 1.0, 3.0), alone, atol=1e-9)


def test_a_scaffold_keeps_what_any_class_shows_against_the_controls(cohort):
    statistics = site_statistics(cohort, cohort.covariates(), SiteDeconfounder())
    found = statistics.scaffold(statistics.sites, 80, 0.75, 0.7)
    edges = {tuple(pair) for pair in statistics.pairs[found.edges].tolist()}
    assert {(2, 7), (4, 9)} <= edges
    assert len(statistics.parts) == 2
    alone = [set(part.scaffold(part.sites, 80, 0.75, 0.7).edges) for part in statistics.parts]
    assert set(found.edges) == set.union(*alone)


def test_decisions_treat_classes_alike_and_shares_move_probabilities_by_bayes():
    rng = np.random.default_rng(0)
    code, site = rng.choice(3, 3000, p=[0.9, 0.06, 0.04]), np.arange(3000) % 10
    score = np.eye(3)[code] * 1.5 + rng.normal(size=(3000, 3))
    found = calibrate_classes(score, code, site)
    called = found.decide(score)
    recall = [np.mean(called[code == k] == k) for k in range(3)]
    assert np.ptp(recall) < 0.1
    assert found(score).mean(axis=0) == pytest.approx([0.9, 0.06, 0.04], abs=0.02)
    shares = np.array([0.2, 0.3, 0.5])
    bayes = found.equal(score) * shares
    assert np.allclose(found(score, shares), bayes / bayes.sum(axis=1, keepdims=True))
    assert np.allclose(found.slope, 1.5, atol=0.25)  # log odds of unit normal scores 1.5 apart
    assert softmax(1.5 * score, axis=1) == pytest.approx(found.equal(score), abs=0.1)


def test_a_class_that_no_held_out_site_shows_moves_nothing():
    rng = np.random.default_rng(0)
    code, site = np.repeat([0, 1], 30), np.tile(["A", "B", "C"], 20)
    score = np.column_stack([rng.normal(size=(60, 2)), np.zeros(60)])
    p = calibrate_classes(score, code, site).equal(score)
    assert p[:, 2].max() < 1e-6


def test_blocks_are_weighed_over_all_classes(cohort):
    rng = np.random.default_rng(0)
    people = {"rest": cohort.series, "noise": rng.normal(size=(len(cohort), 6))}
    truth = np.array(CLASSES)[cohort.targets.astype(int)]
    clf = brainroam.SiteClassifier("fc-ridge").fit(people, truth, site=cohort.table["site"])
    weights = clf.model_.model_.weights_
    assert clf.predict_proba(people).shape == (len(cohort), 3)
    assert clf.inner_scores_.shape == (len(cohort), 3)
    assert weights[0] > 0


@pytest.mark.parametrize("y", [[1, 2, 3], ["a", "b", "c"], ["7", 8, "none"]])
def test_labels_may_be_words_or_numbers(cohort, y):
    labels = np.array(y)[cohort.targets.astype(int)]
    clf = brainroam.SiteClassifier("fc-ridge").fit(cohort.series, labels, site=cohort.table["site"])
    assert set(clf.predict(cohort.series)) <= set(labels)


def test_what_is_no_class_is_asked_about(cohort):
    with pytest.raises(DataError, match="number"):
        brainroam.SiteClassifier("fc-ridge").fit(cohort.series, np.arange(len(cohort)), site=cohort.table["site"])
    with pytest.raises(UsageError, match="share"):
        as_shares([0.5, 0.5], CLASSES)
    with pytest.raises(UsageError, match="share"):
        as_shares({"HC": 1.0}, CLASSES)


def test_anybodys_estimator_is_searched_for_leaks_and_read_once_for_each_class(cohort, capsys):
    from sklearn.linear_model import RidgeClassifier

    results = brainroam.evaluate(cohort.select(cohort.sites[:3]), {"mine": RidgeClassifier(alpha=10.0)})
    assert "no leak found" in capsys.readouterr().err
    assert {f"score_{name}" for name in CLASSES} <= set(results.predictions)


def test_check_names_a_class_of_few_people_and_counts_each(cohort):
    scz = np.flatnonzero(cohort.targets == 2)
    few = cohort.subset(np.setdiff1d(np.arange(len(cohort)), scz[8:]))
    found = check_cohort(few)
    assert ["'SCZ' has 8 people" in one.message for one in found.findings if one.code == "rare-class"] == [True]
    assert found.sites[["n_HC", "n_MDD", "n_SCZ"]].to_numpy().sum(axis=0).tolist() == [30, 30, 8]
    assert not [one for one in check_cohort(cohort).findings if one.code == "rare-class"]


def test_a_file_with_one_score_for_several_classes_is_refused(cohort, tmp_path):
    file = tmp_path / "mine.csv"
    cohort.table[["subject"]].assign(score=0.5).to_csv(file, index=False)
    with pytest.raises(ReaderError, match="class"):
        brainroam.read_predictions(file, cohort)


def test_a_step_of_an_order_is_known_by_its_name(cohort):
    step = 1 + np.arange(len(cohort)) % 4
    ordered = with_target(cohort.with_columns(pd.DataFrame({"stage": step})), "stage:ordered")
    method = TunedMethod(method_info("fc-ridge"), "fast").fit(ordered)
    late = cohort.with_columns(pd.DataFrame({"stage": step})).subset(np.flatnonzero(step > 1))
    table = predictions(method, with_target(late, "stage:ordered"))
    assert table["label"].tolist() == (step[step > 1] - 1).tolist()  # stage 1 is step 0, though nobody here has it
    assert np.array_equal(table["level"].astype(int), 1 + np.rint(table["predicted"]).astype(int))
    assert set(table["level"]) <= set("1234")


def test_controls_or_everybody_of_a_new_site_move_its_scores_and_never_the_order(cohort, tmp_path):
    sites = cohort.sites
    model = TunedMethod(method_info("fc-ridge"), "default").fit(cohort.select(sites[:-1]))
    save_method(tmp_path / "model", model, cohort.select(sites[:-1]))
    again, new = load_method(tmp_path / "model", cohort)[0], cohort.select(sites[-1:])
    controls = new.table["subject"][new.targets == 0][:3].tolist()
    strict = predictions(model, new)
    for options in ({"controls": controls}, {"adapt": "unlabelled"}):
        moved, loaded = (predictions(one, new, **options) for one in (model, again))
        pd.testing.assert_frame_equal(moved.drop(columns="flags"), loaded.drop(columns="flags"))
        kept = strict[strict["subject"].isin(moved["subject"])].reset_index(drop=True)
        assert set(moved["protocol"]) == {"controls-3"} if "controls" in options else {"unlabelled"}
        assert not set(moved["subject"]) & set(options.get("controls", ()))
        for name in cohort.target.classes:
            pd.testing.assert_series_equal(moved[f"score_{name}"], kept[f"score_{name}"])
    shift = ClassShift((SiteShift(0.0, 0.1), SiteShift(1.0, 0.1)))
    assert shift(np.full((10, 2), 3.0)).tolist() == [1.5, 1.0]  # half of how far the mean lies from the centre


def test_a_class_whose_people_were_scanned_five_times_is_no_more_frequent():
    """A third of the people are of each class: learned were shares of .14, .14 and .71."""
    made = brainroam.make_cohort(n_sites=3, n_per_site=12, n_rois=8, seed=1)
    dx = np.tile(["HC", "MDD", "SCZ"], len(made) // 3)
    again = np.repeat(np.arange(len(made)), np.where(dx == "SCZ", 5, 1))
    rows = made.table.iloc[again].reset_index(drop=True).assign(dx=dx[again])
    scans = rows.assign(person=rows["subject"], subject=[f"scan{k}" for k in range(len(rows))])
    rng = np.random.default_rng(0)
    series = [made.series[i] + 0.3 * rng.normal(size=made.series[i].shape) for i in again]
    cohort = with_target(made.made_of(series, scans), "dx")
    fitted = TunedMethod(method_info("fc-ridge")).fit(cohort)
    np.testing.assert_allclose(fitted.calibration_.prevalence, [1 / 3] * 3)
    people = mean_of_scans(fitted.probability(cohort), persons(cohort.table).to_numpy())
    np.testing.assert_allclose(people.mean(axis=0), [1 / 3] * 3, atol=0.12)
    moved = predictions(fitted, cohort, adapt="unlabelled")
    assert (moved["protocol"] == "unlabelled").all() and moved["label"].tolist() == dx[again].tolist()
