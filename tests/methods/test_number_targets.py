"""A number as the target: slopes and correlations in the place of contrasts and AUCs, in the target's own units."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

import brainroam
from brainroam.audit import audit
from brainroam.audit.candidates import candidate
from brainroam.audit.shortcuts import mean_order, permuted_within_site
from brainroam.core.connectivity import EdgeKind, edges
from brainroam.core.deconfound import SiteDeconfounder
from brainroam.core.model import CoreModel
from brainroam.core.nuisance import nuisance_variables
from brainroam.core.pathways import SITE_PEOPLE, site_rows
from brainroam.core.recipe import Recipe
from brainroam.core.ridge import ridge_candidates
from brainroam.core.scaffold import site_contrasts
from brainroam.core.site_edges import SiteEdges
from brainroam.core.site_folds import SiteFolds
from brainroam.core.site_statistics import NUMBER_PENALTIES, SiteStatistics
from brainroam.core.targets import slopes
from brainroam.data.target.order import correlations, order_gain
from brainroam.data.target_column import with_target
from brainroam.errors import DataError, MemoryLimitError, UsageError
from brainroam.evaluation.external import agreement, validate
from brainroam.methods import edge_ridge
from brainroam.methods.predictions import predictions
from brainroam.methods.registry import method_info
from brainroam.methods.tuning import TunedMethod

NUMBER_METHODS = ("fc-ridge", "log-ridge", "ensemble", "scaffold-ridge", "tangent-ridge", "combat-ridge")
CONTROLS = ("majority", "confounds")


@pytest.fixture(scope="module")
def cohort():
    """Six sites whose people's number follows some edges, and whose level differs between sites."""
    made = brainroam.make_cohort(n_sites=6, n_per_site=24, n_rois=10, seed=1)
    x = edges(made.series)
    rng = np.random.default_rng(0)
    number = 50 + 20 * (x[:, :8] - x[:, :8].mean(axis=0)).sum(axis=1) + rng.normal(0, 3, len(x))
    number += made.table["site"].map({name: 4 * k for k, name in enumerate(made.sites)})
    return with_target(made.with_columns(pd.DataFrame({"score": number})), "score")


def test_the_slope_on_two_classes_is_the_difference_of_their_means():
    rng = np.random.default_rng(0)
    y, site = np.tile([0, 1, 1], 20), np.repeat(["A", "B"], 30)
    r = rng.normal(size=(60, 5))
    r[3, 2] = np.nan
    for delta in (np.inf, 0.8):
        contrast = site_contrasts(r, y, site, ["A", "B"], huber_delta=delta)
        of_slopes = [slopes(r[site == name], y[site == name].astype(float), delta) for name in ("A", "B")]
        assert np.allclose(contrast, of_slopes, atol=1e-8)


def test_the_pooled_contrast_of_all_edges_on_0_and_1_is_that_of_two_classes():
    made = brainroam.make_cohort(n_sites=3, n_per_site=10, n_rois=8)
    as_number = made.predicting(brainroam.data.target.Number("y"), made.table)
    kind = EdgeKind("pearson")
    classes, number = (SiteEdges(people, kind).contrast(made.sites) for people in (made, as_number))
    assert np.allclose(classes, number)


def test_nuisance_variables_do_not_go_with_the_number_within_a_site(cohort):
    nuisance = nuisance_variables(cohort, ["mean_fd"])
    for name in cohort.sites:
        here = (cohort.table["site"] == name).to_numpy()
        assert abs(np.corrcoef(cohort.targets[here], nuisance[here, 0])[0, 1]) < 1e-8


def test_the_gain_of_a_score_is_that_of_its_correlation():
    rng = np.random.default_rng(0)
    t = rng.normal(size=200)
    poor, good = t + 3 * rng.normal(size=200), t + rng.normal(size=200)
    gain, variance = order_gain(t, poor, good)
    assert gain == pytest.approx(np.arctanh(np.corrcoef(t, good)[0, 1]) - np.arctanh(np.corrcoef(t, poor)[0, 1]))
    assert gain > 3 * np.sqrt(variance)
    assert correlations(t, np.full(200, 7.0)) == 0


@pytest.mark.parametrize("name", [*NUMBER_METHODS, *CONTROLS])
def test_methods_learn_a_number_and_are_saved_with_it(cohort, name, tmp_path):
    train, new = cohort.select(cohort.sites[:5]), cohort.select(cohort.sites[5:])
    fitted = TunedMethod(method_info(name)).fit(train)
    score = fitted.score(new)
    predicted = fitted.readout_.predict(score)
    if name in NUMBER_METHODS:
        assert correlations(new.targets, score) > 0.4
        assert np.abs(predicted - new.targets).mean() < 20
    low, high = fitted.sets_(fitted.calibration_(score), 0.8)
    assert (low < predicted).all() and (predicted < high).all()
    again = TunedMethod(method_info(name))
    again.configuration_ = fitted.configuration_
    again.load_state(fitted.state())
    assert again.target_ == cohort.target
    assert (again.readout_.predict(again.score(new)) == predicted).all()


def test_a_method_for_two_classes_says_so(cohort):
    with pytest.raises(UsageError, match="number"):
        TunedMethod(method_info("fc-svm")).fit(cohort)


def test_a_regressor_for_arrays_predicts_in_units_with_intervals_and_is_saved(cohort, tmp_path):
    people = cohort.table
    model = brainroam.SiteRegressor("fc-ridge", transform="log")
    model.fit(cohort.series, people["label"], site=people["site"])
    predicted, ends = model.predict(cohort.series), model.predict_interval(cohort.series, level=0.8)
    assert ((ends[:, 0] < predicted) & (predicted < ends[:, 1])).all()
    assert np.mean((ends[:, 0] <= people["label"]) & (people["label"] <= ends[:, 1])) > 0.7
    again = brainroam.load_model(model.save(tmp_path / "model"))
    assert (again.predict(cohort.series) == predicted).all()
    assert again.get_params()["transform"] == "log"
    with pytest.raises(UsageError, match="95"):
        model.predict_interval(cohort.series, level=0.95)


def test_core_reads_a_number_by_pathways_whose_slope_all_sites_share(cohort):
    train, new = cohort.select(cohort.sites[:5]), cohort.select(cohort.sites[5:])
    linear = TunedMethod(method_info("core"), "default", epochs=0, tau_percentile=60).fit(train)
    assert correlations(new.targets, linear.score(new)) > 0.4
    network = TunedMethod(method_info("core"), "default", updates=40, tau_percentile=60, hidden=4).fit(train)
    assert "r" in network.model_.core_.chosen_
    assert "Fisher" in network.model_.decision
    assert correlations(new.targets, network.score(new)) > 0.3
    again = TunedMethod(method_info("core"), "default", updates=40, tau_percentile=60, hidden=4)
    again.configuration_ = network.configuration_
    again.load_state(network.state())
    np.testing.assert_array_equal(again.score(new), network.score(new))


def test_core_chooses_how_much_it_reads_of_a_number_and_its_penalty_at_held_out_sites(cohort):
    """Of a number that goes with every edge, and of one that goes with a single edge which all sites share."""
    x = edges(cohort.series)
    noise = np.random.default_rng(3).normal(size=(2, len(x)))
    weights = np.random.default_rng(4).normal(size=x.shape[1])
    everywhere = x @ weights / np.std(x @ weights) + 0.3 * noise[0]
    for number in (everywhere, x[:, 3] / x[:, 3].std() + 0.3 * noise[1]):
        people = with_target(cohort.with_columns(pd.DataFrame({"made": number})), "made:number")
        core = CoreModel(Recipe(epochs=0)).fit(people, people.covariates())
        fixed = [
            CoreModel(Recipe(epochs=0, tau_percentile=[tau], eta=[eta], zeta=0, penalties=[penalty]))
            for tau in (0, 80)
            for eta in (0, 0.75)
            for penalty in NUMBER_PENALTIES
        ]
        found = [one.fit(people, people.covariates()) for one in fixed]
        best = found[int(np.argmax([one.chosen_["r"] for one in found]))]
        assert core.chosen_["r"] == best.chosen_["r"]
        assert best.recipe.penalties == (core.chosen_["penalty"],)
        np.testing.assert_array_equal(core.inner_scores_, best.inner_scores_)
        np.testing.assert_array_equal(core.pathways_.skip, best.pathways_.skip)


def test_the_people_of_a_held_out_site_cannot_change_how_core_reads_them(cohort):
    """Neither their number, which is dealt anew among them, nor their edges."""
    x, site = edges(cohort.series), cohort.table["site"].to_numpy().astype(str)
    y, levels = cohort.target.code(cohort.targets, site)
    here, rng = site == "S03", np.random.default_rng(0)
    other_x, other_y = x.copy(), y.copy()
    other_x[here], other_y[here] = rng.normal(size=(here.sum(), x.shape[1])), rng.permutation(y[here])
    found = []
    for values, t, means in ((x, y, levels), (other_x, other_y, {**levels, "S03": 99.0})):
        deconfounder = SiteDeconfounder(slopes="shrunken")
        how = {"contrast": "mean", "levels": means, "target": cohort.target}
        statistics = SiteStatistics(values, t, site, cohort.covariates(), deconfounder, **how)
        folds = SiteFolds(statistics, {"tau_percentile": 0, "eta": 0, "zeta": 0}, device=None)
        found.append(folds.pathways_by_candidate(frozenset({"S03"})))
    assert len(found[0]) == len(NUMBER_PENALTIES)
    for before, after in zip(*found, strict=True):
        np.testing.assert_array_equal(before.skip, after.skip)


def test_levels_of_sites_are_random_effects_in_the_reading_of_core():
    """The same weights as a ridge with a free intercept on edges beside an indicator of each site, by least squares."""
    rng = np.random.default_rng(0)
    n_people = np.array([5, 12, 20, 30])
    place = np.repeat(np.arange(4), n_people)
    for n_features in (6, 90):  # fewer and more than people: the two forms of the solution
        within, level = rng.normal(size=(len(place), n_features)), rng.normal(size=(4, n_features))
        t, t_level = rng.normal(size=len(place)), rng.normal(size=4)
        for k in range(4):
            within[place == k] -= within[place == k].mean(axis=0)
            t[place == k] -= t[place == k].mean()
        rows = site_rows(level, t_level, n_people)
        found = ridge_candidates(within, t, [(0.5,), (4.0,)], rows)
        unit = ((within**2).sum() + (rows.features**2).sum()) / len(place)
        for penalty, weights in zip((0.5, 4.0), found, strict=True):
            absolute = penalty * unit
            features = np.hstack([within + level[place], np.sqrt(absolute / SITE_PEOPLE) * np.eye(4)[place]])
            ridge = Ridge(alpha=absolute).fit(features, t + t_level[place])
            np.testing.assert_allclose(weights, ridge.coef_[:n_features], atol=1e-8)


def test_core_passes_over_what_the_memory_given_is_too_little_for(cohort, monkeypatch):
    def require(self, n_nodes, n_trained, width):
        if n_nodes > 20:
            raise MemoryLimitError("too little memory")

    monkeypatch.setattr(SiteStatistics, "require_memory", require)
    core = CoreModel(Recipe(epochs=0)).fit(cohort, cohort.covariates())
    assert len(core.scaffold_) <= 20
    assert any("memory" in note for note in core.notes_)


def test_a_number_is_predicted_whatever_its_units(cohort):
    times = cohort.predicting(cohort.target, cohort.table.assign(label=1000 * cohort.table["label"] + 7))
    first, second = (TunedMethod(method_info("fc-ridge")).fit(people) for people in (cohort, times))
    a, b = (fitted.readout_.predict(fitted.score(cohort)) for fitted in (first, second))
    assert np.allclose(1000 * a + 7, b)


def test_a_report_of_a_number_tells_order_and_level_with_a_dash_where_a_site_is_too_small(cohort, tmp_path):
    small = np.flatnonzero((cohort.table["site"] == "S06").to_numpy())[2:]  # two people are left there
    people = cohort.subset(np.setdiff1d(np.arange(len(cohort)), small))
    results = brainroam.evaluate(people, ["fc-ridge", "majority"], tuning="fast")
    page = brainroam.write_report(results, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Order travels" in page and "of 5 sites" in page
    assert "S06" in page and ">nan" not in page.split("<table", 1)[1]


@pytest.mark.parametrize("most_people", [10, 4096])
def test_sites_are_random_effects_beside_a_number(cohort, most_people, monkeypatch):
    """The same weights as a ridge with a free intercept on edges beside an indicator of each site, by least squares."""
    monkeypatch.setattr(edge_ridge, "MOST_PEOPLE", most_people)
    x, site = edges(cohort.series), cohort.table["site"].to_numpy()
    codes = np.unique(site, return_inverse=True)[1]
    within = x - np.stack([x[site == name].mean(axis=0) for name in cohort.sites])[codes]
    unit = (within**2).sum() / len(x)
    features = np.hstack([x, np.sqrt(edge_ridge.SITE_EFFECT * unit) * np.eye(len(cohort.sites))[codes]])
    features -= features.mean(axis=0)
    t = cohort.targets - cohort.targets.mean()
    rows = np.vstack([features, np.sqrt(3 * unit) * np.eye(features.shape[1])])
    expected = np.linalg.lstsq(rows, np.concatenate([t, np.zeros(features.shape[1])]), rcond=None)[0][: x.shape[1]]
    found = edge_ridge.EdgeRidge(penalties=(3.0,)).fit(cohort).coef_
    np.testing.assert_allclose(found, expected, atol=2e-6 * np.abs(expected).max())


def test_the_penalty_of_a_number_is_chosen_unless_it_is_given(cohort):
    chosen = TunedMethod(method_info("fc-ridge")).fit(cohort).configuration_["penalties"]
    assert chosen in edge_ridge.NUMBER_PENALTIES
    assert TunedMethod(method_info("fc-ridge"), penalties=(7.0,)).fit(cohort).configuration_["penalties"] == (7.0,)


def test_a_few_people_with_a_known_number_mend_level_and_never_order(cohort):
    """The last site is 100 higher than any model could know, and half as steep."""
    train, new = cohort.select(cohort.sites[:5]), cohort.select(cohort.sites[5:])
    truth = 100 + 0.5 * new.table["label"]
    fitted = TunedMethod(method_info("fc-ridge")).fit(train)
    table = new.table
    table["label"] = truth.where(np.arange(len(new)) < 12)
    few = new.predicting(new.target, table)
    strict, mended = (predictions(fitted, few, adapt=adapt) for adapt in ("strict", "labelled"))
    assert mended["protocol"].unique().tolist() == ["labelled-12"] and len(mended) == len(new) - 12
    assert mended["low_80"].isna().all() and "label" not in mended
    before, after = strict["predicted"].to_numpy()[12:], mended["predicted"].to_numpy()
    assert (np.argsort(before) == np.argsort(after)).all()
    gone = truth.to_numpy()[12:]
    assert np.abs(after.mean() - gone.mean()) < 0.5 * np.abs(before.mean() - gone.mean())
    with pytest.raises(DataError, match="everybody"):
        predictions(fitted, new.without_labels(), adapt="labelled")
    two = TunedMethod(method_info("fc-ridge")).fit(train.select(train.sites[:2]))
    with pytest.warns(UserWarning, match="three inner held-out sites"):
        same = predictions(two, few, adapt="labelled")
    assert same["protocol"].unique().tolist() == ["labelled-12"]


def test_a_model_meets_known_numbers_as_its_training_sites_foretold(cohort):
    train, new = cohort.select(cohort.sites[:5]), cohort.select(cohort.sites[5:])
    fitted = TunedMethod(method_info("fc-ridge")).fit(train)
    table = predictions(fitted, new)
    sites = validate(table, new.target, fitted.calibration_)
    assert sites["r"][0] == pytest.approx(np.corrcoef(table["predicted"], new.targets)[0, 1])
    assert sites["mae_constant"][0] == pytest.approx(np.abs(new.targets - fitted.calibration_.mean).mean())
    said = list(agreement(sites, fitted))
    turned = list(agreement(sites.assign(r=-1.0), fitted))
    assert "Inside: S06" in said[0] and "Below: S06" in turned[0]
    fitted.readout_.inner_sites = fitted.inner_sites_[:3]
    assert "four inner held-out sites" in next(agreement(sites, fitted))


def test_a_number_is_validated_by_people_and_not_by_scans(cohort):
    """Every third person was scanned four times, and the file says whose scan each row is."""
    train, new = cohort.select(cohort.sites[:5]), cohort.select(cohort.sites[5:])
    fitted = TunedMethod(method_info("fc-ridge")).fit(train)
    again = np.repeat(np.arange(len(new)), np.where(np.arange(len(new)) % 3, 1, 4))
    rows = new.table.iloc[again].reset_index(drop=True)
    scans = rows.assign(person=rows["subject"], subject=[f"scan{k}" for k in range(len(rows))])
    series = [
        new.series[i] + 0.3 * np.random.default_rng(k).normal(size=new.series[i].shape) for k, i in enumerate(again)
    ]
    table = predictions(fitted, new.made_of(series, scans))
    found = validate(table, new.target, fitted.calibration_).loc[0]
    people = table.groupby("person")[["label", "predicted"]].mean()
    assert found["n"] == len(new) < len(table)
    assert found["r"] == pytest.approx(people.corr().iloc[0, 1])
    assert found["mae"] == pytest.approx((people["label"] - people["predicted"]).abs().mean())


def test_a_network_learns_a_number_by_squared_error_and_classes_against_the_rest(cohort):
    torch = pytest.importorskip("torch")
    from brainroam.methods.deep.base import People

    output, y = torch.tensor([0.0, 2.0]), torch.tensor([1.0, 2.0])
    assert People((), y, y, number=True).error(output).item() == pytest.approx(0.5)
    fitted = TunedMethod(method_info("mean-mlp"), "fast", epochs=3).fit(cohort)
    again = TunedMethod(method_info("mean-mlp"), "fast", epochs=3)
    again.configuration_ = fitted.configuration_
    np.testing.assert_array_equal(again.load_state(fitted.state()).score(cohort), fitted.score(cohort))
    with pytest.raises(UsageError, match="disc"):
        TunedMethod(method_info("disc"), epochs=3).fit(cohort)
    three = cohort.with_columns(pd.DataFrame({"dx": ["HC", "MDD", "SCZ"] * (len(cohort) // 3)}))
    three = with_target(three, "dx")
    assert TunedMethod(method_info("mean-mlp"), "fast", epochs=2).fit(three).score(three).shape == (len(three), 3)


def test_the_audit_of_a_number_finds_the_reader_of_held_out_numbers(cohort):
    def looks(cohort, train, test, seed):
        return cohort.targets[test] + 0.1 * edges([cohort.series[k] for k in test])[:, 0]

    found = audit(cohort.select(cohort.sites[:4]), ["fc-ridge", looks], permutations=0)
    failed = [(check.method, check.name) for check in found.checks if check.passed is False]
    assert ("looks", "test-labels") in failed
    assert {method for method, _ in failed} == {"looks"}


def test_permuted_numbers_leave_no_order(cohort):
    method = candidate("fc-ridge")
    assert mean_order(method, cohort) > 0.4
    assert abs(np.mean([mean_order(method, permuted_within_site(cohort, k)) for k in range(4)])) < 0.2


def test_somebodys_regressor_is_judged_and_audited_with_a_number(cohort, capsys):
    results = brainroam.evaluate(cohort.select(cohort.sites[:4]), {"mine": Ridge(alpha=1.0)})
    assert results.scores["r"].mean() > 0.4
    assert "audit of mine: no leak found" in capsys.readouterr().err
    with pytest.raises(UsageError, match="mine"):
        brainroam.evaluate(brainroam.make_cohort(n_sites=3, n_per_site=12, n_rois=8), {"mine": Ridge()})


def test_fast_tuning_of_a_number_is_calibrated_by_five_groups_of_sites():
    """Thirty small sites: a random one of them, which gave the level before, says nothing about it."""
    made = brainroam.make_cohort(n_sites=30, n_per_site=8, n_rois=12, seed=4)
    edges = np.stack([np.corrcoef(x.T)[np.triu_indices(12, 1)] for x in made.series])
    number = 100 + 40 * edges[:, :8].sum(axis=1)
    cohort = with_target(made.with_columns(pd.DataFrame({"made": number})), "made:number")
    fast, default = (TunedMethod(method_info("fc-ridge"), tuning).fit(cohort) for tuning in ("fast", "default"))
    assert np.isfinite(fast.inner_scores_).all() and len(fast.inner_sites_) == 30
    slopes = [one.calibration_.slope * one.inner_scores_.std() for one in (fast, default)]
    assert slopes[0] == pytest.approx(slopes[1], rel=0.2)
