"""The level of a new site, where the truth is known."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from brainroam import make_cohort
from brainroam.data.cohort import Cohort
from brainroam.data.target.shifts import SiteShift, learn_shift
from brainroam.errors import UsageError
from brainroam.methods.predictions import predictions
from brainroam.methods.registry import method_info
from brainroam.methods.tuning import TunedMethod


def world(rng, n_sites, n=30, between=0.8):
    """Scores of sites whose levels differ; cases lie one within-site deviation above controls."""
    site = np.repeat(np.arange(n_sites), n)
    y = np.tile([0, 1], len(site) // 2)
    return between * rng.normal(size=n_sites)[site] + y + rng.normal(size=len(site)), y, site


def test_the_shift_is_the_best_guess_of_a_sites_level():
    rng = np.random.default_rng(0)
    score, y, site = world(rng, 400)
    shift = learn_shift(score, site, y == 0)
    assert abs(1 / shift.ratio - 1 / 0.8**2) < 0.25
    errors = {trust: [] for trust in (0.5, 1.0, 2.0)}
    for _ in range(3000):
        level = 0.8 * rng.normal()
        seen = level + rng.normal(size=5)
        for trust, found in errors.items():
            found.append((SiteShift(shift.centre, trust * shift.ratio)(seen) - level) ** 2)
    means = {trust: np.mean(found) for trust, found in errors.items()}
    assert means[1.0] <= min(means.values()) * 1.01
    assert abs(means[1.0] - 0.64 * (1 / 5) / (0.64 + 1 / 5)) < 0.01  # the posterior variance


def test_more_controls_bring_a_site_nearer_to_its_own_threshold():
    rng = np.random.default_rng(1)
    score, y, site = world(rng, 40)
    shift = learn_shift(score, site, y == 0)
    right = []
    for n in (0, 5, 40):
        hits = []
        for _ in range(400):
            level = 0.8 * rng.normal()
            moved = shift(level + rng.normal(size=n))
            cases, controls = level + 1 + rng.normal(size=40), level + rng.normal(size=40)
            hits.append(((cases - moved >= 0.5).mean() + (controls - moved < 0.5).mean()) / 2)
        right.append(np.mean(hits))
    assert right[0] + 0.02 < right[1] < right[2] and abs(right[2] - 0.691) < 0.012  # Phi(1 / 2) with the level known


def test_sites_that_do_not_differ_are_left_where_they_are():
    score, y, site = world(np.random.default_rng(2), 8, between=0.0)
    shift = learn_shift(score, site, y == 0)
    assert shift.ratio < 0.05 and abs(shift(np.full(5, 10.0))) < 2.2
    assert SiteShift(0.0, 0.5)(np.array([])) == 0


def test_two_sites_teach_nothing_and_people_without_a_score_do_not_count():
    score = np.array([0.0, 1, 5, 6, np.nan, np.nan])
    site = np.array(list("AABBCC"))
    assert learn_shift(score, site, np.ones(6, dtype=bool)) == SiteShift(3.0, 0.0)


# --- sites unlike those of the training -------------------------------------------------------------------------------


def test_one_site_in_a_hundred_like_the_training_ones_is_called_far():
    rng = np.random.default_rng(0)
    site, far = np.repeat(np.arange(8), 25), []
    for _ in range(2000):
        level = 0.5 * rng.normal(size=9)
        score = level[site] + rng.normal(size=len(site))
        levels = learn_shift(score, site, np.ones(len(site), dtype=bool))
        far.append(levels.is_far(level[8] + rng.normal(size=25)))
    assert 0.002 < np.mean(far) < 0.025
    assert levels.is_far(np.full(25, 6.0))
    two = site < 2
    assert not learn_shift(score[two], site[two], np.ones(two.sum(), dtype=bool)).is_far(np.full(25, 60.0))


@pytest.fixture(scope="module")
def model_and_new_site():
    cohort = make_cohort(n_sites=6, n_per_site=20, n_rois=10, seed=0)
    return TunedMethod(method_info("fc-ridge"), "default").fit(cohort.select(cohort.sites[:5])), cohort.select(["S06"])


@pytest.mark.parametrize("level", [-100.0, 100.0])
def test_a_site_where_nearly_all_or_none_are_called_cases_is_warned_of(model_and_new_site, level, monkeypatch):
    method, new = model_and_new_site
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain = predictions(method, new)
    monkeypatch.setattr(method.readout_, "calibration", replace(method.calibration_, threshold=level))
    with pytest.warns(UserWarning, match=r"S06.*--controls.*--adapt unlabelled"):
        one_sided = predictions(method, new)
    assert one_sided["predicted"].nunique() == 1 and plain["predicted"].nunique() == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        predictions(method, new.subset(np.arange(9)))  # too few to tell


def test_a_site_whose_scores_lie_far_from_others_is_warned_of(model_and_new_site, monkeypatch):
    method, new = model_and_new_site
    monkeypatch.setattr(method, "score", lambda cohort: np.linspace(40, 50, len(cohort)))
    with pytest.warns(UserWarning, match="far"):
        predictions(method, new)


def test_a_stated_prevalence_moves_probabilities_alone(model_and_new_site):
    method, new = model_and_new_site
    as_trained, rare = predictions(method, new), predictions(method, new, prevalence=0.05)
    assert rare["predicted"].equals(as_trained["predicted"]) and rare["set_80"].equals(as_trained["set_80"])
    odds = {name: np.log(p / (1 - p)) for name, p in (("old", as_trained["probability"]), ("new", rare["probability"]))}
    share = method.calibration_.prevalence
    expected = np.log(0.05 / 0.95) - np.log(share / (1 - share))
    np.testing.assert_allclose(odds["new"] - odds["old"], expected)
    assert (rare["prevalence"] == 0.05).all() and (as_trained["prevalence"] == share).all()
    with pytest.warns(UserWarning, match="unlabelled"):
        predictions(method, new, adapt="unlabelled", prevalence=0.05)
    for wrong in (0.0, 1.0, 10.0, float("nan")):
        with pytest.raises(UsageError, match="prevalence"):
            predictions(method, new, prevalence=wrong)


@pytest.mark.parametrize("of_site", ["controls", "unlabelled"])
def test_somebody_scanned_twice_moves_a_threshold_once(of_site):
    cohort = make_cohort(n_sites=5, n_per_site=12, n_rois=10, seed=1)
    method = TunedMethod(method_info("fc-ridge")).fit(cohort.select(cohort.sites[:4]))
    new = cohort.select(["S05"])
    again = new.table.assign(person=new.table["subject"], subject=new.table["subject"] + "-2")
    table = pd.concat([new.table.assign(person=new.table["subject"]), again], ignore_index=True)
    twice = Cohort([*new.series, *new.series], table)
    known = new.table["subject"][new.labels == 0].tolist()[:4]
    how = {"adapt": "unlabelled"} if of_site == "unlabelled" else {"controls": known}
    of_both = {"adapt": "unlabelled"} if of_site == "unlabelled" else {"controls": [*known, *(f"{s}-2" for s in known)]}
    once, found = predictions(method, new, **how), predictions(method, twice, **of_both)
    assert found["protocol"].unique().tolist() == once["protocol"].unique().tolist()
    both = once.merge(found, on="subject")
    assert len(both) == len(once) and np.allclose(both["probability_x"], both["probability_y"], rtol=1e-9)
