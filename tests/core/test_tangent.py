"""Tangent edges: nilearn's, at the mean itself instead of near it."""

import warnings

import numpy as np
import pytest
from nilearn.connectome import ConnectivityMeasure
from nilearn.connectome.connectivity_matrices import _geometric_mean
from sklearn.covariance import ledoit_wolf
from sklearn.exceptions import ConvergenceWarning

from brainroam.core import tangent as gm
from brainroam.core.connectivity import nilearn_order
from brainroam.core.tangent import TangentEdges, covariances
from brainroam.data.measurements import spectral
from brainroam.errors import DataError


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


def covariance_matrices(n=40, p=12, seed=0, spread=0.4):
    """Covariances around a random centre."""
    rng = np.random.default_rng(seed)
    centre = spectral(np.cov(rng.normal(size=(p, 3 * p))), np.sqrt)
    noise = rng.normal(size=(n, p, p)) * spread
    return centre @ spectral((noise + noise.transpose(0, 2, 1)) / 2, np.exp) @ centre


def mean_logarithm(matrices, reference):
    """By its definition, without any of the code under test."""
    whitening = spectral(reference, lambda w: 1 / np.sqrt(w))
    return np.mean([spectral(whitening @ c @ whitening, np.log) for c in matrices], axis=0)


@pytest.mark.parametrize(
    ("n", "p", "spread"), [(1, 5, 0.4), (2, 8, 1.0), (40, 12, 0.4), (200, 12, 0.8), (300, 12, 0.8), (70, 30, 0.3)]
)
def test_the_mean_logarithm_vanishes(n, p, spread):
    matrices = covariance_matrices(n, p, spread=spread)
    assert np.abs(mean_logarithm(matrices, gm.geometric_mean(matrices))).max() < 1e-10


@pytest.mark.parametrize("thin", [1e-2, 1e-4, 1e-6])
def test_nearly_singular_participants_keep_the_mean_where_it_is(thin):
    matrices, squeeze = covariance_matrices(300, 6), np.diag([thin, 1, 1, 1, 1, 1])
    matrices[::5] = squeeze @ matrices[::5] @ squeeze
    assert np.abs(mean_logarithm(matrices, gm.geometric_mean(matrices))).max() < 1e-8


def test_two_matrices_have_a_closed_form():
    a, b = covariance_matrices(2, 7, spread=1.0)
    root, whitening = gm.roots(a)
    expected = root @ spectral(whitening @ b @ whitening, np.sqrt) @ root
    np.testing.assert_allclose(gm.geometric_mean(np.array([a, b])), expected, rtol=1e-9, atol=1e-10)


def test_the_start_does_not_matter():
    matrices = covariance_matrices()
    cold = gm.geometric_mean(matrices)
    for start in (np.eye(12), 100 * np.eye(12), matrices[3]):
        np.testing.assert_allclose(gm.geometric_mean(matrices, start), cold, atol=1e-9)


def test_congruence_and_inversion_carry_over():
    matrices, x = covariance_matrices(), np.random.default_rng(1).normal(size=(12, 12))
    mean = gm.geometric_mean(matrices)
    np.testing.assert_allclose(gm.geometric_mean(x @ matrices @ x.T), x @ mean @ x.T, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(gm.geometric_mean(np.linalg.inv(matrices)), np.linalg.inv(mean), rtol=1e-7, atol=1e-7)


def test_nearer_to_the_mean_than_nilearn():
    from nilearn.connectome.connectivity_matrices import _geometric_mean

    matrices = covariance_matrices(60, 15, spread=0.6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = _geometric_mean(list(matrices))
    ours = gm.geometric_mean(matrices)
    np.testing.assert_allclose(ours, theirs, atol=1e-3)
    assert np.abs(mean_logarithm(matrices, ours)).max() < np.abs(mean_logarithm(matrices, theirs)).max()


def test_the_hessian_is_the_derivative_of_the_mean_logarithm():
    matrices, reference = covariance_matrices(), np.mean(covariance_matrices(), axis=0)
    whitening = gm.roots(reference)[1]
    direction = np.random.default_rng(2).normal(size=(12, 12))
    direction = direction + direction.T
    logarithms, h = gm.Logarithms.at(matrices, whitening), 1e-4

    def moved(t):  # whitened by exp(-tS/2) G^-1/2, which is the symmetric root up to a rotation
        w = spectral(direction, lambda s: np.exp(-t * s / 2)) @ whitening
        return np.mean([spectral(w @ c @ w.T, np.log) for c in matrices], axis=0)

    slope = (moved(h) - moved(-h)) / (2 * h)
    np.testing.assert_allclose(-logarithms.hessian(direction), slope, atol=2e-5)


def test_a_matrix_that_is_not_positive_definite_is_named():
    matrices = covariance_matrices()
    matrices[7] -= 10 * np.eye(12)
    with pytest.raises(DataError, match="7"):
        gm.Logarithms.at(matrices, np.eye(12))
    with pytest.raises(DataError):
        gm.geometric_mean(matrices)


def test_logarithms_at_the_mean_equal_those_computed_apart():
    matrices, others = covariance_matrices(100, 10), covariance_matrices(20, 10, seed=1)
    direct = gm.geometric_mean(matrices)
    whitening = gm.roots(direct)[1]
    expected, expected_others = (gm.Logarithms.at(m, whitening, keep_values=True).values for m in (matrices, others))
    far = gm.geometric_mean(np.concatenate([matrices, others]))
    for start in (None, direct, direct * (1 + 1e-5), far):
        mean, values, other_values = gm.logarithms_at_mean(matrices, others, start)
        assert np.abs(mean_logarithm(matrices, mean)).max() < 1e-10
        np.testing.assert_allclose(values, expected, atol=2e-9)
        np.testing.assert_allclose(other_values, expected_others, atol=2e-9)


def test_leaving_people_out_gives_the_mean_of_the_others():
    matrices = covariance_matrices(50, 8)
    whole = gm.Logarithms.at(matrices, gm.roots(matrices.mean(axis=0))[1])
    kept = gm.Logarithms.at(matrices[10:], gm.roots(matrices.mean(axis=0))[1])
    np.testing.assert_allclose(whole.without(np.arange(10)).mean, kept.mean, atol=1e-6)


def test_a_mean_that_does_not_converge_is_warned_of(monkeypatch):
    monkeypatch.setattr(gm, "MAX_STEPS", 1)
    with pytest.warns(ConvergenceWarning, match="converge"):
        gm.geometric_mean(covariance_matrices(spread=1.0))
