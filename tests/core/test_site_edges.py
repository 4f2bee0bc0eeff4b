"""Blocks of edges that are walked over again and again; the rest of site edges is tested with the ridges."""

import numpy as np
import pytest

from brainroam.core.site_edges import ResidualBlocks

COLUMNS = [slice(0, 3), slice(3, 6), slice(6, 7)]
VALUES = np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32)


@pytest.mark.parametrize("memory", [0, 60, 1e9], ids=["none", "one block", "all"])
def test_every_block_is_computed_once_and_comes_back_as_it_was(tmp_path, memory):
    computed = []

    def compute(columns):
        computed.append(columns.start)
        return VALUES[:, columns].copy()

    blocks = ResidualBlocks(COLUMNS, compute, memory, tmp_path)
    for _ in range(3):
        for columns, block in blocks:
            np.testing.assert_array_equal(block, VALUES[:, columns])
    assert computed == [0, 3, 6]


def test_a_walk_that_was_broken_off_does_not_confuse_the_next(tmp_path):
    blocks = ResidualBlocks(COLUMNS, lambda columns: VALUES[:, columns].copy(), 0, tmp_path)
    next(iter(blocks))
    np.testing.assert_array_equal(np.hstack([block for _, block in blocks]), VALUES)
    del blocks
    assert list(tmp_path.iterdir()) == []
