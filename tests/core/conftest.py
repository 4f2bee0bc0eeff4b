"""Fixtures of several tests of core."""

import numpy as np
import pytest


@pytest.fixture
def people():
    """Correlated series of five people on a raw scale, of different lengths."""
    rng = np.random.default_rng(0)
    mixing = rng.normal(size=(12, 12))
    return [rng.normal(size=(t, 12)) @ mixing * 100 + 7000 for t in (40, 60, 55, 80, 70)]
