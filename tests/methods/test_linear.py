"""Linear readers against scikit-learn, ComBat against neuroCombat, ensemble and tuning against their formulas."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import roc_auc_score
from sklearn.svm import SVC
from threadpoolctl import threadpool_info, threadpool_limits

from brainroam import EnsembleClassifier, make_cohort
from brainroam.core.connectivity import cohort_edges, pearson_edges
from brainroam.core.deconfound import SiteDeconfounder
from brainroam.core.scaffold import extract_scaffold
from brainroam.data.cohort import Cohort
from brainroam.errors import UsageError
from brainroam.methods.base import MethodInfo
from brainroam.methods.combat import combat
from brainroam.methods.edge_ridge import EdgeRidge
from brainroam.methods.ensemble import Ensemble
from brainroam.methods.linear import LinearMethod
from brainroam.methods.registry import method_info, register
from brainroam.methods.scaffold_ridge import ScaffoldRidge
from brainroam.methods.tuning import TunedMethod, inner_folds

REFERENCE = Path(__file__).parents[1] / "reference"


@pytest.fixture(scope="module")
def cohort():
    return make_cohort(n_sites=4, n_per_site=16, n_rois=12, seed=1)


def differences(score):
    return score - score[0]


@pytest.mark.parametrize(
    ("classifier", "strength", "reference", "tolerance"),
    [
        ("ridge", 3.0, RidgeClassifier(alpha=3.0), 1e-10),
        ("logistic", 0.5, LogisticRegression(C=0.5, tol=1e-8, max_iter=5000), 2e-4),
        ("svm", 0.5, SVC(kernel="linear", C=0.5), 2e-2),
    ],
)
def test_the_scores_of_scikit_learn_on_all_edges(cohort, classifier, strength, reference, tolerance):
    ours = LinearMethod("pearson", classifier, strength).fit(cohort).score(cohort)
    edges = pearson_edges(cohort.series)
    theirs = reference.fit(edges, cohort.labels).decision_function(edges)
    np.testing.assert_allclose(differences(ours), differences(theirs), atol=tolerance)


def test_scores_do_not_move_with_the_share_of_cases(cohort):
    """A strong penalty leaves only the intercept of a classifier, which would follow the class balance."""
    cases = np.flatnonzero(cohort.labels == 1)
    fewer = cohort.subset(np.setdiff1d(np.arange(len(cohort)), cases[: len(cases) // 2]))
    scores = [LinearMethod("pearson", "ridge", 1e6).fit(people).score(cohort).mean() for people in (cohort, fewer)]
    assert abs(scores[0] - scores[1]) < 1e-3


def test_combat_equals_neurocombat():
    frozen = json.loads((REFERENCE / "combat.json").read_text())
    q = np.column_stack([frozen["age"], frozen["sex"]]).astype(float)
    q = (q - q.mean(axis=0)) / q.std(axis=0)
    ours = combat(np.array(frozen["values"]), np.array(frozen["site"]), q)
    np.testing.assert_allclose(ours, frozen["harmonised"], atol=1e-5)


def test_combat_that_does_not_converge_names_the_sites(monkeypatch):
    rng = np.random.default_rng(0)
    values, site = rng.normal(size=(60, 20)) * np.exp(rng.normal(size=20)), np.repeat(["A", "B", "small"], [28, 30, 2])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        settled = combat(values, site, np.zeros((60, 0)))
    monkeypatch.setattr("brainroam.methods.combat.MAX_STEPS", 2)
    with pytest.warns(ConvergenceWarning, match="ComBat did not converge in 2 steps at A, B, small: "):
        early = combat(values, site, np.zeros((60, 0)))
    assert not np.allclose(early, settled, atol=1e-3)


@pytest.mark.parametrize("n_edges", [1, 6])
def test_combat_of_one_column_or_of_a_site_of_copies_is_finite_and_removes_the_shift(n_edges):
    rng = np.random.default_rng(0)
    values, site = rng.normal(size=(63, n_edges)), np.repeat(["A", "B", "copies"], [30, 30, 3])
    values[site == "B"] += 3
    values[60:] = values[60]
    harmonised = combat(values, site, np.zeros((63, 0)))
    assert np.isfinite(harmonised).all()
    gap = harmonised[site == "A"].mean(axis=0) - harmonised[site == "B"].mean(axis=0)
    assert np.abs(gap).max() < 0.6  # of shifts of 3, the site's own noise is left


def test_scaffold_ridge_equals_a_literal_ridge_on_the_residuals_of_the_scaffold(cohort):
    settings = {"penalties": (2.0,), "slopes": "site", "tau_percentile": 50, "nuisance": ()}
    model = ScaffoldRidge("pearson", robust=False, **settings).fit(cohort)
    table, y = cohort.table, cohort.labels
    deconfounder = SiteDeconfounder().fit(cohort_edges(cohort), covariates=table[["age", "sex"]], site=table["site"])
    scaffold = extract_scaffold(
        deconfounder.residuals_, y, table["site"].to_numpy(), tau_percentile=50, huber_delta=np.inf
    )
    x = deconfounder.residuals_[:, scaffold.edges].copy()
    for name in cohort.sites:
        here = (table["site"] == name).to_numpy()
        x[here] -= np.nanmean(x[here], axis=0)
    spread = np.nanstd(x, axis=0)
    x = np.nan_to_num(x / spread)
    size, target = np.mean(np.sum(x**2, axis=1)), 2.0 * y - 1
    w = np.linalg.solve(x.T @ x / size + 2.0 * np.eye(x.shape[1]), x.T @ (target - target.mean()) / size)
    np.testing.assert_array_equal(model.reading_.edges, scaffold.edges)
    np.testing.assert_allclose(model.reading_.coef, w / spread, atol=1e-8)
    np.testing.assert_allclose(model.contributions(cohort).sum(axis=1), model.score(cohort), atol=1e-10)


@pytest.mark.parametrize("n_sites", [1, 2, 3])
def test_ensemble_of_few_sites_scores_everybody(cohort, n_sites):
    few = cohort.select(cohort.sites[:n_sites])
    model = Ensemble().fit(few)
    assert np.isfinite(model.inner_scores_).all() and (model.weights_ > 0).all()
    np.testing.assert_allclose(model.contributions(few).sum(axis=1), model.score(few), atol=1e-10)


def test_ensemble_beats_chance_at_an_unseen_site_and_not_with_permuted_labels():
    cohort = make_cohort(n_sites=5, n_per_site=24, n_rois=16, seed=3)
    people, new = cohort.table, "S05"
    train, test = (people["site"] != new).to_numpy(), (people["site"] == new).to_numpy()
    columns = ["age", "sex"]

    def auc(labels):
        clf = EnsembleClassifier().fit(
            cohort.subset(train).series, labels[train], site=people["site"][train], covariates=people[columns][train]
        )
        probability = clf.predict_proba(cohort.subset(test).series, covariates=people[columns][test])[:, 1]
        one = clf.predict_proba(cohort.subset(test).series[:1], covariates=people[columns][test][:1])[:, 1]
        assert one[0] == pytest.approx(probability[0], abs=1e-9)
        return roc_auc_score(cohort.labels[test], probability)

    assert auc(cohort.labels) > 0.7
    rng = np.random.default_rng(0)
    permuted = cohort.labels.copy()
    for name in cohort.sites:
        here = (people["site"] == name).to_numpy()
        permuted[here] = rng.permutation(permuted[here])
    assert abs(auc(permuted) - 0.5) < 0.25


def test_selection_takes_the_grid_point_with_the_best_mean_inner_auc(cohort):
    info = MethodInfo("test-ridge", LinearMethod, "", grid={"strength": (1e-3, 1.0, 100.0)})
    site, y = cohort.table["site"].to_numpy(), cohort.labels
    merit = {}
    for strength in info.grid["strength"]:
        aucs = []
        for name in np.unique(site):
            model = LinearMethod(strength=strength).fit(cohort.subset(site != name))
            aucs.append(roc_auc_score(y[site == name], model.score(cohort.subset(site == name))))
        merit[strength] = np.mean(aucs)
    chosen = TunedMethod(info, "full").fit(cohort)
    assert chosen.configuration_["strength"] == max(merit, key=merit.get)
    assert np.isfinite(chosen.inner_scores_).all()


def test_fast_tuning_keeps_the_default_and_is_calibrated_everywhere(cohort):
    fitted = TunedMethod(method_info("fc-ridge"), "fast").fit(cohort)
    assert fitted.configuration_ == {"penalties": (3.0,)} and np.isfinite(fitted.inner_scores_).all()


def test_fast_tuning_of_a_network_holds_out_one_group_of_sites_and_says_so():
    made = make_cohort(n_sites=7, n_per_site=8, n_rois=8, seed=2)
    fitted = TunedMethod(method_info("gcn"), "fast", epochs=2).fit(made)
    told = set(made.table["site"][np.isfinite(fitted.inner_scores_)])
    assert 1 <= len(told) <= 2 and any("one of 5 groups" in note for note in fitted.notes_)


@pytest.mark.parametrize("tuning", ["default", "fast"])
def test_neither_names_of_sites_nor_the_order_of_people_move_predictions(tuning):
    """Twelve equally large sites in five groups; "fast" took a site by its place in the alphabet."""
    cohort, rng = make_cohort(n_sites=12, n_per_site=8, n_rois=8, seed=3), np.random.default_rng(0)
    new, table = make_cohort(n_sites=2, n_per_site=8, n_rois=8, seed=9), cohort.table
    other = dict(zip(cohort.sites, rng.permutation(cohort.sites), strict=True))
    renamed = Cohort(cohort.series, table.assign(site=table["site"].map(other)))
    turned = cohort.subset(rng.permutation(len(cohort)))
    of_each = [
        TunedMethod(method_info("fc-ridge"), tuning).fit(one).probability(new) for one in (cohort, renamed, turned)
    ]
    np.testing.assert_allclose(of_each[1], of_each[0], atol=1e-9)
    np.testing.assert_allclose(of_each[2], of_each[0], atol=1e-9)


def test_where_nothing_is_chosen_five_groups_of_sites_give_the_threshold(monkeypatch):
    """Every site is in one group, and each group's scores are those of a model fitted without that group."""
    cohort, asked = make_cohort(n_sites=8, n_per_site=12, n_rois=8, seed=2), []

    def noted(*arguments):
        asked.append(list(inner_folds(*arguments)))
        return iter(asked[-1])

    monkeypatch.setattr("brainroam.methods.tuning.inner_folds", noted)
    site, inner = (
        cohort.table["site"].to_numpy(),
        TunedMethod(method_info("fc-ridge"), "default", strength=5.0).fit(cohort).inner_scores_,
    )
    groups = [set(site[held_out]) for _, held_out in asked[0]]
    assert len(groups) == 5 and sorted(name for group in groups for name in group) == sorted(set(site))
    train, held_out = asked[0][0]
    alone = method_info("fc-ridge").make(strength=5.0).fit(cohort.subset(train))
    np.testing.assert_allclose(inner[held_out], alone.score(cohort.subset(held_out)), atol=1e-8)
    TunedMethod(method_info("fc-ridge"), "full").fit(cohort)
    TunedMethod(method_info("gcn"), "default", epochs=1).fit(cohort)
    assert [len(folds) for folds in asked] == [5, 8, 8]


def test_a_method_that_needs_two_sites_is_tuned_on_people_where_only_two_are_left(cohort):
    two = cohort.select(cohort.sites[:2])
    assert len(list(inner_folds(two, 0))) == 2
    assert len(list(inner_folds(two, 0, least_sites=2))) == 5
    assert np.isfinite(TunedMethod(method_info("scaffold-ridge"), "default").fit(two).inner_scores_).all()


@pytest.mark.parametrize("make", [Ensemble, lambda: TunedMethod(method_info("fc-ridge"), "fast")])
def test_linear_methods_compute_on_one_core(cohort, monkeypatch, make):
    """Threads add up in another order, and on small matrices they only wait for each other."""
    threads = []

    def watched(self, people, read=EdgeRidge.score):
        threads.extend(pool["num_threads"] for pool in threadpool_info())
        return read(self, people)

    monkeypatch.setattr(EdgeRidge, "score", watched)
    with threadpool_limits(2):
        make().fit(cohort).score(cohort)
    assert threads and set(threads) == {1}


def test_two_methods_cannot_share_a_name():
    with pytest.raises(UsageError, match="exists"):
        register(method_info("core"))
