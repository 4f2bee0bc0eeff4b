"""The product by cliques against the matrix of the line graph."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from brainroam.core.connectivity import edge_pairs
from brainroam.core.linegraph import line_graph
from brainroam.core.propagation import RoiCliques


def random_graph(n_rois, size, seed):
    rng = np.random.default_rng(seed)
    pairs = rng.permutation(edge_pairs(n_rois))[:size]
    return line_graph(pairs, rng.normal(size=len(pairs)))


@settings(deadline=None)
@given(n_rois=st.integers(2, 25), size=st.integers(1, 300), seed=st.integers(0, 99))
def test_the_product_is_that_of_the_matrix(n_rois, size, seed):
    graph = random_graph(n_rois, size, seed)
    x = np.random.default_rng(seed).normal(size=(len(graph), 3))
    found = RoiCliques.of(graph, dtype=torch.float64) @ torch.tensor(x)
    np.testing.assert_allclose(found, graph.propagation @ x, atol=1e-13)


@pytest.mark.parametrize("size", [800, 3000])
def test_single_precision_is_close_at_the_sizes_in_use(size):
    graph = random_graph(116, size, 0)
    x = np.random.default_rng(1).normal(size=(size, 5)).astype(np.float32)
    np.testing.assert_allclose(RoiCliques.of(graph) @ torch.tensor(x), graph.propagation @ x, atol=1e-5)


def test_a_hub_does_not_fill_up_the_blocks_of_the_others():
    star = np.array([[0, k] for k in range(1, 200)])
    cliques = RoiCliques.of(line_graph(star, np.ones(len(star))))
    assert sum(block.numel() for block in cliques.blocks) == 199**2 + 199


def test_blocks_hold_little_more_than_the_matrix():
    graph = random_graph(116, 3000, 0)
    assert sum(block.numel() for block in RoiCliques.of(graph).blocks) < 1.6 * graph.propagation.nnz
