"""The public names of design/ARCHITECTURE.md, which other people's scripts call, called as it writes them."""

import inspect

import numpy as np
import pytest

import brainroam
from brainroam.core import connectivity, deconfound, linegraph, profile, scaffold

VERBS = {
    "load_cohort": ["path", "reader", "atlas", "sites", "target"],
    "make_cohort": ["n_sites", "n_per_site", "n_rois", "seed"],
    "SiteClassifier": ["method"],
    "SiteRegressor": ["method"],
    "CoreClassifier": [],
    "EnsembleClassifier": [],
    "ChampionClassifier": [],
    "SiteDeconfounder": ["huber_k", "huber_delta"],
    "evaluate": [],
    "compare": [],
    "write_report": [],
    "audit": [],
    "explain": [],
    "load_model": [],
    "LeaveOneSiteOut": [],
    "LeaveOneInstitutionOut": [],
    "SiteHalves": [],
    "next_site": ["values", "variances"],
    "compare_sites": [],
}


@pytest.fixture(scope="module")
def cohort():
    return brainroam.make_cohort(n_sites=4, n_per_site=16, n_rois=12, seed=0)


@pytest.mark.parametrize("name", VERBS)
def test_a_public_name_can_be_called_with_the_parameters_that_were_promised(name):
    verb = getattr(brainroam, name)
    assert callable(verb)
    verb = brainroam.audit.audit if name == "audit" else verb
    assert set(VERBS[name]) <= inspect.signature(verb).parameters.keys()


def test_every_public_name_is_listed():
    assert {*VERBS} - {"ChampionClassifier"} <= {*brainroam.__all__} <= {*dir(brainroam)}


def test_an_audit_is_called_by_the_name_of_its_room(cohort):
    found = brainroam.audit(cohort, {"mine": "fc-ridge"}, permutations=0)
    assert "mine" in {check.method for check in found.checks}


def test_the_steps_of_core_fit_together(cohort):
    people, series = cohort.table, cohort.series
    n, pairs = len(people), connectivity.edge_pairs(cohort.n_rois)
    edges = connectivity.pearson_edges(series)
    assert edges.shape == connectivity.edges(series, kind="partial", shrinkage=0.5).shape == (n, len(pairs))
    assert connectivity.TangentEdges().fit(series).transform(series).shape == edges.shape
    model = deconfound.SiteDeconfounder(huber_k=1.345, huber_delta=None)
    model.fit(edges, y=None, covariates=people[["age", "sex"]], site=people["site"])
    assert model.coef_.shape == (len(model.sites_), 2, len(pairs))
    assert model.intercept_.shape == (len(model.sites_), len(pairs))
    assert model.mean_coef_.shape == (2, len(pairs)) and model.mean_intercept_.shape == (len(pairs),)
    assert model.transform(edges, covariates=people[["age", "sex"]]).shape == model.residuals_.shape
    thresholds = {"tau_percentile": 60, "eta": 0.5, "zeta": 0.5, "bootstrap": "sites", "n_boot": 100}
    found = scaffold.extract_scaffold(
        model.residuals_, people["label"].to_numpy(), people["site"].to_numpy(), **thresholds, random_state=0
    )
    assert found.contrast.shape == (len(model.sites_), len(pairs)) and np.ndim(found.tau) == 0
    assert found.consensus.shape == found.sign_consistency.shape == found.stability.shape == (len(pairs),)
    described = profile.temporal_descriptors(series, pairs[found.edges], window=30, stride=5)
    assert described.shape == (n, len(found.edges), 2)
    graph = linegraph.line_graph(pairs[found.edges], found.consensus[found.edges])
    assert graph.prior.shape == (len(found.edges),) and graph.propagation.shape == (len(found.edges),) * 2
