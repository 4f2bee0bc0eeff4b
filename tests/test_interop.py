"""brainroam inside scikit-learn, beside nilearn, and out as BIDS."""

import json

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.impute import SimpleImputer
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics import mean_absolute_error, r2_score, roc_auc_score
from sklearn.model_selection import LeaveOneGroupOut, cross_val_predict, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import Bunch

from brainroam import (
    Cohort,
    CoreClassifier,
    EnsembleClassifier,
    LeaveOneSiteOut,
    SiteRegressor,
    SiteScorer,
    make_cohort,
)
from brainroam.core.connectivity import edges_to_matrix, pearson_edges
from brainroam.core.deconfound import SiteDeconfounder
from brainroam.data.readers.bunch import cohort_from_bunch
from brainroam.errors import DataError
from brainroam.report.relmats import write_relmats


@pytest.fixture(scope="module")
def cohort():
    return make_cohort(n_sites=4, n_per_site=14, n_rois=12, seed=2, constant_rois=2)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def small_core():
    return CoreClassifier(hidden=4, budget=3, updates=4, tau_percentile=60, eta=0.5)


def metadata(people):
    return {"site": people["site"], "covariates": people[["age", "sex"]], "groups": people["site"]}


def by_hand(make, cohort):
    """The same leave-one-site-out, written out."""
    people, scores = cohort.table, []
    for train, test in LeaveOneGroupOut().split(people, groups=people["site"]):
        fit, new = people.iloc[train], people.iloc[test]
        model = make().fit(
            [cohort.series[i] for i in train], fit["label"], site=fit["site"], covariates=fit[["age", "sex"]]
        )
        score = model.decision_function([cohort.series[i] for i in test], covariates=new[["age", "sex"]])
        scores.append(roc_auc_score(new["label"], score))
    return scores


@pytest.mark.parametrize("make", [EnsembleClassifier, small_core])
def test_cross_validate_leaves_sites_out(routing, cohort, make):
    people = cohort.table
    known = metadata(people)
    found = cross_validate(
        make(), cohort.series, people["label"], cv=LeaveOneGroupOut(), params=known, scoring=SiteScorer()
    )
    np.testing.assert_allclose(found["test_score"], by_hand(make, cohort))


@pytest.mark.parametrize("metric", ["r2", "neg_mean_absolute_error"])
def test_a_number_is_scored_as_by_hand(routing, cohort, metric):
    """With covariates by SiteScorer; scikit-learn's own scorer gives the same where there are none."""
    people, series = cohort.table, cohort.series
    measure = {"r2": r2_score, "neg_mean_absolute_error": lambda *y: -mean_absolute_error(*y)}[metric]
    for known in ({}, {"covariates": people[["sex"]]}):
        by_hand = []
        for train, test in LeaveOneGroupOut().split(people, groups=people["site"]):
            fit, new = ({name: table.iloc[who] for name, table in known.items()} for who in (train, test))
            age, site = people["age"].iloc[train], people["site"].iloc[train]
            model = SiteRegressor("fc-ridge").fit([series[i] for i in train], age, site=site, **fit)
            by_hand.append(measure(people["age"].iloc[test], model.predict([series[i] for i in test], **new)))
        params = {"site": people["site"], "groups": people["site"], **known}
        for scoring in (SiteScorer(metric), *([] if known else [metric])):
            found = cross_val_score(
                SiteRegressor("fc-ridge"), series, people["age"], cv=LeaveOneSiteOut(), params=params, scoring=scoring
            )
            np.testing.assert_allclose(found, by_hand)


def test_requests_can_be_set_as_for_any_estimator(routing, cohort):
    people = cohort.table
    model = EnsembleClassifier().set_fit_request(site=True, covariates=False)
    known = {"site": people["site"], "groups": people["site"]}
    scores = cross_val_predict(
        model, cohort.series, people["label"], cv=LeaveOneGroupOut(), params=known, method="decision_function"
    )
    assert np.isfinite(scores).all()


def pipeline():
    return make_pipeline(
        FunctionTransformer(pearson_edges), SiteDeconfounder(), SimpleImputer(), RidgeClassifier(alpha=100)
    )


def test_the_deconfounder_works_in_a_pipeline(routing, cohort):
    people = cohort.table
    train, test = people["site"] != "S01", people["site"] == "S01"
    series = np.array(cohort.series, dtype=object)
    pipe = pipeline()
    pipe.fit(list(series[train]), people["label"][train], site=people["site"][train], covariates=people[["age"]][train])
    found = pipe.decision_function(list(series[test]), covariates=people[["age"]][test])

    edges = pearson_edges(cohort.series)
    deconfounder = SiteDeconfounder().fit(edges[train], covariates=people[["age"]][train], site=people["site"][train])
    imputer = SimpleImputer().fit(deconfounder.residuals_)
    ridge = RidgeClassifier(alpha=100).fit(imputer.transform(deconfounder.residuals_), people["label"][train])
    expected = ridge.decision_function(
        imputer.transform(deconfounder.transform(edges[test], covariates=people[["age"]][test]))
    )
    np.testing.assert_allclose(found, expected)


def test_the_pipeline_leaves_sites_out(routing, cohort):
    people = cohort.table
    found = cross_validate(
        pipeline(),
        cohort.series,
        people["label"],
        cv=LeaveOneGroupOut(),
        params=metadata(people),
        scoring=SiteScorer(),
        error_score="raise",
    )
    assert found["test_score"].shape == (4,)


def test_a_stack_of_series_is_as_good_as_a_list(cohort):
    people = cohort.table
    stack = np.stack([x[:90] for x in cohort.series])
    site, covariates = people["site"], people[["age", "sex"]]
    a = (
        EnsembleClassifier()
        .fit(stack, people["label"], site=site, covariates=covariates)
        .decision_function(stack, covariates=covariates)
    )
    b = EnsembleClassifier().fit(list(stack), people["label"], site=site, covariates=covariates)
    np.testing.assert_array_equal(a, b.decision_function(list(stack), covariates=covariates))


def test_tables_of_polars_are_as_good_as_those_of_pandas(cohort):
    polars = pytest.importorskip("polars")
    people = cohort.table[["subject", "site", "label", "age", "sex", "mean_fd"]]
    other = polars.DataFrame({name: people[name].tolist() for name in people})
    edges = np.random.default_rng(0).normal(size=(len(people), 3))

    def scores(table):
        series = EnsembleClassifier().fit(cohort.series, table["label"], site=table["site"])
        named = SiteDeconfounder().fit(edges, site=table["site"], covariates=table[["age", "sex"]])
        columns = EnsembleClassifier().fit(table[["age", "mean_fd"]], table["label"], site=table["site"])
        told = Cohort(cohort.series, table).table["age"]
        read = series.decision_function(cohort.series), columns.decision_function(table[["age", "mean_fd"]]), told
        return np.concatenate(read), named.encoder_.columns_

    for ours, theirs in zip(scores(people), scores(other), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_bunch_of_nilearn_is_read():
    rng = np.random.default_rng(0)
    people = pd.DataFrame(
        {
            "SUB_ID": [50002, 50003, 50004],
            "FILE_ID": ["Pitt_0050002", "Pitt_0050003", "Olin_0050004"],
            "SITE_ID": ["PITT", "PITT", "OLIN"],
            "DX_GROUP": [1, 2, 2],
            "AGE_AT_SCAN": [16.77, -9999.0, 20.0],
            "SEX": [1, 2, 1],
            "func_mean_fd": [0.1, 0.2, 0.3],
        },
        index=[7, 8, 9],
    )
    bunch = Bunch(rois_aal=[rng.normal(size=(40 + k, 116)) for k in range(3)], phenotypic=people, description="")
    cohort = cohort_from_bunch(bunch)
    table = cohort.table
    assert table["subject"].tolist() == people["FILE_ID"].tolist() and table["label"].tolist() == [1, 0, 0]
    np.testing.assert_array_equal(table["age"], [16.77, np.nan, 20])
    np.testing.assert_array_equal(table["sex"], [1, 0, 1])
    assert table["tr"].tolist() == [1.5, 1.5, 1.5] and cohort.atlas.labels[0] == "Precentral_L"
    with pytest.raises(DataError, match="derivatives='rois_cc200'"):
        cohort_from_bunch(bunch, "cc200")


@pytest.mark.parametrize("kind", ["pearson", "lag"])
def test_relationship_matrices_hold_the_edges_of_everybody(tmp_path, cohort, kind):
    out = write_relmats(cohort, tmp_path, kind)
    people = pd.read_csv(out / "participants.tsv", sep="\t")
    assert people["participant_id"].tolist() == [f"sub-{name}" for name in cohort.table["subject"].str.replace("_", "")]
    assert people["label"].tolist() == cohort.labels.tolist()
    one = people["participant_id"][3]
    stem = out / one / "func" / f"{one}_atlas-custom_meas-{kind}_relmat"
    matrix = pd.read_csv(f"{stem}.dense.tsv", sep="\t", header=None, na_values="n/a").to_numpy()
    assert matrix.shape == (12, 12)
    if kind == "pearson":
        expected = edges_to_matrix(pearson_edges(cohort.series[3:4])[0])
        np.testing.assert_allclose(matrix, expected, atol=1e-5)
    else:
        np.testing.assert_allclose(matrix, -matrix.T)
    sidecar = json.loads(stem.with_name(f"{stem.name}.json").read_text())
    assert sidecar["Directed"] is (kind == "lag") and len(sidecar["NodeLabels"]) == 12


def test_ids_that_bids_cannot_tell_apart(tmp_path):
    cohort = make_cohort(n_sites=2, n_per_site=4, n_rois=8)
    table = cohort.table.assign(subject=["a-1", "a1", *cohort.table["subject"][2:]])
    with pytest.raises(DataError, match="a1"):
        write_relmats(type(cohort)(cohort.series, table), tmp_path)


def test_ids_in_other_letters_keep_a_name_and_formulas_are_text(tmp_path):
    cohort = make_cohort(n_sites=2, n_per_site=4, n_rois=8)
    ids = ["Мария", "Иван", "田中", "=1+1", *cohort.table["subject"][4:]]
    sites = ["=cmd|' /C calc'!A0"] * 4 + ["B"] * 4
    out = write_relmats(type(cohort)(cohort.series, cohort.table.assign(subject=ids, site=sites)), tmp_path)
    people = pd.read_csv(out / "participants.tsv", sep="\t", dtype=str)
    assert people["participant_id"].is_unique and people["participant_id"].str.fullmatch("sub-[A-Za-z0-9]+").all()
    assert people["source_id"].tolist() == ["Мария", "Иван", "田中", "'=1+1", *ids[4:]]
    assert people["site"][0] == "'=cmd|' /C calc'!A0"
    assert all((out / one / "func").is_dir() for one in people["participant_id"])
