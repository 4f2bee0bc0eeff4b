"""Smaller studies drawn from a study: who is trained on, who is scored."""

import numpy as np
import pandas as pd
import pytest

from brainroam.errors import DataError
from brainroam.evaluation.planning.draws import draws, sizes


def people(n_sites=8, n=12):
    site = np.repeat([f"S{e}" for e in range(n_sites)], n)
    return pd.DataFrame({"site": site, "label": np.tile([0, 1, 0], len(site))[: len(site)]})


def test_no_site_is_on_both_sides_and_every_site_is_tested_in_every_cell():
    table = people()
    site = table["site"].to_numpy()
    tested = {}
    for draw in draws(table, 5, 0):
        assert not set(site[draw.train]) & set(site[draw.test])
        assert len(set(site[draw.train])) == draw.n_sites
        assert all((site == name).sum() == (site[draw.test] == name).sum() for name in set(site[draw.test]))
        tested.setdefault((draw.n_sites, draw.share), set()).update(site[draw.test])
    assert {n for n, _ in tested} == set(sizes(8)) and {share for _, share in tested} == {1.0, 0.5, 0.25}
    assert all(len(found) == 8 for found in tested.values())


def test_a_share_keeps_both_classes_of_each_training_site():
    table = people()
    for draw in draws(table, 3, 0):
        counts = table.iloc[draw.train].groupby(["site", "label"]).size().unstack()
        assert (counts >= 2).all(axis=None)
        if draw.share == 0.5:
            assert (counts[0] == 4).all() and (counts[1] == 2).all()


def test_relatives_of_people_to_be_scored_are_not_trained_on():
    table = people()
    table["group"] = [f"F{k % 40}" for k in range(len(table))]
    for draw in draws(table, 2, 0):
        assert not set(table["group"].iloc[draw.train]) & set(table["group"].iloc[draw.test])
        break


def test_five_sites_are_refused_and_so_are_sites_of_one_class():
    with pytest.raises(DataError, match="6 sites"):
        list(draws(people(5), 2, 0))
    table = people(6)
    table.loc[table["site"] == "S0", "label"] = 0
    with pytest.raises(DataError, match="are 5"):
        list(draws(table, 2, 0))
