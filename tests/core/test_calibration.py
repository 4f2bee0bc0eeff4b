import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from brainroam.data.target.calibration import Calibration, calibrate
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


@pytest.mark.parametrize("prevalence", [None, 0.1])
def test_with_much_evidence_it_is_the_logistic_regression_of_the_prevalence(prevalence):
    score, y, site = scores(sizes=((1000, 3000),) * 20)
    found = calibrate(score, y, site, prevalence=prevalence)
    share = 0.75 if prevalence is None else prevalence
    weight = np.where(y == 1, share / 0.75, (1 - share) / 0.25)
    known = LogisticRegression(C=1e9, tol=1e-10).fit(score[:, None], y, weight)
    assert found.slope == pytest.approx(known.coef_[0, 0], rel=0.01)
    np.testing.assert_allclose(found(score), known.predict_proba(score[:, None])[:, 1], atol=0.003)


@pytest.mark.parametrize("prevalence", [0.1, 0.3, 0.5])
@pytest.mark.parametrize("n_sites", [6, 12])
def test_probabilities_hold_at_new_sites_and_are_never_worse_than_the_share_of_cases(n_sites, prevalence):
    """Sites of 30 people at levels of their own; new sites alike. Means over 60 worlds of each effect."""
    rng = np.random.default_rng([n_sites, round(100 * prevalence)])

    def people(n_sites, n_per_site, gap):
        site = np.repeat(np.arange(n_sites), n_per_site)
        y = (rng.random(len(site)) < prevalence).astype(int)
        return gap * y + 0.5 * rng.normal(size=n_sites)[site] + rng.normal(size=len(site)), y, site

    for gap in (0.0, 0.5, 1.5):
        means, worth = [], []
        for _ in range(60):
            found = calibrate(*people(n_sites, 30, gap))
            score, y, _ = people(4000, 1, gap)
            p = found(score)
            means.append(p.mean() - y.mean())
            worth.append(((p - y) ** 2).mean() - ((found.prevalence - y) ** 2).mean())
        assert abs(np.mean(means)) < 0.03
        assert np.mean(worth) < (1e-4 if gap == 0 else -1e-4)


def test_a_stated_prevalence_is_kept_whatever_the_training_share():
    rng = np.random.default_rng(0)
    y = rng.random(200_000) < 0.1
    for sizes in (((300, 300),) * 12, ((500, 100),) * 12):
        p = calibrate(*scores(sizes=sizes))(rng.normal(size=len(y)) + y, prevalence=0.1)
        assert p.mean() == pytest.approx(0.1, abs=0.01)
        assert ((p - y) ** 2).mean() < 0.09


def test_few_sites_that_disagree_leave_everybody_near_the_prevalence_in_order():
    score, y, site = scores(sizes=((10, 10),) * 3)
    found = calibrate(np.where(site == "S0", score, -score), y, site)
    p = found(np.array([-1.0, 0.0, 1.0]))
    assert (np.diff(p) > 0).all()
    assert p == pytest.approx(0.5, abs=0.01)


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
    assert calibrate(spoilt, y, site) == calibrate(score[known], y[known], site[known], prevalence=y.mean())
    two = site != "S2"
    assert calibrate(score, y, site).threshold == calibrate(score[two], y[two], site[two]).threshold


def test_the_decision_ignores_the_prevalence_and_far_scores_do_not_overflow():
    calibration = Calibration(threshold=2.0, slope=3.0, intercept=-1.0, prevalence=0.2)
    assert calibration.decide(np.array([1.9, 2.0])).tolist() == [0, 1]
    assert calibration(np.array([2.0]))[0] < 0.5
    far = calibration(np.array([-1e300, 1e300]))
    assert 0 < far[0] < 1e-20
    assert far[1] == pytest.approx(1)


def test_no_site_with_both_classes_is_named():
    with pytest.raises(DataError, match="classes"):
        calibrate(np.arange(4.0), np.array([0, 0, 1, 1]), np.array(["A", "A", "B", "B"]))
