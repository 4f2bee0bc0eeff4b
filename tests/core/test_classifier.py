"""CORE from series to a prediction at an unseen site, on cohorts whose truth is known."""

import re
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score

from brainroam import CoreClassifier, EnsembleClassifier, make_cohort
from brainroam.core.choice import Choice
from brainroam.core.model import CoreModel
from brainroam.core.recipe import NETWORK as NETWORK_ALONE
from brainroam.core.recipe import OURS, PAPER, Recipe
from brainroam.data.cohort import Cohort
from brainroam.errors import BrainroamError, DataError, EmptyScaffoldError, ShortSeriesError, UsageError
from brainroam.methods.registry import json_or_text, method_info

Q = ["age", "sex", "mean_fd"]  # the first two are regressed out, motion is projected out
SMALL = {"hidden": 4, "budget": 3, "tau_percentile": 60, "updates": 4}
NETWORK = SMALL | {"skip": "none"}


@pytest.fixture(scope="module")
def cohort():
    return make_cohort(n_sites=6, n_per_site=40, n_rois=24, seed=0)


@pytest.fixture(scope="module")
def train(cohort):
    return cohort.select(["S01", "S02", "S03", "S04", "S05"])


@pytest.fixture(scope="module")
def unseen(cohort):
    return cohort.select(["S06"])


@pytest.fixture(scope="module")
def model(train):
    return fitted(train, hidden=8, budget=10, tau_percentile=90, updates=60, skip="none")


@pytest.fixture(scope="module")
def small():
    return make_cohort(n_sites=4, n_per_site=12, n_rois=12, seed=1)


def fitted(cohort, y=None, random_state=0, **settings):
    table = cohort.table
    labels = cohort.labels if y is None else y
    clf = CoreClassifier(Recipe(**settings), random_state=random_state)
    return clf.fit(cohort.series, labels, site=table["site"], covariates=table[Q])


def core(clf):
    return clf.model_.model_.core_


def probability(clf, cohort):
    return clf.predict_proba(cohort.series, covariates=cohort.table[Q])[:, 1]


def content(clf):
    return {name: value.tobytes() for name, value in clf.model_.state().items()}


# --- it finds what is there ------------------------------------------------------------------------------------------


def test_the_scaffold_holds_the_planted_edges_and_little_else(cohort, model):
    planted, found = set(cohort.truth.effect_edges.tolist()), set(model.scaffold_.edges.tolist())
    assert len(planted & found) / len(found) > 0.75  # of all edges, 9 % were planted
    assert len(planted & found) / len(planted) > 0.75
    hits = np.isin(model.scaffold_.edges, cohort.truth.effect_edges)
    truth = np.sign(cohort.truth.effect[model.scaffold_.edges[hits]])
    np.testing.assert_array_equal(model.scaffold_.signs[hits], truth)


def test_it_predicts_at_a_site_it_has_never_seen(model, unseen):
    assert roc_auc_score(unseen.labels, probability(model, unseen)) > 0.75
    accuracy = (model.predict(unseen.series, covariates=unseen.table[Q]) == unseen.labels).mean()
    assert accuracy > 0.65


def test_with_labels_permuted_within_site_it_does_not(train, unseen):
    site, rng, aucs = train.table["site"].to_numpy(), np.random.default_rng(0), []
    for _ in range(3):
        y = train.labels.copy()
        for name in np.unique(site):
            y[site == name] = rng.permutation(y[site == name])
        clf = fitted(train, y, hidden=8, budget=10, tau_percentile=90, updates=20)
        aucs.append(roc_auc_score(unseen.labels, probability(clf, unseen)))
    assert abs(np.mean(aucs) - 0.5) < 0.15


def test_the_calibration_comes_from_sites_that_were_held_out(train, model):
    y, site = train.labels, train.table["site"].to_numpy()
    assert np.isfinite(model.inner_scores_).all()
    aucs = [roc_auc_score(y[site == name], model.inner_scores_[site == name]) for name in np.unique(site)]
    assert model.chosen_["auc"] == pytest.approx(np.mean(aucs))
    assert np.abs(model.calibration_(model.inner_scores_).mean() - y.mean()) < 0.1


# --- it keeps its promises -------------------------------------------------------------------------------------------


def test_one_person_is_predicted_as_in_a_batch(model, unseen):
    batch = probability(model, unseen)
    alone = [probability(model, unseen.subset([i])) for i in range(len(unseen))]
    np.testing.assert_allclose(np.concatenate(alone), batch, rtol=0, atol=1e-12)


def test_both_readings_are_added_by_the_choice_pathway_by_pathway(model, train, unseen):
    linear, mixed = fitted(train, tau_percentile=90, epochs=0), fitted(train, tau_percentile=90, epochs=0)
    mixed.model_.model_.core_, choice = core(model), Choice(0.3, 0.0, 0.01, 2.0, 0.5)
    mixed.model_.model_.choice_ = choice
    views = ("decision_function", "pathway_contributions")
    for view in views:
        ours, theirs, found = (getattr(clf, view)(unseen.series, unseen.table[Q]) for clf in (linear, model, mixed))
        np.testing.assert_allclose(found, 0.7 * ours / 2.0 + 0.3 * theirs / 0.5, rtol=1e-10, atol=1e-12)
    batch = mixed.decision_function(unseen.series, unseen.table[Q])
    alone = [mixed.decision_function([x], unseen.table[Q][i : i + 1])[0] for i, x in enumerate(unseen.series[:5])]
    np.testing.assert_allclose(alone, batch[:5], rtol=0, atol=1e-12)


def test_probabilities_are_probabilities(model, unseen):
    both = model.predict_proba(unseen.series, covariates=unseen.table[Q])
    np.testing.assert_allclose(both.sum(axis=1), 1)
    assert ((both > 0) & (both < 1)).all()


def test_gates_and_contributions_stand_in_the_order_of_the_scaffold(model, unseen):
    gates = model.gates(unseen.series, unseen.table[Q])
    contributions = model.pathway_contributions(unseen.series, unseen.table[Q])
    assert gates.shape == contributions.shape == (len(unseen), len(model.scaffold_))
    assert ((gates > 0) & (gates < 1)).all()
    logit = model.decision_function(unseen.series, unseen.table[Q])
    assert np.corrcoef(contributions.sum(axis=1), logit)[0, 1] > 0.95
    assert model.embedding(unseen.series, unseen.table[Q]).shape == (len(unseen), 8)


def test_a_corrupted_held_out_site_changes_no_byte(cohort, model):
    rng, table = np.random.default_rng(0), cohort.table
    here = (table["site"] == "S06").to_numpy()
    series = [rng.normal(size=x.shape) if gone else x for x, gone in zip(cohort.series, here, strict=True)]
    table.loc[here, "label"] = 1 - table.loc[here, "label"]
    table.loc[here, Q] = 1e6
    spoilt = Cohort(series, table).subset(~here)
    again = clone(model).fit(spoilt.using(Q))
    assert content(again) == content(model)


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(small):
    first, again, other = (fitted(small, **NETWORK, random_state=seed) for seed in (3, 3, 4))
    assert content(first) == content(again)
    assert content(first) != content(other)


def test_sharing_features_and_fits_between_subsets_changes_no_byte(small):
    part = small.select(["S01", "S03", "S04"])
    CoreClassifier(**SMALL).fit(small.using(Q))  # fills what the subsets share
    assert content(CoreClassifier(**SMALL).fit(part.using(Q))) == content(fitted(part, **SMALL))


def test_parameters_round_trip_and_models_clone(model):
    parameters = model.get_params()
    assert CoreClassifier(**parameters).get_params() == parameters
    literal = replace(PAPER, hidden=8, eta=0.8)
    assert CoreClassifier("paper", hidden=8, eta=0.8).method_and_settings()[1] == literal.changes()
    with pytest.raises(ValueError, match="huber_k"):
        clone(model).set_params(huber_k=2.0)
    copy = clone(model).set_params(eta=0.8, hidden=3)
    assert (copy.eta, copy.hidden) == (0.8, 3)
    assert not hasattr(copy, "reading_")
    with pytest.raises(NotFittedError):
        copy.predict_proba([np.zeros((50, 24))])


def test_labels_may_be_words_and_the_larger_one_is_the_condition(small):
    words = np.where(small.labels == 1, "patient", "control")
    clf = fitted(small, words, **SMALL)
    assert clf.classes_.tolist() == ["control", "patient"]
    np.testing.assert_allclose(probability(clf, small), probability(fitted(small, **SMALL), small))
    assert set(clf.predict(small.series, covariates=small.table[Q])) <= {"control", "patient"}
    clf.fit(small.using(Q))
    assert clf.classes_.tolist() == [0, 1]


@pytest.mark.parametrize(("n_per_site", "is_chosen"), [(8, True), (16, True), (20, False), (40, False)])
def test_held_out_sites_choose_the_thresholds_where_sites_are_too_small_to_agree(n_per_site, is_chosen):
    cohort = make_cohort(n_sites=4, n_per_site=n_per_site, n_rois=8, seed=1)
    model = CoreModel(Recipe(epochs=0)).fit(cohort, cohort.covariates())
    assert model.recipe.tau_percentile == ((0, 80) if is_chosen else 80)
    given = CoreModel(Recipe(epochs=0, tau_percentile=70)).fit(cohort, cohort.covariates())
    assert given.recipe.tau_percentile == given.chosen_["tau_percentile"] == 70


def test_thresholds_are_chosen_on_inner_sites_among_those_that_differ(small):
    grid = {"tau_percentile": [50, 60], "eta": [0.7, 0.74, 0.75]}  # with four sites all three eta mean three of four
    clf = fitted(small, **(SMALL | grid))
    assert clf.chosen_["tau_percentile"] in (50, 60)
    assert clf.chosen_["eta"] == 0.75 or clf.chosen_["eta"] == 0.7
    alone = fitted(small, **(SMALL | grid | {"eta": clf.chosen_["eta"]}))
    np.testing.assert_array_equal(probability(clf, small), probability(alone, small))


def test_a_grid_point_that_empties_the_scaffold_is_passed_over_and_recorded(small):
    clf = fitted(small, **(SMALL | {"tau_percentile": [60, 100]}))
    assert clf.chosen_["tau_percentile"] == 60
    assert any("tau_percentile 100" in note for note in clf.notes_)


def test_a_grid_point_that_was_validated_replaces_one_that_could_not_be(small, monkeypatch):
    read, calls = CoreModel._linear_scores, []

    def not_at_first(self, folds):
        calls.append(folds)
        return np.full_like(read(self, folds), np.nan) if len(calls) == 1 else read(self, folds)

    monkeypatch.setattr(CoreModel, "_linear_scores", not_at_first)
    assert fitted(small, **(SMALL | {"tau_percentile": [50, 60]})).chosen_["tau_percentile"] == 60


def test_zeta_is_chosen_where_several_are_given(small, monkeypatch):
    """With four sites a zeta of .9 excludes edges that eta admits; of those that select the same one is tried."""
    tried, read = [], CoreModel._linear_scores

    def count(self, folds):
        tried.append(len(folds.scaffold()))
        return read(self, folds)

    monkeypatch.setattr(CoreModel, "_linear_scores", count)
    clf = fitted(small, **(SMALL | {"tau_percentile": 40, "eta": 0.7, "zeta": [0.3, 0.31, 0.9], "epochs": 0}))
    assert len(tried) == 2 and tried[0] > tried[1] and clf.chosen_["zeta"] in (0.3, 0.9)
    alone = fitted(small, **(SMALL | {"tau_percentile": 40, "eta": 0.7, "zeta": clf.chosen_["zeta"], "epochs": 0}))
    np.testing.assert_array_equal(probability(clf, small), probability(alone, small))


@pytest.mark.parametrize("sign", ["both", "positive", "negative"])
def test_a_model_reads_edges_of_the_sign_that_was_asked_for(small, sign):
    clf = fitted(small, sign=sign, epochs=0, tau_percentile=40, eta=0.6)
    both = fitted(small, epochs=0, tau_percentile=40, eta=0.6).scaffold_
    signs = {"both": both.signs != 0, "positive": both.signs > 0, "negative": both.signs < 0}[sign]
    assert clf.scaffold_.edges.tolist() == both.edges[signs].tolist()


def test_channels_that_are_not_standardised_leave_the_linear_reading_as_it_is(small):
    linear = [fitted(small, epochs=0, tau_percentile=40, standardise=how) for how in (True, False)]
    np.testing.assert_allclose(probability(linear[0], small), probability(linear[1], small), atol=1e-9)
    networks = [core(fitted(small, **NETWORK, standardise=how)) for how in (True, False)]
    spread = [model.nodes(small, small.table).std(axis=1).mean() for model in networks]
    assert spread[0] == pytest.approx(1, abs=0.2) and spread[1] < 0.5


def test_an_empty_grid_is_named(small):
    with pytest.raises(DataError, match="value"):
        fitted(small, **(SMALL | {"eta": []}))


@pytest.mark.parametrize(
    "variant",
    [
        {"kind": "pearson"},
        {"kind": "partial"},
        {"deconfounding": "pooled"},
        {"profiles": True},
        {"profiles": True, "skip": "none"},
        {"prior_strength": 0.0},
        {"gated": False, "budget": 1000},
        {"orient": False, "skip": "none", "train": "joint", "train_residual": "site", "hidden": 8},
        {"skip": "sum"},
        {"train": "joint"},
        {"train_residual": "site"},
        {"bootstrap": "hierarchical", "zeta": 0.5},
        {"fit_on": "controls"},
        {"huber_delta": 0.2},
        {"layers": 1, "temperature": 0.5},
        {"epochs": 0},
        {"epochs": 6, "skip": "none"},
        {"updates": None, "max_epochs": 6, "skip": "none"},
        {"max_pathways": 5, "skip": "none"},
    ],
    ids=str,
)
def test_every_variant_fits_and_predicts(small, variant):
    clf = fitted(small, **(SMALL | variant))
    p = probability(clf, small)
    assert np.isfinite(p).all()
    assert p.std() > 0
    if variant.get("gated") is False or clf.chosen_["network"] == 0:
        assert (clf.gates(small.series, small.table[Q]) == 1).all()


def test_windows_in_seconds_follow_the_repetition_time(small):
    table, options = small.table, NETWORK | {"window_seconds": 60.0, "stride_seconds": 10.0, "profiles": True}
    clf = CoreClassifier(Recipe(**options)).fit(
        small.series, small.labels, site=table["site"], covariates=table[Q], tr=table["tr"]
    )
    z = clf.embedding(small.series, table[Q], tr=table["tr"])
    as_two_seconds = clf.embedding(small.series, table[Q], tr=np.full(len(small), 2.0))
    other = (table["tr"] != 2).to_numpy()
    np.testing.assert_allclose(as_two_seconds[~other], z[~other], atol=1e-6)
    assert other.any() and (np.abs(as_two_seconds[other] - z[other]).max(axis=1) > 1e-3).all()
    with pytest.raises(DataError, match="repetition time"):
        clf.predict_proba(small.series, table[Q])


# --- bad input -------------------------------------------------------------------------------------------------------


def with_series(cohort, i, x):
    return [x if k == i else old for k, old in enumerate(cohort.series)]


def test_short_series_are_named(small):
    cohort = Cohort(with_series(small, 5, small.series[5][:20]), small.table)
    with pytest.raises(ShortSeriesError, match=r"person 5 \(20 volumes\)"):
        fitted(cohort, **SMALL, profiles=True)
    with pytest.raises(ShortSeriesError, match=r"S01_0006 \(20 volumes\)"):
        CoreClassifier(**SMALL, profiles=True).fit(cohort.using(Q))
    clf = fitted(small, **NETWORK, profiles=True)
    with pytest.raises(ShortSeriesError, match=r"person 0 \(20 volumes\)"):
        clf.predict_proba([small.series[0][:20]], small.table[Q][:1])


def test_without_profiles_or_a_network_nobody_is_asked_for_windows(small):
    short = [small.series[0][:20]], small.table[Q][:1]
    assert fitted(small, **NETWORK).predict_proba(*short).shape == (1, 2)
    clf = fitted(small, **SMALL | {"epochs": 0, "profiles": True})
    assert clf.predict_proba(*short).shape == (1, 2)
    with pytest.raises(UsageError, match="embedding"):
        clf.embedding(small.series, small.table[Q])


def test_short_series_can_be_left_out_of_training_and_read_without_profiles(small):
    cohort = Cohort(with_series(small, 5, small.series[5][:20]), small.table)
    clf = fitted(cohort, **NETWORK, profiles=True, on_short="exclude")
    assert any("fewer volumes" in note and "person 5" in note for note in clf.notes_)
    assert len(clf.inner_scores_) == len(cohort)
    assert np.isnan(clf.inner_scores_[5])
    p = probability(clf, cohort)
    assert np.isfinite(p).all()
    np.testing.assert_allclose(probability(clf, cohort.subset([5])), p[5:6], rtol=0, atol=1e-12)


def test_an_empty_scaffold_is_named(small):
    with pytest.raises(EmptyScaffoldError, match="tau_percentile=100"):
        fitted(small, **(SMALL | {"tau_percentile": 100}))


def test_a_budget_beyond_the_scaffold_is_named_with_one_that_fits(small):
    with pytest.raises(EmptyScaffoldError, match=r"K = 500 .*?(\d+) edges") as error:
        fitted(small, **(SMALL | {"budget": 500}))
    size = int(str(error.value).split("exceeds the ")[1].split()[0])
    fitted(small, **(SMALL | {"budget": size}))


def test_without_a_budget_half_of_a_small_scaffold_may_open(small):
    free = {name: value for name, value in NETWORK.items() if name != "budget"}
    half = len(fitted(small, **free).scaffold_.edges) / 2
    assert half < 80
    weights = [fitted(small, **free, **k).reading_.network.state_dict() for k in ({}, {"budget": half}, {"budget": 1})]
    same, other = ([bool((weights[0][n] == w[n]).all()) for n in w] for w in weights[1:])
    assert all(same) and not all(other)


def test_a_single_training_site_is_named(small):
    with pytest.raises(DataError, match="two sites"):
        fitted(small.select(["S01"]), **SMALL)


def test_two_sites_are_trained_jointly_and_this_is_recorded(small):
    two = small.select(["S01", "S02"])
    clf = fitted(two, **NETWORK)
    assert any("trained jointly" in note for note in clf.notes_)
    assert any("threshold is learned on the training people" in note for note in clf.notes_)
    assert np.isfinite(probability(clf, small)).all()
    np.testing.assert_allclose(clf.inner_scores_, clf.decision_function(two.series, two.table[Q]), atol=1e-12)


def test_without_a_site_to_hold_out_the_linear_reading_is_kept(small):
    two = small.select(["S01", "S02"])
    clf = fitted(two, **SMALL)
    assert clf.chosen_["network"] == 0 and "gain" not in clf.chosen_ and "auc" not in clf.chosen_
    alone = EnsembleClassifier().fit(two.series, two.labels, site=two.table["site"], covariates=two.table[["mean_fd"]])
    np.testing.assert_array_equal(clf.inner_scores_, alone.inner_scores_)
    assert clf.notes_ == []


def test_three_sites_can_be_held_out_but_not_twice(small):
    clf = fitted(small.select(["S01", "S02", "S03"]), **SMALL)
    assert np.isfinite(clf.inner_scores_).all()


def test_a_site_with_one_class_serves_deconfounding_and_is_recorded(small):
    y = np.where(small.table["site"] == "S02", 0, small.labels)
    clf = fitted(small, y, **SMALL)
    assert any("without both classes" in note and "S02" in note for note in clf.notes_)
    assert "S02" in clf.deconfounder_.sites_
    assert clf.scaffold_.sites == ("S01", "S03", "S04")
    assert np.isnan(clf.inner_scores_[(small.table["site"] == "S02").to_numpy()]).all()


@pytest.mark.parametrize("labels", [(0, 0, 0), (0, 0, 1)])
def test_a_site_of_three_people_is_recorded(small, labels):
    keep = np.flatnonzero((small.table["site"] != "S04").to_numpy() | (small.table["subject"] <= "S04_0003").to_numpy())
    cohort = small.subset(keep)
    y = cohort.labels.copy()
    y[-3:] = labels
    clf = fitted(cohort, y, **SMALL)
    assert any("S04 (3 people) cannot estimate age" in note for note in clf.notes_)
    assert np.isfinite(probability(clf, small)).all()


@pytest.mark.parametrize("value", [np.nan, 0.0])
def test_a_person_without_any_signal_is_named(small, model, value):
    nothing = np.full(small.series[7].shape, value)
    with pytest.raises(DataError, match="person 7"):
        fitted(Cohort(with_series(small, 7, nothing), small.table), **SMALL)
    with pytest.raises(DataError, match="person 0"):
        model.predict_proba([np.full((90, 24), value)], pd.DataFrame({"age": [20.0], "sex": [1.0]}))


def test_people_with_dead_regions_are_read_on_the_others(small, model, unseen):
    x = unseen.series[0].copy()
    x[:, :4] = np.nan
    p = model.predict_proba([x], unseen.table[Q][:1])
    x[:, :4] = 7.0  # constant is as dead as not finite
    np.testing.assert_array_equal(model.predict_proba([x], unseen.table[Q][:1]), p)
    assert 0 < p[0, 1] < 1 and p[0, 1] != probability(model, unseen)[0]


def test_a_missing_covariate_column_is_named(model, unseen):
    with pytest.raises(DataError, match="sex"):
        model.predict_proba(unseen.series, unseen.table[["age"]])


def test_no_covariates_at_all_are_said_to_stand_at_the_training_mean(model, unseen):
    with pytest.warns(UserWarning, match="age, sex"):
        p = model.predict_proba(unseen.series)
    unknown = pd.DataFrame(np.nan, index=range(len(unseen)), columns=Q)
    np.testing.assert_array_equal(p, model.predict_proba(unseen.series, unknown))


def test_another_atlas_is_named(model, small):
    with pytest.raises(DataError, match=r"24 regions.* 12"):
        model.predict_proba(small.series, small.table[Q])


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (lambda y: np.zeros_like(y), "found 1"),
        (lambda y: np.where(np.arange(len(y)) == 3, np.nan, y), "person 3"),
    ],
)
def test_labels_that_cannot_be_learned_are_named(small, y, message):
    with pytest.raises(DataError, match=message):
        fitted(small, y(small.labels), **SMALL)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": [0, 1]}, "2 values of label"),
        ({"site": ["A", "B"]}, "2 values of site"),
        ({"covariates": pd.DataFrame({"age": [1.0, 2.0]})}, "48 people .*2 rows"),
        ({"tr": [2.0]}, "1 values of tr"),
        ({"site": None}, "site"),
        ({"X": [], "y": [], "site": []}, "classes|people"),
        ({"X": [np.zeros((50, 3, 2))] * 48}, "time x regions"),
    ],
)
def test_arguments_that_do_not_belong_together_are_named(small, changes, message):
    table = small.table
    arguments = {"X": small.series, "y": small.labels, "site": table["site"], "covariates": table[Q]}
    with pytest.raises(DataError, match=message):
        CoreClassifier(**SMALL).fit(**(arguments | changes))


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "pearsn"},
        {"train": "jointly"},
        {"train_residual": "sites"},
        {"deconfounding": "none"},
        {"on_short": "drop"},
        {"skip": "rigde"},
        {"bootstrap": "site"},
        {"fit_on": "patients"},
    ],
    ids=str,
)
def test_unknown_choices_name_the_nearest(small, wrong):
    (value,) = wrong.values()
    with pytest.raises(BrainroamError, match=value):
        fitted(small, **(SMALL | wrong))


# --- recipes ---------------------------------------------------------------------------------------------------------


def test_a_fixed_number_of_epochs_of_the_papers_network_is_trained_at_the_papers_rate():
    method = method_info("core-network").make(epochs=10)
    assert (method.recipe.learning_rate, method.recipe.updates) == (1e-3, None)


def test_the_page_tables_every_setting_in_which_the_recipes_differ():
    page = (Path(__file__).parents[2] / "docs" / "fidelity.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (\S+) \| (\S+) \| (\S+) \|$", page, re.M)
    tabled = {name: tuple(json_or_text(value) for value in values) for name, *values in rows}
    names = {field.name for field in fields(Recipe)}
    recipes = {name: tuple(getattr(recipe, name) for recipe in (OURS, NETWORK_ALONE, PAPER)) for name in names}
    assert tabled == {name: values for name, values in recipes.items() if len(set(values)) > 1}


# --- beyond the paper ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kinds():
    """Cases of four kinds, each with pathways of its own: eight sites to learn from, four never seen."""
    cohort = make_cohort(n_sites=12, n_per_site=40, n_rois=24, subtypes=4, effect=2.0, seed=0)
    unseen = np.isin(cohort.table["site"], cohort.sites[8:])
    return cohort.subset(~unseen), cohort.subset(unseen)


def test_the_network_wakes_where_cases_differ_in_their_pathways(kinds):
    train, unseen = kinds
    aucs, site = [], unseen.table["site"].to_numpy()
    for settings in ({}, {"epochs": 0}):
        clf = CoreClassifier(**settings).fit(train.using(Q))
        score = clf.decision_function(unseen.series, unseen.table[Q])
        aucs.append(np.mean([roc_auc_score(unseen.labels[site == s], score[site == s]) for s in unseen.sites]))
        if not settings:
            assert clf.chosen_["network"] > 0.5
            assert clf.chosen_["gain"] > 2 * clf.chosen_["gain_error"] > 0
    assert aucs[0] > aucs[1] + 0.03


def test_what_is_trained_for_a_held_out_group_uses_nothing_of_it(small, monkeypatch):
    trained = {}

    def keep(self, folds, left_out, epochs):
        network = original(self, folds, left_out, epochs)
        trained[left_out] = [value.numpy().tobytes() for value in network.state_dict().values()]
        return network

    original = CoreModel._train
    monkeypatch.setattr(CoreModel, "_train", keep)
    settings = {"hidden": 4, "tau_percentile": 60, "updates": 4, "skip": "none"}  # the gate budget follows the scaffold
    fitted(small, **settings)
    honest, table = dict(trained), small.table
    here, rng = (table["site"] == "S02").to_numpy(), np.random.default_rng(0)
    series = [rng.normal(size=x.shape) if bad else x for x, bad in zip(small.series, here, strict=True)]
    table.loc[here, "age"] += 50
    fitted(Cohort(series, table), np.where(here, 1 - small.labels, small.labels), **settings)
    same = {tuple(group) for group in honest if honest[group] == trained[group]}
    assert len(honest) == 5 and same == {("S02",)}


def test_trials_limit_how_many_groups_are_held_out(small):
    clf = fitted(small, **SMALL, trials=2, random_state=3)
    assert small.table["site"][np.isfinite(clf.inner_scores_)].nunique() == 2
    assert not any("never held out" in note for note in clf.notes_)


def test_a_network_alone_needs_training(small):
    with pytest.raises(UsageError, match="epochs"):
        fitted(small, **NETWORK | {"epochs": 0})


@pytest.mark.parametrize("gate", [{"gated": False}, {"prior_strength": 3.0}, {"hidden": 3, "updates": 9}])
def test_the_linear_reading_has_no_gates(small, gate):
    shared = {"epochs": 0, "tau_percentile": 50, "eta": 0.6}
    one, other = fitted(small, **shared), fitted(small, **shared, **gate)
    scores = [clf.decision_function(small.series, covariates=small.table[Q]) for clf in (one, other)]
    np.testing.assert_array_equal(*scores)
