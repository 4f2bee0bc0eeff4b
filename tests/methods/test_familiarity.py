"""Whom a model has never seen the like of."""

import numpy as np
import pytest

import brainroam
from brainroam.data.cohort import Cohort
from brainroam.evaluation.adaptation import balanced_metrics
from brainroam.methods.familiarity import Familiarity
from brainroam.methods.registry import method_info
from brainroam.methods.tuning import Selected


@pytest.fixture(scope="module")
def cohort():
    return brainroam.make_cohort(n_sites=5, n_per_site=30, n_rois=12)


@pytest.fixture(scope="module")
def known(cohort):
    return Familiarity.of(cohort.select(cohort.sites[:4]))


def changed(cohort, **columns):
    person = cohort.select(["S05"]).subset([0])
    return person.with_columns(person.table.assign(**columns)[list(columns)])


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("age", 90.0, "age 90 is outside"),
        ("mean_fd", 4.0, "moved 4.00 mm"),
        ("tr", 0.01, "less than 99 % of training"),
    ],
)
def test_one_strange_thing_is_named_and_nothing_else(cohort, known, column, value, said):
    (reasons,) = known.flags(changed(cohort, **{column: value}))
    assert said in reasons and ";" not in reasons


def test_unknown_is_not_strange(cohort, known):
    assert known.flags(changed(cohort, age=np.nan, mean_fd=np.nan)) == [""]


def test_few_training_people_are_flagged_and_more_of_a_new_site(cohort, known):
    trained = known.flags(cohort.select(cohort.sites[:4]))
    assert np.mean([text != "" for text in trained]) < 0.1
    assert np.mean([text != "" for text in known.flags(cohort.select(["S05"]))]) < 0.4


def test_a_scan_swamped_by_an_artefact_is_far_from_everybody(cohort, known):
    person = cohort.select(["S05"]).subset([0])
    swamped = person.series[0] + 20 * np.random.default_rng(0).normal(size=(len(person.series[0]), 1))
    assert "edges farther" in known.flags(Cohort([swamped], person.table))[0]


def test_regions_without_signal_are_counted(cohort, known):
    person = cohort.select(["S05"]).subset([0])
    dead = person.series[0].copy()
    dead[:, :2] = 0
    assert "2 regions without signal" in known.flags(Cohort([dead], person.table))[0]


@pytest.fixture(scope="module")
def model(cohort):
    return Selected(method_info("fc-ridge"), "default").fit(cohort.select(cohort.sites[:4]))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda x, rng: x + 20 * rng.normal(size=(len(x), 1)), "edges farther"),
        (lambda x, rng: x + 4 * rng.normal(size=x.shape), "edges resemble"),
        (lambda x, rng: x[:, rng.permutation(x.shape[1])], "edges resemble"),
    ],
    ids=["one signal in all regions", "noise", "shuffled regions"],
)
def test_people_whose_scan_is_spoiled_are_flagged_and_predicted_worse(cohort, known, model, spoil, said):
    people, rng = cohort.select(["S05"]), np.random.default_rng(0)
    spoiled = Cohort([spoil(x, rng) for x in people.series], people.table)
    flagged, usual = (np.mean([said in text for text in known.flags(here)]) for here in (spoiled, people))
    assert flagged > 0.9 and usual < 0.3
    right = [balanced_metrics(here.labels, model.probability(here))["balanced_acc"] for here in (people, spoiled)]
    assert right[0] > 0.65 and right[1] < 0.6
