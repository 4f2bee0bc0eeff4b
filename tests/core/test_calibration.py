import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from brainroam.core.calibration import Calibration, calibrate
from brainroam.errors import DataError


def scores(seed=0, gap=1.0, sizes=((10, 30), (25, 5))):
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.repeat([0, 1], n) for n in sizes])
    site = np.repeat([f"S{k}" for k in range(len(sizes))], [sum(n) for n in sizes])
    return rng.normal(size=len(y)) + gap * y, y, site


def test_the_threshold_is_the_middle_of_the_class_means_averaged_over_sites():
    score, y, site = scores()
    middles = [np.mean([score[(site == s) & (y == c)].mean() for c in (0, 1)]) for s in ("S0", "S1")]
    assert calibrate(score, y, site).threshold == pytest.approx(np.mean(middles))


def test_the_slope_minimises_the_log_loss_with_two_virtual_people():
    score, y, site = scores()
    found = calibrate(score, y, site)
    spread = score.std()

    def loss(parameters):
        slope = np.exp(parameters[0])
        margin = np.append((2 * y - 1) * (score - found.threshold), [-spread, -spread])
        return np.logaddexp(0, -slope * margin).sum()

    best = minimize(loss, [0.0], method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-12})
    assert found.slope == pytest.approx(np.exp(best.x[0]), rel=1e-3)


@pytest.mark.parametrize("gap", [50.0, 0.0, -5.0])
def test_separable_useless_and_reversed_scores_give_a_finite_rising_curve(gap):
    found = calibrate(*scores(gap=gap))
    assert np.isfinite([found.threshold, found.slope]).all()
    assert found.slope > 0


@given(st.floats(0.1, 100), st.floats(-50, 50))
def test_scale_and_offset_of_the_scores_do_not_matter(scale, offset):
    score, y, site = scores()
    plain, moved = calibrate(score, y, site), calibrate(scale * score + offset, y, site)
    np.testing.assert_allclose(moved(scale * score + offset), plain(score), atol=1e-4)


def test_people_without_a_score_and_sites_with_one_class_are_left_out():
    score, y, site = scores(sizes=((10, 30), (25, 5), (6, 0)))
    spoilt = score.copy()
    spoilt[[0, 20]] = np.nan
    known = np.isfinite(spoilt)
    assert calibrate(spoilt, y, site) == calibrate(score[known], y[known], site[known])
    two = site != "S2"
    assert calibrate(score, y, site).threshold == calibrate(score[two], y[two], site[two]).threshold


def test_the_decision_is_at_one_half_and_far_scores_do_not_overflow():
    calibration = Calibration(threshold=2.0, slope=3.0)
    np.testing.assert_allclose(calibration(np.array([2.0])), 0.5)
    far = calibration(np.array([-1e300, 1e300]))
    assert 0 < far[0] < 1e-20
    assert far[1] == pytest.approx(1)


def test_no_site_with_both_classes_is_named():
    with pytest.raises(DataError, match="no held-out training site has both classes"):
        calibrate(np.arange(4.0), np.array([0, 0, 1, 1]), np.array(["A", "A", "B", "B"]))
