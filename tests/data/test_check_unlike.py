"""Sites that differ by kind: labels exchanged, signs turned, no global signal, 8 bits; honest ones are not named."""

import numpy as np
import pytest

from brainroam.data.check import check_cohort
from brainroam.data.cohort import Cohort
from brainroam.data.synthetic import make_cohort

CODES = {"exchanged-labels", "turned-signs", "global-signal", "eight-bits", "unlike-site"}


@pytest.fixture(scope="module")
def cohort():
    """Five sites with a signal that all regions share, as in every scan without regression on it."""
    made = make_cohort(n_sites=5, n_per_site=24, n_rois=20, seed=0)
    rng = np.random.default_rng(1)
    series = [x / x.std(axis=0) + 0.7 * rng.normal(size=(len(x), 1)) for x in made.series]
    return Cohort(series, made.table)


def found(cohort, change=lambda x: x, sites=(1,), labels=False):
    """The findings where the series, or labels, of these sites were changed."""
    series, table = cohort.series, cohort.table
    here = np.flatnonzero(table["site"].isin([cohort.sites[k] for k in sites]))
    for i in here:
        series[i] = change(series[i].copy())
    if labels:
        table.loc[here, "label"] = 1 - table.loc[here, "label"]
    findings = check_cohort(Cohort(series, table)).findings
    return [(finding.code, finding.site) for finding in findings if finding.code in CODES]


def without_global_signal(x):
    common = x.mean(axis=1) - x.mean()
    return x - x.mean(axis=0) - np.outer(common, common @ (x - x.mean(axis=0)) / (common @ common))


def in_eight_bits(x):
    return np.clip(np.round(60 * (x - x.mean(axis=0)) / x.std(axis=0)), -128, 127)


def with_turned_signs(x):
    return x * np.where(np.arange(x.shape[1]) % 3 == 0, -1, 1)


def test_sites_that_differ_by_degree_are_not_named(cohort):
    assert found(cohort) == found(cohort, lambda x: 3 * x + 5) == []


def test_labels_that_are_exchanged_at_one_site():
    made = make_cohort(n_sites=5, n_per_site=24, n_rois=20, seed=0)
    assert found(made) == [] and found(made, labels=True) == [("exchanged-labels", "S02")]


def test_the_global_signal_removed_at_one_site_or_left_at_one_only(cohort):
    assert ("global-signal", "S02") in found(cohort, without_global_signal)
    assert ("global-signal", "S01") in found(cohort, without_global_signal, sites=(1, 2, 3, 4))
    assert "global-signal" not in {code for code, _ in found(cohort, without_global_signal, sites=range(5))}


def test_series_in_eight_bits(cohort):
    assert found(cohort, in_eight_bits) == [("eight-bits", "S02")]


def test_regions_whose_signs_are_turned_at_one_site(cohort):
    assert ("turned-signs", "S02") in (named := found(cohort, with_turned_signs)) and {site for _, site in named} == {
        "S02"
    }
