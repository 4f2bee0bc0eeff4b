"""SiteFolds: what is known when a group of sites is left out uses nothing of those sites."""

import numpy as np
import pandas as pd
import pytest

from brainroam import make_cohort
from brainroam.core.connectivity import cohort_edges
from brainroam.core.deconfound import SiteDeconfounder
from brainroam.core.profile import Profiles, log_profiles
from brainroam.core.site_folds import NOBODY, SiteFolds
from brainroam.core.site_statistics import SiteStatistics
from brainroam.data.features import ArrayColumns

THRESHOLDS = {"tau_percentile": 70, "eta": 0.6, "zeta": 0.5}
FOLD = frozenset({"S02"})


@pytest.fixture(scope="module")
def cohort():
    return make_cohort(n_sites=4, n_per_site=16, n_rois=14, all_male_sites=1, constant_rois=2)


def folds_of(cohort, edges=None, y=None, covariates=None, series=None, **options):
    table = cohort.table
    statistics = SiteStatistics(
        cohort_edges(cohort) if edges is None else edges,
        cohort.labels if y is None else y,
        table["site"].to_numpy().astype(str),
        table[["age", "sex"]] if covariates is None else covariates,
        SiteDeconfounder(),
    )
    folds = SiteFolds(statistics, THRESHOLDS, **options)
    series = cohort.series if series is None else series
    profiles = log_profiles(folds.needed_edges(), series, 30, 5)
    folds.profiles = Profiles(folds.needed_edges(), ArrayColumns(profiles.reshape(len(series), -1)), len(series))
    return folds


def site_residuals(cohort):
    """r_site of everybody on all edges."""
    table = cohort.table
    return SiteDeconfounder().fit(cohort_edges(cohort), covariates=table[["age", "sex"]], site=table["site"]).residuals_


def content(pathways):
    """Everything a set of pathways knows, as bytes."""
    scaffold, graph = pathways.scaffold, pathways.graph
    parts = [
        *pathways.deconfounder.state().values(),
        *(scaffold.edges, scaffold.contrast, scaffold.consensus, scaffold.sign_consistency, scaffold.stability),
        *(graph.prior, graph.root, *graph.cliques),
        *(pathways.orientation, pathways.centre, pathways.scale, pathways.skip),
    ]
    return [part.tobytes() for part in parts] + [scaffold.tau]


@pytest.mark.parametrize("spoilt", ["edges", "labels", "covariates", "series"])
def test_a_fold_uses_nothing_of_the_site_it_leaves_out(cohort, spoilt):
    rng = np.random.default_rng(0)
    here = (cohort.table["site"] == "S02").to_numpy()
    edges, y = cohort_edges(cohort).copy(), cohort.labels.copy()
    covariates, series = cohort.table[["age", "sex"]], cohort.series
    if spoilt == "edges":
        edges[here] = rng.uniform(-1, 1, size=edges[here].shape)
    elif spoilt == "labels":
        y[here] = 1 - y[here]
    elif spoilt == "covariates":
        covariates.loc[here, "age"] = 1000 * rng.random(here.sum())
    else:
        series = [rng.normal(size=x.shape) if bad else x for x, bad in zip(series, here, strict=True)]
    honest, corrupted = folds_of(cohort), folds_of(cohort, edges, y, covariates, series)
    assert content(corrupted.pathways(FOLD)) == content(honest.pathways(FOLD))
    both = FOLD | {"S01"}
    assert content(corrupted.pathways(both)) == content(honest.pathways(both))
    assert content(corrupted.pathways(NOBODY)) != content(honest.pathways(NOBODY))


def test_a_fold_equals_pathways_built_from_the_other_sites_alone(cohort):
    others = cohort.select(["S01", "S03", "S04"])
    alone, fold = folds_of(others).pathways(), folds_of(cohort).pathways(FOLD)
    np.testing.assert_array_equal(fold.scaffold.edges, alone.scaffold.edges)
    for name in ("centre", "scale", "skip"):
        np.testing.assert_allclose(getattr(fold, name), getattr(alone, name), atol=1e-9)
    people = cohort.select(["S02"])
    values, covariates = cohort_edges(people)[:, fold.scaffold.edges], people.table[["age", "sex"]]
    profiles = log_profiles(fold.scaffold.edges, people.series, 30, 5)
    np.testing.assert_allclose(
        fold.nodes(values, covariates, profiles), alone.nodes(values, covariates, profiles), atol=1e-6
    )


def test_training_reads_each_site_in_the_fold_without_it(cohort):
    folds = folds_of(cohort)
    episodes = folds.training()
    assert [len(episode) for episode in episodes] == [16] * 4
    fold = folds.pathways(FOLD)
    people = cohort.select(["S02"])
    profiles = log_profiles(fold.scaffold.edges, people.series, 30, 5)
    expected = fold.nodes(cohort_edges(people)[:, fold.scaffold.edges], people.table[["age", "sex"]], profiles)
    np.testing.assert_array_equal(episodes[1].features.numpy(), expected.astype(np.float32))
    np.testing.assert_array_equal(episodes[1].labels.numpy(), people.labels)


def test_training_for_an_inner_held_out_site_leaves_it_out_of_everything(cohort):
    folds = folds_of(cohort)
    episodes = folds.training(FOLD)
    assert len(episodes) == 3
    sizes = [len(folds.scaffold(FOLD | {site})) for site in ("S01", "S03", "S04")]
    assert [len(episode.features) for episode in episodes] == sizes


@pytest.fixture(scope="module")
def many():
    """Six sites, of which four groups are made."""
    return make_cohort(n_sites=6, n_per_site=12, n_rois=14, seed=3)


def test_of_many_sites_four_groups_of_about_the_same_size_stand_for_them(many):
    folds = folds_of(many)
    assert sorted(map(len, folds.groups)) == [1, 1, 2, 2]
    assert frozenset().union(*folds.groups) == set(many.sites) and folds.held_out_groups() == folds.groups
    assert [len(episode) for episode in folds.training()] == [12 * len(group) for group in folds.groups]
    assert [len(episode.features) for episode in folds.training()] == [len(folds.scaffold(g)) for g in folds.groups]
    for group in folds.groups:
        others = [left for left in folds.groups if left != group]
        assert [len(e.features) for e in folds.training(group)] == [len(folds.scaffold(group | g)) for g in others]
        assert sorted(set(many.table["site"].iloc[folds.people(group)])) == sorted(group)


@pytest.mark.parametrize("residual", ["agnostic", "site"])
def test_what_is_trained_without_a_group_uses_nothing_of_it(many, residual):
    group = next(group for group in folds_of(many).groups if len(group) == 2)
    here = many.table["site"].isin(group).to_numpy()
    rng = np.random.default_rng(0)
    edges, y = cohort_edges(many).copy(), np.where(here, 1 - many.labels, many.labels)
    edges[here] *= -1
    series = [rng.normal(size=x.shape) if bad else x for x, bad in zip(many.series, here, strict=True)]
    covariates = many.table[["age", "sex"]].assign(age=np.where(here, 999.0, many.table["age"]))
    honest = folds_of(many, residual=residual, max_pathways=9)
    corrupted = folds_of(many, edges, y, covariates, series, residual=residual, max_pathways=9)
    for make in ("training", "joint"):
        episodes, same = getattr(honest, make)(group), getattr(corrupted, make)(group)
        assert sum(map(len, episodes)) == (~here).sum()
        for one, other in zip(episodes, same, strict=True):
            assert one.features.numpy().tobytes() == other.features.numpy().tobytes()
            assert one.labels.numpy().tobytes() == other.labels.numpy().tobytes()
            assert one.graph.prior.numpy().tobytes() == other.graph.prior.numpy().tobytes()
    assert content(honest.pathways(group)) == content(corrupted.pathways(group))
    assert not np.array_equal(honest.training()[0].features.numpy(), corrupted.training()[0].features.numpy())


def test_held_out_groups_are_read_as_an_unseen_site_whatever_training_reads(cohort):
    by_site = folds_of(cohort, residual="site")
    agnostic = folds_of(cohort, residual="agnostic")
    for group in by_site.held_out_groups():
        one, other = by_site.held_out(group), agnostic.held_out(group)
        np.testing.assert_array_equal(one.features.numpy(), other.features.numpy())
        nodes = by_site.nodes(by_site.people(group), group)
        np.testing.assert_array_equal(one.features.numpy(), nodes.astype(np.float32))
    assert not np.array_equal(by_site.joint()[0].features.numpy(), agnostic.joint()[0].features.numpy())


def test_a_network_reads_the_strongest_pathways_of_its_fold_and_the_linear_reading_all(cohort):
    whole, folds = folds_of(cohort), folds_of(cohort, max_pathways=5)
    fold = whole.pathways(FOLD)
    size = np.abs(fold.scaffold.consensus[fold.scaffold.edges])
    strongest = np.sort(np.argsort(size)[-5:])
    narrow, episode = folds.held_out(FOLD), whole.held_out(FOLD)
    np.testing.assert_array_equal(narrow.features.numpy(), episode.features.numpy()[strongest])
    expected = (size[strongest] - size[strongest].mean()) / size[strongest].std()
    np.testing.assert_allclose(narrow.graph.prior.numpy(), expected, rtol=1e-5)
    assert folds.nodes(folds.people(FOLD), FOLD).shape[0] == len(fold.scaffold) > 5


def test_joint_training_is_everybody_on_the_pathways_they_gave(cohort):
    folds = folds_of(cohort, residual="site")
    (episode,) = folds.joint()
    pathways = folds.pathways()
    residuals = site_residuals(cohort)[:, pathways.scaffold.edges]
    expected = pathways.standardise(residuals, folds.profiles.of(pathways.scaffold.edges))
    np.testing.assert_allclose(episode.features.numpy(), expected, atol=1e-6)
    assert len(episode) == len(cohort)


def test_a_site_of_one_class_is_no_episode_but_serves_deconfounding(cohort):
    y = np.where(cohort.table["site"] == "S03", 0, cohort.labels)
    folds = folds_of(cohort, y=y)
    assert folds.sites == ["S01", "S02", "S04"]
    assert len(folds.training()) == 3
    assert folds.pathways().deconfounder.sites_ == ["S01", "S02", "S03", "S04"]


def test_folds_that_would_keep_fewer_than_two_sites_do_not_exist(cohort):
    three, two = (folds_of(cohort.select(sites)) for sites in (["S01", "S02", "S03"], ["S01", "S02"]))
    assert three.held_out_groups() == [frozenset({site}) for site in ("S01", "S02", "S03")]
    assert three.training(frozenset({"S01"})) == []
    assert two.held_out_groups() == two.training() == []
    assert len(two.joint()) == 1


def test_orientation_and_channels_follow_the_formulas(cohort):
    oriented, literal = folds_of(cohort).pathways(), folds_of(cohort, orient=False).pathways()
    np.testing.assert_array_equal(oriented.orientation, oriented.scaffold.signs)
    np.testing.assert_array_equal(literal.orientation, 1)
    residual = np.random.default_rng(0).normal(size=(3, len(oriented.scaffold)))
    profiles = np.random.default_rng(1).normal(size=(3, len(oriented.scaffold), 2))
    nodes = oriented.standardise(residual, profiles)
    for p in range(len(oriented.scaffold)):
        static = oriented.orientation[p] * residual[:, p] / oriented.scale[p, 0]
        volatility = (profiles[:, p, 0] - oriented.centre[p, 1]) / oriented.scale[p, 1]
        np.testing.assert_allclose(nodes[p, :, 0], static, rtol=1e-5)
        np.testing.assert_allclose(nodes[p, :, 1], volatility, rtol=1e-4, atol=1e-5)


def test_what_a_person_lacks_stands_at_the_training_mean(cohort):
    pathways = folds_of(cohort).pathways()
    n = len(pathways.scaffold)
    nodes = pathways.standardise(np.full((1, n), np.nan), np.full((1, n, 2), np.nan))
    assert (nodes == 0).all()


def test_channels_are_standardised_over_the_training_people(cohort):
    folds = folds_of(cohort, residual="site")
    z = folds.joint()[0].features.numpy().astype(float)
    complete = ~np.isnan(site_residuals(cohort)[:, folds.scaffold().edges]).any(axis=0)
    np.testing.assert_allclose(z[complete].std(axis=1), 1, atol=0.1)  # the static channel is scaled about its mean
    np.testing.assert_allclose(z[complete][..., 1:].mean(axis=1), 0, atol=1e-5)


def test_covariates_may_be_absent(cohort):
    empty = pd.DataFrame(index=range(len(cohort)))
    assert len(folds_of(cohort, covariates=empty).training()) == 4
