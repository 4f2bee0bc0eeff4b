import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm, t
from sklearn.datasets import make_moons
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import RepeatedStratifiedKFold, cross_val_score
from sklearn.svm import SVC
from statsmodels.stats.multitest import multipletests

from brainroam.evaluation.stats.paired import (
    holm,
    kernel,
    left_out_test,
    nadeau_bengio,
    resampled_aucs,
    sign_flip_test,
    smallest_p,
    two_level_bootstrap,
)

differences = st.lists(st.integers(-20, 20).map(lambda x: x / 100), min_size=1, max_size=9)


@given(differences)
def test_sign_flip_is_brute_force_enumeration(d):
    observed = abs(sum(d))
    patterns = list(itertools.product([1, -1], repeat=len(d)))
    reached = sum(abs(sum(s * x for s, x in zip(p, d, strict=True))) >= observed - 1e-9 for p in patterns)
    assert sign_flip_test(np.array(d)) == reached / len(patterns)


@given(differences)
def test_sign_flip_does_not_care_who_is_called_first_or_about_the_scale(d):
    d = np.array(d)
    assert sign_flip_test(-d) == sign_flip_test(d) == sign_flip_test(d * 1e-3)
    assert sign_flip_test(d) >= smallest_p(len(d)) - 1e-12


def test_left_out_sites_get_the_larger_p_of_sign_flips_and_a_corrected_t():
    rng = np.random.default_rng(3)
    for k in (3, 6, 10):
        d = rng.normal(0.02, 0.05, k)
        rho = 1 / (k - 1)
        standard_error = np.sqrt(d.var(ddof=1) * (1 + (k - 1) * rho) / (k * (1 - rho)))
        by_t = 2 * t.sf(abs(d.mean()) / standard_error, k - 1)
        assert left_out_test(d) == pytest.approx(max(by_t, sign_flip_test(d)))
    assert left_out_test(np.full(10, 0.01)) == smallest_p(10)
    assert left_out_test(np.zeros(4)) == left_out_test(np.array([0.3, 0.4])) == 1
    assert np.isnan(left_out_test(np.array([])))


def test_ten_wins_reach_the_smallest_p_and_no_difference_is_one():
    assert sign_flip_test(np.linspace(0.01, 0.1, 10)) == smallest_p(10) == pytest.approx(0.00195, abs=5e-6)
    assert sign_flip_test(np.zeros(5)) == 1
    assert np.isnan(sign_flip_test(np.array([])))


def test_many_sites_are_drawn_reproducibly_and_agree_with_the_normal_limit():
    d = np.random.default_rng(3).normal(0.3, 1, 60)
    p = sign_flip_test(d, random_state=1)
    assert p == sign_flip_test(d, random_state=1) != sign_flip_test(d, random_state=2)
    assert p == pytest.approx(2 * norm.sf(abs(d.sum()) / np.sqrt((d**2).sum())), abs=0.02)
    assert sign_flip_test(np.ones(40)) == smallest_p(40) > 0


def test_drawn_and_enumerated_signs_agree_where_both_are_possible(monkeypatch):
    d = np.random.default_rng(0).normal(0.4, 1, 12)
    exact = sign_flip_test(d)
    monkeypatch.setattr("brainroam.evaluation.stats.paired.EXACT_UP_TO", 11)
    assert sign_flip_test(d) == pytest.approx(exact, abs=0.01)
    assert sign_flip_test(d) != exact


@pytest.mark.parametrize("n", [1, 2, 7, 30])
def test_holm_is_that_of_statsmodels(n):
    p = np.random.default_rng(n).beta(0.3, 3, n).round(2)  # small, with ties
    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1])


def test_holm_skips_comparisons_that_were_not_made():
    assert holm(np.array([0.02, np.nan, 0.03])) == pytest.approx([0.04, np.nan, 0.04], nan_ok=True)


def test_nadeau_bengio_reproduces_the_scikit_learn_example():
    """'Statistical comparison of models using grid search': rbf against linear, corrected t 0.750, one-sided p 0.227;
    uncorrected t 2.611."""
    X, y = make_moons(noise=0.352, random_state=1, n_samples=100)
    cv = RepeatedStratifiedKFold(n_splits=10, n_repeats=10, random_state=0)
    rbf, linear = (
        cross_val_score(SVC(kernel=name, random_state=0), X, y, scoring="roc_auc", cv=cv) for name in ("rbf", "linear")
    )
    result = nadeau_bengio(rbf - linear, test_over_train=10 / 90)
    assert result.t == pytest.approx(0.750, abs=5e-4)
    assert result.p / 2 == pytest.approx(0.227, abs=5e-4)
    assert nadeau_bengio(rbf - linear, test_over_train=0).t == pytest.approx(2.611, abs=5e-4)


def test_nadeau_bengio_interval_excludes_zero_exactly_when_p_is_below_five_percent():
    rng = np.random.default_rng(0)
    for shift in np.linspace(0, 2, 41):
        result = nadeau_bengio(rng.normal(shift, 1, 10), 1 / 4)
        assert (result.low > 0 or result.high < 0) == (result.p < 0.05)


@pytest.mark.parametrize(("values", "p"), [([0.0, 0, 0], 1), ([0.1, 0.1, 0.1], 0), ([0.1], np.nan)])
def test_nadeau_bengio_without_spread(values, p):
    assert nadeau_bengio(np.array(values), 0.25).p == pytest.approx(p, nan_ok=True)


def test_kernel_averages_to_the_mean_auc_over_seeds():
    rng = np.random.default_rng(0)
    label, scores = rng.integers(2, size=40), rng.integers(0, 6, size=(3, 40))
    expected = np.mean([roc_auc_score(label, s) for s in scores])
    assert kernel(label, scores).mean() == pytest.approx(expected)


def test_resampled_aucs_are_those_of_explicit_resamples():
    """Rebuild each resample from the same multinomial counts, person by person, and ask scikit-learn."""
    rng = np.random.default_rng(0)
    label = np.repeat([1, 0], [9, 7])
    scores = rng.integers(0, 8, size=(2, 16)).astype(float)
    kernels = np.stack([kernel(label, s) for s in scores])
    ours = resampled_aucs(kernels, 50, np.random.default_rng(5))
    again = np.random.default_rng(5)
    cases, controls = again.multinomial(9, np.full(9, 1 / 9), 50), again.multinomial(7, np.full(7, 1 / 7), 50)
    for drawn, w, u in zip(ours, cases, controls, strict=True):
        who = np.concatenate([np.repeat(np.flatnonzero(label == 1), w), np.repeat(np.flatnonzero(label == 0), u)])
        assert drawn == pytest.approx([roc_auc_score(label[who], s[who]) for s in scores])


def test_bootstrap_draws_sites_then_people():
    """Variance of the mean over 2 levels: that between drawn sites plus that of people within them, over E."""
    rng = np.random.default_rng(1)
    label = np.repeat([1, 0], 12)
    kernels = [kernel(label, rng.normal(label * d))[None] for d in (0, 0.5, 1, 2, 3)]
    means = two_level_bootstrap(kernels, 20_000, random_state=0)[:, :, 0].mean(axis=1)
    auc = np.array([k.mean() for k in kernels])
    within = np.mean([resampled_aucs(k, 20_000, rng).var() for k in kernels])
    assert means.mean() == pytest.approx(auc.mean(), abs=0.003)
    assert means.var() == pytest.approx((auc.var() + within) / 5, rel=0.05)


def test_bootstrap_is_paired_and_reproducible():
    rng = np.random.default_rng(2)
    label = np.repeat([1, 0], 10)
    one = [kernel(label, rng.normal(label)) for _ in range(4)]
    twins = two_level_bootstrap([np.stack([k, k]) for k in one], 100, random_state=7)
    assert np.array_equal(twins[:, :, 0], twins[:, :, 1])
    assert np.array_equal(twins, two_level_bootstrap([np.stack([k, k]) for k in one], 100, random_state=7))
    assert not np.array_equal(twins, two_level_bootstrap([np.stack([k, k]) for k in one], 100, random_state=8))
