"""Skewed columns are read by their place among training people; others, and held-out people, change nothing."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm, rankdata
from sklearn.metrics import roc_auc_score

from brainroam.audit.spoiling import with_corrupted_data
from brainroam.data.atlas import columns_of_table
from brainroam.data.cohort import Cohort
from brainroam.methods.column_scores import KNOTS, ColumnScores, by_scores
from brainroam.methods.registry import method_info
from brainroam.methods.saving import load_method, save_method
from brainroam.methods.tuning import TunedMethod


def world(reads=np.exp, n_sites=12, n_per_site=30, n_columns=40, shift=0.5, seed=0):
    """Normal columns with shifts of sites, six of which tell the diagnosis, as some function ``reads`` them."""
    rng = np.random.default_rng(seed)
    n = n_sites * n_per_site
    site, y = np.repeat(np.arange(n_sites), n_per_site), np.tile([0.0, 1.0], n // 2)
    z = rng.normal(size=(n, n_columns)) + shift * rng.normal(size=(n_sites, n_columns))[site]
    z[:, :6] += 0.5 * y[:, None]
    people = pd.DataFrame({"subject": [f"p{k}" for k in range(n)], "site": [f"S{k:02}" for k in site], "label": y})
    values = reads(z)
    columns = columns_of_table([f"c{k}" for k in range(values.shape[1])])
    return Cohort(list(values[:, None]), people, columns, measure="table")


def zeros(z):
    return np.where(z > 0.6, np.exp(1.5 * z) - np.exp(0.9), 0.0)


def held_out_auc(cohort, name, train=8):
    trained = cohort.subset(cohort.table["site"].isin(cohort.sites[:train]).to_numpy())
    model = TunedMethod(method_info(name), "default").fit(trained)
    of_sites = [cohort.select([site]) for site in cohort.sites[train:]]
    return np.mean([roc_auc_score(some.labels, model.score(some)) for some in of_sites])


@pytest.mark.parametrize("name", ["ensemble", "fc-ridge", "core", "fc-svm"])
def test_logarithms_and_units_of_skewed_columns_hardly_matter(name):
    plain, skewed = world(lambda z: z), world(lambda z: np.exp(2 * z))
    assert abs(held_out_auc(skewed, name) - held_out_auc(plain, name)) < 0.02


def test_normal_columns_are_read_as_they_are_however_sites_are_shifted_and_skewed_ones_are_not():
    assert not len(ColumnScores().fit(world(lambda z: z, shift=5)).skewed_)
    mixed = world(lambda z: np.where(np.arange(z.shape[1]) % 2, z, np.exp(z)))
    assert ColumnScores().fit(mixed).skewed_.tolist() == list(range(0, 40, 2))
    assert len(ColumnScores().fit(world(zeros)).skewed_) == 40


def test_scores_are_normal_scores_of_mid_ranks_among_training_people():
    cohort = world(zeros)
    scores, other = by_scores(cohort)
    x, g = np.concatenate(cohort.series), np.concatenate(other.series)
    n = len(x)
    exact = norm.ppf((rankdata(x, axis=0) - 0.5) / n)
    inside = np.abs(exact) < 2  # the ends are means of the last people
    near = np.abs(g - exact)[inside] < 0.06
    assert near.mean() > 0.98  # but the least positive values, which share a knot with zeros
    assert (np.ptp(g[x == 0].reshape(-1)) < 0.5) and (np.ptp(g[:, 0][x[:, 0] == 0]) == 0)
    beyond = Cohort([np.full((1, 40), v) for v in (-9.0, 1e9)], cohort.table.iloc[:2], cohort.atlas, measure="table")
    ends = np.concatenate(scores.transform(beyond).series)
    np.testing.assert_array_equal(ends, scores.scores_[[0, KNOTS - 1]])


def test_columns_of_two_values_are_the_same_either_way():
    coded = world(lambda z: (z > 1).astype(float))
    scores, other = by_scores(coded)
    assert len(scores.skewed_)
    x, g = np.concatenate(coded.series), np.concatenate(other.series)
    assert all(len(np.unique(column.round(9))) == 2 for column in g.T)
    assert abs(np.corrcoef(x[:, 0], g[:, 0])[0, 1]) > 1 - 1e-9


def test_missing_values_stay_missing_and_count_for_nothing():
    values = np.concatenate(world().series)
    values[::3, 0] = np.nan
    cohort = world().with_series(list(values[:, None]))
    scores, other = by_scores(cohort)
    assert np.isnan(np.concatenate(other.series)[::3, 0]).all()
    rest = cohort.subset(np.arange(len(cohort)) % 3 > 0)
    np.testing.assert_allclose(scores.knots_[:, 0], ColumnScores().fit(rest).knots_[:, 0])


@pytest.mark.parametrize("name", ["ensemble", "fc-ridge", "core", "fc-logistic"])
def test_no_byte_of_a_model_of_skewed_columns_depends_on_the_held_out_site(name):
    cohort = world(zeros)
    held_out = (cohort.table["site"] == cohort.sites[0]).to_numpy()
    spoiled = with_corrupted_data(cohort, np.flatnonzero(held_out), seed=1)
    one, other = (TunedMethod(method_info(name), "fast").fit(c.subset(~held_out)).state() for c in (cohort, spoiled))
    assert one.keys() == other.keys() and any("columns.knots" in key for key in one)
    assert all(one[key].tobytes() == other[key].tobytes() for key in one)


@pytest.mark.parametrize("name", ["ensemble", "core", "fc-svm"])
def test_a_model_of_skewed_columns_is_read_back_as_it_was_and_reads_one_person_as_all(name, tmp_path):
    cohort = world(zeros)
    model = TunedMethod(method_info(name), "fast").fit(cohort)
    again = load_method(save_method(tmp_path / "model", model, cohort), cohort)[0]
    np.testing.assert_array_equal(again.score(cohort), model.score(cohort))
    np.testing.assert_allclose(again.score(cohort.subset([7])), model.score(cohort)[7], rtol=1e-9)


def test_rare_far_values_are_read_as_they_are_where_held_out_sites_say_so():
    cohort = world(lambda z: np.exp(0.7 * z[:, 6:]))
    rng, values, y = np.random.default_rng(1), np.concatenate(cohort.series), cohort.labels
    values[:, 10:13] += 9.0 * ((rng.random((len(values), 3)) < 0.2) & (y == 1)[:, None])
    far = cohort.with_series(list(values[:, None]))
    assert held_out_auc(far, "ensemble") > held_out_auc(far, "fc-ridge") + 0.03
