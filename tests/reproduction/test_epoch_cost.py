"""What an epoch costs is measured of the process that trains, not of the one that asks."""

import numpy as np
from reproduction.cost import costs

from brainroam import make_cohort


def test_memory_is_that_of_the_training_whatever_the_caller_holds():
    held = np.ones(150_000_000)  # 1.2 GB, more than the training needs
    cohort = make_cohort(n_sites=3, n_per_site=10, n_rois=12)
    (cost,) = costs(cohort, ["mean-mlp"])
    assert held[0] == 1
    assert cost.parameters > 0
    assert 1 < cost.megabytes < 1000
