import numpy as np
import pytest
from scipy.stats import t, ttest_1samp
from sklearn.datasets import make_moons
from sklearn.model_selection import RepeatedStratifiedKFold, cross_val_score
from sklearn.svm import SVC
from statsmodels.stats.multitest import multipletests

from brainroam.evaluation.stats.paired import holm, left_out_t, nadeau_bengio


def test_left_out_sites_get_a_t_that_allows_for_their_correlation():
    rng = np.random.default_rng(3)
    for k in (3, 6, 10):
        d = rng.normal(0.02, 0.05, k)
        rho = 1 / (k - 1)
        standard_error = np.sqrt(d.var(ddof=1) * (1 + (k - 1) * rho) / (k * (1 - rho)))
        result = left_out_t(d)
        assert result.p == pytest.approx(2 * t.sf(abs(d.mean()) / standard_error, k - 1))
        assert (result.low + result.high) / 2 == pytest.approx(d.mean())
        assert result.p > ttest_1samp(d, 0).pvalue  # independent sites would know more


def test_equal_weights_are_no_weights():
    d = np.random.default_rng(0).normal(0.02, 0.05, 9)
    assert left_out_t(d, np.full(9, 7.0)) == pytest.approx(left_out_t(d))


def test_weighted_sites_have_the_robust_variance_and_freedom_of_bell_and_mccaffrey():
    """By matrices: residuals e = H d, variance sum p^2 e^2 / (1 - p), freedom where variances go with 1 / p."""
    d, w = np.random.default_rng(1).normal(0.02, 0.05, 7), np.array([20.0, 20, 20, 12, 5, 2, 1])
    p, k = w / w.sum(), w.sum() ** 2 / (w @ w)
    residuals = np.eye(7) - np.outer(np.ones(7), p)
    form = residuals.T @ np.diag(p**2 / (1 - p)) @ residuals @ np.diag(1 / w)
    freedom = np.trace(form) ** 2 / np.trace(form @ form)
    error = np.sqrt((1 + k / (k - 2)) * (p**2 / (1 - p)) @ (residuals @ d) ** 2)
    result = left_out_t(d, w)
    assert result.mean == pytest.approx(p @ d)
    assert result.p == pytest.approx(2 * t.sf(abs(p @ d) / error, freedom))


@pytest.mark.parametrize("d", [[], [0.3], [0.3, 0.4]])
def test_fewer_than_three_sites_decide_nothing(d):
    result = left_out_t(np.array(d))
    assert np.isnan([result.low, result.high, result.p]).all()
    assert result.mean == pytest.approx(np.mean(d) if d else np.nan, nan_ok=True)


def test_a_difference_without_scatter_is_judged_by_its_sign_alone():
    result = left_out_t(np.full(10, 0.5))
    assert result.p == 2 / 2**10
    assert np.isnan(result.low)
    assert left_out_t(np.zeros(4)).p == 1


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


@pytest.mark.parametrize("test", [left_out_t, lambda d: nadeau_bengio(d, 1 / 4)])
def test_the_interval_excludes_zero_exactly_when_p_is_below_five_percent(test):
    rng = np.random.default_rng(0)
    decided = []
    for shift in np.linspace(0, 2, 41):
        result = test(rng.normal(shift, 1, 10))
        assert (result.low > 0 or result.high < 0) == (result.p < 0.05)
        decided.append(result.p < 0.05)
    assert 0 < sum(decided) < 41
