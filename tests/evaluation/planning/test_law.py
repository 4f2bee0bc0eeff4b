"""The law of a learning curve, where the truth is known."""

import numpy as np
import pandas as pd
from scipy.stats import norm

from brainroam.evaluation.planning.law import fit_law

A, B, C = 1.5, 150.0, 2.0


def truth(n_people, n_sites):
    return norm.cdf((A + B / n_people + C / n_sites) ** -0.5)


def measured(rng, k=12, people=40, spread=0.05, noise=0.03):
    """Draws of a study whose sites differ by ``spread`` and whose fits differ by ``noise``."""
    site_effect = rng.normal(scale=spread, size=k)
    rows = []
    for n, share in [(2, 1.0), (3, 1.0), (5, 1.0), (8, 1.0), (11, 1.0), (8, 0.5), (8, 0.25), (11, 0.5), (11, 0.25)]:
        for draw in range(24):
            total, left_out = n * people * share, (draw + np.arange(k - n)) % k
            value = truth(total, n) + site_effect[left_out] + rng.normal(scale=noise, size=k - n)
            rows += [(n, share, draw, total, f"S{e}", v) for e, v in zip(left_out, value, strict=True)]
    return pd.DataFrame(rows, columns=["n_sites", "share", "draw", "n_people", "site", "auc"])


def test_without_noise_the_law_is_found_again():
    law = fit_law(measured(np.random.default_rng(0), spread=0, noise=0), 12, n_boot=5)
    for n, people in [(24, 40), (12, 80), (6, 40)]:
        assert abs(law.auc(n, people) - truth(n * people, n)) < 1e-4
    assert abs(law.ceiling - norm.cdf(A**-0.5)) < 1e-3
    more_sites, more_people = law.gain(24), law.gain(12, 80)
    assert more_sites[0] > more_people[0] > 0


def test_intervals_hold_what_they_promise():
    level = gain = 0
    for seed in range(30):
        law = fit_law(measured(np.random.default_rng(seed)), 12, n_boot=40)
        low, high = law.interval(20)
        level += low <= truth(800, 20) <= high
        _, low, high = law.gain(20)
        gain += low <= truth(800, 20) - truth(480, 12) <= high
    assert level >= 25 and gain >= 25  # of 30, by 40 draws each


def test_at_the_present_number_of_people_more_sites_never_lower_the_curve():
    table = measured(np.random.default_rng(1), spread=0, noise=0)
    table["auc"] = 0.8 - 0.01 * table["n_sites"]
    law = fit_law(table, 12, n_boot=5)
    assert law.auc(24) >= law.auc(12)
