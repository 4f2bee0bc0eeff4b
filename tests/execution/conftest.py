"""A store with every fallback there is, and parts so small that there are several of them."""

import numpy as np
import pytest

import brainroam
from brainroam.core import connectivity
from brainroam.data import stored_cohort
from brainroam.data.store import write_store


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Dead regions, empty covariates, a site of men, a scan shorter than a window, people to be left out."""
    made = brainroam.make_cohort(
        n_sites=4, n_per_site=16, n_rois=16, all_male_sites=1, constant_rois=6, missing_covariates=4, outliers=2
    )
    table, series = made.table, made.series
    table.loc[17, "label"] = np.nan
    series[30] = np.where(np.arange(16) < 9, 1.0, series[30])  # lacks too many regions
    series[40] = series[40][:25]  # shorter than a window
    return write_store(tmp_path_factory.mktemp("store") / "cohort.zarr", table, series, made.atlas)


@pytest.fixture
def small_parts(monkeypatch):
    """Several batches and several blocks, the last of each not full."""
    monkeypatch.setattr(stored_cohort, "PEOPLE", 9)
    monkeypatch.setattr(stored_cohort, "BATCH", 9)
    monkeypatch.setattr(connectivity, "BLOCK", 50)
