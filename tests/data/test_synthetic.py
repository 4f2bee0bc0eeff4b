"""The synthetic cohort keeps its promises: what the truth says is what the data hold."""

import dataclasses
import pickle
import time

import numpy as np
import pytest
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics import roc_auc_score

from brainroam.core.connectivity import edge_pairs, pearson_edges
from brainroam.data.synthetic import make_cohort
from brainroam.errors import UsageError


@pytest.fixture(scope="module")
def cohort():
    return make_cohort()


@pytest.fixture(scope="module")
def large():
    """Few regions, many people: estimates come close to the truth."""
    return make_cohort(n_sites=3, n_per_site=600, n_rois=10, seed=3)


def site_contrasts(cohort):
    edges, label, site = pearson_edges(cohort.series), cohort.labels, cohort.table["site"].to_numpy()
    return np.stack(
        [
            edges[(site == s) & (label == 1)].mean(axis=0) - edges[(site == s) & (label == 0)].mean(axis=0)
            for s in cohort.sites
        ]
    )


def pooled_auc(cohort, sites):
    """A ridge on raw edges of all other sites, blind to site and covariates, scored at each of these unseen sites."""
    edges, label, site = pearson_edges(cohort.series), cohort.labels, cohort.table["site"].to_numpy()
    scores = []
    for held_out in sites:
        model = RidgeClassifier(alpha=10).fit(edges[site != held_out], label[site != held_out])
        scores.append(roc_auc_score(label[site == held_out], model.decision_function(edges[site == held_out])))
    return scores


def test_everybody_has_series_covariates_and_a_known_truth(cohort):
    assert (len(cohort), cohort.n_rois, cohort.sites) == (240, 40, [f"S{i:02d}" for i in range(1, 7)])
    assert cohort.table[["age", "sex", "mean_fd", "tr"]].notna().all(axis=None)
    assert cohort.truth.intercept.shape == (6, 780)
    assert cohort.truth.coef.shape == (6, len(cohort.truth.covariates), 780)
    assert not cohort.missing_rois.any()


def test_the_same_seed_gives_the_same_bytes():
    small = {"n_sites": 2, "n_per_site": 5, "n_rois": 8}
    first, again, other = (make_cohort(**small, seed=s) for s in (4, 4, 5))
    assert first.manifest_hash == again.manifest_hash != other.manifest_hash
    assert first.table.equals(again.table)
    assert (first.truth.effect == again.truth.effect).all()


def test_the_truth_cannot_be_changed_and_survives_another_process(cohort):
    with pytest.raises(ValueError, match="read-only"):
        cohort.truth.effect[0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        cohort.truth.effect = None
    assert (pickle.loads(pickle.dumps(cohort)).truth.coef == cohort.truth.coef).all()


def test_regression_within_a_site_finds_intercepts_slopes_and_effect(large):
    truth, table = large.truth, large.table
    kept = ~table["subject"].isin(truth.shrinkage)
    assert kept.mean() > 0.9
    covariates = (table[list(truth.covariates)].to_numpy() - truth.covariate_mean) / truth.covariate_std
    edges = pearson_edges(large.series)
    for e, site in enumerate(truth.sites):
        here = (kept & (table["site"] == site)).to_numpy()
        design = np.column_stack([np.ones(here.sum()), covariates[here], large.labels[here]])
        estimate, residual, *_ = np.linalg.lstsq(design, edges[here], rcond=None)
        variance = residual / (here.sum() - design.shape[1])
        error = np.sqrt(np.outer(np.diag(np.linalg.inv(design.T @ design)), variance))
        planted = np.vstack([truth.intercept[e], truth.coef[e], truth.effect])
        z = (estimate - planted) / error
        assert np.abs(z).max() < 5
        assert 0.8 < z.std() < 1.3


def test_rhythm_slows_the_regions_of_cases_and_changes_no_edge():
    def lagged(cohort):  # the mean over regions of the autocorrelation at lag one, of each person
        return np.array([(x[1:] * x[:-1]).mean() / (x**2).mean() for x in cohort.series])

    cohort = make_cohort(n_sites=2, n_per_site=400, n_rois=8, seed=1, effect=0.0, volatility=0.0, rhythm=1.0)
    case, site = cohort.labels == 1, cohort.table["site"].to_numpy()
    autocorrelation, edges = lagged(cohort), pearson_edges(cohort.series)
    for s in cohort.sites:
        one, other = case & (site == s), ~case & (site == s)
        # Every region has white noise too, which does not slow down.
        assert 0.15 < autocorrelation[one].mean() - autocorrelation[other].mean() < cohort.truth.rhythm
        # Individual expression and covariates move edges more than sampling does.
        assert np.abs(edges[one].mean(axis=0) - edges[other].mean(axis=0)).max() < 0.04
    with pytest.raises(UsageError, match=r"rhythm .*1\.1"):
        make_cohort(rhythm=2)


def test_shrinkage_scales_all_edges_of_a_person():
    cohort = make_cohort(n_sites=2, n_per_site=100, n_rois=16, seed=2, effect=4.0)
    truth, table = cohort.truth, cohort.table
    most = [s for s, t in truth.shrinkage.items() if t > 0.2]
    assert len(most) >= 10
    rows = table["subject"].isin(most).to_numpy()
    q = (table[list(truth.covariates)].to_numpy() - truth.covariate_mean) / truth.covariate_std
    site = table["site"].map(list(truth.sites).index).to_numpy()
    target = (
        truth.intercept[site] + np.einsum("nd,ndm->nm", q, truth.coef[site]) + np.outer(cohort.labels, truth.effect)
    )
    kept = 1 - np.array([truth.shrinkage.get(s, 0.0) for s in table["subject"]])
    edges = pearson_edges(cohort.series)
    undone = np.abs(edges - target)[rows].mean()
    exact = np.abs(edges - kept[:, None] * target)[rows].mean()
    assert exact < undone


def test_effect_edges_agree_in_sign_across_sites(cohort):
    contrasts, truth = site_contrasts(cohort), cohort.truth
    agree = (np.sign(contrasts) == np.sign(truth.effect)).mean(axis=0)[truth.effect_edges]
    assert (agree >= 0.75).mean() > 0.9
    others = np.setdiff1d(np.arange(len(truth.effect)), truth.effect_edges)
    strength = np.abs(np.median(contrasts, axis=0))
    assert np.median(strength[truth.effect_edges]) > 3 * np.median(strength[others])
    assert set(truth.effect_signs) == {-1, 1}


def test_an_unseen_site_is_predictable_but_not_trivially():
    auc = [pooled_auc(cohort, cohort.sites) for cohort in (make_cohort(), make_cohort(seed=1))]
    assert 0.75 < np.mean(auc) < 0.9


def test_effect_scales_what_is_planted():
    small = {"n_sites": 2, "n_per_site": 4, "n_rois": 12}
    none, one, two = (make_cohort(**small, effect=e, volatility=e) for e in (0.0, 1.0, 2.0))
    assert none.truth.effect_edges.size == none.truth.volatility_edges.size == 0
    np.testing.assert_allclose(two.truth.effect, 2 * one.truth.effect)
    assert (two.truth.volatility_edges == one.truth.volatility_edges).all()


def test_each_case_differs_in_the_pathways_of_one_subtype():
    cohort = make_cohort(n_sites=2, n_per_site=300, n_rois=12, seed=2, subtypes=2)
    edges, label, site = pearson_edges(cohort.series), cohort.labels, cohort.table["site"].to_numpy()
    for name in cohort.sites:
        edges[site == name] -= edges[(site == name) & (label == 0)].mean(axis=0)
    truth = cohort.truth
    subtype = np.array([truth.subtypes.get(subject, -1) for subject in cohort.table["subject"]])
    assert ((subtype >= 0) == (label == 1)).all()
    for k, pattern in enumerate(truth.patterns):
        pairs = edge_pairs(12)[np.flatnonzero(pattern)]
        assert np.bincount(pairs.ravel()).max() == len(pairs)  # all of them end in one region
        expressed = [(edges[subtype == j] @ pattern).mean() / (pattern @ pattern) for j in range(2)]
        assert expressed[k] > 0.8 and abs(expressed[1 - k]) < 0.25
    np.testing.assert_allclose(truth.effect, truth.patterns.mean(axis=0))


def test_a_trait_of_everybody_decides_in_which_pathways_a_case_differs():
    cohort = make_cohort(n_sites=2, n_per_site=400, n_rois=12, seed=2, trait=1.0)
    truth, label, site = cohort.truth, cohort.labels, cohort.table["site"].to_numpy()
    edges, t = pearson_edges(cohort.series), cohort.table["subject"].map(truth.trait).to_numpy()
    for name in cohort.sites:
        edges[site == name] -= edges[(site == name) & (label == 0)].mean(axis=0)
    assert abs(t.mean() - 0.5) < 0.03 and t.min() > 0 and t.max() < 1 and abs(np.corrcoef(t, label)[0, 1]) < 0.1
    apart = np.flatnonzero((truth.trait_pattern != 0) & (truth.patterns == 0).all(axis=0))
    shown = edges[:, apart] @ truth.trait_pattern[apart]
    for group in (0, 1):  # in cases and controls alike
        assert np.corrcoef(shown[label == group], t[label == group])[0, 1] > 0.5
    for pattern, belongs in zip(truth.patterns, (1 - t, t), strict=True):
        alone = np.where(truth.trait_pattern == 0, pattern, 0)
        expressed = edges @ alone / (alone @ alone)
        slope, level = np.polyfit(belongs[label == 1], expressed[label == 1], 1)
        assert abs(slope - 1) < 0.35 and abs(level) < 0.25
        assert abs(np.polyfit(belongs[label == 0], expressed[label == 0], 1)[0]) < 0.3


def test_without_a_trait_nothing_changes():
    cohort = make_cohort(n_sites=2, n_per_site=10, n_rois=12, subtypes=2)
    assert cohort.truth.trait == {} and not cohort.truth.trait_pattern.any()


def test_volatile_edges_fluctuate_more_in_cases_at_the_same_mean_strength():
    cohort = make_cohort(n_per_site=80, n_rois=24, seed=1)
    truth, label = cohort.truth, cohort.labels
    fluctuation = np.stack([_window_std(x) for x in cohort.series])
    change = fluctuation[label == 1].mean(axis=0) - fluctuation[label == 0].mean(axis=0)
    calm = np.setdiff1d(np.arange(len(change)), np.union1d(truth.volatility_edges, truth.effect_edges))
    assert change[truth.volatility_edges].min() > 3 * change[calm].std()
    assert abs(change[calm].mean()) < change[calm].std()
    only_volatile = np.setdiff1d(truth.volatility_edges, truth.effect_edges)
    assert 0 < only_volatile.size < truth.volatility_edges.size
    assert np.abs(site_contrasts(cohort)[:, only_volatile].mean(axis=0)).max() < 0.03


def _window_std(x, window=30, stride=5):
    windows = [x[start : start + window] for start in range(0, len(x) - window + 1, stride)]
    return np.arctanh(pearson_edges(windows)).std(axis=0)


def test_scanners_differ_as_the_truth_says(cohort):
    truth, table = cohort.truth, cohort.table
    assert (table.groupby("site")[["tr", "n_timepoints"]].nunique() == 1).all(axis=None)
    assert table["n_timepoints"].nunique() > 1 and table["tr"].nunique() > 1
    calm = np.setdiff1d(np.arange(40), edge_pairs(40)[truth.volatility_edges])
    for site, phi, noise in zip(truth.sites, truth.autocorrelation, truth.noise, strict=True):
        people = np.stack(cohort.select([site]).series)[:, :, calm]
        lag1 = (people[:, 1:] * people[:, :-1]).mean() / (people**2).mean()
        assert lag1 == pytest.approx(phi * (1 - noise), abs=0.02)


def test_shortcut_pulls_age_and_diagnosis_together_and_apart_at_the_last_site():
    table = (cohort := make_cohort(n_per_site=200, n_rois=8, shortcut=1.5)).table
    sizes = table.groupby("site").apply(
        lambda t: (t.age[t.label == 1].mean() - t.age[t.label == 0].mean()) / t.age[t.label == 0].std()
    )
    np.testing.assert_allclose(sizes, cohort.truth.shortcut, atol=0.4)
    assert (sizes.iloc[:-1] > 1).all() and sizes.iloc[-1] < -1


def test_a_pooled_linear_model_falls_for_the_shortcut():
    """At a site with the shortcut it seems to do well; where the shortcut points the other way it is lost."""
    familiar, other = np.mean([pooled_auc(make_cohort(seed=s, shortcut=2.0), ["S01", "S06"]) for s in range(3)], axis=0)
    honest = np.mean([pooled_auc(make_cohort(seed=s), ["S06"]) for s in range(3)])
    assert honest > 0.75
    assert other < honest - 0.25
    assert familiar > other + 0.3


def test_defects_are_where_the_truth_says_and_nowhere_else(cohort):
    spoilt = make_cohort(all_male_sites=2, outliers=3, constant_rois=4, missing_covariates=5)
    truth, table = spoilt.truth, spoilt.table
    assert truth.all_male_sites == ("S01", "S02")
    assert (table.groupby("site")["sex"].min() == 1).to_numpy().tolist() == [True, True, False, False, False, False]
    assert (len(truth.outliers), len(truth.constant_rois), len(truth.missing_covariates)) == (3, 4, 5)
    for row, subject in enumerate(table["subject"]):
        expected = truth.constant_rois.get(subject, ())
        assert tuple(np.flatnonzero(spoilt.missing_rois[row])) == expected
        empty = [name for name in ("age", "sex") if np.isnan(table.loc[row, name])]
        assert empty == ([truth.missing_covariates[subject]] if subject in truth.missing_covariates else [])
    level = np.nanmean(pearson_edges(spoilt.series), axis=1)
    assert set(table["subject"][np.argsort(level)[-3:]]) == set(truth.outliers)
    # Men-only sites change the sex of people and with it their edges; the other defects touch only their own people.
    spoilt = make_cohort(outliers=3, constant_rois=4, missing_covariates=5)
    changed = {
        s for s, a, b in zip(table["subject"], cohort.series_digests, spoilt.series_digests, strict=True) if a != b
    }
    assert changed == set(truth.outliers) | set(truth.constant_rois)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_sites": 1}, "n_sites .*2"),
        ({"n_per_site": 3}, "n_per_site .*4"),
        ({"n_rois": 7}, "n_rois .*8"),
        ({"subtypes": 0}, "subtypes .*regions"),
        ({"subtypes": 2, "trait": 1.0}, "trait"),
        ({"all_male_sites": 7}, "defects"),
        ({"n_per_site": 4, "outliers": 20, "constant_rois": 5}, "defects"),
        ({"outliers": -1}, "defects"),
    ],
)
def test_impossible_requests_are_refused(arguments, message):
    with pytest.raises(UsageError, match=message):
        make_cohort(**arguments)


def test_the_smallest_cohort_works():
    assert len(make_cohort(n_sites=2, n_per_site=4, n_rois=8, all_male_sites=2)) == 8


def test_four_hundred_people_are_made_within_seconds():
    start = time.process_time()  # not the clock: others may use the machine too
    make_cohort(n_sites=10, n_per_site=40, n_rois=100)
    assert time.process_time() - start < 5
