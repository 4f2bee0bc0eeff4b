import numpy as np
import pytest
from scipy.linalg import logm

from brainroam.core.connectivity import (
    edge_pairs,
    edges,
    edges_to_matrix,
    nilearn_order,
    pearson_edges,
)
from brainroam.errors import BrainroamError


def test_pearson_equals_numpy(people):
    upper = np.triu_indices(12, 1)
    expected = [np.corrcoef(x.T)[upper] for x in people]
    np.testing.assert_allclose(pearson_edges(people), expected, atol=1e-12)


def test_region_without_signal_is_missing_and_touches_no_other_edge(people):
    broken = [x.copy() for x in people]
    broken[1][:, 3] = 7.0
    broken[2][5, 0] = np.nan
    values, whole = pearson_edges(broken), pearson_edges(people)
    pairs = edge_pairs(12)
    for person, region in ((1, 3), (2, 0)):
        touched = (pairs == region).any(axis=1)
        assert np.isnan(values[person, touched]).all()
        np.testing.assert_allclose(values[person, ~touched], whole[person, ~touched], atol=1e-12)
    assert np.isfinite(values[[0, 3, 4]]).all()


@pytest.mark.parametrize("shrinkage", [0.3, 0.7])
def test_log_edges_equal_scipy(people, shrinkage):
    upper = np.triu_indices(12, 1)
    expected = [logm((1 - shrinkage) * np.corrcoef(x.T) + shrinkage * np.eye(12)).real[upper] for x in people]
    np.testing.assert_allclose(edges(people, "log", shrinkage), expected, atol=1e-10)


def test_log_edges_of_fewer_volumes_than_regions_equal_scipy():
    x = np.random.default_rng(1).normal(size=(9, 30))
    x[:, 4] = 0
    correlation = np.nan_to_num(np.corrcoef(np.delete(x, 4, axis=1).T))
    expected = logm(0.3 * correlation + 0.7 * np.eye(29)).real[np.triu_indices(29, 1)]
    values = edges([x], "log", 0.7)[0]
    np.testing.assert_allclose(values[np.isfinite(values)], expected, atol=1e-12)
    assert np.isnan(values).sum() == 29


def test_partial_correlation_equals_regression_residuals(people):
    x = people[3]
    value = edges([x], "partial", shrinkage=1e-12)[0, 0]
    rest = np.column_stack([np.ones(len(x)), x[:, 2:]])
    residual = x[:, :2] - rest @ np.linalg.lstsq(rest, x[:, :2], rcond=None)[0]
    assert value == pytest.approx(np.corrcoef(residual.T)[0, 1], abs=1e-6)


def test_nilearn_order_maps_every_pair():
    matrix = np.arange(49.0).reshape(7, 7)
    matrix = matrix + matrix.T
    theirs = matrix[np.tril_indices(7, -1)]
    np.testing.assert_array_equal(theirs[nilearn_order(7)], matrix[np.triu_indices(7, 1)])


def test_edges_to_matrix_round_trip(people):
    values = pearson_edges(people)
    matrices = edges_to_matrix(values)
    np.testing.assert_array_equal(matrices[:, *np.triu_indices(12, 1)], values)
    np.testing.assert_array_equal(matrices, matrices.transpose(0, 2, 1))


@pytest.mark.parametrize(("kind", "shrinkage"), [("pearsn", 0.5), ("log", 0.0), ("log", 1.5)])
def test_bad_arguments_are_named(people, kind, shrinkage):
    with pytest.raises(BrainroamError, match=r"pearson|shrinkage"):
        edges(people, kind, shrinkage)
