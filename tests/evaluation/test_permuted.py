"""With labels permuted within site no method may find anything; permuted_study.py counts over many permutations.

The deep baselines are tested so with a few epochs in tests/methods/test_deep_methods.py.
"""

import pandas as pd
from permuted_study import intervals, rejections, site_scores

from brainroam import evaluate, make_cohort
from brainroam.audit.shortcuts import permuted_within_site
from brainroam.evaluation.stats.compare import summarise
from brainroam.methods.registry import method_info, method_names

SETTINGS = {"core": "[budget=4,updates=8,hidden=4]", "core-paper": "[budget=2,max_epochs=1,hidden=4]"}


def test_no_method_is_away_from_chance():
    """Two permutations: the mean of their AUCs has a standard error of about 0.045, so 0.15 is beyond 3.3 of them."""
    cohort = make_cohort(n_sites=5, n_per_site=30, n_rois=12, seed=2)
    names = [name for name in method_names() if name in SETTINGS or not method_info(name).stochastic]
    methods = [name + SETTINGS.get(name, "") for name in names if not method_info(name).in_distribution_only]
    tables = []
    for seed in (0, 1):
        results = evaluate(permuted_within_site(cohort, seed), methods, tuning="fast")
        tables.append(summarise(results.scores, results.predictions))
    rows = pd.concat(tables)
    auc = rows.groupby("method")["auc"].mean()
    assert len(auc) == len(methods) >= 12
    assert (auc - 0.5).abs().max() < 0.15, auc
    constant = rows["reason"].str.contains("exactly 0.5")
    said_alike = set(rows.loc[constant, "method"].str.partition("[")[0])
    assert said_alike <= {"majority", "core"}  # whose network has eight updates
    for name in ("auc", "next"):
        assert ((rows[f"{name}_low"] <= 0.5) & (rows[f"{name}_high"] >= 0.5))[~constant].all(), rows


def test_intervals_cover_chance_in_nearly_all_permutations():
    cohort = make_cohort(n_sites=5, n_per_site=30, n_rois=12, seed=4)
    found = [site_scores(permuted_within_site(cohort, seed), ["fc-ridge", "confounds"]) for seed in range(30)]
    covered = pd.DataFrame([row for item in found for row in intervals(item)])
    assert (covered.groupby("method")[["mean", "next site"]].mean() >= 0.95 - 3 * 0.04).all(axis=None)
    told_apart = pd.DataFrame([row for item in found for row in rejections(item)])
    assert told_apart["at 10 %"].mean() <= 0.1 + 3 * 0.055
