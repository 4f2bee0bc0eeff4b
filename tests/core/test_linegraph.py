"""The line graph against networkx and a literal double loop."""

import networkx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brainroam.core.connectivity import edge_pairs
from brainroam.core.linegraph import EPS, line_graph


def random_scaffold(n_rois=15, share=0.4, seed=0):
    rng = np.random.default_rng(seed)
    pairs = edge_pairs(n_rois)
    pairs = pairs[rng.random(len(pairs)) < share]
    return pairs, rng.normal(size=len(pairs))


def by_loop(pairs, consensus):
    """mu0, A and A~ as the equations write them, dense."""
    a = np.abs(consensus)
    prior = (a - a.mean()) / (a.std() + EPS)
    n = len(pairs)
    adjacency = np.zeros((n, n))
    for p in range(n):
        for q in range(n):
            if p != q and set(pairs[p]) & set(pairs[q]):
                adjacency[p, q] = np.exp(-abs(prior[p] - prior[q]) / (prior.max() - prior.min() + EPS))
    looped = adjacency + np.eye(n)
    root = np.diag(looped.sum(axis=1) ** -0.5)
    return prior, adjacency, root @ looped @ root


@given(st.integers(0, 2**32 - 1), st.integers(3, 12), st.floats(0.1, 1))
def test_topology_equals_networkx(seed, n_rois, share):
    pairs, consensus = random_scaffold(n_rois, share, seed)
    if len(pairs) == 0:
        return
    graph = line_graph(pairs, consensus)
    reference = networkx.line_graph(networkx.Graph([tuple(pair) for pair in pairs.tolist()]))
    place = {tuple(pair): k for k, pair in enumerate(pairs.tolist())}
    expected = {frozenset((place[tuple(sorted(p))], place[tuple(sorted(q))])) for p, q in reference.edges}
    p, q = graph.propagation.nonzero()
    assert {frozenset((int(a), int(b))) for a, b in zip(p, q, strict=True) if a != b} == expected
    assert (graph.propagation.diagonal() > 0).all()
    assert graph.propagation.nnz == 2 * len(expected) + len(pairs)


def test_weights_equal_a_literal_double_loop():
    pairs, consensus = random_scaffold()
    graph = line_graph(pairs, consensus)
    prior, _, propagation = by_loop(pairs, consensus)
    np.testing.assert_allclose(graph.prior, prior, atol=1e-12)
    np.testing.assert_allclose(graph.propagation.toarray(), propagation, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_propagation_is_symmetric_with_eigenvalues_up_to_one(seed):
    pairs, consensus = random_scaffold(share=0.2, seed=seed)
    dense = line_graph(pairs, consensus).propagation.toarray()
    np.testing.assert_allclose(dense, dense.T, atol=1e-15)
    values = np.linalg.eigvalsh(dense)
    assert values.min() > -1
    assert values.max() == pytest.approx(1, abs=1e-12)
    # The eigenvector of 1 is the root of the degrees, the same in every connected component.
    _, adjacency, _ = by_loop(pairs, consensus)
    root = np.sqrt(1 + adjacency.sum(axis=1))
    np.testing.assert_allclose(dense @ root, root, atol=1e-12)


def test_the_sign_of_the_contrast_does_not_matter():
    pairs, consensus = random_scaffold()
    one, other = line_graph(pairs, consensus), line_graph(pairs, -consensus)
    np.testing.assert_array_equal(one.propagation.toarray(), other.propagation.toarray())


@pytest.mark.parametrize(
    ("pairs", "consensus"),
    [
        ([[0, 1]], [0.3]),
        ([[0, 1], [2, 3]], [0.3, -0.1]),
        ([[0, 1], [1, 2], [0, 2]], [0.2, 0.2, 0.2]),
    ],
)
def test_degenerate_scaffolds_are_those_of_the_equations(pairs, consensus):
    graph = line_graph(np.array(pairs), np.array(consensus))
    prior, _, propagation = by_loop(np.array(pairs), np.array(consensus))
    np.testing.assert_allclose(graph.prior, prior, atol=1e-12)
    np.testing.assert_allclose(graph.propagation.toarray(), propagation, atol=1e-12)
    assert len(graph) == len(pairs)


def test_storage_grows_with_the_neighbours_not_with_the_square():
    pairs, consensus = random_scaffold(n_rois=100, share=0.05)
    degree = np.bincount(pairs.ravel())
    assert line_graph(pairs, consensus).propagation.nnz == (degree * (degree - 1)).sum() + len(pairs)
