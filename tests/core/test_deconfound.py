"""Site-aware deconfounding against statsmodels on real sites, its fallbacks, and the bias of pooling."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from brainroam.core.connectivity import cohort_edges
from brainroam.core.deconfound import SiteDeconfounder
from brainroam.core.site_fit import huber_mean
from brainroam.errors import BrainroamError, DataError, UsageError
from brainroam.utils.cache import Cache

N_EDGES = 30


def several_sites(seed=0, sizes=(30, 26, 34)):
    """Edges that depend on age, motion, scanner and site, with outliers and missing values."""
    rng = np.random.default_rng(seed)
    site = np.repeat([f"S{k}" for k in range(len(sizes))], sizes)
    covariates = pd.DataFrame(
        {
            "age": rng.uniform(8, 40, len(site)),
            "motion": rng.lognormal(-2, 0.5, len(site)),
            "scanner": rng.choice(["GE", "Siemens"], len(site)),
        }
    )
    slopes = rng.normal(size=(2, N_EDGES)) * [[0.01], [0.5]]
    edges = rng.normal(size=N_EDGES) + covariates[["age", "motion"]].to_numpy() @ slopes
    edges += rng.normal(size=(len(sizes), N_EDGES))[np.repeat(np.arange(len(sizes)), sizes)]
    edges += 0.1 * rng.standard_t(3, size=edges.shape)
    edges[rng.random(edges.shape) < 0.03] = np.nan
    return edges, covariates, site


def rlm(values, design):
    present = np.isfinite(values)
    fit = sm.RLM(values[present], design[present], M=sm.robust.norms.HuberT(1.345)).fit(scale_est="mad")
    return fit.params


def fitted(deconfounder, covariates, site):
    """b_e + Gamma_e' q~ of everybody, from the published attributes."""
    q = deconfounder.encoder_.transform(covariates)
    e = np.array([deconfounder.sites_.index(name) for name in site])
    return deconfounder.intercept_[e] + np.einsum("nd,ndm->nm", q, deconfounder.coef_[e])


# --- real sites ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def abide(abide_root):
    from brainroam import load_cohort

    cohort = load_cohort(abide_root, atlas="aal", sites=["KKI", "PITT", "TRINITY", "YALE"])
    table = cohort.table
    edges, site = cohort_edges(cohort), table["site"].to_numpy()
    return (
        edges,
        table[["age", "sex"]],
        site,
        SiteDeconfounder().fit(edges, covariates=table[["age", "sex"]], site=site),
    )


def some_edges(values, n=60):
    """Edges to compare: as many with missing people as without, where there are any."""
    missing = np.isnan(values).any(axis=0) & ~np.isnan(values).all(axis=0)
    rng = np.random.default_rng(0)
    parts = [np.flatnonzero(missing), np.flatnonzero(~np.isnan(values).any(axis=0))]
    return np.concatenate([rng.permutation(part)[:n] for part in parts])


@pytest.mark.parametrize("name", ["KKI", "PITT", "YALE"])
def test_coefficients_equal_statsmodels_on_real_sites(abide, name):
    edges, covariates, site, deconfounder = abide
    e, here = deconfounder.sites_.index(name), site == name
    design = np.column_stack([np.ones(here.sum()), deconfounder.encoder_.transform(covariates)[here]])
    columns = some_edges(edges[here])
    assert name != "PITT" or np.isnan(edges[here][:, columns]).any(axis=0).sum() == 60
    ours = np.vstack([deconfounder.intercept_[e], deconfounder.coef_[e]])
    own = deconfounder.estimable_[e].all(axis=0)
    assert own[columns].mean() > 0.9
    for j in columns[own[columns]]:
        np.testing.assert_allclose(ours[:, j], rlm(edges[here, j], design), atol=1e-6)


def test_all_male_trinity_is_finite_and_uses_the_sex_slope_of_the_others(abide):
    edges, covariates, site, deconfounder = abide
    e, here = deconfounder.sites_.index("TRINITY"), site == "TRINITY"
    assert np.isfinite(deconfounder.intercept_).all()
    assert np.isfinite(deconfounder.coef_).all()
    assert np.isfinite(deconfounder.residuals_[np.isfinite(edges)]).all()
    assert not deconfounder.estimable_[e, 1].any()
    assert any("TRINITY" in note and "sex" in note for note in deconfounder.notes_)

    others = [k for k in range(len(deconfounder.sites_)) if k != e]
    everywhere = deconfounder.estimable_[others, 1].all(axis=0)
    assert everywhere.mean() > 0.9
    sex = deconfounder.coef_[others, 1].mean(axis=0)
    np.testing.assert_allclose(deconfounder.mean_coef_[1, everywhere], sex[everywhere], atol=1e-12)

    # Alone, the site is a regression on age; its intercept then moves from a male to the average person.
    q = deconfounder.encoder_.transform(covariates)[here]
    for j in np.flatnonzero(everywhere)[::131]:
        alone = rlm(edges[here, j], np.column_stack([np.ones(len(q)), q[:, 0]]))
        moved = alone[0] - deconfounder.mean_coef_[1, j] * q[0, 1]
        np.testing.assert_allclose(
            [deconfounder.intercept_[e, j], deconfounder.coef_[e, 0, j]], [moved, alone[1]], atol=1e-6
        )


def test_residuals_on_real_sites_are_what_the_coefficients_say(abide):
    edges, covariates, site, deconfounder = abide
    np.testing.assert_allclose(deconfounder.residuals_, edges - fitted(deconfounder, covariates, site), atol=1e-9)


# --- the frozen transform --------------------------------------------------------------------------------------------


def test_the_average_counts_every_site_once():
    edges, covariates, site = several_sites(sizes=(20, 60, 25))
    deconfounder = SiteDeconfounder().fit(edges, covariates=covariates, site=site)
    np.testing.assert_allclose(deconfounder.mean_intercept_, deconfounder.intercept_.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(deconfounder.mean_coef_, deconfounder.coef_.mean(axis=0), atol=1e-12)
    q = deconfounder.encoder_.transform(covariates)
    expected = edges - deconfounder.mean_intercept_ - q @ deconfounder.mean_coef_
    np.testing.assert_allclose(deconfounder.transform(edges, covariates=covariates), expected, atol=1e-12)


def test_one_person_is_transformed_as_in_a_batch():
    edges, covariates, site = several_sites()
    deconfounder = SiteDeconfounder().fit(edges, covariates=covariates, site=site)
    batch = deconfounder.transform(edges, covariates=covariates)
    for i in range(0, len(edges), 7):
        np.testing.assert_array_equal(
            deconfounder.transform(edges[i : i + 1], covariates=covariates[i : i + 1])[0], batch[i]
        )


@pytest.mark.parametrize("all_ge", [False, True])
def test_restricting_equals_a_fresh_fit_on_those_sites(all_ge):
    edges, covariates, site = several_sites(sizes=(30, 26, 34, 5))
    if all_ge:  # one site cannot estimate the scanner, and S3 is too small for anything
        covariates.loc[site == "S0", "scanner"] = "GE"
    whole, kept = SiteDeconfounder().fit(edges, covariates=covariates, site=site), ["S0", "S2", "S3"]
    part = np.isin(site, kept)
    fresh = SiteDeconfounder().fit(edges[part], covariates=covariates[part], site=site[part])
    restricted = whole.restricted(kept)
    for name in ("intercept_", "coef_", "mean_intercept_", "mean_coef_"):
        np.testing.assert_allclose(getattr(restricted, name), getattr(fresh, name), atol=1e-9)
    np.testing.assert_allclose(
        restricted.transform(edges, covariates=covariates), fresh.transform(edges, covariates=covariates), atol=1e-9
    )


def test_remembering_does_not_change_a_byte():
    edges, covariates, site = several_sites()
    cache, part = Cache(), site != "S1"
    plain = SiteDeconfounder().fit(edges, covariates=covariates, site=site)
    for _ in range(2):
        remembered = SiteDeconfounder().fit(edges, covariates=covariates, site=site, cache=cache)
        for name in ("residuals_", "intercept_", "coef_", "mean_intercept_", "mean_coef_"):
            assert getattr(remembered, name).tobytes() == getattr(plain, name).tobytes()
    again = SiteDeconfounder().fit(edges[part], covariates=covariates[part], site=site[part], cache=cache)
    alone = SiteDeconfounder().fit(edges[part], covariates=covariates[part], site=site[part])
    assert again.mean_coef_.tobytes() == alone.mean_coef_.tobytes()


def test_state_round_trips_and_parameters_clone():
    edges, covariates, site = several_sites()
    deconfounder = SiteDeconfounder(huber_k=2.0).fit(edges, covariates=covariates, site=site)
    again = SiteDeconfounder().load_state(deconfounder.state())
    np.testing.assert_array_equal(
        again.transform(edges, covariates=covariates), deconfounder.transform(edges, covariates=covariates)
    )
    assert clone(deconfounder).get_params() == deconfounder.get_params()


# --- options ---------------------------------------------------------------------------------------------------------


def test_pooled_mode_is_one_regression_over_everybody():
    edges, covariates, _ = several_sites()
    deconfounder = SiteDeconfounder(pooled=True).fit(edges, covariates=covariates)
    design = np.column_stack([np.ones(len(edges)), deconfounder.encoder_.transform(covariates)])
    assert len(deconfounder.sites_) == 1
    for j in range(0, N_EDGES, 5):
        expected = rlm(edges[:, j], design)
        np.testing.assert_allclose(deconfounder.mean_intercept_[j], expected[0], atol=1e-6)
        np.testing.assert_allclose(deconfounder.mean_coef_[:, j], expected[1:], atol=1e-6)
    np.testing.assert_allclose(deconfounder.residuals_, deconfounder.transform(edges, covariates=covariates), atol=1e-9)


def test_fitting_on_controls_lets_cases_change_nothing():
    edges, covariates, site = several_sites()
    y = np.arange(len(edges)) % 2
    deconfounder = SiteDeconfounder(fit_on="controls").fit(edges, y, covariates=covariates, site=site)
    spoilt = np.where((y == 1)[:, None], edges + 5, edges)
    again = SiteDeconfounder(fit_on="controls").fit(spoilt, y, covariates=covariates, site=site)
    np.testing.assert_array_equal(again.mean_coef_, deconfounder.mean_coef_)
    np.testing.assert_allclose(again.residuals_[y == 1], deconfounder.residuals_[y == 1] + 5, atol=1e-12)


def test_a_huge_fixed_delta_is_least_squares():
    edges, covariates, site = several_sites()
    edges = np.nan_to_num(edges)
    deconfounder = SiteDeconfounder(huber_delta=1e6).fit(edges, covariates=covariates, site=site)
    here = site == "S1"
    design = np.column_stack([np.ones(here.sum()), deconfounder.encoder_.transform(covariates)[here]])
    expected = np.linalg.lstsq(design, edges[here], rcond=None)[0]
    np.testing.assert_allclose(np.vstack([deconfounder.intercept_[1], deconfounder.coef_[1]]), expected, atol=1e-9)


def test_without_covariates_each_site_loses_its_robust_mean():
    edges, _, site = several_sites()
    deconfounder = SiteDeconfounder().fit(edges, site=site)
    for e, name in enumerate(deconfounder.sites_):
        np.testing.assert_allclose(deconfounder.intercept_[e], huber_mean(edges[site == name]), atol=1e-12)


# --- what a site cannot say ------------------------------------------------------------------------------------------


def test_a_tiny_site_is_fitted_by_its_mean_and_recorded():
    edges, covariates, site = several_sites(sizes=(30, 5, 34))  # d + 3 = 6
    deconfounder = SiteDeconfounder().fit(edges, covariates=covariates, site=site)
    here = site == "S1"
    assert not deconfounder.estimable_[1].any()
    np.testing.assert_allclose(deconfounder.residuals_[here], edges[here] - huber_mean(edges[here]), atol=1e-9)
    np.testing.assert_allclose(deconfounder.mean_coef_, deconfounder.coef_[[0, 2]].mean(axis=0), atol=1e-12)
    assert [note for note in deconfounder.notes_ if "S1" in note] == [
        "site S1 (5 people) cannot estimate age, motion, scanner=Siemens: the mean slope of the other sites is used"
    ]


def test_six_people_are_enough_for_three_covariates():
    edges, covariates, site = several_sites(sizes=(30, 6, 34))
    covariates.loc[site == "S1", "scanner"] = ["GE", "Siemens"] * 3
    complete = np.isfinite(edges[site == "S1"]).all(axis=0)
    assert SiteDeconfounder().fit(edges, covariates=covariates, site=site).estimable_[1][:, complete].all()


def test_a_covariate_missing_at_a_whole_site_takes_the_slope_of_the_others():
    edges, covariates, site = several_sites()
    covariates.loc[site == "S1", "motion"] = np.nan
    deconfounder = SiteDeconfounder().fit(edges, covariates=covariates, site=site)
    np.testing.assert_allclose(deconfounder.mean_coef_[1], deconfounder.coef_[[0, 2], 1].mean(axis=0), atol=1e-12)
    without = SiteDeconfounder().fit(edges, covariates=covariates.drop(columns="motion"), site=site)
    here = site == "S1"
    np.testing.assert_allclose(deconfounder.residuals_[here], without.residuals_[here], atol=1e-9)
    assert any("motion: missing for 26 training people" in note for note in deconfounder.notes_)
    assert any("S1" in note and "cannot estimate motion" in note for note in deconfounder.notes_)


def test_a_person_without_a_covariate_stands_at_the_training_mean():
    edges, covariates, site = several_sites()
    deconfounder = SiteDeconfounder().fit(edges, covariates=covariates, site=site)
    unknown, mean = covariates[:1].assign(age=np.nan), covariates[:1].assign(age=deconfounder.encoder_.mean_[0])
    np.testing.assert_array_equal(
        deconfounder.transform(edges[:1], covariates=unknown), deconfounder.transform(edges[:1], covariates=mean)
    )


def test_a_level_never_seen_counts_as_missing():
    edges, covariates, site = several_sites()
    deconfounder = SiteDeconfounder().fit(edges, covariates=covariates, site=site)
    strange, missing = covariates[:1].assign(scanner="Hitachi"), covariates[:1].assign(scanner=None)
    np.testing.assert_array_equal(
        deconfounder.transform(edges[:1], covariates=strange), deconfounder.transform(edges[:1], covariates=missing)
    )


def test_a_copy_of_a_covariate_changes_no_residual():
    edges, covariates, site = several_sites()
    plain = SiteDeconfounder().fit(edges, covariates=covariates, site=site)
    doubled = covariates.assign(months=12 * covariates["age"] + 3)
    deconfounder = SiteDeconfounder().fit(edges, covariates=doubled, site=site)
    np.testing.assert_allclose(deconfounder.residuals_, plain.residuals_, atol=1e-9)
    np.testing.assert_allclose(
        deconfounder.transform(edges, covariates=doubled), plain.transform(edges, covariates=covariates), atol=1e-9
    )
    assert any("cannot estimate months" in note for note in deconfounder.notes_)


def test_covariates_collinear_at_one_site_only_leave_its_residuals_as_they_are():
    edges, covariates, site = several_sites()
    here = site == "S1"
    covariates.loc[here, "motion"] = 0.01 * covariates.loc[here, "age"] + 0.02
    deconfounder = SiteDeconfounder().fit(edges, covariates=covariates, site=site)
    alone = SiteDeconfounder().fit(edges[here], covariates=covariates.loc[here, ["age", "scanner"]], site=site[here])
    np.testing.assert_allclose(deconfounder.residuals_[here], alone.residuals_, atol=1e-9)
    np.testing.assert_allclose(deconfounder.coef_[1, 1], deconfounder.coef_[[0, 2], 1].mean(axis=0), atol=1e-9)
    np.testing.assert_allclose(deconfounder.residuals_, edges - fitted(deconfounder, covariates, site), atol=1e-9)


def test_an_edge_whose_people_are_all_of_one_level_drops_that_level_for_this_edge_only():
    edges, covariates, site = several_sites()
    edges[(site == "S1") & (covariates["scanner"] == "GE").to_numpy(), 3] = np.nan
    deconfounder = SiteDeconfounder().fit(edges, covariates=covariates, site=site)
    assert deconfounder.estimable_[1, 2].sum() == N_EDGES - 1
    assert any("cannot estimate scanner=Siemens for 1 edges" in note for note in deconfounder.notes_)
    np.testing.assert_allclose(deconfounder.residuals_, edges - fitted(deconfounder, covariates, site), atol=1e-9)


def test_an_edge_nobody_has_at_one_site_is_averaged_over_the_others():
    edges, covariates, site = several_sites()
    edges[site == "S1", 0] = np.nan
    deconfounder = SiteDeconfounder().fit(edges, covariates=covariates, site=site)
    assert np.isnan(deconfounder.intercept_[1, 0])
    np.testing.assert_allclose(deconfounder.mean_intercept_[0], deconfounder.intercept_[[0, 2], 0].mean(), atol=1e-12)
    assert any("S1: nobody has a value for 1 edges" in note for note in deconfounder.notes_)


def test_an_edge_nobody_has_anywhere_stays_missing():
    edges, covariates, site = several_sites()
    edges[:, 0] = np.nan
    deconfounder = SiteDeconfounder().fit(edges, covariates=covariates, site=site)
    residual = deconfounder.transform(np.ones((1, N_EDGES)), covariates=covariates[:1])
    assert np.isnan(residual[0, 0])
    assert np.isfinite(residual[0, 1:]).all()


@pytest.mark.parametrize(
    ("options", "arguments", "message"),
    [
        ({}, {"site": ["A"] * 3}, "90 people .*3 sites"),
        ({}, {"site": ["A", "a "] * 45}, "'A' = 'a '"),
        ({}, {"site": [None, *["A"] * 89]}, "person 0"),
        ({"fit_on": "controls"}, {"y": [0] * 30 + [1] * 60}, "S1, S2"),
        ({"fit_on": "controls"}, {"y": [1, 2] * 45}, "condition"),
        ({"fit_on": "controls"}, {"y": [0, 1]}, "2 labels"),
        ({}, {"covariates": pd.DataFrame({"age": [1.0]})}, "90 people .*1 rows"),
        ({"fit_on": "controls"}, {}, "labels"),
        ({"fit_on": "patients"}, {}, "'patients'"),
    ],
)
def test_bad_input_is_named(options, arguments, message):
    edges, covariates, site = several_sites()
    given = {"covariates": covariates, "site": site} | arguments
    with pytest.raises(BrainroamError, match=message):
        SiteDeconfounder(**options).fit(edges, **given)


def test_another_number_of_edges_is_named():
    edges, covariates, site = several_sites()
    with pytest.raises(DataError, match=r"29 features.* 30"):
        SiteDeconfounder().fit(edges, covariates=covariates, site=site).transform(edges[:, 1:], covariates=covariates)


# --- proposition 1: the residual bias of pooled deconfounding --------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n_sites=st.integers(2, 5), spread=st.floats(0.2, 1.0))
def test_pooled_residuals_keep_the_bias_the_proposition_states(seed, n_sites, spread):
    rng = np.random.default_rng(seed)
    n, n_edges = 60, 5
    site = np.repeat([f"S{k}" for k in range(n_sites)], n)
    e = np.repeat(np.arange(n_sites), n)
    q = pd.DataFrame(rng.normal(size=(len(site), 2)), columns=["age", "motion"])
    # Site intercepts a step apart, so that no single one fits all.
    intercept = spread * (rng.permutation(n_sites)[:, None] - (n_sites - 1) / 2) + rng.normal(
        0, 0.01, (n_sites, n_edges)
    )
    coef = rng.normal(0, spread, size=(n_sites, 2, n_edges))
    signal = 0.1 * np.tile([-1.0, 1.0], len(site) // 2)[:, None] * rng.choice([-1, 1], n_edges)
    noise = rng.normal(0, 0.05, size=(len(site), n_edges))
    standardised = (q - q.mean()).to_numpy() / q.std(ddof=0).to_numpy()
    edges = intercept[e] + np.einsum("nd,ndm->nm", standardised, coef[e]) + signal + noise

    pooled = SiteDeconfounder(pooled=True).fit(edges, covariates=q)
    slope_error = np.einsum("nd,ndm->nm", standardised, coef[e] - pooled.mean_coef_)
    bias = intercept[e] - pooled.mean_intercept_ + slope_error
    np.testing.assert_allclose(pooled.residuals_, signal + bias + noise, atol=1e-9)
    left = np.array([bias[e == k].mean(axis=0) for k in range(n_sites)])
    assert (np.abs(left).max(axis=0) > spread / 4).all()

    sitewise = SiteDeconfounder().fit(edges, covariates=q, site=site)
    error = sitewise.residuals_ - signal
    means = np.array([error[e == k].mean(axis=0) for k in range(n_sites)])
    sampling = np.sqrt(0.1**2 + 0.05**2) / np.sqrt(n)  # of a mean of signal and noise
    assert np.abs(means).max() < 6 * sampling


def test_adapting_to_unlabelled_people_removes_the_offset_of_their_site():
    rng = np.random.default_rng(0)
    edges, site = rng.normal(size=(60, 5)), np.repeat(["A", "B"], 30)
    deconfounder = SiteDeconfounder().fit(edges, site=site)
    new = rng.normal(size=(20, 5))
    shifted = deconfounder.transform(new + np.array([3.0, -2.0, 0.0, 1.0, 5.0]), adapt="unlabelled")
    np.testing.assert_allclose(shifted, deconfounder.transform(new, adapt="unlabelled"), atol=1e-8)
    assert np.abs(huber_mean(shifted)).max() < 1e-8


def test_adapting_needs_ten_people_and_a_known_name():
    edges = np.random.default_rng(0).normal(size=(30, 3))
    deconfounder = SiteDeconfounder().fit(edges, site=np.repeat(["A", "B"], 15))
    few = np.ones((9, 3))
    with pytest.warns(UserWarning, match="few"):
        np.testing.assert_array_equal(deconfounder.transform(few, adapt="unlabelled"), deconfounder.transform(few))
    with pytest.raises(UsageError, match="'unlabelled'"):
        deconfounder.transform(few, adapt="unlabeled")
