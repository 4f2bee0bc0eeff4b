"""Tangent edges: nilearn's, at the mean itself instead of near it."""

import numpy as np
import pytest
from nilearn.connectome import ConnectivityMeasure
from nilearn.connectome.connectivity_matrices import _geometric_mean
from sklearn.covariance import ledoit_wolf

from brainroam.core.connectivity import nilearn_order, spectral
from brainroam.core.tangent import TangentEdges, covariances


@pytest.fixture
def people():
    rng = np.random.default_rng(0)
    mixing = rng.normal(size=(12, 12))
    return [rng.normal(size=(t, 12)) @ mixing * 100 + 7000 for t in (40, 60, 55, 80, 70)]


def by_nilearn(series):
    measure = ConnectivityMeasure(kind="tangent", vectorize=True, discard_diagonal=True)
    return measure.fit_transform(series)[:, nilearn_order(series[0].shape[1])], measure


def distance_from_mean(series, reference):
    """Largest entry of the mean logarithm, by its definition."""
    whitening = spectral(reference, lambda w: 1 / np.sqrt(w))
    logarithms = [spectral(whitening @ ledoit_wolf(x)[0] @ whitening, np.log) for x in series]
    return np.abs(np.mean(logarithms, axis=0)).max()


def test_covariances_equal_scikit_learn(people):
    np.testing.assert_allclose(covariances(people), [ledoit_wolf(x)[0] for x in people], rtol=1e-10)


def test_edges_equal_nilearn_through_the_order_map(people):
    expected, measure = by_nilearn(people)
    ours = TangentEdges().fit(people)
    np.testing.assert_allclose(ours.transform(people), expected, atol=1e-5)  # nilearn's own tolerance
    assert distance_from_mean(people, ours.reference_) < 1e-10 < distance_from_mean(people, measure.mean_)
    np.testing.assert_array_equal(ours.transform(people[2:3])[0], ours.transform(people)[2])


def test_edges_equal_nilearn_where_nilearn_converges(people):
    reference = _geometric_mean([ledoit_wolf(x)[0] for x in people], max_iter=200, tol=1e-13)
    ours = TangentEdges().fit(people)
    np.testing.assert_allclose(ours.reference_, reference, rtol=1e-7)


def test_learning_and_reading_at_once_equals_one_after_the_other(people):
    apart, at_once = TangentEdges(), TangentEdges()
    np.testing.assert_allclose(at_once.fit_transform(people), apart.fit(people).transform(people), atol=2e-9)
    np.testing.assert_array_equal(at_once.reference_, apart.reference_)


def test_a_region_without_signal_is_missing(people):
    people[1][:, 3] = 5.0
    edges = TangentEdges()
    for values in (edges.fit_transform(people), edges.transform(people)):
        assert np.isnan(values).sum(axis=1).tolist() == [0, 11, 0, 0, 0]


def test_on_abide_nearer_to_the_mean_than_nilearn(abide_root):
    from brainroam import load_cohort

    series = load_cohort(abide_root, atlas="aal", sites=["CALTECH", "SBL"], max_missing_rois=0.0).series
    expected, measure = by_nilearn(series)
    ours = TangentEdges().fit(series)
    np.testing.assert_allclose(ours.transform(series), expected, atol=1e-3)
    assert distance_from_mean(series, ours.reference_) < 1e-10 < distance_from_mean(series, measure.mean_)
