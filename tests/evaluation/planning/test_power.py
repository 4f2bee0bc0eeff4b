"""What it takes to tell two methods apart."""

import numpy as np
import pandas as pd
import pytest

from brainroam.data.target import Classes, Number
from brainroam.data.target.orders import delong_variance
from brainroam.errors import DataError
from brainroam.evaluation.planning.power import Contrast, contrast
from brainroam.evaluation.stats.metrics import auc
from brainroam.evaluation.stats.paired import left_out_t


def scores(rng, label, shift):
    shared = rng.normal(size=len(label)) + shift * label
    return shared + 0.7 * rng.normal(size=len(label)), shared + 0.7 * rng.normal(size=len(label))


def test_delong_variance_is_that_of_repeated_samples():
    rng = np.random.default_rng(0)
    label = np.repeat([1, 0], [30, 40])
    samples = [scores(rng, label, 1.0) for _ in range(600)]
    gaps = [auc(label, a) - auc(label, b) for a, b in samples]
    expected = np.mean([delong_variance(label, a, b) for a, b in samples])
    assert abs(expected / np.var(gaps) - 1) < 0.15


def test_power_is_that_of_repeated_studies():
    known = Contrast("a", "b", 10, 0.0, tau2=0.02**2, c=0.02)
    people, k, difference = 40, 10, 0.05
    rng, found = np.random.default_rng(0), 0
    sigma = np.sqrt(known.tau2 + 4 * known.c / people)
    for _ in range(2000):  # sites correlate by 1 / (k - 1), as left-out sites do
        shared = rng.normal(scale=np.sqrt(sigma**2 / (k - 1)))
        gaps = difference + shared + rng.normal(scale=np.sqrt(sigma**2 * (1 - 1 / (k - 1))), size=k)
        found += left_out_t(gaps).p < 0.05
    assert abs(found / 2000 - known.power(k, people, difference)) < 0.03


@pytest.mark.parametrize("n_cases", [3, 30])
def test_sites_as_they_are_count_with_their_share_of_cases(n_cases):
    rng, label = np.random.default_rng(2), np.repeat([1, 0], [n_cases, 60 - n_cases])
    samples = [scores(rng, label, 1.0) for _ in range(400)]
    frame = pd.DataFrame({"subject": np.tile(np.arange(60), 2), "method": np.repeat(["a", "b"], 60), "seed": 0})
    rows = [
        frame.assign(site=f"S{k}", label=np.tile(label, 2), score=np.concatenate(pair))
        for k, pair in enumerate(samples)
    ]
    found = contrast(pd.concat(rows), ["a", "b"])
    sampling = np.var([auc(label, a) - auc(label, b) for a, b in samples])
    assert abs(found.c / found.order.h(60) / sampling - 1) < 0.25
    assert found.order.groups == {3: ", 5% of them cases", 30: ", half of them cases"}[n_cases]


def test_what_is_needed_is_just_enough():
    known = Contrast("a", "b", 12, 0.0, tau2=0.005**2, c=0.02)
    people = known.people_needed(0.03)
    assert known.power(12, people, 0.03) >= 0.8 > known.power(12, people - 1, 0.03)
    sites = known.sites_needed(0.03, 40)
    assert known.power(sites, 40, 0.03) >= 0.8 > known.power(sites - 1, 40, 0.03)


def test_a_difference_of_many_standard_errors_is_always_found():
    known = Contrast("a", "b", 21, 0.0, tau2=0.0, c=1e-6)
    assert known.power(21, 49, 0.02) == 1.0 and known.people_needed(0.02) == 4


def test_sites_that_differ_too_much_cannot_be_made_up_for_by_people():
    assert Contrast("a", "b", 6, 0.0, tau2=0.05**2, c=0.02).people_needed(0.02) is None


def test_four_sites_are_refused():
    rng, rows = np.random.default_rng(0), []
    for site in "ABCD":
        label = np.tile([0, 1], 10)
        for method, score in zip("xy", scores(rng, label, 1.0), strict=True):
            rows += [(method, site, 0, f"{site}{i}", label[i], score[i]) for i in range(20)]
    table = pd.DataFrame(rows, columns=["method", "site", "seed", "subject", "label", "score"])
    with pytest.raises(DataError, match="4 sites"):
        contrast(table, ["x", "y"])


@pytest.mark.parametrize("target", [Number("x"), Classes("dx", ("a", "b", "c"))])
def test_the_variance_of_a_difference_is_that_of_repeated_samples(target):
    rng, order = np.random.default_rng(0), target.order
    label = np.repeat([0, 1, 2], [14, 20, 26]) if target.is_classes else None
    gaps, variances = [], []
    for _ in range(600):
        t = rng.normal(size=60) if label is None else label
        signal = 0.8 * t if label is None else 0.8 * np.eye(3)[label]
        shared = signal + rng.normal(size=signal.shape)
        found = order.gap(t, *(shared + 0.7 * rng.normal(size=signal.shape) for _ in range(2)))
        gaps.append(found.difference)
        variances.append(found.variance)
    assert abs(np.mean(variances) / np.var(gaps) - 1) < 0.15
