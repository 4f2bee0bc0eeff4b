"""Folders of runs to report on: a small real one, and a large one whose scores are drawn rather than learned."""

import warnings
from itertools import product

import pytest
from pretended import hostile_cohort, pretend

import brainroam


@pytest.fixture(scope="session")
def hostile_runs(tmp_path_factory):
    """Really run, on sites with hostile names."""
    path = tmp_path_factory.mktemp("hostile") / "runs"
    brainroam.evaluate(hostile_cohort(), ["fc-ridge", "confounds", "majority"], tuning="fast", out=path)
    return path


@pytest.fixture(scope="session")
def hostile_report(hostile_runs):
    return brainroam.write_report(hostile_runs, hostile_runs.parent / "report.html")


@pytest.fixture(scope="session")
def full_runs(tmp_path_factory):
    """Every kind of study: methods, seeds, ablation, both sweeps, in-distribution folds."""
    path = tmp_path_factory.mktemp("full") / "runs"
    cohort = brainroam.make_cohort(n_sites=6, n_per_site=16, n_rois=8, seed=2)
    windows = [f"core[profiles=true,stride={s},window={w}]" for w, s in product((20, 30, 40), (1, 5))]
    ablation = ["core-no-cd", "core-tp", "core-no-pg", "core-no-sg"]
    pretend(path, cohort, ["ensemble", "core", "fc-ridge", "confounds"], seeds=2)
    pretend(path, cohort, [*ablation, *windows, "core[budget=20]", "core[budget=40]", "core[budget=80]"])
    return pretend(path, cohort, ["core", "site-only"], protocol="cv", n_splits=3)


@pytest.fixture(scope="session")
def full_report(full_runs):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return brainroam.write_report(full_runs, full_runs.parent / "report.html", figures=full_runs.parent / "figures")
