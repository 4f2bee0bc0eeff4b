"""Linear readers against scikit-learn, ComBat against neuroCombat, champion and tuning against their formulas."""

import json
from pathlib import Path

import numpy as np
import pytest
from brainroam.methods.site_ridge import SiteRidge
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import roc_auc_score
from sklearn.svm import SVC
from threadpoolctl import threadpool_info, threadpool_limits

from brainroam import ChampionClassifier, make_cohort
from brainroam.core.connectivity import cohort_edges, pearson_edges
from brainroam.core.deconfound import SiteDeconfounder
from brainroam.errors import UsageError
from brainroam.methods.base import MethodInfo
from brainroam.methods.champion import READERS, SHRINKAGE, Champion, discriminant_weights
from brainroam.methods.combat import combat
from brainroam.methods.linear import EdgeReader, LinearMethod
from brainroam.methods.registry import method_info, register
from brainroam.methods.tuning import Selected, inner_folds

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


def test_site_ridge_equals_a_literal_ridge_on_residuals(cohort):
    model = SiteRidge("pearson", (0.0,), penalties=(2.0,)).fit(cohort)
    deconfounder = SiteDeconfounder().fit(
        cohort_edges(cohort), covariates=cohort.table[["age", "sex"]], site=cohort.table["site"]
    )
    x = np.nan_to_num(deconfounder.residuals_)
    y = 2.0 * cohort.labels - 1
    size = np.mean(np.sum(x**2, axis=1))
    w = np.linalg.solve(x.T @ x / size + 2.0 * np.eye(x.shape[1]), x.T @ (y - y.mean()) / size)
    np.testing.assert_allclose(model.coefs_[0], w, atol=1e-8)


def test_lead_lag_edges_are_columns_of_the_same_ridge_at_half_the_squared_length(cohort):
    model = SiteRidge("pearson", (0.0,), lead_lag=True, penalties=(2.0,)).fit(cohort)
    covariates, site = cohort.table[["age", "sex"]], cohort.table["site"]
    static, lag = (
        np.nan_to_num(SiteDeconfounder().fit(cohort_edges(cohort, kind), covariates=covariates, site=site).residuals_)
        for kind in ("pearson", "lag")
    )
    share = np.sqrt(0.5 * np.sum(static**2) / np.sum(lag**2))
    x, y = np.hstack([static, share * lag]), 2.0 * cohort.labels - 1
    size = np.mean(np.sum(x**2, axis=1))
    w = np.linalg.solve(x.T @ x / size + 2.0 * np.eye(x.shape[1]), x.T @ (y - y.mean()) / size)
    np.testing.assert_allclose(model.coefs_[0], w[: static.shape[1]], atol=1e-8)
    np.testing.assert_allclose(model.coefs_[1], share * w[static.shape[1] :], atol=1e-7)
    np.testing.assert_allclose(model.contributions(cohort).sum(axis=1), model.score(cohort), atol=1e-10)


def test_scaffold_ridge_reads_only_the_scaffold(cohort):
    whole, scaffold = (SiteRidge(scaffold=flag).fit(cohort).coefs_[0] for flag in (False, True))
    assert 0 < np.count_nonzero(scaffold) < np.count_nonzero(whole)


def test_discriminant_weights_follow_the_formula():
    rng = np.random.default_rng(0)
    y, site = np.tile([0, 1], 60), np.repeat(["A", "B"], 60)
    z = rng.normal(size=(120, 3)) + np.outer(y, [1.0, 0.4, 0.0]) + 5.0 * (site == "B")[:, None]
    centred = np.concatenate([z[site == s] - z[site == s].mean(axis=0) for s in "AB"])
    spread = centred.std(axis=0)
    gap = (
        np.mean([z[(site == s) & (y == 1)].mean(0) - z[(site == s) & (y == 0)].mean(0) for s in "AB"], axis=0) / spread
    )
    groups = [z[(site == s) & (y == c)] for s in "AB" for c in (0, 1)]
    within = np.concatenate([g - g.mean(axis=0) for g in groups]) / spread
    sigma = within.T @ within / len(within)
    expected = np.maximum(np.linalg.inv(sigma + SHRINKAGE * np.eye(3)) @ gap, 0) / spread
    np.testing.assert_allclose(discriminant_weights(z, y, site), expected, rtol=1e-10)


def test_a_reader_that_points_the_wrong_way_gets_no_weight():
    y, site = np.tile([0, 1], 50), np.repeat(["A", "B"], 50)
    wrong = -3.0 * y + np.random.default_rng(0).normal(size=100)
    right = y + np.random.default_rng(1).normal(size=100)
    weights = discriminant_weights(np.column_stack([right, wrong]), y, site)
    assert weights[1] == 0 < weights[0]


@pytest.mark.parametrize("n_sites", [1, 2])
def test_champion_of_few_sites_reads_all_edges_and_no_scaffold(cohort, n_sites):
    few = cohort.select(cohort.sites[:n_sites])
    weights = dict(zip(READERS, Champion().fit(few).weights_, strict=True))
    assert weights["log-scaffold"] == weights["pearson-scaffold"] == 0
    assert weights["log-all"] + weights["pearson-all"] > 0


def test_champion_beats_chance_at_an_unseen_site_and_not_with_permuted_labels():
    cohort = make_cohort(n_sites=5, n_per_site=24, n_rois=16, seed=3)
    people, new = cohort.table, "S05"
    train, test = (people["site"] != new).to_numpy(), (people["site"] == new).to_numpy()
    columns = ["age", "sex"]

    def auc(labels):
        clf = ChampionClassifier().fit(
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
    chosen = Selected(info, "full").fit(cohort)
    assert chosen.configuration_["strength"] == max(merit, key=merit.get)
    assert np.isfinite(chosen.inner_scores_).all()


def test_the_fast_budget_holds_out_one_site_and_keeps_the_default(cohort):
    folds = list(inner_folds(cohort, "fast", seed=5))
    assert len(folds) == 1 and len(set(cohort.table["site"].to_numpy()[folds[0][1]])) == 1
    assert Selected(method_info("fc-ridge"), "fast").fit(cohort).configuration_ == {"strength": 500.0}


def test_a_method_that_needs_two_sites_is_tuned_on_people_where_only_two_are_left(cohort):
    two = cohort.select(cohort.sites[:2])
    assert len(list(inner_folds(two, "full", 0))) == 2
    assert len(list(inner_folds(two, "full", 0, least_sites=2))) == 5
    assert np.isfinite(Selected(method_info("scaffold-ridge"), "default").fit(two).inner_scores_).all()


@pytest.mark.parametrize("make", [Champion, lambda: Selected(method_info("fc-ridge"), "fast")])
def test_linear_methods_compute_on_one_core(cohort, monkeypatch, make):
    """Threads add up in another order, and on small matrices they only wait for each other."""
    threads = []
    for reader in (SiteRidge, EdgeReader):

        def watched(self, people, read=reader.score):
            threads.extend(pool["num_threads"] for pool in threadpool_info())
            return read(self, people)

        monkeypatch.setattr(reader, "score", watched)
    with threadpool_limits(2):
        make().fit(cohort).score(cohort)
    assert threads and set(threads) == {1}


def test_two_methods_cannot_share_a_name():
    with pytest.raises(UsageError, match="exists already"):
        register(method_info("core"))
