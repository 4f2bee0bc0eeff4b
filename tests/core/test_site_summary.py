"""Summaries of sites give what their people in one place give."""

import numpy as np
import pytest

import brainroam
from brainroam.core.connectivity import cohort_edges
from brainroam.core.model import CoreModel
from brainroam.core.recipe import Recipe
from brainroam.core.scaffold import edges_of
from brainroam.core.site_summary import SiteProducts, SiteSummary, SummaryStatistics
from brainroam.errors import DataError

THRESHOLDS = {"tau_percentile": 80, "eta": 0.75, "zeta": 0.7}


@pytest.fixture(scope="module", params=[24, 10], ids=["sites of 24", "sites of 10"])
def cohort(request):
    """Sites of men only, and people who lack regions: slopes and edges that a site does not know."""
    return brainroam.make_cohort(
        n_sites=5, n_per_site=request.param, n_rois=20, all_male_sites=2, constant_rois=6, seed=3
    )


@pytest.fixture(scope="module")
def central(cohort):
    # Thresholds are given: at sites of ten held-out sites would choose them
    return CoreModel(Recipe(epochs=0, tau_percentile=(80,), eta=(0.75,))).fit(cohort, cohort.covariates())


@pytest.fixture(scope="module")
def statistics(cohort):
    edges, site, y = cohort_edges(cohort, "log", 0.7, True), cohort.table["site"].to_numpy(), cohort.labels
    people = {name: (site == name, cohort.covariates()[site == name].reset_index(drop=True)) for name in cohort.sites}
    first = {name: SiteSummary.of(edges[here], y[here], q, 1.345, "mean") for name, (here, q) in people.items()}
    first = {name: SiteSummary.from_arrays(summary.arrays()) for name, summary in first.items()}
    whole = SummaryStatistics(first, ["age", "sex"])
    left_out = [cohort.sites, *([s for s in cohort.sites if s != name] for name in cohort.sites)]
    needed = edges_of([whole.scaffold(sites, **THRESHOLDS) for sites in left_out])
    second = {
        name: SiteProducts.of(needed, edges[np.ix_(here, needed)], y[here], q, 1.345)
        for name, (here, q) in people.items()
    }
    return SummaryStatistics(first, ["age", "sex"], second)


def test_the_model_of_all_sites_is_the_same(cohort, central, statistics):
    scaffold = statistics.scaffold(cohort.sites, **THRESHOLDS)
    pathways, expected = statistics.pathways(cohort.sites, scaffold), central.pathways_
    np.testing.assert_array_equal(scaffold.edges, central.scaffold_.edges)
    np.testing.assert_allclose(scaffold.consensus, central.scaffold_.consensus, atol=1e-12)
    np.testing.assert_allclose(pathways.scale[:, 0], expected.scale[:, 0], atol=1e-12)
    np.testing.assert_allclose(pathways.skip, expected.skip, atol=1e-10)
    for name in ("mean_intercept_", "mean_coef_"):
        found = getattr(pathways.deconfounder, name)
        np.testing.assert_allclose(found, getattr(expected.deconfounder, name), atol=1e-12)


def test_leaving_a_summary_out_is_leaving_the_site_out(cohort, central, statistics):
    edges, site = cohort_edges(cohort, "log", 0.7, True), cohort.table["site"].to_numpy()
    for name in cohort.sites:
        here, rest = site == name, [s for s in cohort.sites if s != name]
        pathways = statistics.pathways(rest, statistics.scaffold(rest, **THRESHOLDS))
        nodes = pathways.nodes(edges[np.ix_(here, pathways.scaffold.edges)], cohort.covariates()[here], None)
        np.testing.assert_allclose(pathways.contributions(nodes).sum(axis=0), central.inner_scores_[here], atol=1e-9)


def test_edges_that_were_not_asked_for_are_missed(statistics):
    products = next(iter(statistics._products.values()))
    absent = np.setdiff1d(np.arange(190), products.edges)[:1]
    with pytest.raises(DataError, match="edges"):
        products.on(absent)
