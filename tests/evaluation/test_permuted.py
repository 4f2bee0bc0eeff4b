"""With labels permuted within site no method may find anything.

The deep baselines are tested so with a few epochs in tests/baselines/test_deep_methods.py.
"""

import numpy as np
import pandas as pd

from brainroam import evaluate, make_cohort
from brainroam.baselines.registry import method_info, method_names

SETTINGS = {"core": "[budget=4,max_epochs=2,hidden=8]", "core-paper": "[budget=4,max_epochs=2,hidden=8]"}


def permuted_within_site(cohort, seed):
    rng = np.random.default_rng(seed)
    table = cohort.table
    labels = table["label"].to_numpy().copy()
    for name in cohort.sites:
        here = (table["site"] == name).to_numpy()
        labels[here] = rng.permutation(labels[here])
    return cohort.with_columns(table[["subject"]].assign(label=labels)[["label"]])


def test_no_method_is_away_from_chance():
    """Two permutations: the mean of their AUCs has a standard error of about 0.033, so 0.12 is beyond 3.6 of them."""
    cohort = make_cohort(n_sites=5, n_per_site=30, n_rois=12, seed=2)
    names = [name for name in method_names() if name in SETTINGS or not _deep(name)]
    methods = [name + SETTINGS.get(name, "") for name in names if not method_info(name).in_distribution_only]
    runs = [evaluate(permuted_within_site(cohort, seed), methods, budget="fast").scores for seed in (0, 1)]
    auc = pd.concat(runs).groupby("method")["auc"].mean()
    assert len(auc) == len(methods) >= 12
    assert (auc - 0.5).abs().max() < 0.12, auc


def _deep(name):
    return method_info(name).stochastic
