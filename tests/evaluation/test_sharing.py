"""What folds share changes nothing: studies against folds fitted one by one, each with nothing remembered."""

import numpy as np
import pandas as pd
import pytest

from brainroam import Cohort, evaluate, make_cohort
from brainroam.data.atlas import columns_of_table
from brainroam.data.store import store_cohort
from brainroam.data.stored_cohort import StoredCohort
from brainroam.data.target_column import with_target
from brainroam.methods.base import Method
from brainroam.methods.registry import method_info
from brainroam.methods.tuning import inner_folds

CORE = 'core[hidden=4,budget=4,updates=6,tau_percentile=50,eta=0.6,skip="none"]'


@pytest.fixture(scope="module")
def cohort():
    return make_cohort(n_sites=5, n_per_site=14, n_rois=14, seed=3)


@pytest.mark.parametrize("method", ["ensemble", "fc-ridge", "log-ridge", "scaffold-ridge", CORE])
def test_a_study_equals_folds_of_which_none_knows_another(cohort, method):
    study = evaluate(cohort, [method]).predictions.set_index("subject")["score"]
    for site in cohort.sites[-2:]:  # the last, which could remember most
        alone = evaluate(Cohort(cohort.series, cohort.table), [method], held_out=[site]).predictions
        np.testing.assert_array_equal(alone["score"], study[alone["subject"]])


def test_inner_folds_of_the_scaffold_equal_fits_one_by_one(cohort):
    folds, model = list(inner_folds(cohort, 0)), method_info("scaffold-ridge").make()
    shared = model.out_of_fold(cohort, folds)
    for fold, scores in zip(folds, shared, strict=True):
        fresh = Cohort(cohort.series, cohort.table)
        np.testing.assert_allclose(scores, Method.out_of_fold(model, fresh, [fold])[0], rtol=0, atol=1e-8)


def in_memory(cohort, folder):
    return cohort


def on_disk(cohort, folder):
    return StoredCohort(store_cohort(folder / "cohort.zarr", cohort), folder / "work", 5e8)


def with_a_table(cohort, folder):
    """Every fourth person lacks the table; rows follow from the series, so they are spoilt with them."""
    rows = [x[:6, :1].T + np.arange(6) for x in cohort.series]
    have = np.flatnonzero([not name.endswith(("1", "5", "9")) for name in cohort.table["subject"]])
    table = Cohort([rows[i] for i in have], cohort.table.iloc[have], columns_of_table(list("abcdef")), measure="table")
    return cohort.with_block("table", table, "rest")


def of_a_number(cohort, folder):
    label = cohort.table["label"]
    return with_target(
        cohort.with_columns(pd.DataFrame({"severity": 10 + 5 * label + cohort.table["age"]})), "severity"
    )


@pytest.mark.parametrize("world", [in_memory, on_disk, with_a_table, of_a_number])
def test_a_study_reads_half_of_a_site_alike_whatever_is_done_to_the_other_half_and_all_labels(world, tmp_path):
    cohort = make_cohort(n_sites=4, n_per_site=10, n_rois=10, seed=3, missing_covariates=1)
    here = np.flatnonzero(cohort.table["site"] == "S04")
    spoilt, series, table = here[::2], list(cohort.series), cohort.table
    rng = np.random.default_rng(0)
    for i in spoilt:
        series[i] = 10 * rng.normal(size=(50 + i, 10)) ** 3
    table.loc[spoilt, ["age", "sex", "mean_fd", "tr"]] = [99.0, np.nan, 9.0, 0.5]
    table.loc[here, "label"] = 1 - table.loc[here, "label"]
    first = np.r_[here, np.setdiff1d(np.arange(len(table)), here)]  # the held-out site is read first, not last
    told = []
    for name, people in (("clean", cohort), ("spoilt", Cohort(series, table).subset(first))):
        results = evaluate(world(people, tmp_path / name), ["ensemble"], held_out=["S02", "S04"])
        left_alone = results.predictions["subject"].isin(table["subject"].iloc[np.setdiff1d(here, spoilt)])
        scores = results.predictions[left_alone].sort_values("subject")["score"].to_numpy()
        runs = [record for spec, record in results.records if spec.fold == "S04"]
        told.append((scores, [(run.get("threshold"), run["configuration"], run["next_site"]) for run in runs]))
    assert len(told[0][0]) == 5 and np.array_equal(told[0][0], told[1][0])
    assert len(told[0][1]) == 1 and told[0][1] == told[1][1]
