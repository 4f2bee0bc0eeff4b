"""Ridges on all edges: sharing between folds changes nothing, and nothing of a held-out site is shared."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from brainroam import make_cohort
from brainroam.core.connectivity import cohort_edges
from brainroam.data.cohort import Cohort
from brainroam.methods import edge_ridge
from brainroam.methods.base import Method
from brainroam.methods.edge_ridge import EdgeRidge
from brainroam.methods.registry import method_info
from brainroam.methods.tuning import TunedMethod, inner_folds

FORMS = [
    {"centred": False, "strength": 3.0},
    {"kind": "log", "shrinkage": 0.7, "robust": True, "covariates": ("mean_fd", "age")},
    {"kind": "cofluctuation", "shrinkage": 0.7, "soft": 0.25, "covariates": ("mean_fd",)},
]


@pytest.fixture(scope="module")
def cohort():
    return make_cohort(n_sites=5, n_per_site=14, n_rois=12, constant_rois=3, missing_covariates=2, seed=2)


def test_without_centring_it_is_scikit_learns_ridge(cohort):
    whole = make_cohort(n_sites=3, n_per_site=14, n_rois=12)  # nothing is missing
    edges, target = cohort_edges(whole), 2.0 * whole.labels - 1
    theirs = Ridge(alpha=3.0).fit(edges, target)
    np.testing.assert_allclose(EdgeRidge(centred=False, strength=3.0).fit(whole).coef_, theirs.coef_, atol=1e-9)


def test_centred_it_is_a_ridge_on_edges_without_site_means_that_do_not_move_with_motion(cohort):
    """The formulas of the module, written out."""
    table, y = cohort.table, cohort.labels
    values, site = cohort_edges(cohort), table["site"].to_numpy()
    means = np.stack([np.nanmean(values[site == name], axis=0) for name in cohort.sites])
    r = np.nan_to_num(values - means[np.searchsorted(cohort.sites, site)])
    target = 2.0 * y - 1
    motion = np.log(table["mean_fd"].to_numpy())
    for name in cohort.sites:
        target[site == name] -= target[site == name].mean()
        for label in (0, 1):
            here = (site == name) & (y == label)
            motion[here] -= np.nanmean(motion[here])
    g = r.T @ np.nan_to_num(motion)
    projected = r - np.outer(r @ g, g) / (g @ g)
    penalty = 2.0 * np.trace(r @ r.T) / len(r)
    w = np.linalg.solve(projected.T @ projected + penalty * np.eye(r.shape[1]), projected.T @ target)
    model = EdgeRidge(penalties=(2.0,), covariates=("mean_fd",)).fit(cohort)
    np.testing.assert_allclose(model.coef_, w, atol=1e-10)
    assert abs(model.coef_ @ g) < 1e-10 * np.linalg.norm(g)
    np.testing.assert_allclose(model.centre_, np.nanmean(means, axis=0), atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_inner_folds_that_share_work_equal_fits_one_by_one(cohort, form):
    """Each fold fitted on its own, with nothing remembered, at the penalty of the whole training set."""
    folds = list(inner_folds(cohort, 0))
    model = EdgeRidge(**form | {"penalties": (1, 3)} if "strength" not in form else form)
    shared = model.out_of_fold(cohort, folds)
    for (train, held_out), score in zip(folds, shared, strict=True):
        fresh = Cohort(cohort.series, cohort.table)  # another cohort has another cache
        alone = EdgeRidge(**form | {"penalties": (1, 3)} if "strength" not in form else form)
        if "strength" not in form and not form.get("soft"):
            gram_unit = _unit(cohort, form) / _unit(cohort.subset(train), form)
            alone.penalties = tuple(penalty * gram_unit for penalty in alone.penalties)
        direct = alone.fit(fresh.subset(train)).score(fresh.subset(held_out))
        np.testing.assert_allclose(score[0], direct, rtol=0, atol=1e-8 * np.abs(direct).max())


@pytest.mark.parametrize("form", FORMS[:2])
def test_more_people_than_can_be_multiplied_with_each_other_give_the_same(cohort, form, monkeypatch):
    folds = list(inner_folds(cohort, 0))
    by_products = EdgeRidge(**form).out_of_fold(cohort, folds)
    monkeypatch.setattr(edge_ridge, "MOST_PEOPLE", 10)
    for score, other in zip(by_products, EdgeRidge(**form).out_of_fold(cohort, folds), strict=True):
        np.testing.assert_allclose(score, other, rtol=0, atol=1e-7 * np.abs(score).max())  # single precision of edges


def _unit(cohort, form):
    from brainroam.core.site_edges import SiteEdges

    gram = SiteEdges(cohort, EdgeRidge(**form).kind).gram()
    return np.trace(gram) / len(gram)


def test_folds_that_cut_sites_in_two_are_fitted_one_by_one(cohort):
    rng = np.random.default_rng(0)
    held_out = np.sort(rng.choice(len(cohort), 20, replace=False))
    folds = [(np.setdiff1d(np.arange(len(cohort)), held_out), held_out)]
    model = EdgeRidge(**FORMS[1])
    np.testing.assert_array_equal(model.out_of_fold(cohort, folds)[0], Method.out_of_fold(model, cohort, folds)[0])


@pytest.mark.parametrize("most_people", [10, 4096])
@pytest.mark.parametrize("form", FORMS)
def test_a_corrupted_held_out_site_changes_no_byte_of_a_fold_of_its_study(cohort, form, most_people, monkeypatch):
    """Every fold of both studies is fitted first, so that everything that can be remembered is."""
    monkeypatch.setattr(edge_ridge, "MOST_PEOPLE", most_people)
    here = (cohort.table["site"] == "S02").to_numpy()
    rng = np.random.default_rng(1)
    series = [10 * rng.normal(size=x.shape) ** 3 if gone else x for x, gone in zip(cohort.series, here, strict=True)]
    table = cohort.table
    table.loc[here, "label"] = 1 - table.loc[here, "label"]
    table.loc[here, ["mean_fd", "age"]] = [9.0, 99.0]
    states = []
    for people in (Cohort(cohort.series, cohort.table), Cohort(series, table)):
        for name in people.sites:
            site = people.table["site"].to_numpy()
            training = people.subset(site != name)
            EdgeRidge(**form).out_of_fold(training, list(inner_folds(training, 0)))
            EdgeRidge(**form).fit(training)
        states.append(EdgeRidge(**form).fit(people.subset(~here)).state())
    for key in states[0]:
        assert states[0][key].tobytes() == states[1][key].tobytes()


def test_a_new_person_needs_no_covariates(cohort):
    model = TunedMethod(method_info("ensemble"), "default").fit(cohort)
    bare = Cohort(cohort.series[:3], cohort.table[["subject", "site", "label"]][:3])
    np.testing.assert_array_equal(model.score(bare), model.score(cohort.subset([0, 1, 2])))


def test_the_plain_reference_does_not_depend_on_the_number_or_scale_of_edges(cohort):
    """Its penalty is three mean squared lengths of the training people's edges without their site means."""
    edges, site = cohort_edges(cohort), cohort.table["site"].to_numpy()
    means = np.stack([np.nanmean(edges[site == name], axis=0) for name in cohort.sites])
    centred = np.nan_to_num(edges - means[np.searchsorted(cohort.sites, site)])
    alpha = 3.0 * float((centred**2).sum()) / len(centred)
    ours = method_info("fc-ridge").make().fit(cohort)
    np.testing.assert_allclose(ours.coef_, EdgeRidge(strength=alpha).fit(cohort).coef_, atol=1e-12)
    held_out = cohort.subset(site == "S05")
    noise = [10 * np.random.default_rng(0).normal(size=x.shape) for x in held_out.series]
    spoilt = cohort.subset(site != "S05").concat(Cohort(noise, held_out.table, cohort.atlas))
    first, second = (
        method_info("fc-ridge").make().fit(people.select(people.sites[:-1])).coef_ for people in (cohort, spoilt)
    )
    np.testing.assert_array_equal(first, second)
