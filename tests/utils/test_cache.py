"""`Cache` keeps its limit."""

import numpy as np

from brainroam.utils.cache import Cache


class Growing:
    def __init__(self):
        self.values = np.zeros(1)


def test_what_was_not_used_for_longest_goes_first():
    cache = Cache(limit=3 * 80)
    for k in range(3):
        cache.get(k, [], lambda: np.zeros(10))
    cache.get(0, [], lambda: 1 / 0)
    cache.get(3, [], lambda: np.zeros(10))
    assert [cache.get(k, [], lambda: None) is not None for k in (0, 2, 3)] == [True, True, True]
    assert cache.get(1, [], lambda: None) is None


def test_a_result_that_grows_while_it_is_used_counts_with_what_it_has_become():
    cache = Cache(limit=1000)
    first, second = (cache.get(k, [], Growing) for k in (0, 1))
    first.values, second.values = np.zeros(100), np.zeros(100)  # 800 bytes each: one too many
    assert cache.get(0, [], Growing) is first and cache.get(1, [], Growing) is second
    assert cache.get(0, [], Growing) is not first
