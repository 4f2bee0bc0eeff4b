"""The law of a learning curve, where the truth is known."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr

from brainroam.evaluation.planning.law import fit_law

A, B, D = 1.5, 2.0, 0.4


def truth(n_people, n_sites, exponent=0.25):
    return ndtr(A - B * n_people**-exponent - D * n_sites**-exponent)


def measured(rng, k=12, people=40, spread=0.05, noise=0.03, exponent=0.25):
    """Draws of a study whose sites differ by ``spread`` and whose fits differ by ``noise``."""
    site_effect = rng.normal(scale=spread, size=k)
    rows = []
    for n, share in [(2, 1.0), (3, 1.0), (5, 1.0), (8, 1.0), (11, 1.0), (8, 0.5), (8, 0.25), (11, 0.5), (11, 0.25)]:
        for draw in range(24):
            total, left_out = n * people * share, (draw + np.arange(k - n)) % k
            value = truth(total, n, exponent) + site_effect[left_out] + rng.normal(scale=noise, size=k - n)
            rows += [(n, share, draw, total, f"S{e}", v) for e, v in zip(left_out, value, strict=True)]
    return pd.DataFrame(rows, columns=["n_sites", "share", "draw", "n_people", "site", "auc"])


def test_without_noise_the_law_is_found_again():
    law = fit_law(measured(np.random.default_rng(0), spread=0, noise=0), 12, n_boot=5)
    for n, people in [(24, 40), (12, 80), (6, 40)]:
        assert abs(law.expected(n, people) - truth(n * people, n)) < 1e-9
    more_sites, more_people = law.gain(24), law.gain(12, 80)
    assert more_sites[0] > more_people[0] > 0


@pytest.mark.parametrize("exponent", [0.1, 0.6])
def test_intervals_hold_what_they_promise_whatever_the_exponent(exponent):
    level = gain = 0
    for seed in range(20):
        law = fit_law(measured(np.random.default_rng(seed), exponent=exponent), 12, n_boot=40)
        low, high = law.interval(20)
        level += low <= truth(800, 20, exponent) <= high
        _, low, high = law.gain(20)
        gain += low <= truth(800, 20, exponent) - truth(480, 12, exponent) <= high
    assert level >= 17 and gain >= 17  # of 20, by 40 draws each


def test_at_the_present_number_of_people_more_sites_never_lower_the_curve():
    table = measured(np.random.default_rng(1), spread=0, noise=0)
    table["auc"] = 0.8 - 0.01 * table["n_sites"]
    law = fit_law(table, 12, n_boot=5)
    assert law.expected(24) >= law.expected(12)


def test_what_a_plan_promises_is_found_in_easy_and_in_hard_worlds():
    """Classes that are d apart in M dimensions: probit AUC = d^2 / sqrt(2 (d^2 + 4 M / N)), far from any power of N."""
    for dims, apart in [(100, 1.0), (200, 1.0), (100, 1.8), (30, 1.8)]:
        table = measured(np.random.default_rng(0), spread=0, noise=0)
        table["auc"] = ndtr(apart**2 / np.sqrt(2 * (apart**2 + 4 * dims / table["n_people"])))
        after, now = (ndtr(apart**2 / np.sqrt(2 * (apart**2 + 4 * dims / (40 * n)))) for n in (20, 12))
        gain, low, high = fit_law(table, 12, n_boot=100).gain(20)
        assert low <= after - now <= high and abs(gain - (after - now)) < 0.01
