"""What the edges of matrices are: correlations, Fisher's z, or values in units of their own, by their numbers alone."""

import numpy as np
import pandas as pd
import pytest

from brainroam.data.check import check_cohort
from brainroam.data.cohort import Cohort

N, P = 48, 30
TABLE = pd.DataFrame(
    {"subject": [f"p{k}" for k in range(N)], "site": np.repeat(list("ABCD"), 12), "label": np.tile([0.0, 1.0], N // 2)}
)
RNG = np.random.default_rng(0)
SHARED = RNG.normal(size=(2, P))
SCANS = [
    RNG.normal(size=(30, 2)) @ (SHARED + 0.3 * RNG.normal(size=(2, P))) + 2.7 * RNG.normal(size=(30, P))
    for _ in range(N)
]
BESIDE = ~np.eye(P, dtype=bool)
R = [np.corrcoef(x.T) for x in SCANS]
Z = [np.arctanh(r * BESIDE) for r in R]
DISTANCE = np.abs(np.subtract.outer(np.arange(P), np.arange(P)))
COUNTS = [np.triu(RNG.poisson(np.exp(8 - 0.3 * DISTANCE + RNG.normal(size=(P, P)))), 1) for _ in range(N)]
COUNTS = [x + x.T for x in COUNTS]
STANDARDISED = [(x + x.T) / 2 for x in RNG.normal(size=(N, P, P))]


def cohort(made):
    return Cohort(made, TABLE, measure="matrices")


def with_diagonal(made, value):
    return [np.where(BESIDE, x, value) for x in made]


def found(made):
    return {finding.code: finding for finding in check_cohort(cohort(made)).findings}


def test_the_study_is_the_hard_case():
    assert max(np.abs(z).max() for z in Z) < 1


@pytest.mark.parametrize("diagonal", [0.0, 1.0, np.inf, 18.4])
def test_fisher_z_below_1_become_correlations(diagonal):
    made = cohort(with_diagonal(Z, diagonal))
    assert made.prepared == ("Fisher's z were turned back into correlations",)
    np.testing.assert_allclose(made.series[0], R[0], atol=1e-12)
    assert cohort(made.series).prepared == ()  # once


def test_an_infinite_diagonal_tells_fisher_z_where_eigenvalues_do_not():
    weak = [0.3 * z for z in Z]
    assert cohort(with_diagonal(weak, 0.0)).prepared == () and cohort(with_diagonal(weak, np.inf)).prepared != ()


@pytest.mark.parametrize(
    "made",
    [
        R,
        [np.round(r, 2) for r in R],
        with_diagonal(R, 0.0),
        [np.maximum(r, 0) for r in R],
        [np.abs(r) for r in R],
        [np.where(r > 0.2, r, 0) for r in R],
    ],
    ids=["r", "two decimals", "no diagonal", "positive", "absolute", "thresholded"],
)
def test_correlations_stay_as_they_are(made):
    kept = cohort(made)
    assert kept.prepared == () and not kept.own_units
    np.testing.assert_allclose(kept.series[5], made[5], atol=1e-12)


@pytest.mark.parametrize(
    "change",
    [lambda x: x, np.log1p, lambda x: np.log10(x + 1), lambda x: x / x.max(), lambda x: x / x.sum()],
    ids=["counts", "logarithms", "decimal logarithms", "of the largest", "of all"],
)
def test_stream_counts_are_no_fisher_z(change):
    made = [change(x.astype(float)) for x in COUNTS]
    kept = cohort(made)
    np.testing.assert_array_equal(kept.series[5][BESIDE], made[5][BESIDE])
    assert kept.prepared == () and kept.own_units


def test_edges_that_were_standardised_over_people_are_no_fisher_z():
    kept = cohort(STANDARDISED)
    assert kept.prepared == () and kept.own_units


def test_fisher_z_below_1_at_some_sites_are_named_with_them():
    at = TABLE["site"].isin(["B", "D"])
    for z_sites, r_sites in ((at, ("A, C", "B, D")), (~at, ("B, D", "A, C"))):
        finding = found([z if here else r for z, r, here in zip(Z, R, z_sites, strict=True)])["mixed-edges"]
        assert finding.severity == "warning"  # few regions may tell it at some sites only
        assert f"z at {r_sites[1]} (by their eigenvalues) and correlations at {r_sites[0]}" in finding.message


def test_fisher_z_of_a_third_of_the_people_are_told_of():
    finding = found([z if k % 3 == 0 else r for k, (z, r) in enumerate(zip(Z, R, strict=True))])["fisher-z"]
    assert finding.severity == "warning" and "tanh" in finding.remedy


def test_what_was_done_to_one_block_is_not_said_of_another():
    turned = cohort(Z).with_block("task", cohort(R), "rest")
    assert turned.prepared == ("rest: Fisher's z were turned back into correlations",)
    assert turned.block("rest").prepared == cohort(Z).prepared and turned.block("task").prepared == ()
    both = cohort(R).with_block("task", cohort(Z), "rest")
    assert both.block("rest").prepared == () and both.block("task").prepared == cohort(Z).prepared
    assert "mixed-edges" not in {finding.code for finding in check_cohort(both).findings}


def test_covariances_and_stream_counts_are_told_apart():
    assert "correlations" in found([np.cov(x.T) for x in SCANS])["covariances"].remedy
    counts = found(COUNTS)
    assert "own-units" in counts and "zero-diagonal" not in counts and "covariances" not in counts
    assert {"own-units", "covariances"}.isdisjoint(found(R))
